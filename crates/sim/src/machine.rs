//! What a program runs on.

use crate::costs::LogCosts;
use crate::network::Network;
use castell_base::{PerByte, Time};
use std::sync::Arc;

/// A machine: what things cost on it, and what comes first where times are equal.
#[derive(Clone)]
pub struct Machine {
    pub(crate) costs: LogCosts,
    /// Links that messages share; without one they never meet on their way.
    pub network: Option<Arc<dyn Network>>,
    /// The rule of ties.
    pub ties: Ties,
}

impl Machine {
    /// LogGOPS with LogGOPSim's default parameters and order: L = 2.5 us, o = 1.5 us, g = 1 us, G = 6 ns, O = 0,
    /// S = 65,535 bytes.
    pub fn loggopsim() -> Machine {
        Machine {
            costs: LogCosts {
                latency: Time::from_ns(2_500),
                overhead: Time::from_ns(1_500),
                gap: Time::from_ns(1_000),
                gap_per_byte: PerByte::from_ns(6),
                overhead_per_byte: PerByte::ZERO,
                eager_max: Some(65_535),
                capacity: None,
            },
            network: None,
            ties: Ties::Insertion,
        }
    }
}

/// Which of several things that could happen at the same time happens first. It belongs to the machine: results depend
/// on it wherever a resource is wanted twice at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ties {
    /// What was created first, as in LogGOPSim: events of the same time happen in the order in which they were created,
    /// and one whose resource is busy keeps its place when it is put back. Operations that become ready together are
    /// created sends first, then receives, then the others, otherwise in the order in which they became ready; ranks in
    /// ascending order. What waits for an operation is created as soon as it is certain when that will finish.
    Insertion,
    /// By rank and within a rank by kind: what has finished, then arrivals (by sender, then in order of sending), then
    /// receives, then sends and puts, then computing; within a kind in the order of the rank's schedule. Nothing of it
    /// depends on what happens at other ranks.
    Rank,
}
