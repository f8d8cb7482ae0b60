//! The receive queues of a group in a segment of their own, for measurements and tests. (A job lays its own segment
//! out, with more in it.)

use castell_base::Rank;
use castell_host::HostError;
use castell_host::shm::Segment;

use super::{Consumer, Geometry, Producer};
use castell_shm::queue::{Intent, Intents, SLOT_BYTES};

/// Zeroed shared memory with a record of intent for each rank and a receive queue for each of the first few.
pub struct QueueMemory {
    segment: Segment,
    geometry: Geometry,
    receivers: u32,
}

impl QueueMemory {
    /// Memory for queues of this geometry at the ranks `0 … receivers - 1`.
    pub fn create(geometry: Geometry, receivers: u32) -> Result<QueueMemory, HostError> {
        let intents = geometry.ranks as usize * SLOT_BYTES;
        let segment =
            Segment::create("castell-queues", intents + receivers as usize * geometry.bytes_per_rank())?;
        Ok(QueueMemory { segment, geometry, receivers })
    }

    /// Maps every page for this process, writable, so that no page fault is measured. (Linux before 5.14 cannot.)
    pub fn populate(&self) {
        // SAFETY: the whole segment, which is mapped; its bytes stay as they are.
        unsafe { libc::madvise(self.segment.as_ptr().cast(), self.segment.len(), libc::MADV_POPULATE_WRITE) };
    }

    /// The queues' shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The end by which `me` inserts at `dest`.
    ///
    /// # Safety
    /// One producer a pair of ranks in the memory's life, counting those in other processes, and dropped before the
    /// memory.
    pub unsafe fn producer(&self, me: Rank, dest: Rank) -> Producer {
        // SAFETY: `area` and `intents` point into the segment; the rest is the caller's promise.
        unsafe { Producer::attach(self.area(dest), &self.geometry, self.intents(), me, dest) }
    }

    /// The end by which `me` empties its queue.
    ///
    /// # Safety
    /// One consumer a rank in the memory's life, counting those in other processes, and dropped before the memory.
    pub unsafe fn consumer(&self, me: Rank) -> Consumer {
        // SAFETY: as in `producer`.
        unsafe { Consumer::attach(self.area(me), &self.geometry, self.intents(), me) }
    }

    pub(super) fn intents(&self) -> Intents {
        // SAFETY: the segment starts with one slot a rank, and a record fits a slot.
        unsafe { Intents::new(self.segment.as_ptr().cast::<Intent>(), SLOT_BYTES, self.geometry.ranks) }
    }

    /// Puts all that counts messages a few of them below where it begins again. Before anybody's first use.
    #[cfg(test)]
    pub(super) fn grow_old(&self) {
        use super::{Area, QueueKind, ring::Rings, rlock, scmp};
        use castell_base::sync::Ordering;
        for rank in 0..self.geometry.ranks {
            self.intents().of(rank).grow_old();
        }
        let slots = self.geometry.ring_slots;
        for receiver in (0..self.receivers).map(Rank) {
            // SAFETY: inside the segment, which outlives this call.
            let area = unsafe { Area::new(self.area(receiver)) };
            let set = |at: usize, value: u64| area.word(at).store(value, Ordering::Relaxed);
            match self.geometry.kind {
                QueueKind::Scmp => scmp::grow_old(area),
                QueueKind::Rlock => set(rlock::STATE, (rlock::RELEASES - 3) << 32),
                QueueKind::Smsg => Rings::new(area, self.geometry.ranks, slots).grow_old(),
                QueueKind::Msgq => Rings::new(area, self.geometry.nodes(), slots).grow_old(),
            }
        }
    }

    fn area(&self, receiver: Rank) -> *mut u8 {
        assert!(receiver.0 < self.receivers, "rank {receiver} has no queue here");
        let intents = self.geometry.ranks as usize * SLOT_BYTES;
        let offset = intents + receiver.index() * self.geometry.bytes_per_rank();
        // SAFETY: inside the segment.
        unsafe { self.segment.as_ptr().add(offset) }
    }
}
