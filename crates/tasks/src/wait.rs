//! Waiting: for a body's children, for a group's members, and for one task.

use crate::children::Children;
use crate::current::Thread;
use crate::execute::execute;
use crate::schedulable::Schedulable as _;
use crate::task::{Task, TaskRef, flag};
use castell_base::sync::spin_hint;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Looks before a waiting thread gives its CPU up: about the time that a small task takes.
const SPINS: u32 = 200;
/// While no other thread takes the CPU over, a waiter looks for ready descendants this often.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Waits until no child of the thread's current task is left.
#[inline]
pub(crate) fn wait_children(thread: &Thread) {
    // SAFETY: a body is running, so its task is alive.
    if let Some(task) = unsafe { thread.task.get().as_ref() } {
        wait_counted(thread, &task.children);
    }
}

/// Waits until none of `children`, descendants of the thread's current task, is left: runs descendants that are ready on
/// this stack, spins briefly, then sleeps while another thread uses the CPU.
pub(crate) fn wait_counted(thread: &Thread, children: &Children) {
    let mut spins = 0;
    while children.live() > 0 {
        // SAFETY: a body is running, so its task is alive.
        if unsafe { thread.task.get().as_ref() }.is_some_and(|task| run_descendant(thread, task)) {
            spins = 0;
            continue;
        }
        spins += 1;
        if spins < SPINS {
            spin_hint();
            continue;
        }
        thread.shared.services.poll();
        thread.without_cpu(|| {
            children.sleep(thread, || {
                thread.wait_for_bell(Some(LOOK_AGAIN));
            });
        });
    }
    children.forget();
}

/// Waits until `awaited`, of which the caller holds a reference, is done: runs what is ready among the descendants of the
/// thread's current task meanwhile.
pub(crate) fn wait_task(thread: &Thread, awaited: &Task) {
    let mut spins = 0;
    while !awaited.has(flag::DONE) {
        // SAFETY: a body is running, so its task is alive.
        if unsafe { thread.task.get().as_ref() }.is_some_and(|task| run_descendant(thread, task)) {
            spins = 0;
            continue;
        }
        spins += 1;
        if spins < SPINS {
            spin_hint();
            continue;
        }
        let timeout = thread.worker.get().map(|_| LOOK_AGAIN);
        thread.without_cpu(|| WAITING.sleep_until_done(awaited, timeout));
    }
}

/// Runs one ready descendant of `task`, and what that makes ready for this thread as long as it descends from it too.
#[inline]
pub(crate) fn run_descendant(thread: &Thread, task: &Task) -> bool {
    let Some(worker) = thread.worker.get() else { return false };
    let Some(found) = thread.shared.scheduler.get_descendant(worker, task) else { return false };
    run_chain(thread, task, found);
    true
}

/// Runs `first`, and what that makes ready for this thread as long as it descends from `task` too.
pub(crate) fn run_chain(thread: &Thread, task: &Task, first: TaskRef) {
    let mut next = Some(first);
    while let Some(ready) = next {
        // SAFETY: ready, and handed to nobody else.
        if !unsafe { ready.as_ref() }.descends_from(task) {
            // SAFETY: as above.
            unsafe { thread.shared.scheduler.add(ready, thread.worker.get()) };
            thread.shared.workers.notify();
            return;
        }
        // SAFETY: as above.
        next = unsafe { execute(thread, ready) };
    }
}

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
