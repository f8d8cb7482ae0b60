//! A ring of slots with one writer at a time and one reader: what `smsg` and `msgq` are made of.
//!
//! Positions count slots and never wrap; a message lies contiguous, so what is left at the ring's end is padded when the
//! next message is longer. The reader publishes how far it is (head); the writer looks there only when its last
//! knowledge says "full".

use castell_base::sync::Ordering;

use castell_shm::queue::Refused;
use castell_shm::queue::area::Area;
use castell_shm::queue::header::{Header, PADDING, SLOT_WORDS, bytes_of, kind_of, slots_for, spare_of};

/// The reader's position; a line of its own.
const HEAD: usize = 0;
/// The writers' position.
const TAIL: usize = 8;
/// The writers' lock: 0 or the owner's rank + 1 (`msgq`).
const LOCK: usize = 9;
const SLOTS: usize = 16;

/// Words of a ring of `slots` slots.
pub(crate) fn ring_words(slots: u32) -> usize {
    SLOTS + slots as usize * SLOT_WORDS
}

fn mark(position: u64) -> u16 {
    position as u16 ^ 0x5A1E
}

/// A writer's end.
pub(crate) struct Writer {
    ring: Area,
    slots: u64,
    head: u64,
}

impl Writer {
    pub(crate) fn new(ring: Area, slots: u32) -> Writer {
        Writer { ring, slots: u64::from(slots), head: ring.word(HEAD).load(Ordering::Acquire) }
    }

    /// Appends a message; the caller is the only writer now.
    #[inline(always)]
    pub(crate) fn append(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        let tail = self.ring.word(TAIL).load(Ordering::Relaxed);
        let count = slots_for(payload.len()) as u64;
        let to_end = self.slots - (tail & (self.slots - 1));
        let padding = if count > to_end { to_end } else { 0 };
        let next = tail + padding + count;
        if next > self.head + self.slots {
            // Acquire: the reader emptied the slots before it moved its head.
            self.head = self.ring.word(HEAD).load(Ordering::Acquire);
            if next > self.head + self.slots {
                return Err(Refused);
            }
        }
        if padding > 0 {
            let end = Header { kind: PADDING, source: header.source, ..Header::default() };
            self.ring.publish(self.slot_word(tail), &end, mark(tail), &[]);
        }
        let position = tail + padding;
        self.ring.publish(self.slot_word(position), header, mark(position), payload);
        self.ring.word(TAIL).store(next, Ordering::Relaxed);
        Ok(())
    }

    /// Becomes the only writer if it is free within `tries` looks. The lock names its owner.
    #[inline]
    pub(crate) fn lock(&self, me: u32, tries: u32) -> bool {
        let lock = self.ring.word(LOCK);
        for _ in 0..tries {
            // Acquire: the previous owner's tail is visible.
            if lock.load(Ordering::Relaxed) == 0
                && lock.compare_exchange(0, u64::from(me) + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return true;
            }
            castell_base::sync::spin_hint();
        }
        false
    }

    pub(crate) fn unlock(&self) {
        self.ring.word(LOCK).store(0, Ordering::Release);
    }

    fn slot_word(&self, position: u64) -> usize {
        SLOTS + (position & (self.slots - 1)) as usize * SLOT_WORDS
    }
}

/// The reader's end.
pub(crate) struct Reader {
    ring: Area,
    slots: u64,
    /// Everything before this position is delivered.
    head: u64,
    /// Everything before this position is empty again, and the writers know it.
    cleared: u64,
}

impl Reader {
    pub(crate) fn new(ring: Area, slots: u32) -> Reader {
        let head = ring.word(HEAD).load(Ordering::Relaxed);
        Reader { ring, slots: u64::from(slots), head, cleared: head }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.word(self.slot_word(self.head)).load(Ordering::Acquire) == 0
    }

    #[inline]
    pub(crate) fn poll(&mut self, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        let mut count = 0;
        // Once around, the next slot is one that was read and not emptied yet.
        while count < limit && self.head - self.cleared < self.slots {
            let word = self.slot_word(self.head);
            let first = self.ring.word(word).load(Ordering::Acquire);
            if first == 0 {
                break;
            }
            assert!(spare_of(first) == mark(self.head), "a receive ring is damaged: {first:#x} is no header");
            if kind_of(first) == PADDING {
                self.head = (self.head | (self.slots - 1)) + 1;
                continue;
            }
            self.ring.deliver(word, first, deliver);
            self.head += slots_for(bytes_of(first) as usize) as u64;
            count += 1;
        }
        // Slots are not emptied as they are read: a message is answered sooner if the emptying waits until the answer is
        // under way. But the writers must not run out of slots meanwhile.
        if self.head != self.cleared && (count == 0 || self.head - self.cleared >= self.slots / 4) {
            self.clear();
        }
        count
    }

    /// Empties what was read and returns it to the writers.
    fn clear(&mut self) {
        for position in self.cleared..self.head {
            self.ring.clear_slots(self.slot_word(position), 1);
        }
        self.cleared = self.head;
        self.ring.word(HEAD).store(self.head, Ordering::Release);
    }

