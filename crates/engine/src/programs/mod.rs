//! Calls as compiled programs over slots, without the engine: the calling thread carries blocking ones out (`line.rs`), and started
//! ones (`started.rs`) are carried on by whoever looks at them. Here is what a process keeps for them.
//!
//! The graph is the one that the stepper would run, and so are the results; `slot/README.md` says why nothing is overtaken and
//! nobody waits for ever. Who has waited for long drives the engine meanwhile, as every waiting thread does.

mod large;
mod line;
mod oversubscription;
mod started;

use super::handle_state::HandleState;
use super::runs::{Recorded, note_call, number_of_steps};
use crate::board::Record;
use crate::slot::line::{ConsumerIndex, Progress};
use crate::slot::log::LogWriter;
use crate::slot::program::{Program, Segments};
use crate::slot::window::Window;
use crate::slot::{CONTEXTS, SETS, SlotSet};
use castell_base::Rank;
use castell_host::clock::now_ns;
use castell_host::journal::Journal;
use castell_shm::cma_probe::WORTH;
use castell_shm::job::Job;
use castell_trace::journal::Event;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Large messages go round in so much of a bounce buffer, unless one segment has more. Bytes.
const BOUNCE_ROUND_BYTES: usize = 512 << 10;
/// What a process keeps for its compiled programs.
pub(super) struct Programs {
    /// Of each context, for its blocking calls.
    blocking: Vec<Mutex<Own>>,
    /// And for those that were started.
    pub(super) started: Vec<Mutex<StartedCalls>>,
    /// The sequence numbers of the contexts' next calls.
    pub(super) numbers: Arc<[AtomicU64]>,
    /// Messages and bytes that were sent; written in the set's lock.
    sent: [[AtomicU64; 2]; SETS as usize],
    /// Whether somebody wants to know when operations start and finish.
    pub(super) records: AtomicBool,
    /// Where that goes, if not to the engine.
    pub(super) journal: OnceLock<Arc<Journal>>,
}

/// Of one context's blocking or started calls.
pub(super) struct Own {
    pub(super) consumer_index: ConsumerIndex,
    pub(super) progress: Progress,
    pub(super) log: LogWriter,
    /// At this count of deaths and departures all members were there.
    pub(super) epoch: u32,
    /// Where the large messages of the last segment end in this rank's bounce buffer. Bytes.
    bounce_end: usize,
    /// The last turn that each rank of the job has been seen to have passed.
    seen: Box<[u64]>,
    /// How dear it is for the members to read each other's memory, once they know; `Some(None)`: they may not.
    pub(super) reads_peers: Option<Option<u32>>,
    /// Room for parts of messages that are reduced out of other processes.
    pub(super) blocks: Box<[u128]>,
}

impl Own {
    fn new(job: &Job, set: SlotSet, me: Rank) -> Own {
        Own {
            consumer_index: job.consumer_index(set, me),
            progress: Progress::default(),
            log: LogWriter::new(job.call_log(set, me)),
            epoch: 0,
            bounce_end: 0,
            seen: vec![0; job.ranks() as usize].into(),
            reads_peers: None,
            blocks: Box::default(),
        }
    }

    /// A context is used anew: nothing of its older calls is left.
    pub(super) fn open(&mut self) {
        (self.progress, self.epoch, self.reads_peers) = (Progress::default(), 0, None);
    }

    /// Where the next segment's large messages begin: behind the last one's, as long as they go round in a part of the bounce buffer.
    /// Any place would do, but lines that their readers have looked at just now are written slowly.
    #[inline(always)]
    fn place_in_bounce(&mut self, bytes: usize) -> usize {
        let fits = self.bounce_end + bytes <= BOUNCE_ROUND_BYTES;
        let at = if fits { self.bounce_end } else { 0 };
        self.bounce_end = at + bytes;
        at
    }
}

impl Programs {
    pub(super) fn new(job: &Job, me: Rank, numbers: Arc<[AtomicU64]>) -> Programs {
        let contexts = || (0..CONTEXTS).filter(|context| job.has_slots(*context));
        let own = |set| Own::new(job, set, me);
        Programs {
            blocking: contexts().map(|context| Mutex::new(own(SlotSet::blocking(context)))).collect(),
            started: contexts()
                .map(|context| Mutex::new(StartedCalls::new(own(SlotSet::started(context)))))
                .collect(),
            numbers,
            sent: Default::default(),
            records: AtomicBool::new(false),
            journal: OnceLock::new(),
        }
    }

    /// A context is used anew.
    pub(super) fn open(&self, context: u32) {
        if let (Some(own), Some(started)) =
            (self.blocking.get(context as usize), self.started.get(context as usize))
        {
            own.lock().unwrap_or_else(PoisonError::into_inner).open();
            started.lock().unwrap_or_else(PoisonError::into_inner).own.open();
        }
    }

    /// Whether the members of a context read each other's memory, once they know.
    pub(super) fn reads_peers(&self, context: u32) -> Option<bool> {
        let own = self.blocking.get(context as usize)?;
        let verdict = own.lock().unwrap_or_else(PoisonError::into_inner).reads_peers;
        verdict.map(|dearness| dearness.is_some_and(|dearness| dearness <= WORTH))
    }

    /// A thread of the program is about to wait for something: since when, if that is noted.
    #[inline]
    pub(super) fn begins_to_wait(&self) -> Option<u64> {
        self.records.load(Ordering::Relaxed).then(now_ns)
    }

    /// It has waited, for the end of this run.
    #[inline]
    pub(super) fn has_waited(&self, since_ns: Option<u64>, run: u64) {
        if let Some(start_ns) = since_ns {
            self.note(Event::Waited { start_ns, end_ns: now_ns(), run: Some(run) });
        }
    }

    #[cold]
    pub(super) fn note(&self, event: Event) {
        if let Some(journal) = self.journal.get() {
            journal.note(event.to_row());
        }
    }

    /// Notes which call the steps of a set of slots are under this number.
    #[cold]
    pub(super) fn note_call(&self, set: SlotSet, number: u64, record: &Record) {
        if let Some(journal) = self.journal.get() {
            note_call(journal, number_of_steps(set.index(), number), record);
        }
    }

    /// Messages that were sent so far, and their bytes.
    pub(super) fn sent(&self) -> [u64; 2] {
        [0, 1].map(|at| self.sent.iter().map(|sent| sent[at].load(Ordering::Relaxed)).sum())
    }

    #[inline(always)]
    pub(super) fn count(&self, set: SlotSet, program: &Program) {
        for (count, more) in
            self.sent[set.index() as usize].iter().zip([program.traffic.messages, program.traffic.bytes])
        {
            count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }
}

/// The started calls of a context.
pub(super) struct StartedCalls {
    pub(super) own: Own,
    pub(super) window: Window<Started>,
    /// A call has messages that could not leave.
    pub(super) lacks_room: bool,
    /// How often the progress thread has found that.
    pub(super) looks_for_room: u32,
}

/// A call under way.
pub(super) struct Started {
    pub(super) segments: Arc<Segments>,
    pub(super) state: Arc<HandleState>,
    pub(super) number: u64,
    pub(super) signature: u64,
    /// The step that is next.
    pub(super) at: usize,
    /// The last turn before this one that used the same places.
    pub(super) overwrites: u64,
    pub(super) looks: u32,
    /// When it was first asked whether it waits in vain.
    pub(super) since_ns: u64,
    pub(super) recorded: Vec<Recorded>,
}

impl StartedCalls {
    pub(super) fn new(own: Own) -> StartedCalls {
        StartedCalls { own, window: Window::default(), lacks_room: false, looks_for_room: 0 }
    }
}
