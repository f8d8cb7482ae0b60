//! The machine: shared memory, futexes, processes, signals, processors, the clock. Knows nothing of graphs or messages.
//!
//! Every path into the system that a test may want elsewhere is an argument. Start at [`shm`] (memory that all
//! processes of a job share) and [`process`] (how they start and how one learns that they ended).

pub mod abilities;
pub mod barrier;
pub mod board;
pub mod bucket;
pub mod busy;
pub mod clock;
pub mod conditions;
pub mod control_group;
pub mod descriptor;
pub mod domain;
pub mod epoll;
mod error;
mod file;
mod folder;
pub mod futex;
pub mod interfaces;
pub mod journal;
pub mod mailbox;
pub mod memory;
pub mod packet;
pub mod perf;
pub mod power;
pub mod pressure;
pub mod process;
pub mod random;
pub mod remote;
pub mod resctrl;
pub mod say;
pub mod secret;
pub mod service;
pub mod shm;
pub mod signal;
#[cfg(test)]
#[path = "../tests/skipped/mod.rs"]
mod skipped;
pub mod symbols;
#[cfg(feature = "threads")]
pub mod threads;
pub mod topology;
pub mod users;
pub mod watched;
pub mod watcher;
#[cfg(test)]
mod written;

pub use error::HostError;
pub use file::{Space, check_writable, file_system_space, replace_file};
pub use folder::{NODE_FOLDER, find_listener, runtime_folder};
pub use say::say;
