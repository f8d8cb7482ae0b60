//! The calling thread, as the runtime sees it.

use crate::group::Group;
use crate::runtime::Shared;
use crate::task::Task;
use crate::watched::Undeclared;
use crate::workers::WorkerId;
use castell_base::sync::{AtomicU32, AtomicU64, Ordering};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    static CURRENT: Cell<*const Thread> = const { Cell::new(std::ptr::null()) };
}

/// A thread that runs or creates tasks.
pub struct Thread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: Cell<Option<WorkerId>>,
    /// The task whose body is on top of the stack; null on a worker between tasks.
    pub(crate) task: Cell<*const Task>,
    /// The innermost group that is open on top of the stack, or in which that task was created.
    pub(crate) group: Cell<*const Group>,
    /// What a worker's thread counts; others share one.
    pub(crate) counters: Option<Arc<Counters>>,
    /// In the debug mode: what the body on top of the stack did without having declared it.
    pub(crate) undeclared: Cell<Option<Undeclared>>,
    /// The word on which this thread sleeps while its task waits.
    bell: AtomicU32,
    outer: Cell<*const Thread>,
}

/// Records that a thread made and disposed of. Only that thread writes them.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    pub(crate) created: AtomicU64,
    pub(crate) disposed: AtomicU64,
}

impl Thread {
    /// A thread of `shared`; `worker` if it is one of its workers.
    pub(crate) fn new(shared: &Arc<Shared>, worker: Option<WorkerId>) -> Thread {
        Thread {
            shared: Arc::clone(shared),
            worker: Cell::new(worker),
            task: Cell::new(std::ptr::null()),
            group: Cell::new(std::ptr::null()),
            counters: worker.map(|_| shared.counts.register()),
            undeclared: Cell::new(None),
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

    /// Calls `action` with the calling thread as `shared` sees it.
    pub(crate) fn with<R>(shared: *const Shared, action: impl FnOnce(&Thread) -> R) -> R {
        match Thread::current() {
            Some(thread) if Arc::as_ptr(&thread.shared) == shared => action(thread),
            _ => {
                // SAFETY: whoever has a record of a runtime keeps what its threads share.
                let shared = unsafe {
                    Arc::increment_strong_count(shared);
                    Arc::from_raw(shared)
                };
                action(&Thread::new(&shared, None))
            }
        }
    }

    /// How many records this thread made.
    #[inline]
    pub(crate) fn created(&self) -> u64 {
        self.counters.as_deref().unwrap_or(&self.shared.counts.foreign).created.load(Ordering::Relaxed)
    }

    /// Counts a record that was made.
    #[inline]
    pub(crate) fn count_created(&self) {
        match &self.counters {
            Some(counters) => {
                counters.created.store(counters.created.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            None => {
                self.shared.counts.foreign.created.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts a record that is disposed of.
    #[inline]
    pub(crate) fn count_disposed(&self) {
        match &self.counters {
            Some(counters) => {
                counters.disposed.store(counters.disposed.load(Ordering::Relaxed) + 1, Ordering::Release);
            }
            None => {
                self.shared.counts.foreign.disposed.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Forgets that the bell rang.
    pub(crate) fn silence(&self) {
        self.bell.store(0, Ordering::Relaxed);
    }

    /// Wakes the thread from [`Thread::wait_for_bell`].
    pub(crate) fn ring(&self) {
        let bell = &self.bell;
        bell.store(1, Ordering::Release);
        // The address is only a key here: a wake that comes after the thread went on is one too many, no more.
        castell_host::futex::wake(bell, 1, u32::MAX);
    }

    /// Sleeps until the bell rings, or the time is up; true if it rang.
    pub(crate) fn wait_for_bell(&self, timeout: Option<Duration>) -> bool {
        while self.bell.load(Ordering::Acquire) == 0 {
            if castell_host::futex::wait(&self.bell, 0, u32::MAX, timeout)
                == castell_host::futex::Woken::TimedOut
            {
                return self.bell.load(Ordering::Acquire) != 0;
            }
        }
        true
    }

    /// Blocks by `block` while another thread may use this one's CPU.
    pub(crate) fn without_cpu<R>(&self, block: impl FnOnce() -> R) -> R {
        let Some(worker) = self.worker.get() else { return block() };
        let workers = &self.shared.workers;
        if !workers.hand_over(&self.shared, worker) {
            return block();
        }
        self.worker.set(None);
        let result = block();
        let kind = workers.kind_of(Some(worker));
        self.worker.set(Some(workers.resume(&self.shared, kind)));
        result
    }
}

/// Ends [`Thread::enter`].
pub(crate) struct Entered<'a>(&'a Thread);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.0.outer.get());
    }
}
