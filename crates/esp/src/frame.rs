//! What stands on the wire: an Ethernet header, 44 bytes of ESP, the payload, and a tag over all of it. README.md has the table.

use siphasher::sip::SipHasher24;
use std::ops::BitOr;
use zerocopy::byteorder::{big_endian, little_endian::*};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The EtherType of ESP: the first of the two that IEEE 802 keeps for experiments on a local network.
pub const ETHERTYPE: u16 = 0x88B5;
/// Of this layout.
pub const VERSION: u8 = 1;
/// Bytes before the payload, with Ethernet's own 14.
pub const HEAD_BYTES: usize = size_of::<Wire>();
/// Bytes behind the payload.
pub const TAG_BYTES: usize = 8;
/// Bytes of a frame without payload.
pub const FRAME_BYTES_MIN: usize = HEAD_BYTES + TAG_BYTES;
/// Of Ethernet's own header: both hardware addresses and the EtherType. An MTU does not count it.
pub const ETHERNET_BYTES: usize = 14;

const _: () = assert!(HEAD_BYTES == ETHERNET_BYTES + 44);

/// Of a network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl std::fmt::Display for Mac {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// Where an endpoint is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The card.
    pub mac: Mac,
    /// Which of the endpoints behind it.
    pub port: u16,
}

/// Whose connection it is: connections of different communicators never mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Communicator(pub u64);

/// What a frame says about the state of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// A connection is wanted; `sequence` is the first of this side, less one.
    pub const SYN: Flags = Flags(1);
    /// `acknowledged` and `edge` are true.
    pub const ACK: Flags = Flags(2);
    /// Nothing follows. It has a number of its own.
    pub const FIN: Flags = Flags(4);
    /// There is no such connection, or it is over at once.
    pub const RST: Flags = Flags(8);
    /// The receiver asks for what the payload lists.
    pub const RRQ: Flags = Flags(16);
    /// A transfer starts. Without payload: a question, to be answered at once.
    pub const TXS: Flags = Flags(32);
    /// The sender knew of nothing more when it sent this first.
    pub const TXF: Flags = Flags(64);
    /// A write ended in this frame.
    pub const TXR: Flags = Flags(128);

    /// Whether all of these are set.
    pub fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// What no side ever sends together.
    fn are_possible(self, payload_bytes: usize) -> bool {
        let of_transfers = (Flags::TXS | Flags::TXF | Flags::TXR).0;
        match (self, payload_bytes) {
            (Flags::SYN | Flags::RST, 0) => true,
            (flags, 0) if flags == Flags::SYN | Flags::ACK || flags == Flags::RST | Flags::ACK => true,
            (Flags::ACK, 0) => true,
            (flags, 0) if flags == Flags::ACK | Flags::FIN || flags == Flags::ACK | Flags::TXS => true,
            (flags, 1..) if flags == Flags::ACK | Flags::RRQ => payload_bytes.is_multiple_of(RANGE_BYTES),
            (flags, 1..) => Flags(flags.0 & !of_transfers) == Flags::ACK,
            _ => false,
        }
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A frame's head, as it lies on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    to_mac: [u8; 6],
    from_mac: [u8; 6],
    ethertype: big_endian::U16,
    version: u8,
    flags: u8,
    bytes: U16,
    communicator: U64,
    to_port: U16,
    from_port: U16,
    to_session: U32,
    from_session: U32,
    sequence: U32,
    acknowledged: U32,
    edge: U32,
    stamp: U32,
    echo: U32,
}

