//! What a task's body can ask of the runtime.

use crate::api::data::{Accesses, Declarations};
use crate::api::handle::Handle;
use crate::dependences::{self, Declaration};
use crate::diagnostics::journal::check_declared;
use crate::error::{Fault, Payload, TaskError};
use crate::lifecycle::current::Thread;
use crate::lifecycle::execute::{create, fail, submit};
use crate::lifecycle::forked;
use crate::lifecycle::group::Group;
use crate::lifecycle::task::{Attributes, Task, TaskRef, flag};
use crate::scheduler::schedulable::ReadyList;
use crate::waiting::pause::{Event, Waker, block};
use crate::waiting::room::{has_room, make_room};
use crate::waiting::wait::{run_chain, wait_children, wait_task};
use crate::workers::devices::check_kind;
use castell_sched::Kind as LeafKind;
use std::fmt::Display;
use std::time::Duration;

/// A body's view of the runtime. It cannot leave the body.
pub struct Context<'t> {
    thread: &'t Thread,
}

/// A task that is about to be created: [`Context::task`].
#[must_use = "`submit` or `spawn` creates the task"]
pub struct NewTask<'c, 't> {
    pub(super) context: &'c Context<'t>,
    pub(super) attributes: Attributes,
}

impl<'t> Context<'t> {
    #[inline]
    pub(crate) fn of(thread: &'t Thread) -> Context<'t> {
        Context { thread }
    }

    #[inline]
    pub(crate) fn thread(&self) -> &'t Thread {
        self.thread
    }

    /// The task whose body this is.
    #[inline]
    pub(crate) fn current(&self) -> &Task {
        // SAFETY: a context exists only inside a body, whose task is alive.
        unsafe { &*self.thread.task.get() }
    }

    /// A new child, to be described and then created.
    #[inline]
    pub fn task(&self) -> NewTask<'_, 't> {
        NewTask { context: self, attributes: Attributes::NONE }
    }

    /// Creates a child that runs `body` once its `accesses` are satisfied, in the order in which children were created.
    #[inline]
    pub fn submit<A: Accesses>(
        &self,
        accesses: A,
        body: impl for<'b> FnOnce(&Context<'b>, A::Guards<'b>) + Send + 'static,
    ) {
        self.task().submit(accesses, body);
    }

