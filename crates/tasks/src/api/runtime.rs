//! A runtime, as the program has it.

use crate::api::context::Context;
use crate::api::handle::Handle;
use crate::diagnostics::journal::{Journal, Wait};
use crate::diagnostics::record::{Recorder, Recording};
use crate::diagnostics::stall::{Report, watch};
use crate::error::TaskError;
use crate::lifecycle::current::Thread;
use crate::lifecycle::execute::{create, submit};
use crate::lifecycle::shared::Shared;
use crate::lifecycle::task::{Attributes, flag};
use crate::waiting::services::{Next, Registration, Services, Wake};
use crate::workers::{WorkerId, WorkerStatus, Workers};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Workers, and the tasks that they run. Several can exist in a process. Dropping it ends the workers; tasks that were
/// submitted to it must be done by then, or it waits for them.
pub struct Runtime {
    shared: Arc<Shared>,
    watchdog: Mutex<Option<JoinHandle<()>>>,
}

impl Runtime {
    /// A runtime without threads.
    pub(crate) fn around(shared: Arc<Shared>) -> Runtime {
        Runtime { shared, watchdog: Mutex::new(None) }
    }

    /// Starts the workers, then the watchdog, if there is to be one.
    pub(crate) fn start_threads(
        &self,
        mailbox: Option<&Path>,
        watchdog: Option<(Duration, Report)>,
    ) -> Result<(), TaskError> {
        Workers::start(&self.shared)?;
        if let Some(path) = mailbox {
            Workers::listen(&self.shared, path)?;
        }
        let Some((patience, report)) = watchdog else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("castell-watch".to_owned())
            .spawn(move || watch(&shared, patience, &report))
            .map_err(|error| TaskError::NoThread { worker: 0, reason: error.to_string() })?;
        *self.watchdog.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Runs `body` as a task on one of the workers and waits for it and for all that it creates. Inside a task of this
    /// runtime, `body` is part of that task.
    ///
    /// # Errors
    /// The first failure of a task that nobody below waited for, `body`'s own panic included.
    pub fn run<R: Send>(&self, body: impl FnOnce(&Context<'_>) -> R + Send) -> Result<R, TaskError> {
        self.check_process()?;
        if let Some(thread) = Thread::current().filter(|thread| Arc::ptr_eq(&thread.shared, &self.shared)) {
            let context = Context::of(thread);
            let result = body(&context);
            return context.taskwait().map(|()| result);
        }
        let thread = Thread::new(&self.shared, None);
        // SAFETY: `body` is `Send`, and what it borrows lives until the task is done, which is waited for here. The
        // handle takes the second reference.
        unsafe {
            let handle = self.start(&thread, Attributes::NONE, body);
            handle.join()
        }
    }

    /// Runs `body` as a task of its own, without accesses, from any thread.
    ///
    /// # Errors
    /// The process was forked since the runtime was built.
    pub fn spawn<R: Send + 'static>(
        &self,
        body: impl FnOnce(&Context<'_>) -> R + Send + 'static,
    ) -> Result<Handle<R>, TaskError> {
        self.check_process()?;
        let thread = Thread::new(&self.shared, None);
        // SAFETY: `body` is `Send` and borrows nothing; the handle takes the second reference.
        Ok(unsafe { self.start(&thread, Attributes::NONE, body) })
    }

    /// How many tasks were created so far, those that [`Runtime::run`] made included.
    pub fn tasks_created(&self) -> u64 {
        self.shared.counts.created()
    }

    /// How many tasks exist: a moment's view while others run.
    pub fn tasks_live(&self) -> u64 {
        self.shared.counts.live()
    }

    /// Which tasks had to wait since the runtime was built, for how long and why, longest first: for others, for their turn, for a
    /// worker ([`Wait`]), or, to create more tasks, for [`Limits`](crate::Limits). Only with [`Builder::debug`](crate::Builder::debug); otherwise empty.
    pub fn waits(&self) -> Vec<Wait> {
        self.shared.journal.as_ref().map_or(Vec::new(), Journal::waits)
    }

    /// What has happened since the runtime was built; `None` unless it is recorded ([`Builder::record`](crate::Builder::record)). What goes on
    /// meanwhile may be in it in part.
    pub fn recording(&self) -> Option<Recording> {
        self.shared.recorder.as_ref().map(Recorder::recording)
    }

    /// Has `poll` called by idle workers, and besides as `wake` says, until it says that it is over or the result is
    /// dropped. It may unblock tasks, fulfil events and spawn tasks; it must not wait.
    ///
    /// # Errors
    /// The thread that sleeps for services could not be started.
    pub fn register_service(
        &self,
        wake: Wake,
        poll: impl FnMut() -> Next + Send + 'static,
    ) -> Result<Registration, TaskError> {
        self.check_process()?;
        Services::register(&self.shared, wake, Box::new(poll))
    }

    /// Makes and submits a root.
    ///
    /// # Safety
    /// What `body` borrows lives until it is done.
    unsafe fn start<R>(
        &self,
        thread: &Thread,
        mut attributes: Attributes,
        body: impl FnOnce(&Context<'_>) -> R + Send,
    ) -> Handle<R> {
        attributes.flags |= flag::ROOT;
        self.shared.roots.begin();
        // SAFETY: the caller's promise; a record with two references, the second for the handle.
        unsafe {
            let root = create(thread, std::ptr::null(), attributes, 0, 2, body);
            submit(thread, root, &[]);
            Handle::new(root)
        }
    }

    /// Takes a worker away while tasks run: it stops at the next task boundary, what it holds goes to others, and a task
    /// that waits on its thread goes on elsewhere.
    ///
    /// # Errors
    /// It is the last worker, or there is no such worker.
    pub fn disable_worker(&self, worker: WorkerId) -> Result<(), TaskError> {
        self.check_process()?;
        Workers::disable(&self.shared, worker)?;
        self.shared.workers.note(worker, false);
        Ok(())
    }

    /// Gives a worker back.
    ///
    /// # Errors
    /// There is no such worker, or no thread could be started for it.
    pub fn enable_worker(&self, worker: WorkerId) -> Result<(), TaskError> {
        self.check_process()?;
        Workers::enable(&self.shared, worker)?;
        self.shared.workers.note(worker, true);
        Ok(())
    }

    /// What each worker is doing.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.shared.workers.status()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn check_process(&self) -> Result<(), TaskError> {
        let owner = self.shared.process;
        if owner == std::process::id() { Ok(()) } else { Err(TaskError::Forked { owner }) }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.shared.process != std::process::id() {
            return; // a fork's copy: its threads are not here
        }
        self.shared.roots.wait();
        self.shared.versions.stop();
        Workers::stop(&self.shared);
        self.shared.services.stop();
        self.shared.suspended.stop();
        self.shared.stall.stop();
        if let Some(thread) = self.watchdog.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A report that panics has printed why.
            let _ = thread.join();
        }
        if let Some(recorder) = &self.shared.recorder {
            recorder.finish();
        }
        if self.shared.counts.live() > 0 {
            // Handles and wakers still point to records: the memory stays for them.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}
