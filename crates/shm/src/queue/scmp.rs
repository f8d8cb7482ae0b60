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
/// Generations are `0 … GENERATIONS - 1`, then begin again.
pub(super) const GENERATIONS: u64 = 1 << (64 - OFFSET_BITS);

/// Slots that a sender asks for ahead of its messages: what comes from another core arrives in time then.
const AHEAD: u32 = 8;

pub(crate) fn area_words(geometry: &Geometry) -> usize {
    SLOTS + 2 * geometry.slots as usize * SLOT_WORDS
}

/// Puts a queue that nobody has used a few generations below where they begin again. For tests.
#[doc(hidden)]
pub fn grow_old(area: Area) {
    area.word(RESERVE).store((GENERATIONS - 2) << OFFSET_BITS, Ordering::Relaxed);
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

/// A sender's end of one receiver's queue.
pub struct Producer {
    area: Area,
    slots: u32,
    bytes_max: usize,
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
    /// The end by which rank `me` inserts into the queue of rank `dest`, whose memory is at `area`.
    ///
    /// # Safety
    /// `area` points to [`Geometry::bytes_per_rank`] bytes, aligned to 64, zeroed before the first use by anybody, and
    /// mapped as long as the result lives; the same holds for `intents`. There is one producer a pair of ranks in a
    /// job's life, all ranks use the same geometry, and only one thread of a rank inserts at a time.
    pub unsafe fn attach(
        area: *mut u8,
        geometry: &Geometry,
        intents: Intents,
        me: Rank,
        dest: Rank,
    ) -> Producer {
        geometry.assert_sane();
        // SAFETY: the caller's promise.
        let area = unsafe { Area::new(area) };
        let (slots, bytes_max) = (geometry.slots, geometry.message_bytes_max());
        Producer { area, slots, bytes_max, intents, me, dest, refused: false, next: (0, 0), fetched: 0 }
    }

    /// Inserts a message whose `header.bytes` is the payload's length; never blocks.
    ///
    /// # Errors
    /// The queue is full.
    ///
    /// # Panics
    /// If the payload is longer than [`Geometry::message_bytes_max`] or the header's kind is 0 or 255.
    #[inline(always)]
    pub fn try_insert(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        assert!(
            payload.len() <= self.bytes_max && header.kind.wrapping_add(1) > 1,
            "a message of {} bytes and kind {} cannot be inserted: at most {} bytes, kind 1 … 254",
            payload.len(),
            header.kind,
            self.bytes_max
        );
        debug_assert_eq!(header.bytes as usize, payload.len());
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

    /// Reserves as an insertion does and stops there, as a sender that dies then would. For tests.
    #[doc(hidden)]
    pub fn reserve_and_die(&mut self, payload_bytes: usize, placed: bool) {
        let count = slots_for(payload_bytes) as u32;
        let intent = self.intents.of(self.me.0);
        intent.announce(self.dest.0, count);
        let old = self.area.word(RESERVE).fetch_add(u64::from(count), Ordering::AcqRel);
        if placed {
            intent.place(split(old).0, split(old).1 as u32);
        }
    }
}
