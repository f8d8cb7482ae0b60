//! Where a rank is found, as bytes: a version, the card, the port, and how long frames may be there.

use castell_esp::{Address as Place, Mac};
use castell_transport::Address;

/// Of this format. Other transports' addresses begin otherwise.
const VERSION: u8 = 0xE1;

/// What others need to know of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Where it is.
    pub place: Place,
    /// The MTU there, bytes: one segment has one.
    pub mtu_bytes: u16,
}

/// As it travels.
pub fn to_bytes(reach: Reach) -> Address {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&reach.place.mac.0);
    bytes.extend_from_slice(&reach.place.port.to_le_bytes());
    bytes.extend_from_slice(&reach.mtu_bytes.to_le_bytes());
    Address(bytes.into())
}

/// Reads what [`to_bytes`] wrote; `None`: it is something else.
pub fn from_bytes(address: &Address) -> Option<Reach> {
    let [VERSION, rest @ ..] = &*address.0 else { return None };
    let (mac, rest) = rest.split_first_chunk::<6>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let mtu_bytes = u16::from_le_bytes(rest.try_into().ok()?);
    Some(Reach { place: Place { mac: Mac(*mac), port: u16::from_le_bytes(*port) }, mtu_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_travel_and_nothing_else_is_one() {
        let reach = Reach { place: Place { mac: Mac([2, 1, 3, 4, 5, 6]), port: 0x0102 }, mtu_bytes: 9000 };
        let bytes = to_bytes(reach);
        assert_eq!(from_bytes(&bytes), Some(reach));
        for length in 0..bytes.0.len() {
            assert_eq!(from_bytes(&Address(bytes.0[..length].into())), None, "{length} bytes");
        }
        assert_eq!(from_bytes(&Address([&*bytes.0, &[0]].concat().into())), None);
        assert_eq!(from_bytes(&Address([&[2], &bytes.0[1..]].concat().into())), None);
    }
}
