//! Slots: messages of blocking and of small started calls in places of their own.
//!
#![doc = include_str!("README.md")]

pub mod geometry;
pub mod line;
pub mod log;
pub mod window;

/// Contexts whose calls have slots: the first ones.
pub const CONTEXTS: u32 = 4;
/// Of each context those of its blocking and those of its started calls.
pub const SETS: u32 = 2 * CONTEXTS;
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
/// A rank's memory for all larger messages of a call, or of a segment of it. Bytes.
pub const BOUNCE_BYTES: usize = 1 << 20;
/// A call's number in its context lies above so many bits of a turn; the number of the segment is in them.
const SEGMENT_BITS: u32 = 12;
/// Segments of a call.
pub const SEGMENTS_MAX: u64 = 1 << SEGMENT_BITS;

/// The places of one context's calls of one kind: those that are waited for at once, one at a time, or those that are started, of
/// which many may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSet(u32);

impl SlotSet {
    /// Of a context's blocking calls.
    #[inline]
    pub fn blocking(context: u32) -> SlotSet {
        assert!(context < CONTEXTS, "context {context} has slots");
        SlotSet(context)
    }

    /// Of its started calls.
    #[inline]
    pub fn started(context: u32) -> SlotSet {
        SlotSet(SlotSet::blocking(context).0 + CONTEXTS)
    }

    /// Whether several calls may be under way.
    #[inline(always)]
    pub fn is_started(self) -> bool {
        self.0 >= CONTEXTS
    }

    /// Whose calls they are.
    pub fn context(self) -> u32 {
        self.0 % CONTEXTS
    }

    /// Its number among all sets.
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.0
    }
}

/// What the places of a call's segment are marked with: turns only ever grow.
#[inline(always)]
pub fn turn_of(number: u64, segment: u64) -> u64 {
    number << SEGMENT_BITS | segment
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

    /// Which generation a turn uses: the one behind that of the turn before, within a call, and from a call that has one segment to
    /// the next.
    #[inline(always)]
    pub fn generation(self, turn: u64) -> usize {
        ((turn >> SEGMENT_BITS) + turn) as usize & (self.0 as usize - 1)
    }
}

/// Which of a sender's two bounce buffers a turn uses: the one that the turn before did not use, between calls that have an odd number of
/// segments.
#[inline(always)]
pub fn bounce_of(turn: u64) -> usize {
    Cycle(2).generation(turn)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sets_are_of_one_context_and_one_kind() {
        for context in 0..CONTEXTS {
            let sets = [SlotSet::blocking(context), SlotSet::started(context)];
            assert_eq!(sets.map(SlotSet::is_started), [false, true]);
            assert_eq!(sets.map(SlotSet::context), [context; 2]);
            assert_eq!(sets.map(SlotSet::index), [context, CONTEXTS + context]);
        }
    }

    /// The next segment of a call, and the next call, take the next place.
    #[test]
    fn turns_take_places_one_after_the_other() {
        for number in [0, 1, 2, 7, 8, 31, 32, 1 << 40] {
            for segment in [0, 1, 2, SEGMENTS_MAX - 1] {
                let turn = turn_of(number, segment);
                assert!(turn < turn_of(number + 1, 0));
                for (cycle, places) in [
                    (Cycle::EXCHANGE, 8),
                    (Cycle::EXCHANGE_IN_PAGES, 2),
                    (Cycle::AHEAD, GENERATIONS as u64),
                    (Cycle::AHEAD_IN_PAGES, PAGE_GENERATIONS as u64),
                ] {
                    assert_eq!(
                        cycle.generation(turn) as u64,
                        (number + segment) % places,
                        "{number} {segment}"
                    );
                }
                assert_eq!(bounce_of(turn) as u64, (number + segment) % 2);
            }
        }
    }
}
