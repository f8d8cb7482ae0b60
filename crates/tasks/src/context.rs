//! What a task's body can ask of the runtime.

use crate::current::Thread;
use crate::dependences::Declaration;
use crate::error::TaskError;
use crate::execute::{create, submit};
use crate::task::Attributes;
use crate::wait::wait_children;

/// A body's view of the runtime. It cannot leave the body.
pub struct Context<'t> {
    thread: &'t Thread,
}

impl<'t> Context<'t> {
    #[inline]
    pub(crate) fn of(thread: &'t Thread) -> Context<'t> {
        Context { thread }
    }

    /// Creates a task that accesses `declared` regions.
    ///
    /// # Safety
    /// The bytes that `body` and its descendants access must be among the declared ones, live until the task is done,
    /// and be left alone by everything that is not ordered with it; the regions must lie inside those that the current
    /// task declared.
    #[inline]
    pub unsafe fn spawn_raw<F>(&self, attributes: Attributes, declared: &[Declaration], body: F)
    where
        F: FnOnce(&Context<'_>) + Send + 'static,
    {
        let parent = self.thread.task.get();
        // SAFETY: the closure is `Send` and borrows nothing; the parent is the current task.
        unsafe {
            let task = create(self.thread, parent, attributes, declared.len(), 1, body);
            submit(self.thread, task, declared);
        }
    }

    /// Waits until all tasks that this body created are done, with all that they created.
    ///
    /// # Errors
    /// The first failure among them.
    pub fn taskwait(&self) -> Result<(), TaskError> {
        wait_children(self.thread);
        // SAFETY: the body's task is alive.
        let fault = unsafe { self.thread.task.get().as_ref() }.and_then(|task| task.take_fault());
        fault.map_or(Ok(()), |fault| Err(fault.error))
    }
}
