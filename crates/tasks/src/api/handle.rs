//! The value of a task that is not done yet.

use crate::api::context::Context;
use crate::error::TaskError;
use crate::lifecycle::current::Thread;
use crate::lifecycle::execute::release;
use crate::lifecycle::forked;
use crate::lifecycle::task::{Task, TaskRef, flag};
use crate::waiting::wait::wait_task;
use castell_host::clock::now_ns;
use std::marker::PhantomData;

/// What [`Context::spawn`] returns: the task's value, once it and its descendants are done. Dropping it gives the value
/// up; the task runs nevertheless.
pub struct Handle<R> {
    task: TaskRef,
    value: PhantomData<R>,
}

// SAFETY: it holds a reference to the record; the value goes to one taker.
unsafe impl<R: Send> Send for Handle<R> {}
// SAFETY: `&Handle` gives no access to the value.
unsafe impl<R: Send> Sync for Handle<R> {}

impl<R> Handle<R> {
    /// # Safety
    /// The caller passes a reference on, and the task's body returns an `R`.
    #[inline]
    pub(crate) unsafe fn new(task: TaskRef) -> Handle<R> {
        Handle { task, value: PhantomData }
    }

    fn task(&self) -> &Task {
        // SAFETY: the reference is ours.
        unsafe { self.task.as_ref() }
    }

    /// Whether it is done: then [`Handle::wait`] does not wait.
    pub fn is_done(&self) -> bool {
        self.task().has(flag::DONE)
    }

    /// Waits inside a task; runs ready descendants of that meanwhile. A task that waits for itself or for one that waits
    /// for it never goes on.
    ///
    /// # Errors
    /// The task failed, something below it that nobody waited for did, or it was skipped.
    pub fn wait(self, context: &Context<'_>) -> Result<R, TaskError> {
        if !self.is_done() {
            forked::check(context.current())?;
        }
        wait_task(context.thread(), self.task());
        self.take()
    }

    /// Waits outside of tasks.
    ///
    /// # Errors
    /// As for [`Handle::wait`].
    pub fn join(self) -> Result<R, TaskError> {
        Thread::with(self.task().shared, |thread| {
            let recorder = thread.shared.recorder.as_ref();
            recorder.inspect(|recorder| recorder.joins(thread));
            let timeline = thread.shared.timeline.as_ref();
            let since = timeline.map(|_| now_ns());
            wait_task(thread, self.task());
            if let (Some(timeline), Some(start_ns)) = (timeline, since) {
                timeline.waited(start_ns);
            }
            recorder.inspect(|recorder| recorder.joined(thread, self.task()));
        });
        self.take()
    }

    fn take(self) -> Result<R, TaskError> {
        let task = self.task();
        if let Some(fault) = task.fault() {
            return Err(fault.error);
        }
        if !task.has(flag::RETURNED) {
            return Err(TaskError::Skipped { label: task.label().to_owned() });
        }
        task.clear(flag::RETURNED);
        // SAFETY: the body left an `R` there, and the cleared flag says that it is taken. DONE was read with Acquire.
        Ok(unsafe { task.closure().cast::<R>().read() })
    }
}

impl<R> Drop for Handle<R> {
    fn drop(&mut self) {
        let shared = self.task().shared;
        // SAFETY: the reference is ours, and not used any more.
        Thread::with(shared, |thread| unsafe { release(thread, self.task) });
    }
}
