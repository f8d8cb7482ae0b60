//! How many records exist, and what happens when that becomes too many.

use crate::current::{Counters, Thread};
use crate::error::TaskError;
use crate::runtime::Shared;
use crate::task::Task;
use crate::wait::run_descendant;
use castell_base::sync::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a thread compares the number of records with the limits: once in this many that it makes.
const LOOK_EVERY: u64 = 64;

/// How long a creator sleeps before it looks again whether enough tasks are gone.
const NAP: Duration = Duration::from_micros(100);

/// When a creator stops creating and helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// With more tasks than this, a creator runs ready ones of its own.
    pub high: u64,
    /// Until no more than this many are left.
    pub low: u64,
    /// With this many, and nothing that its creator could run, a task is not created: an error.
    pub hard: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits::for_workers(1)
    }
}

impl Limits {
    /// What a runtime with so many workers has unless it is told: `high` is 512 a worker, and at least 1024.
    ///
    /// What is about then fits into the cores' caches. A creator that helps runs what it created last, which lies nearest to it.
    pub fn for_workers(workers: usize) -> Limits {
        let high = (512 * workers as u64).max(1024);
        Limits { high, low: high - LOOK_EVERY, hard: 16 << 20 }
    }
}

/// Records, counted thread by thread.
pub(crate) struct Counts {
    threads: Mutex<Vec<Arc<Counters>>>,
    pub(crate) foreign: Counters,
    pub(crate) limits: Limits,
}

impl Counts {
    pub(crate) fn new(limits: Limits) -> Counts {
        Counts { threads: Mutex::default(), foreign: Counters::default(), limits }
    }

    /// Counters for a new thread.
    pub(crate) fn register(&self) -> Arc<Counters> {
        let counters = Arc::<Counters>::default();
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counters));
        counters
    }

    /// How many records exist: exact when nothing goes on, otherwise a moment's view.
    pub(crate) fn live(&self) -> u64 {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let all = || threads.iter().map(|counters| &**counters).chain([&self.foreign]);
        // What is disposed of was made before: reading in this order never sees more ends than beginnings.
        let disposed: u64 = all().map(|counters| counters.disposed.load(Ordering::Acquire)).sum();
        let created: u64 = all().map(|counters| counters.created.load(Ordering::Relaxed)).sum();
        created.saturating_sub(disposed)
    }
}

impl Counts {
    /// How many records were made so far.
    pub(crate) fn created(&self) -> u64 {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let all = threads.iter().map(|counters| &**counters).chain([&self.foreign]);
        all.map(|counters| counters.created.load(Ordering::Acquire)).sum()
    }

    /// How many records were disposed of so far.
    pub(crate) fn disposed(&self) -> u64 {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let all = threads.iter().map(|counters| &**counters).chain([&self.foreign]);
        all.map(|counters| counters.disposed.load(Ordering::Acquire)).sum()
    }
}

/// Whether it is not time to [`make_room`].
#[inline]
pub(crate) fn has_room(thread: &Thread) -> bool {
    !thread.created().is_multiple_of(LOOK_EVERY)
}

/// Called by a body before it creates a task: with too many about, runs some first.
///
/// A task that is run here keeps the creator from going on until it is over. One that pauses until the creator has gone on would
/// hold up both; so once tasks of this runtime pause, a creator sleeps instead, and others run them on its CPU.
///
/// # Errors
/// There are too many, and nothing can be run here.
#[inline]
pub(crate) fn make_room(thread: &Thread, label: &str) -> Result<(), TaskError> {
    if has_room(thread) { Ok(()) } else { look(thread, label) }
}

#[cold]
fn look(thread: &Thread, label: &str) -> Result<(), TaskError> {
    let counts = &thread.shared.counts;
    let Limits { high, low, hard } = counts.limits;
    if counts.live() < high.min(hard) {
        return Ok(());
    }
    // SAFETY: a body's task is alive.
    let task = unsafe { thread.task.get().as_ref() };
    let journal = thread.shared.journal.as_ref().map(|journal| (journal, Instant::now()));
    if thread.shared.stall.tasks_pause() {
        thread.without_cpu(|| sleep_until(&thread.shared, low));
    } else if let Some(task) = task {
        help(thread, task, low);
        thread.tell_ended();
    }
    if let (Some((journal, since)), Some(task)) = (journal, task) {
        journal.held_up(task, since.elapsed());
    }
    let live = counts.live();
    if live >= hard {
        return Err(TaskError::TooManyTasks { label: label.to_owned(), live, limit: hard });
    }
    Ok(())
}

fn help(thread: &Thread, task: &Task, low: u64) {
    let mut ran = 0_u64;
    while run_descendant(thread, task) {
        ran += 1;
        if ran.is_multiple_of(LOOK_EVERY) && thread.shared.counts.live() <= low {
            return;
        }
    }
}

/// Sleeps until no more than `low` records are left, or nothing goes on: no task ended lately, and none is ready.
fn sleep_until(shared: &Shared, low: u64) {
    let mut disposed = shared.counts.disposed();
    loop {
        std::thread::sleep(NAP);
        let before = std::mem::replace(&mut disposed, shared.counts.disposed());
        if shared.counts.live() <= low || disposed == before && shared.scheduler.is_empty() {
            return;
        }
    }
}
