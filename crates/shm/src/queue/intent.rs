//! Who is inserting where: one small record a rank, written by that rank alone.
//!
//! A rank announces an insertion before it touches another rank's queue and takes the announcement back afterwards. The
//! record lies in the rank's own cache line, so it costs a few plain stores. The queue's owner reads all records, and
//! only when a reservation is late: they say whose it is, how long it is, and so how to go on without it.

use castell_base::sync::{AtomicU64, Ordering};

/// One rank's announcement. Zeroed memory is a valid record. Give it a cache line that other ranks rarely touch.
///
/// A rank has one record, so only one of its threads may insert at a time.
#[derive(Debug)]
#[repr(C)]
pub struct Intent {
    /// Bits 0-19 receiver + 1 (0: none), 20-35 slots, 36-63 a count that changes with each announcement.
    what: AtomicU64,
    /// 0 until the place is known; then bit 63, bits 32-55 the generation, 0-31 the offset.
    place: AtomicU64,
}

const RANK_MASK: u64 = (1 << 20) - 1;
const SLOTS_MASK: u64 = (1 << 16) - 1;
const COUNT_SHIFT: u32 = 36;

/// The most ranks that a job with queues can have: a record has 20 bits for a rank.
pub const RANKS_MAX: u32 = (1 << 20) - 1;
/// The most slots that a message can cover: a record has 16 bits for them.
pub(crate) const MESSAGE_SLOTS_MAX: u32 = SLOTS_MASK as u32;

/// What a record said at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    pub slots: u32,
    /// Generation and offset, once the reservation is made.
    pub place: Option<(u32, u32)>,
}

impl Intent {
    /// A record that announces nothing.
    pub fn new() -> Intent {
        Intent { what: AtomicU64::new(0), place: AtomicU64::new(0) }
    }

    /// A few announcements below where their count begins again. For tests.
    #[doc(hidden)]
    pub fn grow_old(&self) {
        self.what.store(((u64::MAX >> COUNT_SHIFT) - 2) << COUNT_SHIFT, Ordering::Relaxed);
    }

    /// Before the reservation: `slots` slots in the queue of rank `dest`.
    #[inline(always)]
    pub fn announce(&self, dest: u32, slots: u32) {
        let count = (self.what.load(Ordering::Relaxed) >> COUNT_SHIFT).wrapping_add(1);
        self.place.store(0, Ordering::Release);
        // Release: whoever sees the new announcement does not see the old place.
        self.what
            .store(count << COUNT_SHIFT | u64::from(slots) << 20 | u64::from(dest + 1), Ordering::Release);
    }

    /// After the reservation: where it is.
    #[inline(always)]
    pub fn place(&self, generation: u32, offset: u32) {
        self.place.store(1 << 63 | u64::from(generation) << 32 | u64::from(offset), Ordering::Release);
    }

    /// After the message is published (or the reservation given up).
    #[inline(always)]
    pub fn withdraw(&self) {
        let what = self.what.load(Ordering::Relaxed);
        // Release: whoever sees the record empty sees the message, too.
        self.what.store(what >> COUNT_SHIFT << COUNT_SHIFT, Ordering::Release);
    }

    /// What the rank announces for the queue of rank `dest`, if anything; `Err` if the record changed meanwhile.
    pub fn read(&self, dest: u32) -> Result<Option<Announced>, Changing> {
        let what = self.what.load(Ordering::Acquire);
        if what & RANK_MASK != u64::from(dest + 1) {
            return Ok(None);
        }
        let place = self.place.load(Ordering::Acquire);
        // A place of another announcement than `what` was stored after `what` had changed: seen here.
        if self.what.load(Ordering::Relaxed) != what {
            return Err(Changing);
        }
        let known = place >> 63 == 1;
        Ok(Some(Announced {
            slots: (what >> 20 & SLOTS_MASK) as u32,
            place: known.then_some(((place >> 32) as u32 & !(1 << 31), place as u32)),
        }))
    }
}

impl Default for Intent {
    fn default() -> Intent {
        Intent::new()
    }
}

/// A record changed while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changing;

/// Where the records of all ranks lie: the first one's address and the distance from one to the next.
#[derive(Clone, Copy, Debug)]
pub struct Intents {
    first: *const Intent,
    stride: usize,
    ranks: u32,
}

// SAFETY: the records are shared between processes by design; all access is atomic.
unsafe impl Send for Intents {}

impl Intents {
    /// The records of `ranks` ranks, `stride` bytes apart.
    ///
    /// # Safety
    /// All records are mapped, aligned to 8 bytes, and stay so as long as the result or a queue made with it lives.
    pub unsafe fn new(first: *const Intent, stride: usize, ranks: u32) -> Intents {
        assert!(ranks <= RANKS_MAX, "a job with receive queues has at most {RANKS_MAX} ranks, not {ranks}");
        Intents { first, stride, ranks }
    }

    /// Number of records.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The record of `rank`.
    #[inline(always)]
    pub fn of(&self, rank: u32) -> &Intent {
        debug_assert!(rank < self.ranks);
        // SAFETY: `new` promised `ranks` records.
        unsafe { &*self.first.byte_add(rank as usize * self.stride) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_was_announced() {
        let intent = Intent::new();
        assert_eq!(intent.read(5), Ok(None));
        intent.announce(5, 12);
        assert_eq!(intent.read(4), Ok(None));
        assert_eq!(intent.read(5), Ok(Some(Announced { slots: 12, place: None })));
        intent.place(0xFF_FFFF, 4095);
        assert_eq!(intent.read(5), Ok(Some(Announced { slots: 12, place: Some((0xFF_FFFF, 4095)) })));
        intent.withdraw();
        assert_eq!(intent.read(5), Ok(None));
        intent.announce(0, 1);
        assert_eq!(intent.read(0), Ok(Some(Announced { slots: 1, place: None })));
        intent.announce(RANKS_MAX - 1, MESSAGE_SLOTS_MAX);
        let all = Announced { slots: MESSAGE_SLOTS_MAX, place: None };
        assert_eq!(intent.read(RANKS_MAX - 1), Ok(Some(all)));
    }

    /// Who reads a record twice sees that there was another announcement between, even if it was for the same.
    #[test]
    fn no_two_announcements_in_a_row_look_the_same() {
        let intent = Intent::new();
        let count = || intent.what.load(Ordering::Relaxed) >> COUNT_SHIFT;
        for announcement in 1..5 {
            intent.announce(5, 12);
            assert_eq!(count(), announcement);
            intent.withdraw();
            assert_eq!((count(), intent.read(5)), (announcement, Ok(None)));
        }
        // The count begins again, and touches nothing beside it.
        intent.grow_old();
        for left in [3, 2, 1, 0, u64::MAX] {
            assert_eq!(count(), 0u64.wrapping_sub(left) & (u64::MAX >> COUNT_SHIFT));
            intent.announce(6, 3);
            assert_eq!(intent.read(6), Ok(Some(Announced { slots: 3, place: None })));
        }
    }
}
