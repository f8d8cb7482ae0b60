//! What is told about the clocks of hosts whose times were compared.

use castell_comm::hosts::{HostClock, Recorded};
use castell_comm::job::{Net, OverTcp};
use serde_json::{Value, json};

/// How exactly times of different hosts can be compared, in a few words.
pub fn short(recorded: &Recorded) -> String {
    match recorded.clocks.len() {
        0 | 1 => "one host's clock".into(),
        hosts => format!("{hosts} hosts' clocks, compared within {}", time(recorded.error_ns())),
    }
}

/// Beneath a timeline: what carried messages, and whose clocks told the time, where there were several hosts.
pub fn carried(net: Net, clocks: Option<&Recorded>) -> String {
    let way = match net {
        Net::Shm if clocks.is_none() => "executed over shared memory",
        Net::Shm => "executed, messages between hosts over TCP",
        Net::Tcp(OverTcp { encrypts: true, .. }) => "executed, messages over encrypted TCP",
        Net::Tcp(_) => "executed, messages over TCP",
        Net::Esp(_) => "executed, messages between hosts over raw Ethernet frames",
        Net::Fabric(_) => "executed, messages by libfabric",
    };
    clocks.map(short).into_iter().fold(way.into(), |said, clocks| said + "; " + &clocks)
}

/// The same on standard error, where there is more than one clock; with each of them, if that is wanted.
pub fn say(recorded: &Recorded, is_verbose: bool) {
    if recorded.clocks.len() > 1 {
        castell_host::say(&format!(
            "times of different hosts are compared with an error of {} at most",
            time(recorded.error_ns())
        ));
    }
    for clock in recorded.clocks.iter().filter(|_| is_verbose) {
        castell_host::say(&line(clock));
    }
    for clock in recorded.clocks.iter().filter(|clock| !clock.map.is_even()) {
        castell_host::say(&format!(
            "the clock of host {} did not go evenly meanwhile (is it being set?): its error holds where it was asked",
            clock.host
        ));
    }
}

fn line(clock: &HostClock) -> String {
    format!(
        "clock of host {}: {:+.9} s, gaining {:+.1} us a second ({:.1} more or less), error {} at most ({} answers)",
        clock.host,
        ahead_ns(clock) as f64 * 1e-9,
        clock.map.drift() * 1e6,
        clock.map.drift_error() * 1e6,
        time(clock.error_ns()),
        clock.answers
    )
}

fn ahead_ns(clock: &HostClock) -> i64 {
    clock.map.ahead_ns(clock.asked_ns.0)
}

/// For programs.
pub fn json(recorded: &Recorded) -> Value {
    let one = |clock: &HostClock| {
        json!({
            "host": clock.host,
            "ahead_ns": ahead_ns(clock),
            "drift_ppm": clock.map.drift() * 1e6,
            "drift_error_ppm": clock.map.drift_error() * 1e6,
            "error_ns": clock.error_ns().ceil(),
            "even": clock.map.is_even(),
            "answers": clock.answers,
        })
    };
    let all: Vec<Value> = recorded.clocks.iter().map(one).collect();
    json!({"error_ns": recorded.error_ns().ceil(), "hosts": all})
}

fn time(ns: f64) -> String {
    format!("{:.1} us", ns / 1e3)
}
