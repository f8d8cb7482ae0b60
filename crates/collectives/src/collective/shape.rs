//! How much data there is, and where each rank's part of it lies.

use super::placement::Placement;
use castell_base::Rank;
use std::sync::Arc;

/// The blocks of a buffer, one a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// So many elements each, one block behind the other.
    Uniform(u64),
    /// So many elements in all, cut in parts that differ by at most one element.
    Even(u64),
    /// First element and number of elements of each block; a rank looks only at those that it sends or receives.
    Listed(Arc<[(u64, u64)]>),
}

impl Blocks {
    /// Blocks of these sizes, one behind the other.
    pub fn packed(counts: &[u64]) -> Blocks {
        let starts = counts.iter().scan(0, |first, &count| {
            *first += count;
            Some((*first - count, count))
        });
        Blocks::Listed(starts.collect())
    }

    /// First element and number of elements of a rank's block.
    pub fn block(&self, rank: u32, ranks: u32) -> (u64, u64) {
        match self {
            Blocks::Uniform(count) => (u64::from(rank) * count, *count),
            Blocks::Even(total) => {
                let whole = crate::language::Segment { first: 0, count: *total };
                let part = whole.part(rank, ranks);
                (part.first, part.count)
            }
            Blocks::Listed(blocks) => blocks[rank as usize],
        }
    }

    /// Whether the blocks lie one behind the other in the order of their ranks.
    pub fn is_packed(&self) -> bool {
        match self {
            Blocks::Listed(blocks) => {
                let follows = |pair: &[(u64, u64)]| pair[0].0 + pair[0].1 == pair[1].0;
                blocks.first().is_none_or(|block| block.0 == 0) && blocks.windows(2).all(follows)
            }
            _ => true,
        }
    }

    /// Whether all blocks have the same size and lie one behind the other.
    pub fn is_uniform(&self) -> bool {
        match self {
            Blocks::Uniform(_) => true,
            Blocks::Even(_) => false,
            Blocks::Listed(blocks) => {
                self.is_packed() && blocks.windows(2).all(|pair| pair[0].1 == pair[1].1)
            }
        }
    }
}

/// The data of a collective operation, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of the group.
    pub ranks: u32,
    /// Where broadcasts begin and reductions end.
    pub root: Rank,
    /// Elements of the vector that is broadcast or reduced.
    pub count: u64,
    /// Size of an element.
    pub element_bytes: u64,
    /// The blocks of what is gathered, scattered or exchanged: of an alltoall, what goes to each rank.
    pub blocks: Blocks,
    /// Of an alltoall, what comes from each rank.
    pub arriving: Blocks,
    /// Elements of a segment, where an algorithm works in segments.
    pub segment: u64,
    /// Messages a round, where an algorithm has a choice: its radix less one. Of the hierarchical allreduce, the ranks
    /// that report to each leader.
    pub ways: u32,
    /// Operands must be combined in the order of ranks.
    pub in_order: bool,
    /// Results have the same bits in whichever order operands are combined, as sums of integers have and those of floats have not.
    pub is_exact: bool,
    /// Who shares a host, for two-level algorithms; `None`: so many consecutive ranks as `ways`, and one more.
    pub placement: Option<Arc<Placement>>,
}

impl Shape {
    /// Vectors of `count` elements of `element_bytes` bytes each, blocks of as many elements for each rank, root 0,
    /// segments of 64 KiB.
    pub fn new(ranks: u32, count: u64, element_bytes: u64) -> Shape {
        Shape {
            ranks,
            root: Rank(0),
            count,
            element_bytes,
            blocks: Blocks::Uniform(count),
            arriving: Blocks::Uniform(count),
            segment: (65536 / element_bytes.max(1)).max(1),
            ways: 1,
            in_order: false,
            is_exact: false,
            placement: None,
        }
        .with_messages()
    }

    /// Without elements the messages stay, empty: what an operation means for the order of ranks does not depend on sizes.
    fn with_messages(self) -> Shape {
        if self.count > 0 && self.element_bytes > 0 {
            return self;
        }
        let blocks = Blocks::Uniform(1);
        Shape { count: 1, element_bytes: 0, arriving: blocks.clone(), blocks, ..self }
    }

    /// The same with another root.
    pub fn with_root(self, root: Rank) -> Shape {
        Shape { root, ..self }
    }

    /// The same with other blocks.
    pub fn with_blocks(self, blocks: Blocks) -> Shape {
        if self.element_bytes == 0 { self } else { Shape { blocks, ..self } }
    }

    /// First element and number of elements of a rank's block.
    pub(super) fn block(&self, rank: u32) -> (u64, u64) {
        self.blocks.block(rank, self.ranks)
    }

    /// The number of a rank where the root is number 0.
    pub(super) fn turned(&self, rank: Rank) -> u32 {
        ((u64::from(rank.0) + u64::from(self.ranks) - u64::from(self.root.0)) % u64::from(self.ranks)) as u32
    }

    /// The rank that has this number where the root is number 0.
    pub(super) fn real(&self, turned: u32) -> Rank {
        Rank(((u64::from(turned) + u64::from(self.root.0)) % u64::from(self.ranks)) as u32)
    }

    /// The rank `steps` behind another one.
    pub(super) fn behind(&self, rank: Rank, steps: u32) -> Rank {
        Rank(((u64::from(rank.0) + u64::from(steps)) % u64::from(self.ranks)) as u32)
    }

    /// The rank `steps` before another one.
    pub(super) fn before(&self, rank: Rank, steps: u32) -> Rank {
        self.behind(rank, self.ranks - steps % self.ranks)
    }

    /// Number of segments of the vector, and the elements of each: first and count.
    pub(super) fn segments(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (segment, count) = (self.segment.max(1), self.count);
        (0..count.div_ceil(segment)).map(move |index| (index * segment, segment.min(count - index * segment)))
    }
}
