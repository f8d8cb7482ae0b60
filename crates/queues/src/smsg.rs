//! smsg: one ring per (sender, receiver). Memory grows with ranks; senders never meet.

use castell_base::Rank;

use super::geometry::Geometry;
use super::ring::{Rings, RingsReader, Writer};
use castell_shm::queue::Refused;
use castell_shm::queue::area::Area;
use castell_shm::queue::header::Header;

pub(crate) fn area_words(geometry: &Geometry) -> usize {
    Rings::words(geometry.ranks, geometry.ring_slots)
}

/// A sender's end.
pub(crate) struct Producer {
    rings: Rings,
    writer: Writer,
    me: Rank,
    enlisted: bool,
}

impl Producer {
    pub(crate) fn new(area: Area, geometry: &Geometry, me: Rank) -> Producer {
        let rings = Rings::new(area, geometry.ranks, geometry.ring_slots);
        Producer { rings, writer: rings.writer(me.0), me, enlisted: false }
    }

    #[inline(always)]
    pub(crate) fn try_insert(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        if !self.enlisted {
            self.rings.enlist(self.me.0);
            self.enlisted = true;
        }
        self.writer.append(header, payload)
    }
}

/// The receiver's end.
pub(crate) type Consumer = RingsReader;

/// The receiver's end for the memory at `area`.
pub(crate) fn consumer(area: Area, geometry: &Geometry) -> Consumer {
    RingsReader::new(Rings::new(area, geometry.ranks, geometry.ring_slots))
}
