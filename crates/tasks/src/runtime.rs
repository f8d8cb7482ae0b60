//! A runtime: its workers and what they share.

use crate::context::Context;
use crate::current::Thread;
use crate::error::TaskError;
use crate::execute::{create, release, submit};
use crate::memory::Memory;
use crate::scheduler::Scheduler;
use crate::task::{Attributes, Task};
use crate::wait::Waiting;
use crate::workers::Workers;
use std::sync::Arc;

/// What all threads of a runtime share.
pub struct Shared {
    pub(crate) memory: Memory,
    pub(crate) scheduler: Scheduler<Task>,
    pub(crate) workers: Workers,
    pub(crate) waiting: Waiting,
}

/// How a runtime is to be.
#[derive(Clone, Debug)]
pub struct Builder {
    workers: Option<usize>,
    stack_bytes: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { workers: None, stack_bytes: 8 << 20 }
    }
}

impl Builder {
    /// This many workers; without a call, one for each processor that the process may use.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = Some(count.max(1));
        self
    }

    /// The size of each worker's stack in bytes; 8 MiB without a call. Address space: pages are taken when touched.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn build(self) -> Result<Runtime, TaskError> {
        let count = self.workers.unwrap_or_else(|| castell_host::topology::Processors::usable().count());
        let shared = Arc::new(Shared {
            memory: Memory,
            scheduler: Scheduler::new(),
            workers: Workers::default(),
            waiting: Waiting::default(),
        });
        let runtime = Runtime { shared };
        Workers::start(&runtime.shared, count, self.stack_bytes)?;
        Ok(runtime)
    }
}

/// Workers, and the tasks that they run. Several can exist in a process. Dropping it ends the workers.
pub struct Runtime {
    shared: Arc<Shared>,
}

impl Runtime {
    /// How it is to be.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs `body` as a task on one of the workers and waits for it and for all that it creates. Inside a task of this
    /// runtime, `body` is part of that task.
    ///
    /// # Errors
    /// The first failure of a task that nobody below waited for. If `body` itself panics, so does this.
    pub fn run<R: Send>(&self, body: impl FnOnce(&Context<'_>) -> R + Send) -> Result<R, TaskError> {
        if let Some(thread) = Thread::current().filter(|thread| Arc::ptr_eq(&thread.shared, &self.shared)) {
            let context = Context::of(thread);
            let result = body(&context);
            return context.taskwait().map(|()| result);
        }
        let thread = Thread::new(&self.shared, None);
        let mut result = None;
        let place = &mut result;
        // SAFETY: `body` is `Send`, and what it borrows lives until the task is done, which is waited for here. The
        // second reference, ours, keeps the record.
        unsafe {
            let root =
                create(&thread, std::ptr::null(), Attributes::NONE, 0, 2, move |context: &Context<'_>| {
                    *place = Some(body(context));
                });
            submit(&thread, root, &[]);
            self.shared.waiting.sleep_until_done(root.as_ref());
            let fault = root.as_ref().take_fault();
            release(&thread, root);
            if let Some(fault) = fault {
                return Err(fault.error);
            }
        }
        Ok(result.expect("a body that did not fail left its result"))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shared.workers.stop();
    }
}
