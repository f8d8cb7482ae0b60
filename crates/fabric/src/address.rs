//! Where a rank is found, as bytes: a version, the provider and what it calls the endpoint, and the process's nonce.

use crate::abi::{FORMAT_SOCKADDR_IN, FORMAT_SOCKADDR_IN6};
use crate::hello::{NONCE_BYTES, Nonce};
use castell_transport::Address;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Of this format. Other transports' addresses begin otherwise.
const VERSION: u8 = 0xFA;
/// The longest name of a provider that is told.
const PROVIDER_BYTES_MAX: usize = 31;
/// The longest name of an endpoint.
pub(crate) const NAME_BYTES_MAX: usize = 120;
/// The longest there is, bytes: as much as a job's memory keeps for each rank.
pub(crate) const BYTES_MAX: usize = 1 + 1 + PROVIDER_BYTES_MAX + 1 + NONCE_BYTES + NAME_BYTES_MAX;

/// What others need to know of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Who understands the name.
    pub(crate) provider: String,
    /// In which format.
    pub(crate) format: u8,
    /// Of this process.
    pub(crate) nonce: Nonce,
    /// What the provider calls the endpoint.
    pub(crate) name: Box<[u8]>,
}

/// The beginning of a provider's name, as far as it is told.
pub(crate) fn told(provider: &str) -> String {
    provider.chars().take(PROVIDER_BYTES_MAX).filter(char::is_ascii).collect()
}

/// As it travels.
pub(crate) fn to_bytes(place: &Place) -> Address {
    let mut bytes = vec![VERSION, place.provider.len() as u8];
    bytes.extend_from_slice(place.provider.as_bytes());
    bytes.push(place.format);
    bytes.extend_from_slice(&place.nonce);
    bytes.extend_from_slice(&place.name);
    Address(bytes.into())
}

/// Reads what [`to_bytes`] wrote; `None`: it is something else.
pub(crate) fn from_bytes(address: &Address) -> Option<Place> {
    let [VERSION, length, rest @ ..] = &*address.0 else { return None };
    let (provider, rest) = rest.split_at_checked(usize::from(*length))?;
    let (format, rest) = rest.split_first()?;
    let (nonce, name) = rest.split_first_chunk::<NONCE_BYTES>()?;
    let provider = std::str::from_utf8(provider).ok()?.to_owned();
    let is_one = provider.len() <= PROVIDER_BYTES_MAX && (1..=NAME_BYTES_MAX).contains(&name.len());
    is_one.then(|| Place { provider, format: *format, nonce: *nonce, name: name.into() })
}

/// Where a rank is found, for people; `None`: it is no address of a fabric's.
pub fn describe(address: &Address) -> Option<String> {
    let Place { provider, format, name, .. } = from_bytes(address)?;
    let port = || name.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
    let at = match u32::from(format) {
        FORMAT_SOCKADDR_IN => {
            let ip = Ipv4Addr::from(*name.get(4..8)?.first_chunk::<4>()?);
            format!("{ip}:{}", port()?)
        }
        FORMAT_SOCKADDR_IN6 => {
            let ip = Ipv6Addr::from(*name.get(8..24)?.first_chunk::<16>()?);
            format!("[{ip}]:{}", port()?)
        }
        _ => name.iter().take_while(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect(),
    };
    Some(format!("{provider} {at}").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_where_a_rank_is() {
        let place = |format: u32, name: &[u8]| {
            let place = Place {
                provider: told("tcp;ofi_rxm"),
                format: format as u8,
                nonce: [5; 16],
                name: name.into(),
            };
            describe(&to_bytes(&place))
        };
        let v4 = place(FORMAT_SOCKADDR_IN, &[2, 0, 0x1F, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(v4.as_deref(), Some("tcp;ofi_rxm 127.0.0.1:8080"));
        assert_eq!(place(FORMAT_SOCKADDR_IN, &[2]), None);
        assert_eq!(place(99, b"fi_shm://7\0").as_deref(), Some("tcp;ofi_rxm fi_shm://7"));
        assert_eq!(describe(&Address([2, 1].into())), None);
    }

    #[test]
    fn addresses_travel_and_nothing_else_is_one() {
        let place = Place {
            provider: told("a-provider-with-a-very-long-name;and-another"),
            format: 2,
            nonce: [5; 16],
            name: vec![9; NAME_BYTES_MAX].into(),
        };
        let bytes = to_bytes(&place);
        assert_eq!(bytes.0.len(), BYTES_MAX);
        assert_eq!(from_bytes(&bytes), Some(place));
        for length in 0..BYTES_MAX - NAME_BYTES_MAX + 1 {
            assert_eq!(from_bytes(&Address(bytes.0[..length].into())), None, "{length} bytes");
        }
        assert_eq!(from_bytes(&Address([&*bytes.0, &[0]].concat().into())), None);
        assert_eq!(from_bytes(&Address([&[2], &bytes.0[1..]].concat().into())), None);
    }
}
