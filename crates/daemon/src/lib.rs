//! A node's daemon: the applications of a node ask it where their kernels may run, and a strategy that can be exchanged decides (after
//! VarySched: D. Feld, E. Schricker, T. Soddemann, COSH 2016).
//!
//! One thread does everything, as its sockets, bells and timers have it; only a strategy that is to take over is read and tried out in
//! another one. The daemon keeps nothing that its applications do not keep, too: it may be killed at any moment, and the next one
//! finds in their mailboxes who waits and what runs. Which applications it has to wait for then stands in a `journal`, and what people have
//! `told` it in another file.
//!
//! Sessions, of which `castell_agent` has the rules, are kept by the same process: what stands still gets no kernels.
//!
//! It chooses nothing and runs nothing: `castell_strategy` chooses, applications run. Start at [`serve`]; [`ask`] is for whoever
//! looks after it.
#![forbid(unsafe_code)]

mod answer;
mod ask;
mod client;
mod error;
mod exposition;
mod journal;
pub mod learn;
mod load;
pub mod metrics;
mod own;
pub mod recording;
mod serve;
mod sessions;
mod standing;
mod stopped;
mod told;

pub use ask::ask;
pub use error::DaemonError;
pub use exposition::expose;
pub use load::Source;
pub use serve::{Options, Reload, serve};
pub use sessions::Sessions;
pub use told::Claim;
