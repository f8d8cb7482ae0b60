//! The kernel's interpreter does what goal's stepper does.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
mod trial;

use castell_xdp::{Interface, XdpError};
use std::time::{Duration, Instant};
use trial::{MY_MAC, Tally, operations_of, try_one};

#[test]
fn the_kernel_steps_as_the_stepper_does() {
    let interface = match Interface::detached(MY_MAC) {
        Ok(interface) => interface,
        Err(error @ (XdpError::NotBuilt { .. } | XdpError::Forbidden { .. })) => {
            return skipped::skip("xdp", &error.to_string());
        }
        Err(error) => panic!("{error}"),
    };
    let first = std::env::var("CASTELL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let (start, mut tally) = (Instant::now(), Tally::default());
    let mut seed = first.unwrap_or(1);
    // As many as there is time for: of one seed, if that is asked for.
    while start.elapsed() < Duration::from_secs(8) && (first.is_none() || tally.schedules == 0) {
        try_one(&interface, seed, operations_of(seed), &mut tally);
        seed += 1;
    }
    println!("{tally:?}");
}
