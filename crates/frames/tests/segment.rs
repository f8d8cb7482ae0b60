//! ESP keeps the rules of transports between hosts that are network namespaces, over real interfaces.

mod hosts;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::Rank;
use castell_frames::{Esp, EspError, EspOptions};
use castell_transport::conformance::check;
use hosts::Hosts;
use hosts::group::Ranks;
use skipped::skip;
use std::cell::Cell;
use std::process::Command;
use std::rc::Rc;

/// Says that this process is the one in a namespace of its own.
const INSIDE: &str = "CASTELL_TEST_INSIDE";

/// Runs a test of this name in a namespace of its own, once more; true: this is it.
fn is_inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net"]).args(words);
        command
    };
    match unshare(&["ip", "link", "add", "name", "x0", "type", "veth", "peer", "name", "x1"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            skip(
                "namespaces with `unshare -rn` and `ip link add … type veth`",
                &String::from_utf8_lossy(&output.stderr),
            );
            return false;
        }
        Err(error) => {
            skip("lab", &error.to_string());
            return false;
        }
    }
    let me = std::env::current_exe().expect("a program knows its path");
    let output = unshare(&[])
        .arg(me)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output();
    let output = output.expect("it starts");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{}", output.status);
    false
}

fn keeps_the_rules(mtu: usize, message_bytes_max: usize, seeds: std::ops::Range<u64>) {
    let hosts = Rc::new(Hosts::new(9, mtu));
    let groups = Cell::new(0_u8);
    for seed in seeds {
        let make = |ranks| {
            groups.set(groups.get() + 1);
            Ranks::new(&hosts, ranks, groups.get(), message_bytes_max)
        };
        check(seed, make).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn esp_keeps_the_rules() {
    if is_inside("esp_keeps_the_rules") {
        keeps_the_rules(1500, 5000, 0..2);
    }
}

#[test]
fn esp_keeps_the_rules_with_jumbo_frames() {
    if is_inside("esp_keeps_the_rules_with_jumbo_frames") {
        keeps_the_rules(9000, 64 * 1024, 5..6);
    }
}

#[test]
fn what_cannot_be_had_is_told_with_the_remedy() {
    let open =
        |interface: &str| Esp::new(Rank(0), 2, &[1; 32], &EspOptions::at(interface)).err().expect("an error");
    assert!(matches!(open("nosuch0"), EspError::NoInterface { .. }));
    assert!(open("nosuch0").to_string().contains("`ip -br link`"));
    if is_inside("what_cannot_be_had_is_told_with_the_remedy") {
        // There is a loopback interface, which is no Ethernet.
        assert!(open("lo").to_string().contains("no Ethernet"), "{}", open("lo"));
    }
}
