//! Counters of the processor around an unmodified program and all that it starts.
//!
//! [`tables`] say which events to count on which processor; [`Plan::of_machine`] finds out which of them there are, and why the
//! others are not. [`watch`] reads them while a program runs; a [`Recording`] keeps the readings and turns them into flows.

pub mod availability;
mod counted;
pub mod processor;
pub mod recording;
pub mod tables;
mod watch;

pub use availability::{Plan, Unavailable};
pub use counted::Counted;
pub use processor::Processor;
pub use recording::{Flows, Recording, RecordingError, Sample};
pub use tables::Table;
pub use watch::{Ended, Subject, WatchError, Watched, watch};
