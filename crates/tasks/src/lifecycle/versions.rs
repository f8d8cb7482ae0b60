//! Tasks with several bodies, of which one runs: which one is decided when a task becomes ready, by who hands it to the scheduler.
//!
//! Until then the kind in its record is that of no worker ([`UNDECIDED`](crate::lifecycle::task::UNDECIDED)), which the scheduler finds where it looks
//! for whom a task is: nobody else's path gets longer. What was chosen is told when the task's body is over, if it waits for no events
//! then, and otherwise when it is done.

use castell_host::clock::now_ns;
use castell_sched::Kind;
use castell_sched::versions::{Choice, Chooser, Measured, Outcome, Versions, Wish};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What is known of a task besides its versions.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) label: &'static str,
    pub(crate) cost: u32,
    /// It is skipped, or has failed.
    pub(crate) is_poisoned: bool,
}

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

    /// Its body begins.
    pub(crate) fn begin(&self) {
        self.began_ns.store(now_ns(), Ordering::Relaxed);
    }

    /// Its task is over, or all that it did with its worker: said once, whoever comes first.
    pub(crate) fn end(&self, deciding: &Deciding, facts: Facts) {
        let Some(&choice) = self.choice.get() else { return };
        if self.is_told.swap(true, Ordering::Relaxed) {
            return;
        }
        let outcome = match self.began_ns.load(Ordering::Relaxed) {
            0 => Outcome::Skipped,
            _ if facts.is_poisoned => Outcome::Failed,
            began => Outcome::Ran(now_ns().saturating_sub(began)),
        };
        deciding.chooser().ended(facts.label, facts.cost, choice, outcome);
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

    /// The task is ready: the kind of workers that run it.
    pub(crate) fn decide(&self, version: &Version, facts: Facts) -> Kind {
        if facts.is_poisoned {
            return version.versions.kinds()[0]; // somebody has to skip it
        }
        let wish = Wish { label: facts.label, cost: facts.cost, versions: &version.versions };
        let choice = self.chooser().choose(&wish);
        // It becomes ready once.
        version.choice.get_or_init(|| choice).kind
    }

    fn chooser(&self) -> MutexGuard<'_, Chooser> {
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
