//! At which of a host's addresses ranks speak TCP.

use super::net::Interface;
use castell_host::interfaces::{self, Subnet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Some of a host's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Place {
    /// All of them: who connects takes one that it reaches.
    #[default]
    Anywhere,
    /// Those of the interface that has this name on each host.
    Interface(Interface),
    /// Those in this network.
    Subnet(Subnet),
}

impl Place {
    /// The addresses of this host that are meant, the best first. Where nothing was chosen that may be none.
    ///
    /// # Errors
    /// Of what was chosen nothing is here: which interfaces there are.
    pub fn addresses(self) -> Result<Vec<IpAddr>, String> {
        let is_meant = |one: &interfaces::InterfaceAddress| match self {
            Place::Anywhere => true,
            Place::Interface(interface) => one.interface == interface.name(),
            Place::Subnet(subnet) => subnet.contains(one.ip),
        };
        let found: Vec<IpAddr> =
            interfaces::addresses().into_iter().filter(is_meant).map(|one| one.ip).collect();
        if found.is_empty() && self != Place::Anywhere {
            let what = match self {
                Place::Subnet(_) => format!("address in `{self}`"),
                _ => format!("network interface `{self}` that is up and has an address"),
            };
            return Err(format!("this host has no {what}; it has {}", interfaces::described()));
        }
        Ok(found)
    }

    /// As it stands in a job's header.
    pub(super) fn to_words(self) -> [u64; 4] {
        match self {
            Place::Anywhere => [0; 4],
            Place::Interface(interface) => {
                let [front, back] = interface.to_words();
                [1, front, back, 0]
            }
            Place::Subnet(subnet) => {
                let (kind, bits) = match subnet.ip() {
                    IpAddr::V4(ip) => (2, u128::from(ip.to_bits())),
                    IpAddr::V6(ip) => (3, ip.to_bits()),
                };
                [kind, bits as u64, (bits >> 64) as u64, subnet.bits().into()]
            }
        }
    }

    /// `None`: these are no place's.
    pub(super) fn from_words(words: [u64; 4]) -> Option<Place> {
        let [kind, low, high, bits] = words;
        let ip = match kind {
            0 => return Some(Place::Anywhere),
            1 => return Interface::from_words([low, high]).map(Place::Interface),
            2 => IpAddr::V4(Ipv4Addr::from_bits(low.try_into().ok()?)),
            3 => IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))),
            _ => return None,
        };
        Subnet::new(ip, bits.try_into().ok()?).map(Place::Subnet)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Anywhere => Ok(()),
            Place::Interface(interface) => out.write_str(interface.name()),
            Place::Subnet(subnet) => write!(out, "{subnet}"),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if text.contains('/') || text.parse::<IpAddr>().is_ok() {
            return text.parse().map(Place::Subnet);
        }
        Interface::new(text).map(Place::Interface).ok_or_else(|| {
            format!("`{text}` is neither a network interface such as eth1 nor a network such as 10.1.0.0/16")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_and_read() {
        for text in ["eth1", "10.1.0.0/16", "10.1.0.7/32", "fd00:1::/64"] {
            let place: Place = text.parse().expect("a place");
            assert_eq!(place.to_string(), text);
            assert_eq!(Place::from_words(place.to_words()), Some(place));
        }
        assert_eq!(Place::from_words([0; 4]), Some(Place::Anywhere));
        assert_eq!(Place::from_words([2, 1 << 32, 0, 8]), None);
        assert_eq!(Place::from_words([9, 0, 0, 0]), None);
    }

    #[test]
    fn what_is_not_here_is_told_with_what_is() {
        let here = |text: &str| text.parse::<Place>().expect("a place").addresses();
        assert!(here("lo").expect("there is one").iter().all(IpAddr::is_loopback));
        assert_eq!(here("127.0.0.0/8"), Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]));
        let error = here("nosuch0").expect_err("no interface");
        assert!(error.contains("`nosuch0`") && error.contains("lo (127.0.0.1"), "{error}");
        let error = here("203.0.113.0/24").expect_err("no address");
        assert!(error.contains("no address in `203.0.113.0/24`; it has "), "{error}");
    }
}
