//! Parts of networks, as `10.1.0.0/16`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    ip: IpAddr,
    bits: u8,
}

impl Subnet {
    /// Those whose first `bits` are the same as those of `ip`; `None`: an address has fewer.
    pub fn new(ip: IpAddr, bits: u8) -> Option<Subnet> {
        let ip = match ip {
            IpAddr::V4(ip) if bits <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
            }
            IpAddr::V6(ip) if bits <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
            }
            _ => return None,
        };
        Some(Subnet { ip, bits })
    }

    /// The first address.
    pub fn ip(self) -> IpAddr {
        self.ip
    }

    /// How many bits all have in common.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// Whether an address is one of them.
    pub fn contains(self, ip: IpAddr) -> bool {
        Subnet::new(ip, self.bits) == Some(self)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.bits)
    }
}

/// An address alone is a network of one.
impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Subnet, String> {
        let (ip, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let wrong = || format!("`{text}` is no network: write it as 10.1.0.0/16 or fd00:1::/64");
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let whole = if ip.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(whole), |bits| bits.parse().ok()).ok_or_else(wrong)?;
        Subnet::new(ip, bits).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_begins_alike() {
        let subnet = |text: &str| text.parse::<Subnet>().expect("a network");
        let holds = |net: &str, ip: &str| subnet(net).contains(ip.parse().expect("an address"));
        assert!(holds("10.1.0.0/16", "10.1.255.7") && !holds("10.1.0.0/16", "10.2.0.7"));
        assert!(holds("10.1.2.3/16", "10.1.0.9"), "what stands behind the bits does not count");
        assert!(holds("0.0.0.0/0", "9.9.9.9") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("fd00:1::/64", "fd00:1::9") && !holds("fd00:1::/64", "fd00:1:0:1::9"));
        assert!(holds("::1", "::1") && !holds("::1", "::2"));
        assert_eq!(subnet("10.1.2.3/16").to_string(), "10.1.0.0/16");
        assert_eq!(subnet("10.1.2.3").to_string(), "10.1.2.3/32");
        for bad in ["", "10.1", "10.1.0.0/33", "10.1.0.0/", "10.1.0.0/-1", "::/129", "eth0", "/8"] {
            assert!(bad.parse::<Subnet>().is_err(), "{bad}");
        }
    }
}
