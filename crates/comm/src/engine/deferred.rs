//! `call` operations that end later than their function returns: with a task, a device, or whatever else the function has
//! started. And the other way round, runs that tell somebody when they have ended.

use super::call::{inside_call, take_called};
use super::core::Core;
use super::drive::Shared;
use super::failure::{Cause, Failure};
use super::run::{RunRef, Scope};
use super::{Comm, Handle, RunError};
use castell_goal::schedule::{OpId, Schedule};
use std::fmt::Display;
use std::sync::Arc;

/// A `call` operation whose function has put off its end ([`defer`]). Any thread may end it. Dropping it ends it, and
/// dropping it in a panic fails the run.
#[must_use = "the operation ends when this is dropped"]
pub struct Deferred {
    shared: Arc<Shared>,
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
        let (shared, run, op) = (Arc::clone(&self.shared), self.run, self.op);
        let mut failure = self.failure.take();
        if std::thread::panicking() && failure.is_none() {
            failure = Some("what the function had started panicked".into());
        }
        if inside_call() {
            // An engine, this one or another, is in this thread's hands: somebody else has to wait for it.
            std::thread::spawn(move || settle(&shared, run, op, failure));
        } else {
            settle(&shared, run, op, failure);
        }
    }
}

fn settle(shared: &Arc<Shared>, run: RunRef, op: OpId, failure: Option<Box<str>>) {
    let mut engine = shared.enter();
    engine.core.settle_deferred(run, op, failure);
    engine.core.start_ready();
    shared.leave(engine);
}

/// From inside a function that a `call` operation calls: the operation ends not when the function returns but when the result
/// is dropped or says so. `None` outside of such functions, and for the second who asks.
pub fn defer() -> Option<Deferred> {
    take_called().map(|(shared, run, op)| Deferred { shared, run, op, failure: None })
}

impl Comm {
    /// As [`Comm::run`]; `then` is called with the outcome when the run has ended, also if that is at once. It is called like the
    /// function of a `call` operation: on any thread, and it must neither wait nor start runs. The run lies in this process and
    /// is not carried on by peers.
    ///
    /// # Safety
    /// As for [`Comm::run`].
    ///
    /// # Errors
    /// As for [`Comm::run`]; then `then` is not called.
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

impl Core {
    /// A `call` whose end was put off is over.
    fn settle_deferred(&mut self, run: RunRef, op: OpId, failure: Option<Box<str>>) {
        self.deferred.retain(|at| *at != (run, op));
        if self.run(run).is_none() {
            return; // it has failed meanwhile
        }
        match failure {
            None => self.finish(run, op),
            Some(reason) => self.fail(run, Some(op), Cause::Function { reason }),
        }
    }
}
