//! The shape of an allreduce by recursive halving and doubling (Rabenseifner), on powers of two.

use crate::pattern::{Rounds, pattern_of_rounds};
use castell_base::{Rank, Time};

/// A reduce-scatter in which partners' distances double and messages halve, then an allgather that goes back.
#[derive(Clone, Debug)]
pub struct HalvingDoubling {
    ranks: u32,
    bytes: u64,
    compute: Time,
}

impl HalvingDoubling {
    /// An allreduce of `bytes`; each rank computes for `compute` in each round of the reduce-scatter. `None` where
    /// `ranks` is no power of two.
    pub fn new(ranks: u32, bytes: u64, compute: Time) -> Option<HalvingDoubling> {
        ranks.is_power_of_two().then_some(HalvingDoubling { ranks, bytes, compute })
    }

    /// Rounds of the reduce-scatter, and of the allgather.
    fn half(&self) -> u32 {
        self.ranks.trailing_zeros()
    }

    /// Rounds of the reduce-scatter that were done before a round or are undone by it, less one.
    fn depth(&self, round: u32) -> u32 {
        if round < self.half() { round } else { 2 * self.half() - 1 - round }
    }
}

pattern_of_rounds!(HalvingDoubling, "allreduce:halving-doubling");

impl Rounds for HalvingDoubling {
    fn count(&self) -> u32 {
        2 * self.half()
    }

    fn fan(&self, _round: u32) -> u32 {
        1
    }

    fn to(&self, round: u32, rank: Rank, _i: u32) -> Rank {
        Rank(rank.0 ^ (1 << self.depth(round)))
    }

    fn from(&self, round: u32, rank: Rank, i: u32) -> Rank {
        self.to(round, rank, i)
    }

    fn bytes(&self, round: u32) -> u64 {
        // What is lost to rounding on the way down does not come back on the way up.
        let half = self.half();
        if round < half { self.bytes >> (round + 1) } else { (self.bytes >> half) << (round - half) }
    }

    fn compute(&self, round: u32) -> Time {
        if round < self.half() { self.compute } else { Time(0) }
    }
}
