//! Dissemination: in round r each rank tells the one 2^r behind it, and hears from the one 2^r before it.

use crate::pattern::{Pattern, Rounds, pattern_of_rounds};
use castell_base::{Rank, Tag, Time};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::Place;

/// The dissemination barrier (Hensgen, Finkel, Manber 1988), ⌈log2 ranks⌉ rounds; each round's send waits for the
/// receive of the round before.
#[derive(Clone, Debug)]
pub struct Dissemination {
    ranks: u32,
    bytes: u64,
    compute: Time,
}

impl Dissemination {
    /// A barrier of `ranks` ranks with messages of `bytes`, each rank computing for `compute` a round.
    pub fn new(ranks: u32, bytes: u64, compute: Time) -> Dissemination {
        Dissemination { ranks, bytes, compute }
    }
}

pattern_of_rounds!(Dissemination, "barrier:dissemination");

impl Rounds for Dissemination {
    fn count(&self) -> u32 {
        self.ranks.next_power_of_two().trailing_zeros()
    }

    fn fan(&self, _round: u32) -> u32 {
        1
    }

    fn to(&self, round: u32, rank: Rank, _i: u32) -> Rank {
        Rank(((u64::from(rank.0) + (1 << round)) % u64::from(self.ranks)) as u32)
    }

    fn from(&self, round: u32, rank: Rank, _i: u32) -> Rank {
        let ranks = u64::from(self.ranks);
        Rank(((u64::from(rank.0) + ranks - (1 << round)) % ranks) as u32)
    }

    fn bytes(&self, _round: u32) -> u64 {
        self.bytes
    }

    fn compute(&self, _round: u32) -> Time {
        self.compute
    }
}

/// The shape of an allreduce by n-way dissemination: in round r each rank sends to those w·(n+1)^r behind it, for
/// w = 1 … n, and computes with what it got before it sends again. In the vertices and their order it is the pattern
/// that LogGOPSim's generator calls `nwaydissemination`.
///
/// With more than one way the calcs of a round form a chain, and the message of the first way has one of its own.
/// There are ⌈log(ranks) / log(n+1)⌉ rounds, exactly.
#[derive(Clone, Debug)]
pub struct WayDissemination {
    ranks: u32,
    bytes: u64,
    ways: u32,
}

impl WayDissemination {
    /// A dissemination of `bytes` over `ranks` ranks with `ways` (at least 1) messages a round. Each reduction takes a
    /// nanosecond a byte.
    pub fn new(ranks: u32, bytes: u64, ways: u32) -> WayDissemination {
        WayDissemination { ranks, bytes, ways: ways.max(1) }
    }

    /// The distance of each round's first message.
    fn distances(&self) -> impl Iterator<Item = u64> {
        let (ranks, radix) = (u64::from(self.ranks), u64::from(self.ways) + 1);
        std::iter::successors(Some(1), move |distance| Some(distance * radix)).take_while(move |&d| d < ranks)
    }

    /// Appends the calcs of a round; returns the last of the chain, and the one for all sends.
    fn reduce(&self, graph: &mut Graph, received: &[Vertex]) -> Result<(Vertex, Vertex), GraphError> {
        let mut last = received[0];
        for &recv in &received[1..] {
            let calc = graph.calc(self.bytes)?;
            graph.requires(recv, calc)?;
            graph.requires(last, calc)?;
            last = calc;
        }
        let calc = graph.calc(self.bytes)?;
        graph.requires(received[0], calc)?;
        Ok((last, calc))
    }
}

impl Pattern for WayDissemination {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        "allreduce:dissemination".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        let (me, ranks) = (u64::from(rank.0), u64::from(self.ranks));
        let mut received: Vec<Vertex> = Vec::new();
        for distance in self.distances() {
            let steps = || (1..=u64::from(self.ways)).map(|way| way * distance % ranks);
            let mut sends = Vec::new();
            for step in steps() {
                sends.push(graph.send(
                    Place::VOID,
                    self.bytes,
                    Rank(((me + step) % ranks) as u32),
                    Tag(0),
                )?);
            }
            if !received.is_empty() {
                let (last, all) = self.reduce(graph, &received)?;
                graph.requires(last, sends[sends.len() - 1])?;
                for &send in &sends {
                    graph.requires(all, send)?;
                }
            }
            received.clear();
            for step in steps() {
                let from = Rank(((me + ranks - step) % ranks) as u32);
                received.push(graph.recv(Place::VOID, self.bytes, Some(from), Some(Tag(0)))?);
            }
        }
        Ok(())
    }

    fn operations(&self, _rank: Rank) -> u64 {
        let rounds = self.distances().count() as u64;
        (3 * rounds).saturating_sub(1) * u64::from(self.ways)
    }
}
