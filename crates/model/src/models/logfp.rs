//! LogfP: LogP in which the gap spares the first few small messages.

use crate::ClosedForms;
use crate::parameters::{Parameters, Slot};
use castell_base::Time;

/// LogfP: LogP for small messages of which an interface handles f at once: the gap holds a rank's messages apart only
/// after the first f of a burst, and the overhead a message falls with their number, o(p) = o_min + o_max/p.
///
/// So p messages take p·o(p) = p·o_min + o_max of the processor's time, which we charge as o_min + o_max for the first
/// message of a burst and o_min for each other; and the i-th message starts no earlier than (i-f)·g after the first. A
/// burst is a rank's messages of which each starts as soon as the one before lets it. Receiving takes o(1).
///
/// Source: Hoefler, Mehlan, Mietke, Rehm, "LogfP: a model for small messages in InfiniBand", IPDPS 2006; section 4.2.5 of
/// "Larger-scale collectives" (2020). How the overhead is divided over a burst is ours; the sums are theirs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogfP {
    /// L (default 2500 ns, as LogP's).
    pub latency: Time,
    /// o_min: what each message of a burst costs its sender (default 500 ns).
    pub overhead_min: Time,
    /// o_max: what a burst costs its sender besides (default 1000 ns, so that o(1) is LogP's default).
    pub overhead_max: Time,
    /// g: least time between messages after the first f (default 1000 ns, as LogP's).
    pub gap: Time,
    /// f: messages of a burst for which there is no gap (default 8).
    pub free_messages: u64,
}

impl Default for LogfP {
    fn default() -> LogfP {
        LogfP {
            latency: Time::from_ns(2500),
            overhead_min: Time::from_ns(500),
            overhead_max: Time::from_ns(1000),
            gap: Time::from_ns(1000),
            free_messages: 8,
        }
    }
}

impl LogfP {
    /// For how long the `index`-th message (from 1) of a burst keeps its sender busy.
    pub fn send_busy(&self, index: u64) -> Time {
        if index <= 1 { self.overhead_min + self.overhead_max } else { self.overhead_min }
    }

    /// The earliest start of the `index`-th message (from 1), counted from the start of its burst's first:
    /// (i-f)·g, or 0.
    pub fn earliest_start(&self, index: u64) -> Time {
        self.gap * index.saturating_sub(self.free_messages)
    }

    /// o(1): for how long a message keeps its receiver busy.
    pub fn receive_busy(&self) -> Time {
        self.send_busy(1)
    }

    /// From the start of a burst until its sender has done with the `index`-th message.
    fn sent(&self, index: u64) -> Time {
        let unhindered = self.overhead_max + self.overhead_min * index;
        // Held back by the gap once, at the first message that it applies to, or each time: whichever is longer.
        let Some(held) = index.checked_sub(self.free_messages).filter(|&held| held > 0 && index > 1) else {
            return unhindered;
        };
        let first = index.min(self.free_messages.saturating_add(1).max(2));
        let once = self.earliest_start(first) + self.overhead_min * (index - first + 1);
        let each_time = self.gap * held + self.overhead_min;
        unhindered.max(once).max(each_time)
    }
}

/// The size of the messages doesn't matter: the model is one of small messages.
impl ClosedForms for LogfP {
    fn arrival(&self, index: u64, _count: u64, _bytes: u64) -> Time {
        self.sent(index) + self.latency + self.receive_busy()
    }

    fn multicast(&self, peers: u64, bytes: u64) -> Time {
        if peers == 0 { Time::ZERO } else { self.arrival(peers, peers, bytes) }
    }

    fn exchange(&self, bytes: u64) -> (Time, Time) {
        (self.arrival(1, 1, bytes), Time::ZERO)
    }
}

impl Parameters for LogfP {
    const NAME: &'static str = "logfp";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("L", Slot::Time(&mut self.latency)),
            ("o_min", Slot::Time(&mut self.overhead_min)),
            ("o_max", Slot::Time(&mut self.overhead_max)),
            ("g", Slot::Time(&mut self.gap)),
            ("f", Slot::Count(&mut self.free_messages)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_applies_after_the_first_f_messages() {
        let model = LogfP {
            latency: Time(10_000),
            overhead_min: Time(10),
            overhead_max: Time(5),
            gap: Time(100),
            free_messages: 2,
        };
        let sent: Vec<u64> = (1..=5).map(|index| model.sent(index).0).collect();
        assert_eq!(sent, [15, 25, 110, 210, 310]);
        assert_eq!(model.multicast(4, 8), Time(210 + 10_000 + 15));
        assert_eq!(model.multicast(0, 8), Time::ZERO);
        assert_eq!(model.ping_pong(8), Time(2 * (15 + 10_000 + 15)));
    }

    #[test]
    fn sums_are_those_of_message_after_message() {
        for (overhead_min, overhead_max, gap, free_messages) in
            [(10, 5, 100, 2), (10, 5, 100, 0), (100, 0, 7, 3), (10, 100, 30, 1), (1, 50, 49, 4), (7, 0, 5, 0)]
        {
            let model = LogfP {
                latency: Time::ZERO,
                overhead_min: Time(overhead_min),
                overhead_max: Time(overhead_max),
                gap: Time(gap),
                free_messages,
            };
            let mut free_at = Time::ZERO;
            for index in 1..100 {
                // The first message starts the burst: nothing holds it back.
                let start = if index == 1 { Time::ZERO } else { free_at.max(model.earliest_start(index)) };
                free_at = start + model.send_busy(index);
                assert_eq!(model.sent(index), free_at, "{model:?}: message {index}");
            }
        }
    }
}
