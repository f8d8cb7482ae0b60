//! The network interfaces of this host.

mod subnet;

pub use subnet::Subnet;

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface's name.
    pub interface: String,
    /// The address.
    pub ip: IpAddr,
}

/// The addresses at which other hosts may reach this one, and behind them those for this host only; IPv4 first, and nothing that needs
/// a scope to be understood (link-local IPv6). Empty where the system does not tell.
pub fn addresses() -> Vec<InterfaceAddress> {
    let mut found = all();
    found.retain(|one| match one.ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    });
    found.sort_by_key(|one| (one.ip.is_loopback(), one.ip.is_ipv6()));
    found
}

/// All of [`addresses`], for people: `eth0 (10.1.0.5, fd00::5), lo (127.0.0.1, ::1)`.
pub fn described() -> String {
    let mut names: Vec<(String, Vec<String>)> = Vec::new();
    for one in addresses() {
        let ip = one.ip.to_string();
        match names.iter_mut().find(|(name, _)| *name == one.interface) {
            Some((_, ips)) => ips.push(ip),
            None => names.push((one.interface, vec![ip])),
        }
    }
    if names.is_empty() {
        return "none that is up and has an address".into();
    }
    names.iter().map(|(name, ips)| format!("{name} ({})", ips.join(", "))).collect::<Vec<_>>().join(", ")
}

/// Has an interface of this process's network namespace gather frames before it hands them on (generic receive offload), or not. The end of a
/// veth pair that does so takes frames which a program at the other end's XDP hook redirects; one that does not drops them.
///
/// # Errors
/// There is no such interface, it cannot, or this process may not.
pub fn gather_frames(name: &str, gathers: bool) -> io::Result<()> {
    const SET_GENERIC_RECEIVE_OFFLOAD: u32 = 0x2c;
    ask_driver(name, &mut [SET_GENERIC_RECEIVE_OFFLOAD, gathers.into()])
}

/// The driver of an interface of this process's network namespace, such as `veth`.
///
/// # Errors
/// There is no such interface, or its driver has no name.
pub fn driver(name: &str) -> io::Result<String> {
    const GET_DRIVER: u32 = 3;
    // The command, then names of 32 bytes each, the driver's first.
    let mut value = [0_u32; 49];
    value[0] = GET_DRIVER;
    ask_driver(name, &mut value)?;
    let bytes =
        value[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// Has the driver do what the first word says, with what lies behind it. `value` is as long as that command's.
fn ask_driver(name: &str, value: &mut [u32]) -> io::Result<()> {
    // SAFETY: plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: the call reads the name, which ends with a zero, and the value behind the pointer, both alive.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// There is not one Ethernet interface, but none or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOne {
    /// Their names.
    pub found: Vec<String>,
}

impl fmt::Display for NotOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found[..] {
            [] => write!(f, "no Ethernet interface is up on this host; `ip -br link` shows what there is"),
            found => write!(
                f,
                "this host has several Ethernet interfaces that are up: {}; name the one that reaches the others",
                found.join(", ")
            ),
        }
    }
}

impl std::error::Error for NotOne {}

/// The Ethernet interface of this name; without one the only one that is up in this process's network namespace.
///
/// # Errors
/// None has a name, and there is not only one.
pub fn ethernet(name: &str) -> Result<String, NotOne> {
    if !name.is_empty() {
        return Ok(name.to_owned());
    }
    let found = ethernets();
    match &found[..] {
        [only] => Ok(only.clone()),
        _ => Err(NotOne { found }),
    }
}

/// The Ethernet interfaces that are up in this process's network namespace, by name.
pub fn ethernets() -> Vec<String> {
    let mut found = Vec::new();
    each(|entry, name| {
        // SAFETY: an address of the list, or none; its family says what it is.
        let is_ethernet = unsafe { is_ethernet(entry.ifa_addr) };
        if is_ethernet && entry.ifa_flags & libc::IFF_LOOPBACK as u32 == 0 {
            found.push(name.to_owned());
        }
    });
    found.sort();
    found
}

/// # Safety
/// Null, or an address as long as its family says.
unsafe fn is_ethernet(address: *const libc::sockaddr) -> bool {
    // SAFETY: the caller's promise.
    let Some(family) = (unsafe { address.as_ref() }).map(|address| i32::from(address.sa_family)) else {
        return false;
    };
    // SAFETY: as above.
    family == libc::AF_PACKET
        && unsafe { &*address.cast::<libc::sockaddr_ll>() }.sll_hatype == libc::ARPHRD_ETHER
}

/// Whether an interface is up and the other end of its line, too.
pub fn is_running(name: &str) -> bool {
    const GET_LINK: u32 = 0x0a;
    // Else the kernel may notice a second late that the line is there. An interface that cannot say it is as the kernel has it.
    let _ = ask_driver(name, &mut [GET_LINK, 0]);
    let mut is_running = false;
    each(|entry, found| is_running |= found == name && entry.ifa_flags & libc::IFF_RUNNING as u32 != 0);
    is_running
}

fn all() -> Vec<InterfaceAddress> {
    let mut found = Vec::new();
    each(|entry, name| {
        // SAFETY: an address of the list, or none; its family says what it is.
        if let Some(ip) = unsafe { address_of(entry.ifa_addr) } {
            found.push(InterfaceAddress { interface: name.to_owned(), ip });
        }
    });
    found
}

/// Each address of an interface that is up, with the interface's name; nothing where the system does not tell.
fn each(mut see: impl FnMut(&libc::ifaddrs, &str)) {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call fills the pointer with a list of its own, or fails.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return;
    }
    let mut at = first;
    // SAFETY: an entry of the list, which lives until it is freed below, or the end.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP as u32 != 0 {
            // SAFETY: the entry has a name that ends with a zero byte.
            see(entry, &unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy());
        }
    }
    // SAFETY: what the call above gave, once.
    unsafe { libc::freeifaddrs(first) };
}

/// # Safety
/// Null, or an address as long as its family says.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's promise.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: as above.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_named_unless_there_is_one_only() {
        assert_eq!(ethernet("ib0"), Ok("ib0".to_owned()));
        match ethernet("") {
            Ok(name) => assert_ne!(name, "lo"),
            Err(NotOne { found }) => {
                assert!(found.len() != 1 && !found.contains(&"lo".to_owned()), "{found:?}")
            }
        }
        let said = NotOne { found: vec!["a".to_owned(), "b".to_owned()] }.to_string();
        assert!(said.contains("a, b; name the one"), "{said}");
    }

    #[test]
    fn this_host_is_found() {
        let found = addresses();
        assert!(found.iter().all(|one| std::net::TcpListener::bind((one.ip, 0)).is_ok()), "{found:?}");
        let last_far = found.iter().rposition(|one| !one.ip.is_loopback());
        let first_near = found.iter().position(|one| one.ip.is_loopback());
        assert!(last_far.is_none_or(|far| first_near.is_none_or(|near| far < near)), "{found:?}");
    }
}
