//! The calling thread, as the runtime sees it.

use crate::runtime::Shared;
use crate::task::Task;
use crate::workers::WorkerId;
use castell_base::sync::AtomicU32;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static CURRENT: Cell<*const Thread> = const { Cell::new(std::ptr::null()) };
}

/// A thread that runs or creates tasks.
pub struct Thread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: Cell<Option<WorkerId>>,
    /// The task whose body is on top of the stack; null on a worker between tasks.
    pub(crate) task: Cell<*const Task>,
    /// The word on which this thread sleeps while its task waits.
    pub(crate) bell: AtomicU32,
    outer: Cell<*const Thread>,
}

impl Thread {
    /// A thread of `shared`; `worker` if it is one of its workers.
    pub(crate) fn new(shared: &Arc<Shared>, worker: Option<WorkerId>) -> Thread {
        Thread {
            shared: Arc::clone(shared),
            worker: Cell::new(worker),
            task: Cell::new(std::ptr::null()),
            bell: AtomicU32::new(0),
            outer: Cell::new(std::ptr::null()),
        }
    }

    /// Makes this what [`Thread::current`] finds, until the guard goes.
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.outer.set(CURRENT.get());
        CURRENT.set(self);
        Entered(self)
    }

    /// The innermost one that the calling thread entered.
    #[inline]
    pub(crate) fn current<'a>() -> Option<&'a Thread> {
        // SAFETY: set by `enter`, whose guard, on this thread's stack, borrows it and takes it out.
        unsafe { CURRENT.get().as_ref() }
    }
}

/// Ends [`Thread::enter`].
pub(crate) struct Entered<'a>(&'a Thread);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.0.outer.get());
    }
}
