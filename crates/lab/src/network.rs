//! The network of a lab, by the programs that everybody has who looks after networks: `ip` and `tc`.
//!
//! ```text
//!   host h1: eth0 ──── v1 ┐
//!   host h2: eth0 ──── v2 ┼── bridge, or the switch of ours (`switch.rs`)     10.202.0.x, fd00:ca57::x
//!   host h3: eth0 ──── v3 ┘
//! ```

use crate::LabError;
use castell_host::interfaces;
use std::io::Write;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

const BRIDGE: &str = "castell0";
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

/// A host's name, from 1.
pub fn name_of(index: u32) -> String {
    format!("h{index}")
}

/// A host's address in the lab.
pub fn address_of(index: u32) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::new(10, 202, 0, index as u8)
}

fn address6_of(index: u32) -> String {
    format!("fd00:ca57::{index:x}")
}

/// A host's address on the wire.
pub(crate) fn mac_of(index: u32) -> [u8; 6] {
    [0x02, 0xca, 0x57, 0xe1, 0x10, index as u8]
}

/// The machine's end of a host's line.
pub(crate) fn line_of(index: u32) -> String {
    format!("v{index}")
}

/// The `hosts` file of every host.
pub(crate) fn hosts_file(hosts: u32) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for index in 1..=hosts {
        let name = name_of(index);
        text += &format!("{} {name}\n{} {name}\n", address_of(index), address6_of(index));
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

/// In this namespace: what joins the hosts.
pub(crate) fn make_bridge(switches: bool) -> Result<(), LabError> {
    let bridge = format!(
        "link add {BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\nlink set {BRIDGE} up\n"
    );
    batch("ip", &if switches { String::new() } else { bridge })
}

/// Gives each host, by its first process, a line.
pub(crate) fn plug_in(
    pids: &[u32],
    switches: bool,
    mtu_bytes: Option<u16>,
    rate: Option<Rate>,
) -> Result<(), LabError> {
    let (mut links, mut limits) = (String::new(), String::new());
    let mtu = mtu_bytes.map_or_else(String::new, |bytes| format!("mtu {bytes} "));
    for (index, pid) in (1..).zip(pids) {
        let line = line_of(index);
        let mac = mac_of(index).map(|byte| format!("{byte:02x}")).join(":");
        links += &format!("link add {line} {mtu}type veth peer name eth0 address {mac} {mtu}netns {pid}\n");
        if !switches {
            links += &format!("link set {line} master {BRIDGE}\n");
        }
        links += &format!("link set {line} addrgenmode none up\n");
        limits += &rate.map_or(String::new(), |rate| rate.limit(&line));
    }
    batch("ip", &links)?;
    batch("tc", &limits)
}

/// In a host: its end of the line gets its addresses.
pub(crate) fn come_up(index: u32, rate: Option<Rate>) -> Result<(), LabError> {
    let (address, address6) = (address_of(index), address6_of(index));
    batch(
        "ip",
        &format!(
            "link set lo up\naddress add {address}/24 dev eth0\naddress add {address6}/64 dev eth0 nodad\nlink set eth0 up\n"
        ),
    )?;
    batch("tc", &rate.map_or(String::new(), |rate| rate.limit("eth0")))?;
    wait_for_carrier();
    Ok(())
}

/// The kernel may notice a second late that both ends of a line are up, and programs that look which networks there are would leave this one out.
fn wait_for_carrier() {
    let begun = Instant::now();
    while !interfaces::is_running("eth0") && begun.elapsed() < CARRIER_WITHIN {
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
