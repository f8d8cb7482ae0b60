//! Tasks whose body is called again: it asks for that before it returns, and says when. Only functions of other languages
//! can be called twice, so only their tasks can be suspended.
//!
//! A suspended task holds one more event than others, so that its end takes the path of tasks with external events, and
//! no other task pays for looking whether it is suspended.

use crate::diagnostics::stall::{Why, note_events};
use crate::lifecycle::current::Thread;
use crate::lifecycle::extras::{Resumption, Suspension};
use crate::lifecycle::shared::Shared;
use crate::lifecycle::task::{Task, TaskRef, flag};
use castell_base::sync::{AtomicUsize, Ordering};
use castell_sched::Kind;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long tasks wait for a worker that has nothing else before they are queued with all others.
const SWEEP_AFTER: Duration = Duration::from_micros(200);

/// The part of a runtime that brings suspended tasks back.
#[derive(Default)]
pub(crate) struct Suspended {
    /// Those that idle workers take, and how many they are.
    waiting: Mutex<Waiting>,
    waiting_count: AtomicUsize,
    timers: Mutex<Timers>,
    changed: Condvar,
}

/// In the order in which they came: tasks that poll must not keep each other from running.
#[derive(Default)]
struct Waiting {
    /// Those that come back soon, at the latest when the timer looks.
    soon: VecDeque<Sleeper>,
    /// Those that come back when there is nothing else.
    yielded: VecDeque<Sleeper>,
    /// The timer is going to look.
    is_swept: bool,
}

impl Waiting {
    fn len(&self) -> usize {
        self.soon.len() + self.yielded.len()
    }
}

#[derive(Default)]
struct Timers {
    /// By deadline, then by the order in which they came. Without a task: a look at those that come back soon.
    due: BinaryHeap<Reverse<(Instant, u64, Option<Sleeper>)>>,
    came: u64,
    thread: Option<JoinHandle<()>>,
    stopping: bool,
}

/// A suspended task, by address.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Sleeper(TaskRef);

// SAFETY: the task is suspended: whoever takes it out of its list is the only one who has it.
unsafe impl Send for Sleeper {}

/// The body of `task`, which runs on the calling thread, asks to be called again; false if it cannot be.
pub(crate) fn suspend(task: &Task) -> bool {
    if !task.has(flag::REPEATABLE) {
        return false;
    }
    if task.set(flag::SUSPENDED) & flag::SUSPENDED == 0 {
        // SAFETY: what threads share outlives the tasks.
        unsafe { &*task.shared }.stall.expect_pauses();
        task.events.add(1);
    }
    true
}

/// The body of a suspended task has returned: from here on somebody else may have it.
pub(crate) fn leave(thread: &Thread, task: TaskRef) {
    // SAFETY: suspended, so it is alive at least until it is handed on below.
    let record = unsafe { task.as_ref() };
    let mode = std::mem::take(&mut *lock(&record.extras().suspension));
    record.set(flag::REPEATED);
    if mode == Suspension::Events {
        note_events(thread, record);
        if record.events.happened(2) {
            resume(thread, task);
        }
        return;
    }
    record.clear(flag::SUSPENDED);
    record.events.happened(1);
    let suspended = &thread.shared.suspended;
    match mode {
        Suspension::Unblocked => {
            thread.shared.stall.enter(record, Why::Paused);
            if record.extras().pause.suspend() == Resumption::Now {
                thread.shared.stall.forget(task);
                again(thread, task);
            }
        }
        Suspension::Again | Suspension::Yield if record_kind(record) != Kind::CPU => again(thread, task),
        Suspension::Again | Suspension::Yield => suspended.give_way(&thread.shared, task, mode),
        Suspension::After(time) => suspended.add_timer(&thread.shared, Some(Sleeper(task)), time),
        Suspension::Events => unreachable!("returned above"),
    }
}

/// The last event of a task that was suspended until then is fulfilled.
pub(crate) fn resume(thread: &Thread, task: TaskRef) {
    // SAFETY: suspended, and ours.
    let record = unsafe { task.as_ref() };
    thread.shared.stall.forget(task);
    record.clear(flag::SUSPENDED);
    record.events.restart(); // for the body, which is to run
    again(thread, task);
}

/// A task that was suspended until it is unblocked was.
pub(crate) fn unblocked(task: TaskRef) {
    // SAFETY: suspended, and ours.
    let shared = unsafe { task.as_ref() }.shared;
    Thread::with(shared, |thread| {
        thread.shared.stall.forget(task);
        again(thread, task);
    });
}

