//! Runs over borrowed memory without `unsafe`: a scope does not end before its runs have.
//!
//! The engine reads and writes the memory that a schedule names for as long as a run lasts, which no borrow of a
//! [`Graph`] could express: a graph holds addresses. Here memory is lent to a scope for longer than the scope lasts,
//! operations take what was lent instead of addresses, and the scope's end waits for its runs.

use crate::Comm;
use castell_base::{Rank, Tag};
use castell_engine::{Failure, Handle, RunError};
use castell_goal::compile::CompileError;
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::{Arithmetic, Operator, Place};
use castell_goal::schedule::Schedule;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs of one process over memory that outlives them; see [`Comm::scope`].
pub struct Scope<'env> {
    comm: &'env Comm,
    runs: Mutex<Vec<Handle>>,
    /// Invariant: what is lent must outlive the whole scope, not some part of it.
    memory: PhantomData<&'env mut &'env ()>,
}

/// Memory that operations of a scope may read.
#[derive(Clone, Copy, Debug)]
pub struct Source<'env> {
    place: Place,
    bytes: u64,
    memory: PhantomData<&'env [u8]>,
}

/// Memory that operations of a scope may read and write.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'env> {
    place: Place,
    bytes: u64,
    memory: PhantomData<&'env [u8]>,
}

/// A [`Graph`] whose operations work on memory that was lent to a scope, or on the scratchpad.
#[derive(Default)]
pub struct ScopedGraph<'env> {
    graph: Graph,
    memory: PhantomData<&'env [u8]>,
}

/// A compiled [`ScopedGraph`]; runs any number of times, in scopes that its memory outlives.
#[derive(Clone)]
pub struct ScopedSchedule<'env> {
    schedule: Arc<Schedule>,
    memory: PhantomData<&'env [u8]>,
}

mod plain {
    /// Numbers: every pattern of bits is one, and none has padding.
    pub trait Plain {}
}

macro_rules! plain {
    ($($number:ty),*) => { $(impl plain::Plain for $number {})* };
}
plain!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

impl Comm {
    /// Lends memory to schedules: calls `body` with a [`Scope`] and returns when it has returned and every run that it
    /// started has ended, also if it panics.
    ///
    /// ```
    /// use castell_base::{Rank, Tag};
    /// use castell_comm::Comm;
    ///
    /// let comm = Comm::init()?;
    /// let next = Rank((comm.rank().0 + 1) % comm.size());
    /// let previous = Rank((comm.rank().0 + comm.size() - 1) % comm.size());
    /// let (token, mut got) = ([comm.rank().0], [u32::MAX]);
    /// comm.scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
    ///     let mut graph = scope.graph();
    ///     graph.send(scope.share(&token), next, Tag(0))?;
    ///     graph.recv(scope.lend(&mut got), Some(previous), Some(Tag(0)))?;
    ///     scope.run(&graph.compile()?)?.wait()?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(got, [previous.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Memory that lives no longer than the body cannot be lent, since the last run may end after it:
    ///
    /// ```compile_fail,E0597
    /// # let comm = castell_comm::Comm::init().unwrap();
    /// comm.scope(|scope| {
    ///     let mut short = [0u8; 8];
    ///     scope.lend(&mut short);
    /// });
    /// ```
    pub fn scope<'env, R>(&'env self, body: impl FnOnce(&Scope<'env>) -> R) -> R {
        let scope = Scope { comm: self, runs: Mutex::default(), memory: PhantomData };
        // Dropping it waits, whether the body returns or panics.
        let scope = WaitingScope(scope);
        body(&scope.0)
    }
}

struct WaitingScope<'env>(Scope<'env>);

impl Drop for WaitingScope<'_> {
    fn drop(&mut self) {
        let runs = self.0.runs.get_mut().unwrap_or_else(PoisonError::into_inner);
        for run in runs.drain(..) {
            // Whoever wanted to know has asked the handle.
            let _ = run.wait();
        }
    }
}

