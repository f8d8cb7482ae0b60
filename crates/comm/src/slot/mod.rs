//! Slots: messages of small blocking calls in places of their own.
//!
#![doc = include_str!("README.md")]

#[cfg(not(loom))]
pub(crate) mod certificate;
pub mod geometry;
#[cfg(not(loom))]
pub(crate) mod heap;
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
/// The largest message that has a place for itself. Bytes.
pub const BYTES_MAX: usize = 4096;
/// A rank's memory for all larger messages of a call, or of a strip of it. Bytes.
pub const HEAP_BYTES: usize = 1 << 20;
/// A call's number in its context lies above so many bits of a turn; the number of the strip is in them.
const STRIP_BITS: u32 = 12;
/// Strips of a call.
pub const STRIPS_MAX: u64 = 1 << STRIP_BITS;

/// What the places of a call's strip are marked with: turns only ever grow.
#[inline(always)]
pub fn turn_of(number: u64, strip: u64) -> u64 {
    number << STRIP_BITS | strip
}

/// Which of the two generations of places a turn uses: the one that the turn before did not use, between calls that have an
/// odd number of strips.
#[inline(always)]
pub fn generation_of(turn: u64) -> usize {
    ((turn >> STRIP_BITS ^ turn) & 1) as usize
}
