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
//! A thread that is [lent](crate::Team) runs all that descends from its task while it waits for one, or for a group of which nothing is ready: nobody else
//! may come. If its processor was taken
//! away, it leaves that to others as long as some are free to run anything, and something ends now and then.
//! Everything else, predecessors of a task with a handle for instance, is run by the thread that gets the CPU when this one sleeps.

use crate::lifecycle::awaited::WAITING;
use crate::lifecycle::children::Children;
use crate::lifecycle::current::Thread;
use crate::lifecycle::execute::execute;
use crate::lifecycle::group::Group;
use crate::lifecycle::task::{Task, TaskRef, flag};
use crate::scheduler::schedulable::Schedulable as _;
use crate::scheduler::{Leaf, Mark};
use crate::waiting::yielding::Yielding;
use crate::workers::WorkerId;
use castell_base::sync::{AtomicBool, AtomicPtr, spin_hint};
use std::time::Duration;

/// Looks before a waiting thread gives its CPU up: about the time that a small task takes.
const SPINS: u32 = 400;
/// The same for a lent thread that has a processor to itself: nobody takes its place, so sleeping helps nobody.
const SPINS_ALONE: u32 = 4 * SPINS;
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
        wait_longer(
            Waiter { thread, own, mark, looks: 0, slept: false, yielding: Yielding::default() },
            children,
        );
    } else {
        thread.tell_ended();
    }
}

