//! `call` operations that end later than their function returns: with a task, a device, or whatever else the function has
//! started. And the other way round, runs that tell somebody when they have ended.

use super::call::{Home, inside_call, take_called};
use super::drive::Shared;
use super::failure::{Cause, Failure};
use super::runs::{RunRef, Scope};
use super::turn::Engine;
use super::{Handle, Process, RunError};
use castell_goal::schedule::{OpId, Schedule};
use std::fmt::Display;
use std::sync::Arc;

/// A `call` operation whose function has put off its end ([`defer`]). Any thread may end it. Dropping it ends it, and
/// dropping it in a panic fails the run.
#[must_use = "the operation ends when this is dropped"]
pub struct Deferred {
    home: Arc<dyn Home>,
    run: RunRef,
    op: OpId,
    failure: Option<Box<str>>,
}

impl Deferred {
    /// The operation is over: what waits for it goes on.
    pub fn finish(self) {}

    /// The operation has failed, and its run with it.
    pub fn fail(mut self, reason: impl Display) {
        self.failure = Some(reason.to_string().into());
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        let (home, run, op) = (Arc::clone(&self.home), self.run, self.op);
        let mut failure = self.failure.take();
        if std::thread::panicking() && failure.is_none() {
            failure = Some("what the function had started panicked".into());
        }
        if inside_call() {
            // An engine, this one or another, is in this thread's hands: somebody else has to wait for it.
            std::thread::spawn(move || home.settle_deferred(run, op, failure));
        } else {
            home.settle_deferred(run, op, failure);
        }
    }
}

/// From inside a function that a `call` operation calls: the operation ends not when the function returns but when the result
/// is dropped or says so. `None` outside of such functions, and for the second who asks.
pub fn defer() -> Option<Deferred> {
    take_called().map(|(home, run, op)| Deferred { home, run, op, failure: None })
}

impl Home for Shared {
    fn settle_deferred(self: Arc<Self>, run: RunRef, op: OpId, failure: Option<Box<str>>) {
        let mut engine = self.enter();
        engine.settle_deferred(run, op, failure);
        self.leave(engine);
    }
}

impl Process {
    /// As [`Process::run`]; `then` is called with the outcome when the run has ended, also if that is at once. It is called like the
    /// function of a `call` operation: on any thread, and it must neither wait nor start runs. The run lies in this process and
    /// is not carried on by peers.
    ///
    /// # Safety
    /// As for [`Process::run`].
    ///
    /// # Errors
    /// As for [`Process::run`]; then `then` is not called.
    pub unsafe fn run_then(
        &self,
        schedule: &Arc<Schedule>,
        then: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) -> Result<Handle, RunError> {
        let (state, engine) = self.begin_telling(schedule, Scope::Numbered, Box::new(then))?;
        self.shared.leave(engine);
        Ok(Handle { state, shared: Arc::clone(&self.shared) })
    }
}

impl Engine {
    /// A `call` whose end was put off is over.
    fn settle_deferred(&mut self, run: RunRef, op: OpId, failure: Option<Box<str>>) {
        let Engine { messages, runs, .. } = self;
        runs.deferred.retain(|at| *at != (run, op));
        match failure {
            None => runs.finish_if_live(run, op),
            Some(reason) => runs.fail_if_live(messages, run, Some(op), Cause::Function { reason }),
        }
        runs.settle(messages);
    }
}
