//! The kernel's interpreter beside goal's stepper, on as many random schedules as asked for: `cargo run -p castell-xdp --example million -- 1000000 1`
//! (how many, first seed). A failure tells its seed: `CASTELL_TEST_SEED=SEED cargo test -p castell-xdp --test stepper`.

#[path = "../tests/trial/mod.rs"]
mod trial;

use castell_xdp::Interface;
use std::time::{Duration, Instant};
use trial::{MY_MAC, Tally, operations_of, try_one};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let (count, first) = (arguments.next().unwrap_or(1_000_000), arguments.next().unwrap_or(1));
    let interface = Interface::detached(MY_MAC).unwrap_or_else(|error| panic!("{error}"));
    let (start, mut tally) = (Instant::now(), Tally::default());
    let mut told = start;
    for seed in first..first + count {
        try_one(&interface, seed, operations_of(seed), &mut tally);
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            println!("{tally:?} in {:.0} s", start.elapsed().as_secs_f64());
        }
    }
    println!("{tally:?} in {:.0} s: the same everywhere", start.elapsed().as_secs_f64());
}
