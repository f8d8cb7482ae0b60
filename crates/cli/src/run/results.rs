//! What the ranks' processes tell the one that started them: a shared table, an entry a rank.

use castell_base::Rank;
use castell_comm::Counters;
use castell_comm::engine::Recorded;
use castell_goal::schedule::OpId;
use castell_host::process::Ended;
use castell_host::shm::Segment;

/// Bytes of a failure's text that are kept.
const TEXT_BYTES: usize = 960;

#[repr(C)]
struct Entry {
    /// 0: the rank never got here.
    entered: u64,
    start_ns: u64,
    end_ns: u64,
    messages: u64,
    bytes: u64,
    /// Length of the text, plus 1 if there is a failure.
    text: u64,
    records: u64,
    spare: u64,
    characters: [u8; TEXT_BYTES],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    op: u64,
    start_ns: u64,
    end_ns: u64,
}

/// The table.
pub struct Results {
    segment: Segment,
    /// Where each rank's records start, and how many fit. Bytes from the start, count.
    records: Vec<(usize, usize)>,
    recording: bool,
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
    /// A table for ranks with that many operations each.
    pub fn create(operations: &[usize], recording: bool) -> anyhow::Result<Results> {
        let mut at = operations.len() * size_of::<Entry>();
        let mut records = Vec::with_capacity(operations.len());
        for operations in operations {
            let count = if recording { *operations } else { 0 };
            records.push((at, count));
            at += count * size_of::<Record>();
        }
        let segment = Segment::create("castell-results", at.max(1))?;
        Ok(Results { segment, records, recording })
    }

    /// Whether operations are to be recorded.
    pub fn is_recording(&self) -> bool {
        self.recording
    }

    fn entry(&self, rank: Rank) -> *mut Entry {
        assert!(rank.index() < self.records.len());
        // SAFETY: the segment starts with an entry a rank.
        unsafe { self.segment.as_ptr().cast::<Entry>().add(rank.index()) }
    }

    fn records_of(&self, rank: Rank) -> *mut Record {
        // SAFETY: inside the segment, see `create`; 8-byte aligned since all parts are.
        unsafe { self.segment.as_ptr().add(self.records[rank.index()].0).cast() }
    }

    /// A rank's process: enters its outcome.
    pub fn enter(&self, rank: Rank, start_ns: u64, end_ns: u64, counters: Counters, failure: Option<&str>) {
        let mut characters = [0; TEXT_BYTES];
        let text = failure.unwrap_or_default().as_bytes();
        let length = text.len().min(TEXT_BYTES);
        characters[..length].copy_from_slice(&text[..length]);
        let entry = Entry {
            entered: 1,
            start_ns,
            end_ns,
            messages: counters.messages,
            bytes: counters.bytes,
            text: failure.map_or(0, |_| length as u64 + 1),
            records: 0,
            spare: 0,
            characters,
        };
        // SAFETY: the entry is this rank's; the parent reads it after this process has ended.
        unsafe { self.entry(rank).write(entry) };
    }

    /// A rank's process: enters when its operations started and finished.
    pub fn enter_records(&self, rank: Rank, recorded: &[Recorded]) {
        let count = recorded.len().min(self.records[rank.index()].1);
        for (at, recorded) in recorded[..count].iter().enumerate() {
            let record =
                Record { op: recorded.op.0.into(), start_ns: recorded.start_ns, end_ns: recorded.end_ns };
            // SAFETY: within the rank's own part of the segment.
            unsafe { self.records_of(rank).add(at).write(record) };
        }
        // SAFETY: as in `enter`.
        unsafe { (*self.entry(rank)).records = count as u64 };
    }

    /// After the end: what a rank recorded.
    pub fn recorded(&self, rank: Rank) -> Vec<Recorded> {
        // SAFETY: the rank's process has ended; what it did not write is zero.
        let count = unsafe { (*self.entry(rank)).records } as usize;
        let all = (0..count.min(self.records[rank.index()].1)).map(|at| {
            // SAFETY: as above.
            let record = unsafe { self.records_of(rank).add(at).read() };
            Recorded { run: 1, op: OpId(record.op as u32), start_ns: record.start_ns, end_ns: record.end_ns }
        });
        all.collect()
    }

    /// After the end: everything together.
    pub fn summary(&self, endings: &[Ended]) -> Summary {
        // SAFETY: the ranks' processes have ended; what they did not write is zero.
        let entries: Vec<&Entry> =
            (0..endings.len()).map(|r| unsafe { &*self.entry(Rank(r as u32)) }).collect();
        let entered = entries.iter().filter(|entry| entry.entered == 1);
        let zero_ns = entered.clone().map(|entry| entry.start_ns).min().unwrap_or(0);
        let last_ns = entered.map(|entry| entry.end_ns).max().unwrap_or(0);
        let mut failures = Vec::new();
        for (rank, (entry, ending)) in entries.iter().zip(endings).enumerate() {
            let text = (entry.text as usize).saturating_sub(1).min(TEXT_BYTES);
            let text = String::from_utf8_lossy(&entry.characters[..text]).into_owned();
            match (entry.entered == 1, entry.text > 0) {
                (true, true) => failures.push(text),
                (true, false) if ending.is_success() => {}
                _ => failures.push(format!("rank {rank}: {ending}")),
            }
        }
        Summary {
            end_ns: entries.iter().map(|entry| entry.end_ns.saturating_sub(zero_ns)).collect(),
            wall_ns: last_ns.saturating_sub(zero_ns),
            zero_ns,
            messages: entries.iter().map(|entry| entry.messages).collect(),
            bytes: entries.iter().map(|entry| entry.bytes).collect(),
            failures,
        }
    }
}
