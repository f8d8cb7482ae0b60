//! Receive queues to compare: the one that messages go through ([`castell_shm::queue`], SCMP) and three other designs, behind one
//! pair of ends, chosen by name ([`QueueKind`]).
//!
//! Each rank owns one area of shared memory ([`Geometry::bytes_per_rank`], zeroed, aligned to 64 bytes) and one [`Consumer`]; every
//! rank that sends to it has a [`Producer`] there. One conformance suite and one set of loom models run over all four;
//! `castell-bench` times them. README.md beside this file has the other designs' protocols.
//! Nothing here carries messages of a job.

mod geometry;
#[cfg(not(loom))]
pub mod memory;
mod msgq;
mod ring;
mod rlock;
mod smsg;

#[cfg(all(test, not(loom)))]
mod conformance;
#[cfg(all(test, not(loom)))]
mod deaths;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod processes;

use castell_base::Rank;
use castell_shm::queue as scmp;
use castell_shm::queue::area::Area;
use castell_shm::queue::{Header, Intents, Refused};
pub use geometry::{Geometry, QueueKind, UnknownQueue};

impl Geometry {
    /// Bytes of one rank's area, a multiple of 64; the area itself must start on a multiple of 64.
    pub fn bytes_per_rank(&self) -> usize {
        self.assert_sane();
        match self.kind {
            QueueKind::Scmp => self.scmp().bytes_per_rank(),
            QueueKind::Smsg => 8 * smsg::area_words(self),
            QueueKind::Msgq => 8 * msgq::area_words(self),
            QueueKind::Rlock => 8 * rlock::area_words(self),
        }
    }
}

/// A sender's end of one receiver's queue.
pub struct Producer {
    end: ProducerEnd,
    bytes_max: usize,
}

enum ProducerEnd {
    Scmp(scmp::Producer),
    Smsg(smsg::Producer),
    Msgq(msgq::Producer),
    Rlock(rlock::Producer),
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
        let scmp = || unsafe { scmp::Producer::attach(area, &geometry.scmp(), intents, me, dest) };
        // SAFETY: the caller's promise.
        let area = unsafe { Area::new(area) };
        let end = match geometry.kind {
            QueueKind::Scmp => ProducerEnd::Scmp(scmp()),
            QueueKind::Smsg => ProducerEnd::Smsg(smsg::Producer::new(area, geometry, me)),
            QueueKind::Msgq => ProducerEnd::Msgq(msgq::Producer::new(area, geometry, me)),
            QueueKind::Rlock => ProducerEnd::Rlock(rlock::Producer::new(area, geometry, intents, me, dest)),
        };
        Producer { end, bytes_max: geometry.message_bytes_max() }
    }

    /// Inserts a message whose `header.bytes` is the payload's length; never blocks.
    ///
    /// # Panics
    /// If the payload is longer than [`Geometry::message_bytes_max`] or the header's kind is 0 or 255.
    #[inline]
    pub fn try_insert(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        assert!(
            payload.len() <= self.bytes_max && header.kind.wrapping_add(1) > 1,
            "a message of {} bytes and kind {} cannot be inserted: at most {} bytes, kind 1 … 254",
            payload.len(),
            header.kind,
            self.bytes_max
        );
        debug_assert_eq!(header.bytes as usize, payload.len());
        match &mut self.end {
            ProducerEnd::Scmp(end) => end.try_insert(header, payload),
            ProducerEnd::Smsg(end) => end.try_insert(header, payload),
            ProducerEnd::Msgq(end) => end.try_insert(header, payload),
            ProducerEnd::Rlock(end) => end.try_insert(header, payload),
        }
    }
}

/// A receiver's end of its own queue.
pub struct Consumer {
    end: ConsumerEnd,
}

enum ConsumerEnd {
    Scmp(scmp::Consumer),
    Smsg(smsg::Consumer),
    Msgq(msgq::Consumer),
    Rlock(rlock::Consumer),
}

impl Consumer {
    /// The end by which rank `me` empties its queue, whose memory is at `area`.
    ///
    /// # Safety
    /// As for [`Producer::attach`]; there is one consumer a rank in a job's life.
    pub unsafe fn attach(area: *mut u8, geometry: &Geometry, intents: Intents, me: Rank) -> Consumer {
        geometry.assert_sane();
        // SAFETY: the caller's promise.
        let scmp = || unsafe { scmp::Consumer::attach(area, &geometry.scmp(), intents, me) };
        // SAFETY: the caller's promise.
        let area = unsafe { Area::new(area) };
        let end = match geometry.kind {
            QueueKind::Scmp => ConsumerEnd::Scmp(scmp()),
            QueueKind::Smsg => ConsumerEnd::Smsg(smsg::consumer(area, geometry)),
            QueueKind::Msgq => ConsumerEnd::Msgq(msgq::Consumer::new(area, geometry)),
            QueueKind::Rlock => ConsumerEnd::Rlock(rlock::Consumer::new(area, geometry, intents, me)),
        };
        Consumer { end }
    }

    /// Hands up to `limit` messages to `deliver`, each in place, and frees it afterwards; says how many. Never blocks.
    #[inline]
    pub fn poll(&mut self, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        match &mut self.end {
            ConsumerEnd::Scmp(end) => end.poll(limit, deliver),
            ConsumerEnd::Smsg(end) => end.poll(limit, deliver),
            ConsumerEnd::Msgq(end) => end.poll(limit, deliver),
            ConsumerEnd::Rlock(end) => end.poll(limit, deliver),
        }
    }

    /// Whether polling is useless until a sender inserts something: the look before going to sleep.
    pub fn is_empty(&self) -> bool {
        match &self.end {
            ConsumerEnd::Scmp(end) => end.is_empty(),
            ConsumerEnd::Smsg(end) => end.is_empty(),
            ConsumerEnd::Msgq(end) => end.is_empty(),
            ConsumerEnd::Rlock(end) => end.is_empty(),
        }
    }

    /// How many polls delivered messages before others that had been inserted earlier, possibly by the same sender:
    /// only `Scmp` does, only while a producer is late whose reservation's length cannot be found out.
    pub fn overtakes(&self) -> u64 {
        match &self.end {
            ConsumerEnd::Scmp(end) => end.overtakes(),
            _ => 0,
        }
    }

    /// Settles what dead ranks left unfinished here: reservations, locks. True once nothing of theirs is left; until
    /// then call it again between polls. `is_dead` must say so only of ranks that will never run again.
    pub fn reclaim_dead(&mut self, is_dead: &dyn Fn(Rank) -> bool) -> bool {
        match &mut self.end {
            ConsumerEnd::Scmp(end) => end.reclaim_dead(is_dead),
            ConsumerEnd::Smsg(_) => true,
            ConsumerEnd::Msgq(end) => end.reclaim_dead(is_dead),
            ConsumerEnd::Rlock(end) => end.reclaim_dead(is_dead),
        }
    }
}
