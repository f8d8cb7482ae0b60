//! How large a queue is.

use super::header::{HEADER_BYTES, SLOT_BYTES};
use super::intent::MESSAGE_SLOTS_MAX;
use super::scmp::area_words;

/// The shape of every rank's receive queue in a job; all ranks use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Ranks of the job.
    pub ranks: u32,
    /// 64-byte slots of each half: a power of two, 4 … 65536.
    pub slots: u32,
}

impl Geometry {
    /// The usual size: halves of 2048 slots (128 KiB).
    pub fn new(ranks: u32) -> Geometry {
        Geometry { ranks, slots: 2048 }
    }

    /// Bytes of one rank's area, a multiple of 64, whatever the number of ranks; the area itself must start on a multiple of 64.
    pub fn bytes_per_rank(&self) -> usize {
        self.assert_sane();
        8 * area_words(self)
    }

    /// The largest payload of a message. Bytes.
    pub fn message_bytes_max(&self) -> usize {
        // A quarter of a half: what a refused message leaves unused at the end stays small.
        (self.slots / 4).min(MESSAGE_SLOTS_MAX) as usize * SLOT_BYTES - HEADER_BYTES
    }

    /// Asserts what the fields' documentation promises.
    pub(crate) fn assert_sane(&self) {
        let fine = self.slots.is_power_of_two() && (4..=65536).contains(&self.slots);
        assert!(fine, "a half has 4 … 65536 slots, a power of two, not {}", self.slots);
    }
}
