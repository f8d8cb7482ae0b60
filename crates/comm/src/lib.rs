//! What programs see of a group of processes: [`Comm`], which runs GOAL schedules and makes collective calls.
//!
//! A facade over the rooms that do it: [`castell_shm`] (the memory that the ranks share), [`castell_engine`] (runs and messages),
//! [`castell_coll`] (collective calls and communicators) and [`castell_launch`] (how processes are started and find each other).
//! Of its own it has [`scope`], which lends memory to runs. Start at [`Comm`].

mod comm;
pub mod scope;

/// The engine's other names.
pub mod engine {
    pub use castell_engine::*;
}

pub use castell_coll::{Communicator, collective, communicator, describe_call, pool};
pub use castell_engine::{Cause, Counters, Deferred, Failure, Handle, Process, RunError, defer, inside_call};
pub use castell_launch::{bootstrap, hosts, jobs, launch};
pub use castell_shm::{Job, doorbell, job, queue, rendezvous, ring, tuning, ways};
pub use comm::Comm;
