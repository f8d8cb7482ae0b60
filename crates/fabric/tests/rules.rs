//! The providers that every machine has keep the rules of transports.

mod group;

use castell_fabric::{FabricOptions, Hidden, Reach, Settings, Wish};
use castell_transport::conformance::check;

fn by(provider: &str) -> FabricOptions {
    FabricOptions::by(Wish::of(provider), Reach::ThisHost)
}

fn keeps_the_rules(seed: u64, options: &FabricOptions) {
    check(seed, |size| group::ranks(size, seed, options))
        .unwrap_or_else(|broken| panic!("{broken}, {options:?}"));
}

#[test]
fn tcp_keeps_the_rules() {
    keeps_the_rules(0, &by("tcp;ofi_rxm"));
}

#[test]
fn udp_keeps_the_rules() {
    keeps_the_rules(1, &by("udp;ofi_rxd"));
}

#[test]
fn shm_keeps_the_rules() {
    keeps_the_rules(2, &by("shm"));
}

#[test]
fn small_windows_keep_the_rules() {
    let settings = Settings { message_bytes_max: 400, window_bytes: 4096, ..Settings::default() };
    keeps_the_rules(3, &FabricOptions { settings, ..by("tcp;ofi_rxm") });
}

/// One thing at a time, as other networks lack or want it.
#[test]
fn whatever_a_provider_lacks_the_rules_are_kept() {
    let none = Hidden::default();
    let hidden = [
        Hidden { tagged: true, ..none },
        Hidden { messages: true, ..none },
        Hidden { remote_access: true, ..none },
        Hidden { order: true, ..none },
        Hidden { descriptor: true, ..none },
        Hidden { inject: true, ..none },
        Hidden { wants_contexts: true, ..none },
        Hidden { wants_contexts: true, inject: true, wants_registration: true, ..none },
        Hidden { wants_registration: true, ..none },
    ];
    for (seed, hidden) in hidden.into_iter().enumerate() {
        keeps_the_rules(10 + seed as u64, &FabricOptions { hidden, ..by("tcp;ofi_rxm") });
    }
}
