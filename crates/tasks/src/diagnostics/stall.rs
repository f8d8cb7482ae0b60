//! Who is waiting for the world outside, for how long; and the watchdog that says so when nothing goes on.

use crate::dependences::held_up;
use crate::lifecycle::current::Thread;
use crate::lifecycle::shared::Shared;
use crate::lifecycle::task::{Task, TaskRef};
use castell_base::sync::{AtomicBool, Ordering};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a task waits for that is no task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It called for a pause, and nobody has unblocked it.
    Paused,
    /// Its body is over, and external events are not fulfilled.
    Events,
    /// It has several versions, and the node's daemon has not granted a place to one of them.
    Grant,
}

/// A task that has waited for the world outside.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Its label.
    pub label: String,
    /// What it waits for.
    pub why: Why,
    /// For how long it has.
    pub age: Duration,
    /// The labels of the tasks that wait for its data right behind it; empty ones included.
    pub held_up: Vec<&'static str>,
}

/// What the watchdog found.
#[derive(Clone, Debug)]
pub struct Stall {
    /// For how long no task has completed.
    pub quiet: Duration,
    /// Who waits for the world outside, longest first.
    pub waiting: Vec<Waiting>,
    /// How many tasks exist besides: created and not done, so blocked behind those, running, or waiting for children.
    pub others: u64,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "castell: no task has completed for {:.1} s", self.quiet.as_secs_f64())?;
        for Waiting { label, why, age, held_up } in &self.waiting {
            let why = match why {
                Why::Paused => "is paused, and nobody has unblocked it",
                Why::Events => "waits for external events",
                Why::Grant => "waits for a place that the node's daemon grants",
            };
            write!(f, "\n  task `{label}` {why}, since {:.1} s", age.as_secs_f64())?;
            list_held_up(f, held_up)?;
        }
        write!(f, "\n  {} other tasks are not done", self.others)
    }
}

/// Who waits behind a task: how many, and the first few by name.
fn list_held_up(f: &mut fmt::Formatter<'_>, labels: &[&str]) -> fmt::Result {
    const SHOWN: usize = 4;
    if labels.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = labels.iter().take(SHOWN).map(|label| format!("`{label}`")).collect();
    let more = if labels.len() > SHOWN { ", …" } else { "" };
    write!(f, "; for its data wait {}: {}{more}", labels.len(), shown.join(", "))
}

/// The list of who waits for the world outside.
#[derive(Default)]
pub(crate) struct Stalls {
    waiting: Mutex<Vec<Entry>>,
    /// Some task has paused, or is going to.
    pauses: AtomicBool,
    stopping: AtomicBool,
    stop: (Mutex<()>, Condvar),
}

struct Entry {
    task: usize,
    label: &'static str,
    why: Why,
    since: Instant,
}

/// Takes an entry out when it goes.
pub(crate) struct Noted<'a> {
    stalls: &'a Stalls,
    task: TaskRef,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.stalls.forget(self.task);
    }
}

impl Stalls {
    /// Some task pauses, or something was registered that wakes tasks.
    pub(crate) fn expect_pauses(&self) {
        if !self.tasks_pause() {
            self.pauses.store(true, Ordering::Relaxed);
        }
    }

    /// Whether tasks of this runtime pause, as far as can be known.
    pub(crate) fn tasks_pause(&self) -> bool {
        self.pauses.load(Ordering::Relaxed)
    }

    /// `task` begins to wait; it does until the result goes.
    pub(crate) fn note(&self, task: &Task, why: Why) -> Noted<'_> {
        self.enter(task, why);
        Noted { stalls: self, task: TaskRef::from(task) }
    }

    /// `task` begins to wait; until [`Stalls::forget`].
    pub(crate) fn enter(&self, task: &Task, why: Why) {
        let task_at = std::ptr::from_ref(task) as usize;
        self.lock().push(Entry { task: task_at, label: task.label(), why, since: Instant::now() });
    }

    /// `task`, by address, waits no more.
    pub(crate) fn forget(&self, task: TaskRef) {
        let task_at = task.as_ptr() as usize;
        self.lock().retain(|entry| entry.task != task_at);
    }

    /// Who waits for the world outside, longest first.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let view = |entry: &Entry| Waiting {
            label: entry.label.to_owned(),
            why: entry.why,
            age: entry.since.elapsed(),
            // SAFETY: who is in the list has to take itself out, for which the lock is needed, before it goes on or completes.
            held_up: unsafe { held_up(&*(entry.task as *const Task)) },
        };
        let mut waiting: Vec<Waiting> = self.lock().iter().map(view).collect();
        waiting.sort_by_key(|waiting| std::cmp::Reverse(waiting.age));
        waiting
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the watchdog's thread.
    pub(crate) fn stop(&self) {
        let _held = self.stop.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.stopping.store(true, Ordering::Release);
        self.stop.1.notify_all();
    }

    /// Sleeps for `time`; false if the watchdog is to end.
    fn pause(&self, time: Duration) -> bool {
        let held = self.stop.0.lock().unwrap_or_else(PoisonError::into_inner);
        let going_on = |_: &mut ()| !self.stopping.load(Ordering::Acquire);
        let _held =
            self.stop.1.wait_timeout_while(held, time, going_on).unwrap_or_else(PoisonError::into_inner);
        !self.stopping.load(Ordering::Acquire)
    }
}

/// What is done with what the watchdog finds.
pub type Report = Arc<dyn Fn(&Stall) + Send + Sync>;

/// The watchdog: calls `report` once for each time that nothing has completed for `patience` although somebody waits for
/// the world outside.
pub(crate) fn watch(shared: &Shared, patience: Duration, report: &Report) {
    let mut seen = (shared.counts.disposed(), Instant::now());
    let mut reported = false;
    while shared.stall.pause(patience / 4) {
        let disposed = shared.counts.disposed();
        if disposed != seen.0 {
            seen = (disposed, Instant::now());
            reported = false;
            continue;
        }
        let waiting = shared.stall.waiting();
        if reported || waiting.is_empty() || seen.1.elapsed() < patience {
            continue;
        }
        let others = shared.counts.live().saturating_sub(waiting.len() as u64);
        report(&Stall { quiet: seen.1.elapsed(), waiting, others });
        reported = true;
    }
}

/// Notes a task whose body is over while external events are not: before the body's own count is taken back.
pub(crate) fn note_events(thread: &Thread, task: &Task) {
    crate::lifecycle::forked::end_if_forked(task);
    thread.shared.stall.enter(task, Why::Events);
}
