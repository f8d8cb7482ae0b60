//! LoP: overheads and hardware times that depend on the number of messages.

use crate::parameters::{Parameters, Slot};
use crate::{ByCount, ClosedForms};
use castell_base::Time;

/// LoP: of p small messages that a rank sends at once, each keeps the sender's processor busy for o_s(p) and its network
/// interface for h_s(p), travels for L, and keeps the receiver's interface busy for h_r(p) and its processor for o_r(p).
/// There is no gap; the interfaces work on several messages at a time, and what that costs is in the h's.
///
/// The i-th of p messages can be used i·o_s(p) + h_s(p) + L + h_r(p) + o_r(p) after the start.
///
/// Source: Hoefler and Rehm, "A communication model for small messages with InfiniBand", PARS 2005; sections 4.2.4 and
/// 4.3.3 of "Larger-scale collectives" (2020). They fit curves of six parameters to measured round trips; here each of
/// the four functions is a constant or a measured table, interpolated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lop {
    /// L (default 2500 ns, as LogP's).
    pub latency: Time,
    /// o_s (default 1500 ns, as LogP's).
    pub overhead_send: ByCount,
    /// o_r (default 1500 ns, as LogP's).
    pub overhead_receive: ByCount,
    /// h_s (default 0).
    pub hardware_send: ByCount,
    /// h_r (default 0).
    pub hardware_receive: ByCount,
}

impl Default for Lop {
    fn default() -> Lop {
        Lop {
            latency: Time::from_ns(2500),
            overhead_send: Time::from_ns(1500).into(),
            overhead_receive: Time::from_ns(1500).into(),
            hardware_send: Time::ZERO.into(),
            hardware_receive: Time::ZERO.into(),
        }
    }
}

impl Lop {
    /// From the end of the sender's overhead to the start of the receiver's, for each of `count` messages:
    /// h_s + L + h_r.
    pub fn flight(&self, count: u64) -> Time {
        self.hardware_send.of(count) + self.latency + self.hardware_receive.of(count)
    }
}

/// The size of the messages doesn't matter: the model is one of small messages.
impl ClosedForms for Lop {
    fn arrival(&self, index: u64, count: u64, _bytes: u64) -> Time {
        self.overhead_send.of(count) * index + self.flight(count) + self.overhead_receive.of(count)
    }

    fn multicast(&self, peers: u64, bytes: u64) -> Time {
        if peers == 0 { Time::ZERO } else { self.arrival(peers, peers, bytes) }
    }

    fn exchange(&self, bytes: u64) -> (Time, Time) {
        (self.arrival(1, 1, bytes), Time::ZERO)
    }
}

impl Parameters for Lop {
    const NAME: &'static str = "lop";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("L", Slot::Time(&mut self.latency)),
            ("o_s", Slot::ByCount(&mut self.overhead_send)),
            ("o_r", Slot::ByCount(&mut self.overhead_receive)),
            ("h_s", Slot::ByCount(&mut self.hardware_send)),
            ("h_r", Slot::ByCount(&mut self.hardware_receive)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogP, Tree};

    #[test]
    fn the_cost_of_a_message_depends_on_how_many_are_sent() {
        let lop = Lop {
            latency: Time(1000),
            overhead_send: ByCount::parse("table(1:300ps,3:100ps)").unwrap(),
            overhead_receive: Time(50).into(),
            hardware_send: ByCount::parse("table(1:10ps,5:50ps)").unwrap(),
            hardware_receive: Time(7).into(),
        };
        assert_eq!(lop.multicast(1, 8), Time(300 + 10 + 1000 + 7 + 50));
        assert_eq!(lop.multicast(2, 8), Time(2 * 200 + 20 + 1000 + 7 + 50));
        assert_eq!(lop.multicast(5, 8), Time(50 + 1000 + 7 + 50), "the table's line ends at 0");
        // In a tree of 4 the root sends two messages, its first child one.
        assert_eq!(lop.broadcast(Tree::BINOMIAL, 4, 8), Time(200 + 20 + 1057 + 300 + 10 + 1057));
    }

    #[test]
    fn constant_functions_without_hardware_times_are_logp_without_a_gap() {
        let logp = LogP { gap: Time::ZERO, ..LogP::default() };
        for peers in 0..10 {
            assert_eq!(Lop::default().multicast(peers, 1), logp.multicast(peers, 1));
        }
    }
}