impl<'env> Scope<'env> {
    /// The group.
    pub fn comm(&self) -> &'env Comm {
        self.comm
    }

    /// Lets schedules read `numbers` until the scope ends.
    pub fn share<T: plain::Plain>(&self, numbers: &'env [T]) -> Source<'env> {
        let place = Place::user(numbers.as_ptr() as u64);
        Source { place, bytes: size_of_val(numbers) as u64, memory: PhantomData }
    }

    /// Lets schedules read and write `numbers` until the scope ends.
    pub fn lend<T: plain::Plain>(&self, numbers: &'env mut [T]) -> Buffer<'env> {
        let place = Place::user(numbers.as_mut_ptr() as u64);
        Buffer { place, bytes: size_of_val(numbers) as u64, memory: PhantomData }
    }

    /// An empty graph.
    pub fn graph(&self) -> ScopedGraph<'env> {
        ScopedGraph::default()
    }

    /// Starts a run and returns, as [`Comm::run`](castell_engine::Process::run) does.
    ///
    /// # Errors
    /// The schedule does not fit the group, or the group was left.
    pub fn run(&self, schedule: &ScopedSchedule<'env>) -> Result<Handle, RunError> {
        // SAFETY: all addresses in the schedule come from `share`, `lend` and `call`, so they are of memory borrowed
        // for longer than the scope, which waits for the run; who lent it to be written cannot look at it before. The
        // functions are `invoke`s of closures that may be called from any thread.
        let run = unsafe { self.comm.run(&schedule.schedule) }?;
        Ok(self.remember(run))
    }

    /// As [`Scope::run`]; `then` is called with the outcome when the run has ended, as [`Comm::run_then`](castell_engine::Process::run_then) says.
    ///
    /// # Errors
    /// As for [`Scope::run`]; then `then` is not called.
    pub fn run_then(
        &self,
        schedule: &ScopedSchedule<'env>,
        then: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) -> Result<Handle, RunError> {
        // SAFETY: as in `run`.
        let run = unsafe { self.comm.run_then(&schedule.schedule, then) }?;
        Ok(self.remember(run))
    }

    fn remember(&self, run: Handle) -> Handle {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() == runs.capacity() {
            runs.retain(|run| !run.is_done());
        }
        runs.push(run.clone());
        run
    }
}

impl<'env> Source<'env> {
    /// The part from byte `offset` on, `bytes` long; `None` if that leaves it.
    pub fn part(self, offset: u64, bytes: u64) -> Option<Source<'env>> {
        let place = part(self.place, self.bytes, offset, bytes)?;
        Some(Source { place, bytes, memory: PhantomData })
    }
}

impl<'env> Buffer<'env> {
    /// `bytes` bytes of the scratchpad from `offset` on.
    pub fn scratch(offset: u64, bytes: u64) -> Buffer<'env> {
        Buffer { place: Place::scratch(offset), bytes, memory: PhantomData }
    }

    /// The part from byte `offset` on, `bytes` long; `None` if that leaves it.
    pub fn part(self, offset: u64, bytes: u64) -> Option<Buffer<'env>> {
        let place = part(self.place, self.bytes, offset, bytes)?;
        Some(Buffer { place, bytes, memory: PhantomData })
    }
}

fn part(place: Place, all: u64, offset: u64, bytes: u64) -> Option<Place> {
    let end = offset.checked_add(bytes)?;
    (end <= all).then(|| Place { memory: place.memory, offset: place.offset + offset })
}

impl<'env> From<Buffer<'env>> for Source<'env> {
    fn from(buffer: Buffer<'env>) -> Source<'env> {
        Source { place: buffer.place, bytes: buffer.bytes, memory: PhantomData }
    }
}

impl<'env> ScopedGraph<'env> {
    /// Adds a send of all of `message`.
    ///
    /// # Errors
    /// As [`Graph::send`].
    pub fn send(
        &mut self,
        message: impl Into<Source<'env>>,
        dest: Rank,
        tag: Tag,
    ) -> Result<Vertex, GraphError> {
        let message = message.into();
        self.graph.send(message.place, message.bytes, dest, tag)
    }

