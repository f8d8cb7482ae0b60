//! One queue behind one lock: the paper's scheduler before the tree (chapter 3), and the baseline of its plots.

use super::stations::Stations;
use super::tree::Queued;
use super::{LOOKS_FOR_DESCENDANT, fences};
use crate::scheduler::schedulable::{Schedulable, kind_of};
use castell_base::sync::{AtomicUsize, Ordering};
use castell_sched::{Kind, Options, ReadyQueue, Topology};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

pub(super) struct Central<T> {
    polling_slots: bool,
    kinds: Box<[Kind]>,
    /// By kind.
    queues: Box<[Queue<T>]>,
}

#[repr(align(128))]
struct Queue<T> {
    tasks: Mutex<ReadyQueue<Queued<T>>>,
    length: AtomicUsize,
}

impl<T: Schedulable> Central<T> {
    pub(super) fn new(options: Options, topology: &Topology) -> Self {
        let queue =
            |_| Queue { tasks: Mutex::new(ReadyQueue::new(options.policy)), length: AtomicUsize::new(0) };
        Central {
            polling_slots: options.polling_slots,
            kinds: topology.all().map(|leaf| topology.kind_of(leaf)).collect(),
            queues: (0..Kind::COUNT).map(queue).collect(),
        }
    }

    pub(super) fn add(&self, stations: &Stations<T>, task: NonNull<T>) {
        // SAFETY: in the scheduler from now on, so alive, and in no list.
        let Some(kind) = (unsafe { kind_of(task) }) else { return };
        // SAFETY: as above.
        let priority = unsafe { task.as_ref() }.priority();
        if self.polling_slots
            && stations.any_idle(kind)
            && let Some(claim) = stations.claim(kind, None)
        {
            stations.fill(&claim, 0, task);
            return stations.ring(claim, 1);
        }
        self.with(kind, |tasks| tasks.add(priority, Queued(task)));
        fences::light();
        if stations.any_idle(kind)
            && let Some(claim) = stations.claim(kind, None)
        {
            stations.ring(claim, 0);
        }
    }

    /// Puts a task that its worker was handed into the queue after all.
    pub(super) fn keep(&self, task: NonNull<T>) {
        // SAFETY: in the scheduler, so alive.
        let (kind, priority) = unsafe { (task.as_ref().kind(), task.as_ref().priority()) };
        self.with(kind, |tasks| tasks.add(priority, Queued(task)));
    }

    pub(super) fn get(&self, worker: usize) -> Option<NonNull<T>> {
        self.with(self.kinds[worker], ReadyQueue::take).map(|task| task.0)
    }

    pub(super) fn get_descendant(&self, worker: usize, ancestor: &T) -> Option<NonNull<T>> {
        self.seek_descendant(worker, ancestor, LOOKS_FOR_DESCENDANT)
    }

    /// Among the `most` youngest.
    pub(super) fn seek_descendant(&self, worker: usize, ancestor: &T, most: usize) -> Option<NonNull<T>> {
        if !self.has_work(worker) {
            return None;
        }
        // SAFETY: queued tasks are alive.
        let fits = |task: &Queued<T>| unsafe { task.0.as_ref() }.may_run_above(ancestor);
        self.with(self.kinds[worker], |tasks| tasks.take_youngest_where(most, fits)).map(|task| task.0)
    }

    pub(super) fn has_work(&self, worker: usize) -> bool {
        self.queues[self.kinds[worker].index()].length.load(Ordering::Acquire) > 0
    }

    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.length.load(Ordering::Relaxed)).sum()
    }

    fn with<R>(&self, kind: Kind, action: impl FnOnce(&mut ReadyQueue<Queued<T>>) -> R) -> R {
        let queue = &self.queues[kind.index()];
        let mut tasks = queue.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let result = action(&mut tasks);
        queue.length.store(tasks.len(), Ordering::Release);
        result
    }
}
