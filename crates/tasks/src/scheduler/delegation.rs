//! One queue whose lock holder serves those that wait for it (Álvarez, Sala, Maroñas, Roca, Beltran: "Advanced
//! synchronization techniques for task-based runtime systems", PPoPP 2021, sections 3 and 4).
//!
//! Adding goes through a ring a worker, without the lock; whoever holds the lock moves what the rings have into the queue.
//! Getting means standing in line: the first in line holds the lock, takes a task, and hands tasks to those behind it
//! until the line ends, so that they need not touch the queue. The line is a list of the workers' own nodes (Mellor-Crummey
//! and Scott) where the paper has tickets: so who waits long can sleep on its node.

use super::stations::Stations;
use super::tree::Queued;
use super::{LOOKS_FOR_DESCENDANT, fences};
use crate::scheduler::schedulable::{Schedulable, kind_of};
use castell_base::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, spin_hint};
use castell_sched::{Kind, Options, ReadyQueue, Topology};
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

/// What a worker can have added that nobody has moved yet.
const RING: usize = if cfg!(loom) { 2 } else { 256 };
/// How many a holder serves before it passes the lock on, so that its own task is not kept waiting for ever.
const SERVED_MAX: usize = if cfg!(loom) { 1 } else { 64 };
const LOOKS: u32 = if cfg!(loom) { 1 } else { 200 };

const WAITS: u32 = 0;
const SLEEPS: u32 = 1;
/// The lock is this node's.
const HOLDS: u32 = 2;
/// Its holder has put an answer into this node.
const SERVED: u32 = 3;

pub(super) struct Delegation<T> {
    /// The last in line; null if the lock is free.
    last: AtomicPtr<Place<T>>,
    places: Box<[Place<T>]>,
    /// By kind; touched by the lock's holder only.
    queues: UnsafeCell<Vec<ReadyQueue<Queued<T>>>>,
    /// Tasks in the queues.
    length: AtomicUsize,
    /// What threads that are no workers add.
    outside: Mutex<Vec<Queued<T>>>,
    outside_length: AtomicUsize,
}

/// What a worker stands in line for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// A task, from whoever has the lock.
    Task,
    /// The lock itself.
    Lock,
}

/// A worker's place in the line, and its ring.
#[repr(align(128))]
struct Place<T> {
    next: AtomicPtr<Place<T>>,
    state: AtomicU32,
    answer: AtomicPtr<T>,
    /// It wants to look at the queues itself.
    wants_lock: AtomicBool,
    kind: Kind,
    added: AtomicUsize,
    moved: AtomicUsize,
    ring: Box<[AtomicPtr<T>]>,
}

// SAFETY: the queues are touched by the lock's holder only; the rest is atomic or behind a lock.
unsafe impl<T> Sync for Delegation<T> {}
// SAFETY: queued tasks belong to the scheduler, on any thread.
unsafe impl<T> Send for Delegation<T> {}

impl<T: Schedulable> Delegation<T> {
    pub(super) fn new(options: Options, topology: &Topology) -> Self {
        let place = |leaf| Place {
            next: AtomicPtr::new(null_mut()),
            state: AtomicU32::new(WAITS),
            answer: AtomicPtr::new(null_mut()),
            wants_lock: AtomicBool::new(false),
            kind: topology.kind_of(leaf),
            added: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
            ring: (0..RING).map(|_| AtomicPtr::new(null_mut())).collect(),
        };
        Delegation {
            last: AtomicPtr::new(null_mut()),
            places: topology.all().map(place).collect(),
            queues: UnsafeCell::new((0..Kind::COUNT).map(|_| ReadyQueue::new(options.policy)).collect()),
            length: AtomicUsize::new(0),
            outside: Mutex::new(Vec::new()),
            outside_length: AtomicUsize::new(0),
        }
    }

