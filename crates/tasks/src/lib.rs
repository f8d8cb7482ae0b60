//! Tasks: pieces of code with the data that they read and write, run by workers on this machine.
//!
//! The program creates tasks in order; [`dependences`] finds which must wait for which, [`scheduler`] decides where a
//! ready one runs, [`workers`] are the threads that run it, [`memory`] gives and takes records back; `record` notes what happens. [`task`] is the
//! record that all of them share. This room knows nothing of messages: what else can complete a task or wants to be
//! polled comes through external events and polling services.
//!
//! Start at [`Runtime`], then [`task::Task`].

#[cfg(not(loom))]
mod builder;
mod children;
#[cfg(not(loom))]
mod context;
#[cfg(not(loom))]
mod counts;
#[cfg(not(loom))]
mod current;
#[cfg(not(loom))]
pub mod data;
pub mod dependences;
#[cfg(not(loom))]
mod devices;
#[cfg(not(loom))]
mod environment;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod execute;
#[cfg(not(loom))]
pub mod foreign;
#[cfg(not(loom))]
mod forked;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod journal;
#[cfg(not(loom))]
mod loops;
pub mod memory;
#[cfg(not(loom))]
mod pause;
#[cfg(not(loom))]
mod places;
#[cfg(not(loom))]
pub mod record;
#[cfg(not(loom))]
pub mod replay;
#[cfg(not(loom))]
mod runtime;
pub mod schedulable;
pub mod scheduler;
#[cfg(not(loom))]
mod services;
#[cfg(not(loom))]
mod stall;
#[cfg(not(loom))]
mod suspend;
#[cfg(not(loom))]
pub mod task;
#[cfg(not(loom))]
mod wait;
#[cfg(not(loom))]
mod watched;
pub mod workers;
#[cfg(not(loom))]
pub mod workloads;

#[cfg(not(loom))]
pub use builder::Builder;
pub use castell_sched::Kind as LeafKind;
#[cfg(not(loom))]
pub use context::{Context, NewTask};
#[cfg(not(loom))]
pub use counts::Limits;
#[cfg(not(loom))]
pub use error::{Payload, TaskError};
#[cfg(not(loom))]
pub use handle::Handle;
#[cfg(not(loom))]
pub use journal::{Reason, Wait};
#[cfg(not(loom))]
pub use pause::{Event, Waker};
#[cfg(not(loom))]
pub use runtime::Runtime;
#[cfg(not(loom))]
pub use services::{Next, Registration, Wake};
#[cfg(not(loom))]
pub use stall::{Stall, Waiting, Why};
#[cfg(not(loom))]
pub use suspend::Suspension;
#[cfg(not(loom))]
pub use watched::WatchedMemory;
