//! Programs as the fast engines want them: flat arrays, and one copy of what ranks have in common.
//!
//! Ranks whose graphs differ only in whom they talk to share a *shape*: peers are kept as distances (or as exclusive
//! ors) from the rank itself, whichever makes fewer shapes. A dissemination on a million ranks is one shape, a
//! binomial tree one for each number of children; a trace has a shape a rank and loses nothing by it.

use super::encode::Encoder;
use crate::source::Source;
use castell_base::Rank;
use castell_collectives::pattern::{Pattern, Rounds};
use castell_goal::graph::Graph;
use castell_goal::schedule::Schedule;

/// Why a program is left to the reference engine, which takes all of them and explains what is wrong with some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// An operation other than send, receive and calc, `any` or `concurrent`.
    Operation,
    /// More operations, ranks or dependencies than the arrays count.
    Size,
    /// A model, a network, a rule of ties that the engine does not have.
    Machine,
    /// Messages that might take no time, or wait for their receives: ranks that reach one another at once.
    Lookahead,
    /// So little happens at a time that windows are not worth their while.
    Sparse,
    /// Ranks that do not all do the same, or might not at the same time.
    Symmetry,
    /// Ranks that wait for one another in turns: none could run from its begin to its end.
    Turns,
    /// Events at the same time whose order depends on what happened at other ranks.
    Ties,
    /// Times beyond 2^62 ps.
    Time,
    /// Something that the reference engine reports as an error: a peer outside of the group, a receive whose
    /// message has another size, ranks that wait for one another.
    Mistake,
}

/// No slot, no match, no channel.
pub(super) const NONE: u32 = u32::MAX;
/// In an operation's peer or tag: any.
pub(super) const ANY: u32 = u32::MAX;

/// What an operation is; the order is that in which operations that are released together are queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(super) enum Kind {
    Send,
    Receive,
    Calc,
}

/// Something starts when this operation starts.
pub(super) const STARTS: u8 = 1;
/// Something starts when this operation has finished.
pub(super) const FINISHES: u8 = 2;
/// The operation waits for more than one other.
pub(super) const JOINS: u8 = 4;

/// The receive's channel has messages of several sizes.
pub(super) const UNEVEN: u8 = 8;

/// A send's partner: the receive is found by search.
pub(super) const WILD: u32 = TARGET;

/// One operation of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlatOp {
    /// A calc's duration in ps; where a message's size stands in the table of sizes.
    pub value: u64,
    /// A message's other end, encoded; [`ANY`] for a receive from anywhere.
    pub peer: u32,
    /// A message's tag; [`ANY`] for a receive of any.
    pub tag: u32,
    /// Where its list of successors begins.
    pub successors: u32,
    /// Its counter: dependencies left, and the state of a receive.
    pub slot: u32,
    /// A send's receive (the first with its source and tag) in the shape of the other rank, in one rank of this shape
    /// at least; [`WILD`] where the other rank matches by search, [`NONE`] without a receive. A receive's channel, or
    /// [`NONE`] where it is the only one with its source and tag.
    pub partner: u32,
    pub kind: Kind,
    pub cpu: u8,
    pub nic: u8,
    pub flags: u8,
}

impl FlatOp {
    /// Where the list of those that wait for its end begins.
    #[inline(always)]
    pub fn middle(&self, successors: &[u32]) -> u32 {
        let mut at = self.successors;
        if self.flags & STARTS != 0 {
            while successors[at as usize] & LAST == 0 {
                at += 1;
            }
            at += 1;
        }
        at
    }
}

/// In a list of successors: the operation's number in the shape.
pub(super) const TARGET: u32 = (1 << 30) - 1;
/// In a list of successors: it waits for others, too.
pub(super) const JOIN: u32 = 1 << 30;
/// In a list of successors: the list ends here. Those waiting for the start have a list before the others'.
pub(super) const LAST: u32 = 1 << 31;

/// What ranks have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub first_op: u32,
    pub ops: u32,
    pub first_root: u32,
    pub roots: u32,
    pub first_receive: u32,
    pub receives: u32,
    /// Ranks that have it.
    pub ranks: u32,
    /// Counters that each of them needs.
    pub slots: u32,
    /// Channels with several receives.
    pub channels: u32,
    /// A receive from any source or with any tag.
    pub wild: bool,
    /// Dependencies of the operation that has most.
    pub in_degree_max: u32,
    /// Where its counters begin, those of one number in all ranks beside each other.
    pub first_slot: usize,
    /// Where its channels begin.
    pub first_channel: usize,
}

impl Shape {
    /// Its part of the successors.
    pub fn successors(&self, flat: &Flat) -> (usize, usize) {
        let begin = flat.ops[self.first_op as usize..].first().map_or(0, |op| op.successors as usize);
        let next = flat.ops.get((self.first_op + self.ops) as usize);
        let end = next.map_or(flat.successors.len(), |op| op.successors as usize);
        if self.ops == 0 { (0, 0) } else { (begin, end) }
    }
}

