//! Trees over the ranks, and the patterns that send along their edges.

use crate::pattern::Pattern;
use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, GraphError};
use castell_goal::op::Place;

/// Swaps rank 0 and the root: what was made for root 0 works for any other.
pub(crate) fn swap_root(rank: u32, root: u32) -> u32 {
    match rank {
        0 => root,
        rank if rank == root => 0,
        rank => rank,
    }
}

/// A broadcast along a binomial tree whose distances double: in round r each of the first 2^r ranks sends to the
/// one 2^r behind it. A rank sends only after it has received.
#[derive(Clone, Debug)]
pub struct BinomialBroadcast {
    ranks: u32,
    bytes: u64,
    root: Rank,
}

impl BinomialBroadcast {
    /// A broadcast of `bytes` from `root`.
    pub fn new(ranks: u32, bytes: u64, root: Rank) -> BinomialBroadcast {
        BinomialBroadcast { ranks, bytes, root }
    }

    /// The ranks (root and rank 0 swapped) that `me` sends to, nearest first.
    fn children(&self, me: u32) -> impl Iterator<Item = u32> {
        let (first, ranks) = (if me > 0 { me.ilog2() + 1 } else { 0 }, u64::from(self.ranks));
        let all = (first..u32::BITS).map(move |bit| u64::from(me) + (1 << bit));
        all.take_while(move |&child| child < ranks).map(|child| child as u32)
    }

    fn peer(&self, virtual_rank: u32) -> Rank {
        Rank(swap_root(virtual_rank, self.root.0))
    }
}

impl Pattern for BinomialBroadcast {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        "bcast:binomial".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        let me = swap_root(rank.0, self.root.0);
        let mut recv = None;
        if me > 0 {
            // The highest bit tells the round in which a rank is reached, and from where.
            let father = self.peer(me - (1 << me.ilog2()));
            recv = Some(graph.recv(Place::VOID, self.bytes, Some(father), Some(Tag(0)))?);
        }
        for child in self.children(me) {
            let send = graph.send(Place::VOID, self.bytes, self.peer(child), Tag(0))?;
            if let Some(recv) = recv {
                graph.requires(recv, send)?;
            }
        }
        Ok(())
    }

    fn operations(&self, rank: Rank) -> u64 {
        let me = swap_root(rank.0, self.root.0);
        u64::from(me > 0) + self.children(me).count() as u64
    }
}