    /// Adds a task; `worker` is the calling thread's.
    pub(super) fn add(&self, stations: &Stations<T>, worker: Option<usize>, task: NonNull<T>) {
        // SAFETY: in the scheduler from now on, so alive, and in no list.
        let Some(kind) = (unsafe { kind_of(task) }) else { return };
        match worker {
            Some(worker) => self.add_to_ring(worker, task),
            None => {
                let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
                outside.push(Queued(task));
                self.outside_length.store(outside.len(), Ordering::Release);
            }
        }
        fences::light();
        if stations.any_idle(kind)
            && let Some(claim) = stations.claim(kind, None)
        {
            stations.ring(claim, 0);
        }
    }

    /// Adds a task that the worker's thread has.
    pub(super) fn add_to_ring(&self, worker: usize, task: NonNull<T>) {
        let place = &self.places[worker];
        let added = place.added.load(Ordering::Relaxed);
        // Acquire: the holder has read the cell before it says that it is free.
        if added - place.moved.load(Ordering::Acquire) == RING {
            self.stand_in_line(worker, Wants::Lock, |_| None);
        }
        place.ring[added % RING].store(task.as_ptr(), Ordering::Relaxed);
        place.added.store(added + 1, Ordering::Release);
    }

    pub(super) fn get(&self, worker: usize) -> Option<NonNull<T>> {
        if !self.has_work() {
            return None;
        }
        let kind = self.places[worker].kind.index();
        self.stand_in_line(worker, Wants::Task, |queues| queues[kind].take())
    }

    /// The youngest task, if it descends from `ancestor`.
    pub(super) fn get_descendant(&self, worker: usize, ancestor: &T) -> Option<NonNull<T>> {
        if !self.has_work() {
            return None;
        }
        let kind = self.places[worker].kind.index();
        self.stand_in_line(worker, Wants::Lock, |queues| {
            // SAFETY: queued tasks are alive.
            let fits = |task: &Queued<T>| unsafe { task.0.as_ref() }.may_run_above(ancestor);
            queues[kind].take_youngest_where(LOOKS_FOR_DESCENDANT, fits)
        })
    }

    /// Whether there may be a task.
    pub(super) fn has_work(&self) -> bool {
        let waits =
            |place: &Place<T>| place.added.load(Ordering::Acquire) != place.moved.load(Ordering::Relaxed);
        self.len() > 0 || self.places.iter().any(waits)
    }

    pub(super) fn len(&self) -> usize {
        self.length.load(Ordering::Acquire) + self.outside_length.load(Ordering::Acquire)
    }

    /// Gets the lock, or a task from its holder. As the holder: moves what was added, takes what `take` takes, serves the
    /// others.
    fn stand_in_line(
        &self,
        worker: usize,
        wants: Wants,
        take: impl FnOnce(&mut [ReadyQueue<Queued<T>>]) -> Option<Queued<T>>,
    ) -> Option<NonNull<T>> {
        let place = &self.places[worker];
        place.next.store(null_mut(), Ordering::Relaxed);
        place.state.store(WAITS, Ordering::Relaxed);
        place.wants_lock.store(wants == Wants::Lock, Ordering::Relaxed);
        let own = std::ptr::from_ref(place).cast_mut();
        let before = self.last.swap(own, Ordering::AcqRel);
        // SAFETY: places live as long as the scheduler, and the one before us stays until it has served us or passed on.
        if let Some(before) = unsafe { before.as_ref() } {
            before.next.store(own, Ordering::Release);
            if place.wait() == SERVED {
                return NonNull::new(place.answer.load(Ordering::Relaxed));
            }
        }
        // SAFETY: the lock is ours.
        let queues = unsafe { &mut *self.queues.get() };
        self.move_added(queues);
        let task = take(queues);
        self.serve(queues, place);
        task.map(|task| task.0)
    }

