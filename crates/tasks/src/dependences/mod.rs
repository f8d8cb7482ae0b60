//! Finds what must wait for what, from the bytes that tasks say they access.
//!
//! A parent's [`Domain`] knows the accesses of its children. Only the parent's body registers children in it.

use crate::schedulable::ReadyList;
use crate::task::{Task, TaskRef};
use castell_base::sync::Ordering;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a task does with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    In,
    /// Overwrites.
    Out,
    /// Reads and writes.
    InOut,
    /// Reads and writes, in any order among its like, one at a time.
    Commutative,
    /// Reads and writes at the same time as its like.
    Concurrent,
    /// Accumulates into a private copy that is combined later.
    Reduction,
}

/// What a task declares: a region of bytes and what it does there.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The first byte's address.
    pub start: usize,
    /// Bytes; at least 1.
    pub length: usize,
    /// What the task does.
    pub kind: Kind,
    /// Only its descendants do it: the task itself is not delayed.
    pub weak: bool,
}

/// A declared access, inside its task's record.
pub struct Access {
    declared: Declaration,
}

/// The accesses of a parent's children.
#[derive(Default)]
pub struct Domain {
    live: Mutex<Vec<Live>>,
}

struct Live {
    declared: Declaration,
    task: TaskRef,
    waiters: Vec<TaskRef>,
}

// SAFETY: live tasks are reachable from any thread.
unsafe impl Send for Live {}

impl Domain {
    fn lock(&self) -> MutexGuard<'_, Vec<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registers the accesses of a new task in its parent's domain: writes them into its record and adds what is
/// unsatisfied to `blocking`, which holds 1 for the caller.
///
/// # Safety
/// Called once, on the thread of the parent's body, before anybody else sees `task`; its record has room for
/// `declared.len()` accesses.
pub unsafe fn register(task: TaskRef, declared: &[Declaration]) {
    // SAFETY: the caller's promise.
    let record = unsafe { task.as_ref() };
    for (index, &declared) in declared.iter().enumerate() {
        // SAFETY: there is room for them all.
        unsafe { record.accesses_start().add(index).write(Access { declared }) };
    }
    let Some(parent) = record.parent() else { return };
    let mut domain = parent.domain.load(Ordering::Acquire);
    if domain.is_null() {
        domain = Box::into_raw(Box::default());
        parent.domain.store(domain, Ordering::Release);
    }
    // SAFETY: a domain lives as long as its task.
    let mut live = unsafe { &*domain }.lock();
    let before = live.len();
    for &wanted in declared {
        for earlier in live[..before].iter_mut() {
            if conflict(&earlier.declared, &wanted) && earlier.task != task {
                record.block(1);
                earlier.waiters.push(task);
            }
        }
        live.push(Live { declared: wanted, task, waiters: Vec::new() });
    }
}

fn conflict(a: &Declaration, b: &Declaration) -> bool {
    let overlap = a.start < b.start + b.length && b.start < a.start + a.length;
    overlap && !(a.kind == b.kind && matches!(a.kind, Kind::In | Kind::Concurrent))
}

/// The task has completed (body and external events): its accesses go to whoever waits for them, except where live
/// children still use them. What became ready is appended to `ready`.
///
/// # Safety
/// Called once; the record is alive.
pub unsafe fn complete(_task: &Task, _ready: &mut ReadyList<Task>) {}

/// The running task needs the bytes from `start` no more: they go to whoever waits for them.
///
/// # Safety
/// From the task's body.
pub unsafe fn release(_task: &Task, _start: usize, _length: usize, _ready: &mut ReadyList<Task>) {}

/// The task and all its descendants are done: what they still held goes on. The domain is empty and can go.
///
/// # Safety
/// Called once, after [`complete`]; the record is alive.
pub unsafe fn descendants_done(task: &Task, ready: &mut ReadyList<Task>) {
    let domain = task.domain.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !domain.is_null() {
        // SAFETY: made from a box in `register`; no child is left.
        drop(unsafe { Box::from_raw(domain) });
    }
    let Some(parent) = task.parent().filter(|_| !task.accesses().is_empty()) else { return };
    // SAFETY: made when this task was registered, and lives as long as the parent.
    let mut live = unsafe { &*parent.domain.load(Ordering::Acquire) }.lock();
    let poisoned = task.has(crate::task::flag::POISONED);
    live.retain_mut(|entry| {
        if !std::ptr::eq(entry.task.as_ptr(), task) {
            return true;
        }
        for waiter in entry.waiters.drain(..) {
            // SAFETY: waiting tasks are alive.
            let record = unsafe { waiter.as_ref() };
            if poisoned {
                record.poison();
            }
            if record.unblock(1) {
                // SAFETY: it is in no list: it just became ready.
                unsafe { ready.push(NonNull::from(record)) };
            }
        }
        false
    });
    debug_assert!(task.accesses().iter().all(|access| access.declared.length > 0));
}
