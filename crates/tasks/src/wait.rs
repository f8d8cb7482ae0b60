//! Waiting: for a body's children, for a group's members, and for one task.

use crate::children::Children;
use crate::current::Thread;
use crate::execute::execute;
use crate::schedulable::Schedulable as _;
use crate::scheduler::Mark;
use crate::task::{Task, TaskRef, flag};
use castell_base::sync::spin_hint;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Looks before a waiting thread gives its CPU up: about the time that a small task takes.
const SPINS: u32 = 400;
/// How long a waiter sleeps first, before it hands its CPU over: that costs two changes of threads.
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
    let mut waiter = Waiter::new(thread);
    while children.live() > 0 {
        if waiter.goes_on() {
            continue;
        }
        thread.shared.services.poll();
        waiter.block(|timeout| {
            children.sleep(thread, || {
                thread.wait_for_bell(timeout);
            });
        });
    }
    waiter.end();
    children.forget();
}

/// Waits until `awaited`, of which the caller holds a reference, is done: runs what is ready among the descendants of the
/// thread's current task meanwhile.
pub(crate) fn wait_task(thread: &Thread, awaited: &Task) {
    let mut waiter = Waiter::new(thread);
    while !awaited.has(flag::DONE) {
        if !waiter.goes_on() {
            waiter.block(|timeout| WAITING.sleep_until_done(awaited, timeout));
        }
    }
    waiter.end();
}

/// A thread that waits inside a task.
struct Waiter<'a> {
    thread: &'a Thread,
    mark: Mark,
    looks: u32,
    /// It has slept once for a moment and found nothing since.
    slept: bool,
}

impl<'a> Waiter<'a> {
    fn new(thread: &'a Thread) -> Self {
        let mark = thread.worker.get().map_or(Mark::NONE, |worker| thread.shared.scheduler.mark(worker));
        Waiter { thread, mark, looks: 0, slept: false }
    }

    /// Runs a ready descendant, or lets a moment pass; false if it is time to sleep.
    fn goes_on(&mut self) -> bool {
        let thread = self.thread;
        if let Some(worker) = thread.worker.get()
            && thread.shared.workers.is_taken_away(worker)
        {
            thread.without_cpu(|| ()); // and goes on as another worker
        }
        // SAFETY: a body is running, so its task is alive.
        if unsafe { thread.task.get().as_ref() }.is_some_and(|task| run_marked(thread, task, self.mark)) {
            (self.looks, self.slept) = (0, false);
            return true;
        }
        self.looks += 1;
        if self.looks < SPINS {
            spin_hint();
        }
        self.looks < SPINS
    }

    /// Sleeps by `sleep`: for a moment as the worker that it is, if nothing waits to be run; after that until it is woken,
    /// while another thread is that worker.
    fn block(&mut self, sleep: impl FnOnce(Option<Duration>)) {
        let Some(worker) = self.thread.worker.get() else { return sleep(None) };
        self.thread.shared.scheduler.leave(worker);
        self.looks = 0;
        if !std::mem::replace(&mut self.slept, true) && self.thread.shared.scheduler.is_empty() {
            return sleep(Some(LOOK_AGAIN));
        }
        self.thread.without_cpu(|| sleep(None));
    }

    fn end(self) {
        if let Some(worker) = self.thread.worker.get() {
            self.thread.shared.scheduler.leave(worker);
        }
    }
}

/// Runs one ready descendant of `task`, and what that makes ready for this thread as long as it descends from it too.
#[inline]
pub(crate) fn run_descendant(thread: &Thread, task: &Task) -> bool {
    run_marked(thread, task, Mark::NONE)
}

/// [`run_descendant`] for a task that began to wait at `mark`.
#[inline]
fn run_marked(thread: &Thread, task: &Task, mark: Mark) -> bool {
    let Some(worker) = thread.worker.get() else { return false };
    let Some(found) = thread.shared.scheduler.get_descendant(worker, task, mark) else { return false };
    // SAFETY: ready, handed to nobody else, and a descendant.
    if let Some(next) = unsafe { execute(thread, found) } {
        run_chain(thread, task, next);
    }
    true
}

/// Runs `first`, a descendant of `task`, and what that makes ready for this thread as long as it descends from `task` too.
pub(crate) fn run_chain(thread: &Thread, task: &Task, first: TaskRef) {
    let mut ready = first;
    loop {
        // SAFETY: ready, and handed to nobody else; its record may be gone after it has run.
        let parent = unsafe { ready.as_ref() }.parent;
        // SAFETY: as above.
        let Some(next) = (unsafe { execute(thread, ready) }) else { return };
        // SAFETY: made ready for this thread: alive.
        let record = unsafe { next.as_ref() };
        // Usually a sibling, which needs no walk to the ancestor.
        if !std::ptr::eq(record.parent, parent) && !record.may_run_above(task) {
            // SAFETY: as above.
            unsafe { thread.shared.scheduler.add(next, thread.worker.get()) };
            return;
        }
        ready = next;
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
