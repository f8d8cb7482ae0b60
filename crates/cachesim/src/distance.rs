//! Stack reuse distances (Mattson et al. 1970; for programs Weidendorfer and Breitbart, COSH 2016).
//!
//! The distance of an access is how many distinct blocks were touched since the last access to its block. A fully associative
//! cache of S blocks that drops the least recently used one hits exactly the accesses with distances below S.
//!
//! The blocks touched last are kept in their order. Of the others it is known when each left these: time is a row of slots, with a
//! mark in the slot of each block, so that the distance is the number of marks behind it, and of blocks in front. When
//! the slots run out, the marks move together; so memory and the cost of an access depend on how many blocks there are, not on
//! how many accesses there were.

use crate::front::{FRONT, Front};
use crate::marks::Marks;
use crate::table::{SLOT_MAX, Table};
use castell_base::Vectors;

/// So many blocks are looked up at once.
const AT_ONCE: usize = 32;
/// Slots to begin with.
const SLOTS_MIN: usize = 4096;
/// Slots for each block, after the marks have moved together.
const SLOTS_A_BLOCK: usize = 4;
/// The most distinct blocks that can be told apart.
pub const BLOCKS_MAX: usize = 1 << 30;

/// The distances of a trace, access by access.
///
/// ```
/// use castell_cachesim::StackDistances;
///
/// let mut distances = StackDistances::new();
/// let of: Vec<Option<u64>> = [1, 2, 3, 1, 1, 2].map(|block| distances.access(block)).to_vec();
/// assert_eq!(of, [None, None, None, Some(2), Some(0), Some(2)]);
/// ```
#[derive(Clone, Debug)]
pub struct StackDistances {
    front: Front,
    table: Table,
    /// Of the blocks that are not in front, each in the slot that was the next one when it left.
    marks: Marks,
}

impl Default for StackDistances {
    fn default() -> StackDistances {
        StackDistances::new()
    }
}

impl StackDistances {
    /// Before the first access.
    pub fn new() -> StackDistances {
        StackDistances { front: Front::new(), table: Table::new(), marks: Marks::new(SLOTS_MIN, 0) }
    }

    /// The next access: its distance, in blocks; `None` where the block was not touched before.
    ///
    /// # Panics
    /// Beyond [`BLOCKS_MAX`] distinct blocks.
    #[inline]
    pub fn access(&mut self, block: u64) -> Option<u64> {
        self.next(block)
    }

    /// Accesses one after the other, each as [`StackDistances::access`] has it, and what to do with block and distance: faster than one
    /// by one.
    ///
    /// # Panics
    /// As [`StackDistances::access`].
    pub fn access_all(&mut self, blocks: impl Iterator<Item = u64>, mut each: impl FnMut(u64, Option<u64>)) {
        Vectors::widest().run(
            #[inline(always)]
            || {
                let mut blocks = blocks;
                let mut some = [0; AT_ONCE];
                loop {
                    let mut taken = 0;
                    for (place, block) in some.iter_mut().zip(blocks.by_ref()) {
                        *place = block;
                        taken += 1;
                    }
                    self.table.look_at(&some[..taken]);
                    for &block in &some[..taken] {
                        each(block, self.next(block));
                    }
                    if taken < AT_ONCE {
                        break;
                    }
                }
            },
        );
    }

    #[inline(always)]
    fn next(&mut self, block: u64) -> Option<u64> {
        match self.front.touch(block) {
            Some(distance) => Some(distance),
            None => self.fetch(block),
        }
    }

    /// An access to a block that is not in front.
    #[inline(always)]
    fn fetch(&mut self, block: u64) -> Option<u64> {
        if self.marks.next() == self.marks.slots() {
            self.move_together();
        }
        if self.table.is_full() {
            self.table.grow();
            self.front.move_to(|block| self.table.find(block) as u32);
        }
        let (place, slot) = self.table.bring_to_front(block);
        let distance = slot.map(|slot| {
            let behind = self.marks.behind(slot as usize);
            self.marks.clear(slot as usize);
            behind + FRONT as u64
        });
        if let Some(place) = self.front.push(block, place) {
            self.table.settle(place, self.marks.next());
            self.marks.set();
        }
        distance
    }

    /// Distinct blocks so far.
    pub fn blocks(&self) -> u64 {
        self.table.len() as u64
    }

    /// Memory held. Bytes.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.marks.bytes()
    }

    /// The marks take the first slots, in their order, and several times as many are free.
    #[cold]
    fn move_together(&mut self) {
        let marked = self.table.len() - FRONT;
        assert!(
            marked < BLOCKS_MAX,
            "more than {BLOCKS_MAX} distinct blocks: take larger blocks, or a sample"
        );
        let words = self.marks.words();
        self.table.renumber(|slot| {
            let (before, word) = words[slot as usize / 64];
            before + (word & ((1 << (slot % 64)) - 1)).count_ones()
        });
        let slots = (marked * SLOTS_A_BLOCK).clamp(SLOTS_MIN, SLOT_MAX);
        self.marks = Marks::new(slots, marked);
    }
}
