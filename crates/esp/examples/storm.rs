//! Simulates many connections over a segment in all weathers, and says what became of them.
//!
//! `cargo run --release -p castell-esp --example storm -- CONNECTIONS [SEED]`: both are numbers; what a seed does never changes.

#[path = "../tests/segment/mod.rs"]
mod segment;

use segment::storm::{Outcome, crowds};
use std::time::Instant;

/// Of one crowd, which is what has one seed.
const CONNECTIONS: u64 = 16;

fn main() {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    let (wanted, seed) = match numbers.as_deref() {
        Some([wanted]) => (*wanted, 0),
        Some([wanted, seed]) => (*wanted, *seed),
        _ => {
            eprintln!("usage: storm CONNECTIONS [SEED], for example: storm 1000000");
            std::process::exit(2);
        }
    };
    let since = Instant::now();
    let end = seed + wanted.div_ceil(CONNECTIONS);
    let all = crowds(seed..end, CONNECTIONS as u32);
    let Outcome { connections, closed, failed, restarts, counts } = all;
    println!(
        "{connections} connections in {:.1} s, seeds {seed} to {}",
        since.elapsed().as_secs_f64(),
        end - 1
    );
    println!("{closed} were closed by both sides with every byte read once and in order");
    println!("{failed} sides were told of a failure: {restarts} times a program died and started anew");
    println!(
        "{} frames: {} lost, {} damaged, and {} forged ones beside them",
        counts.frames, counts.lost, counts.damaged, counts.forged
    );
}