/// A rank's shape, and its place among the ranks that have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub shape: u32,
    pub index: u32,
}

/// A receive of a shape by what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReceiveKey {
    pub peer: u32,
    pub tag: u32,
    pub op: u32,
}

/// How a peer follows from a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peers {
    /// peer - rank, modulo the number of ranks.
    Distance,
    /// peer xor rank.
    Mask,
}

impl Peers {
    #[inline(always)]
    pub fn encode(self, rank: u32, peer: u32, ranks: u32) -> u32 {
        match self {
            Peers::Mask => peer ^ rank,
            Peers::Distance if peer >= rank => peer - rank,
            Peers::Distance => peer.wrapping_sub(rank).wrapping_add(ranks),
        }
    }

    #[inline(always)]
    pub fn decode(self, rank: u32, code: u32, ranks: u32) -> u32 {
        match self {
            Peers::Mask => code ^ rank,
            Peers::Distance => {
                let sum = u64::from(rank) + u64::from(code);
                let ranks = u64::from(ranks);
                (if sum >= ranks { sum - ranks } else { sum }) as u32
            }
        }
    }
}

/// A whole program, ready to be run any number of times.
#[derive(Debug)]
pub struct Flat {
    pub(super) ranks: u32,
    pub(super) peers: Peers,
    pub(super) members: Vec<Member>,
    pub(super) shapes: Vec<Shape>,
    pub(super) ops: Vec<FlatOp>,
    /// The number of each operation of a shape in the order in which a schedule has its records.
    pub(super) numbers: Vec<u32>,
    pub(super) successors: Vec<u32>,
    /// Operations that wait for nothing, per shape, in the order in which they are queued.
    pub(super) roots: Vec<u32>,
    pub(super) receives: Vec<ReceiveKey>,
    /// Message sizes in bytes.
    pub(super) sizes: Vec<u64>,
    pub(super) slots: usize,
    pub(super) channels: usize,
    /// Processors or network interfaces that a rank has, whichever are more.
    pub(super) lanes: u32,
    /// Operations of all ranks.
    pub(super) operations: u64,
}

impl Flat {
    /// Flattens a program, wherever it comes from. Of a pattern there is one rank's graph at a time.
    ///
    /// # Errors
    /// [`Declined`] where the program needs the reference engine.
    ///
    /// ```
    /// use castell_collectives::generator::{Generator, Options};
    /// use castell_model::LogGops;
    /// use castell_sim::fast::Flat;
    ///
    /// let barrier = Generator::parse("barrier:dissemination", &Options::new(1000))?;
    /// let flat = Flat::new((&barrier).into()).expect("sends and receives");
    /// assert_eq!((flat.ranks(), flat.shapes()), (1000, 1));
    /// let finished = flat.run(&LogGops::default()).expect("nothing waits forever");
    /// assert_eq!(finished.events, 3 * 10 * 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(source: Source<'_>) -> Result<Flat, Declined> {
        match source {
            Source::Program(program) => {
                Flat::of_graphs(program.num_ranks(), |rank, visit| visit(program.rank(Rank(rank))))
            }
            Source::Pattern(pattern) => {
                if let Some(flat) = pattern.rounds().and_then(|rounds| Flat::of_rounds(pattern, rounds)) {
                    return Ok(flat);
                }
                Flat::of_graphs(pattern.ranks(), |rank, visit| {
                    let mut graph = Graph::new();
                    pattern.build(Rank(rank), &mut graph).map_err(|_| Declined::Size)?;
                    visit(&graph)
                })
            }
            Source::Schedules(schedules) => Flat::of_schedules(source.ranks(), schedules.iter()),
            Source::Set(set) => {
                let ranks = set.num_ranks();
                Flat::of_schedules(ranks, (0..ranks).map(|rank| set.rank(Rank(rank))))
            }
            Source::Compiled(schedules) => {
                Flat::of_schedules(source.ranks(), schedules.iter().map(|(_, schedule)| schedule))
            }
        }
    }

    /// The program of rank 0 alone, its sends not matched.
    pub(crate) fn of_first(graph: &Graph, ranks: u32) -> Result<Flat, Declined> {
        let mut build = Encoder::new(ranks, Peers::Distance);
        build.read_graph(0, graph)?;
        build.add()?;
        Ok(build.unmatched())
    }

    /// A pattern in rounds from rank 0's graph alone, where all ranks have the same peers, seen from themselves.
    fn of_rounds(pattern: &dyn Pattern, rounds: &dyn Rounds) -> Option<Flat> {
        let ranks = pattern.ranks();
        let mut graph = Graph::new();
        pattern.build(Rank(0), &mut graph).ok()?;
        if !crate::rounds::is_of_rounds(&graph, rounds) {
            return None;
        }
        let is_same = |peers: Peers, peer: &dyn Fn(u32) -> Rank| {
            let first = peer(0).0;
            (1..ranks).all(|rank| peer(rank).0 == peers.decode(rank, first, ranks))
        };
        let fits = |&peers: &Peers| {
            let mut messages = (0..rounds.count()).flat_map(|at| (0..rounds.fan(at)).map(move |i| (at, i)));
            messages.all(|(round, i)| {
                is_same(peers, &|rank| rounds.to(round, Rank(rank), i))
                    && is_same(peers, &|rank| rounds.from(round, Rank(rank), i))
            })
        };
        let peers = [Peers::Distance, Peers::Mask].into_iter().find(fits)?;
        let mut build = Encoder::new(ranks, peers);
        build.read_graph(0, &graph).ok()?;
        build.add_alike(ranks).ok()?;
        build.finish().ok()
    }

    fn of_schedules<'a>(ranks: u32, schedules: impl Iterator<Item = &'a Schedule>) -> Result<Flat, Declined> {
        let mut build = Encoder::new(ranks, Peers::Distance);
        for (rank, schedule) in schedules.enumerate() {
            build.read_schedule(rank as u32, schedule)?;
            build.add()?;
        }
        build.finish()
    }

    /// Flattens graphs that `graph` shows one at a time, so that all of them need never be there together. It is
    /// asked for some ranks twice.
    fn of_graphs(
        ranks: u32,
        graph: impl Fn(u32, Visit<'_>) -> Result<(), Declined>,
    ) -> Result<Flat, Declined> {
        let mut build = Encoder::new(ranks, better_encoding(ranks, &graph)?);
        for rank in 0..ranks {
            graph(rank, &mut |graph| build.read_graph(rank, graph))?;
            build.add()?;
        }
        build.finish()
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Different shapes among the ranks.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }

    /// Puts operations of a shape that were released together in the order in which they are queued; how many send. Here, once, and not in
    /// the engines, of which there is one for each model: it is a large part of what there would be to compile.
    pub(super) fn put_in_order(&self, shape: &Shape, released: &mut [u32]) -> usize {
        let kind = |&at: &u32| self.ops[(shape.first_op + at) as usize].kind;
        // Stable: within a kind in the order in which they were released.
        released.sort_by_key(kind);
        released.partition_point(|at| kind(at) == Kind::Send)
    }
}

