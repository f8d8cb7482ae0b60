//! Latency and bandwidth.

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

    /// Reducing `bytes` bytes: nγ.
    pub fn reduction(&self, bytes: u64) -> Time {
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
