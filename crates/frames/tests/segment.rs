//! ESP keeps the rules of transports between hosts that are network namespaces, over real interfaces.

mod group;
mod hosts;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::Rank;
use castell_frames::{Esp, EspError, EspOptions};
use castell_transport::conformance::{Group, check};
use castell_transport::{Connector, Down, Endpoint, Events, Header, Transport, Urgency};
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

/// Each pair has its own segment in common, beside a card from which nothing gets anywhere; and some have one on which frames may be longer.
#[test]
fn esp_keeps_the_rules_where_pairs_differ_in_what_reaches_them() {
    if !is_inside("esp_keeps_the_rules_where_pairs_differ_in_what_reaches_them") {
        return;
    }
    // What arrives at the bridge of `e0` goes nowhere.
    let hosts = Rc::new(Hosts::new(9, 1500, false));
    ["b1", "b2", "b3"].into_iter().for_each(group::bridge);
    group::join(&hosts, "b1", "e1", &[0, 1, 2, 3, 4, 5], 1500);
    group::join(&hosts, "b2", "e2", &[3, 4, 5, 6, 7, 8], 1500);
    group::join(&hosts, "b3", "e3", &[6, 7, 8, 0, 1, 2], 1500);
    // What asks and answers is short, and would pass.
    group::join(&hosts, "b1", "d1", &[0, 5], 9000);
    group::join(&hosts, "b3", "d3", &[2, 6, 7], 9000);
    let groups = Cell::new(100_u8);
    for (seed, interfaces) in [(0, &[][..]), (1, &["e1", "e2", "e3"])] {
        let make = |size| {
            groups.set(groups.get() + 1);
            group::ranks_at(&hosts, interfaces, size, groups.get(), 5000)
        };
        check(seed, make).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

/// How many messages have come by a path stands in 32 bits, which begin again.
#[test]
fn what_came_is_counted_past_the_end_of_the_numbers() {
    if !is_inside("what_came_is_counted_past_the_end_of_the_numbers") {
        return;
    }
    let hosts = Rc::new(Hosts::new(2, 1500, true));
    let mut group = group::ranks(&hosts, 2, 1, 5000);
    group.transport(Rank(1)).inner.grow_old(Rank(0), u32::MAX - 1);
    let address = group.transport(Rank(1)).address();
    let connector = &mut group.transport(Rank(0)).connector();
    let mut endpoint = connector.connect(Rank(1), &address).expect("a segment between them");
    for sequence in 0..5 {
        let header = Header { kind: 1, sequence, ..Header::default() };
        endpoint.try_send(&header, &[7; 100]).expect("there is room");
    }
    endpoint.flush(Urgency::NOW);
    let mut inbox = Inbox::default();
    let mut polls = 0;
    while inbox.down.is_none() && polls < group.patience() {
        if inbox.came.len() == 5 {
            group.end(Rank(0), Down::Left);
        }
        group.transport(Rank(0)).poll(64, &mut Inbox::default());
        group.transport(Rank(1)).poll(64, &mut inbox);
        polls += 1;
    }
    assert_eq!(inbox.came, [0, 1, 2, 3, 4]);
    assert_eq!(inbox.down, Some((3, Down::Left)), "five from two below the end");
}

/// What a rank was told.
#[derive(Default)]
struct Inbox {
    came: Vec<u32>,
    down: Option<(u32, Down)>,
}

impl Events for Inbox {
    fn message(&mut self, header: &Header, _payload: &[u8]) {
        self.came.push(header.sequence);
    }

    fn down(&mut self, _peer: Rank, delivered: u32, why: Down) {
        self.down = Some((delivered, why));
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
