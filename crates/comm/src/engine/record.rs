//! When operations started and finished, for timelines.

use super::run::RunRef;
use castell_goal::schedule::OpId;
use castell_host::clock::now_ns;
use std::collections::HashMap;

/// One operation of one run, on the job's clock (nanoseconds; the same in all processes of a host).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Serial number of the run within its rank, from 1.
    pub run: u64,
    /// Which operation.
    pub op: OpId,
    /// When it became ready and was started.
    pub start_ns: u64,
    /// When its buffers were free again.
    pub end_ns: u64,
}

/// Records every operation of every run. Memory grows with their number.
#[derive(Default)]
pub(super) struct Recorder {
    started: HashMap<(u64, u32), u64>,
    pub(super) done: Vec<Recorded>,
}

impl Recorder {
    pub(super) fn start(&mut self, run: RunRef, op: OpId) {
        self.started.insert((run.serial, op.0), now_ns());
    }

    pub(super) fn finish(&mut self, run: RunRef, op: OpId) {
        let end_ns = now_ns();
        let start_ns = self.started.remove(&(run.serial, op.0)).unwrap_or(end_ns);
        self.done.push(Recorded { run: run.serial, op, start_ns, end_ns });
    }

    pub(super) fn drop_run(&mut self, run: RunRef) {
        self.started.retain(|(serial, _), _| *serial != run.serial);
    }
}
