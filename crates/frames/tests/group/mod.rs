//! Groups of ranks, each on a host of its own, in one thread. The clock is the test's, so that nothing depends on how busy the machine is;
//! whoever finds nothing while something is under way gives the system a moment.

#[path = "../../../transport/tests/patient/mod.rs"]
mod patient;
#[path = "../../../transport/tests/patient/ranks.rs"]
mod ranks;

use crate::hosts::{Hosts, ip};
use castell_base::Rank;
use castell_frames::{Esp, EspOptions};
use castell_host::clock::Clock;
use castell_transport::Down;
use ranks::{Ranks, Told};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

impl Told for Esp {
    fn is_gone(&mut self, rank: Rank, why: Down) {
        Esp::is_gone(self, rank, why);
    }

    fn leave(&mut self) {
        Esp::leave(self);
    }
}

/// One more bridge.
pub fn bridge(name: &str) {
    let still = ["stp_state", "0", "forward_delay", "0", "mcast_snooping", "0"];
    ip(&[&["link", "add", name, "type", "bridge"], &still[..]].concat());
    ip(&["link", "set", name, "up"]);
}

/// An interface of this name for each of these hosts, at a bridge.
pub fn join(hosts: &Hosts, bridge: &str, interface: &str, members: &[usize], mtu: usize) {
    let mtu = mtu.to_string();
    for member in members {
        let namespace = hosts.on(*member, || File::open("/proc/thread-self/ns/net")).expect("a namespace");
        let there = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        let line = format!("{interface}v{member}");
        let ends = ["type", "veth", "peer", "name", interface, "mtu", &mtu, "netns", &there];
        ip(&[&["link", "add", "name", &line, "mtu", &mtu], &ends[..]].concat());
        ip(&["link", "set", &line, "master", bridge, "up"]);
        hosts.on(*member, || ip(&["link", "set", interface, "up"]));
    }
}

/// At `e0` of each host. `secret`: another one for each group, so that none hears another.
pub fn ranks(hosts: &Rc<Hosts>, count: u32, secret: u8, message_bytes_max: usize) -> Ranks<Esp> {
    ranks_at(hosts, &["e0"], count, secret, message_bytes_max)
}

/// At these interfaces, as far as a host has them; none: at all.
pub fn ranks_at(
    hosts: &Rc<Hosts>,
    interfaces: &[&str],
    ranks: u32,
    secret: u8,
    message_bytes_max: usize,
) -> Ranks<Esp> {
    let clock = Arc::new(AtomicU64::new(1_000_000_000));
    let options = EspOptions {
        message_bytes_max,
        clock: Clock::Virtual(Arc::clone(&clock)),
        interfaces: interfaces.iter().map(|name| (*name).to_owned()).collect(),
        ..EspOptions::default()
    };
    let hosts = Rc::clone(hosts);
    Ranks::made(ranks, clock, move |rank| {
        let made = hosts.on(rank as usize, || Esp::new(Rank(rank), ranks, &[secret; 32], &options));
        made.unwrap_or_else(|error| panic!("{error}"))
    })
}
