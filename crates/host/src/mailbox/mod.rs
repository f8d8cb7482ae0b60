//! The CPU mailbox: a file through which another process tells this one which of its workers may run.
//!
//! The protocol and its states are in README.md beside this file; `words` carries it out, here is where its memory comes
//! from. Start at [`Mailbox`] (the process that it belongs to) and [`Agent`] (everybody else).

mod words;

#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
pub use file::{Agent, FOLDER, Mailbox, Place, WorkerState, default_path, found_in};
