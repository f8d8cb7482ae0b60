//! Runs GOAL schedules on a real clock, between real processes.
//!
//! One folder a transport or protocol: [`queue`] (where messages land), [`lane`] (dedicated slots for known pairs), `slot`
//! (places for the messages of small blocking calls), [`carry`] (runs that any process may carry on), [`doorbell`] (who sleeps
//! and who wakes it), [`rendezvous`] (large messages), [`job`] (the segment that they share), [`launch`] (starting and watching
//! the processes), [`bootstrap`] (finding the group), [`engine`] (everything put together: start there, at [`Comm`]).
//! On top of it, [`communicator`] has groups of ranks and [`collective`] what they call.
//! This room knows nothing of how graphs are built or read, and nothing of tasks.

pub mod bootstrap;
pub mod carry;
pub mod collective;
#[cfg(not(loom))]
pub mod communicator;
pub mod doorbell;
#[cfg(not(loom))]
pub mod engine;
#[cfg(not(loom))]
pub mod job;
pub mod lane;
#[cfg(not(loom))]
pub mod launch;
#[cfg(not(loom))]
pub mod measure;
#[cfg(not(loom))]
pub mod pool;
pub mod queue;
#[cfg(not(loom))]
mod reach;
pub mod rendezvous;
#[cfg(not(loom))]
pub mod scope;
// What nothing but the engine calls is dead where loom leaves the engine out.
#[cfg_attr(loom, allow(dead_code))]
mod slot;
pub mod tuning;
#[cfg(not(loom))]
mod whereabouts;

#[cfg(not(loom))]
pub use communicator::Communicator;
#[cfg(not(loom))]
pub use engine::{Cause, Comm, Counters, Deferred, Failure, Handle, RunError, defer, inside_call};
#[cfg(not(loom))]
pub use job::Job;