    /// Like [`Context::submit`]; the handle gives the body's value.
    #[inline]
    pub fn spawn<A: Accesses, R: Send + 'static>(
        &self,
        accesses: A,
        body: impl for<'b> FnOnce(&Context<'b>, A::Guards<'b>) -> R + Send + 'static,
    ) -> Handle<R> {
        self.task().spawn(accesses, body)
    }

    /// Waits until all tasks that this body created are done, with all that they created. Runs ready ones meanwhile.
    ///
    /// # Errors
    /// The first failure among them; it is gone then, and tasks created later run.
    #[inline]
    pub fn taskwait(&self) -> Result<(), TaskError> {
        let task = self.current();
        forked::check(task)?;
        if self.thread.shared.watches {
            let recorder = self.thread.shared.recorder.as_ref();
            recorder.inspect(|recorder| recorder.waits(self.thread));
            wait_children(self.thread);
            recorder.inspect(|recorder| recorder.goes_on(self.thread));
        } else {
            wait_children(self.thread);
        }
        if task.flags() & flag::PLAIN != 0 {
            return Ok(()); // nothing was noted, nothing registered
        }
        self.end_failures()
    }

    /// What failed among the children, all of which were waited for: that is over now.
    #[inline]
    fn end_failures(&self) -> Result<(), TaskError> {
        let task = self.current();
        let fault = task.take_fault();
        let mut ready = ReadyList::new();
        // SAFETY: on the thread of the body; its children are done.
        unsafe { dependences::children_done(self.thread, task, fault.is_some(), &mut ready) };
        debug_assert!(ready.is_empty(), "nobody is left to become ready");
        fault.map_or(Ok(()), |fault| Err(fault.error))
    }

    /// What failed among the children so far. What waits for a failed one may still come: the failure stays until a wait for all.
    fn report(&self) -> Result<(), TaskError> {
        self.current().fault().map_or(Ok(()), |fault| Err(fault.error))
    }

    /// Runs `body`, then waits for the tasks that it created, not for earlier ones. [`Context::cancel`] inside it, also
    /// from those tasks, skips those that have not begun.
    ///
    /// # Errors
    /// The first failure among the children so far. It is over then if this body has created no others since it last waited for all,
    /// otherwise it stays until a [`Context::taskwait`].
    pub fn group<R>(&self, body: impl FnOnce() -> R) -> Result<R, TaskError> {
        forked::check(self.current())?;
        let result = Group::with(self.thread, body);
        let failed = if self.current().children.has_unwaited() { self.report() } else { self.end_failures() };
        failed.map(|()| result)
    }

    /// Cancels the innermost group around this point: its tasks that have not begun are skipped, and
    /// [`Context::is_cancelled`] tells the others. False if there is no group.
    pub fn cancel(&self) -> bool {
        // SAFETY: a group outlives the tasks in it, and the body that opened it.
        let group = unsafe { self.thread.group.get().as_ref() };
        group.inspect(|group| group.cancel()).is_some()
    }

    /// Whether a group around this point was cancelled.
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: as in `cancel`.
        unsafe { self.thread.group.get().as_ref() }.is_some_and(Group::is_cancelled)
    }

    /// Says that this task fails: its successors are skipped, and the wait of its creator returns `error`'s text. The body
    /// goes on until it returns.
    pub fn fail(&self, error: impl Display) {
        self.fail_with(error, None);
    }

    /// As [`Context::fail`], with something for whoever handles the error.
    pub fn fail_with(&self, error: impl Display, payload: Option<Payload>) {
        let label = self.current().label().to_owned();
        fail(self.current(), TaskError::Failed { label, message: error.to_string(), payload });
    }

    /// Whether somebody wants to know which tasks there were.
    pub(crate) fn is_recorded(&self) -> bool {
        self.thread.shared.recorder.is_some()
    }

    /// This task's label; empty if it has none.
    pub fn label(&self) -> &'static str {
        self.current().label()
    }

    /// The device whose worker runs this, as it was given to [`Builder::device`](crate::Builder::device), if it is a `D`. After a
    /// wait or a pause it may be another one of the same kind: ask again.
    pub fn device<D: 'static>(&self) -> Option<&D> {
        let handle = self.thread.shared.devices.of(self.thread.worker.get()?)?;
        handle.downcast_ref()
    }

    /// The kind of workers that run this task: of a task with versions, that of the one that was chosen.
    pub fn kind(&self) -> LeafKind {
        crate::scheduler::schedulable::Schedulable::kind(self.current())
    }

    /// The NUMA node on which most of this task's data was written last, as the scheduler was told when it became ready; `None`:
    /// nothing was known, there is one node, or the scheduler does not look (`locality=off`, and any but the tree).
    pub fn place(&self) -> Option<usize> {
        crate::scheduler::schedulable::Schedulable::place(self.current()).map(usize::from)
    }

    /// The NUMA node of the worker that runs this; nodes are counted from 0, as the runtime sees them.
    pub fn numa_node(&self) -> usize {
        self.thread.worker.get().map_or(0, |worker| self.thread.shared.scheduler.numa_of(worker))
    }

    /// Whether this task is final: its children run at once, in place.
    #[inline]
    pub fn is_final(&self) -> bool {
        self.current().has(flag::FINAL)
    }

    /// An event that this task has to see before it completes, besides the end of its body.
    pub fn event(&self) -> Event {
        Event::of(self.current())
    }

    /// What wakes this task from [`Context::block`]: to be given to whoever shall do so.
    pub fn pausing(&self) -> Waker {
        Waker::of(self.current())
    }

    /// Pauses until a [`Waker`] of this task is used; if that has happened since the last pause, not at all. Another thread
    /// uses the CPU meanwhile. In a fork of the process, at which nobody can aim a waker, not at all either.
    pub fn block(&self) {
        block(self.thread, self.current(), None);
    }

    /// Like [`Context::block`], for at most `timeout`; true if it was woken by its waker.
    pub fn block_for(&self, timeout: Duration) -> bool {
        block(self.thread, self.current(), Some(timeout))
    }

    /// Waits until the children that access `declared` regions in a way that conflicts with it are done.
    ///
    /// # Errors
    /// The first failure among the children so far. It stays until a [`Context::taskwait`].
    ///
    /// # Safety
    /// The regions lie inside those that the current task may pass on.
    pub(crate) unsafe fn wait_for_raw(&self, declared: &[Declaration]) -> Result<(), TaskError> {
        forked::check(self.current())?;
        if self.current().children.live() > 0 {
            let attributes = Attributes { label: "wait", flags: flag::UNDEFERRED, ..Attributes::NONE };
            // SAFETY: the body does nothing.
            unsafe { self.submit_raw(attributes, declared, |_| ()) };
        }
        self.report()
    }

    /// Lets the part of this task's accesses that lies inside a region go to the successors, before the body ends.
    pub(crate) fn release_raw(&self, declared: Declaration) {
        // As good as a pause: see `Task::may_run_above`.
        self.thread.shared.stall.expect_pauses();
        let mut ready = ReadyList::new();
        // SAFETY: from the task's body.
        unsafe {
            dependences::release(self.thread, self.current(), declared.start, declared.length, &mut ready)
        };
        while let Some(task) = ready.pop() {
            // SAFETY: made ready just now.
            unsafe { self.thread.shared.scheduler.add(task, self.thread.worker.get()) };
        }
    }

    /// Creates a task that accesses `declared` regions.
    ///
    /// # Safety
    /// The bytes that `body` and its descendants access must be among the declared ones, live until the task is done,
    /// and be left alone by everything that is not ordered with it; the regions must lie inside those that the current
    /// task declared.
    #[inline]
    pub unsafe fn submit_raw<F>(&self, attributes: Attributes, declared: &[Declaration], body: F)
    where
        F: FnOnce(&Context<'_>) + Send + 'static,
    {
        let checked = self.check_passed_on(declared);
        // SAFETY: the caller's promise.
        unsafe { self.begin(attributes, declared, 1, checked, body, |_| ()) };
    }

    /// In the debug mode: whether the current task declared what it passes on to a child.
    #[inline]
    pub(crate) fn check_passed_on(&self, declared: &[Declaration]) -> Result<(), TaskError> {
        if self.thread.shared.journal.is_none() {
            return Ok(());
        }
        declared.iter().try_for_each(|declared| check_declared(self.current(), declared))
    }

    /// Whether this task declared such an access: for bodies that work on raw addresses and want to be told what they forgot.
    ///
    /// # Errors
    /// It did not; the error says from which byte on.
    pub fn check_access(&self, access: &Declaration) -> Result<(), TaskError> {
        check_declared(self.current(), access)
    }

    /// Creates a record, has it prepared, and starts its life; with `checked` an error, as one that has failed already.
    ///
    /// # Safety
    /// As for [`Context::submit_raw`]; `references` are passed to the caller, except for the first.
    #[inline]
    pub(crate) unsafe fn begin<F, R>(
        &self,
        mut attributes: Attributes,
        declared: &[Declaration],
        references: u32,
        checked: Result<(), TaskError>,
        body: F,
        prepare: impl FnOnce(&Task),
    ) -> TaskRef
    where
        F: FnOnce(&Context<'_>) -> R + Send + 'static,
    {
        let parent = self.current();
        let (mut declared, mut room) = (declared, None);
        let mut refused = None;
        if checked.is_err() || !self.is_usual(&attributes, declared) {
            (declared, refused) = self.look_closer(&mut attributes, declared, &mut room, checked);
        }
        let undeferred = attributes.flags & flag::UNDEFERRED != 0;
        // SAFETY: the closure is `Send` and borrows nothing; the parent is the current task.
        unsafe {
            let references = references + u32::from(undeferred);
            let task = create(self.thread, parent, attributes, declared.len(), references, body);
            prepare(task.as_ref());
            if let Some(error) = refused {
                refuse(task, *error);
            }
            let is_ours = submit(self.thread, task, declared);
            if undeferred {
                self.finish_undeferred(task, is_ours);
            }
            task
        }
    }

    /// Whether there is nothing to be decided or refused before a task like this is created.
    #[inline]
    pub(crate) fn is_usual(&self, attributes: &Attributes, declared: &[Declaration]) -> bool {
        !self.current().has(flag::FINAL)
            && attributes.kind == LeafKind::CPU
            && dependences::is_settled(declared)
            && has_room(self.thread)
    }

    /// What a new task registers, and why it is refused if it is: then it is skipped. Where its parent is final, so is it. With too
    /// many tasks about, runs some first.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_closer<'a>(
        &self,
        attributes: &mut Attributes,
        declared: &'a [Declaration],
        room: &'a mut Option<Vec<Declaration>>,
        checked: Result<(), TaskError>,
    ) -> (&'a [Declaration], Option<Box<TaskError>>) {
        let parent = self.current();
        let mut checked = checked;
        if parent.has(flag::FINAL) {
            attributes.flags |= flag::FINAL | flag::UNDEFERRED;
            checked = forked::check(parent).and(checked);
        }
        let settled =
            checked.and_then(|()| settled_for(attributes.label, declared, room.get_or_insert_default()));
        let checked = settled.and_then(|settled| {
            if attributes.flags & flag::VERSIONED == 0 {
                check_kind(&self.thread.shared, attributes.kind, attributes.label)?;
            }
            make_room(self.thread, attributes.label)?;
            Ok(settled)
        });
        match checked {
            Ok(settled) => (settled, None),
            Err(error) => {
                attributes.kind = LeafKind::CPU; // somebody has to skip it
                (&[], Some(Box::new(error)))
            }
        }
    }

    /// Runs an undeferred task if that is ours to do, or waits for it; then ends the reference that kept it for that.
    #[cold]
    pub(crate) unsafe fn finish_undeferred(&self, task: TaskRef, is_ours: bool) {
        // SAFETY: the reference keeps the record.
        let record = unsafe { task.as_ref() };
        let recorder = self.thread.shared.recorder.as_ref();
        recorder.inspect(|recorder| recorder.waits_for(self.thread, record));
        if is_ours {
            run_chain(self.thread, record, task);
        }
        wait_task(self.thread, record);
        recorder.inspect(|recorder| recorder.goes_on(self.thread));
        // SAFETY: that reference.
        unsafe { crate::lifecycle::execute::release(self.thread, task) };
    }
}

