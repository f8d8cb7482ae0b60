//! Pausing a task until another agent wakes it, and external events that delay its completion.

use crate::diagnostics::stall::Why;
use crate::error::TaskError;
use crate::lifecycle::current::Thread;
use crate::lifecycle::execute::{completed, fail, release};
use crate::lifecycle::extras::{ASLEEP, AWAKE, CALLED, SUSPENDED};
use crate::lifecycle::task::{Task, TaskRef, flag};
use crate::waiting::suspend;
use castell_base::sync::{AtomicU32, Ordering};
use std::fmt::Display;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Wakes one paused task: [`Context::pausing`](crate::Context::pausing). Any thread may use it, also after the task's end.
pub struct Waker {
    task: TaskRef,
}

// SAFETY: it holds a reference to the record, whose pause state is made of atomics.
unsafe impl Send for Waker {}
// SAFETY: as above.
unsafe impl Sync for Waker {}

impl Waker {
    pub(crate) fn of(task: &Task) -> Waker {
        task.extras();
        task.retain();
        // SAFETY: what threads share outlives the tasks.
        unsafe { &*task.shared }.stall.expect_pauses();
        Waker { task: NonNull::from(task) }
    }

    /// Lets the task go on: the pause that it is in, or the next one if it is in none.
    pub fn unblock(&self) {
        // SAFETY: the reference keeps the record.
        unblock(unsafe { self.task.as_ref() });
    }
}

impl Clone for Waker {
    fn clone(&self) -> Self {
        // SAFETY: the reference keeps the record.
        Waker::of(unsafe { self.task.as_ref() })
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        let shared = unsafe { self.task.as_ref() }.shared;
        // SAFETY: as above, and it is not used any more.
        Thread::with(shared, |thread| unsafe { release(thread, self.task) });
    }
}

/// See [`Waker::unblock`].
pub(crate) fn unblock(task: &Task) {
    let word = &task.extras().pause.word;
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let next = if seen == SUSPENDED { AWAKE } else { CALLED };
        match word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(before) => {
                if before == ASLEEP {
                    castell_host::futex::wake(word, 1, u32::MAX);
                } else if before == SUSPENDED {
                    suspend::unblocked(TaskRef::from(task));
                }
                return;
            }
            Err(now) => seen = now,
        }
    }
}

/// Pauses the thread's current task until [`unblock`], or for `timeout`; true if it was told to go on. The thread sleeps,
/// and another one uses its CPU.
pub(crate) fn block(thread: &Thread, task: &Task, timeout: Option<Duration>) -> bool {
    if crate::lifecycle::forked::check(task).is_err() {
        return false;
    }
    thread.shared.stall.expect_pauses();
    let word = &task.extras().pause.word;
    if word.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err() {
        word.store(AWAKE, Ordering::Relaxed); // the call was there first
        return true;
    }
    let noted = thread.shared.stall.note(task, Why::Paused);
    thread.without_cpu(|| sleep(word, timeout));
    drop(noted);
    word.swap(AWAKE, Ordering::AcqRel) == CALLED
}

fn sleep(word: &AtomicU32, timeout: Option<Duration>) {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    while word.load(Ordering::Acquire) == ASLEEP {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        castell_host::futex::wait(word, ASLEEP, u32::MAX, left);
    }
}

/// The thread's current task does nothing for `time`; another thread uses its CPU.
pub(crate) fn rest(thread: &Thread, time: Duration) {
    thread.shared.stall.expect_pauses();
    thread.without_cpu(|| {
        if !time.is_zero() {
            std::thread::sleep(time);
        }
    });
}

/// Something outside of tasks that has to happen before a task completes: its successors get its data only then. Dropping
/// it says that it has happened. Any thread may do that.
pub struct Event {
    task: TaskRef,
    one: PhantomData<()>,
}

// SAFETY: the record lives until the event is fulfilled, and its count is atomic.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// One more event for `task`, whose body is running.
    pub(crate) fn of(task: &Task) -> Event {
        add_events(task, 1);
        Event { task: NonNull::from(task), one: PhantomData }
    }

    /// It has happened.
    pub fn fulfill(self) {}

    /// It will not happen: the task fails, as by [`Context::fail`](crate::Context::fail), even if its body is over.
    pub fn fail(self, error: impl Display) {
        // SAFETY: not fulfilled yet, so the record is there.
        let task = unsafe { self.task.as_ref() };
        let label = task.label().to_owned();
        fail(task, TaskError::Failed { label, message: error.to_string(), payload: None });
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: not fulfilled yet, so the record is there.
        unsafe { fulfill(self.task, 1) };
    }
}

/// `count` more events before `task` completes. Only from its body, or while another event of it is not fulfilled.
pub(crate) fn add_events(task: &Task, count: u32) {
    task.events.add(count);
}

/// `count` events of `task` have happened.
///
/// # Safety
/// They were added and not fulfilled yet.
pub(crate) unsafe fn fulfill(task: TaskRef, count: u32) {
    // SAFETY: the record lives until its last event is fulfilled.
    let record = unsafe { task.as_ref() };
    let shared = record.shared;
    if !record.events.happened(count) {
        return; // from here on it may be gone
    }
    Thread::with(shared, |thread| {
        if record.has(flag::SUSPENDED) {
            return suspend::resume(thread, task);
        }
        thread.shared.stall.forget(task);
        if let Some(next) = completed(thread, task) {
            // SAFETY: made ready just now, and in no list.
            unsafe { thread.shared.scheduler.add(next, thread.worker.get()) };
        }
    });
}
