//! What asks which cards reach each other, on the wire: frames of a fixed length beside those of connections. README.md has the table.

use crate::frame::{Address, Communicator, ETHERTYPE, Garbled, Key, Mac, TAG_BYTES};
use zerocopy::byteorder::{big_endian, little_endian::*};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Of this layout; connections have another.
pub const VERSION: u8 = 2;
/// How long such a frame is, without Ethernet's padding.
pub const DATAGRAM_BYTES: usize = size_of::<Wire>() + TAG_BYTES;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Do you hear me here?
    Probe,
    /// I do.
    Answer,
    /// I do, and there is no way to this port any more.
    PortUnreachable,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Probe, Kind::Answer, Kind::PortUnreachable];
}

/// As it lies on the wire. Port and communicator stand where connections have them, since who shares a card is found by these.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    to_mac: [u8; 6],
    from_mac: [u8; 6],
    ethertype: big_endian::U16,
    version: u8,
    kind: u8,
    bytes: U16,
    communicator: U64,
    to_port: U16,
    from_port: U16,
    number: U64,
}

/// What one of them says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// What.
    pub kind: Kind,
    /// The receiver.
    pub to: Address,
    /// The sender.
    pub from: Address,
    /// Whose it is.
    pub communicator: Communicator,
    /// Of the probe, that nobody can guess who has not heard it.
    pub number: u64,
}

/// Whether these bytes say that they are one. Nothing of them has been checked.
pub fn is_one(bytes: &[u8]) -> bool {
    Wire::ref_from_prefix(bytes)
        .is_ok_and(|(wire, _)| wire.ethertype.get() == ETHERTYPE && wire.version == VERSION)
}

/// Writes one; says how long it is.
///
/// # Panics
/// If it does not fit.
pub fn write(out: &mut [u8], key: &Key, datagram: &Datagram) -> usize {
    let wire = Wire {
        to_mac: datagram.to.mac.0,
        from_mac: datagram.from.mac.0,
        ethertype: ETHERTYPE.into(),
        version: VERSION,
        kind: datagram.kind as u8,
        bytes: 0.into(),
        communicator: datagram.communicator.0.into(),
        to_port: datagram.to.port.into(),
        from_port: datagram.from.port.into(),
        number: datagram.number.into(),
    };
    let (head, tag) = out[..DATAGRAM_BYTES].split_at_mut(size_of::<Wire>());
    head.copy_from_slice(wire.as_bytes());
    tag.copy_from_slice(&key.tag(head));
    DATAGRAM_BYTES
}

/// Reads one. What follows behind it is Ethernet's padding.
///
/// # Errors
/// It is none, or none of this key.
pub fn read(bytes: &[u8], key: &Key) -> Result<Datagram, Garbled> {
    let (wire, rest) = Wire::ref_from_prefix(bytes).map_err(|_| Garbled::Short)?;
    if wire.ethertype.get() != ETHERTYPE {
        return Err(Garbled::Foreign);
    }
    if wire.version != VERSION {
        return Err(Garbled::Version(wire.version));
    }
    let tag = rest.first_chunk::<TAG_BYTES>().ok_or(Garbled::Short)?;
    // As one word: how many bytes are right takes no time to find out.
    if u64::from_le_bytes(*tag) != u64::from_le_bytes(key.tag(wire.as_bytes())) {
        return Err(Garbled::Tag);
    }
    let kind = Kind::ALL.get(usize::from(wire.kind)).filter(|_| wire.bytes.get() == 0);
    Ok(Datagram {
        kind: *kind.ok_or(Garbled::Flags(wire.kind))?,
        to: Address { mac: Mac(wire.to_mac), port: wire.to_port.get() },
        from: Address { mac: Mac(wire.from_mac), port: wire.from_port.get() },
        communicator: Communicator(wire.communicator.get()),
        number: wire.number.get(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    fn one(kind: Kind) -> Datagram {
        let address = |odd| Address { mac: Mac([2, 0, 0, 0, 0, odd]), port: 256 + u16::from(odd) };
        let communicator = Communicator(0x0123_4567_89AB_CDEF);
        Datagram { kind, to: address(1), from: address(2), communicator, number: 0x0908_0706_0504_0302 }
    }

    #[test]
    fn every_byte_is_where_the_table_says() {
        let key = Key::new(&[7; 16]);
        let mut out = [0; 60];
        assert_eq!(write(&mut out, &key, &one(Kind::Answer)), DATAGRAM_BYTES);
        let mut expected = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5, 2, 1, 0, 0];
        expected.extend([0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01, 1, 1, 2, 1]);
        expected.extend([2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(out[..DATAGRAM_BYTES - TAG_BYTES], expected);
        // With Ethernet's padding.
        assert_eq!(read(&out, &key), Ok(one(Kind::Answer)));
        // It is found by its port as those of connections are.
        assert_eq!(frame::port_of(&out), Some(one(Kind::Answer).to.port));
    }

    #[test]
    fn no_bit_can_be_changed_and_nothing_cut() {
        let key = Key::new(&[7; 16]);
        for kind in Kind::ALL {
            let mut out = [0; DATAGRAM_BYTES];
            write(&mut out, &key, &one(kind));
            assert!(is_one(&out) && read(&out, &key) == Ok(one(kind)));
            for bit in 0..8 * DATAGRAM_BYTES {
                let mut changed = out;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(read(&changed, &key).is_err(), "bit {bit}");
            }
            for cut in 0..DATAGRAM_BYTES {
                assert!(read(&out[..cut], &key).is_err(), "{cut} bytes");
            }
            assert_eq!(read(&out, &Key::new(&[8; 16])), Err(Garbled::Tag));
        }
        let mut out = [0; DATAGRAM_BYTES];
        write(&mut out, &key, &one(Kind::Probe));
        out[15] = 3;
        let tag = key.tag(&out[..DATAGRAM_BYTES - TAG_BYTES]);
        out[DATAGRAM_BYTES - TAG_BYTES..].copy_from_slice(&tag);
        assert_eq!(read(&out, &key), Err(Garbled::Flags(3)), "a kind that is none");
    }
}