/// Lets a task that nobody has seen yet be skipped.
#[cold]
pub(crate) fn refuse(task: TaskRef, error: TaskError) {
    // SAFETY: nobody else has seen it.
    let record = unsafe { task.as_ref() };
    record.poison();
    record.note_fault(Fault { error });
}

/// What the task `label` registers for what it declares: see [`dependences::settled`].
#[inline]
pub(crate) fn settled_for<'a>(
    label: &str,
    declared: &'a [Declaration],
    room: &'a mut Vec<Declaration>,
) -> Result<&'a [Declaration], TaskError> {
    dependences::settled(declared, room)
        .map_err(|source| TaskError::Contradiction { label: label.to_owned(), source })
}

impl NewTask<'_, '_> {
    /// A name for messages, timelines and drawings.
    pub fn label(mut self, label: &'static str) -> Self {
        self.attributes.label = label;
        self
    }

    /// Larger runs earlier, where the scheduler's policy looks at it; 0 without a call.
    pub fn priority(mut self, priority: i32) -> Self {
        self.attributes.priority = priority;
        self
    }

    /// It runs a part of the current body.
    pub(crate) fn helping(mut self) -> Self {
        self.attributes.flags |= flag::HELPS;
        self
    }

    /// Only workers of this kind run it: devices that were registered with it. Without a call, the processors.
    pub fn on(mut self, kind: LeafKind) -> Self {
        self.attributes.kind = kind;
        self
    }

