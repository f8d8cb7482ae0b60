//! Where a rank listens, as bytes: a version, and up to eight addresses with ports, in the order in which they are to be tried.

use castell_transport::Address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Of this format.
const VERSION: u8 = 1;
/// The most addresses that one rank tells.
pub const ADDRESSES_MAX: usize = 8;
/// The longest there is, bytes.
pub const ADDRESS_BYTES_MAX: usize = 2 + ADDRESSES_MAX * 19;

/// Addresses as they travel; those behind the eighth are left out.
pub fn to_bytes(addresses: &[SocketAddr]) -> Address {
    let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
    let mut bytes = vec![VERSION, addresses.len() as u8];
    for address in addresses {
        match address.ip() {
            IpAddr::V4(ip) => {
                bytes.push(4);
                bytes.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                bytes.push(6);
                bytes.extend_from_slice(&ip.octets());
            }
        }
        bytes.extend_from_slice(&address.port().to_le_bytes());
    }
    Address(bytes.into())
}

/// Reads what [`to_bytes`] wrote; `None`: it is something else.
pub fn from_bytes(address: &Address) -> Option<Vec<SocketAddr>> {
    let [VERSION, count, rest @ ..] = &*address.0 else { return None };
    let (mut rest, mut found) = (rest, Vec::new());
    for _ in 0..*count {
        let (family, behind) = rest.split_first()?;
        let (ip, behind): (IpAddr, &[u8]) = match family {
            4 => behind.split_first_chunk::<4>().map(|(ip, behind)| (Ipv4Addr::from(*ip).into(), behind))?,
            6 => behind.split_first_chunk::<16>().map(|(ip, behind)| (Ipv6Addr::from(*ip).into(), behind))?,
            _ => return None,
        };
        let (port, behind) = behind.split_first_chunk::<2>()?;
        found.push(SocketAddr::new(ip, u16::from_le_bytes(*port)));
        rest = behind;
    }
    let is_whole = rest.is_empty() && (1..=ADDRESSES_MAX).contains(&found.len());
    is_whole.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_travel_and_nothing_else_is_one() {
        let both = ["127.0.0.1:80", "[fe80::1]:65535"].map(|text| text.parse().expect("an address"));
        let bytes = to_bytes(&both);
        assert_eq!(from_bytes(&bytes).as_deref(), Some(&both[..]));
        for length in 0..bytes.0.len() {
            assert_eq!(from_bytes(&Address(bytes.0[..length].into())), None, "{length} bytes");
        }
        assert_eq!(from_bytes(&Address([&*bytes.0, &[0]].concat().into())), None);
        assert_eq!(from_bytes(&to_bytes(&[])), None);
        let many = to_bytes(&[both[1]; 20]);
        assert_eq!((many.0.len(), from_bytes(&many).map(|all| all.len())), (ADDRESS_BYTES_MAX, Some(8)));
    }
}
