//! Costs of two levels: between ranks of one host, and between hosts.
//!
//! A rank has one processor and one network interface for both: a message over the network and one within the host wait for each other there.

use crate::cost::{ArrivalCost, Costs, Occasion, SendCost};
use castell_base::{Rank, Time};
use std::sync::Arc;

/// A model a level, and who shares a host.
pub(crate) struct Levels<C> {
    pub within: C,
    pub between: C,
    pub host_of: Arc<[u32]>,
}

impl<C> Levels<C> {
    fn of(&self, one: Rank, other: Rank) -> &C {
        let is_within = self.host_of[one.index()] == self.host_of[other.index()];
        if is_within { &self.within } else { &self.between }
    }
}

impl<C: Costs> Costs for Levels<C> {
    fn send(&self, occasion: &Occasion) -> SendCost {
        self.of(occasion.rank, occasion.peer).send(occasion)
    }

    fn arrival(&self, occasion: &Occasion) -> ArrivalCost {
        self.of(occasion.rank, occasion.peer).arrival(occasion)
    }

    fn arrival_waits(&self) -> bool {
        self.between.arrival_waits()
    }

    fn rendezvous_between(&self, bytes: u64, (from, to): (Rank, Rank)) -> bool {
        self.of(from, to).rendezvous(bytes)
    }

    fn compute(&self, occasion: &Occasion, time: Time) -> Time {
        self.within.compute(occasion, time)
    }

    fn local(&self, occasion: &Occasion, bytes: u64) -> Time {
        self.within.local(occasion, bytes)
    }
}