    /// Rank that holds the writers' lock.
    pub(crate) fn lock_owner(&self) -> Option<u32> {
        (self.ring.word(LOCK).load(Ordering::Acquire) as u32).checked_sub(1)
    }

    /// Frees the ring from a writer that died with the lock: keeps what it published, forgets what it began.
    pub(crate) fn repair(&mut self) {
        self.clear();
        let mut tail = self.ring.word(TAIL).load(Ordering::Relaxed).max(self.head);
        loop {
            let first = self.ring.word(self.slot_word(tail)).load(Ordering::Acquire);
            if first == 0 || tail == self.head + self.slots {
                break;
            }
            tail = match kind_of(first) {
                PADDING => (tail | (self.slots - 1)) + 1,
                _ => tail + slots_for(bytes_of(first) as usize) as u64,
            };
        }
        for position in tail..self.head + self.slots {
            self.ring.clear_slots(self.slot_word(position), 1);
        }
        self.ring.word(TAIL).store(tail, Ordering::Relaxed);
        self.ring.word(LOCK).store(0, Ordering::Release);
    }

    fn slot_word(&self, position: u64) -> usize {
        SLOTS + (position & (self.slots - 1)) as usize * SLOT_WORDS
    }
}

/// The rings of one receiver and which of them were ever used, so that it polls no others.
///
/// Word 0 counts rings that came into use; the bitmap of used rings follows on its own lines, then the rings.
#[derive(Clone, Copy)]
pub(crate) struct Rings {
    area: Area,
    rings: u32,
    slots: u32,
}

const USED_COUNT: usize = 0;
const USED: usize = 8;

impl Rings {
    /// Words of `rings` rings of `slots` slots.
    pub(crate) fn words(rings: u32, slots: u32) -> usize {
        Self::first_ring(rings) + rings as usize * ring_words(slots)
    }

    pub(crate) fn new(area: Area, rings: u32, slots: u32) -> Rings {
        Rings { area, rings, slots }
    }

    fn first_ring(rings: u32) -> usize {
        USED + (rings as usize).div_ceil(64).next_multiple_of(8)
    }

    /// Puts all positions a lap below 2^32, as after so many messages.
    #[cfg(test)]
    pub(super) fn grow_old(&self) {
        for ring in (0..self.rings).map(|index| self.ring(index)) {
            for word in [HEAD, TAIL] {
                ring.word(word).store((1 << 32) - u64::from(self.slots), Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn ring(&self, index: u32) -> Area {
        assert!(index < self.rings);
        self.area.at(Self::first_ring(self.rings) + index as usize * ring_words(self.slots))
    }

    pub(crate) fn writer(&self, index: u32) -> Writer {
        Writer::new(self.ring(index), self.slots)
    }

    /// Tells the receiver to poll ring `index` from now on; before the first message there.
    #[cold]
    pub(crate) fn enlist(&self, index: u32) {
        let bit = 1 << (index % 64);
        let word = self.area.word(USED + index as usize / 64);
        if word.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            // Release: who sees the count sees the bit.
            self.area.word(USED_COUNT).fetch_add(1, Ordering::Release);
        }
    }
}

/// The receiver's end of all its rings.
pub(crate) struct RingsReader {
    rings: Rings,
    used_count: u64,
    readers: Vec<(u32, Reader)>,
    /// Where the next poll begins, so that no ring starves the others.
    next: usize,
}

impl RingsReader {
    pub(crate) fn new(rings: Rings) -> RingsReader {
        RingsReader { rings, used_count: 0, readers: Vec::new(), next: 0 }
    }

    #[inline]
    pub(crate) fn poll(&mut self, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        self.find_new();
        let mut count = 0;
        for _ in 0..self.readers.len() {
            if count == limit {
                break;
            }
            if self.next >= self.readers.len() {
                self.next = 0;
            }
            count += self.readers[self.next].1.poll(limit - count, deliver);
            self.next += 1;
        }
        count
    }

    pub(crate) fn is_empty(&self) -> bool {
        let used_count = self.rings.area.word(USED_COUNT).load(Ordering::Acquire);
        used_count == self.used_count && self.readers.iter().all(|(_, reader)| reader.is_empty())
    }

    #[inline]
    fn find_new(&mut self) {
        let used_count = self.rings.area.word(USED_COUNT).load(Ordering::Acquire);
        if used_count != self.used_count {
            self.enroll(used_count);
        }
    }

    #[cold]
    fn enroll(&mut self, used_count: u64) {
        for word in 0..(self.rings.rings as usize).div_ceil(64) {
            let bits = self.rings.area.word(USED + word).load(Ordering::Acquire);
            for index in (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word as u32 * 64 + bit) {
                if self.readers.iter().all(|(known, _)| *known != index) {
                    self.readers.push((index, Reader::new(self.rings.ring(index), self.rings.slots)));
                }
            }
        }
        self.used_count = used_count;
    }

    /// All rings that are in use.
    pub(crate) fn readers(&mut self) -> impl Iterator<Item = &mut Reader> {
        self.find_new();
        self.readers.iter_mut().map(|(_, reader)| reader)
    }
}
