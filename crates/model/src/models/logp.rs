//! LogP and what grew from it: LogGP, LogGPS, LogGOPS.
//!
//! All four share L, o and g, and their defaults are LogGOPSim's: L = 2500 ns, o = 1500 ns, g = 1000 ns, G = 6 ns,
//! O = 0, S = 65535.

use crate::ClosedForms;
use crate::parameters::{Parameters, Slot};
use castell_base::{PerByte, Time};

const LATENCY: Time = Time::from_ns(2500);
const OVERHEAD: Time = Time::from_ns(1500);
const GAP: Time = Time::from_ns(1000);
const GAP_PER_BYTE: PerByte = PerByte::from_ns(6);
const EAGER_BYTES_MAX: u64 = 65_535;

/// LogP: a small message keeps its sender busy for o, travels for L, and keeps its receiver busy for o; a rank starts to
/// send, and to receive, at most once in g; at most ⌈L/g⌉ messages are under way from or to a rank.
///
/// Source: Culler et al., "LogP: towards a realistic model of parallel computation", PPoPP 1993, section 3.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogP {
    /// L: from the end of the sender's overhead to the start of the receiver's (default 2500 ns).
    pub latency: Time,
    /// o: for how long a message keeps a rank's processor busy, at either end (default 1500 ns).
    pub overhead: Time,
    /// g: least time between two sends, or two receives, of a rank (default 1000 ns).
    pub gap: Time,
}

/// LogGP: LogP with long messages; after the first, each byte takes G.
///
/// Source: Alexandrov, Ionescu, Schauser, Scheiman, "LogGP: incorporating long messages into the LogP model", SPAA 1995,
/// section 2: a message of n bytes takes o + (n-1)G + L + o.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogGp {
    /// L, as in [`LogP`].
    pub latency: Time,
    /// o, as in [`LogP`].
    pub overhead: Time,
    /// g, as in [`LogP`].
    pub gap: Time,
    /// G: time a byte after a message's first (default 6 ns).
    pub gap_per_byte: PerByte,
}

/// LogGPS: LogGP in which a message of more than S bytes waits until its receive is posted (rendezvous).
///
/// Source: Ino, Fujimoto, Hagihara, "LogGPS: a parallel computational model for synchronization analysis", PPoPP 2001,
/// section 3.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogGps {
    /// L, as in [`LogP`].
    pub latency: Time,
    /// o, as in [`LogP`].
    pub overhead: Time,
    /// g, as in [`LogP`].
    pub gap: Time,
    /// G, as in [`LogGp`].
    pub gap_per_byte: PerByte,
    /// S: the largest message, in bytes, that is sent without waiting for its receive (default 65535).
    pub eager_bytes_max: u64,
}

/// LogGOPS: LogGPS in which each byte after the first also keeps the processor busy for O.
///
/// Source: Hoefler, Schneider, Lumsdaine, "LogGOPSim: simulating large-scale applications in the LogGOPS model", HPDC
/// 2010, section 2. Where the paper leaves things open, the methods below do what LogGOPSim does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogGops {
    /// L, as in [`LogP`].
    pub latency: Time,
    /// o, as in [`LogP`].
    pub overhead: Time,
    /// g, as in [`LogP`].
    pub gap: Time,
    /// G, as in [`LogGp`].
    pub gap_per_byte: PerByte,
    /// O: processor time a byte after a message's first (default 0).
    pub overhead_per_byte: PerByte,
    /// S, as in [`LogGps`].
    pub eager_bytes_max: u64,
}

impl LogGops {
    /// For how long a send occupies its processor: o + (n-1)·O.
    pub fn send_busy(&self, bytes: u64) -> Time {
        after_first(self.overhead, self.overhead_per_byte, bytes)
    }

    /// For how long a send, or an arrival, occupies its network interface: g + (n-1)·G.
    pub fn interface_busy(&self, bytes: u64) -> Time {
        after_first(self.gap, self.gap_per_byte, bytes)
    }

    /// From the start of a send to the arrival of the first byte: o + L.
    pub fn flight(&self) -> Time {
        self.overhead + self.latency
    }

    /// For how long an arriving message occupies its receiver's processor: o + max((n-1)·O, (n-1)·G).
    ///
    /// An empty message is given (0-1)·O or (0-1)·G, whichever is *less negative but not 0*, as LogGOPSim computes it
    /// (its comparison is one of unsigned numbers).
    pub fn arrival_busy(&self, bytes: u64) -> Time {
        let (overhead, gap) = (self.overhead_per_byte, self.gap_per_byte);
        if bytes > 0 {
            return self.overhead + overhead.of(bytes - 1).max(gap.of(bytes - 1));
        }
        let credits = [overhead.of(1), gap.of(1)];
        let credit = credits.into_iter().filter(|&credit| credit > Time::ZERO).min();
        self.overhead - credit.unwrap_or(Time::ZERO)
    }

