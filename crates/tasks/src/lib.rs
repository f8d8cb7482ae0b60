//! Tasks: pieces of code with the data that they read and write, run by workers on this machine.
//!
//! | folder | what |
//! |---|---|
//! | `api` | what programs see: [`Runtime`], [`Context`], [`data`], loops, graphs that run again ([`replay`]), [`foreign`] languages |
//! | `lifecycle` | a task from its creation to its end: the record that all share ([`task`]), what threads share, counts |
//! | [`dependences`] | which task must wait for which, from the bytes that they name |
//! | [`scheduler`] | where a ready task runs |
//! | [`workers`] | the threads that run tasks |
//! | `waiting` | waits, pauses, suspensions, polling services |
//! | [`memory`] | gives records and takes them back |
//! | `diagnostics` | what happened ([`record`]), who waits and why, undeclared accesses |
//! | [`workloads`] | the small programs by which runtimes are compared |
//!
//! This room knows nothing of messages: what else can complete a task or wants to be polled comes through external events
//! and polling services.
//!
//! Start at [`Runtime`], then [`task::Task`].

#[cfg(not(loom))]
mod api;
pub mod dependences;
#[cfg(not(loom))]
mod diagnostics;
#[cfg(not(loom))]
mod error;
mod lifecycle;
pub mod memory;
pub mod scheduler;
#[cfg(not(loom))]
mod waiting;
pub mod workers;
#[cfg(not(loom))]
pub mod workloads;

#[cfg(not(loom))]
pub use api::{
    builder::Builder,
    context::{Context, NewTask},
    data, foreign,
    handle::Handle,
    replay,
    runtime::Runtime,
    team::{BegunTask, Member, Team},
    versions,
};
pub use castell_sched::Kind as LeafKind;
#[cfg(not(loom))]
pub use diagnostics::{
    journal::{Reason, Wait},
    record,
    stall::{Stall, Waiting, Why},
    watched::WatchedMemory,
};
#[cfg(not(loom))]
pub use error::{Payload, TaskError};
#[cfg(not(loom))]
pub use lifecycle::{counts::Limits, extras::Suspension, task};
pub use scheduler::schedulable;
#[cfg(not(loom))]
pub use waiting::{
    pause::{Event, Waker},
    services::{Next, Registration, Wake},
};
