//! Cost models as the reference engine sees them.

use crate::cost::{ArrivalCost, Costs, Occasion, SendCost};
use castell_base::Time;
use castell_model::{ClosedForms, Lb, LogGops, LogP, LogfP, Lop, Plb};

/// LogP and what grew from it, with LogGOPSim's rules (Hoefler, Schneider, Lumsdaine: "LogGOPSim", HPDC 2010).
///
/// A message of n bytes occupies its sender's processor for o + (n-1)O and the interface for g + (n-1)G; o + L after its
/// start it is at its receiver, where it occupies the processor for o + max((n-1)O, (n-1)G) and the interface for
/// g + (n-1)G. Messages above S bytes last until their receive is posted. LogGOPSim's clock runs backwards where an
/// empty message's -1 byte is larger than o; here nothing takes less than no time.
#[derive(Clone, Debug)]
pub(crate) struct LogCosts {
    pub model: LogGops,
    /// Messages that may be on their way from, and to, one rank (LogP).
    pub capacity: Option<u32>,
}

impl LogCosts {
    /// LogP, with at most ⌈L/g⌉ messages (at least one) on their way from, and to, a rank.
    pub fn logp(model: LogP) -> LogCosts {
        let capacity = match model.gap {
            Time::ZERO => None,
            gap => Some(u32::try_from(model.latency.0.div_ceil(gap.0)).unwrap_or(u32::MAX).max(1)),
        };
        // Also a message of several bytes is one message: LogP's are small, and cost the same.
        let grown: castell_model::LogGp = model.into();
        let grown: castell_model::LogGps = grown.into();
        LogCosts { model: grown.into(), capacity }
    }
}

impl Costs for LogCosts {
    fn send(&self, &Occasion { bytes, .. }: &Occasion) -> SendCost {
        SendCost {
            processor: self.model.send_busy(bytes),
            interface: self.model.interface_busy(bytes),
            wire: self.model.overhead,
            transit: self.model.flight(),
            bytes: Time::ZERO,
            tail: self.bytes_paid(bytes),
        }
    }

    fn arrival(&self, &Occasion { bytes, .. }: &Occasion) -> ArrivalCost {
        ArrivalCost {
            processor: self.model.arrival_busy(bytes),
            bytes: self.bytes_paid(bytes),
            interface: self.model.interface_busy(bytes),
        }
    }

    fn arrival_waits(&self) -> bool {
        true
    }

    fn rendezvous(&self, bytes: u64) -> bool {
        !self.model.is_eager(bytes)
    }

    fn capacity(&self) -> Option<u32> {
        self.capacity
    }

    fn bytes_paid(&self, bytes: u64) -> Time {
        self.model.gap_per_byte.of(bytes.saturating_sub(1))
    }
}

/// PLB: a send occupies its processor for α_r, and the message is there α_p + nβ later; receiving costs nothing. Reducing
/// costs γ a byte.
impl Costs for Plb {
    fn send(&self, &Occasion { bytes, .. }: &Occasion) -> SendCost {
        let processor = self.send_busy(bytes);
        SendCost {
            processor,
            wire: processor,
            transit: processor + self.flight(bytes),
            bytes: self.bytes_paid(bytes),
            ..SendCost::default()
        }
    }

    fn arrival(&self, _: &Occasion) -> ArrivalCost {
        ArrivalCost::default()
    }

    fn arrival_waits(&self) -> bool {
        false
    }

    fn local(&self, _: &Occasion, bytes: u64) -> Time {
        self.reduction(bytes)
    }

    fn bytes_paid(&self, bytes: u64) -> Time {
        self.beta.of(bytes)
    }
}

/// LB: a send occupies its processor until the message is there, α + nβ later; receiving costs nothing. Reducing costs γ a
/// byte.
impl Costs for Lb {
    fn send(&self, &Occasion { bytes, .. }: &Occasion) -> SendCost {
        let time = self.message(bytes);
        SendCost { processor: time, transit: time, bytes: self.bytes_paid(bytes), ..SendCost::default() }
    }

    fn arrival(&self, _: &Occasion) -> ArrivalCost {
        ArrivalCost::default()
    }

    fn arrival_waits(&self) -> bool {
        false
    }

    fn local(&self, _: &Occasion, bytes: u64) -> Time {
        self.reduction(bytes)
    }

    fn bytes_paid(&self, bytes: u64) -> Time {
        self.beta.of(bytes)
    }
}

/// LogfP: the i-th message of a burst starts no earlier than (i-f)g after the first; o_max is paid once a burst. A burst
/// is a rank's messages of which each starts as soon as the one before lets it.
impl Costs for LogfP {
    fn send(&self, &Occasion { burst, elapsed, .. }: &Occasion) -> SendCost {
        let index = u64::from(burst) + 1;
        let processor = self.send_busy(index);
        SendCost {
            processor,
            interface: self.earliest_start(index + 1) - elapsed,
            wire: processor,
            transit: processor + self.latency,
            ..SendCost::default()
        }
    }

    fn arrival(&self, _: &Occasion) -> ArrivalCost {
        ArrivalCost { processor: self.receive_busy(), ..ArrivalCost::default() }
    }

    fn arrival_waits(&self) -> bool {
        true
    }
}

/// LoP: overheads and hardware times depend on how many messages are sent at once: as many sends as become ready at a rank
/// at the same time.
impl Costs for Lop {
    fn send(&self, &Occasion { together, .. }: &Occasion) -> SendCost {
        let processor = self.overhead_send.of(together.into());
        let transit = processor + self.flight(together.into());
        SendCost { processor, wire: processor, transit, ..SendCost::default() }
    }

    fn arrival(&self, &Occasion { together, .. }: &Occasion) -> ArrivalCost {
        ArrivalCost { processor: self.overhead_receive.of(together.into()), ..ArrivalCost::default() }
    }

    fn arrival_waits(&self) -> bool {
        true
    }
}
