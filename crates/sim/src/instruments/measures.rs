//! Counts and sums over a run.

use crate::instrument::{Flight, Instrument};
use castell_base::{Rank, Time};
use castell_goal::schedule::OpId;
use castell_trace::Activity;
use std::collections::BTreeMap;

/// How many messages and bytes each rank sent and received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent by each rank; ranks at the end that sent nothing may be missing.
    pub sent: Vec<u64>,
    /// Messages that arrived at each rank.
    pub received: Vec<u64>,
    /// Bytes sent by each rank.
    pub sent_bytes: Vec<u64>,
    /// Bytes that arrived at each rank.
    pub received_bytes: Vec<u64>,
}

impl Counts {
    /// Messages of all ranks.
    pub fn messages(&self) -> u64 {
        self.sent.iter().sum()
    }

    /// Bytes of all messages.
    pub fn bytes(&self) -> u64 {
        self.sent_bytes.iter().sum()
    }
}

/// The entry of a rank, made where it is missing.
fn entry<T: Clone + Default>(table: &mut Vec<T>, rank: Rank) -> &mut T {
    if table.len() <= rank.index() {
        table.resize(rank.index() + 1, T::default());
    }
    &mut table[rank.index()]
}

impl Instrument for Counts {
    fn departed(&mut self, message: &Flight, _: Time) {
        *entry(&mut self.sent, message.from) += 1;
        *entry(&mut self.sent_bytes, message.from) += message.bytes;
    }

    fn arrived(&mut self, message: &Flight, _: Time, _: Time) {
        *entry(&mut self.received, message.to) += 1;
        *entry(&mut self.received_bytes, message.to) += message.bytes;
    }
}

/// Bytes on their way over time: how much arrived, and the largest amount that was under way at once.
#[derive(Clone, Debug, Default)]
pub struct Bandwidth {
    bytes: u64,
    first: Option<Time>,
    last: Time,
    /// What the bytes under way change by, at each time at which they change.
    changes: BTreeMap<Time, i128>,
}

impl Bandwidth {
    /// All bytes that were sent.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes a second, from the first departure until the last byte was there; `None` where that took no time.
    pub fn mean(&self) -> Option<f64> {
        let duration = self.last - self.first?;
        (duration > Time::ZERO).then(|| self.bytes as f64 * 1e12 / duration.0 as f64)
    }

    /// The largest number of bytes that were on their way at the same time.
    pub fn under_way_max(&self) -> u64 {
        let sums = self.changes.values().scan(0, |sum: &mut i128, change| {
            *sum += change;
            Some(*sum)
        });
        sums.max().unwrap_or(0).max(0) as u64
    }
}

impl Instrument for Bandwidth {
    fn departed(&mut self, message: &Flight, at: Time) {
        self.bytes += message.bytes;
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        *self.changes.entry(at).or_default() += i128::from(message.bytes);
    }

    fn arrived(&mut self, message: &Flight, _: Time, complete: Time) {
        self.last = self.last.max(complete);
        *self.changes.entry(complete).or_default() -= i128::from(message.bytes);
    }
}

/// How long each rank's first processor was occupied, and with what; the rest until its end is waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Time in each [`Activity`], in the order of its numbers, for each rank.
    pub spent: Vec<[Time; 5]>,
}

impl Waits {
    /// For how long a rank that was done at `end` was not busy until then; sleeping is waiting, too.
    pub fn waiting(&self, rank: Rank, end: Time) -> Time {
        let Some(spent) = self.spent.get(rank.index()) else { return end };
        let waits = Activity::Wait as usize;
        end - spent.iter().enumerate().filter(|&(kind, _)| kind != waits).map(|(_, &time)| time).sum()
    }
}

impl Instrument for Waits {
    fn busy(
        &mut self,
        rank: Rank,
        processor: Option<u8>,
        activity: Activity,
        _operation: (Rank, OpId),
        from: Time,
        to: Time,
    ) {
        if processor == Some(0) {
            entry(&mut self.spent, rank)[activity as usize] += to - from;
        }
    }
}

