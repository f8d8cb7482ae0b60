//! How messages lie in slots; what stands before their payloads is the transports' header.

pub use castell_transport::{HEADER_BYTES, Header};

/// Bytes of a slot: one cache line.
pub const SLOT_BYTES: usize = 64;
/// 64-bit words of a slot.
pub const SLOT_WORDS: usize = SLOT_BYTES / 8;
/// The kind of a slot that fills up the rest of a half or a ring.
pub const PADDING: u8 = 255;

/// The kind in a header's first word.
#[inline(always)]
pub fn kind_of(first: u64) -> u8 {
    first as u8
}

/// The queue's own field in a header's first word.
#[inline(always)]
pub fn spare_of(first: u64) -> u16 {
    (first >> 16) as u16
}

/// The payload's length in a header's first word.
#[inline(always)]
pub fn bytes_of(first: u64) -> u32 {
    (first >> 32) as u32
}

/// Slots that a message with a payload of `bytes` covers.
#[inline(always)]
pub const fn slots_for(bytes: usize) -> usize {
    (HEADER_BYTES + bytes).div_ceil(SLOT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_and_32_bytes_fill_a_slot() {
        assert_eq!(slots_for(0), 1);
        assert_eq!(slots_for(32), 1);
        assert_eq!(slots_for(33), 2);
        assert_eq!(slots_for(96), 2);
        assert_eq!(slots_for(97), 3);
    }
}
