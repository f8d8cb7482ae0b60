//! Programs simulated in virtual time: what each rank's end would be on a machine that a cost model describes.
//!
//! The graphs that are simulated are the ones that run: goal's stepper says what may start, goal's matcher which message
//! goes to which receive. This room does no I/O, reads no clock, draws random numbers only from a key that the caller
//! chooses, and gives the same bits on every machine.
//!
//! Start at [`Simulation`], then [`Machine`] (what a program runs on), [`instrument`] and [`instruments`] (what can be
//! watched) and `reference`, the engine that knows every operation and every model. [`fast`] is the one for large
//! programs, [`rounds`] the one for programs in which every rank does the same.
#![forbid(unsafe_code)]

mod cost;
mod costs;
pub mod deadlock;
mod error;
pub mod fast;
pub mod instrument;
pub mod instruments;
mod levels;
mod machine;
pub mod network;
mod noisy;
mod outcome;
pub mod recorded;
mod reference;
pub mod rounds;
mod simulation;
mod source;
pub mod statistics;

pub use castell_base::{Job, OwnThread, Threads};
pub use error::{OperationName, SimError};
pub use machine::{Machine, Ties, Within};
pub use outcome::Outcome;
pub use simulation::Simulation;
pub use source::{Schedules, Source};
