//! The seam between messages and whatever carries them: shared memory, sockets, networks.
//!
//! What this room does: it says what a transport is ([`Transport`], [`Connector`], [`Endpoint`], [`Events`]), what stands before each message
//! ([`Header`]) and how a transport tells what it can do ([`Limits`]); it has the parts of a protocol that need no I/O
//! ([`Reorder`]), and what every transport is tested with: a transport inside one process ([`Loopback`]), a fault injector
//! that wraps any other ([`faults`]), and one suite of conformance tests ([`conformance`]).
//! What it refuses to do: I/O, clocks, threads, `unsafe`. Tags and matching, rendezvous and flow control are the engine's.
//!
//! Start at [`Transport`]. README.md beside this file has the states that a path goes through.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod faults;

mod header;
mod limits;
mod loopback;
mod memory;
mod reorder;
mod seam;

pub use header::{HEADER_BYTES, Header};
pub use limits::{Address, Cost, Delivery, Limits, Unreachable};
pub use loopback::{Loopback, LoopbackConnector, LoopbackEndpoint, LoopbackOptions};
pub use memory::{AccessError, RemoteKey, Token};
pub use reorder::Reorder;
pub use seam::{Armed, Connector, Down, Endpoint, Events, Refused, Sleeper, Transport, Urgency};