/// Runs on this stack what lies youngest in the thread's own queue, as long as it descends from `own` and there are `children`.
#[inline]
fn take_back(thread: &Thread, own: &Task, mark: Mark, children: &Children<Thread>) {
    while children.live() > 0 && !thread.is_taken_away() && !thread.lacks_processor() {
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
    let below = current.filter(|current| awaited.descends_from(current));
    // Where nobody takes this thread's place, whatever `awaited` waits for indirectly has to be run here, too.
    let own = if thread.shared.workers.are_lent() { below } else { below.map(|_| awaited) };
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

impl Group {
    /// Opens a group inside the thread's present one, runs `body` in it and waits for the tasks that it created. If
    /// `body` panics, the group is cancelled first.
    pub(crate) fn with<R>(thread: &Thread, body: impl FnOnce() -> R) -> R {
        let group = Group::inside(thread);
        let close = Close { thread, group: &group };
        thread.group.set(&group);
        note_opened(thread);
        let result = body();
        drop(close);
        result
    }

    /// One that is not open yet, inside the thread's present one.
    fn inside(thread: &Thread) -> Group {
        // SAFETY: a body is running, so its task is alive.
        let had_others = unsafe { &*thread.task.get() }.children.has_unwaited();
        Group {
            outer: thread.group.get(),
            cancelled: AtomicBool::new(false),
            members: Children::new(),
            had_others,
            companion: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Opens a group inside the thread's present one; [`Group::close`] closes it.
    pub(crate) fn open(thread: &Thread) {
        thread.group.set(Box::into_raw(Box::new(Group::inside(thread))));
        note_opened(thread);
    }

    /// Waits for the tasks of the group that was [opened](Group::open) last, and closes it.
    ///
    /// # Safety
    /// The body that calls has opened it, and closed those that it opened later.
    pub(crate) unsafe fn close(thread: &Thread) {
        // SAFETY: it came from a box, and nobody else closes it.
        let group = unsafe { Box::from_raw(thread.group.get().cast_mut()) };
        drop(Close { thread, group: &group });
    }
}

/// The current task has opened a group.
fn note_opened(thread: &Thread) {
    thread.shared.recorder.iter().for_each(|recorder| recorder.opens_group(thread));
}

/// Waits for a group's members, and closes it.
struct Close<'a> {
    thread: &'a Thread,
    group: &'a Group,
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.group.cancel();
        }
        // SAFETY: a body is running, so its task is alive.
        let task = unsafe { &*self.thread.task.get() };
        let recorder = self.thread.shared.recorder.as_ref();
        recorder.inspect(|recorder| recorder.waits_for_group(self.thread));
        if self.group.members.live() > 0 {
            // Others of its descendants may pause until this body goes on: they are not to lie above it.
            task.await_group(self.group);
            wait_counted(self.thread, &self.group.members);
            task.await_group(std::ptr::null());
        }
        recorder.inspect(|recorder| recorder.goes_on(self.thread));
        if !self.group.members.is_untouched() {
            task.children.waited_for(&self.group.members, self.group.had_others);
        }
        self.thread.group.set(self.group.outer);
    }
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
    yielding: Yielding,
}

impl<'a> Waiter<'a> {
    fn new(thread: &'a Thread, own: Option<&'a Task>) -> Self {
        let mark = thread.leaf().map_or(Mark::NONE, Leaf::mark);
        Waiter { thread, own, mark, looks: 0, slept: false, yielding: Yielding::default() }
    }

    /// Runs something ready, or lets a moment pass; false if it is time to sleep.
    #[inline]
    fn goes_on(&mut self) -> bool {
        let thread = self.thread;
        if thread.is_taken_away() {
            if thread.shared.workers.are_lent() {
                return false;
            }
            thread.without_cpu(|| ()); // and goes on as another worker
        }
        if thread.lacks_processor() {
            if self.needs_no_processor() {
                return false;
            }
            thread.ensure_processor();
        }
        if self.own.is_some_and(|own| run_marked(thread, own, self.mark, asks_at(self.looks))) {
            (self.looks, self.slept) = (0, false);
            return true;
        }
        self.passes()
    }

    /// Nothing is ready for which it needed one.
    #[cold]
    fn needs_no_processor(&self) -> bool {
        self.thread.shared.scheduler.is_empty()
    }

    /// Lets a moment pass; false if enough have passed.
    #[cold]
    fn passes(&mut self) -> bool {
        self.looks += 1;
        let spins = if self.thread.shared.workers.may_spin_long() { SPINS_ALONE } else { SPINS };
        if self.looks < spins {
            spin_hint();
        }
        self.looks < spins
    }

    /// Sleeps by `sleep`: for a moment as the worker that it is, if nothing waits to be run; after that until it is woken,
    /// while another thread is that worker.
    fn block(&mut self, sleep: impl FnOnce(Option<Duration>)) {
        let Some(worker) = self.thread.worker.get() else { return sleep(None) };
        // What this waits for may be among it: who leaves everything to others does not look for tasks, which would tell it.
        self.thread.tell_ended();
        self.thread.shared.scheduler.leave(worker);
        self.looks = 0;
        if self.thread.shared.workers.are_lent() {
            return self.block_lent(worker, sleep);
        }
        if !std::mem::replace(&mut self.slept, true) && self.thread.shared.scheduler.is_empty() {
            self.thread.give_processor();
            return sleep(Some(LOOK_AGAIN));
        }
        self.thread.without_cpu(|| sleep(None));
    }

    /// [`Waiter::block`] for a thread whose place nobody takes: it looks for what it may run wherever that is, lets others have the
    /// rest, and looks again soon. So what is ready is run by somebody, whoever waits.
    fn block_lent(&mut self, worker: WorkerId, sleep: impl FnOnce(Option<Duration>)) {
        let scheduler = &self.thread.shared.scheduler;
        if let Some(own) = self.own
            && !self.thread.lacks_processor()
            && !leaves_to_others(self.thread, &mut self.yielding)
            && let Some(found) =
                scheduler.seek_descendant(worker, own).or_else(|| self.seek_beyond_group(worker, own))
        {
            self.yielding.has_run();
            return run_chain(self.thread, own, found);
        }
        scheduler.clear(worker);
        self.thread.give_processor();
        sleep(Some(LOOK_AGAIN));
    }

    /// What it waits for in its group may itself wait for tasks outside of that, and everybody else may wait, too. So where nothing of the group is
    /// to be had, any descendant of its task's will do.
    fn seek_beyond_group(&self, worker: WorkerId, own: &Task) -> Option<TaskRef> {
        let group = own.awaited_group();
        if group.is_null() {
            return None;
        }
        own.await_group(std::ptr::null());
        let found = self.thread.shared.scheduler.seek_descendant(worker, own);
        own.await_group(group);
        found
    }

    fn end(self) {
        self.thread.tell_ended();
        if let Some(worker) = self.thread.worker.get() {
            self.thread.shared.scheduler.leave(worker);
        }
        self.thread.ensure_processor();
    }
}

/// Whether the thread, if it is lent and its processor was taken away, leaves what it could run to others.
pub(crate) fn leaves_to_others(thread: &Thread, yielding: &mut Yielding) -> bool {
    let shared = &thread.shared;
    thread.is_taken_away()
        && shared.workers.are_lent()
        && yielding.is_due(shared.workers.aside().anybody_free(), || {
            shared.counts.created() + shared.counts.disposed()
        })
}

/// Runs one ready descendant of `task`, and what that makes ready for this thread as long as it descends from it too.
#[inline]
pub(crate) fn run_descendant(thread: &Thread, task: &Task) -> bool {
    run_marked(thread, task, Mark::NONE, true)
}

/// Whether a waiter that has looked in vain so often asks others for something: each time it waits twice as long as the time before, since they
/// have to stop for it.
fn asks_at(looks: u32) -> bool {
    looks.is_multiple_of(4) && (looks / 4 + 1).is_power_of_two()
}

/// [`run_descendant`] for a task that began to wait at `mark`; whether it asks other workers, too.
#[inline]
fn run_marked(thread: &Thread, task: &Task, mark: Mark, asks: bool) -> bool {
    let found = match thread.leaf().and_then(|leaf| leaf.get_descendant(task, mark)) {
        Some(found) => found,
        None => match look_elsewhere(thread, task, mark, asks) {
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
fn look_elsewhere(thread: &Thread, task: &Task, mark: Mark, asks: bool) -> Option<TaskRef> {
    thread.tell_ended();
    let (worker, scheduler) = (thread.worker.get()?, &thread.shared.scheduler);
    let found = scheduler.get_descendant(worker, task, mark);
    // Elsewhere another thread takes this one's place, and runs whatever there is.
    if found.is_none() && asks && thread.shared.workers.are_lent() {
        return scheduler.ask_for_descendant(worker, task);
    }
    found
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
        if !is_alike && !record.may_run_above(task) || thread.is_taken_away() || thread.lacks_processor() {
            // SAFETY: as above.
            unsafe { thread.shared.scheduler.add(next, thread.worker.get()) };
            return;
        }
        ready = next;
    }
}
