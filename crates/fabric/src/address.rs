//! Where a rank is found, as bytes: a version, the provider and what it calls the endpoint, and the process's nonce.

use crate::hello::{NONCE_BYTES, Nonce};
use castell_transport::Address;

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

#[cfg(test)]
mod tests {
    use super::*;

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