/// Is shown a graph.
type Visit<'a> = &'a mut dyn FnMut(&Graph) -> Result<(), Declined>;

/// The encoding with fewer shapes among a few ranks.
fn better_encoding(
    ranks: u32,
    graph: &impl Fn(u32, Visit<'_>) -> Result<(), Declined>,
) -> Result<Peers, Declined> {
    const SAMPLE: u32 = 24;
    let mut shapes = Vec::with_capacity(2);
    for peers in [Peers::Distance, Peers::Mask] {
        let mut sample = Encoder::new(ranks, peers);
        for i in 0..SAMPLE.min(ranks) {
            let rank = (u64::from(i) * u64::from(ranks) / u64::from(SAMPLE.min(ranks))) as u32;
            graph(rank, &mut |graph| sample.read_graph(rank, graph))?;
            sample.add()?;
        }
        shapes.push((sample.shapes(), peers));
    }
    let fewest = shapes.into_iter().min_by_key(|&(shapes, _)| shapes);
    Ok(fewest.map_or(Peers::Distance, |(_, peers)| peers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Tag;
    use castell_goal::op::Place;
    use std::cell::RefCell;

    /// By the ranks' graphs: which encoding is taken, and which ranks have been looked at for it.
    fn encoding(ranks: u32, peer: impl Fn(u32) -> u32) -> (Peers, Vec<u32>) {
        let asked = RefCell::new(Vec::new());
        let peers = better_encoding(ranks, &|rank, visit| {
            asked.borrow_mut().push(rank);
            let mut graph = Graph::new();
            graph.send(Place::VOID, 8, Rank(peer(rank)), Tag(0)).expect("a small graph");
            visit(&graph)
        });
        (peers.expect("sends"), asked.into_inner())
    }

    #[test]
    fn the_encoding_with_fewer_shapes_is_found_by_ranks_from_everywhere() {
        for ranks in [1, 2, 23, 24, 25, 100, 2400, 100_001] {
            let (peers, asked) = encoding(ranks, |rank| (rank + 1) % ranks);
            // With one rank or two either fits.
            assert_eq!(peers, Peers::Distance);
            let (one, other) = asked.split_at(asked.len() / 2);
            assert_eq!(one, other, "for either encoding");
            assert_eq!(one.len() as u32, ranks.min(24));
            // As far from one another as so few can be.
            let gap = ranks / one.len() as u32;
            let ends = one.iter().skip(1).copied().chain([ranks]);
            assert_eq!(one.first(), Some(&0));
            assert!(
                one.iter().zip(ends).all(|(&rank, next)| (gap..=gap + 1).contains(&(next - rank))),
                "{one:?}"
            );
        }
        assert_eq!(encoding(64, |rank| rank ^ 4).0, Peers::Mask);
    }
}