/// How long each rank's queues became: receives that wait for messages, messages that wait for receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Most posted receives at once, for each rank.
    pub posted_max: Vec<usize>,
    /// Most unexpected messages at once, for each rank.
    pub unexpected_max: Vec<usize>,
}

impl Instrument for Queues {
    fn queues(&mut self, rank: Rank, _: Time, posted: usize, unexpected: usize) {
        let most = entry(&mut self.posted_max, rank);
        *most = posted.max(*most);
        let most = entry(&mut self.unexpected_max, rank);
        *most = unexpected.max(*most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Tag;

    fn message(from: u32, to: u32, bytes: u64) -> Flight {
        let (operation, started) = (OpId(18), Time::ZERO);
        Flight { number: 0, from: Rank(from), to: Rank(to), tag: Tag(0), bytes, operation, started }
    }

    /// From 1000 to 5000 and from 2000 to 3000 picoseconds, then one that leaves when the first is there.
    fn three(instrument: &mut impl Instrument) {
        for (from, to, bytes, departs, complete) in
            [(0, 2, 100, 1000, 5000), (1, 2, 30, 2000, 3000), (0, 1, 80, 5000, 9000)]
        {
            let message = message(from, to, bytes);
            instrument.departed(&message, Time(departs));
            instrument.arrived(&message, Time(departs), Time(complete));
        }
    }

    #[test]
    fn messages_and_bytes_are_counted_where_they_leave_and_arrive() {
        let mut counts = Counts::default();
        three(&mut counts);
        assert_eq!((&*counts.sent, &*counts.sent_bytes), (&[2, 1][..], &[180, 30][..]));
        assert_eq!((&*counts.received, &*counts.received_bytes), (&[0, 1, 2][..], &[0, 80, 130][..]));
        assert_eq!((counts.messages(), counts.bytes()), (3, 210));
    }

    #[test]
    fn bytes_are_under_way_until_the_last_is_there() {
        let mut bandwidth = Bandwidth::default();
        assert_eq!((bandwidth.mean(), bandwidth.under_way_max()), (None, 0));
        three(&mut bandwidth);
        assert_eq!((bandwidth.bytes(), bandwidth.under_way_max()), (210, 130));
        assert_eq!(bandwidth.mean(), Some(210.0 / 8e-9));
        let mut at_once = Bandwidth::default();
        at_once.departed(&message(0, 1, 8), Time(7));
        at_once.arrived(&message(0, 1, 8), Time(7), Time(7));
        assert_eq!(at_once.mean(), None, "it took no time");
    }

    #[test]
    fn a_rank_waits_when_its_first_processor_does_nothing() {
        let mut waits = Waits::default();
        let end = Time(100);
        assert_eq!(waits.waiting(Rank(1), end), end);
        for (processor, activity, from, to) in [
            (Some(0), Activity::Send, 10, 30),
            (Some(0), Activity::Wait, 30, 50),
            (Some(0), Activity::Compute, 50, 55),
            (Some(1), Activity::Compute, 0, 100),
            (None, Activity::Recv, 0, 100),
        ] {
            waits.busy(Rank(1), processor, activity, (Rank(1), OpId(18)), Time(from), Time(to));
        }
        assert_eq!((waits.waiting(Rank(0), end), waits.waiting(Rank(1), end)), (end, Time(75)));
    }

    #[test]
    fn the_longest_queues_are_kept() {
        let mut queues = Queues::default();
        for (posted, unexpected) in [(1, 4), (3, 0), (2, 2)] {
            queues.queues(Rank(1), Time::ZERO, posted, unexpected);
        }
        assert_eq!((queues.posted_max, queues.unexpected_max), (vec![0, 3], vec![0, 4]));
    }
}
