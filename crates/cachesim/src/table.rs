//! When each block was touched last: an open-addressed table of 12 bytes an entry.

/// From blocks to the slots of their last accesses. Linear probing; nothing is ever removed.
#[derive(Clone, Debug)]
pub(crate) struct LastAccess {
    /// A block and a slot + 1 each; a slot of 0 is a free entry.
    blocks: Vec<u64>,
    slots: Vec<u32>,
    len: usize,
}

/// The smallest table, as a power of two.
const ENTRIES_MIN: usize = 64;

impl LastAccess {
    pub(crate) fn new() -> LastAccess {
        LastAccess { blocks: vec![0; ENTRIES_MIN], slots: vec![0; ENTRIES_MIN], len: 0 }
    }

    /// Distinct blocks.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory held. Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<u64>() + self.slots.capacity() * size_of::<u32>()
    }

    /// Notes that `block` was touched in `slot`; gives the slot before.
    #[inline]
    pub(crate) fn replace(&mut self, block: u64, slot: u32) -> Option<u32> {
        let at = self.place(block);
        let before = std::mem::replace(&mut self.slots[at], slot + 1);
        if before > 0 {
            return Some(before - 1);
        }
        self.blocks[at] = block;
        self.len += 1;
        // At most 7 of 8 entries are taken.
        if self.len * 8 > self.blocks.len() * 7 {
            self.grow();
        }
        None
    }

    /// Renumbers the slots.
    pub(crate) fn renumber(&mut self, mut new: impl FnMut(u32) -> u32) {
        for slot in self.slots.iter_mut().filter(|slot| **slot > 0) {
            *slot = new(*slot - 1) + 1;
        }
    }

    #[inline]
    fn place(&self, block: u64) -> usize {
        let mask = self.blocks.len() - 1;
        let mut at = (crate::sampled::hash(block) >> 32) as usize & mask;
        while self.slots[at] > 0 && self.blocks[at] != block {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let entries = self.blocks.len() * 2;
        let blocks = std::mem::replace(&mut self.blocks, vec![0; entries]);
        let slots = std::mem::replace(&mut self.slots, vec![0; entries]);
        for (block, slot) in blocks.into_iter().zip(slots).filter(|(_, slot)| *slot > 0) {
            let at = self.place(block);
            (self.blocks[at], self.slots[at]) = (block, slot);
        }
    }
}
