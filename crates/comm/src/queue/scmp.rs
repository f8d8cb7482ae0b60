//! SCMP: one double-buffered slot array a receiver, filled by all ranks without a lock. README.md has the protocol.

use castell_base::Rank;
use castell_base::sync::Ordering;

use super::Refused;
use super::area::Area;
use super::geometry::Geometry;
use super::header::{Header, PADDING, SLOT_WORDS, slots_for};
use super::intent::Intents;

/// The word R: `generation << 40 | offset`. Its lowest generation bit names the half that takes reservations.
pub(super) const RESERVE: usize = 0;
/// Word of the first slot: R and its neighbour line (which the processor may fetch along) are the producers'.
const SLOTS: usize = 16;
pub(super) const OFFSET_BITS: u32 = 40;

/// Slots that a sender asks for ahead of its messages: what comes from another core arrives in time then.
const AHEAD: u32 = 8;

pub(crate) fn area_words(geometry: &Geometry) -> usize {
    SLOTS + 2 * geometry.slots as usize * SLOT_WORDS
}

/// Splits R into generation and offset.
#[inline(always)]
pub(super) fn split(reserve: u64) -> (u32, u64) {
    ((reserve >> OFFSET_BITS) as u32, reserve & ((1 << OFFSET_BITS) - 1))
}

/// What a header at `offset` carries in its spare field: tells a header from payload where a walk must guess.
#[inline(always)]
pub(super) fn mark(offset: u32) -> u16 {
    offset as u16 ^ 0xCA57
}

/// The word where slot `offset` of a generation's half starts.
#[inline(always)]
pub(super) fn slot_word(slots: u32, generation: u32, offset: u32) -> usize {
    SLOTS + ((generation & 1) * slots + offset) as usize * SLOT_WORDS
}

/// A sender's end.
pub(crate) struct Producer {
    area: Area,
    slots: u32,
    intents: Intents,
    me: Rank,
    dest: Rank,
    /// The last insertion was refused: look before reserving, so that waiting senders don't fight for R.
    refused: bool,
    /// Where the next reservation lies if nobody else comes between.
    next: (u32, u32),
    /// Slots before this offset have been asked for.
    fetched: u32,
}

impl Producer {
    pub(crate) fn new(area: Area, geometry: &Geometry, intents: Intents, me: Rank, dest: Rank) -> Producer {
        Producer { area, slots: geometry.slots, intents, me, dest, refused: false, next: (0, 0), fetched: 0 }
    }

    #[inline(always)]
    pub(crate) fn try_insert(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        let count = slots_for(payload.len()) as u32;
        let reserve = self.area.word(RESERVE);
        if self.refused && split(reserve.load(Ordering::Relaxed)).1 >= u64::from(self.slots) {
            return Err(Refused);
        }
        let intents = self.intents;
        let intent = intents.of(self.me.0);
        intent.announce(self.dest.0, count);
        // Acquire: the slots were emptied before the consumer opened this half. Release: a consumer that sees the
        // reservation sees the announcement.
        let (generation, offset) = split(reserve.fetch_add(u64::from(count), Ordering::AcqRel));
        self.refused = offset + u64::from(count) > u64::from(self.slots);
        if self.refused {
            self.give_up(generation, offset, count);
            return Err(Refused);
        }
        let offset = offset as u32;
        intent.place(generation, offset);
        self.fetch_ahead(generation, offset, count);
        let word = slot_word(self.slots, generation, offset);
        self.area.publish(word, header, mark(offset), payload);
        intent.withdraw();
        Ok(())
    }

    /// Asks for the next slots' cache lines while nobody else inserts.
    ///
    /// The consumer had them last, and the next fetch-add would wait until they are here and written. With other senders in
    /// between, the next slots are theirs, and asking would take them away.
    #[inline(always)]
    fn fetch_ahead(&mut self, generation: u32, offset: u32, count: u32) {
        let end = offset + count;
        if self.next == (generation, offset) {
            let ahead = (end + AHEAD).min(self.slots);
            for slot in self.fetched.max(end)..ahead {
                self.area.prefetch(slot_word(self.slots, generation, slot));
            }
            self.fetched = ahead;
        } else {
            self.fetched = 0;
        }
        self.next = (generation, end);
    }

    /// Ends a reservation that does not fit. The first such one of a half marks where the half's messages end; the later
    /// ones lie beyond the half and need nothing.
    #[cold]
    fn give_up(&self, generation: u32, offset: u64, count: u32) {
        let intent = self.intents.of(self.me.0);
        if offset < u64::from(self.slots) {
            let offset = offset as u32;
            debug_assert!(offset + count > self.slots);
            intent.place(generation, offset);
            let end = Header { kind: PADDING, source: self.me.0, ..Header::default() };
            self.area.publish(slot_word(self.slots, generation, offset), &end, mark(offset), &[]);
        }
        intent.withdraw();
    }

    /// Reserves as an insertion does and stops there, as a sender that dies then would.
    #[cfg(test)]
    pub(crate) fn reserve_and_die(&mut self, payload_bytes: usize, placed: bool) {
        let count = slots_for(payload_bytes) as u32;
        let intent = self.intents.of(self.me.0);
        intent.announce(self.dest.0, count);
        let old = self.area.word(RESERVE).fetch_add(u64::from(count), Ordering::AcqRel);
        if placed {
            intent.place(split(old).0, split(old).1 as u32);
        }
    }
}
