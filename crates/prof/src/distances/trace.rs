//! Traces on disk: all accesses of a program, and distances of a trace.

use super::stream::{self, Record};
use super::{ObserveError, Options, Seen, Watched, check_block};
use crate::prints::Prints;
use castell_cachesim::trace::{Event, TraceWriter, read_trace};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

/// A trace that is being written. If the disk is full it ends, but the program goes on.
pub(super) struct Trace {
    writer: Result<TraceWriter<BufWriter<File>>, io::Error>,
    process: u32,
}

impl Trace {
    pub fn create(path: &Path, block_bytes: u64) -> Result<Trace, ObserveError> {
        let failed = |error| ObserveError::TraceFile { path: path.to_owned(), error };
        let file = File::create(path).map_err(failed)?;
        let writer =
            TraceWriter::new(BufWriter::with_capacity(1 << 20, file), block_bytes.ilog2()).map_err(failed)?;
        Ok(Trace { writer: Ok(writer), process: 0 })
    }

    /// What a process sent.
    pub fn note(&mut self, process: u32, payload: &[u8], repeats: u64) {
        let Ok(writer) = &mut self.writer else { return };
        let is_other = std::mem::replace(&mut self.process, process) != process;
        let records = stream::records(payload).filter_map(|record| match record {
            Record::Block(block) => Some(Event::Block(block)),
            Record::Thread(thread) => Some(Event::Thread(thread)),
            Record::Function(_) => None,
        });
        let before = is_other.then_some(Event::Process(process));
        let after = (repeats > 0).then_some(Event::Repeats(repeats));
        let written: io::Result<()> =
            before.into_iter().chain(records).chain(after).try_for_each(|event| writer.write(event));
        if let Err(error) = written {
            self.writer = Err(error);
        }
    }

    /// Writes the end; says what went wrong.
    pub fn finish(self) -> Option<io::Error> {
        self.writer.and_then(TraceWriter::finish).err()
    }
}

/// Distances of a trace, process by process, and the bytes of the blocks: the trace's, or the larger ones that are asked for.
/// Programs have no names there.
///
/// # Errors
/// The bytes are no whole trace, or its blocks are larger than those asked for.
pub fn of_trace(
    bytes: &[u8],
    block_bytes: Option<u64>,
    threads: bool,
) -> Result<(u64, Vec<Seen>), ObserveError> {
    let (block_shift, events) = read_trace(bytes)?;
    let kept = 1 << block_shift;
    let asked = block_bytes.unwrap_or(kept);
    if block_bytes.is_some() {
        check_block(asked)?;
    }
    if asked < kept {
        return Err(ObserveError::BlockOfTrace { kept, asked });
    }
    let shift = asked.ilog2() - block_shift;
    let options = Options {
        block_bytes: asked,
        ignore_stack: false,
        functions: false,
        threads,
        sample: None,
        growth: false,
        trace: None,
        prints: Prints::ToOutput,
    };
    let mut watched: BTreeMap<u32, Watched> = BTreeMap::new();
    let mut process = 0;
    for event in events {
        let program = watched.entry(process).or_insert_with(|| {
            let seen = Seen { pid: process, is_complete: true, ..Seen::default() };
            Watched::new(seen, &options).expect("nothing is sampled")
        });
        match event? {
            Event::Process(other) => process = other,
            Event::Thread(thread) => program.thread = thread,
            Event::Block(block) => {
                program.seen.accesses += 1;
                program.touch_all(std::iter::once(block >> shift));
            }
            Event::Repeats(count) => {
                program.seen.accesses = program.seen.accesses.saturating_add(count);
                program.repeat(count);
            }
        }
    }
    let seen = watched.values().map(Watched::summary).filter(|seen| seen.accesses > 0);
    Ok((options.block_bytes, seen.collect()))
}
