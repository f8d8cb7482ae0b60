//! What a simulation says.

use castell_base::{Rank, Time};

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Size of the program.
    pub ranks: u32,
    /// Operations executed, and one arrival a message: LogGOPSim's count.
    pub events: u64,
    /// When each rank was done: its last operation finished, its last processor free.
    pub end: Vec<Time>,
    /// Messages that arrived and were never received.
    pub unreceived: u64,
    /// The scratchpads at the end, where data were carried.
    pub memory: Option<Vec<Vec<u8>>>,
}

impl Outcome {
    /// When the last rank was done.
    pub fn makespan(&self) -> Time {
        self.end.iter().copied().max().unwrap_or(Time::ZERO)
    }

    /// How much earlier the first rank was done than the last.
    pub fn skew(&self) -> Time {
        self.makespan() - self.end.iter().copied().min().unwrap_or(Time::ZERO)
    }

    /// The rank that was done last; the lowest of several.
    pub fn last_rank(&self) -> Option<Rank> {
        let makespan = self.makespan();
        self.end.iter().position(|&end| end == makespan).map(|rank| Rank(rank as u32))
    }
}
