//! A map's values as this process sees them: words that the kernel's program reads and writes at the same time.

use castell_host::HostError;
use castell_host::shm::Segment;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The values of an array, one behind the other.
pub struct Mapped {
    segment: Segment,
    value_bytes: usize,
}

impl Mapped {
    /// So many values of so many bytes.
    pub fn new(map: OwnedFd, values: usize, value_bytes: usize) -> Result<Mapped, HostError> {
        debug_assert_eq!(value_bytes % 8, 0, "values are whole words");
        Ok(Mapped { segment: Segment::of_kernel(map, values * value_bytes)?, value_bytes })
    }

    /// A word of 64 bits, `at` bytes from the start of a value.
    pub fn long(&self, value: usize, at: usize) -> &AtomicU64 {
        &self.segment.words()[(value * self.value_bytes + at) / 8]
    }

    /// A word of 32 bits.
    pub fn word(&self, value: usize, at: usize) -> &AtomicU32 {
        &self.segment.short_words()[(value * self.value_bytes + at) / 4]
    }

    /// Words one behind the other.
    pub fn words(&self, value: usize, at: usize, count: usize) -> &[AtomicU32] {
        &self.segment.short_words()[(value * self.value_bytes + at) / 4..][..count]
    }

    /// Writes bytes from a multiple of 8 on; a last word that they fill in part is cleared behind them.
    pub fn write(&self, value: usize, at: usize, bytes: &[u8]) {
        let words = &self.segment.words()[(value * self.value_bytes + at) / 8..];
        for (word, piece) in words.iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..piece.len()].copy_from_slice(piece);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
    }

    /// Reads bytes from a multiple of 8 on.
    pub fn read(&self, value: usize, at: usize, into: &mut [u8]) {
        let words = &self.segment.words()[(value * self.value_bytes + at) / 8..];
        for (word, piece) in words.iter().zip(into.chunks_mut(8)) {
            let whole = word.load(Ordering::Relaxed).to_ne_bytes();
            piece.copy_from_slice(&whole[..piece.len()]);
        }
    }
}
