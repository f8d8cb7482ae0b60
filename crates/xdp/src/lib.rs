//! Schedules that the kernel carries out where frames arrive: by an eBPF program at the XDP hook of a network interface.
//!
//! What this room does: makes a rank's schedule steps for the program ([`Compiled`]), puts program and steps into the kernel
//! ([`Interface`], [`Session`]), begins runs there and waits for their end; and asks for messages that were lost. The program is C, in
//! `bpf/`; README.md has the protocol. What it refuses to do: `unsafe`, threads; schedules that need a processor (they are told apart from
//! those that do not, with the operation and why).
//!
//! Start at [`Session`].
#![forbid(unsafe_code)]

mod compile;
mod error;
mod interface;
mod kernel;
mod layout;
mod mapped;
mod session;
mod wire;

pub use castell_esp::Mac;
pub use compile::{Compiled, Misfit};
pub use error::XdpError;
pub use interface::{Interface, Mode, Verdict};
pub use kernel::Counters;
pub use layout::{MESSAGE_BYTES_MAX, OPERATIONS_MAX, PEERS_MAX, RUNS, SCHEDULES_MAX};
pub use session::{Group, Patience, RUNS_END, Run, Session, Stamps};
