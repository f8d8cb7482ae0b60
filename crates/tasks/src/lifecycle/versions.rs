//! Tasks with several bodies, of which one runs: which one is decided when a task becomes ready, by who hands it to the scheduler,
//! or by the node's daemon ([`grants`](crate::lifecycle::grants)).
//!
//! Until then the kind in its record is that of no worker ([`UNDECIDED`](crate::lifecycle::task::UNDECIDED)), which the scheduler finds where it looks
//! for whom a task is: nobody else's path gets longer. What was chosen is told when the task's body is over, if it waits for no events
//! then, and otherwise when it is done.

use crate::lifecycle::grants::{Answer, Granting, Place, Request};
use castell_host::clock::now_ns;
use castell_sched::Kind;
use castell_sched::versions::{Choice, Chooser, Measured, Outcome, Versions, Wish};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

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
    /// Where the node's daemon has given it one.
    place: OnceLock<Arc<Place>>,
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
            place: OnceLock::new(),
            began_ns: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
        }
    }

    /// Which ones there are.
    pub(crate) fn versions(&self) -> Versions {
        self.versions
    }

    /// The place that the node's daemon has given it, if it has.
    pub(crate) fn place(&self) -> Option<&Arc<Place>> {
        self.place.get()
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
        self.place().into_iter().for_each(|place| place.give_back());
    }
}

/// Who decides in a runtime.
pub(crate) struct Deciding {
    chooser: Mutex<Chooser>,
    grants: Option<Arc<dyn Granting>>,
}

impl Deciding {
    /// For so many workers of each kind, and under a daemon where somebody can ask one.
    pub(crate) fn new(workers: [u64; Kind::COUNT], grants: Option<Arc<dyn Granting>>) -> Deciding {
        Deciding { chooser: Mutex::new(Chooser::new(workers)), grants }
    }

    /// Whether a daemon decides, as far as is known.
    pub(crate) fn has_daemon(&self) -> bool {
        self.grants.as_ref().is_some_and(|grants| grants.may_answer())
    }

    /// Asks the daemon about a ready task; `answer` hands it to [`Deciding::decide`] once more. False if nobody can be asked.
    pub(crate) fn ask(&self, versions: Versions, facts: Facts, answer: Answer) -> bool {
        let Some(grants) = &self.grants else { return false };
        let Facts { label, cost, .. } = facts;
        let takes_ns = {
            let (chooser, wish) = (self.chooser(), Wish { label, cost, versions: &versions });
            versions.kinds().iter().map(|&kind| chooser.expected_ns(&wish, kind)).collect()
        };
        Arc::clone(grants).ask(Request { label, versions, takes_ns, answer })
    }

    /// No task is left: ends the threads that ask.
    pub(crate) fn stop(&self) {
        self.grants.iter().for_each(|grants| grants.stop());
    }

    /// Workers were taken away or given back.
    pub(crate) fn set_workers(&self, workers: [u64; Kind::COUNT]) {
        self.chooser().set_workers(workers);
    }

    /// What versions took so far.
    pub(crate) fn measured(&self) -> Vec<Measured> {
        self.chooser().measured()
    }

    /// The task is ready: the kind of workers that run it, which is that for which it was given a place, if it was.
    pub(crate) fn decide(
        &self,
        version: &Version,
        facts: Facts,
        granted: Option<(Kind, Arc<Place>)>,
    ) -> Kind {
        if facts.is_poisoned {
            return version.versions.kinds()[0]; // somebody has to skip it
        }
        let wish = Wish { label: facts.label, cost: facts.cost, versions: &version.versions };
        let choice = match granted {
            Some((kind, place)) => {
                version.place.get_or_init(|| place);
                self.chooser().assign(&wish, kind)
            }
            None => self.chooser().choose(&wish),
        };
        // It becomes ready once.
        version.choice.get_or_init(|| choice).kind
    }

    fn chooser(&self) -> MutexGuard<'_, Chooser> {
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
