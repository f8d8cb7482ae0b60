//! Pipelining latency and bandwidth.

use crate::BySize;
use crate::parameters::{Parameters, Slot};
use castell_base::{PerByte, Time};

/// PLB, the pipelining latency-bandwidth model: of b messages of n bytes that a rank sends one after the other, the i-th
/// (from 1) arrives i·α_r + α_p + nβ after the start; the sender is busy for b·α_r. A blocking send returns with the
/// arrival of the last. The bandwidths of different messages are not shared.
///
/// Source: equations 4.4 to 4.6 of "Larger-scale collectives" (2020), section 4.3; β and γ as in its equation 4.3. Table
/// 4.1 there has both α's as functions of the message's size, so each may be a table here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plb {
    /// α_p: the part of the latency that overlaps with other messages (default 880 ns, table 4.1 for 8 bytes).
    pub alpha_p: BySize,
    /// α_r: the part for which the sender is busy (default 380 ns, as above).
    pub alpha_r: BySize,
    /// β: time a byte, which does not occupy the sender (default 0).
    pub beta: PerByte,
    /// γ: time to reduce a byte (default 0).
    pub gamma: PerByte,
}

impl Default for Plb {
    fn default() -> Plb {
        Plb {
            alpha_p: Time::from_ns(880).into(),
            alpha_r: Time::from_ns(380).into(),
            beta: PerByte::ZERO,
            gamma: PerByte::ZERO,
        }
    }
}

impl Plb {
    /// For how long one message of `bytes` bytes keeps its sender busy: α_r.
    pub fn send_busy(&self, bytes: u64) -> Time {
        self.alpha_r.of(bytes)
    }

    /// From the moment when the sender is free again to the arrival: α_p + nβ.
    pub fn flight(&self, bytes: u64) -> Time {
        self.alpha_p.of(bytes) + self.beta.of(bytes)
    }

    /// From the start of a send to the arrival, if the sender was free: α_r + α_p + nβ.
    pub fn message(&self, bytes: u64) -> Time {
        self.send_busy(bytes) + self.flight(bytes)
    }

    /// Reducing `bytes` bytes: nγ.
    pub fn reduction(&self, bytes: u64) -> Time {
        self.gamma.of(bytes)
    }
}

impl Parameters for Plb {
    const NAME: &'static str = "plb";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("alpha_p", Slot::BySize(&mut self.alpha_p)),
            ("alpha_r", Slot::BySize(&mut self.alpha_r)),
            ("beta", Slot::PerByte(&mut self.beta)),
            ("gamma", Slot::PerByte(&mut self.gamma)),
        ]
    }
}
