//! Where ready tasks wait for a worker.

use crate::schedulable::{ReadyList, Schedulable};
use crate::workers::WorkerId;
use castell_sched::{Options, Topology};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ready tasks on their way to workers.
pub struct Scheduler<T: Schedulable> {
    queue: Mutex<VecDeque<Queued<T>>>,
}

struct Queued<T>(NonNull<T>);

// SAFETY: a queued task belongs to the queue, wherever its thread is.
unsafe impl<T> Send for Queued<T> {}

impl<T: Schedulable> Scheduler<T> {
    /// An empty one.
    pub fn new(_topology: Topology, _options: Options, _seed: u64) -> Self {
        Scheduler { queue: Mutex::new(VecDeque::new()) }
    }

    /// Queues a task; `from` is the worker whose thread calls, `None` any other thread.
    ///
    /// # Safety
    /// `task` is alive until it is got, and in no other list.
    pub unsafe fn add(&self, task: NonNull<T>, _from: Option<WorkerId>) {
        self.lock().push_back(Queued(task));
    }

    /// Queues what a completed task made ready; returns the one that the worker shall run at once, if any.
    ///
    /// # Safety
    /// As for [`Scheduler::add`], for all in the list.
    pub unsafe fn add_ready(&self, mut ready: ReadyList<T>, _from: Option<WorkerId>) -> Option<NonNull<T>> {
        let first = ready.pop();
        while let Some(task) = ready.pop() {
            self.lock().push_back(Queued(task));
        }
        first
    }

    /// The next task for `worker`.
    pub fn get(&self, _worker: WorkerId) -> Option<NonNull<T>> {
        self.lock().pop_front().map(|queued| queued.0)
    }

    /// The next task for `worker` among the descendants of `ancestor`, as far as it can be found quickly.
    pub fn get_descendant(&self, _worker: WorkerId, ancestor: &T) -> Option<NonNull<T>> {
        let mut queue = self.lock();
        // SAFETY: queued tasks are alive.
        let wanted = |queued: &Queued<T>| unsafe { queued.0.as_ref() }.descends_from(ancestor);
        let at = queue.iter().rposition(wanted)?;
        queue.remove(at).map(|queued| queued.0)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Queued<T>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
