//! ESP keeps the rules of transports between hosts that are network namespaces, over real interfaces.

mod group;
mod hosts;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::Rank;
use castell_frames::{Esp, EspError, EspOptions};
use castell_transport::conformance::check;
use hosts::Hosts;
use std::cell::Cell;
use std::rc::Rc;

/// Runs a test of this name in a namespace of its own, once more; true: this is it. Root is not needed.
fn is_inside(name: &str) -> bool {
    hosts::is_inside(name, &["--map-root-user", "--net"])
}

fn keeps_the_rules(mtu: usize, message_bytes_max: usize, seeds: std::ops::Range<u64>) {
    let hosts = Rc::new(Hosts::new(9, mtu, true));
    let groups = Cell::new(0_u8);
    for seed in seeds {
        let make = |size| {
            groups.set(groups.get() + 1);
            group::ranks(&hosts, size, groups.get(), message_bytes_max)
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
