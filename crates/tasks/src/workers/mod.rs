//! The threads that run tasks, and how they sleep.

mod id;

pub use id::WorkerId;

use crate::current::Thread;
use crate::error::TaskError;
use crate::execute::execute;
use crate::runtime::Shared;
use castell_base::sync::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The worker threads of a runtime.
#[derive(Default)]
pub struct Workers {
    /// Counts what sleepers have to look at.
    news: AtomicU32,
    stopping: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    /// Starts `count` threads with stacks of `stack_bytes`.
    pub(crate) fn start(shared: &Arc<Shared>, count: usize, stack_bytes: usize) -> Result<(), TaskError> {
        for worker in 0..count {
            let inside = Arc::clone(shared);
            let thread = std::thread::Builder::new()
                .name(format!("castell-{worker}"))
                .stack_size(stack_bytes)
                .spawn(move || work(&inside, WorkerId(worker as u32)))
                .map_err(|error| TaskError::NoThread { worker, reason: error.to_string() })?;
            shared.workers.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(())
    }

    /// Tells a sleeper that there is something ready.
    #[inline]
    pub(crate) fn notify(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
        castell_host::futex::wake(&self.news, 1, u32::MAX);
    }

    /// The thread is about to block for something else than a task: another may use its CPU.
    pub(crate) fn hand_over(&self, _worker: WorkerId) {}

    /// The thread goes on; the CPU that it may use now.
    pub(crate) fn resume(&self, worker: WorkerId) -> WorkerId {
        worker
    }

    /// Ends the threads: no task is left.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.news.fetch_add(1, Ordering::AcqRel);
        castell_host::futex::wake(&self.news, i32::MAX, u32::MAX);
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A worker catches what tasks panic with; its own panic is a broken invariant, already printed.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Arc<Shared>, worker: WorkerId) {
    let thread = Thread::new(shared, Some(worker));
    let _entered = thread.enter();
    let workers = &shared.workers;
    loop {
        let news = workers.news.load(Ordering::Acquire);
        let mut next = shared.scheduler.get(worker);
        if next.is_none() {
            if workers.stopping.load(Ordering::Acquire) {
                return;
            }
            castell_host::futex::wait(&workers.news, news, u32::MAX, Some(Duration::from_secs(1)));
        }
        while let Some(task) = next {
            // SAFETY: got from the scheduler: ready, and ours to run.
            next = unsafe { execute(&thread, task) };
        }
    }
}
