//! ESP: connections over raw Ethernet frames, on which bytes come once and in order although the segment loses, doubles, delays and
//! damages frames.
//!
//! What this room does: the protocol of ESPGOAL (Schneider and Eckelmann, 2011, chapter 3), mended. Frames and times go in; frames, events and the next time
//! come out ([`Endpoint`]). The receiver decides the pace and asks for what it misses; frames carry a keyed tag ([`frame`]), and those of
//! others are dropped and counted.
//! What it refuses to do: I/O, clocks, `unsafe`. It encrypts nothing, and knows of one segment only: no routing, no fragments.
//!
//! Where a port has several cards, [`Search`] finds the one that reaches a peer.
//!
//! Start at [`Endpoint`]; README.md beside this file has the states, the frame byte by byte, and what was changed.
#![forbid(unsafe_code)]

pub mod datagram;
pub mod frame;

mod connection;
mod endpoint;
mod event;
mod pace;
mod receiving;
mod round_trip;
mod search;
mod sending;
mod sequence;
mod settings;

pub use endpoint::Endpoint;
pub use event::{Counters, Ended, Event, Handle, TooMany, What, Why};
pub use frame::{Address, Communicator, ETHERTYPE, Key, Mac};
pub use search::{Search, Told, Way};
pub use settings::Settings;
