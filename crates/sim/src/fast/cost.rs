//! What a message of each size costs, worked out once before a run.

use super::encode::TIME_MAX;
use super::flat::Flat;
use castell_model::LogGops;

/// What a message costs the two ranks, in ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageCost {
    /// The sender's processor.
    pub send_cpu: u64,
    /// The sender's network interface.
    pub send_nic: u64,
    /// The receiver's processor.
    pub receive_cpu: u64,
    /// The receiver's network interface.
    pub receive_nic: u64,
    /// The sender goes on only when the receive has been posted.
    pub rendezvous: bool,
}

/// What messages cost on a machine of the LogGOPS family.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// From the start of a send to the arrival, in ps.
    pub latency: u64,
    /// In the order of the program's sizes.
    pub of_size: Vec<MessageCost>,
}

impl Costs {
    /// The costs of the sizes that the program has.
    pub fn new(flat: &Flat, model: &LogGops) -> Costs {
        let cost = |&bytes: &u64| MessageCost {
            send_cpu: model.send_busy(bytes).0,
            send_nic: model.interface_busy(bytes).0,
            receive_cpu: model.arrival_busy(bytes).0,
            receive_nic: model.interface_busy(bytes).0,
            rendezvous: !model.is_eager(bytes),
        };
        Costs { latency: model.flight().0, of_size: flat.sizes.iter().map(cost).collect() }
    }

    /// Whether no sum with a time that the engine counts with wraps around.
    pub fn are_small(&self) -> bool {
        let largest = |cost: &MessageCost| {
            let sender = cost.send_cpu.max(cost.send_nic);
            sender.max(cost.receive_cpu).max(cost.receive_nic)
        };
        self.latency.max(self.of_size.iter().map(largest).max().unwrap_or(0)) <= TIME_MAX
    }
}