/// Queues it as if it came from outside: behind what workers have in their own queues.
fn again(thread: &Thread, task: TaskRef) {
    // SAFETY: suspended, so in no list, and ours.
    unsafe { thread.shared.scheduler.add(task, None) };
}

fn record_kind(task: &Task) -> Kind {
    crate::scheduler::schedulable::Schedulable::kind(task)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Suspended {
    /// Whether a worker that has nothing to run would find something here.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting_count.load(Ordering::Acquire) > 0
    }

    /// For a worker that has nothing else to run.
    #[inline]
    pub(crate) fn take_waiting(&self) -> Option<TaskRef> {
        if !self.has_waiting() {
            return None;
        }
        let mut waiting = lock(&self.waiting);
        let task = waiting.soon.pop_front().or_else(|| waiting.yielded.pop_front());
        self.waiting_count.store(waiting.len(), Ordering::Release);
        task.map(|Sleeper(task)| task)
    }

    fn give_way(&self, shared: &Arc<Shared>, task: TaskRef, mode: Suspension) {
        let mut waiting = lock(&self.waiting);
        let mut sweeps = false;
        if mode == Suspension::Yield {
            waiting.yielded.push_back(Sleeper(task));
        } else {
            waiting.soon.push_back(Sleeper(task));
            sweeps = !std::mem::replace(&mut waiting.is_swept, true);
        }
        self.waiting_count.store(waiting.len(), Ordering::Release);
        drop(waiting);
        shared.scheduler.call_any(Kind::CPU); // whoever is about to sleep looks here first
        if sweeps {
            self.add_timer(shared, None, SWEEP_AFTER);
        }
    }

    /// Queues what no idle worker has taken so far: all are busy.
    fn sweep(&self, shared: &Shared) {
        let mut waiting = lock(&self.waiting);
        waiting.is_swept = false;
        let left = std::mem::take(&mut waiting.soon);
        self.waiting_count.store(waiting.len(), Ordering::Release);
        drop(waiting);
        for Sleeper(task) in left {
            // SAFETY: suspended, so in no other list, and ours.
            unsafe { shared.scheduler.add(task, None) };
        }
    }

    fn ring(&self, shared: &Shared, due: Option<Sleeper>) {
        match due {
            // SAFETY: suspended, so in no other list, and ours.
            Some(Sleeper(task)) => unsafe { shared.scheduler.add(task, None) },
            None => self.sweep(shared),
        }
    }

    fn add_timer(&self, shared: &Arc<Shared>, what: Option<Sleeper>, time: Duration) {
        let now = Instant::now();
        // As good as never: a century.
        let deadline = now.checked_add(time).unwrap_or(now + Duration::from_secs(100 * 365 * 86400));
        let mut timers = lock(&self.timers);
        timers.came += 1;
        let number = timers.came;
        timers.due.push(Reverse((deadline, number, what)));
        if timers.thread.is_none() {
            let weak = Arc::downgrade(shared);
            let thread = std::thread::Builder::new().name("castell-timer".to_owned());
            match thread.spawn(move || serve(&weak)) {
                Ok(thread) => timers.thread = Some(thread),
                Err(_) => {
                    // No thread can be had: tasks come back early, which they have to expect anyway.
                    let all: Vec<_> = timers.due.drain().collect();
                    drop(timers);
                    all.into_iter().for_each(|Reverse((_, _, due))| self.ring(shared, due));
                    return;
                }
            }
        }
        let is_first = timers.due.peek().is_some_and(|Reverse((_, first, _))| *first == number);
        drop(timers);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Ends the thread: no task is left.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut timers = lock(&self.timers);
            timers.stopping = true;
            timers.thread.take()
        };
        self.changed.notify_one();
        if let Some(thread) = thread {
            // It only hands tasks over: a panic of its own has been printed.
            let _ = thread.join();
        }
    }
}

/// The thread that waits for deadlines.
fn serve(shared: &Weak<Shared>) {
    // The runtime waits for its tasks, and then for this thread.
    let Some(shared) = shared.upgrade() else { return };
    let suspended = &shared.suspended;
    let mut timers = lock(&suspended.timers);
    while !timers.stopping {
        let now = Instant::now();
        let first = timers.due.peek().map(|Reverse((deadline, ..))| *deadline);
        timers = match first {
            None => suspended.changed.wait(timers).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) if deadline > now => {
                let left = deadline - now;
                suspended.changed.wait_timeout(timers, left).unwrap_or_else(PoisonError::into_inner).0
            }
            Some(_) => {
                let Some(Reverse((_, _, due))) = timers.due.pop() else { continue };
                drop(timers);
                suspended.ring(&shared, due);
                lock(&suspended.timers)
            }
        };
    }
}