    /// Adds a receive of a message that fills `buffer`; `None`: from any source, under any tag.
    ///
    /// # Errors
    /// As [`Graph::recv`].
    pub fn recv(
        &mut self,
        buffer: Buffer<'env>,
        source: Option<Rank>,
        tag: Option<Tag>,
    ) -> Result<Vertex, GraphError> {
        self.graph.recv(buffer.place, buffer.bytes, source, tag)
    }

    /// Adds `b3[i] = b1[i] op b2[i]` over whole buffers.
    ///
    /// # Errors
    /// Buffers of different lengths, or that don't hold whole elements.
    pub fn local(
        &mut self,
        b1: impl Into<Source<'env>>,
        b2: impl Into<Source<'env>>,
        b3: Buffer<'env>,
        arithmetic: Arithmetic,
    ) -> Result<Vertex, GraphError> {
        let (b1, b2) = (b1.into(), b2.into());
        let (operation, width) = (arithmetic.operator().name(), arithmetic.element().bytes());
        let is_copy = arithmetic.operator() == Operator::Copy;
        for (buffer, bytes) in [(1, b1.bytes), (2, if is_copy { b3.bytes } else { b2.bytes })] {
            if bytes != b3.bytes {
                return Err(GraphError::LengthsDiffer { operation, buffer, bytes, result_bytes: b3.bytes });
            }
        }
        if !b3.bytes.is_multiple_of(width) {
            return Err(GraphError::PartOfElement { operation, buffer: 3, bytes: b3.bytes, width });
        }
        self.graph.local(b1.place, b2.place, b3.place, arithmetic, b3.bytes / width)
    }

    /// Adds an operation that writes the time in seconds as one f64.
    ///
    /// # Errors
    /// A buffer of another size than 8 bytes.
    pub fn wtime(&mut self, buffer: Buffer<'env>) -> Result<Vertex, GraphError> {
        if buffer.bytes != 8 {
            let (operation, bytes, result_bytes) = ("wtime", buffer.bytes, 8);
            return Err(GraphError::LengthsDiffer { operation, buffer: 3, bytes, result_bytes });
        }
        self.graph.wtime(buffer.place)
    }

    /// Adds a call of `function`, from any thread of this process. It must return soon, and may neither start runs nor
    /// wait; if it panics the process ends.
    ///
    /// # Errors
    /// A full graph.
    pub fn call<F: Fn() + Sync>(&mut self, function: &'env F) -> Result<Vertex, GraphError> {
        let context = std::ptr::from_ref(function);
        self.graph.call(invoke::<F> as *const () as u64, context as u64)
    }

    /// Adds `ns` nanoseconds of computation.
    ///
    /// # Errors
    /// A full graph.
    pub fn calc(&mut self, ns: u64) -> Result<Vertex, GraphError> {
        self.graph.calc(ns)
    }

    /// Adds `ns` nanoseconds of waiting.
    ///
    /// # Errors
    /// A full graph.
    pub fn sleep(&mut self, ns: u64) -> Result<Vertex, GraphError> {
        self.graph.sleep(ns)
    }

    /// Adds a vertex that does nothing but link others.
    ///
    /// # Errors
    /// A full graph.
    pub fn proxy(&mut self) -> Result<Vertex, GraphError> {
        self.graph.proxy()
    }

    /// `target` starts only after `prerequisite` has finished.
    ///
    /// # Errors
    /// As [`Graph::requires`].
    pub fn requires(&mut self, prerequisite: Vertex, target: Vertex) -> Result<(), GraphError> {
        self.graph.requires(prerequisite, target)
    }

    /// `target` starts only after `prerequisite` has started.
    ///
    /// # Errors
    /// As [`Graph::irequires`].
    pub fn irequires(&mut self, prerequisite: Vertex, target: Vertex) -> Result<(), GraphError> {
        self.graph.irequires(prerequisite, target)
    }

    /// The vertex starts once `k` of its dependencies are met.
    ///
    /// # Errors
    /// As [`Graph::set_any`].
    pub fn set_any(&mut self, vertex: Vertex, k: u32) -> Result<(), GraphError> {
        self.graph.set_any(vertex, k)
    }

    /// Names the vertex in messages and pictures.
    ///
    /// # Errors
    /// As [`Graph::set_label`].
    pub fn set_label(&mut self, vertex: Vertex, label: &str) -> Result<(), GraphError> {
        self.graph.set_label(vertex, label)
    }

