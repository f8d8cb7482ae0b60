//! What carries messages from rank to rank, as a job is told on command lines.

use super::place::Place;
use std::fmt;
use std::str::FromStr;

/// A network interface's name of up to 15 bytes; none: the only Ethernet interface that a host has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Interface([u8; 16]);

impl Interface {
    /// The only Ethernet interface that is up, whatever its name on each host.
    pub const ONLY: Interface = Interface([0; 16]);

    /// One of this name, which need not be there.
    pub fn new(name: &str) -> Option<Interface> {
        let may_be = !matches!(name, "" | "." | "..") && name.len() < 16;
        let is_odd = |byte: u8| matches!(byte, b'/' | b':' | 0..=b' ' | 0x7F);
        if !may_be || name.bytes().any(is_odd) {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Interface(bytes))
    }

    /// The name.
    pub fn name(&self) -> &str {
        text_of(&self.0)
    }

    pub(super) fn to_words(self) -> [u64; 2] {
        let word = |at: usize| u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"));
        [word(0), word(8)]
    }

    /// `None`: these are no name's.
    pub(super) fn from_words(words: [u64; 2]) -> Option<Interface> {
        let bytes = words.map(u64::to_le_bytes).concat();
        match bytes.iter().position(|byte| *byte == 0)? {
            0 => Some(Interface::ONLY),
            end => Interface::new(std::str::from_utf8(&bytes[..end]).ok()?),
        }
    }
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(name: &str) -> Result<Interface, String> {
        Interface::new(name).ok_or_else(|| {
            format!("`{name}` is no name of a network interface; `ip -br link` shows which there are")
        })
    }
}

impl fmt::Debug for Interface {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Interface({})", self.name())
    }
}

/// Names of network interfaces, which a host need not all have: up to 31 letters with the commas. None: all of Ethernet that are up.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Interfaces([u8; 32]);

impl Interfaces {
    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.text().split(',').filter(|name| !name.is_empty())
    }

    fn text(&self) -> &str {
        text_of(&self.0)
    }

    pub(super) fn to_words(self) -> [u64; 4] {
        words_of(&self.0)
    }

    /// `None`: these are no names.
    pub(super) fn from_words(words: [u64; 4]) -> Option<Interfaces> {
        let bytes = words.map(u64::to_le_bytes).concat();
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&bytes[..end]).ok()?;
        if text.is_empty() { Some(Interfaces::default()) } else { text.parse().ok() }
    }
}

impl FromStr for Interfaces {
    type Err = String;

    /// Reads `eth0`, and `eth0,eth1`.
    fn from_str(text: &str) -> Result<Interfaces, String> {
        for name in text.split(',') {
            name.parse::<Interface>()?;
        }
        let mut bytes = [0; 32];
        if text.len() >= bytes.len() {
            return Err(format!(
                "`{text}` is longer than 31 letters: name fewer network interfaces, or none, and all of Ethernet are tried"
            ));
        }
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Interfaces(bytes))
    }
}

impl fmt::Debug for Interfaces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Interfaces({})", self.text())
    }
}

/// Up to the first zero.
fn text_of(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).unwrap_or_default()
}

fn words_of(bytes: &[u8; 32]) -> [u64; 4] {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    [word(0), word(8), word(16), word(24)]
}

/// A provider of libfabric's, and perhaps a device of it, as `tcp;ofi_rxm/eth0`: up to 31 bytes, none if any will do.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Provider([u8; 32]);

impl Provider {
    /// One of this name, which need not be there.
    pub fn new(name: &str) -> Option<Provider> {
        let mut bytes = [0; 32];
        if name.len() >= bytes.len() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Provider(bytes))
    }

    /// The name; empty: any.
    pub fn name(&self) -> &str {
        text_of(&self.0)
    }

    pub(super) fn to_words(self) -> [u64; 4] {
        words_of(&self.0)
    }

    /// `None`: these are no name's.
    pub(super) fn from_words(words: [u64; 4]) -> Option<Provider> {
        let bytes = words.map(u64::to_le_bytes).concat();
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Provider::new(std::str::from_utf8(&bytes[..end]).ok()?)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Provider({})", self.name())
    }
}

/// How TCP is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OverTcp {
    /// Whether what the ranks say is encrypted.
    pub encrypts: bool,
    /// Where on each host its ranks are found.
    pub place: Place,
}

/// What carries messages from rank to rank. What the ranks of a host know of each other (who lives, what was called) stays in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Net {
    /// The job's shared memory, and TCP between hosts.
    #[default]
    Shm,
    /// Shared memory, and TCP between hosts; on one host alone TCP between all ranks.
    Tcp(OverTcp),
    /// Shared memory, and raw Ethernet frames between hosts, by whichever of these interfaces reaches the other.
    Esp(Interfaces),
    /// Shared memory, and libfabric between hosts; on one host alone libfabric between all ranks.
    Fabric(Provider),
}

