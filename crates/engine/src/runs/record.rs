//! When operations started and finished, for timelines.

use super::reference::RunRef;
use crate::messages::is_of_a_send;
use castell_base::{Rank, Tag};
use castell_goal::schedule::OpId;
use castell_host::clock::now_ns;
use castell_transport::Header;
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
    /// When it was under way: its message with the transport, or waiting for room; its receive posted.
    pub begun_ns: u64,
    /// When its buffers were free again.
    pub end_ns: u64,
}

/// A message of a send that came in: whole, or word of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Who sent it.
    pub source: Rank,
    /// With which label.
    pub tag: Tag,
    /// Counts the messages of that sender, in the order in which they were sent. Wraps around.
    pub sequence: u32,
    /// When it was taken in, on the job's clock. Nanoseconds.
    pub at_ns: u64,
    /// When the thread that took it in was woken last; 0: it never slept.
    pub woken_ns: u64,
}

/// Records every operation of every run, and every message that comes in. Memory grows with their number.
#[derive(Default)]
pub(crate) struct Recorder {
    /// When the operations that go on were started, and were under way.
    started: HashMap<(u64, u32), (u64, u64)>,
    pub(crate) done: Vec<Recorded>,
    pub(crate) arrived: Vec<Arrived>,
    woken_ns: u64,
}

impl Recorder {
    pub(crate) fn start(&mut self, run: RunRef, op: OpId) {
        self.started.insert((run.serial, op.0), (now_ns(), 0));
    }

    /// It was started and goes on.
    pub(crate) fn begun(&mut self, run: RunRef, op: OpId) {
        if let Some((_, begun_ns)) = self.started.get_mut(&(run.serial, op.0)) {
            *begun_ns = now_ns();
        }
    }

    pub(crate) fn finish(&mut self, run: RunRef, op: OpId) {
        let end_ns = now_ns();
        let (start_ns, begun_ns) = self.started.remove(&(run.serial, op.0)).unwrap_or((end_ns, end_ns));
        let begun_ns = if begun_ns == 0 { end_ns } else { begun_ns };
        self.done.push(Recorded { run: run.serial, op, start_ns, begun_ns, end_ns });
    }

    pub(crate) fn drop_run(&mut self, run: RunRef) {
        self.started.retain(|(serial, _), _| *serial != run.serial);
    }

    /// The thread that drives was woken.
    pub(crate) fn woken(&mut self) {
        self.woken_ns = now_ns();
    }

    /// A message comes in.
    #[cold]
    pub(crate) fn arrives(&mut self, header: &Header) {
        if is_of_a_send(header) {
            self.arrived.push(Arrived {
                source: Rank(header.source),
                tag: Tag(header.tag),
                sequence: header.sequence,
                at_ns: now_ns(),
                woken_ns: self.woken_ns,
            });
        }
    }
}
