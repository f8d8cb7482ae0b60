//! What stands before every payload: 32 bytes that name the message.

/// The header of a message, four 64-bit words in shared memory (little-endian halves, first field lowest).
///
/// The queues read `kind` and `bytes`, own `spare`, and carry the rest untouched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// What the message is, `1 … 254`: 0 means "nothing here", 255 is the queues' own padding.
    pub kind: u8,
    /// The caller's.
    pub flags: u8,
    /// The queue's or lane's own; what the caller writes here is not carried.
    pub spare: u16,
    /// Length of the payload that follows in this message.
    pub bytes: u32,
    /// The sender's rank.
    pub source: u32,
    /// Counts the sender's messages to this receiver, whatever path they take.
    pub sequence: u32,
    /// The caller's.
    pub tag: u32,
    /// The caller's.
    pub run: u32,
    /// The caller's.
    pub extra: u64,
}

/// Bytes of a header in shared memory.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a slot: one cache line.
pub const SLOT_BYTES: usize = 64;
/// 64-bit words of a slot.
pub(crate) const SLOT_WORDS: usize = SLOT_BYTES / 8;
/// The kind of a slot that fills up the rest of a half or a ring.
pub(crate) const PADDING: u8 = 255;

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

impl Header {
    /// The words as they stand in shared memory, with `spare` as the queue wants it.
    #[inline(always)]
    pub(crate) fn to_words(self, spare: u16) -> [u64; 4] {
        [
            u64::from(self.kind)
                | u64::from(self.flags) << 8
                | u64::from(spare) << 16
                | u64::from(self.bytes) << 32,
            u64::from(self.source) | u64::from(self.sequence) << 32,
            u64::from(self.tag) | u64::from(self.run) << 32,
            self.extra,
        ]
    }

    /// Reads what [`Header::to_words`] wrote.
    #[inline(always)]
    pub(crate) fn from_words(words: [u64; 4]) -> Header {
        Header {
            kind: kind_of(words[0]),
            flags: (words[0] >> 8) as u8,
            spare: spare_of(words[0]),
            bytes: bytes_of(words[0]),
            source: words[1] as u32,
            sequence: (words[1] >> 32) as u32,
            tag: words[2] as u32,
            run: (words[2] >> 32) as u32,
            extra: words[3],
        }
    }
}

/// The kind in a header's first word.
#[inline(always)]
pub(crate) fn kind_of(first: u64) -> u8 {
    first as u8
}

/// The queue's own field in a header's first word.
#[inline(always)]
pub(crate) fn spare_of(first: u64) -> u16 {
    (first >> 16) as u16
}

/// The payload's length in a header's first word.
#[inline(always)]
pub(crate) fn bytes_of(first: u64) -> u32 {
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
    fn words_carry_every_field() {
        let header = Header {
            kind: 3,
            flags: 0x80,
            spare: 0,
            bytes: 0xDEAD_BEEF,
            source: 7,
            sequence: u32::MAX,
            tag: 9,
            run: 11,
            extra: u64::MAX - 5,
        };
        let back = Header::from_words(header.to_words(0xABCD));
        assert_eq!(back, Header { spare: 0xABCD, ..header });
    }

    #[test]
    fn a_header_and_32_bytes_fill_a_slot() {
        assert_eq!(slots_for(0), 1);
        assert_eq!(slots_for(32), 1);
        assert_eq!(slots_for(33), 2);
        assert_eq!(slots_for(96), 2);
        assert_eq!(slots_for(97), 3);
    }
}