    /// An estimate of the work in it, in units of the program's own. It changes no decision but which version runs ([`NewTask::versions`]): recordings
    /// relate times to it ([`record`](crate::record)), and take it for the time of tasks that did not run.
    pub fn cost(mut self, cost: u32) -> Self {
        self.attributes.cost = cost;
        self
    }

    /// Its accesses are released only when all its descendants are done, not one by one.
    pub fn wait(mut self) -> Self {
        self.attributes.flags |= flag::WAIT;
        self
    }

    /// If so, its children run at once, in place, and so do theirs.
    pub fn final_if(mut self, is_final: bool) -> Self {
        self.attributes.flags |= if is_final { flag::FINAL } else { 0 };
        self
    }

    /// If not, its creator waits for it before going on, and runs it itself where it can.
    pub fn deferred_if(mut self, deferred: bool) -> Self {
        self.attributes.flags |= if deferred { 0 } else { flag::UNDEFERRED };
        self
    }

    /// As [`Context::submit`].
    #[inline]
    pub fn submit<A: Accesses>(
        self,
        accesses: A,
        body: impl for<'b> FnOnce(&Context<'b>, A::Guards<'b>) + Send + 'static,
    ) {
        self.begin(1, accesses, body);
    }

    /// As [`Context::spawn`].
    #[inline]
    pub fn spawn<A: Accesses, R: Send + 'static>(
        self,
        accesses: A,
        body: impl for<'b> FnOnce(&Context<'b>, A::Guards<'b>) -> R + Send + 'static,
    ) -> Handle<R> {
        let task = self.begin(2, accesses, body);
        // SAFETY: the second reference.
        unsafe { Handle::new(task) }
    }

    #[inline]
    fn begin<A: Accesses, R>(
        self,
        references: u32,
        accesses: A,
        body: impl for<'b> FnOnce(&Context<'b>, A::Guards<'b>) -> R + Send + 'static,
    ) -> TaskRef {
        let mut declarations = Declarations::new();
        let checked = accesses
            .declare(self.context.current(), &mut declarations)
            .and_then(|()| declarations.check_disjoint(self.attributes.label));
        let stored = accesses.store();
        let run = move |context: &Context<'_>| {
            // SAFETY: the task runs, and this is the only call.
            let guards = unsafe { A::guards(&stored) };
            let result = body(context, guards);
            // SAFETY: the body is over, and its guards are gone.
            unsafe { A::finish(&stored) };
            result
        };
        let declared = declarations.as_slice();
        // SAFETY: the guards give access to what was declared, and the types let a body pass on no more than it was
        // given; the data is kept by what was stored.
        unsafe { self.context.begin(self.attributes, declared, references, checked, run, |_| ()) }
    }
}
