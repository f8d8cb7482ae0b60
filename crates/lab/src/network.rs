//! The network of a lab, by the programs that everybody has who looks after networks: `ip` and `tc`.
//!
//! ```text
//!   host h1: eth0 ──── v1-0 ┐
//!   host h2: eth0 ──── v2-0 ┼── bridge, or the switch of ours (`switch.rs`)     10.202.0.x, fd00:ca57::x
//!   host h3: eth0 ──── v3-0 ┘
//!   host h1: eth1 ──── v1-1 ┬── another segment, where one was asked for        10.202.1.x, fd00:ca57:0:1::x
//!   host h3: eth1 ──── v3-1 ┘
//! ```

use crate::LabError;
use crate::naming::{address_of, address6_of, bridge_of, interface_of, line_of, mac_of, name_of};
use castell_host::interfaces;
use std::io::Write;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// It never takes so long.
const CARRIER_WITHIN: Duration = Duration::from_secs(5);

/// Bits a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(u64);

impl FromStr for Rate {
    type Err = String;

    /// Reads `500mbit`, `10gbit`, `64kbit`.
    fn from_str(text: &str) -> Result<Rate, String> {
        let number = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(number);
        let unit = match unit {
            "bit" => Some(1),
            "kbit" => Some(1_000),
            "mbit" => Some(1_000_000),
            "gbit" => Some(1_000_000_000),
            _ => None,
        };
        let rate = unit.zip(number.parse::<u64>().ok()).and_then(|(unit, number)| number.checked_mul(unit));
        let rate = rate.filter(|rate| (8_000..=1_000_000_000_000).contains(rate)).map(Rate);
        rate.ok_or_else(|| format!("`{text}` is no rate: write it as 100mbit or 10gbit, 8kbit to 1000gbit"))
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}bit", self.0)
    }
}

impl Rate {
    /// What the limit is called in `tc`: a bucket of 10 ms, at least of one frame of the largest kind.
    fn limit(self, device: &str) -> String {
        let burst = (self.0 / 800).max(70_000);
        format!("qdisc add dev {device} root tbf rate {self} burst {burst} latency 100ms\n")
    }
}

/// The `hosts` file of every host.
pub(crate) fn hosts_file(hosts: u32) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for index in 1..=hosts {
        let name = name_of(index);
        text += &format!("{} {name}\n{} {name}\n", address_of(index, 0), address6_of(index, 0));
    }
    text
}

pub(crate) fn find_programs(limits_rate: bool) -> Result<(), LabError> {
    for program in ["ip"].into_iter().chain(limits_rate.then_some("tc")) {
        let there = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if there.is_err() {
            return Err(LabError::Program {
                program,
                package: "iproute2 (Debian, Ubuntu), iproute (Fedora)",
            });
        }
    }
    Ok(())
}

/// In this namespace: what joins the hosts, segment by segment.
pub(crate) fn make_bridges(segments: usize) -> Result<(), LabError> {
    let bridge = |segment| {
        let bridge = bridge_of(segment);
        format!(
            "link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\nlink set {bridge} up\n"
        )
    };
    batch("ip", &(0..segments).map(bridge).collect::<String>())
}

/// Gives hosts, by their first processes, their lines: host, from 1, and segment.
pub(crate) fn plug_in(
    pids: &[u32],
    lines: &[(u32, usize)],
    switches: bool,
    mtu_bytes: Option<u16>,
    rate: Option<Rate>,
) -> Result<(), LabError> {
    let (mut links, mut limits) = (String::new(), String::new());
    let mtu = mtu_bytes.map_or_else(String::new, |bytes| format!("mtu {bytes} "));
    for &(host, segment) in lines {
        let (line, name, pid) = (line_of(host, segment), interface_of(segment), pids[host as usize - 1]);
        let mac = mac_of(host, segment).map(|byte| format!("{byte:02x}")).join(":");
        links += &format!("link add {line} {mtu}type veth peer name {name} address {mac} {mtu}netns {pid}\n");
        if !switches {
            links += &format!("link set {line} master {}\n", bridge_of(segment));
        }
        links += &format!("link set {line} addrgenmode none up\n");
        limits += &rate.map_or(String::new(), |rate| rate.limit(&line));
    }
    batch("ip", &links)?;
    batch("tc", &limits)
}

/// In a host: its ends of the lines get their addresses.
pub(crate) fn come_up(index: u32, segments: &[usize], rate: Option<Rate>) -> Result<(), LabError> {
    let (mut links, mut limits) = (String::from("link set lo up\n"), String::new());
    for &segment in segments {
        let (address, address6) = (address_of(index, segment), address6_of(index, segment));
        let name = interface_of(segment);
        links +=
            &format!("address add {address}/24 dev {name}\naddress add {address6}/64 dev {name} nodad\n");
        links += &format!("link set {name} up\n");
        limits += &rate.map_or(String::new(), |rate| rate.limit(&name));
    }
    batch("ip", &links)?;
    batch("tc", &limits)?;
    segments.iter().for_each(|segment| wait_for_carrier(&interface_of(*segment)));
    Ok(())
}

/// The kernel may notice a second late that both ends of a line are up, and programs that look which networks there are would leave this one out.
fn wait_for_carrier(interface: &str) {
    let begun = Instant::now();
    while !interfaces::is_running(interface) && begun.elapsed() < CARRIER_WITHIN {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Carries out lines of commands, the first that fails is the last.
fn batch(program: &'static str, lines: &str) -> Result<(), LabError> {
    if lines.is_empty() {
        return Ok(());
    }
    let failed = |said: String| LabError::Network { command: format!("{program} -batch"), said };
    let mut command = Command::new(program);
    let command =
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    // One that reads no further says why.
    let _ = child.stdin.take().expect("a pipe").write_all(lines.as_bytes());
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    let said = [&*output.stdout, &*output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(failed(String::from_utf8_lossy(&said).trim().into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!("10gbit".parse(), Ok(Rate(10_000_000_000)));
        assert_eq!("64kbit".parse::<Rate>().expect("a rate").to_string(), "64000bit");
        for bad in
            ["", "10", "gbit", "1bit", "10 gbit", "99999999999999999999gbit", "18446744073709551615gbit"]
        {
            assert!(bad.parse::<Rate>().is_err_and(|error| error.contains("10gbit")), "{bad}");
        }
    }

    #[test]
    fn every_host_is_in_the_hosts_file() {
        let file = hosts_file(crate::HOSTS_MAX);
        assert!(file.contains("10.202.0.250 h250\n") && file.contains("fd00:ca57::fa h250\n"), "{file}");
        assert_eq!(file.lines().count(), 2 + 2 * crate::HOSTS_MAX as usize);
    }
}
