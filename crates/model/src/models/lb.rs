//! Latency and bandwidth.

use crate::ClosedForms;
use crate::parameters::{Parameters, Slot};
use castell_base::{PerByte, Time};

/// LB, the latency-bandwidth or α-β model: a message of n bytes takes α + nβ, and keeps its sender busy until it has
/// arrived; a stage that also reduces what arrives takes α + n(β + γ).
///
/// Source: equations 4.2 and 4.3 of "Larger-scale collectives" (2020), section 4.2.2.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lb {
    /// α: time of an empty message (default 1.26 us: what PLB's defaults give one message).
    pub alpha: Time,
    /// β: time a byte (default 0.4 ns).
    pub beta: PerByte,
    /// γ: time to reduce a byte (default 0).
    pub gamma: PerByte,
}

impl Default for Lb {
    fn default() -> Lb {
        Lb { alpha: Time::from_ns(1260), beta: PerByte::new(400, 1), gamma: PerByte::ZERO }
    }
}

impl Lb {
    /// From the start of a send to the arrival: α + nβ. The sender is busy that long.
    pub fn message(&self, bytes: u64) -> Time {
        self.alpha + self.beta.of(bytes)
    }
}

/// A rank sends its messages one after the other and waits for each; an exchange is one message in each direction at the
/// same time.
impl ClosedForms for Lb {
    fn arrival(&self, index: u64, _count: u64, bytes: u64) -> Time {
        self.message(bytes) * index
    }

    fn multicast(&self, peers: u64, bytes: u64) -> Time {
        self.message(bytes) * peers
    }

    fn exchange(&self, bytes: u64) -> (Time, Time) {
        (self.message(bytes), Time::ZERO)
    }

    /// nγ.
    fn reduction(&self, bytes: u64) -> Time {
        self.gamma.of(bytes)
    }
}

impl Parameters for Lb {
    const NAME: &'static str = "lb";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("alpha", Slot::Time(&mut self.alpha)),
            ("beta", Slot::PerByte(&mut self.beta)),
            ("gamma", Slot::PerByte(&mut self.gamma)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    #[test]
    fn every_message_takes_alpha_and_beta() {
        let lb = Lb { alpha: Time(1000), beta: PerByte::new(1, 2), gamma: PerByte::new(1, 4) };
        assert_eq!(lb.message(9), Time(1005));
        assert_eq!(lb.ping_pong(8), Time(2008));
        assert_eq!(lb.multicast(3, 8), Time(3012));
        assert_eq!(lb.broadcast(Tree::BINOMIAL, 8, 8), Time(3012));
        assert_eq!(lb.broadcast(Tree::BINOMIAL, 9, 8), Time(4016));
        assert_eq!(lb.broadcast(Tree::Linear, 9, 8), Time(8 * 1004));
        assert_eq!(lb.broadcast(Tree::Chain, 9, 8), Time(8 * 1004));
        // Equations 5.2 and 5.3 of the thesis.
        assert_eq!(lb.recursive_doubling(8, 8, Time::ZERO), Time(3 * 1006));
        assert_eq!(lb.recursive_doubling(9, 8, Time::ZERO), Time(5 * 1006));
        assert_eq!(lb.recursive_doubling(1, 8, Time::ZERO), Time::ZERO);
    }
}
