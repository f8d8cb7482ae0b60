//! What all threads of a runtime share.

use crate::dependences::Exclusive;
use crate::diagnostics::drawn::Drawn;
use crate::diagnostics::journal::Journal;
use crate::diagnostics::record::Recorder;
use crate::diagnostics::stall::Stalls;
use crate::lifecycle::assembly::Assembly;
use crate::lifecycle::counts::Counts;
use crate::lifecycle::places::Places;
use crate::lifecycle::task::Task;
use crate::lifecycle::versions::Deciding;
use crate::memory::Memory;
use crate::scheduler::Scheduler;
use crate::waiting::services::Services;
use crate::waiting::suspend::Suspended;
use crate::workers::devices::Devices;
use crate::workers::{WorkerId, Workers};
use std::sync::{Condvar, Mutex, PoisonError};

/// What all threads of a runtime share.
pub struct Shared {
    pub(crate) memory: Memory,
    pub(crate) scheduler: Scheduler<Task>,
    pub(crate) workers: Workers,
    pub(crate) counts: Counts,
    /// Which commutative tasks hold which bytes.
    pub(crate) exclusive: Exclusive<Task>,
    /// Where data was written last, if there are several NUMA nodes and it matters.
    pub(crate) places: Option<Places>,
    /// There are places, a journal or a timeline: somebody wants to know of tasks that become ready.
    pub(crate) watches_ready: bool,
    /// There are places, a journal or a recorder: somebody wants to know what tasks do.
    pub(crate) watches: bool,
    pub(crate) stall: Stalls,
    pub(crate) roots: Roots,
    /// Where the workers' threads are lent: who has come to their barrier.
    pub(crate) assembly: Option<Assembly>,
    pub(crate) services: Services,
    pub(crate) suspended: Suspended,
    /// In the debug mode.
    pub(crate) journal: Option<Journal>,
    /// When somebody wants to know what happens.
    pub(crate) recorder: Option<Recorder>,
    /// When whoever started this process draws what it does.
    pub(crate) timeline: Option<Drawn>,
    /// Workers for ordinary tasks.
    pub(crate) worker_count: usize,
    pub(crate) devices: Devices,
    /// Which version of a task runs, where it has several.
    pub(crate) versions: Deciding,
    /// The process that built it: threads do not survive a fork.
    pub(crate) process: u32,
}

impl Shared {
    /// A task without a parent is done.
    pub(crate) fn root_ended(&self) {
        match &self.assembly {
            None => self.roots.end(),
            Some(assembly) => {
                if assembly.arrive() {
                    self.beckon_all();
                }
            }
        }
    }

    /// Has all lent threads look at their barrier.
    pub(crate) fn beckon_all(&self) {
        let workers = || (0..self.workers.count() as u32).map(WorkerId);
        workers().for_each(|worker| self.workers.beckon(worker));
        workers().for_each(|worker| self.scheduler.call(worker));
    }
}

/// The tasks without a parent that are not done.
#[derive(Default)]
pub(crate) struct Roots {
    live: Mutex<u64>,
    none: Condvar,
}

impl Roots {
    /// One is created.
    pub(crate) fn begin(&self) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// One is done.
    pub(crate) fn end(&self) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        *live -= 1;
        if *live == 0 {
            self.none.notify_all();
        }
    }

    /// Waits until there is none.
    pub(crate) fn wait(&self) {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let _none = self.none.wait_while(live, |live| *live > 0).unwrap_or_else(PoisonError::into_inner);
    }
}
