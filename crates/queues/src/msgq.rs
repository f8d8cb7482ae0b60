//! msgq: one ring per (node, receiver). Memory grows with nodes; the senders of a node take turns under a lock.

use castell_base::Rank;

use super::geometry::Geometry;
use super::ring::{Rings, RingsReader, Writer};
use castell_shm::queue::Refused;
use castell_shm::queue::area::Area;
use castell_shm::queue::header::Header;

/// Looks at a taken lock before an insertion is refused. Its owner may be preempted or dead: waiting is the caller's.
const LOCK_TRIES: u32 = if cfg!(loom) { 1 } else { 128 };

pub(crate) fn area_words(geometry: &Geometry) -> usize {
    Rings::words(geometry.nodes(), geometry.ring_slots)
}

/// A sender's end.
pub(crate) struct Producer {
    rings: Rings,
    writer: Writer,
    me: Rank,
    node: u32,
    enlisted: bool,
}

impl Producer {
    pub(crate) fn new(area: Area, geometry: &Geometry, me: Rank) -> Producer {
        let rings = Rings::new(area, geometry.nodes(), geometry.ring_slots);
        let node = me.0 / geometry.ranks_per_node;
        Producer { rings, writer: rings.writer(node), me, node, enlisted: false }
    }

    #[inline(always)]
    pub(crate) fn try_insert(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        if !self.enlisted {
            self.rings.enlist(self.node);
            self.enlisted = true;
        }
        if !self.writer.lock(self.me.0, LOCK_TRIES) {
            return Err(Refused);
        }
        let result = self.writer.append(header, payload);
        self.writer.unlock();
        result
    }

    /// Takes the lock and keeps it, as a sender that dies then would.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn lock_and_die(&mut self) {
        self.rings.enlist(self.node);
        assert!(self.writer.lock(self.me.0, 1));
    }
}

/// The receiver's end.
pub(crate) struct Consumer {
    rings: RingsReader,
}

impl Consumer {
    pub(crate) fn new(area: Area, geometry: &Geometry) -> Consumer {
        Consumer { rings: RingsReader::new(Rings::new(area, geometry.nodes(), geometry.ring_slots)) }
    }

    #[inline]
    pub(crate) fn poll(&mut self, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        self.rings.poll(limit, deliver)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Takes the locks of dead ranks away.
    pub(crate) fn reclaim_dead(&mut self, is_dead: &dyn Fn(Rank) -> bool) -> bool {
        for reader in self.rings.readers() {
            if reader.lock_owner().is_some_and(|owner| is_dead(Rank(owner))) {
                reader.repair();
            }
        }
        true
    }
}
