//! Where threads sleep until one task is done.

use crate::lifecycle::task::{Task, flag};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// For the tasks of all runtimes: a thread of one may wait for a task of another.
pub(crate) static WAITING: Waiting = Waiting { rounds: Mutex::new(0), changed: Condvar::new() };

/// Where threads sleep until one task is done.
pub(crate) struct Waiting {
    /// How often a task was done that somebody waited for.
    rounds: Mutex<u64>,
    changed: Condvar,
}

impl Waiting {
    /// Sleeps until `task`, of which the caller holds a reference, is done, or the time is up.
    pub(crate) fn sleep_until_done(&self, task: &Task, timeout: Option<Duration>) {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        if task.set(flag::AWAITED) & flag::DONE != 0 {
            return;
        }
        while !task.has(flag::DONE) {
            match timeout {
                None => rounds = self.changed.wait(rounds).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    drop(self.changed.wait_timeout(rounds, timeout).unwrap_or_else(PoisonError::into_inner));
                    return;
                }
            }
        }
    }

    /// A task that somebody waits for is done.
    pub(crate) fn wake(&self) {
        *self.rounds.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }
}