    /// Moves what the rings and the threads outside have added into the queues.
    fn move_added(&self, queues: &mut [ReadyQueue<Queued<T>>]) {
        let mut add = |task: NonNull<T>| {
            // SAFETY: queued tasks are alive.
            let record = unsafe { task.as_ref() };
            queues[record.kind().index()].add(record.priority(), Queued(task));
        };
        for place in &self.places {
            let moved = place.moved.load(Ordering::Relaxed);
            // Acquire: the cells up to there.
            let added = place.added.load(Ordering::Acquire);
            for number in moved..added {
                let task = place.ring[number % RING].load(Ordering::Relaxed);
                add(NonNull::new(task).expect("a ring's cells are filled before they are counted"));
            }
            if added != moved {
                // The count of queued tasks goes up first, so that nobody sees none at all.
                self.length.fetch_add(added - moved, Ordering::AcqRel);
                place.moved.store(added, Ordering::Release);
            }
        }
        if self.outside_length.load(Ordering::Acquire) > 0 {
            let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
            self.length.fetch_add(outside.len(), Ordering::AcqRel);
            outside.drain(..).for_each(|task| add(task.0));
            self.outside_length.store(0, Ordering::Release);
        }
    }

    /// Hands tasks to those in line behind `own`, then gives the lock up or passes it on.
    fn serve(&self, queues: &mut [ReadyQueue<Queued<T>>], own: &Place<T>) {
        let mut here = own;
        // The answer to `here`, which is told only when its place in the line is not needed any more.
        let mut answered = false;
        for served in 0.. {
            let left = queues.iter().map(ReadyQueue::len).sum();
            self.length.store(left, Ordering::Release);
            let Some(next) = self.next_of(here) else {
                here.tell(answered);
                return;
            };
            here.tell(answered);
            if served == SERVED_MAX || next.wants_lock.load(Ordering::Relaxed) {
                next.set(HOLDS);
                return;
            }
            let task = queues[next.kind.index()].take();
            next.answer.store(task.map_or(null_mut(), |task| task.0.as_ptr()), Ordering::Relaxed);
            (here, answered) = (next, true);
        }
    }

    /// The one behind `here`; `None` if there is none: then the lock has been given up.
    fn next_of(&self, here: &Place<T>) -> Option<&Place<T>> {
        let mut next = here.next.load(Ordering::Acquire);
        if next.is_null() {
            let own = std::ptr::from_ref(here).cast_mut();
            // Release: what the holder did to the queues.
            if self.last.compare_exchange(own, null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return None;
            }
            // Somebody is between two instructions of joining the line.
            let mut looks = 0;
            while next.is_null() {
                looks += 1;
                if looks < LOOKS {
                    spin_hint();
                } else {
                    fences::give_way();
                }
                next = here.next.load(Ordering::Acquire);
            }
        }
        // SAFETY: places live as long as the scheduler.
        unsafe { next.as_ref() }
    }
}

impl<T> Place<T> {
    /// Waits until the lock is ours or an answer is there; says which.
    fn wait(&self) -> u32 {
        let mut looks = 0;
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state >= HOLDS {
                return state;
            }
            looks += 1;
            if looks < LOOKS {
                spin_hint();
            } else if state == SLEEPS
                || self.state.compare_exchange(WAITS, SLEEPS, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                fences::sleep(&self.state, SLEEPS);
            }
        }
    }

    fn set(&self, state: u32) {
        if self.state.swap(state, Ordering::AcqRel) == SLEEPS {
            fences::wake(&self.state);
        }
    }

    fn tell(&self, answered: bool) {
        if answered {
            self.set(SERVED);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::scheduler::schedulable::tests::Item;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn two_workers_get_each_task_once() {
        loom::model(|| {
            let topology: Topology = "cpu:2".parse().expect("a topology");
            let options = "delegation:fifo".parse().expect("a scheduler");
            let shared = Arc::new((Delegation::new(options, &topology), Stations::new(&topology)));
            let item = Box::new(Item::new(1));
            shared.0.add(&shared.1, Some(0), NonNull::from(&*item));
            let other = {
                let shared = shared.clone();
                thread::spawn(move || shared.0.get(1).is_some())
            };
            let here = shared.0.get(0).is_some();
            let there = other.join().expect("the other ends");
            let later = shared.0.get(0).is_some();
            assert_eq!(u32::from(here) + u32::from(there) + u32::from(later), 1);
        });
    }
}