impl Net {
    /// At which of a host's addresses launcher, agents and ranks speak TCP, if they do.
    pub fn place(self) -> Place {
        if let Net::Tcp(OverTcp { place, .. }) = self { place } else { Place::Anywhere }
    }

    /// The word for it, without interface and provider.
    pub fn name(self) -> &'static str {
        match self {
            Net::Shm => "shm",
            Net::Tcp(OverTcp { encrypts: true, .. }) => "tcp+tls",
            Net::Tcp(_) => "tcp",
            Net::Esp(_) => "esp",
            Net::Fabric(_) => "fabric",
        }
    }

    /// Whether ranks of one host share memory, if there are several hosts or only one.
    pub(super) fn leaves_shared_memory(self, has_hosts: bool) -> bool {
        match self {
            Net::Shm | Net::Esp(_) => true,
            Net::Tcp(_) | Net::Fabric(_) => has_hosts,
        }
    }
}

/// As it is written on command lines.
impl fmt::Display for Net {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Net::Tcp(OverTcp { place, .. }) if *place != Place::Anywhere => {
                write!(out, "{}={place}", self.name())
            }
            Net::Esp(interfaces) if *interfaces != Interfaces::default() => {
                write!(out, "esp={}", interfaces.text())
            }
            Net::Fabric(provider) if !provider.name().is_empty() => write!(out, "fabric={}", provider.name()),
            net => out.write_str(net.name()),
        }
    }
}

impl FromStr for Net {
    type Err = String;

    fn from_str(word: &str) -> Result<Net, String> {
        match word.split_once('=') {
            None if word == "shm" => Ok(Net::Shm),
            None if word == "tcp" => Ok(Net::Tcp(OverTcp::default())),
            None if word == "tcp+tls" => Ok(Net::Tcp(OverTcp { encrypts: true, place: Place::Anywhere })),
            Some((tcp @ ("tcp" | "tcp+tls"), place)) => {
                let encrypts = tcp == "tcp+tls";
                place.parse().map(|place| Net::Tcp(OverTcp { encrypts, place }))
            }
            None if word == "esp" => Ok(Net::Esp(Interfaces::default())),
            Some(("esp", names)) => names.parse().map(Net::Esp),
            None if word == "fabric" => Ok(Net::Fabric(Provider::default())),
            Some(("fabric", name)) if !name.is_empty() => {
                Provider::new(name).map(Net::Fabric).ok_or_else(|| {
                    format!(
                        "`{name}` is no name of a provider; `castell ways --explain` shows which there are"
                    )
                })
            }
            _ => Err(format!(
                "`{word}` is no network that castell knows: shm, tcp, tcp=INTERFACE, tcp=NETWORK/BITS, tcp+tls, tcp+tls=INTERFACE, esp, esp=INTERFACE,..., fabric, or fabric=PROVIDER"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_they_are_written() {
        let tcp = ["tcp", "tcp+tls", "tcp=eth0", "tcp+tls=ib0", "tcp=10.1.0.0/16", "tcp+tls=fd00:1::/64"];
        let esp = ["esp", "esp=eth0", "esp=enp0s31f6.12345", "esp=eth0,ib0,enp129s0f1np1"];
        for word in ["shm", "fabric", "fabric=tcp;ofi_rxm/eth0"].into_iter().chain(tcp).chain(esp) {
            assert_eq!(word.parse::<Net>().map(|net| net.to_string()), Ok(word.to_owned()));
        }
        for word in [
            "",
            "fabric=",
            "fabric=a b",
            "fabric=thirty-two-letters-are-one-too-many",
            "esp=",
            "esp=a b",
            "esp=a/b",
            "esp=..",
            "tcp=",
            "tcp=a b",
            "tcp=10.1.0.0/33",
            "tcp+ssl",
            "udp",
            "esp=sixteen-letters-",
            "esp=eth0,",
            "esp=,eth0",
            "esp=eth0,a b",
            "esp=enp129s0f0np0,enp129s0f1np1,eth0",
        ] {
            assert!(word.parse::<Net>().is_err(), "{word}");
        }
        let eth = Interface::new("eth0").expect("a name");
        assert_eq!(Interface::from_words(eth.to_words()), Some(eth));
        assert_eq!(Interface::from_words(Interface::ONLY.to_words()), Some(Interface::ONLY));
        assert_eq!(Interface::from_words([u64::MAX; 2]), None);
        for names in [Interfaces::default(), "eth0,enp129s0f1np1,wlan0".parse().expect("names")] {
            assert_eq!(Interfaces::from_words(names.to_words()), Some(names));
        }
        assert_eq!("a,b".parse::<Interfaces>().expect("names").names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(Interfaces::default().names().count(), 0);
        assert_eq!(Interfaces::from_words([u64::MAX; 4]), None);
        let tcp = Provider::new("tcp;ofi_rxm").expect("a name");
        assert_eq!(Provider::from_words(tcp.to_words()), Some(tcp));
        assert_eq!(Provider::from_words([0; 4]), Some(Provider::default()));
        assert_eq!(Provider::from_words([u64::MAX; 4]), None);
    }
}
