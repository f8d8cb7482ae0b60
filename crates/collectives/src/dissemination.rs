//! Dissemination: in round r each rank tells the one 2^r behind it, and hears from the one 2^r before it.

use crate::pattern::{Pattern, Rounds, build_rounds, operations_of_rounds};
use castell_base::{Rank, Time};
use castell_goal::graph::{Graph, GraphError};

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

impl Pattern for Dissemination {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        "barrier:dissemination".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        build_rounds(self, rank, graph)
    }

    fn operations(&self, _rank: Rank) -> u64 {
        operations_of_rounds(self)
    }

    fn rounds(&self) -> Option<&dyn Rounds> {
        Some(self)
    }
}

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
