//! What stands before every payload: 32 bytes that name the message.

/// The header of a message. As four 64-bit words, little-endian halves, first field lowest ([`Header::to_words`]), it
/// stands in shared memory and on wires.
///
/// Transports read `kind` and `bytes`, own `spare`, see to it that `source` is true, and carry the rest untouched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// What the message is, `1 … 254`: 0 means "nothing here", 255 is a queue's own padding.
    pub kind: u8,
    /// The caller's.
    pub flags: u8,
    /// The transport's own; what the caller writes here is not carried.
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

/// Bytes of a header in shared memory and on wires.
pub const HEADER_BYTES: usize = 32;

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

impl Header {
    /// The words as they stand in shared memory, with `spare` as the transport wants it.
    #[inline(always)]
    pub fn to_words(self, spare: u16) -> [u64; 4] {
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
    pub fn from_words(words: [u64; 4]) -> Header {
        Header {
            kind: words[0] as u8,
            flags: (words[0] >> 8) as u8,
            spare: (words[0] >> 16) as u16,
            bytes: (words[0] >> 32) as u32,
            source: words[1] as u32,
            sequence: (words[1] >> 32) as u32,
            tag: words[2] as u32,
            run: (words[2] >> 32) as u32,
            extra: words[3],
        }
    }
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
}
