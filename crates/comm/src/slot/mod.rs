//! Slots: messages of small blocking calls in places of their own.
//!
#![doc = include_str!("README.md")]

#[cfg(not(loom))]
pub(crate) mod certificate;
#[cfg(not(loom))]
mod fused;
pub mod geometry;
#[cfg(not(loom))]
pub(crate) mod heap;
pub mod line;
pub mod log;
#[cfg(not(loom))]
pub(crate) mod notice;
#[cfg(not(loom))]
pub(crate) mod program;
#[cfg(not(loom))]
mod shown;

/// Contexts whose calls have slots: the first ones.
pub const CONTEXTS: u32 = 4;
/// Jobs of more ranks have no slots: their number grows with the square.
pub const RANKS_MAX: u32 = 64;
/// Messages from one rank to another in one call.
pub const PLACES: usize = 2;
/// Generations of lines.
pub const GENERATIONS: usize = if cfg!(loom) { 2 } else { 32 };
/// Generations of pages: fewer, so that they stay in caches.
pub const PAGE_GENERATIONS: usize = 8;
/// Bytes of a message that lie in its line.
pub const INLINE_BYTES: usize = 48;
/// Ranks whose pages lie in caches.
pub const RANKS_NEAR: usize = 8;
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

/// How many generations of places the calls of a collective take in turns, the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle(u32);

impl Cycle {
    /// Of calls in which all hear of all: nobody runs far ahead, and few places stay near.
    pub const EXCHANGE: Cycle = Cycle(if cfg!(loom) { 2 } else { 8 });
    /// The same with messages in pages between many ranks: more places than that would take longer to be written for the first
    /// time, and leave the caches.
    pub const EXCHANGE_IN_PAGES: Cycle = Cycle(2);
    /// Of those in which somebody sends and does not hear of all: it runs so many calls ahead of its receivers.
    pub const AHEAD: Cycle = Cycle(GENERATIONS as u32);
    /// The same with messages in pages.
    pub const AHEAD_IN_PAGES: Cycle = Cycle(PAGE_GENERATIONS as u32);

    /// Which generation a turn uses: the one behind that of the turn before, within a call, and from a call that has one strip to
    /// the next.
    #[inline(always)]
    pub fn generation(self, turn: u64) -> usize {
        ((turn >> STRIP_BITS) + turn) as usize & (self.0 as usize - 1)
    }
}

/// Which of a sender's two heaps a turn uses: the one that the turn before did not use, between calls that have an odd number of
/// strips.
#[inline(always)]
pub fn heap_of(turn: u64) -> usize {
    Cycle(2).generation(turn)
}
