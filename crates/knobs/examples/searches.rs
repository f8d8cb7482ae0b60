//! How good the searches are with equally many measurements: `cargo run --release -p castell-knobs --example searches`.
//!
//! What is measured is a function with noise of 2 % (uniform); what counts is the function, without noise, of the setting that was
//! measured as the best, over that of the best setting that there is: medians over 101 seeds, 1 is the optimum.
//!
//! | function | knobs |
//! |---|---|
//! | card | interrupt coalescing as ESPGOAL's linear model has it (table in chapter 6.2; without tx-usecs, which makes times negative): eight knobs, of which one matters |
//! | valley | four knobs of 1000 values, two of which have to fit together |
//! | holes | three knobs of 100 values, a wide hole and a narrow one that is deeper |

use castell_knobs::{
    CrossEntropy, Ended, Genetic, Goal, Knob, Setting, Space, cross_entropy, genetic, random,
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

type Function = fn(&[i64]) -> f64;

fn card(at: &[i64]) -> f64 {
    let effects = [0.917, 0.0149, 0.0092, -0.0138, 0.0, -0.0057, 0.0004, -0.0199];
    71.3 + effects.iter().zip(at).map(|(effect, value)| effect * *value as f64).sum::<f64>()
}

fn valley(at: &[i64]) -> f64 {
    let x: Vec<f64> = at.iter().map(|value| *value as f64 / 1000.0).collect();
    1.0 + 20.0 * (x[0] - 0.7 * x[1] - 0.1).powi(2) + (x[1] - 0.8).powi(2) + (x[2] - 0.2).powi(2) + 0.1 * x[3]
}

fn holes(at: &[i64]) -> f64 {
    let far = |middle: f64| at.iter().map(|value| (*value as f64 - middle).powi(2)).sum::<f64>().sqrt();
    (1.0 + far(70.0) / 40.0).min(0.5 + far(20.0) / 8.0).min(3.0)
}

const FUNCTIONS: [(&str, Function, &[&str], f64); 3] = [
    (
        "card",
        card,
        &["a=1..1023", "b=1..255", "c=1..1023", "d=1..255", "e=1..1023", "f=1..255", "g=1..1023", "h=1..255"],
        62.2,
    ),
    ("valley", valley, &["a=0..1000", "b=0..1000", "c=0..1000", "d=0..1000"], 1.0),
    ("holes", holes, &["a=0..99", "b=0..99", "c=0..99"], 0.5),
];

/// What looks for the best setting.
#[derive(Clone, Copy)]
enum Search {
    Random,
    Genetic(usize),
    CrossEntropy,
}

fn main() {
    println!("measured             random  genetic (500)  genetic (25)  cross-entropy");
    for (name, function, knobs, least) in FUNCTIONS {
        let knobs = knobs.iter().map(|knob| Knob::parse(knob).expect("a knob")).collect();
        let space = Space::new(knobs).expect("a space");
        for most in [100, 250, 1000, 5000] {
            let median = |search| {
                let mut ends: Vec<f64> =
                    (0..101).map(|seed| end(&space, function, search, most, seed) / least).collect();
                ends.sort_by(f64::total_cmp);
                ends[50]
            };
            println!(
                "{name:8} {most:>5} times {:>6.3} {:>14.3} {:>13.3} {:>14.3}",
                median(Search::Random),
                median(Search::Genetic(500)),
                median(Search::Genetic(25)),
                median(Search::CrossEntropy)
            );
        }
    }
}

/// The function of the best setting by its measurement.
fn end(space: &Space, function: Function, search: Search, most: u32, seed: u64) -> f64 {
    let mut noise = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let (mut left, mut best) = (most, (f64::INFINITY, f64::INFINITY));
    let measure = |setting: Setting| {
        if left == 0 {
            return Err(Ended);
        }
        left -= 1;
        let truth = function(&setting);
        let measured = truth * (1.0 + noise.random_range(-0.02..0.02));
        if measured < best.0 {
            best = (measured, truth);
        }
        Ok(Some(measured))
    };
    // It ends where measuring does.
    let _ = match search {
        Search::Random => random(space, seed, measure),
        Search::Genetic(population) => {
            let numbers = Genetic { population, generations: 10_000, ..Genetic::default() };
            genetic(space, Goal::Least, numbers, seed, measure)
        }
        Search::CrossEntropy => cross_entropy(space, Goal::Least, CrossEntropy::default(), seed, measure),
    };
    best.1
}
