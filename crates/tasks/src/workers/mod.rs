//! The threads that run tasks: who is which worker, how they sleep, how CPUs are taken away and given back.
//!
//! A *worker* is a place: a CPU's queues and memory. A thread *holds* a worker, one at a time; a thread that blocks inside a
//! task hands its worker over and gets one again before it goes on, perhaps another. So there are as many running
//! threads as enabled workers, however many tasks are blocked.
//!
//! | a worker | means |
//! |---|---|
//! | held, enabled | its thread runs tasks or waits for some |
//! | held, disabled | its thread gives it up at the next task boundary |
//! | not held, disabled | taken away |
//! | not held, enabled | for a moment: a thread is being found for it |

#[cfg(not(loom))]
mod appetite;
#[cfg(not(loom))]
mod aside;
#[cfg(not(loom))]
pub(crate) mod devices;
mod id;
#[cfg(not(loom))]
mod mailbox;
#[cfg(not(loom))]
mod plan;
#[cfg(not(loom))]
mod roster;
#[cfg(not(loom))]
pub(crate) mod share;
#[cfg(not(loom))]
mod threads;

#[cfg(not(loom))]
pub(crate) use appetite::Taken;
pub use id::WorkerId;
#[cfg(not(loom))]
pub use mailbox::{Listener, mailbox_from_environment};
#[cfg(not(loom))]
pub use plan::Plan;
#[cfg(not(loom))]
pub(crate) use threads::{Habits, serve};
#[cfg(not(loom))]
pub use threads::{WorkerStatus, Workers};
