//! TCP keeps the rules of transports, over real sockets.

mod group;

use castell_transport::conformance::check;
use castell_transport::faults::Profile;
use group::relay::Weather;
use group::{Options, Ranks, V4, V6};
use std::sync::atomic::Ordering;

#[test]
fn tcp_keeps_the_rules() {
    for (seed, listen) in [(0, vec![V4]), (1, vec![V6]), (2, vec![V6, V4])] {
        let options = Options { listen, ..Options::default() };
        check(seed, |ranks| Ranks::new(ranks, seed, &options))
            .unwrap_or_else(|broken| panic!("{broken}, {options:?}"));
    }
}

#[test]
fn tcp_keeps_the_rules_encrypted() {
    let weather = Some(Weather { cuts: 60, corrupts: 60, delays: 3 });
    for (seed, weather, message_bytes_max) in [(0, None, 5000), (1, None, 400), (2, weather, 5000)] {
        let options = Options { encrypts: true, weather, message_bytes_max, ..Options::default() };
        check(seed, |ranks| Ranks::new(ranks, seed, &options))
            .unwrap_or_else(|broken| panic!("{broken}, {options:?}"));
        let harmed = options.harmed.load(Ordering::Relaxed);
        assert!(weather.is_none() || harmed > 20, "{harmed} connections were harmed");
    }
}

#[test]
fn tcp_keeps_the_rules_when_windows_are_small() {
    let options = Options { message_bytes_max: 400, window_bytes: 4096, ..Options::default() };
    check(3, |ranks| Ranks::new(ranks, 3, &options)).unwrap_or_else(|broken| panic!("{broken}"));
}

/// The relay hands on 16 KiB at a time, so that long messages come in parts, to their places.
#[test]
fn tcp_keeps_the_rules_for_messages_that_come_in_parts() {
    let [quiet, rough] = [0, 200].map(|often| Some(Weather { cuts: often, corrupts: often, delays: 0 }));
    for (seed, weather, encrypts) in [(0, quiet, true), (1, rough, false)] {
        let (message_bytes_max, window_bytes) = (60_000, 1 << 19);
        let options = Options { message_bytes_max, window_bytes, encrypts, weather, ..Options::default() };
        check(seed, |ranks| Ranks::new(ranks, seed, &options))
            .unwrap_or_else(|broken| panic!("{broken}, {options:?}"));
    }
}

#[test]
fn tcp_keeps_the_rules_when_it_is_slow_and_full() {
    let options = Options { profile: Profile::ROUGH, ..Options::default() };
    for seed in 0..2 {
        check(seed, |ranks| Ranks::new(ranks, seed, &options)).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

/// A connection that breaks, or whose bytes are changed, is made again: nothing is lost, and nothing comes twice.
#[test]
fn tcp_keeps_the_rules_through_a_relay() {
    let weather = |cuts, corrupts, delays| Some(Weather { cuts, corrupts, delays });
    let quiet = weather(0, 0, 0);
    for (seed, weather) in
        [quiet, weather(60, 0, 3), weather(0, 60, 0), weather(80, 80, 4)].into_iter().enumerate()
    {
        let options = Options { weather, ..Options::default() };
        check(seed as u64, |ranks| Ranks::new(ranks, seed as u64, &options))
            .unwrap_or_else(|broken| panic!("{broken}, {options:?}"));
        let harmed = options.harmed.load(Ordering::Relaxed);
        assert!(seed == 0 || harmed > 20, "{harmed} connections were harmed: {options:?}");
        println!("{harmed} connections were harmed");
    }
}
