//! What every generator gives: one collective operation on a number of ranks, of which nothing is stored per rank.

use castell_base::{Rank, Tag, Time};
use castell_goal::graph::{Graph, GraphError};
use castell_goal::program::Program;
use std::ops::Range;

/// One collective operation (or another pattern of messages) on a group of ranks.
///
/// A pattern is small however many ranks it has: [`Pattern::build`] makes one rank's graph when it is asked for.
/// The order of the vertices is part of the pattern, since engines break ties by it.
///
/// ```
/// use castell_base::Rank;
/// use castell_collectives::generator::{Generator, Options};
///
/// let barrier = Generator::parse("barrier:dissemination", &Options::new(8))?;
/// assert_eq!((barrier.ranks(), barrier.operations(Rank(5))), (8, 6));
/// assert_eq!(barrier.program()?.operations(), 48);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Pattern: Send + Sync {
    /// Size of the group.
    fn ranks(&self) -> u32;

    /// What people call it, such as `barrier:dissemination`; [`Generator::parse`](crate::generator::Generator::parse)
    /// reads it.
    fn name(&self) -> String;

    /// Appends this rank's operations to `graph`.
    ///
    /// # Errors
    /// A graph that is full.
    ///
    /// # Panics
    /// Where there is no such rank.
    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError>;

    /// How many vertices [`Pattern::build`] adds, without building where that can be told otherwise.
    fn operations(&self, rank: Rank) -> u64;

    /// The same pattern round by round, where every rank does the same in each round.
    fn rounds(&self) -> Option<&dyn Rounds> {
        None
    }

    /// The graphs of all ranks.
    ///
    /// # Errors
    /// A graph that is full.
    fn program(&self) -> Result<Program, GraphError> {
        let mut program = Program::new(self.ranks());
        for rank in (0..self.ranks()).map(Rank) {
            self.build(rank, program.rank_mut(rank))?;
        }
        Ok(program)
    }
}

/// A pattern in rounds: in round r each rank sends a message to each of `to(r, rank, 0..fan)`, receives one from each
/// of `from(r, rank, 0..fan)`, and computes once they are all there and the computation of the round before is over.
/// The sends of a round wait for the computation of the round before; receives wait for nothing.
///
/// A round without computation is over when its receives are, also if the round before is not: so LogGOPSim's patterns
/// have it. That makes a difference only where messages overtake one another.
pub trait Rounds: Send + Sync {
    /// Number of rounds.
    fn count(&self) -> u32;

    /// Messages that each rank sends, and receives, in a round.
    fn fan(&self, round: u32) -> u32;

    /// Receiver of the `i`-th message that `rank` sends.
    fn to(&self, round: u32, rank: Rank, i: u32) -> Rank;

    /// Sender of the `i`-th message that `rank` receives.
    fn from(&self, round: u32, rank: Rank, i: u32) -> Rank;

    /// Size of each message of the round.
    fn bytes(&self, round: u32) -> u64;

    /// How long each rank computes once the round's messages are there; whole nanoseconds. Zero: not at all.
    fn compute(&self, round: u32) -> Time;

    /// Label of the round's messages.
    fn tag(&self, _round: u32) -> Tag {
        Tag(0)
    }

    /// Whether what any rank `among` the `ranks` ranks sends as its `i`-th message of a round is what its receiver receives as
    /// its `j`-th.
    ///
    /// It is here, like the two below, because each pattern's arithmetic is then compiled into the loop: whoever
    /// asks for millions of ranks notices.
    fn is_paired(&self, round: u32, ranks: u32, among: Range<u32>, i: u32, j: u32) -> bool {
        among.map(Rank).all(|rank| {
            let dest = self.to(round, rank, i);
            dest.0 < ranks && self.from(round, dest, j) == rank
        })
    }

