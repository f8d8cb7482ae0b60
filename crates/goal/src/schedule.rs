//! The compiled form of a graph: one compact, relocatable block that never changes.
//!
#![doc = include_str!("SCHEDULE.md")]

use crate::codec::{self, CONCURRENT, JOIN, LANES, Layout, SOLE};
use crate::compile::CompileError;
use crate::op::{Op, Traits};
use castell_base::Rank;

#[cfg(doc)]
use crate::graph::Graph;

/// Words before the first record.
pub(crate) const HEADER_WORDS: usize = 18;
/// Record offsets have 31 bits.
pub(crate) const WORDS_MAX: u64 = 1 << 31;
/// In the table of joins, beside the record's offset: the counter starts at `any`, not at the in-degree.
pub(crate) const ANY_JOIN: u32 = 1 << 31;

/// Words of the header.
pub(crate) mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const BYTES: usize = 2;
    pub const CHECKSUM: usize = 4;
    pub const RANK: usize = 5;
    pub const RANKS: usize = 6;
    pub const OPS: usize = 7;
    pub const INDEPENDENT: usize = 8;
    pub const JOINS: usize = 9;
    pub const READY_MAX: usize = 10;
    pub const SCRATCHPAD: usize = 11;
    pub const JOINS_AT: usize = 13;
    pub const NEEDS_AT: usize = 14;
    pub const BLOCKS_AT: usize = 15;
    pub const NAMES_AT: usize = 16;
    pub const NAMES: usize = 17;
}

/// An operation of a [`Schedule`]: the word offset of its record from the block's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

/// Whom a schedule exchanges messages with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Ranks that it sends or puts to, ascending.
    pub destinations: Vec<Rank>,
    /// Ranks that it receives or gets from by name, ascending.
    pub sources: Vec<Rank>,
    /// Whether a receive takes messages from any source.
    pub any_source: bool,
}

/// A compiled graph: made by [`Graph::compile`] or read by [`Schedule::from_bytes`], run by a
/// [`Stepper`](crate::stepper::Stepper). Any number of runs may share one at the same time.
///
/// ```
/// use castell_base::{Rank, Tag};
/// use castell_goal::graph::Graph;
/// use castell_goal::op::{Op, Place};
///
/// let mut graph = Graph::new();
/// let ask = graph.send(Place::VOID, 8, Rank(1), Tag(0))?;
/// let answer = graph.recv(Place::VOID, 100, Some(Rank(1)), Some(Tag(0)))?;
/// graph.requires(ask, answer)?;
/// graph.set_label(answer, "answer")?;
///
/// let schedule = graph.compile()?;
/// let ids: Vec<_> = schedule.operations().collect();
/// assert!(matches!(schedule.op(ids[0]), Op::Send { bytes: 8, .. }));
/// assert_eq!(schedule.successors(ids[0]).collect::<Vec<_>>(), [ids[1]]);
/// assert_eq!(schedule.label(ids[1]), Some("answer"));
/// assert_eq!(schedule.max_message_bytes(), 100);
/// assert_eq!(schedule.peers().destinations, [Rank(1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Header, records, joins, needs, blocks.
    words: Box<[u32]>,
    labels: Labels,
    peers: Peers,
    max_message_bytes: u64,
}

/// Labels in the order of their records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    pub ids: Vec<u32>,
    /// Where each label ends in the text; it starts where the one before it ends.
    pub ends: Vec<u32>,
    pub text: String,
}

impl Labels {
    pub fn push(&mut self, id: OpId, label: &str) {
        self.text.push_str(label);
        self.ids.push(id.0);
        self.ends.push(self.text.len() as u32);
    }

    fn get(&self, id: OpId) -> Option<&str> {
        let index = self.ids.binary_search(&id.0).ok()?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.text[start as usize..self.ends[index] as usize])
    }
}

/// What a schedule is put together from.
pub(crate) struct Parts {
    /// Room for the header, then records, joins, needs, blocks.
    pub words: Vec<u32>,
    pub ops: u32,
    pub independent: u32,
    pub joins: u32,
    pub ready_max: u32,
    pub records_end: u32,
    pub scratchpad_bytes: u64,
    pub labels: Labels,
    /// Rank and number of ranks; both 0: none.
    pub group: (Rank, u32),
}

