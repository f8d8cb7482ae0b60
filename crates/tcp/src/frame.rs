//! Frames: what stands on a connection once both sides have proved who they are.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | version | [`VERSION`] |
//! | 1 | kind | 1 message, 2 leave, 3 note |
//! | 2 to 3 | | zero |
//! | 4 to 7 | bytes | what follows the frame's header: 0, or a message's header of 32 bytes and its payload |
//! | 8 to 11 | number | of this message or leave; of a note: the number of the next one |
//! | 12 to 15 | taken | how many numbered frames of the receiver have been taken here |
//! | 16 to 19 | | CRC-32 of what follows; 0 where the connection is encrypted, which finds any change |
//! | 20 to 23 | | CRC-32 of bytes 0 to 19 |
//!
//! All little-endian. The header has a checksum of its own, so that a length is never waited for that nobody sent.

use castell_transport::HEADER_BYTES;

/// The version of everything that TCP connections of castell carry.
pub const VERSION: u8 = 1;

/// Bytes of a frame's own header.
pub const FRAME_BYTES: usize = 24;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message: header and payload follow.
    Message,
    /// The sender sends nothing any more.
    Leave,
    /// Only tells what was taken, and that the sender is there.
    Note,
}

impl Kind {
    /// Whether it is counted, kept until it was taken, and sent again if need be.
    pub fn is_numbered(self) -> bool {
        self != Kind::Note
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Bytes that follow.
    pub bytes: u32,
    /// Its number, or the next one's.
    pub number: u32,
    /// Numbered frames that its sender has taken.
    pub taken: u32,
    /// CRC-32 of what follows, or 0.
    pub checksum: u32,
}

/// Why bytes are no frame. The connection that carried them is given up, and what was under way is sent again over another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Garbled {
    /// A checksum does not fit.
    #[error("bytes were changed on the way: a checksum does not fit")]
    Checksum,
    /// Another version.
    #[error("a frame of version {0}, this is version {VERSION}")]
    Version(u8),
    /// An unknown kind, a reserved field in use, or a length that the kind does not have.
    #[error("a frame that nobody sends: its kind, length or reserved fields are wrong")]
    Shape,
    /// A message was left out, or something was taken that was not sent.
    #[error("a frame out of turn")]
    OutOfTurn,
    /// The header of a message contradicts its frame or its sender.
    #[error("a message whose header contradicts its frame")]
    Header,
}

/// A little-endian word of 32 bits.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Frame {
    /// As it travels.
    pub fn to_bytes(self) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        bytes[0] = VERSION;
        bytes[1] = match self.kind {
            Kind::Message => 1,
            Kind::Leave => 2,
            Kind::Note => 3,
        };
        for (at, word) in [(4, self.bytes), (8, self.number), (12, self.taken), (16, self.checksum)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let own = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Reads what [`Frame::to_bytes`] wrote; a payload has at most `payload_bytes_max`.
    ///
    /// # Errors
    /// Anything else.
    pub fn from_bytes(bytes: &[u8; FRAME_BYTES], payload_bytes_max: usize) -> Result<Frame, Garbled> {
        if crc32fast::hash(&bytes[..20]) != word(bytes, 20) {
            return Err(Garbled::Checksum);
        }
        if bytes[0] != VERSION {
            return Err(Garbled::Version(bytes[0]));
        }
        let kind = match bytes[1] {
            1 => Kind::Message,
            2 => Kind::Leave,
            3 => Kind::Note,
            _ => return Err(Garbled::Shape),
        };
        let frame = Frame {
            kind,
            bytes: word(bytes, 4),
            number: word(bytes, 8),
            taken: word(bytes, 12),
            checksum: word(bytes, 16),
        };
        let lengths = match kind {
            Kind::Message => HEADER_BYTES..=HEADER_BYTES + payload_bytes_max,
            Kind::Leave | Kind::Note => 0..=0,
        };
        if bytes[2..4] != [0, 0] || !lengths.contains(&(frame.bytes as usize)) {
            return Err(Garbled::Shape);
        }
        Ok(frame)
    }

    /// Bytes of the whole frame.
    pub fn total_bytes(&self) -> usize {
        FRAME_BYTES + self.bytes as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_travel_and_any_changed_bit_is_found() {
        let frame =
            Frame { kind: Kind::Message, bytes: 40, number: u32::MAX, taken: 7, checksum: 0xDEAD_BEEF };
        let bytes = frame.to_bytes();
        assert_eq!(Frame::from_bytes(&bytes, 8), Ok(frame));
        for bit in 0..FRAME_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frame::from_bytes(&changed, 8), Err(Garbled::Checksum), "bit {bit}");
        }
        // Right checksums do not make a wrong frame right.
        assert_eq!(Frame::from_bytes(&bytes, 7), Err(Garbled::Shape));
        for frame in [Frame { bytes: 31, ..frame }, Frame { kind: Kind::Note, bytes: 1, ..frame }] {
            assert_eq!(Frame::from_bytes(&frame.to_bytes(), 100), Err(Garbled::Shape));
        }
    }
}
