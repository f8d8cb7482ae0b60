//! The engine: runs compiled schedules, and the compiled programs of small calls, over the memory of a job.
//!
//! Start at [`Process`]. Inside, `messages/` carries messages between ranks and knows nothing of schedules; `runs/` carries schedules
//! out and talks to other ranks through it. `turn.rs` gives both their turn, `drive.rs` says which thread does. [`slot`] makes programs of graphs whose messages
//! have places of their own, and `programs/` carries them out in the thread that calls.
//! This room knows nothing of how graphs are built, of communicators and of launchers.

mod age;
#[cfg(test)]
mod ahead;
pub mod board;
mod call;
mod contexts;
mod deferred;
#[cfg(test)]
mod departures;
mod describe;
mod drive;
mod failure;
mod handle_state;
#[cfg(test)]
mod jobs;
mod liveness;
mod messages;
mod number;
mod process;
mod programs;
mod runs;
pub mod slot;
mod stall;
mod turn;

pub use call::inside_call;
pub use contexts::{MASK_WORDS, Mask};
pub use deferred::{Deferred, defer};
pub use describe::describe;
pub use failure::{Cause, Failure};
pub use messages::{Counters, UNEXPECTED_BUDGET_BYTES};
pub use number::{CALLS_AHEAD, CONTEXTS};
pub use process::{Handle, Process, RunError, SCRATCHPAD_BYTES_MAX};
pub use runs::{Arrived, Recorded};
