//! Dependency graphs of messages and local operations, built, compiled and run: the Rust library.
//!
//! A process describes its part of a communication pattern as a graph, compiles it once and runs it as often as it
//! likes. A run that was started makes progress by itself, whatever the process computes meanwhile.
//!
//! ```
//! use castell::{Comm, Rank, Tag};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let comm = Comm::init()?; // the group of `castell launch`, of `mpirun` or `srun`, or of one
//! let (rank, size) = (comm.rank().0, comm.size());
//! let (next, previous) = (Rank((rank + 1) % size), Rank((rank + size - 1) % size));
//!
//! let (token, mut got) = ([rank], [0]);
//! comm.scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
//!     let mut graph = scope.graph();
//!     graph.send(scope.share(&token), next, Tag(0))?;
//!     graph.recv(scope.lend(&mut got), Some(previous), Some(Tag(0)))?;
//!     let run = scope.run(&graph.compile()?)?;
//!     // ... compute something else ...
//!     Ok(run.wait()?)
//! })?;
//! assert_eq!(got, [previous.0]);
//! comm.finalize();
//! # Ok(())
//! # }
//! ```
//!
//! | to | start at |
//! |---|---|
//! | run patterns over borrowed memory, without `unsafe` | [`Comm::scope`], [`ScopedGraph`] |
//! | build graphs over addresses or the scratchpad, and compile them | [`Graph`], [`Schedule`] |
//! | run those | [`run`](Process::run), [`run_open`](Process::run_open), [`Handle`] |
//! | read, print and check programs of many ranks | [`Program`](goal::program::Program), [`goal::text`], [`goal::binary`] |
//! | run tasks with data accesses | [`tasks`], [`tasks::Runtime`] |
//! | make a task a vertex of a graph, or have a task's completion wait for a run | [`as_task`], [`held_until`] |
//! | live in a program that has a group already, MPI's for example | [`Comm::init_by`], [`HostFunctions`] |
//! | make collective calls | [`Comm::world`], [`Communicator`], [`Call`] |
//! | step through a schedule without running it | [`Stepper`] |
//! | use it from C or C++ | `goal.h` and `castell.h`, described in the book |
//!
//! This crate only names what the rooms below offer: [`goal`] is the graphs, [`comm`] runs them, [`tasks`] runs
//! tasks, [`host`] is the machine.
//! Its examples, in `examples/rust`, run under `castell launch -n 4 -- target/debug/examples/hello_graph`.
#![forbid(unsafe_code)]

mod one_graph;

pub use one_graph::{as_task, held_until};

pub use castell_base::{Rank, Tag};
pub use castell_comm::Communicator;
pub use castell_comm::bootstrap::HostFunctions;
pub use castell_comm::collective::{Call, CallError, Custom, Element, Layout, Neighbourhood, Reduction};
pub use castell_comm::communicator::JobClock;
pub use castell_comm::pool::{AllocationError, SharedBuffer};
pub use castell_comm::scope::{Buffer, Scope, ScopedGraph, ScopedSchedule, Source};
pub use castell_comm::{Cause, Comm, Deferred, Failure, Handle, Process, RunError, defer};
pub use castell_goal::graph::{Graph, Vertex};
pub use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
pub use castell_goal::schedule::Schedule;
pub use castell_goal::stepper::Stepper;

#[doc(inline)]
pub use castell_comm as comm;
#[doc(inline)]
pub use castell_goal as goal;
#[doc(inline)]
pub use castell_host as host;
#[doc(inline)]
pub use castell_tasks as tasks;

/// The book's Rust examples, compiled and run with the documentation tests.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/src/goal-graphs.md")]
    struct GoalGraphs;
    #[doc = include_str!("../../../docs/src/schedules.md")]
    struct Schedules;
    #[doc = include_str!("../../../docs/src/rust-api.md")]
    struct RustApi;
    #[doc = include_str!("../../../docs/src/collective-calls.md")]
    struct CollectiveCalls;
    #[doc = include_str!("../../../docs/src/tasks.md")]
    struct Tasks;
}
