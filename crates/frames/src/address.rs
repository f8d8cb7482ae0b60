//! Where a rank is found, as bytes: a version, its port, and its cards, each with how long frames may be there, and its name on that host.

use castell_esp::Mac;
use castell_transport::Address;

/// Of this format. Other transports' addresses begin otherwise.
const VERSION: u8 = 0xE2;
/// The most cards of a rank: an address has room for so many with the longest names.
pub const CARDS_MAX: usize = 7;
/// The longest name of an interface.
const NAME_BYTES_MAX: usize = 15;

/// A card of a rank, as others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardAt {
    /// Its hardware address.
    pub mac: Mac,
    /// The MTU there, bytes: one segment has one.
    pub mtu_bytes: u16,
    /// The interface's name, for people.
    pub name: String,
}

/// What others need to know of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The port behind each of its cards.
    pub port: u16,
    /// Its cards, by name.
    pub cards: Vec<CardAt>,
}

impl Reach {
    /// The names of its cards, with commas.
    pub fn names(&self) -> String {
        self.cards.iter().map(|card| &*card.name).collect::<Vec<_>>().join(", ")
    }
}

/// As it travels.
pub fn to_bytes(reach: &Reach) -> Address {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&reach.port.to_le_bytes());
    for card in &reach.cards {
        bytes.extend_from_slice(&card.mac.0);
        bytes.extend_from_slice(&card.mtu_bytes.to_le_bytes());
        bytes.push(card.name.len() as u8);
        bytes.extend_from_slice(card.name.as_bytes());
    }
    Address(bytes.into())
}

/// Reads what [`to_bytes`] wrote; `None`: it is something else.
pub fn from_bytes(address: &Address) -> Option<Reach> {
    let [VERSION, rest @ ..] = &*address.0 else { return None };
    let (port, mut rest) = rest.split_first_chunk::<2>()?;
    let mut cards = Vec::new();
    while !rest.is_empty() {
        let (mac, behind) = rest.split_first_chunk::<6>()?;
        let (mtu_bytes, behind) = behind.split_first_chunk::<2>()?;
        let (bytes, behind) = behind.split_first()?;
        let (name, behind) = behind.split_at_checked(usize::from(*bytes))?;
        let name =
            std::str::from_utf8(name).ok().filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()))?;
        cards.push(CardAt {
            mac: Mac(*mac),
            mtu_bytes: u16::from_le_bytes(*mtu_bytes),
            name: name.to_owned(),
        });
        rest = behind;
    }
    let reach = Reach { port: u16::from_le_bytes(*port), cards };
    (1..=CARDS_MAX).contains(&reach.cards.len()).then_some(reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(odd: u8, name: &str) -> CardAt {
        CardAt { mac: Mac([2, 1, 3, 4, 5, odd]), mtu_bytes: 9000 + u16::from(odd), name: name.to_owned() }
    }

    #[test]
    fn addresses_travel_and_nothing_else_is_one() {
        let cards = vec![card(6, "eth0"), card(7, "enp0s31f6.12345")];
        let reach = Reach { port: 0x0102, cards };
        let bytes = to_bytes(&reach);
        assert_eq!(from_bytes(&bytes), Some(reach));
        let first = 3 + 9 + 4;
        for length in (0..bytes.0.len()).filter(|length| *length != first) {
            assert_eq!(from_bytes(&Address(bytes.0[..length].into())), None, "{length} bytes");
        }
        assert_eq!(from_bytes(&Address([&*bytes.0, &[0]].concat().into())), None);
        assert_eq!(from_bytes(&Address([&[0xE1], &bytes.0[1..]].concat().into())), None);
        let no_name = Reach { port: 1, cards: vec![card(1, "")] };
        assert_eq!(from_bytes(&to_bytes(&no_name)), None);
    }

    #[test]
    fn as_many_cards_as_there_may_be_have_room() {
        let cards: Vec<CardAt> = (0..CARDS_MAX as u8).map(|odd| card(odd, "fifteen-letters")).collect();
        let mut reach = Reach { port: 1, cards };
        assert_eq!(from_bytes(&to_bytes(&reach)).as_ref(), Some(&reach));
        // What a job's memory has room for.
        assert!(to_bytes(&reach).0.len() <= 176);
        reach.cards.push(card(99, "a"));
        assert_eq!(from_bytes(&to_bytes(&reach)), None);
    }
}
