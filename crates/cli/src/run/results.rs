//! What the ranks' processes tell the one that started them: a shared table, an entry a rank.

use super::execute::Told;
use castell_base::{Rank, Tag};
use castell_comm::Counters;
use castell_comm::engine::{Arrived, Recorded};
use castell_goal::schedule::OpId;
use castell_host::process::Ended;
use castell_host::shm::Segment;
use std::sync::atomic::{AtomicU64, Ordering};

/// The words of an entry: numbers, then a failure's text.
const ENTRY_WORDS: usize = 128;
/// 0: the rank never got here.
const ENTERED: usize = 0;
const START_NS: usize = 1;
const END_NS: usize = 2;
const MESSAGES: usize = 3;
const BYTES: usize = 4;
/// Length of the text, plus 1 if there is a failure.
const TEXT_BYTES: usize = 5;
const RECORDS: usize = 6;
const ARRIVALS: usize = 7;
const TEXT: usize = 8;
/// Bytes of a failure's text that are kept.
const TEXT_BYTES_MAX: usize = (ENTRY_WORDS - TEXT) * 8;
/// The words of a record: operation, start, when it was under way, end.
const RECORD_WORDS: usize = 4;
/// The words of an arrival: source and tag, sequence number, when, when its receiver was woken.
const ARRIVAL_WORDS: usize = 4;

/// The words of a rank's round: when it started and ended.
const ROUND_WORDS: usize = 2;

/// The table.
pub struct Results {
    segment: Segment,
    /// Where each rank's records start, and how many fit; as many arrivals are behind them. Words from the start, count.
    records: Vec<(usize, usize)>,
    /// Where the rounds' starts and ends are, a rank's after the other's, and how many rounds there are.
    rounds: (usize, usize),
}

/// One of several executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// From the first start to the last end.
    pub wall_ns: u64,
    /// Who ended last.
    pub last: Rank,
}

/// What came out.
pub struct Summary {
    /// Each rank's end, from the moment at which the first rank started.
    pub end_ns: Vec<u64>,
    /// From the first start to the last end.
    pub wall_ns: u64,
    /// When the first rank started, on the job's clock.
    pub zero_ns: u64,
    /// Messages that each rank sent.
    pub messages: Vec<u64>,
    /// Their bytes.
    pub bytes: Vec<u64>,
    /// One line a rank that failed.
    pub failures: Vec<String>,
}

impl Results {
    /// A table for ranks with that many operations each, which execute them so often.
    pub fn create(operations: &[usize], rounds: usize, recording: bool) -> anyhow::Result<Results> {
        let mut at = operations.len() * ENTRY_WORDS;
        let mut records = Vec::with_capacity(operations.len());
        for operations in operations {
            let count = if recording { *operations } else { 0 };
            records.push((at, count));
            at += count * (RECORD_WORDS + ARRIVAL_WORDS);
        }
        let rounds_at = at;
        at += operations.len() * rounds * ROUND_WORDS;
        let segment = Segment::create("castell-results", at.max(1) * 8)?;
        Ok(Results { segment, records, rounds: (rounds_at, rounds) })
    }

    fn entry(&self, rank: Rank) -> &[AtomicU64] {
        &self.segment.words()[rank.index() * ENTRY_WORDS..][..ENTRY_WORDS]
    }

    fn number(&self, rank: Rank, which: usize) -> u64 {
        self.entry(rank)[which].load(Ordering::Acquire)
    }