/// What a frame's head says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The receiver.
    pub to: Address,
    /// The sender.
    pub from: Address,
    /// Whose connection it is.
    pub communicator: Communicator,
    /// What it says.
    pub flags: Flags,
    /// What the receiver called the connection; 0: not known.
    pub to_session: u32,
    /// What the sender calls it; 0: there is none.
    pub from_session: u32,
    /// The number of this frame if it has one (payload without RRQ, or FIN), else that of the sender's next.
    pub sequence: u32,
    /// All numbers before this one have come.
    pub acknowledged: u32,
    /// The first number that may not be sent; with SYN, how many may.
    pub edge: u32,
    /// The sender's clock in microseconds; 0: none.
    pub stamp: u32,
    /// The stamp that is answered; 0: none.
    pub echo: u32,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Garbled {
    /// It is shorter than it says, or than any is.
    #[error("the frame is cut off")]
    Short,
    /// Another EtherType.
    #[error("the frame is none of ESP")]
    Foreign,
    /// Of another layout.
    #[error("the frame has version {0}, not {VERSION}: all hosts need the same castell")]
    Version(u8),
    /// The tag is not this key's.
    #[error("the frame's tag is wrong: it was damaged, or is not of this job")]
    Tag,
    /// It contradicts itself.
    #[error("the frame has flags {0:#04x} and a payload that do not go together")]
    Flags(u8),
}

/// What both sides know and nobody else on the segment does.
#[derive(Clone)]
pub struct Key(SipHasher24);

impl Key {
    /// One of 16 bytes, which nobody can guess.
    pub fn new(bytes: &[u8; 16]) -> Key {
        Key(SipHasher24::new_with_key(bytes))
    }

    pub(crate) fn tag(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        self.0.hash(bytes).to_le_bytes()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Key(..)")
    }
}

/// Writes a frame whose payload comes in two parts; says how long it is.
///
/// # Panics
/// If it does not fit.
pub fn write(out: &mut [u8], key: &Key, head: &Head, payload: [&[u8]; 2]) -> usize {
    let bytes = payload[0].len() + payload[1].len();
    let wire = Wire {
        to_mac: head.to.mac.0,
        from_mac: head.from.mac.0,
        ethertype: ETHERTYPE.into(),
        version: VERSION,
        flags: head.flags.0,
        bytes: u16::try_from(bytes).expect("a payload fits into a frame").into(),
        communicator: head.communicator.0.into(),
        to_port: head.to.port.into(),
        from_port: head.from.port.into(),
        to_session: head.to_session.into(),
        from_session: head.from_session.into(),
        sequence: head.sequence.into(),
        acknowledged: head.acknowledged.into(),
        edge: head.edge.into(),
        stamp: head.stamp.into(),
        echo: head.echo.into(),
    };
    out[..HEAD_BYTES].copy_from_slice(wire.as_bytes());
    let (middle, end) = (HEAD_BYTES + payload[0].len(), HEAD_BYTES + bytes);
    out[HEAD_BYTES..middle].copy_from_slice(payload[0]);
    out[middle..end].copy_from_slice(payload[1]);
    let tag = key.tag(&out[..end]);
    out[end..end + TAG_BYTES].copy_from_slice(&tag);
    end + TAG_BYTES
}

/// To which port the frame goes, for those who share a card. Nothing of it has been checked.
pub fn port_of(bytes: &[u8]) -> Option<u16> {
    let (wire, _) = Wire::ref_from_prefix(bytes).ok()?;
    (wire.ethertype.get() == ETHERTYPE).then_some(wire.to_port.get())
}

/// Reads a frame: its head and its payload. What follows behind the tag is Ethernet's padding.
///
/// # Errors
/// It is none, or none of this key.
pub fn read<'a>(bytes: &'a [u8], key: &Key) -> Result<(Head, &'a [u8]), Garbled> {
    let (wire, rest) = Wire::ref_from_prefix(bytes).map_err(|_| Garbled::Short)?;
    if wire.ethertype.get() != ETHERTYPE {
        return Err(Garbled::Foreign);
    }
    if wire.version != VERSION {
        return Err(Garbled::Version(wire.version));
    }
    let (payload, rest) = rest.split_at_checked(wire.bytes.get().into()).ok_or(Garbled::Short)?;
    let tag = rest.first_chunk::<TAG_BYTES>().ok_or(Garbled::Short)?;
    // As one word: how many bytes are right takes no time to find out.
    if u64::from_le_bytes(*tag) != u64::from_le_bytes(key.tag(&bytes[..HEAD_BYTES + payload.len()])) {
        return Err(Garbled::Tag);
    }
    let head = Head {
        to: Address { mac: Mac(wire.to_mac), port: wire.to_port.get() },
        from: Address { mac: Mac(wire.from_mac), port: wire.from_port.get() },
        communicator: Communicator(wire.communicator.get()),
        flags: Flags(wire.flags),
        to_session: wire.to_session.get(),
        from_session: wire.from_session.get(),
        sequence: wire.sequence.get(),
        acknowledged: wire.acknowledged.get(),
        edge: wire.edge.get(),
        stamp: wire.stamp.get(),
        echo: wire.echo.get(),
    };
    if !head.flags.are_possible(payload.len()) {
        return Err(Garbled::Flags(wire.flags));
    }
    Ok((head, payload))
}

