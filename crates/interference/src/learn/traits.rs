//! How much each program suffers, and how much each makes others suffer, whoever the other one is.
//!
//! The logarithm of a slowdown is taken to be a product: what the program feels times what the neighbour does (after Mars, Tang, Hundt, Skadron and
//! Soffa, "Bubble-Up", MICRO 2011, where a probe stands for the neighbour). A pair that was never seen follows from other pairs of both.

use super::fit::Seen;
use std::collections::{BTreeMap, VecDeque};

/// Of each program, what it feels, and what it does to others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Traits {
    feels: BTreeMap<String, f64>,
    does: BTreeMap<String, f64>,
}

/// A program is like all together, as if it had been seen so often.
const WEIGHT: f64 = 0.5;
/// Each round makes the one fit the other.
const ROUNDS: usize = 12;

impl Traits {
    pub(super) fn of(window: &VecDeque<Seen>) -> Traits {
        let mut traits = Traits::default();
        let logarithms: Vec<f64> = window.iter().map(|seen| seen.slowdown.ln().max(0.0)).collect();
        let mean = logarithms.iter().sum::<f64>() / logarithms.len().max(1) as f64;
        if mean.is_nan() || mean <= 0.0 {
            return traits;
        }
        for seen in window {
            traits.feels.insert(seen.program.clone(), 1.0);
            traits.does.insert(seen.neighbour.clone(), mean);
        }
        for _ in 0..ROUNDS {
            let others = &traits.does;
            let all = || window.iter().zip(&logarithms);
            let points = all().map(|(seen, value)| (seen.program.as_str(), others[&seen.neighbour], *value));
            traits.feels = fitted(points, 1.0, mean);
            let others = &traits.feels;
            let points = all().map(|(seen, value)| (seen.neighbour.as_str(), others[&seen.program], *value));
            traits.does = fitted(points, mean, 1.0);
        }
        traits
    }

    /// The slowdown that follows, if both were seen with others.
    pub(super) fn told(&self, program: &str, neighbour: &str) -> Option<f64> {
        Some((self.feels.get(program)? * self.does.get(neighbour)?).exp())
    }
}

/// Of each name the factor of least squares: value = factor · other; drawn towards the usual one, as seen beside a usual other.
fn fitted<'a>(
    points: impl Iterator<Item = (&'a str, f64, f64)>,
    usual: f64,
    usual_other: f64,
) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let weight = WEIGHT * usual_other * usual_other;
    for (name, other, value) in points {
        let sum = sums.entry(name).or_insert((weight * usual, weight));
        *sum = (sum.0 + other * value, sum.1 + other * other);
    }
    sums.into_iter().map(|(name, sum)| (name.to_owned(), (sum.0 / sum.1).max(0.0))).collect()
}
