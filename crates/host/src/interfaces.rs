//! The network interfaces of this host.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

fn all() -> Vec<InterfaceAddress> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call fills the pointer with a list of its own, or fails.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Vec::new();
    }
    let (mut found, mut at) = (Vec::new(), first);
    // SAFETY: an entry of the list, which lives until it is freed below, or the end.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        let is_up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        // SAFETY: an address of the list, or none; its family says what it is.
        let ip = unsafe { address_of(entry.ifa_addr) };
        if let Some(ip) = ip.filter(|_| is_up) {
            // SAFETY: the entry has a name that ends with a zero byte.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push(InterfaceAddress { interface: name.to_string_lossy().into_owned(), ip });
        }
    }
    // SAFETY: what the call above gave, once.
    unsafe { libc::freeifaddrs(first) };
    found
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
    fn this_host_is_found() {
        let found = addresses();
        assert!(found.iter().all(|one| std::net::TcpListener::bind((one.ip, 0)).is_ok()), "{found:?}");
        let last_far = found.iter().rposition(|one| !one.ip.is_loopback());
        let first_near = found.iter().position(|one| one.ip.is_loopback());
        assert!(last_far.is_none_or(|far| first_near.is_none_or(|near| far < near)), "{found:?}");
    }
}
