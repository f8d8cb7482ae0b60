//! Bulk synchronous parallel.

use crate::parameters::{Parameters, Slot};
use crate::{ClosedForms, Tree};
use castell_base::{PerByte, Time};
use std::collections::BTreeMap;

/// BSP: a program is a sequence of supersteps, each of which computes, communicates and ends in a barrier.
///
/// A superstep takes max wᵢ + max (g·hᵢ) + l, where rank i computes for wᵢ and takes part in hᵢ messages.
///
/// Source: Valiant, "A bridging model for parallel computation", CACM 33(8), 1990; equation 4.1 of "Larger-scale
/// collectives" (2020). The term G·n for the bytes of a rank is ours; it is 0 in the paper, whose messages are words.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bsp {
    /// g: time a message, in the steady state (default 1 us).
    pub gap: Time,
    /// G: time a byte of a rank's messages (default 0).
    pub gap_per_byte: PerByte,
    /// l: time of the barrier at the end of a superstep (default 5 us).
    pub barrier: Time,
}

impl Default for Bsp {
    fn default() -> Bsp {
        Bsp { gap: Time::from_us(1), gap_per_byte: PerByte::ZERO, barrier: Time::from_us(5) }
    }
}

/// What one rank does in a superstep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Work {
    /// w: for how long it computes.
    pub compute: Time,
    /// h: messages that it sends or receives, whichever are more.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
}

impl Bsp {
    /// A superstep in which the ranks do this work: max wᵢ + max (g·hᵢ + G·nᵢ) + l. Without ranks there is no superstep,
    /// and it takes no time.
    pub fn superstep(&self, ranks: impl IntoIterator<Item = Work>) -> Time {
        let cost = |work: Work| {
            let communication = self.gap * work.messages + self.gap_per_byte.of(work.bytes);
            (work.compute, communication)
        };
        let larger = |a: (Time, Time), b: (Time, Time)| (a.0.max(b.0), a.1.max(b.1));
        let largest = ranks.into_iter().map(cost).reduce(larger);
        largest.map_or(Time::ZERO, |(compute, communication)| compute + communication + self.barrier)
    }

    /// A superstep in which no rank computes and the busiest sends `messages` messages of `bytes` bytes.
    fn messages(&self, messages: u64, bytes: u64) -> Time {
        self.superstep([Work { compute: Time::ZERO, messages, bytes: messages.saturating_mul(bytes) }])
    }
}

/// Messages arrive at the end of their superstep; in the next, a rank of a tree sends to all of its children.
impl ClosedForms for Bsp {
    fn arrival(&self, _index: u64, count: u64, bytes: u64) -> Time {
        self.messages(count, bytes)
    }

    fn multicast(&self, peers: u64, bytes: u64) -> Time {
        if peers == 0 { Time::ZERO } else { self.messages(peers, bytes) }
    }

    fn exchange(&self, bytes: u64) -> (Time, Time) {
        (self.messages(1, bytes), Time::ZERO)
    }

    fn broadcast(&self, tree: Tree, ranks: u64, bytes: u64) -> Time {
        match tree {
            Tree::Linear => self.multicast(ranks.saturating_sub(1), bytes),
            Tree::Chain => self.messages(1, bytes) * ranks.saturating_sub(1),
            Tree::KNomial { .. } => {
                let levels = tree.sends_by_level(ranks, &mut BTreeMap::new());
                levels.into_iter().map(|messages| self.messages(messages, bytes)).sum()
            }
        }
    }
}

impl Parameters for Bsp {
    const NAME: &'static str = "bsp";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("g", Slot::Time(&mut self.gap)),
            ("G", Slot::PerByte(&mut self.gap_per_byte)),
            ("l", Slot::Time(&mut self.barrier)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZero;

    #[test]
    fn a_superstep_takes_its_largest_work_its_largest_communication_and_the_barrier() {
        let bsp = Bsp { gap: Time(10), gap_per_byte: PerByte::new(1, 2), barrier: Time(1000) };
        let busy = Work { compute: Time(500), messages: 1, bytes: 8 };
        let talkative = Work { compute: Time(3), messages: 7, bytes: 56 };
        assert_eq!(bsp.superstep([busy, talkative]), Time(500 + 70 + 28 + 1000));
        assert_eq!(bsp.superstep([Work::default()]), Time(1000));
        assert_eq!(bsp.superstep([]), Time::ZERO);
    }

    #[test]
    fn rounds_are_supersteps() {
        let bsp = Bsp { gap: Time(10), gap_per_byte: PerByte::ZERO, barrier: Time(1000) };
        assert_eq!(bsp.ping_pong(8), Time(2 * 1010));
        assert_eq!(bsp.multicast(5, 8), Time(1050));
        // The root of 9 has 4 children, of which those with most children have 2, of which one has one.
        assert_eq!(bsp.broadcast(Tree::BINOMIAL, 9, 8), Time(1040 + 1020 + 1010));
        let three = Tree::KNomial { sends: NonZero::new(2).unwrap() };
        // The root's children are 1 to 3, 6 and 9; rank 1 and 2 send to 4 and 7, and to 5 and 8.
        assert_eq!(bsp.broadcast(three, 10, 8), Time(1050 + 1020));
        assert_eq!(bsp.recursive_doubling(8, 8, Time(1)), Time(3 * 1011));
        assert_eq!(bsp.dissemination(9, 8), Time(4 * 1010));
    }
}
