//! Calls that go on while the program does something else, and calls that are prepared once and started often.

use super::call::{Call, Element};
use super::error::{CallError, Reason};
use super::instance::Instance;
use crate::communicator::{Communicator, Member};
use castell_engine::Handle;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// A compiled call with what it needs to run, over memory that outlives it.
/// Whoever made it answers for the memory, see [`Communicator::prepare_raw`].
pub struct RawRequest {
    pub(crate) instance: Arc<Instance>,
    pub(crate) member: Arc<Member>,
    pub(crate) output: u64,
    pub(crate) run: Option<Handle>,
}

impl RawRequest {
    /// Starts it.
    ///
    /// # Safety
    /// The call's memory stays valid and is left alone until the run has ended.
    ///
    /// # Errors
    /// It goes on already; it could not be started.
    pub unsafe fn start(&mut self) -> Result<(), CallError> {
        let operation = self.instance.key.operation;
        if self.run.is_some() {
            let text = "it was started before and not waited for".to_owned();
            return Err(Reason::Argument(text).of(operation));
        }
        let instance = &self.instance;
        // SAFETY: the caller's promise; the instance is this call's alone.
        let run = unsafe {
            instance.save(self.output);
            self.member.start(instance)
        };
        self.run = Some(run.map_err(|error| Reason::Run(error).of(operation))?);
        Ok(())
    }

    /// Waits until the call has ended; returns at once if it was not started.
    ///
    /// # Errors
    /// The call failed.
    pub fn wait(&mut self) -> Result<(), CallError> {
        match self.run.take() {
            Some(run) => {
                run.wait().map_err(|failure| Reason::Failed(failure).of(self.instance.key.operation))
            }
            None => Ok(()),
        }
    }

    /// The outcome if the call does not go on.
    pub fn test(&mut self) -> Option<Result<(), CallError>> {
        if self.run.as_ref().is_some_and(|run| !run.is_done()) { None } else { Some(self.wait()) }
    }
}

impl RawRequest {
    /// The run that goes on, to wait for it elsewhere.
    pub fn run(&self) -> Option<&Handle> {
        self.run.as_ref()
    }
}

impl Drop for RawRequest {
    fn drop(&mut self) {
        // Memory may go after this.
        let _ = self.wait();
        self.instance.release();
    }
}

/// Calls over borrowed memory, see [`Communicator::scope`].
pub struct CallScope<'env> {
    communicator: &'env Communicator,
    /// What goes on in memory that was lent to the scope.
    live: RefCell<Vec<(Handle, Arc<Instance>)>>,
    /// Invariant: what is lent must outlive the whole scope, not some part of it.
    memory: PhantomData<&'env mut &'env ()>,
}

impl Communicator {
    /// Lends memory to calls that go on by themselves: calls `body` and returns when it has returned and every call that
    /// it started has ended, also if it panics.
    ///
    /// ```
    /// use castell_coll::collective::{Call, Reduction};
    /// use castell_coll::Communicator;
    ///
    /// let world = Communicator::world(&castell_coll::alone()?);
    /// let (ones, mut sums) = ([1u64; 1000], [0; 1000]);
    /// world.scope(|scope| {
    ///     let request = scope.start(Call::allreduce(&ones, &mut sums, Reduction::Sum))?;
    ///     // ... compute something else ...
    ///     request.wait()
    /// })?;
    /// assert_eq!(sums, [u64::from(world.size()); 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scope<'env, R>(&'env self, body: impl FnOnce(&CallScope<'env>) -> R) -> R {
        // Dropping it waits, whether the body returns or panics.
        let scope = Waiting(CallScope { communicator: self, live: RefCell::default(), memory: PhantomData });
        body(&scope.0)
    }
}

struct Waiting<'env>(CallScope<'env>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        for (run, instance) in self.0.live.get_mut().drain(..) {
            // Whoever wanted to know has asked the request.
            let _ = run.wait();
            instance.release();
        }
    }
}

impl<'env> CallScope<'env> {
    /// Starts a call and returns; it goes on by itself.
    ///
    /// # Errors
    /// Arguments that cannot be; the call could not be started.
    pub fn start(&self, call: Call<'env>) -> Result<Request, CallError> {
        let operation = call.operation;
        let instance = self.communicator.instance(&call, false)?;
        let member = self.communicator.member();
        // SAFETY: the call's memory is borrowed for longer than the scope, which waits for the run; nobody else can look
        // at what is written, or write to what is read, before.
        let run = unsafe {
            instance.save(call.output.address);
            member.start(&instance)
        };
        let run = match run {
            Ok(run) => run,
            Err(error) => {
                instance.release();
                return Err(Reason::Run(error).of(operation));
            }
        };
        let mut live = self.live.borrow_mut();
        if live.len() == live.capacity() {
            live.retain(|(run, instance)| {
                let goes_on = !run.is_done();
                if !goes_on {
                    instance.release();
                }
                goes_on
            });
        }
        live.push((run.clone(), instance));
        Ok(Request { operation, run })
    }
}

/// A call that was started: ask whether it has ended, or wait for it. Dropping it does not stop the call.
#[derive(Clone)]
pub struct Request {
    operation: super::Operation,
    run: Handle,
}