    /// Whether the sender of the `i`-th message of a round is as far before each rank `among` the `ranks` ranks as before the
    /// first one: along a ring of them, and in the bits that differ.
    fn is_shifted(&self, round: u32, ranks: u32, among: Range<u32>, i: u32) -> (bool, bool) {
        let first = self.from(round, Rank(0), i).0;
        among.fold((true, true), |(ring, bits), rank| {
            let sender = self.from(round, Rank(rank), i).0;
            let around = if sender >= rank { sender - rank } else { ranks - (rank - sender) };
            (ring & (around == first), bits & (sender ^ rank == first))
        })
    }

    /// Appends the sender of each message that `rank` receives, round by round.
    fn senders(&self, rank: Rank, into: &mut Vec<Rank>) {
        for round in 0..self.count() {
            into.extend((0..self.fan(round)).map(|i| self.from(round, rank, i)));
        }
    }
}

/// A pattern under another name.
pub(crate) struct Named<P> {
    pub name: &'static str,
    pub pattern: P,
}

impl<P: Pattern> Pattern for Named<P> {
    fn ranks(&self) -> u32 {
        self.pattern.ranks()
    }

    fn name(&self) -> String {
        self.name.into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        self.pattern.build(rank, graph)
    }

    fn operations(&self, rank: Rank) -> u64 {
        self.pattern.operations(rank)
    }

    fn rounds(&self) -> Option<&dyn Rounds> {
        self.pattern.rounds()
    }
}

/// Appends one rank's part of a pattern in rounds: in each round the sends in order, the receives in order, then
/// `calc`. A round without computation gets a `calc 0` only where several receives meet several sends, to join them.
pub(crate) fn build_rounds(rounds: &dyn Rounds, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
    let (mut before, mut last_calc) = (Vec::new(), None);
    for round in 0..rounds.count() {
        let (bytes, tag) = (rounds.bytes(round), rounds.tag(round));
        let place = castell_goal::op::Place::VOID;
        for i in 0..rounds.fan(round) {
            let send = graph.send(place, bytes, rounds.to(round, rank, i), tag)?;
            for &vertex in &before {
                graph.requires(vertex, send)?;
            }
        }
        before.clear();
        for i in 0..rounds.fan(round) {
            before.push(graph.recv(place, bytes, Some(rounds.from(round, rank, i)), Some(tag))?);
        }
        if computes(rounds, round) {
            let calc = graph.calc(rounds.compute(round).0 / PS_A_NS)?;
            for vertex in before.drain(..).chain(last_calc) {
                graph.requires(vertex, calc)?;
            }
            before.push(calc);
            last_calc = Some(calc);
        }
    }
    Ok(())
}

/// Vertices that [`build_rounds`] adds.
pub(crate) fn operations_of_rounds(rounds: &dyn Rounds) -> u64 {
    let count = |round| 2 * u64::from(rounds.fan(round)) + u64::from(computes(rounds, round));
    (0..rounds.count()).map(count).sum()
}

/// [`Pattern`] for a type that is its own [`Rounds`] and has a field `ranks`: everything follows from the rounds.
macro_rules! pattern_of_rounds {
    ($pattern:ty, $name:literal) => {
        impl $crate::pattern::Pattern for $pattern {
            fn ranks(&self) -> u32 {
                self.ranks
            }

            fn name(&self) -> String {
                $name.into()
            }

            fn build(
                &self,
                rank: castell_base::Rank,
                graph: &mut castell_goal::graph::Graph,
            ) -> Result<(), castell_goal::graph::GraphError> {
                $crate::pattern::build_rounds(self, rank, graph)
            }

            fn operations(&self, _rank: castell_base::Rank) -> u64 {
                $crate::pattern::operations_of_rounds(self)
            }

            fn rounds(&self) -> Option<&dyn $crate::pattern::Rounds> {
                Some(self)
            }
        }
    };
}
pub(crate) use pattern_of_rounds;

/// Picoseconds in a nanosecond, the unit of `calc`.
pub(crate) const PS_A_NS: u64 = 1000;

/// Whether a round ends in a `calc`.
fn computes(rounds: &dyn Rounds, round: u32) -> bool {
    let joins = || round + 1 < rounds.count() && rounds.fan(round) > 1 && rounds.fan(round + 1) > 1;
    rounds.compute(round) > Time(0) || joins()
}
