//! Frames: what is sent from rank to rank.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | version | [`VERSION`] |
//! | 1 | kind | see [`Kind`] |
//! | 2 to 3 | | zero |
//! | 4 to 7 | checksum | CRC-32 of what follows the header |
//! | 8 to 11 | number | of this frame, if it is numbered; else of the next one |
//! | 12 to 15 | taken | how many numbered frames of the receiver have been taken here |
//! | 16 to 23 | tag | SipHash-2-4 of all else up to byte 55, by the key of this sender and this receiver |
//! | 24 to 55 | header | of the message; frames that are none have their fields in it |
//! | 56 … | payload | as many bytes as the header says |
//!
//! All little-endian. With a payload of 8 bytes that makes 64, which most networks send at once.

use castell_transport::{HEADER_BYTES, Header};
use siphasher::sip::SipHasher24;

/// Of everything that fabrics carry for castell.
pub(crate) const VERSION: u8 = 1;
/// Bytes before a payload.
pub(crate) const FRAME_BYTES: usize = 24 + HEADER_BYTES;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Says who its sender is, with a proof in the payload: the only frame without a tag.
    Hello = 1,
    /// Answers that, or only tells what was taken, and that the sender is there.
    Note = 2,
    /// A message.
    Message = 3,
    /// The sender sends nothing any more.
    Leave = 4,
    /// A one-sided operation.
    Ask = 5,
    /// A piece of what was asked for.
    Piece = 6,
    /// A one-sided operation has ended.
    Done = 7,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        [Hello, Note, Message, Leave, Ask, Piece, Done].into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether it is counted, and comes once and in order.
    pub(crate) fn is_numbered(self) -> bool {
        !matches!(self, Kind::Hello | Kind::Note)
    }
}

/// What stands before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) taken: u32,
    pub(crate) header: Header,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbled {
    /// No version, kind or length of a frame.
    Shape,
    /// The tag is not the sender's.
    Tag,
    /// The payload was changed.
    Checksum,
}

/// What a sender and a receiver know, and nobody else.
#[derive(Clone)]
pub(crate) struct Key(SipHasher24);

impl Key {
    pub(crate) fn new(bytes: &[u8; 16]) -> Key {
        Key(SipHasher24::new_with_key(bytes))
    }

    fn tag(&self, bytes: &[u8; FRAME_BYTES]) -> u64 {
        let mut said = [0; FRAME_BYTES - 8];
        said[..16].copy_from_slice(&bytes[..16]);
        said[16..].copy_from_slice(&bytes[24..]);
        self.0.hash(&said)
    }
}

impl Frame {
    /// Writes it before its payload, which is there already; `out` is both. Without a key, as a hello is.
    pub(crate) fn write(&self, key: Option<&Key>, out: &mut [u8]) {
        let (head, payload) = out.split_first_chunk_mut::<FRAME_BYTES>().expect("room for a frame");
        debug_assert_eq!(payload.len(), self.header.bytes as usize);
        *head = [0; FRAME_BYTES];
        head[..2].copy_from_slice(&[VERSION, self.kind as u8]);
        head[4..8].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        head[8..12].copy_from_slice(&self.number.to_le_bytes());
        head[12..16].copy_from_slice(&self.taken.to_le_bytes());
        for (to, word) in head[24..].chunks_exact_mut(8).zip(self.header.to_words(0)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let tag = key.map_or(0, |key| key.tag(head));
        head[16..24].copy_from_slice(&tag.to_le_bytes());
    }

    /// Whose frame that seems to be, and whether it is a hello: nothing of it is to be believed yet.
    pub(crate) fn sender(bytes: &[u8]) -> Option<(u32, bool)> {
        let head = bytes.first_chunk::<FRAME_BYTES>()?;
        let source = u32::from_le_bytes(*head[32..].first_chunk()?);
        (head[0] == VERSION).then_some((source, head[1] == Kind::Hello as u8))
    }

    /// Reads what [`Frame::write`] wrote with this key.
    pub(crate) fn read(bytes: &[u8], key: Option<&Key>) -> Result<Frame, Garbled> {
        let (head, payload) = bytes.split_first_chunk::<FRAME_BYTES>().ok_or(Garbled::Shape)?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        if key.is_some_and(|key| key.tag(head) != long(16)) {
            return Err(Garbled::Tag);
        }
        let header = Header::from_words([long(24), long(32), long(40), long(48)]);
        let kind = Kind::of(head[1]).filter(|kind| (*kind == Kind::Hello) == key.is_none());
        let (Some(kind), VERSION, [0, 0]) = (kind, head[0], [head[2], head[3]]) else {
            return Err(Garbled::Shape);
        };
        if header.bytes as usize != payload.len() || header.spare != 0 {
            return Err(Garbled::Shape);
        }
        if crc32fast::hash(payload) != word(4) {
            return Err(Garbled::Checksum);
        }
        Ok(Frame { kind, number: word(8), taken: word(12), header })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_travel_and_any_changed_bit_is_found() {
        let key = Key::new(&[7; 16]);
        let header =
            Header { kind: 9, bytes: 5, source: 3, sequence: u32::MAX, extra: 11, ..Header::default() };
        let frame = Frame { kind: Kind::Message, number: 17, taken: u32::MAX, header };
        let mut bytes = vec![0; FRAME_BYTES + 5];
        bytes[FRAME_BYTES..].copy_from_slice(b"hello");
        frame.write(Some(&key), &mut bytes);
        assert_eq!(Frame::read(&bytes, Some(&key)), Ok(frame));
        assert_eq!(Frame::sender(&bytes), Some((3, false)));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::read(&changed, Some(&key)).is_err(), "bit {bit}");
        }
        assert_eq!(Frame::read(&bytes, Some(&Key::new(&[8; 16]))), Err(Garbled::Tag));
        // Without a key nothing but a hello is read.
        assert_eq!(Frame::read(&bytes, None), Err(Garbled::Shape));
        for length in 0..bytes.len() {
            assert!(Frame::read(&bytes[..length], Some(&key)).is_err(), "{length} bytes");
        }
    }
}
