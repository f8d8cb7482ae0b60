//! Cost models as the reference engine sees them.

use crate::cost::{ArrivalCost, Costs, Occasion, SendCost};
use castell_base::{PerByte, Time};

/// LogP and what grew from it, with LogGOPSim's rules (Hoefler, Schneider, Lumsdaine: "LogGOPSim", HPDC 2010).
///
/// A message of n bytes occupies its sender's processor for o + (n-1)O and the interface for g + (n-1)G; o + L after its
/// start it is at its receiver, where it occupies the processor for o + max((n-1)O, (n-1)G) and the interface for
/// g + (n-1)G. Messages above S bytes last until their receive is posted.
///
/// Without a byte, n - 1 is -1: like LogGOPSim we subtract O and G then, from the larger part the smaller of them that is
/// not 0. LogGOPSim's clock runs backwards where they are larger than what they are subtracted from; here nothing
/// takes less than no time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogCosts {
    pub latency: Time,
    pub overhead: Time,
    pub gap: Time,
    pub gap_per_byte: PerByte,
    pub overhead_per_byte: PerByte,
    /// Largest size that does not wait for its receive; `None`: no size does.
    pub eager_max: Option<u64>,
    pub capacity: Option<u32>,
}

/// `base` + (bytes - 1) · `per_byte`.
fn with_bytes(base: Time, per_byte: PerByte, bytes: u64) -> Time {
    match bytes.checked_sub(1) {
        Some(more) => base + per_byte.of(more),
        None => base - per_byte.of(1),
    }
}

impl Costs for LogCosts {
    fn send(&mut self, &Occasion { bytes, .. }: &Occasion) -> SendCost {
        SendCost {
            processor: with_bytes(self.overhead, self.overhead_per_byte, bytes),
            interface: with_bytes(self.gap, self.gap_per_byte, bytes),
            transit: self.overhead + self.latency,
            tail: self.gap_per_byte.of(bytes.saturating_sub(1)),
        }
    }

    fn arrival(&mut self, &Occasion { bytes, .. }: &Occasion) -> ArrivalCost {
        let per_byte = [self.overhead_per_byte, self.gap_per_byte];
        let processor = match bytes {
            0 => {
                let costs = per_byte.map(|per_byte| per_byte.of(1)).into_iter();
                self.overhead - costs.filter(|&cost| cost > Time::ZERO).min().unwrap_or(Time::ZERO)
            }
            _ => self.overhead + per_byte[0].of(bytes - 1).max(per_byte[1].of(bytes - 1)),
        };
        ArrivalCost { processor, interface: with_bytes(self.gap, self.gap_per_byte, bytes) }
    }

    fn arrival_waits(&self) -> bool {
        true
    }

    fn rendezvous(&self, bytes: u64) -> bool {
        self.eager_max.is_some_and(|eager_max| bytes > eager_max)
    }

    fn compute(&mut self, _: &Occasion, time: Time) -> Time {
        time
    }

    fn local(&mut self, _: &Occasion, _: u64) -> Time {
        Time::ZERO
    }

    fn capacity(&self) -> Option<u32> {
        self.capacity
    }

    fn bytes_paid(&self, bytes: u64) -> Time {
        self.gap_per_byte.of(bytes.saturating_sub(1))
    }
}