    fn records_of(&self, rank: Rank) -> std::slice::ChunksExact<'_, AtomicU64> {
        let (at, count) = self.records[rank.index()];
        self.segment.words()[at..][..count * RECORD_WORDS].chunks_exact(RECORD_WORDS)
    }

    fn arrivals_of(&self, rank: Rank) -> std::slice::ChunksExact<'_, AtomicU64> {
        let (at, count) = self.records[rank.index()];
        self.segment.words()[at + count * RECORD_WORDS..][..count * ARRIVAL_WORDS].chunks_exact(ARRIVAL_WORDS)
    }

    fn round_of(&self, rank: Rank, round: usize) -> &[AtomicU64] {
        let (at, rounds) = self.rounds;
        &self.segment.words()[at + (rank.index() * rounds + round) * ROUND_WORDS..][..ROUND_WORDS]
    }

    /// After the end: the rounds from this one on that all ranks were through with.
    pub fn rounds(&self, from: usize) -> Vec<Round> {
        let ranks = self.records.len() as u32;
        let of_rank = |rank: Rank, round| {
            let words = self.round_of(rank, round);
            let end_ns = words[1].load(Ordering::Acquire);
            (end_ns > 0).then(|| (rank, words[0].load(Ordering::Relaxed), end_ns))
        };
        let whole = |round| (0..ranks).map(|rank| of_rank(Rank(rank), round)).collect::<Option<Vec<_>>>();
        (from..self.rounds.1).filter_map(whole).filter_map(|times| Round::of(times.into_iter())).collect()
    }

    /// After the end: what a rank recorded.
    pub fn recorded(&self, rank: Rank) -> Vec<Recorded> {
        let record = |words: &[AtomicU64]| {
            let [op, start_ns, begun_ns, end_ns] = read(words);
            Recorded { run: 1, op: OpId(op as u32), start_ns, begun_ns, end_ns }
        };
        self.records_of(rank).take(self.number(rank, RECORDS) as usize).map(record).collect()
    }

    /// After the end: what messages came to a rank.
    pub fn arrived(&self, rank: Rank) -> Vec<Arrived> {
        let arrival = |words: &[AtomicU64]| {
            let [label, sequence, at_ns, woken_ns] = read(words);
            let (source, tag) = (Rank((label >> 32) as u32), Tag(label as u32));
            Arrived { source, tag, sequence: sequence as u32, at_ns, woken_ns, is_of_call: false }
        };
        self.arrivals_of(rank).take(self.number(rank, ARRIVALS) as usize).map(arrival).collect()
    }

    /// The text of a rank's failure, if it entered one.
    fn failure(&self, rank: Rank) -> Option<String> {
        let bytes = self.number(rank, TEXT_BYTES).checked_sub(1)?;
        let words = self.entry(rank)[TEXT..].iter();
        let text: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        Some(String::from_utf8_lossy(&text[..text.len().min(bytes as usize)]).into_owned())
    }

    /// After the end: everything together.
    pub fn summary(&self, endings: &[Ended]) -> Summary {
        let ranks = || (0..endings.len() as u32).map(Rank);
        let column = |which: usize| ranks().map(|rank| self.number(rank, which)).collect::<Vec<u64>>();
        let entered = || ranks().filter(|rank| self.number(*rank, ENTERED) == 1);
        let zero_ns = entered().map(|rank| self.number(rank, START_NS)).min().unwrap_or(0);
        let last_ns = entered().map(|rank| self.number(rank, END_NS)).max().unwrap_or(0);
        let mut failures = Vec::new();
        for (rank, ending) in ranks().zip(endings) {
            match self.failure(rank) {
                Some(text) => failures.push(text),
                None if self.number(rank, ENTERED) == 1 && ending.is_success() => {}
                None => failures.push(format!("rank {rank}: {ending}")),
            }
        }
        Summary {
            end_ns: column(END_NS).into_iter().map(|end| end.saturating_sub(zero_ns)).collect(),
            wall_ns: last_ns.saturating_sub(zero_ns),
            zero_ns,
            messages: column(MESSAGES),
            bytes: column(BYTES),
            failures,
        }
    }
}