impl Schedule {
    pub(crate) fn from_parts(parts: Parts) -> Schedule {
        let Parts { mut words, ops, independent, joins, ready_max, records_end, scratchpad_bytes, .. } =
            parts;
        let (Rank(rank), ranks) = parts.group;
        let needs_at = records_end + joins;
        let fields = [
            (header::RANK, rank),
            (header::RANKS, ranks),
            (header::OPS, ops),
            (header::INDEPENDENT, independent),
            (header::JOINS, joins),
            (header::READY_MAX, ready_max),
            (header::SCRATCHPAD, scratchpad_bytes as u32),
            (header::SCRATCHPAD + 1, (scratchpad_bytes >> 32) as u32),
            (header::JOINS_AT, records_end),
            (header::NEEDS_AT, needs_at),
            (header::BLOCKS_AT, needs_at + joins),
            (header::NAMES_AT, words.len() as u32),
            (header::NAMES, parts.labels.ids.len() as u32),
        ];
        for (at, value) in fields {
            words[at] = value;
        }
        let words = words.into_boxed_slice();
        let (peers, max_message_bytes) = (Peers::default(), 0);
        let mut schedule = Schedule { words, labels: parts.labels, peers, max_message_bytes };
        schedule.survey();
        schedule
    }

    /// Finds peers and the largest message, once.
    fn survey(&mut self) {
        let (mut destinations, mut sources) = (RankSet::default(), RankSet::default());
        let (mut any_source, mut largest) = (false, 0);
        for id in self.operations() {
            let size = match self.op(id) {
                Op::Send { bytes, dest, .. } | Op::Put { bytes, dest, .. } => {
                    destinations.insert(dest);
                    bytes
                }
                Op::Recv { bytes, source: None, .. } => {
                    any_source = true;
                    bytes
                }
                Op::Recv { bytes, source: Some(source), .. } | Op::Get { bytes, source, .. } => {
                    sources.insert(source);
                    bytes
                }
                _ => 0,
            };
            largest = largest.max(size);
        }
        let (destinations, sources) = (destinations.into_sorted(), sources.into_sorted());
        self.peers = Peers { destinations, sources, any_source };
        self.max_message_bytes = largest;
    }

    /// Notes which rank of how many this schedule is for; kept in its bytes.
    ///
    /// # Errors
    /// [`CompileError::OutsideGroup`] where the rank or a peer is not in such a group.
    pub fn for_group(mut self, rank: Rank, ranks: u32) -> Result<Schedule, CompileError> {
        let peers = [self.peers.destinations.last(), self.peers.sources.last(), Some(&rank)];
        if let Some(outside) = peers.into_iter().flatten().find(|peer| peer.0 >= ranks) {
            return Err(CompileError::OutsideGroup { rank: outside.0, ranks });
        }
        self.words[header::RANK] = rank.0;
        self.words[header::RANKS] = ranks;
        Ok(self)
    }

    /// The rank that this schedule was made for, and the number of ranks, if that was noted.
    pub fn group(&self) -> Option<(Rank, u32)> {
        let ranks = self.words[header::RANKS];
        (ranks > 0).then(|| (Rank(self.words[header::RANK]), ranks))
    }

