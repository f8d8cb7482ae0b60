//! A task's life: made, registered, run, completed, done, disposed of.

use crate::api::context::Context;
use crate::dependences::{self, Declaration};
use crate::diagnostics::stall::note_events;
use crate::diagnostics::watched;
use crate::error::{Fault, TaskError, panic_message};
use crate::lifecycle::awaited::WAITING;
use crate::lifecycle::children::Left;
use crate::lifecycle::current::Thread;
use crate::lifecycle::extras::Completion;
use crate::lifecycle::group::Group;
use crate::lifecycle::task::{Attributes, Birth, Parts, Run, Task, TaskRef, Verb, flag};
use crate::scheduler::schedulable::{ReadyList, Schedulable as _};
use crate::waiting::suspend;
use castell_base::sync::Ordering;
use std::mem::{ManuallyDrop, needs_drop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

/// What lies behind a header: the closure, and after the body its result.
union Body<F, R> {
    closure: ManuallyDrop<F>,
    result: ManuallyDrop<R>,
}

/// Makes a record. It is not seen by anybody until [`submit`].
///
/// # Safety
/// The closure must be allowed to run on another thread, and what it borrows must live until the task is done.
#[inline(always)]
pub(crate) unsafe fn create<F, R>(
    thread: &Thread,
    parent: *const Task,
    attributes: Attributes,
    accesses: usize,
    references: u32,
    closure: F,
) -> TaskRef
where
    F: FnOnce(&Context<'_>) -> R,
{
    const { assert!(align_of::<Body<F, R>>() <= 64, "over-aligned closures belong in a box") };
    let mut attributes = attributes;
    if needs_drop::<R>() {
        attributes.flags |= flag::DROPS;
    }
    if references > 1 {
        attributes.flags |= flag::HANDLED;
    }
    // SAFETY: the place behind the header is as large as asked for, aligned to 64, and nobody else sees it.
    unsafe {
        let bytes = size_of::<Body<F, R>>();
        let task = create_sized(thread, parent, attributes, bytes, accesses, references, run::<F, R>);
        task.as_ref().closure().cast::<F>().write(closure);
        task
    }
}

/// Makes a record with room for `bytes` behind the header, which are left to the caller.
///
/// # Safety
/// `run` must cope with what the caller puts there.
#[inline(always)]
pub(crate) unsafe fn create_sized(
    thread: &Thread,
    parent: *const Task,
    attributes: Attributes,
    bytes: usize,
    accesses: usize,
    references: u32,
    run: Run,
) -> TaskRef {
    let parts = Parts::of(bytes, accesses);
    // SAFETY: a parent is alive while its body creates children.
    let depth = unsafe { parent.as_ref() }.map_or(0, |parent| parent.depth.saturating_add(1));
    let group = if depth == 0 { std::ptr::null() } else { thread.group.get() };
    let shared = Arc::as_ptr(&thread.shared);
    thread.count_created();
    let mut attributes = attributes;
    const SPECIAL: u32 = flag::WAIT | flag::UNDEFERRED | flag::ROOT | flag::DROPS | flag::HANDLED;
    if !thread.shared.watches {
        // SAFETY: as above.
        let in_group = unsafe { parent.as_ref() }.is_none_or(|parent| !std::ptr::eq(group, parent.group));
        let plain = attributes.flags & SPECIAL == 0 && !in_group;
        attributes.flags |=
            if plain { flag::PLAIN } else { 0 } | if group.is_null() { flag::QUICK } else { 0 };
    }
    let birth = Birth { shared, parent, group, depth, attributes, parts, references, run };
    // SAFETY: the worker's own thread calls, and the chunk is as long as asked for.
    let task = unsafe { Task::write(thread.allocate(birth.parts.bytes), birth) };
    // SAFETY: just made.
    unsafe { task.as_ref() }.note_ancestors();
    task
}

/// Runs, skips or drops what `create` put behind the header.
unsafe fn run<F, R>(thread: &Thread, task: &Task, verb: Verb)
where
    F: FnOnce(&Context<'_>) -> R,
{
    let body = task.closure().cast::<Body<F, R>>();
    match verb {
        Verb::Call => {
            // SAFETY: the closure is there until it is called or skipped, which happens once.
            let closure = unsafe { ManuallyDrop::take(&mut (*body).closure) };
            match catch_unwind(AssertUnwindSafe(|| closure(&Context::of(thread)))) {
                Ok(result) => {
                    // SAFETY: the closure was moved out: the place is free for the result.
                    unsafe { (*body).result = ManuallyDrop::new(result) };
                    if !needs_drop::<R>() && !task.has(flag::HANDLED) {
                        return; // nobody asks for it
                    }
                    // Who fails an event of it may set a flag at this moment.
                    if task.events.pending() != 1 {
                        task.set(flag::RETURNED);
                    } else {
                        task.set_own(flag::RETURNED);
                    }
                }
                Err(payload) => {
                    let label = task.label().to_owned();
                    let error = TaskError::Panicked { label, message: panic_message(&*payload) };
                    fail(task, error);
                }
            }
        }
        Verb::Skip => {
            // SAFETY: as above. A panic in a destructor must not end the worker.
            let closure = unsafe { ManuallyDrop::take(&mut (*body).closure) };
            let _ = catch_unwind(AssertUnwindSafe(|| drop(closure)));
        }
        Verb::Dispose => {
            if task.has(flag::RETURNED) {
                // SAFETY: the result was written and not taken.
                let result = unsafe { ManuallyDrop::take(&mut (*body).result) };
                let _ = catch_unwind(AssertUnwindSafe(|| drop(result)));
            }
        }
    }
}

/// The task failed: who waits for its data is skipped, and the wait of its creator learns why.
pub(crate) fn fail(task: &Task, error: TaskError) {
    task.poison();
    task.note_fault(Fault { error });
}

/// Registers a new task's accesses and hands it to the scheduler when it is ready; true if the caller is to run it instead,
/// because it is undeferred and ready.
///
/// # Safety
/// `task` comes from [`create`] on this thread with room for these accesses, as a child of the thread's current task or
/// as a root.
#[inline(always)]
pub(crate) unsafe fn submit(thread: &Thread, task: TaskRef, declared: &[Declaration]) -> bool {
    // SAFETY: the caller's promise.
    let record = unsafe { task.as_ref() };
    if declared.is_empty() && record.flags_of_mine() & flag::PLAIN != 0 {
        // SAFETY: its creator is alive: its body runs on this thread.
        unsafe { &*record.parent }.children.add(thread);
        // SAFETY: ready, so it is alive until it has run, and in no list; the current task has created it.
        unsafe { thread.shared.scheduler.add_created(task, thread.worker.get(), thread.leaf()) };
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe { submit_any(thread, task, declared) }
}

/// # Safety
/// As for [`submit`].
#[inline(never)]
unsafe fn submit_any(thread: &Thread, task: TaskRef, declared: &[Declaration]) -> bool {
    // SAFETY: the caller's promise.
    let record = unsafe { task.as_ref() };
    if thread.shared.watches {
        note_created(thread, record, declared);
    }
    note_child(thread, record);
    if !declared.is_empty() {
        let mut ready = ReadyList::new();
        // SAFETY: on the thread of the parent's body, before anybody else sees it.
        let is_ready = unsafe { dependences::register(thread, task, declared, &mut ready) };
        if !ready.is_empty() {
            add_all(thread, ready);
        }
        if !is_ready {
            return false;
        }
        record.note_ready(thread.task.get());
    } else if thread.shared.watches {
        note_ready_at_once(thread, record);
    }
    if record.has(flag::UNDEFERRED) && thread.shared.workers.kind_of(thread.worker.get()) == record.kind() {
        return true;
    }
    let scheduler = &thread.shared.scheduler;
    // SAFETY: ready, so it is alive until it has run, and in no list. Only what the current task creates is said to be so.
    unsafe {
        if std::ptr::eq(record.parent, thread.task.get()) {
            scheduler.add_created(task, thread.worker.get(), thread.leaf());
        } else {
            scheduler.add(task, thread.worker.get());
        }
    }
    false
}

/// It has no accesses: it is ready as it is created.
#[cold]
fn note_ready_at_once(thread: &Thread, record: &Task) {
    if let Some(journal) = &thread.shared.journal {
        journal.ready(record);
    }
    if let Some(timeline) = &thread.shared.timeline {
        timeline.ready(record, thread.task.get());
    }
}

/// Its creator, and the group that it is created in, have one more.
fn note_child(thread: &Thread, record: &Task) {
    let Some(parent) = record.parent() else { return };
    parent.children.add(thread);
    // SAFETY: an open group outlives the tasks in it.
    if let Some(group) = unsafe { record.group.as_ref() }
        && !std::ptr::eq(group, parent.group)
    {
        group.members.add(thread);
    }
}

#[cold]
fn note_created(thread: &Thread, task: &Task, declared: &[Declaration]) {
    if let Some(journal) = &thread.shared.journal {
        journal.created(task, declared);
    }
    if let Some(recorder) = &thread.shared.recorder {
        recorder.created(thread, task, declared);
    }
}

/// Hands tasks that became ready while another was registered to the scheduler.
#[cold]
pub(crate) fn add_all(thread: &Thread, mut ready: ReadyList<Task>) {
    while let Some(task) = ready.pop() {
        // SAFETY: ready, so it is alive until it has run, and in no list.
        unsafe { thread.shared.scheduler.add(task, thread.worker.get()) };
    }
}

/// Runs a ready task to its end; returns the one to run next on this thread, if one was made ready for it.
///
/// # Safety
/// `task` was got from the scheduler (or from here) and is run by nobody else.
#[inline]
pub(crate) unsafe fn execute(thread: &Thread, task: TaskRef) -> Option<TaskRef> {
    // SAFETY: a task lives at least until it has run.
    let record = unsafe { task.as_ref() };
    thread.tell_ended_but_of(record.parent);
    let outer = thread.task.replace(record);
    let outer_group = thread.group.replace(record.group);
    if record.flags() & (flag::QUICK | flag::POISONED) == flag::QUICK {
        // SAFETY: once, by whoever got it.
        unsafe { (record.run)(thread, record, Verb::Call) };
    } else {
        // SAFETY: as above.
        unsafe { run_seldom(thread, record) };
    }
    // SAFETY: its body is over.
    unsafe { leave_body(thread, task, outer, outer_group) }
}

/// The body on top of the stack is over; what lay below it is on top again. Returns the task to run next on this thread, if one was made
/// ready for it.
///
/// # Safety
/// Once, after the body of `task`.
#[inline(always)]
unsafe fn leave_body(
    thread: &Thread,
    task: TaskRef,
    outer: *const Task,
    outer_group: *const Group,
) -> Option<TaskRef> {
    // SAFETY: its life has not ended yet.
    let record = unsafe { task.as_ref() };
    thread.task.set(outer);
    thread.group.set(outer_group);
    if !record.children.is_untouched() {
        record.children.leave();
    } else if record.ends_plainly() {
        // SAFETY: the body is over; the rest was just seen.
        return unsafe { end_plainly(thread, task) };
    }
    end_of_body(thread, task)
}

/// Runs a task in a group, one that may be skipped, or one that somebody watches.
///
/// # Safety
/// Called once, by whoever got it.
#[inline(never)]
unsafe fn run_seldom(thread: &Thread, record: &Task) {
    if let Some(journal) = &thread.shared.journal {
        journal.began(record);
    }
    // SAFETY: an enclosing group outlives the tasks in it.
    let cancelled = unsafe { record.group.as_ref() }.is_some_and(|group| group.is_cancelled());
    let verb = if cancelled || record.has(flag::POISONED) { Verb::Skip } else { Verb::Call };
    if verb == Verb::Skip && !cancelled {
        note_skipped(record);
    }
    let runs = thread.shared.recorder.as_ref().filter(|_| verb == Verb::Call);
    let recorded = runs.and_then(|recorder| recorder.began(thread, record));
    let timeline = thread.shared.timeline.as_ref().filter(|_| verb == Verb::Call);
    let drawn = timeline.map(|timeline| timeline.begin(record));
    // SAFETY: the caller's promise.
    unsafe {
        if thread.shared.journal.is_some() && castell_host::watched::exists() {
            watched::run(thread, record, verb);
        } else {
            (record.run)(thread, record, verb);
        }
    }
    if let (Some(task), Some(recorder)) = (recorded, &thread.shared.recorder) {
        recorder.ended(thread, task);
    }
    if let (Some(begun), Some(timeline)) = (drawn, timeline) {
        let worker = thread.worker.get().map_or(thread.shared.worker_count, |worker| worker.index());
        timeline.end(worker as u32, record.label(), begun);
    }
    if let (Some(places), Some(worker)) = (&thread.shared.places, thread.worker.get()) {
        places.note(record.accesses(), thread.shared.scheduler.numa_of(worker));
    }
}

/// The end of a task that [`Task::ends_plainly`] and has created nothing that is not waited for: it has completed and is done.
///
/// # Safety
/// After its body, once.
#[inline]
unsafe fn end_plainly(thread: &Thread, task: TaskRef) -> Option<TaskRef> {
    // SAFETY: the birth's reference is ours to end; the parent hears of its end below.
    let (record, parent) = unsafe { (task.as_ref(), &*task.as_ref().parent) };
    if record.access_count() == 0 {
        thread.count_disposed();
        // SAFETY: nobody else has ever had a reference.
        unsafe { thread.free(task.cast(), record.bytes as usize) };
        thread.child_ended(parent, 0);
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { end_with_accesses(thread, task, parent) }
}

/// # Safety
/// As for [`end_plainly`].
#[inline(never)]
unsafe fn end_with_accesses(thread: &Thread, task: TaskRef, parent: &Task) -> Option<TaskRef> {
    // SAFETY: the birth's reference is ours to end.
    let record = unsafe { task.as_ref() };
    let (mut ready, accesses) = (ReadyList::new(), record.access_count());
    // SAFETY: once, and alive; then the birth's reference goes, and those of its accesses that nobody needs.
    unsafe {
        let gone = dependences::complete_plain(thread, record, &mut ready);
        if record.release_references(1 + gone) {
            dependences::dispose(thread, record);
            thread.count_disposed();
            thread.free(task.cast(), record.bytes as usize);
        }
    }
    thread.child_ended(parent, accesses);
    if ready.is_empty() {
        return None;
    }
    // SAFETY: what became ready is alive and in no other list.
    unsafe { thread.shared.scheduler.add_ready(ready, thread.worker.get()) }
}

/// Begins the body of a task that nobody else runs: the caller goes on in it, until [`end_in_place`].
///
/// # Safety
/// `task` comes from [`create_sized`] on this thread, with the flag of a root, and without accesses.
pub(crate) unsafe fn begin_in_place(thread: &Thread, task: TaskRef) {
    thread.task.set(task.as_ptr());
    thread.group.set(std::ptr::null());
}

/// Ends the body that [`begin_in_place`] has begun: its task is done when its descendants are.
pub(crate) fn end_in_place(thread: &Thread) {
    let task = NonNull::new(thread.task.replace(std::ptr::null()).cast_mut()).expect("a body was begun");
    thread.group.set(std::ptr::null());
    // SAFETY: its life has not ended yet.
    let record = unsafe { task.as_ref() };
    if !record.children.is_untouched() {
        record.children.leave();
    }
    let next = end_of_body(thread, task);
    debug_assert!(next.is_none(), "a root without accesses makes nothing ready");
}

/// A task that runs in the place where it was created, and what lies below it.
pub(crate) struct InPlace {
    task: TaskRef,
    outer: *const Task,
    outer_group: *const Group,
}

impl InPlace {
    /// The body begins: the caller goes on in it, until [`InPlace::end`].
    ///
    /// # Safety
    /// `task` comes from [`create_sized`] on this thread, as a child of its current task, without accesses, and nobody else sees it.
    pub(crate) unsafe fn begin(thread: &Thread, task: TaskRef) -> InPlace {
        // SAFETY: the caller's promise.
        let record = unsafe { task.as_ref() };
        note_child(thread, record);
        thread.tell_ended_but_of(record.parent);
        let outer = thread.task.replace(record);
        let outer_group = thread.group.replace(record.group);
        InPlace { task, outer, outer_group }
    }

    /// Whose body it is.
    pub(crate) fn task(&self) -> &Task {
        // SAFETY: its life has not ended yet.
        unsafe { self.task.as_ref() }
    }

    /// The body is over; what it has created may outlast it.
    ///
    /// # Safety
    /// On the same thread, where what was begun later has ended.
    pub(crate) unsafe fn end(self, thread: &Thread) {
        let InPlace { task, outer, outer_group } = self;
        // SAFETY: the caller's promise; what becomes ready for this thread is alive, and in no list.
        unsafe {
            if let Some(next) = leave_body(thread, task, outer, outer_group) {
                thread.shared.scheduler.add(next, thread.worker.get());
            }
        }
    }
}

/// The body of a task is over: it has completed, unless it has events or is to be called again.
#[inline(never)]
fn end_of_body(thread: &Thread, task: TaskRef) -> Option<TaskRef> {
    // SAFETY: its life has not ended yet.
    let record = unsafe { task.as_ref() };
    // Only the body adds events: alone, nobody else touches the count any more.
    if record.events.pending() == 1 {
        return completed(thread, task);
    }
    if record.has(flag::SUSPENDED) {
        suspend::leave(thread, task);
        return None;
    }
    if !record.extras.load(Ordering::Acquire).is_null() {
        call_at_end(record);
    }
    note_events(thread, record);
    if record.events.happened(1) {
        thread.shared.stall.forget(task);
        return completed(thread, task);
    }
    None
}

/// What the body has asked for, which counts as an event until here.
#[cold]
fn call_at_end(record: &Task) {
    let asked = record.extras().at_end_of_body.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(action) = asked {
        action();
        record.events.happened(1); // the body's own is still there
    }
}

/// A task is skipped because another failed: whoever waits hears of that if not of the cause.
#[cold]
fn note_skipped(task: &Task) {
    task.note_fault(Fault { error: TaskError::Skipped { label: task.label().to_owned() } });
}

/// Body and external events are over: the accesses go on to the successors; returns one to run next, if any.
pub(crate) fn completed(thread: &Thread, task: TaskRef) -> Option<TaskRef> {
    // SAFETY: the birth's reference is ours to end.
    let record = unsafe { task.as_ref() };
    let mut ready = ReadyList::new();
    if !record.accesses().is_empty() || !record.domain.load(Ordering::Relaxed).is_null() {
        // SAFETY: once, and alive.
        unsafe { dependences::complete(thread, record, &mut ready) };
    }
    if record.children.close() {
        done(thread, task, &mut ready);
    }
    if ready.is_empty() {
        return None;
    }
    // SAFETY: what became ready is alive and in no other list.
    unsafe { thread.shared.scheduler.add_ready(ready, thread.worker.get()) }
}

/// [`done`] for a task whose last child has ended after its body.
#[cold]
pub(crate) fn finish_for_last(thread: &Thread, task: TaskRef) {
    let mut ready = ReadyList::new();
    done(thread, task, &mut ready);
    add_all(thread, ready);
}

/// The task and its descendants are done: tells the parent, and goes up while it was the last one there.
fn done(thread: &Thread, task: TaskRef, ready: &mut ReadyList<Task>) {
    let mut task = task;
    loop {
        // SAFETY: the birth's reference is ended below.
        let record = unsafe { task.as_ref() };
        if !record.accesses().is_empty() || !record.domain.load(Ordering::Relaxed).is_null() {
            // SAFETY: once, after `complete`.
            unsafe { dependences::descendants_done(thread, record, ready) };
        }
        if let Some(journal) = &thread.shared.journal {
            journal.done(task);
        }
        let parent = record.parent();
        if !record.extras.load(Ordering::Acquire).is_null() {
            settle(record);
        }
        // SAFETY: an open group outlives the tasks in it, and this one has not left it yet.
        let group = unsafe { record.group.as_ref() }
            .filter(|group| parent.is_some_and(|parent| !std::ptr::eq(*group, parent.group)));
        if record.is_shared() && record.set(flag::DONE) & flag::AWAITED != 0 {
            WAITING.wake();
        }
        let at_home = parent.is_some_and(|parent| parent.children.is_home(thread));
        match group {
            Some(group) if at_home => group.members.remove_at_home(),
            Some(group) => _ = group.members.remove(1),
            None => {}
        }
        // SAFETY: the birth's reference.
        unsafe { release(thread, task) };
        let Some(parent) = parent else {
            thread.shared.root_ended();
            return;
        };
        if at_home {
            return parent.children.remove_at_home();
        }
        if parent.children.remove(1) != Left::Nobody {
            return;
        }
        task = NonNull::from(parent);
    }
}

/// A done task's failure goes to its parent, and its data may be owned by others.
#[cold]
fn settle(record: &Task) {
    if let (Some(parent), Some(fault)) = (record.parent(), record.fault()) {
        parent.note_fault(fault);
    }
    record.end_life();
    record.end_version();
    let completion = record.extras().completion.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Completion { callback, argument }) = completion {
        // SAFETY: the promise of whoever asked for it.
        unsafe { callback(argument) };
    }
}

/// Ends a reference to a record, and disposes of it if that was the last.
///
/// # Safety
/// The caller holds a reference and does not use it any more.
#[inline]
pub(crate) unsafe fn release(thread: &Thread, task: TaskRef) {
    // SAFETY: the caller's reference keeps it alive.
    if unsafe { task.as_ref() }.release_reference() {
        // SAFETY: that was the last reference.
        unsafe { dispose(thread, task) };
    }
}

/// As [`release`], for several references.
///
/// # Safety
/// As there.
#[inline]
pub(crate) unsafe fn release_some(thread: &Thread, task: TaskRef, count: u32) {
    // SAFETY: the caller's references keep it alive.
    if unsafe { task.as_ref() }.release_references(count) {
        // SAFETY: those were the last references.
        unsafe { dispose(thread, task) };
    }
}

/// Gives the record back.
///
/// # Safety
/// Nobody else looks at it any more.
#[inline]
unsafe fn dispose(thread: &Thread, task: TaskRef) {
    // SAFETY: still there.
    let record = unsafe { task.as_ref() };
    // SAFETY: the caller's promise.
    unsafe {
        dependences::dispose(thread, record);
        if record.has(flag::DROPS) {
            (record.run)(thread, record, Verb::Dispose);
        }
        let extras = record.extras.load(Ordering::Acquire);
        if !extras.is_null() {
            drop(Box::from_raw(extras));
        }
        thread.count_disposed();
        thread.free(task.cast(), record.bytes as usize);
    }
}
