//! Kernel collections as programs bring them (after VarySched: D. Feld, E. Schricker, T. Soddemann, COSH 2016): an [`Application`]
//! registers the kernels that it has for one computation, a node's daemon says which of them runs when, and the application runs it.
//!
//! The registration goes through a socket ([`protocol`]), everything after that through memory that both share ([`mailbox`]). A [`Desk`]
//! answers what is asked there: in the daemon, or, where there is none, in a thread of the application, by the same books. The mailbox
//! outlives both: an application whose daemon dies goes on, and takes its mailbox to the next one.
//!
//! This room chooses nothing: `castell_strategy` does. Start at [`Application`].
#![forbid(unsafe_code)]

#[cfg(not(loom))]
mod application;
#[cfg(not(loom))]
mod desk;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod link;
pub mod mailbox;
#[cfg(not(loom))]
mod own;
#[cfg(not(loom))]
mod place;
#[cfg(not(loom))]
pub mod protocol;

#[cfg(not(loom))]
pub use application::{Application, Collection, Kernel, Ranking, Step};
#[cfg(not(loom))]
pub use desk::{Counts, Desk, Held, Violation};
#[cfg(not(loom))]
pub use error::KernelsError;
#[cfg(not(loom))]
pub use own::OwnState;
#[cfg(not(loom))]
pub use place::{NAME, VARIABLE, socket, stopped_daemon};