    /// The operation.
    ///
    /// # Panics
    /// Where `id` is not one of this schedule's; so do the other queries, or they answer nonsense.
    #[inline(always)]
    pub fn op(&self, id: OpId) -> Op<'_> {
        let (head, body) = codec::head_and_body(&self.words, id.0 as usize);
        codec::decode(head, body, self.blocks())
    }

    /// What the operation carries besides. `any` is told as it was set, also where it equals the in-degree.
    pub fn traits(&self, id: OpId) -> Traits {
        let Layout { head, lanes, .. } = self.layout(id);
        let lanes = if head & LANES == 0 { 0 } else { self.words[lanes] };
        let any = if head & JOIN == 0 { None } else { self.any(id) };
        Traits { any, concurrent: head & CONCURRENT != 0, cpu: lanes as u8, nic: (lanes >> 8) as u8 }
    }

    /// The operation's name, if it has one.
    pub fn label(&self, id: OpId) -> Option<&str> {
        self.labels.get(id)
    }

    /// All operations in the order of their records: each behind those that it waits for.
    pub fn operations(&self) -> impl Iterator<Item = OpId> + '_ {
        let (mut at, end) = (HEADER_WORDS as u32, self.words[header::JOINS_AT]);
        std::iter::from_fn(move || {
            let id = OpId(at);
            (at < end).then(|| {
                at = self.layout(id).end as u32;
                id
            })
        })
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.words[header::OPS] as usize
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of operations that wait for nothing; they are the first of [`Schedule::operations`].
    pub fn independent(&self) -> usize {
        self.words[header::INDEPENDENT] as usize
    }

    /// At most so many operations are ready at the same time.
    pub fn ready_max(&self) -> usize {
        self.words[header::READY_MAX] as usize
    }

    /// Size of the scratchpad that each run needs.
    pub fn scratchpad_bytes(&self) -> u64 {
        let half = |at| u64::from(self.words[at]);
        half(header::SCRATCHPAD) | half(header::SCRATCHPAD + 1) << 32
    }

    /// Size of the largest message that is sent, received, put or got.
    pub fn max_message_bytes(&self) -> u64 {
        self.max_message_bytes
    }

    /// With whom messages are exchanged.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The operations that wait until this one has finished.
    pub fn successors(&self, id: OpId) -> impl ExactSizeIterator<Item = OpId> + '_ {
        let Layout { entries, successors, .. } = self.layout(id);
        self.targets(entries, successors)
    }

    /// The operations that wait until this one has started.
    pub fn start_successors(&self, id: OpId) -> impl ExactSizeIterator<Item = OpId> + '_ {
        let Layout { entries, successors, start_successors, .. } = self.layout(id);
        self.targets(entries + successors, start_successors)
    }

    /// Bytes of the block without labels.
    pub fn bytes(&self) -> usize {
        4 * self.words.len()
    }

    #[inline]
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The record's offset (with [`ANY_JOIN`]) of each join.
    #[inline]
    pub(crate) fn joins(&self) -> &[u32] {
        &self.words[self.words[header::JOINS_AT] as usize..self.words[header::NEEDS_AT] as usize]
    }

    /// Where each join's counter starts.
    #[inline]
    pub(crate) fn needs(&self) -> &[u32] {
        &self.words[self.words[header::NEEDS_AT] as usize..self.words[header::BLOCKS_AT] as usize]
    }

    #[inline]
    fn blocks(&self) -> &[u32] {
        &self.words[self.words[header::BLOCKS_AT] as usize..]
    }

    #[inline]
    fn layout(&self, id: OpId) -> Layout {
        Layout::of(&self.words, id.0 as usize).expect("an operation of this schedule")
    }

    fn any(&self, id: OpId) -> Option<u32> {
        let index = self.joins().binary_search_by_key(&id.0, |join| join & !ANY_JOIN).ok()?;
        (self.joins()[index] & ANY_JOIN != 0).then(|| self.needs()[index])
    }

    fn targets(&self, at: usize, count: usize) -> impl ExactSizeIterator<Item = OpId> + '_ {
        let joins = self.joins();
        self.words[at..at + count].iter().map(move |&entry| match entry & SOLE {
            0 => OpId(joins[entry as usize] & !ANY_JOIN),
            _ => OpId(entry & !SOLE),
        })
    }
}

/// Collects ranks; the room it takes follows the number of different ranks, not of insertions.
#[derive(Default)]
struct RankSet {
    ranks: Vec<Rank>,
    distinct: usize,
}

impl RankSet {
    fn insert(&mut self, rank: Rank) {
        if self.ranks.last() == Some(&rank) {
            return;
        }
        self.ranks.push(rank);
        if self.ranks.len() > 2 * self.distinct + 64 {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.ranks.sort_unstable();
        self.ranks.dedup();
        self.distinct = self.ranks.len();
    }

    fn into_sorted(mut self) -> Vec<Rank> {
        self.sort();
        self.ranks
    }
}
