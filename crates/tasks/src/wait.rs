//! Waiting: for a body's children, and for one task through a handle.

use crate::current::Thread;
use crate::execute::execute;
use crate::task::{Task, flag};
use castell_base::sync::{Ordering, spin_hint};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Looks before a waiting thread gives its CPU up: about the time that a small task takes.
const SPINS: u32 = 200;
/// While no other thread takes the CPU over, a waiter looks for ready descendants this often.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Waits until no child of the thread's current task is left: runs descendants that are ready on this stack, spins
/// briefly, then sleeps.
pub(crate) fn wait_children(thread: &Thread) {
    // SAFETY: a body is running, so its task is alive.
    let Some(task) = (unsafe { thread.task.get().as_ref() }) else { return };
    let mut spins = 0;
    while task.children.live() > 0 {
        if run_descendant(thread, task) {
            spins = 0;
            continue;
        }
        spins += 1;
        if spins < SPINS {
            spin_hint();
            continue;
        }
        sleep(thread, task);
    }
    task.children.forget();
}

/// Runs one ready descendant of `task`, and what that makes ready for this thread as long as it descends from it too.
fn run_descendant(thread: &Thread, task: &Task) -> bool {
    let Some(worker) = thread.worker.get() else { return false };
    let Some(found) = thread.shared.scheduler.get_descendant(worker, task) else { return false };
    let mut next = Some(found);
    while let Some(ready) = next {
        use crate::schedulable::Schedulable as _;
        // SAFETY: ready, and handed to nobody else.
        if !unsafe { ready.as_ref() }.descends_from(task) {
            // SAFETY: as above.
            unsafe { thread.shared.scheduler.add(ready, Some(worker)) };
            thread.shared.workers.notify();
            break;
        }
        // SAFETY: as above.
        next = unsafe { execute(thread, ready) };
    }
    true
}

/// Sleeps until the last child is done, or for a moment, after which there may be something to run.
fn sleep(thread: &Thread, task: &Task) {
    thread.bell.store(0, Ordering::Relaxed);
    task.waiter.store(std::ptr::from_ref(thread).cast_mut(), Ordering::Release);
    if !task.children.begin_wait() {
        if let Some(worker) = thread.worker.get() {
            thread.shared.workers.hand_over(worker);
        }
        castell_host::futex::wait(&thread.bell, 0, u32::MAX, Some(LOOK_AGAIN));
        if let Some(worker) = thread.worker.get() {
            thread.worker.set(Some(thread.shared.workers.resume(worker)));
        }
        if !task.children.end_wait() {
            // The last child is done and about to ring.
            while thread.bell.load(Ordering::Acquire) == 0 {
                castell_host::futex::wait(&thread.bell, 0, u32::MAX, None);
            }
        }
    }
    task.waiter.store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// Where threads sleep until one task is done.
#[derive(Default)]
pub(crate) struct Waiting {
    /// How often a task was done that somebody waited for.
    rounds: Mutex<u64>,
    changed: Condvar,
}

impl Waiting {
    /// Sleeps until `task`, of which the caller holds a reference, is done.
    pub(crate) fn sleep_until_done(&self, task: &Task) {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        if task.set(flag::AWAITED) & flag::DONE != 0 {
            return;
        }
        while !task.has(flag::DONE) {
            rounds = self.changed.wait(rounds).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A task that somebody waits for is done.
    pub(crate) fn wake(&self) {
        *self.rounds.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }
}
