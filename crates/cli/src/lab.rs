//! `castell lab`.

use crate::launch::parse_duration;
use anyhow::bail;
use castell_lab::{
    HOSTS_MAX, HOSTS_VARIABLE, HostPlan, Lab, LabError, Options, Rate, SEGMENTS_MAX, Segment, Weather,
    interface_of,
};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  castell lab 2 -- bash                          # a shell on the first of two hosts
  castell lab 4 -- sh -c 'ping -c 1 h4'          # hosts are called h1, h2, ...
  castell lab --on h2 -- hostname                # inside a lab: on another of its hosts
  castell lab 2 --delay 5ms --rate 100mbit -- ./measure
  castell lab 2 --loss 1% --seed 7 -- ./test     # one frame in a hundred gets lost
  castell lab 2 --mtu 9000 -- ./measure          # jumbo frames
  castell lab 3 --segment all --segment h1,h3 -- castell launch -n 3 --net esp -- ./program   # eth1 on all, eth2 on two
  castell lab 2 --segment all --loss eth0=100% --loss eth1=1% -- ./test   # each has its own losses
  castell lab 2 --capture lab.pcap -- ./program  # for tcpdump -r lab.pcap, or Wireshark

Each host has namespaces of its own for network, processes, mounts, name, System V and POSIX shared memory and clocks since boot, and \
its own /tmp, /dev/shm and /etc/hosts; all else of the file system is the machine's, as with a network file system. eth0 of every host is on \
one segment, to which names lead; each --segment is another, apart from all others. Root is not needed \
where user namespaces are allowed; programs see themselves as root then. `ip` (iproute2) makes the network, `tc` limits its rate; delay and \
loss are the work of a switch of castell's, so no kernel module is needed, but frames take a longer way through it. When the command ends, \
everything is gone, and so it is when castell is killed.

Exit code: the command's; 126 and 127 where it cannot be executed or found; 1 where the lab cannot be made.";

/// Several hosts on this machine, for as long as a command runs: to try networks, and what runs on many hosts
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Number of hosts
    #[arg(value_name = "N", required_unless_present = "on", value_parser = clap::value_parser!(u32).range(1..=HOSTS_MAX as i64))]
    hosts: Option<u32>,
    /// Inside a lab: run the command on this host of it, such as h2
    #[arg(long, value_name = "HOST", conflicts_with_all = ["hosts", "segment", "delay", "rate", "loss", "mtu", "capture", "seed"])]
    on: Option<String>,
    /// One more segment, with all hosts or with these; their interfaces there are called eth1, eth2 and so on, in the order of these options
    #[arg(long, value_name = "all|HOST,...")]
    segment: Vec<Segment>,
    /// How long each frame takes from host to host, at least
    #[arg(long, value_name = "TIME", value_parser = parse_delay, default_value = "0", hide_default_value = true)]
    delay: Duration,
    /// How much each host sends and receives at most, such as 100mbit
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Which part of the frames gets lost, such as 1% or 0.01, or on one segment only, such as eth1=1%
    #[arg(long, value_name = "[INTERFACE=]PART")]
    loss: Vec<Loss>,
    /// How long frames may be behind Ethernet's header, such as 9000 for jumbo frames
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1280..))]
    mtu: Option<u16>,
    /// Chooses which frames those are
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Writes all frames into this file (pcap)
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// The command and its arguments, which runs on the first host
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

/// A process that lives as a host of a lab; `castell lab` starts it
#[derive(clap::Args)]
pub struct HostArgs {
    /// Which host of how many, and its rate
    #[arg(required = true)]
    plan: Vec<String>,
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let done = match &args.on {
        Some(host) => castell_lab::run_on(host, &args.command),
        None => run_in_new(&args),
    };
    match done {
        Ok(code) => Ok(ExitCode::from(code as u8)),
        Err(error) => {
            castell_host::say(&error.to_string());
            Ok(ExitCode::from(if let LabError::Start { code, .. } = error { code as u8 } else { 1 }))
        }
    }
}

fn run_in_new(args: &Args) -> Result<i32, LabError> {
    let program = std::env::current_exe().map_or_else(|_| "/proc/self/exe".into(), PathBuf::into_os_string);
    let weather = Weather { delay: args.delay, loss: losses(&args.loss), seed: args.seed };
    let options = Options {
        hosts: args.hosts.expect("clap requires it"),
        segments: args.segment.clone(),
        weather,
        rate: args.rate,
        mtu_bytes: args.mtu,
        capture: args.capture.clone(),
        host_program: vec![program, "lab-host".into()],
    };
    let lab = Lab::start(&options)?;
    let code = lab.run(&args.command)?;
    if let Some(counters) = lab.switched().filter(|_| weather.loses()) {
        castell_host::say(&format!(
            "of {} frames {} were lost on purpose (--seed {}) and {} for want of room",
            counters.frames, counters.lost, args.seed, counters.dropped
        ));
    }
    Ok(code)
}

/// Lives as a host.
pub fn live(args: &HostArgs) -> anyhow::Result<ExitCode> {
    match HostPlan::from_arguments(&args.plan) {
        Some(plan) if std::process::id() == 1 => Ok(ExitCode::from(castell_lab::live(&plan) as u8)),
        _ => bail!("`castell lab` starts this; {HOSTS_VARIABLE} names the hosts of a lab"),
    }
}

fn parse_delay(text: &str) -> anyhow::Result<Duration> {
    let delay = parse_duration(text)?;
    if delay > Duration::from_secs(60) {
        bail!("`{text}` is too long: up to 60s");
    }
    Ok(delay)
}

/// Which part of the frames gets lost, on which segment; on all, if none is named.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Loss {
    segment: Option<usize>,
    part: f64,
}

impl FromStr for Loss {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Loss> {
        let Some((name, part)) = text.split_once('=') else {
            return Ok(Loss { segment: None, part: parse_part(text)? });
        };
        let Some(segment) = (0..SEGMENTS_MAX).find(|segment| interface_of(*segment) == name) else {
            bail!("`{name}` is no interface of a lab's hosts: they are called eth0, eth1 and so on");
        };
        Ok(Loss { segment: Some(segment), part: parse_part(part)? })
    }
}

/// By segment; of two that are said for one, the later counts.
fn losses(said: &[Loss]) -> [f64; SEGMENTS_MAX] {
    let of = |segment| {
        let meant = said.iter().rev().find(|loss| loss.segment.is_none_or(|one| one == segment));
        meant.map_or(0.0, |loss| loss.part)
    };
    std::array::from_fn(of)
}

/// Reads `1%` or `0.01`.
fn parse_part(text: &str) -> anyhow::Result<f64> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    match number.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&(number * scale)) => Ok(number * scale),
        _ => bail!("`{text}` is no part of a whole: write it as 1% or 0.01"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        assert_eq!(
            (parse_part("1%").ok(), parse_part("0.25").ok(), parse_part("100%").ok()),
            (Some(0.01), Some(0.25), Some(1.0))
        );
        for bad in ["", "%", "101%", "2", "-1%", "nan"] {
            assert!(parse_part(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn losses_are_of_all_segments_or_of_one() {
        let said = ["1%", "eth1=100%"].map(|text| text.parse::<Loss>().expect("a loss"));
        assert_eq!(losses(&said)[..3], [0.01, 1.0, 0.01]);
        assert_eq!(losses(&[]), [0.0; SEGMENTS_MAX]);
        for bad in ["eth8=1%", "h1=1%", "eth1=", "eth0=2", "=1%"] {
            assert!(bad.parse::<Loss>().is_err(), "{bad}");
        }
    }
}
