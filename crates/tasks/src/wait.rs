//! Waiting: for a body's children, for a group's members, and for one task.
//!
//! What a waiter runs on its stack keeps it there until it is over, whatever happens meanwhile. So it runs only what the wait would
//! not end without: a task that lies above a waiting one and waits for something itself then holds up nobody who could
//! help it.
//!
//! | waits for | runs |
//! |---|---|
//! | children | descendants |
//! | a group | what was created in the group, and what that created |
//! | one task (a handle) | that task and its descendants, if it descends from the waiting one |
//! | data, an undeferred task | the same, and what has accesses that this waits for, unless tasks of the runtime pause |
//!
//! Everything else, predecessors of a task with a handle for instance, is run by the thread that gets the CPU when this one sleeps.

use crate::children::Children;
use crate::current::Thread;
use crate::execute::execute;
use crate::schedulable::Schedulable as _;
use crate::scheduler::{Leaf, Mark};
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
        task.children.forget();
    }
}

/// Waits until none of `children`, descendants of the thread's current task, is left: runs descendants that are ready on
/// this stack, spins briefly, then sleeps while another thread uses the CPU.
#[inline]
pub(crate) fn wait_counted(thread: &Thread, children: &Children<Thread>) {
    // SAFETY: a body is running, so its task is alive.
    let own = unsafe { thread.task.get().as_ref() };
    let mark = thread.leaf().map_or(Mark::NONE, Leaf::mark);
    if let Some(own) = own {
        take_back(thread, own, mark, children);
    }
    if children.live() > 0 {
        wait_longer(Waiter { thread, own, mark, looks: 0, slept: false }, children);
    } else {
        thread.tell_ended();
    }
}

/// Runs on this stack what lies youngest in the thread's own queue, as long as it descends from `own` and there are `children`.
#[inline]
fn take_back(thread: &Thread, own: &Task, mark: Mark, children: &Children<Thread>) {
    while children.live() > 0 && !thread.is_taken_away() {
        let Some(found) = thread.leaf().and_then(|leaf| leaf.get_descendant(own, mark)) else { return };
        run_chain(thread, own, found);
    }
}

/// [`wait_counted`] for somebody whose own queue has nothing more for it at the moment.
#[cold]
#[inline(never)]
fn wait_longer(mut waiter: Waiter<'_>, children: &Children<Thread>) {
    let thread = waiter.thread;
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
}

/// Waits until `awaited`, of which the caller holds a reference, is done: runs it and its descendants meanwhile, if it
/// descends from the thread's current task; see the module.
pub(crate) fn wait_task(thread: &Thread, awaited: &Task) {
    // SAFETY: if a body is running, its task is alive.
    let current = unsafe { thread.task.get().as_ref() };
    let own = current.filter(|current| awaited.descends_from(current)).map(|_| awaited);
    if current.is_some() && own.is_none() {
        // As good as a pause: it may wait for what a task below it on the stack has to do.
        thread.shared.stall.expect_pauses();
    }
    let mut waiter = Waiter::new(thread, own);
    if awaited.has(flag::UNDEFERRED) {
        waiter.mark = Mark::NONE; // not only its descendants run here
    }
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
    /// What may run on this stack: this, as far as it is not what waits here, and its descendants.
    own: Option<&'a Task>,
    mark: Mark,
    looks: u32,
    /// It has slept once for a moment and found nothing since.
    slept: bool,
}

impl<'a> Waiter<'a> {
    fn new(thread: &'a Thread, own: Option<&'a Task>) -> Self {
        let mark = thread.leaf().map_or(Mark::NONE, Leaf::mark);
        Waiter { thread, own, mark, looks: 0, slept: false }
    }

    /// Runs something ready, or lets a moment pass; false if it is time to sleep.
    #[inline]
    fn goes_on(&mut self) -> bool {
        let thread = self.thread;
        if thread.is_taken_away() {
            thread.without_cpu(|| ()); // and goes on as another worker
        }
        if self.own.is_some_and(|own| run_marked(thread, own, self.mark)) {
            (self.looks, self.slept) = (0, false);
            return true;
        }
        self.passes()
    }

    /// Lets a moment pass; false if enough have passed.
    #[cold]
    fn passes(&mut self) -> bool {
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
        self.thread.tell_ended();
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
    let found = match thread.leaf().and_then(|leaf| leaf.get_descendant(task, mark)) {
        Some(found) => found,
        None => match look_elsewhere(thread, task, mark) {
            Some(found) => found,
            None => return false,
        },
    };
    run_chain(thread, task, found);
    true
}

/// The thread's own queue has nothing for `task`.
#[cold]
#[inline(never)]
fn look_elsewhere(thread: &Thread, task: &Task, mark: Mark) -> Option<TaskRef> {
    thread.tell_ended();
    thread.shared.scheduler.get_descendant(thread.worker.get()?, task, mark)
}

/// Runs `first`, which is `task` or descends from it, and what that makes ready for this thread as long as it descends from
/// `task` too.
#[inline]
pub(crate) fn run_chain(thread: &Thread, task: &Task, first: TaskRef) {
    let mut ready = first;
    loop {
        // SAFETY: ready, and handed to nobody else; its record may be gone after it has run.
        let record = unsafe { ready.as_ref() };
        let (parent, group, depth) = (record.parent, record.group, record.depth);
        // SAFETY: as above.
        let Some(next) = (unsafe { execute(thread, ready) }) else { return };
        // Only where it is sure that it descends from `task`.
        let is_below = depth > task.depth && !task.has(flag::UNDEFERRED);
        // SAFETY: made ready for this thread: alive.
        let record = unsafe { next.as_ref() };
        // Usually a sibling in the same group, which needs no walk to the ancestor.
        let is_alike = is_below && std::ptr::eq(record.parent, parent) && std::ptr::eq(record.group, group);
        if !is_alike && !record.may_run_above(task) {
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