/// A rank's process enters what it has to tell.
impl Told for Results {
    fn outcome(&self, rank: Rank, start_ns: u64, end_ns: u64, counters: Counters, failure: Option<&str>) {
        let entry = self.entry(rank);
        let text = failure.unwrap_or_default().as_bytes();
        let text = &text[..text.len().min(TEXT_BYTES_MAX)];
        for (word, bytes) in entry[TEXT..].iter().zip(text.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
        let numbers = [
            (START_NS, start_ns),
            (END_NS, end_ns),
            (MESSAGES, counters.messages),
            (BYTES, counters.bytes),
            (TEXT_BYTES, failure.map_or(0, |_| text.len() as u64 + 1)),
            (ENTERED, 1),
        ];
        for (which, number) in numbers {
            entry[which].store(number, Ordering::Release);
        }
    }

    fn round(&self, rank: Rank, round: usize, start_ns: u64, end_ns: u64) {
        if round >= self.rounds.1 {
            return;
        }
        let words = self.round_of(rank, round);
        words[0].store(start_ns, Ordering::Relaxed);
        words[1].store(end_ns, Ordering::Release);
    }

    fn records(&self, rank: Rank, recorded: &[Recorded]) {
        let words = |one: &Recorded| [one.op.0.into(), one.start_ns, one.begun_ns, one.end_ns];
        let count = fill(self.records_of(rank), recorded.iter().map(words));
        self.entry(rank)[RECORDS].store(count, Ordering::Release);
    }

    fn arrivals(&self, rank: Rank, arrived: &[Arrived]) {
        let words = |one: &Arrived| {
            [
                u64::from(one.source.0) << 32 | u64::from(one.tag.0),
                one.sequence.into(),
                one.at_ns,
                one.woken_ns,
            ]
        };
        let count = fill(self.arrivals_of(rank), arrived.iter().map(words));
        self.entry(rank)[ARRIVALS].store(count, Ordering::Release);
    }
}

/// Writes rows as far as there are places; how many that were.
fn fill<const N: usize>(
    places: std::slice::ChunksExact<'_, AtomicU64>,
    rows: impl Iterator<Item = [u64; N]>,
) -> u64 {
    let mut count = 0;
    for (words, row) in places.zip(rows) {
        for (word, number) in words.iter().zip(row) {
            word.store(number, Ordering::Relaxed);
        }
        count += 1;
    }
    count
}

fn read<const N: usize>(words: &[AtomicU64]) -> [u64; N] {
    std::array::from_fn(|at| words[at].load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_comes_out() {
        let results = Results::create(&[2, 0, 1], 1, true).expect("a table");
        let counters = Counters { messages: 3, bytes: 40, ..Counters::default() };
        let text = "rank 0: too late ".repeat(100);
        results.outcome(Rank(0), 100, 250, counters, Some(&text));
        results.outcome(Rank(1), 110, 260, counters, None);
        let recorded = |op| Recorded { run: 1, op: OpId(op), start_ns: 7, begun_ns: 8, end_ns: 9 };
        results.records(Rank(0), &[recorded(5), recorded(6), recorded(7)]);
        let ops = |rank| results.recorded(Rank(rank)).iter().map(|record| record.op.0).collect::<Vec<u32>>();
        assert_eq!((ops(0), ops(1), ops(2)), (vec![5, 6], vec![], vec![]));
        let arrived = Arrived {
            source: Rank(2),
            tag: Tag(u32::MAX),
            sequence: 5,
            at_ns: 6,
            woken_ns: 7,
            is_of_call: false,
        };
        results.arrivals(Rank(2), &[arrived; 3]);
        assert_eq!((results.arrived(Rank(2)), results.arrived(Rank(0))), (vec![arrived], vec![]));
        results.round(Rank(0), 0, 5, 9);
        results.round(Rank(1), 0, 5, 9);
        assert_eq!(results.rounds(0), [], "one is not through");
        results.round(Rank(2), 0, 4, 11);
        assert_eq!(results.rounds(0), [Round { wall_ns: 7, last: Rank(2) }]);
        assert_eq!(results.rounds(1), []);
        let summary = results.summary(&[Ended::Exited(1), Ended::Exited(0), Ended::Killed(9)]);
        assert_eq!((summary.zero_ns, summary.wall_ns, &summary.end_ns[..]), (100, 160, &[150, 160, 0][..]));
        assert_eq!((&summary.messages[..], &summary.bytes[..]), (&[3, 3, 0][..], &[40, 40, 0][..]));
        assert_eq!(summary.failures, [&text[..TEXT_BYTES_MAX], "rank 2: was killed by SIGKILL"]);
    }
}
