//! The results of a rank on another host: it notes them in a journal as rows, and the launcher enters them into its table, at times of its own
//! clock.

use super::execute::Told;
use super::results::Results;
use castell_base::{Rank, Tag};
use castell_comm::Counters;
use castell_comm::engine::{Arrived, Recorded};
use castell_comm::hosts::Recorded as OfHosts;
use castell_goal::schedule::OpId;
use castell_host::journal::{Journal, Row};
use castell_xdp::Mode;

const ROUND: u64 = 1;
const OUTCOME: u64 = 2;
const TEXT: u64 = 3;
const RECORD: u64 = 4;
const ARRIVAL: u64 = 5;
const KERNEL: u64 = 6;

/// Bytes of a failure's text in a row, and the rows that it may have.
const TEXT_BYTES: usize = 40;
const TEXT_ROWS: usize = 24;

/// How many rows a rank needs.
pub fn rows(operations: usize, rounds: usize, records: bool) -> usize {
    // A message is received by an operation.
    rounds + 2 + TEXT_ROWS + if records { 2 * operations } else { 0 }
}

/// A rank notes.
pub struct Noting<'a> {
    pub journal: &'a Journal,
    pub operations: usize,
}

impl Told for Noting<'_> {
    fn round(&self, _rank: Rank, round: usize, start_ns: u64, end_ns: u64) {
        self.journal.note([ROUND, round as u64, start_ns, end_ns, 0, 0, 0, 0]);
    }

    fn outcome(&self, _rank: Rank, start_ns: u64, end_ns: u64, counters: Counters, failure: Option<&str>) {
        let text = failure.unwrap_or_default().as_bytes();
        let text = &text[..text.len().min(TEXT_BYTES * TEXT_ROWS)];
        for (at, bytes) in text.chunks(TEXT_BYTES).enumerate() {
            let mut row: Row = [TEXT, at as u64, bytes.len() as u64, 0, 0, 0, 0, 0];
            for (word, bytes) in row[3..].iter_mut().zip(bytes.chunks(8)) {
                let mut padded = [0; 8];
                padded[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_le_bytes(padded);
            }
            self.journal.note(row);
        }
        let failed = u64::from(failure.is_some());
        let Counters { messages, bytes, .. } = counters;
        self.journal.note([OUTCOME, start_ns, end_ns, messages, bytes, failed, 0, 0]);
    }

    fn records(&self, _rank: Rank, recorded: &[Recorded]) {
        for one in recorded.iter().take(self.operations) {
            let row = [RECORD, one.op.0.into(), one.start_ns, one.begun_ns, one.end_ns, 0, 0, 0];
            self.journal.note(row);
        }
    }

    fn arrivals(&self, _rank: Rank, arrived: &[Arrived]) {
        for one in arrived.iter().take(self.operations) {
            let (source, tag, sequence) = (one.source.0.into(), one.tag.0.into(), one.sequence.into());
            self.journal.note([ARRIVAL, source, tag, sequence, one.at_ns, one.woken_ns, 0, 0]);
        }
    }
}

/// The kernel carries this rank's schedule.
pub fn in_kernel(journal: &Journal, mode: Mode) {
    journal.note([KERNEL, (mode == Mode::Generic).into(), 0, 0, 0, 0, 0, 0]);
}

/// How the program was at the first rank's interface, if the kernel carried the schedules.
pub fn kernel_mode(recorded: &OfHosts) -> Option<Mode> {
    let row = recorded.noted.first()?.rows.iter().find(|row| row[0] == KERNEL)?;
    Some(if row[1] == 1 { Mode::Generic } else { Mode::Native })
}

/// Enters what all ranks noted.
pub fn enter(recorded: &OfHosts, results: &Results) {
    for (rank, noted) in (0..).map(Rank).zip(&recorded.noted) {
        enter_rank(rank, &noted.rows, &|theirs_ns| recorded.to_own(rank, theirs_ns), results);
    }
}

fn enter_rank(rank: Rank, rows: &[Row], on: &dyn Fn(u64) -> u64, results: &Results) {
    let (mut text, mut records, mut arrivals) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        match *row {
            [ROUND, round, start_ns, end_ns, ..] => {
                results.round(rank, round as usize, on(start_ns), on(end_ns));
            }
            [TEXT, _, length, ..] => {
                let bytes: Vec<u8> = row[3..].iter().flat_map(|word| word.to_le_bytes()).collect();
                text.extend_from_slice(&bytes[..bytes.len().min(length as usize)]);
            }
            [OUTCOME, start_ns, end_ns, messages, bytes, failed, ..] => {
                let counters = Counters { messages, bytes, ..Counters::default() };
                let said = String::from_utf8_lossy(&text).into_owned();
                let failure = (failed != 0).then_some(&*said);
                results.outcome(rank, on(start_ns), on(end_ns), counters, failure);
            }
            [RECORD, op, start_ns, begun_ns, end_ns, ..] => {
                let [start_ns, begun_ns, end_ns] = [start_ns, begun_ns, end_ns].map(on);
                records.push(Recorded { run: 1, op: OpId(op as u32), start_ns, begun_ns, end_ns });
            }
            [ARRIVAL, source, tag, sequence, at_ns, woken_ns, ..] => {
                let (source, tag, sequence) = (Rank(source as u32), Tag(tag as u32), sequence as u32);
                let woken_ns = if woken_ns == 0 { 0 } else { on(woken_ns) };
                let at_ns = on(at_ns);
                arrivals.push(Arrived { source, tag, sequence, at_ns, woken_ns, is_of_call: false });
            }
            _ => {}
        }
    }
    results.records(rank, &records);
    results.arrivals(rank, &arrivals);
}
