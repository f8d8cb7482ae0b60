//! Which sessions stand still and which run, for all threads of a daemon.

use crate::DaemonError;
use castell_agent::Marks;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The marks of sessions that stand still, and who is rung for when these are others.
pub(crate) struct Standing {
    marks: Mutex<Marks>,
    /// Told when somebody runs.
    runs: Condvar,
    pub(crate) bell: OwnedFd,
}

impl Standing {
    pub(crate) fn new() -> Result<Standing, DaemonError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = bell.map_err(DaemonError::system("make an eventfd"))?;
        Ok(Standing { marks: Mutex::default(), runs: Condvar::new(), bell })
    }

    /// From now on it is these.
    pub(crate) fn set(&self, marks: &Marks) {
        self.now().clone_from(marks);
        self.runs.notify_all();
        // A bell that rings already is enough.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Whether the session with this mark stands still.
    pub(crate) fn has(&self, mark: &str) -> bool {
        self.now().standing.contains(mark)
    }

    /// Whether nobody runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.now().running.is_empty()
    }

    /// The only session that runs, if it may be stopped for a measurement.
    pub(crate) fn alone(&self) -> Option<String> {
        let marks = self.now();
        let only = marks.running.first().filter(|_| marks.running.len() == 1);
        only.filter(|mark| !marks.unprobed.contains(*mark)).cloned()
    }

    /// The sessions that run. Waits until there are some; calls `before` if it has to.
    pub(crate) fn running(&self, before: &mut dyn FnMut()) -> BTreeSet<String> {
        let mut marks = self.now();
        if marks.running.is_empty() {
            drop(marks);
            before();
            marks = self.now();
        }
        let nobody = |marks: &mut Marks| marks.running.is_empty();
        self.runs.wait_while(marks, nobody).unwrap_or_else(PoisonError::into_inner).running.clone()
    }

    fn now(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