    /// Whether a message of this size is sent without waiting for its receive: n ≤ S.
    pub fn is_eager(&self, bytes: u64) -> bool {
        bytes <= self.eager_bytes_max
    }
}

/// Sends start max(o + (n-1)O, g + (n-1)G) apart; a message can be used o + L + o + max((n-1)O, (n-1)G) after its send
/// started. Above S bytes nothing changes, since receives are posted before their messages arrive and a rank's messages
/// don't wait for each other.
impl ClosedForms for LogGops {
    fn arrival(&self, index: u64, _count: u64, bytes: u64) -> Time {
        let interval = self.send_busy(bytes).max(self.interface_busy(bytes));
        interval * index.saturating_sub(1) + self.flight() + self.arrival_busy(bytes)
    }

    fn multicast(&self, peers: u64, bytes: u64) -> Time {
        if peers == 0 { Time::ZERO } else { self.arrival(peers, peers, bytes) }
    }

    /// A message may arrive while its receiver is still busy with sending its own.
    fn exchange(&self, bytes: u64) -> (Time, Time) {
        let start = self.flight().max(self.send_busy(bytes));
        (start + self.arrival_busy(bytes), self.interface_busy(bytes))
    }
}

/// Those of the LogGOPS that a model is a special case of.
macro_rules! closed_forms_of_loggops {
    ($model:ident) => {
        impl ClosedForms for $model {
            fn arrival(&self, index: u64, count: u64, bytes: u64) -> Time {
                LogGops::from(self.clone()).arrival(index, count, bytes)
            }

            fn multicast(&self, peers: u64, bytes: u64) -> Time {
                LogGops::from(self.clone()).multicast(peers, bytes)
            }

            fn exchange(&self, bytes: u64) -> (Time, Time) {
                LogGops::from(self.clone()).exchange(bytes)
            }
        }
    };
}

closed_forms_of_loggops!(LogP);
closed_forms_of_loggops!(LogGp);
closed_forms_of_loggops!(LogGps);

/// `first + (bytes - 1) * each`, where an empty message costs one byte less than `first`, but no less than nothing.
fn after_first(first: Time, each: PerByte, bytes: u64) -> Time {
    match bytes {
        0 => first - each.of(1),
        _ => first + each.of(bytes - 1),
    }
}

impl Default for LogP {
    fn default() -> LogP {
        LogP { latency: LATENCY, overhead: OVERHEAD, gap: GAP }
    }
}

impl Default for LogGp {
    fn default() -> LogGp {
        LogGp { latency: LATENCY, overhead: OVERHEAD, gap: GAP, gap_per_byte: GAP_PER_BYTE }
    }
}

impl Default for LogGps {
    fn default() -> LogGps {
        LogGps {
            latency: LATENCY,
            overhead: OVERHEAD,
            gap: GAP,
            gap_per_byte: GAP_PER_BYTE,
            eager_bytes_max: EAGER_BYTES_MAX,
        }
    }
}

impl Default for LogGops {
    fn default() -> LogGops {
        LogGops {
            latency: LATENCY,
            overhead: OVERHEAD,
            gap: GAP,
            gap_per_byte: GAP_PER_BYTE,
            overhead_per_byte: PerByte::ZERO,
            eager_bytes_max: EAGER_BYTES_MAX,
        }
    }
}

impl From<LogP> for LogGp {
    /// Every byte after the first is free.
    fn from(LogP { latency, overhead, gap }: LogP) -> LogGp {
        LogGp { latency, overhead, gap, gap_per_byte: PerByte::ZERO }
    }
}

impl From<LogGp> for LogGps {
    /// No message waits for its receive.
    fn from(LogGp { latency, overhead, gap, gap_per_byte }: LogGp) -> LogGps {
        LogGps { latency, overhead, gap, gap_per_byte, eager_bytes_max: u64::MAX }
    }
}

impl From<LogGps> for LogGops {
    /// Bytes cost the processor nothing.
    fn from(LogGps { latency, overhead, gap, gap_per_byte, eager_bytes_max }: LogGps) -> LogGops {
        LogGops { latency, overhead, gap, gap_per_byte, overhead_per_byte: PerByte::ZERO, eager_bytes_max }
    }
}

impl From<LogP> for LogGops {
    /// Every byte after the first is free. LogP's limit of ⌈L/g⌉ messages under way is not part of LogGOPS.
    fn from(model: LogP) -> LogGops {
        LogGp::from(model).into()
    }
}

