//! Stack reuse distances (Mattson et al. 1970; for programs Weidendorfer and Breitbart, COSH 2016).
//!
//! The distance of an access is how many distinct blocks were touched since the last access to its block. A fully associative
//! cache of S blocks that drops the least recently used one hits exactly the accesses with distances below S.
//!
//! Time is a row of slots, one an access, with a mark in the slot of each block's last access: the distance is the number of
//! marks behind the slot of the block. Marks are bits, counted by words where the slot is near and by a tree of sums where it is
//! far. When the slots run out, the marks move together; so memory and the cost of an access depend on how many blocks
//! there are, not on how many accesses there were.

use crate::table::LastAccess;

/// Bits of a line, the unit of the tree's sums.
const LINE_BITS: usize = 512;
const LINE_WORDS: usize = LINE_BITS / 64;
/// Up to so many words between the last access and now are counted one by one.
const NEAR_WORDS: usize = 32;
/// Slots to begin with.
const SLOTS_MIN: usize = 4096;
/// Slots for each block, after the marks have moved together.
const SLOTS_A_BLOCK: usize = 2;
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
    last: LastAccess,
    /// A bit a slot: some block was touched last then.
    marks: Vec<u64>,
    /// Fenwick tree over lines of marks.
    sums: Vec<u32>,
    /// The next slot.
    now: usize,
}

impl Default for StackDistances {
    fn default() -> StackDistances {
        StackDistances::new()
    }
}

impl StackDistances {
    /// Before the first access.
    pub fn new() -> StackDistances {
        let (marks, sums) = (vec![0; SLOTS_MIN / 64], vec![0; SLOTS_MIN / LINE_BITS]);
        StackDistances { last: LastAccess::new(), marks, sums, now: 0 }
    }

    /// The next access: its distance, in blocks; `None` where the block was not touched before.
    ///
    /// # Panics
    /// Beyond [`BLOCKS_MAX`] distinct blocks.
    #[inline]
    pub fn access(&mut self, block: u64) -> Option<u64> {
        if self.now == self.marks.len() * 64 {
            self.move_together();
        }
        let slot = self.now;
        self.now += 1;
        let before = self.last.replace(block, slot as u32);
        let distance = before.map(|before| {
            let between = self.marks_behind(before as usize, slot);
            self.unmark(before as usize);
            between
        });
        self.marks[slot / 64] |= 1 << (slot % 64);
        self.add(slot / LINE_BITS, 1);
        distance
    }

    /// Distinct blocks so far.
    pub fn blocks(&self) -> u64 {
        self.last.len() as u64
    }

    /// Memory held. Bytes.
    pub fn bytes(&self) -> usize {
        self.last.bytes() + self.marks.capacity() * size_of::<u64>() + self.sums.capacity() * size_of::<u32>()
    }

    /// Marks in the slots behind `slot`, before `now`.
    #[inline]
    fn marks_behind(&self, slot: usize, now: usize) -> u64 {
        let (first, last) = (slot / 64, now / 64);
        let rest = self.marks[first] >> (slot % 64) >> 1;
        if last - first <= NEAR_WORDS {
            let words = &self.marks[first + 1..=last.min(self.marks.len() - 1)];
            return u64::from(rest.count_ones()) + count(words);
        }
        // All marks but those up to the slot. Its block is not counted twice: its new mark is not there yet.
        let line = slot / LINE_BITS;
        let before = self.sum(line) + count(&self.marks[line * LINE_WORDS..first]);
        let own = self.marks[first].count_ones() - rest.count_ones();
        self.marks_in_all() - before - u64::from(own)
    }

    /// Each block has a mark, but for one that is touched for the first time.
    fn marks_in_all(&self) -> u64 {
        self.last.len() as u64
    }

    #[inline]
    fn unmark(&mut self, slot: usize) {
        self.marks[slot / 64] &= !(1 << (slot % 64));
        self.add(slot / LINE_BITS, u32::MAX);
    }

    /// Adds to a line's sum; `u32::MAX` takes one away.
    #[inline]
    fn add(&mut self, line: usize, change: u32) {
        let mut at = line;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add(change);
            at |= at + 1;
        }
    }

    /// Marks in the lines before `line`.
    #[inline]
    fn sum(&self, line: usize) -> u64 {
        let (mut at, mut sum) = (line, 0);
        while at > 0 {
            sum += u64::from(self.sums[at - 1]);
            at &= at - 1;
        }
        sum
    }

    /// The marks take the first slots, in their order, and as many again are free.
    #[cold]
    fn move_together(&mut self) {
        let blocks = self.last.len();
        assert!(
            blocks <= BLOCKS_MAX,
            "more than {BLOCKS_MAX} distinct blocks: take larger blocks, or a sample"
        );
        let mut before = Vec::with_capacity(self.marks.len());
        let mut sum = 0u32;
        for word in &self.marks {
            before.push(sum);
            sum += word.count_ones();
        }
        let marks = &self.marks;
        self.last.renumber(|slot| {
            let (word, bit) = (slot as usize / 64, slot % 64);
            before[word] + (marks[word] & ((1 << bit) - 1)).count_ones()
        });
        let slots = (blocks * SLOTS_A_BLOCK).next_multiple_of(LINE_BITS).max(SLOTS_MIN);
        self.marks.clear();
        self.marks.resize(slots / 64, 0);
        self.marks[..blocks / 64].fill(u64::MAX);
        if !blocks.is_multiple_of(64) {
            self.marks[blocks / 64] = (1 << (blocks % 64)) - 1;
        }
        self.sums.clear();
        self.sums.resize(slots / LINE_BITS, 0);
        for line in 0..self.sums.len() {
            let own = count(&self.marks[line * LINE_WORDS..(line + 1) * LINE_WORDS]) as u32;
            self.add(line, own);
        }
        self.now = blocks;
    }
}

#[inline]
fn count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}