    /// Gives each run a scratchpad of `bytes`.
    pub fn allocate_scratchpad(&mut self, bytes: u64) {
        self.graph.allocate_scratchpad(bytes);
    }

    /// Compiles the graph, which stays as it is.
    ///
    /// # Errors
    /// As [`Graph::compile`].
    pub fn compile(&self) -> Result<ScopedSchedule<'env>, CompileError> {
        Ok(ScopedSchedule { schedule: Arc::new(self.graph.compile()?), memory: PhantomData })
    }
}

/// Calls the closure behind `function`. A panic ends the process, as panics do that reach an `extern "C"` function.
extern "C" fn invoke<F: Fn() + Sync>(function: *mut c_void) {
    // SAFETY: `call` made this address from a reference that outlives every scope that the schedule can run in.
    let function = unsafe { &*function.cast_const().cast::<F>() };
    function();
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_goal::op::ElementType;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn alone() -> Comm {
        use crate::job::{Job, JobOptions};
        Comm::join(Job::create(&JobOptions::new(1)).expect("a job of one"), Rank(0))
    }

    #[test]
    fn a_scope_ends_after_its_runs() {
        let comm = alone();
        let (a, b) = ([1.5f64, 2.5, 3.5], [10.0f64, 20.0, 30.0]);
        let (mut sum, mut stamp) = ([0.0f64; 3], [0.0f64]);
        let calls = AtomicU32::new(0);
        let count = || {
            calls.fetch_add(1, Ordering::Relaxed);
        };
        comm.scope(|scope| {
            let add = Arithmetic::new(Operator::Add, ElementType::F64).unwrap();
            let mut graph = scope.graph();
            let later = graph.sleep(2_000_000).unwrap();
            let sum = graph.local(scope.share(&a), scope.share(&b), scope.lend(&mut sum), add).unwrap();
            let stamp = graph.wtime(scope.lend(&mut stamp)).unwrap();
            let call = graph.call(&count).unwrap();
            for vertex in [sum, stamp, call] {
                graph.requires(later, vertex).unwrap();
            }
            let schedule = graph.compile().unwrap();
            for _ in 0..10 {
                scope.run(&schedule).unwrap();
            }
        });
        assert_eq!(sum, [11.5, 22.5, 33.5]);
        assert!(stamp[0] > 0.0);
        assert_eq!(calls.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn a_scope_waits_even_if_its_body_panics() {
        let comm = alone();
        let mut numbers = [0u64; 4];
        let ones = [1u64; 4];
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            comm.scope(|scope| {
                let mut graph = scope.graph();
                let copy = Arithmetic::new(Operator::Copy, ElementType::U64).unwrap();
                let target = scope.lend(&mut numbers);
                let (later, ones) = (graph.sleep(1_000_000).unwrap(), scope.share(&ones));
                let copied = graph.local(ones, ones, target, copy).unwrap();
                graph.requires(later, copied).unwrap();
                scope.run(&graph.compile().unwrap()).unwrap();
                panic!("after the start");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(numbers, ones);
    }

    #[test]
    fn parts_stay_inside_and_lengths_are_compared() {
        let comm = alone();
        let mut numbers = [0u32; 4];
        comm.scope(|scope| {
            let buffer = scope.lend(&mut numbers);
            assert!(buffer.part(8, 8).is_some() && buffer.part(8, 9).is_none());
            assert!(buffer.part(u64::MAX, 2).is_none() && Source::from(buffer).part(17, 0).is_none());
            let add = Arithmetic::new(Operator::Add, ElementType::U64).unwrap();
            let mut graph = scope.graph();
            let short = buffer.part(0, 8).unwrap();
            assert!(matches!(
                graph.local(short, buffer, buffer, add),
                Err(GraphError::LengthsDiffer { buffer: 1, .. })
            ));
            let odd = buffer.part(0, 12).unwrap();
            assert!(matches!(graph.local(odd, odd, odd, add), Err(GraphError::PartOfElement { .. })));
            assert!(graph.wtime(buffer).is_err());
        });
    }
}