impl From<LogGp> for LogGops {
    /// Without rendezvous, and bytes cost the processor nothing.
    fn from(model: LogGp) -> LogGops {
        LogGps::from(model).into()
    }
}

impl Parameters for LogP {
    const NAME: &'static str = "logp";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("L", Slot::Time(&mut self.latency)),
            ("o", Slot::Time(&mut self.overhead)),
            ("g", Slot::Time(&mut self.gap)),
        ]
    }
}

impl Parameters for LogGp {
    const NAME: &'static str = "loggp";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("L", Slot::Time(&mut self.latency)),
            ("o", Slot::Time(&mut self.overhead)),
            ("g", Slot::Time(&mut self.gap)),
            ("G", Slot::PerByte(&mut self.gap_per_byte)),
        ]
    }
}

impl Parameters for LogGps {
    const NAME: &'static str = "loggps";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("L", Slot::Time(&mut self.latency)),
            ("o", Slot::Time(&mut self.overhead)),
            ("g", Slot::Time(&mut self.gap)),
            ("G", Slot::PerByte(&mut self.gap_per_byte)),
            ("S", Slot::Count(&mut self.eager_bytes_max)),
        ]
    }
}

impl Parameters for LogGops {
    const NAME: &'static str = "loggops";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("L", Slot::Time(&mut self.latency)),
            ("o", Slot::Time(&mut self.overhead)),
            ("g", Slot::Time(&mut self.gap)),
            ("G", Slot::PerByte(&mut self.gap_per_byte)),
            ("O", Slot::PerByte(&mut self.overhead_per_byte)),
            ("S", Slot::Count(&mut self.eager_bytes_max)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    #[test]
    fn messages_cost_what_loggopsim_charges() {
        let model = LogGops { overhead_per_byte: PerByte::from_ns(2), ..LogGops::default() };
        assert_eq!(model.send_busy(8), Time::from_ns(1500 + 14));
        assert_eq!(model.interface_busy(8), Time::from_ns(1000 + 42));
        assert_eq!(model.arrival_busy(8), Time::from_ns(1500 + 42));
        assert_eq!(model.flight(), Time::from_ns(4000));
        assert!(model.is_eager(65_535) && !model.is_eager(65_536));
    }

    #[test]
    fn an_empty_message_costs_a_byte_less_than_the_first() {
        let model = LogGops::default();
        assert_eq!(model.send_busy(0), Time::from_ns(1500));
        assert_eq!(model.interface_busy(0), Time::from_ns(994));
        // O = 0 and G = 6 ns: of 0 and -6, LogGOPSim takes the latter.
        assert_eq!(model.arrival_busy(0), Time::from_ns(1494));
        let both = LogGops { overhead_per_byte: PerByte::from_ns(2), ..model };
        assert_eq!(both.arrival_busy(0), Time::from_ns(1498));
    }

    #[test]
    fn closed_forms_give_what_loggopsim_gives() {
        // Its end times for 8-byte messages: log2 P times 5542 ns for the symmetric patterns.
        let model = LogGops::default();
        assert_eq!(model.broadcast(Tree::BINOMIAL, 262_144, 8), Time::from_ns(18 * 5542));
        assert_eq!(model.dissemination(1024, 8), Time::from_ns(55_420));
        assert_eq!(model.recursive_doubling(1024, 8, Time::ZERO), Time::from_ns(55_420));
        assert_eq!(model.ping_pong(8), Time::from_ns(2 * 5542));
    }

    #[test]
    fn the_gap_holds_sends_apart_if_it_is_longer_than_the_overhead() {
        let model = LogGp { gap: Time::from_ns(2000), ..LogGp::default() };
        assert_eq!(model.multicast(3, 1), Time::from_ns(2 * 2000 + 5500));
        assert_eq!(model.multicast(3, 101), Time::from_ns(2 * 2600 + 5500 + 600));
        let fast = LogP { latency: Time(10), overhead: Time(1), gap: Time(100) };
        // Two rounds: the second send waits for the gap after the first.
        assert_eq!(fast.recursive_doubling(4, 1, Time::ZERO), Time(100 + 12));
    }

    #[test]
    fn an_arrival_waits_for_its_receivers_own_send() {
        let model = LogGops { overhead_per_byte: PerByte::from_ns(1000), ..LogGops::default() };
        // Sending 8 bytes takes 1500 + 7000 ns, longer than the 4000 ns of flight.
        assert_eq!(model.exchange(8).0, Time::from_ns(2 * 8500));
        assert_eq!(model.ping_pong(8), Time::from_ns(2 * (4000 + 8500)));
    }
}
