//! Slots: messages of small blocking calls in places of their own.
//!
#![doc = include_str!("README.md")]

#[cfg(not(loom))]
pub(crate) mod certificate;
pub mod geometry;
pub mod line;
pub mod log;
#[cfg(not(loom))]
pub(crate) mod program;

/// Contexts whose calls have slots: the first ones.
pub const CONTEXTS: u32 = 4;
/// Jobs of more ranks have no slots: their number grows with the square.
pub const RANKS_MAX: u32 = 64;
/// Messages from one rank to another in one call.
pub const PLACES: usize = 2;
/// Bytes of a message that lie in its line.
pub const INLINE_BYTES: usize = 48;
/// The largest message. Bytes.
pub const BYTES_MAX: usize = 4096;