impl Request {
    /// Whether the call has ended. Reads one memory location.
    pub fn is_done(&self) -> bool {
        self.run.is_done()
    }

    /// The outcome if the call has ended.
    pub fn test(&self) -> Option<Result<(), CallError>> {
        Some(self.run.test()?.map_err(|failure| Reason::Failed(failure).of(self.operation)))
    }

    /// Waits until the call has ended.
    ///
    /// # Errors
    /// The call failed.
    pub fn wait(&self) -> Result<(), CallError> {
        self.run.wait().map_err(|failure| Reason::Failed(failure).of(self.operation))
    }
}

/// A call over buffers of its own that is prepared once and started as often as one likes.
///
/// ```
/// use castell_coll::collective::Reduction;
/// use castell_coll::Communicator;
///
/// let world = Communicator::world(&castell_coll::alone()?);
/// let mut sum = world.allreduce_init(vec![0.0f64; 8], vec![0.0; 8], Reduction::Sum)?;
/// for step in 0..3 {
///     sum.input()?.fill(f64::from(step));
///     sum.start()?;
///     // ... compute something else ...
///     sum.wait()?;
///     assert_eq!(sum.output()?[0], f64::from(step) * f64::from(world.size()));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Persistent<T: Element> {
    // First, so that it waits before the buffers go.
    call: RawRequest,
    send: Vec<T>,
    recv: Vec<T>,
}

impl<T: Element> Persistent<T> {
    /// Starts the call. Ranks start the calls of a communicator in the same order.
    ///
    /// # Errors
    /// It goes on already; it could not be started.
    pub fn start(&mut self) -> Result<(), CallError> {
        // SAFETY: the buffers are this value's own and are not given out while a run goes on; dropping it waits, and
        // if it is forgotten the buffers stay.
        unsafe { self.call.start() }
    }

    /// Waits until the call has ended; returns at once if it was not started.
    ///
    /// # Errors
    /// The call failed.
    pub fn wait(&mut self) -> Result<(), CallError> {
        self.call.wait()
    }

    /// The outcome if the call does not go on.
    pub fn test(&mut self) -> Option<Result<(), CallError>> {
        self.call.test()
    }

    /// What this rank contributes to the next call. Waits for the one that goes on.
    ///
    /// # Errors
    /// That one failed.
    pub fn input(&mut self) -> Result<&mut [T], CallError> {
        self.call.wait()?;
        Ok(&mut self.send)
    }

    /// What the last call gave; of calls in place and broadcasts, what the next one starts from. Waits for the one that
    /// goes on.
    ///
    /// # Errors
    /// That one failed.
    pub fn output(&mut self) -> Result<&mut [T], CallError> {
        self.call.wait()?;
        Ok(&mut self.recv)
    }
}

/// A call over buffers of its own that goes on.
pub struct Pending<T: Element>(Persistent<T>);

impl<T: Element> Pending<T> {
    /// Whether the call has ended. Reads one memory location.
    pub fn is_done(&self) -> bool {
        self.0.call.run.as_ref().is_none_or(Handle::is_done)
    }

    /// Waits until the call has ended; gives the buffers back.
    ///
    /// # Errors
    /// The call failed.
    pub fn wait(mut self) -> Result<(Vec<T>, Vec<T>), CallError> {
        self.0.wait()?;
        Ok((std::mem::take(&mut self.0.send), std::mem::take(&mut self.0.recv)))
    }
}

impl Communicator {
    /// Prepares a call over these buffers: `make` makes it of them.
    ///
    /// # Errors
    /// Arguments that cannot be.
    pub fn prepare<T: Element>(
        &self,
        mut send: Vec<T>,
        mut recv: Vec<T>,
        make: impl for<'a> FnOnce(&'a mut [T], &'a mut [T]) -> Call<'a>,
    ) -> Result<Persistent<T>, CallError> {
        let call = make(&mut send, &mut recv);
        // SAFETY: the buffers live as long as what is made of them here.
        let call = unsafe { self.prepare_raw(&call) }?;
        Ok(Persistent { call, send, recv })
    }

    /// Starts a call over these buffers.
    ///
    /// # Errors
    /// Arguments that cannot be; the call could not be started.
    pub fn start<T: Element>(
        &self,
        send: Vec<T>,
        recv: Vec<T>,
        make: impl for<'a> FnOnce(&'a mut [T], &'a mut [T]) -> Call<'a>,
    ) -> Result<Pending<T>, CallError> {
        let mut call = self.prepare(send, recv, make)?;
        call.start()?;
        Ok(Pending(call))
    }

    /// Compiles a call over memory that somebody else answers for, or finds it compiled.
    ///
    /// # Safety
    /// The call's memory is valid whenever what is returned is started, and left alone until that has ended.
    ///
    /// # Errors
    /// Arguments that cannot be.
    #[inline]
    pub unsafe fn prepare_raw(&self, call: &Call<'_>) -> Result<RawRequest, CallError> {
        let instance = self.instance(call, false)?;
        Ok(RawRequest { instance, member: Arc::clone(self.member()), output: call.output.address, run: None })
    }
}
