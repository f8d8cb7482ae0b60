//! Where each block is: an open-addressed table of 12 bytes an entry.

/// From blocks to slots. Linear probing; nothing is ever removed.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    /// 64 less the power of two that is the number of groups.
    shift: u32,
    len: usize,
}

/// A block's halves, and what is known of it: 0 that the entry is free, 1 that it is in front, else its slot + 2.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    low: u32,
    high: u32,
    state: u32,
}

const IN_FRONT: u32 = 1;
const SLOTS: u32 = 2;
/// Entries can say slots up to this, and some beyond.
pub(crate) const SLOT_MAX: usize = (u32::MAX >> 1) as usize;

/// Neighbouring blocks of a group are neighbours in the table, since programs go from one to the next.
const GROUP: u64 = 8;
/// Groups of the smallest table, as a power of two.
const GROUPS_MIN: u32 = 3;

impl Table {
    pub(crate) fn new() -> Table {
        Table {
            entries: vec![Entry::default(); (GROUP as usize) << GROUPS_MIN],
            shift: u64::BITS - GROUPS_MIN,
            len: 0,
        }
    }

    /// Distinct blocks.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory held. Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// Whether it has to [`Table::grow`] before another block may come: at most 3 of 4 entries are taken.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.len * 4 >= self.entries.len() * 3
    }

    /// A block that is not in front is there from now on: its place, and the slot that it had, if it was touched before.
    #[inline(always)]
    pub(crate) fn bring_to_front(&mut self, block: u64) -> (u32, Option<u32>) {
        let place = self.find(block);
        let entry = &mut self.entries[place];
        let before = entry.state;
        (entry.low, entry.high, entry.state) = (block as u32, (block >> 32) as u32, IN_FRONT);
        self.len += usize::from(before == 0);
        (place as u32, before.checked_sub(SLOTS))
    }

    /// The block of this place is in front no longer.
    #[inline(always)]
    pub(crate) fn settle(&mut self, place: u32, slot: usize) {
        self.entries[place as usize].state = slot as u32 + SLOTS;
    }

    /// Brings the entries of blocks into the processor's caches, several at the same time.
    #[inline(always)]
    pub(crate) fn look_at(&self, blocks: &[u64]) {
        let states = blocks.iter().map(|block| self.entries[self.home(*block)].state);
        std::hint::black_box(states.fold(0, |sum, state| sum ^ state));
    }

    /// Where a block is, if no others are in its way.
    #[inline(always)]
    fn home(&self, block: u64) -> usize {
        let hash = (block / GROUP).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Also in a group their order is mixed: blocks may lie a group's size apart.
        let inside = (block ^ (hash >> 8)) % GROUP;
        ((hash >> self.shift) * GROUP + inside) as usize & (self.entries.len() - 1)
    }

    /// The place of a block, or where it would be.
    #[inline(always)]
    pub(crate) fn find(&self, block: u64) -> usize {
        let (low, high) = (block as u32, (block >> 32) as u32);
        let mask = self.entries.len() - 1;
        let mut at = self.home(block);
        loop {
            let entry = &self.entries[at];
            if entry.state == 0 || (entry.low == low && entry.high == high) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Makes it twice as large: all places change.
    #[cold]
    pub(crate) fn grow(&mut self) {
        let entries = self.entries.len() * 2;
        self.shift -= 1;
        let entries = std::mem::replace(&mut self.entries, vec![Entry::default(); entries]);
        for entry in entries.into_iter().filter(|entry| entry.state > 0) {
            let place = self.find(u64::from(entry.high) << 32 | u64::from(entry.low));
            self.entries[place] = entry;
        }
    }

    /// Renumbers the slots.
    pub(crate) fn renumber(&mut self, mut new: impl FnMut(u32) -> u32) {
        for entry in self.entries.iter_mut().filter(|entry| entry.state >= SLOTS) {
            entry.state = new(entry.state - SLOTS) + SLOTS;
        }
    }
}
