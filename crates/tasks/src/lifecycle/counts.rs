//! How many records exist.

use castell_base::sync::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How often a thread compares the number of records with the limits: once in this many that it makes.
pub(crate) const LOOK_EVERY: u64 = 64;

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

/// Records that a thread made and disposed of. Only that thread writes them.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    pub(crate) created: AtomicU64,
    pub(crate) disposed: AtomicU64,
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