/// Numbers that are asked for: the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first of them.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Bytes of a [`Range`] in a request.
pub const RANGE_BYTES: usize = 8;

impl Range {
    /// As it stands in a request.
    pub fn to_bytes(self) -> [u8; RANGE_BYTES] {
        (u64::from(self.first) | u64::from(self.count) << 32).to_le_bytes()
    }

    /// All ranges of a request's payload.
    pub fn all(payload: &[u8]) -> impl Iterator<Item = Range> {
        payload.as_chunks::<RANGE_BYTES>().0.iter().map(|bytes| {
            let word = u64::from_le_bytes(*bytes);
            Range { first: word as u32, count: (word >> 32) as u32 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new(&[7; 16])
    }

    fn head() -> Head {
        let address = |odd| Address { mac: Mac([2, 0, 0, 0, 0, odd]), port: 256 + u16::from(odd) };
        Head {
            to: address(1),
            from: address(2),
            communicator: Communicator(0x0123_4567_89AB_CDEF),
            flags: Flags::ACK | Flags::TXS | Flags::TXR,
            to_session: 1,
            from_session: 2,
            sequence: 3,
            acknowledged: 4,
            edge: 5,
            stamp: 6,
            echo: 0x0708_090A,
        }
    }

    #[test]
    fn every_byte_is_where_the_table_says() {
        let mut out = [0; 128];
        let length = write(&mut out, &key(), &head(), [b"ab", b"c"]);
        assert_eq!(length, FRAME_BYTES_MIN + 3);
        let mut expected = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5, 1, 0xA2, 3, 0];
        expected.extend([0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01, 1, 1, 2, 1]);
        for word in [1_u32, 2, 3, 4, 5, 6, 0x0708_090A] {
            expected.extend(word.to_le_bytes());
        }
        expected.extend(b"abc");
        assert_eq!(out[..length - TAG_BYTES], expected);
        assert_eq!(read(&out[..length], &key()), Ok((head(), &b"abc"[..])));
        // Padding is Ethernet's own affair.
        assert_eq!(read(&out, &key()), Ok((head(), &b"abc"[..])));
    }

    #[test]
    fn no_bit_can_be_changed_and_nothing_cut() {
        let mut out = [0; 80];
        let length = write(&mut out, &key(), &head(), [b"hello", b""]);
        for bit in 0..8 * length {
            let mut changed = out;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&changed[..length], &key()).is_err(), "bit {bit}");
        }
        for cut in 0..length {
            assert!(read(&out[..cut], &key()).is_err(), "{cut} bytes");
        }
        assert_eq!(read(&out[..length], &Key::new(&[8; 16])), Err(Garbled::Tag));
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        let mut out = [0; 80];
        for (flags, payload) in [
            (Flags::SYN | Flags::FIN, &b""[..]),
            (Flags::RST | Flags::TXS, b""),
            (Flags::SYN, b"x"),
            (Flags::ACK | Flags::RRQ, b"x"),
            (Flags::FIN | Flags::ACK, b"x"),
            (Flags::TXS, b"x"),
            (Flags(0), b""),
        ] {
            let length = write(&mut out, &key(), &Head { flags, ..head() }, [payload, b""]);
            assert_eq!(read(&out[..length], &key()), Err(Garbled::Flags(flags.0)));
        }
    }
}
