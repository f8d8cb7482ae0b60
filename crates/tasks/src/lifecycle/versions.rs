//! Tasks with several bodies, of which one runs: which one is decided when a task becomes ready, by who hands it to the scheduler.
//!
//! Until then the kind in its record is that of no worker ([`UNDECIDED`](crate::lifecycle::task::UNDECIDED)), which the scheduler finds where it looks
//! for whom a task is: nobody else's path gets longer. What was chosen is told when the task's body is over, if it waits for no events
//! then, and otherwise when it is done.

use crate::lifecycle::task::{Task, TaskRef, flag};
use crate::scheduler::schedulable::Schedulable as _;
use castell_host::clock::now_ns;
use castell_sched::Kind;
use castell_sched::versions::{Choice, Chooser, Measured, Outcome, Versions, Wish};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Which versions there are of a task, and what was chosen.
pub(crate) struct Version {
    versions: Versions,
    choice: OnceLock<Choice>,
    /// When its body began; 0: it has not.
    began_ns: AtomicU64,
    /// Whoever decides has been told that it is over.
    is_told: AtomicBool,
}

impl Version {
    /// Nothing is chosen.
    pub(crate) fn of(versions: Versions) -> Version {
        Version {
            versions,
            choice: OnceLock::new(),
            began_ns: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
        }
    }

    /// Tells once how it ended.
    fn tell(&self, task: &Task, outcome: Outcome) {
        let Some(&choice) = self.choice.get() else { return };
        if !self.is_told.swap(true, Ordering::Relaxed) {
            // SAFETY: what threads share outlives the tasks.
            let deciding = unsafe { &(*task.shared).versions };
            deciding.chooser().ended(task.label(), task.cost, choice, outcome);
        }
    }

    fn outcome(&self, task: &Task) -> Outcome {
        match self.began_ns.load(Ordering::Relaxed) {
            0 => Outcome::Skipped,
            _ if task.has(flag::POISONED) => Outcome::Failed,
            began => Outcome::Ran(now_ns().saturating_sub(began)),
        }
    }
}

/// Who decides in a runtime.
pub(crate) struct Deciding {
    chooser: Mutex<Chooser>,
}

impl Deciding {
    /// For so many workers of each kind.
    pub(crate) fn new(workers: [u64; Kind::COUNT]) -> Deciding {
        Deciding { chooser: Mutex::new(Chooser::new(workers)) }
    }

    /// Workers were taken away or given back.
    pub(crate) fn set_workers(&self, workers: [u64; Kind::COUNT]) {
        self.chooser().set_workers(workers);
    }

    /// What versions took so far.
    pub(crate) fn measured(&self) -> Vec<Measured> {
        self.chooser().measured()
    }

    fn chooser(&self) -> MutexGuard<'_, Chooser> {
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task is ready: what runs it from now on.
///
/// # Safety
/// It is alive, and in no list.
pub(crate) unsafe fn decide(task: TaskRef) -> Option<Kind> {
    // SAFETY: the caller's promise.
    let record = unsafe { task.as_ref() };
    let version = record.extras().version.get().expect("a task without a kind has versions");
    // SAFETY: what threads share outlives the tasks.
    let deciding = unsafe { &(*record.shared).versions };
    let kind = if record.has(flag::POISONED) {
        version.versions.kinds()[0] // somebody has to skip it
    } else {
        let wish = Wish { label: record.label(), cost: record.cost, versions: &version.versions };
        let choice = deciding.chooser().choose(&wish);
        // It becomes ready once.
        version.choice.get_or_init(|| choice).kind
    };
    record.decide(kind);
    Some(kind)
}

/// Calls the body of the current task for the kind that was chosen.
pub(crate) fn run<R>(task: &Task, body: impl FnOnce(Kind) -> R) -> R {
    let Some(version) = task.extras().version.get() else { return body(task.kind()) };
    version.began_ns.store(now_ns(), Ordering::Relaxed);
    let result = body(task.kind());
    // A body that panics does not come here, and what has events goes on.
    if task.events.pending() == 1 {
        version.tell(task, version.outcome(task));
    }
    result
}

/// The task is done.
pub(crate) fn settle(task: &Task) {
    if let Some(version) = task.extras().version.get() {
        version.tell(task, version.outcome(task));
    }
}
