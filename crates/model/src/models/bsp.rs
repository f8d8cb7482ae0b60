//! Bulk synchronous parallel.

use crate::parameters::{Parameters, Slot};
use castell_base::{PerByte, Time};

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
