//! Prints how far off predictions are, hour by hour of a simulated day, as a table of comma-separated values.
//!
//!     cargo run --release -p castell-interference --example learned_day -- [SESSIONS [SEED [NOISE [DRIFT]]]]

mod day;

use castell_cachesim::machine::Chip;
use castell_cachesim::programs::kernels::kernels;
use castell_interference::simulated::measure;
use day::{Options, day};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mut number = |otherwise: f64| words.next().map_or(Ok(otherwise), |word| word.parse::<f64>());
    let options = Options {
        sessions: number(600.0)? as u32,
        seed: number(1.0)? as u64,
        noise: number(0.1)?,
        drift: number(0.5)?,
    };
    let chip = Chip::xeon_e5_4620(32);
    let measured = measure(&chip, &kernels(&chip), |_| ())?;
    let pairs = measured.pairs(|| ())?;
    let day = day(&measured, &pairs, options);
    eprintln!(
        "{} sessions ended, {} observations of {} pairs; the noise is taken to be {:.3}",
        day.sessions,
        day.learner.observed(),
        day.learner.programs().values().map(|program| program.neighbours().len()).sum::<usize>(),
        day.learner.noise()
    );
    println!(
        "hour,observations,learned,median,no contention,learned (truth),median (truth),no contention (truth),below 5 %,below 30 %"
    );
    for (hour, of) in day.hours.iter().enumerate() {
        let numbers = of.seen.iter().chain(&of.truth).chain(&of.below);
        let cells: Vec<String> = numbers.map(|number| format!("{number:.4}")).collect();
        println!("{hour},{},{}", of.observed, cells.join(","));
    }
    Ok(())
}
