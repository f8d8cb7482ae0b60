//! How far predictions lie from what was measured, and what a predictor is trained on and tested on.

use crate::profile::Pair;

/// Relative errors, sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors(Vec<f64>);

impl Errors {
    /// |predicted - measured| / measured of each.
    pub fn of(predicted_and_measured: impl IntoIterator<Item = (f64, f64)>) -> Errors {
        let mut errors: Vec<f64> = predicted_and_measured
            .into_iter()
            .map(|(predicted, measured)| ((predicted - measured) / measured).abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        Errors(errors)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The part of them below a bound; of none, 0.
    pub fn below(&self, bound: f64) -> f64 {
        self.0.partition_point(|error| *error < bound) as f64 / self.0.len().max(1) as f64
    }

    /// Their mean; of none, 0.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// All of them, ascending.
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }
}

/// Windows of a fifth each, in order: what is tested on while the rest is trained on.
pub fn fifths(count: usize) -> [std::ops::Range<usize>; 5] {
    std::array::from_fn(|part| count * part / 5..count * (part + 1) / 5)
}

/// The pairs divided five times, each time into those to train on and the fifth to test on; each pair is tested on once. Pairs are
/// taken in an order that looks random, so that a fifth is not one program's.
pub fn split_by_pair(pairs: &[Pair]) -> Vec<(Vec<Pair>, Vec<Pair>)> {
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by_key(|at| (*at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let in_test = |window: &std::ops::Range<usize>| {
        let (mut train, mut test) = (Vec::new(), Vec::new());
        for (place, at) in order.iter().enumerate() {
            if window.contains(&place) { &mut test } else { &mut train }.push(pairs[*at]);
        }
        (train, test)
    };
    fifths(pairs.len()).iter().map(in_test).collect()
}

/// The programs divided five times: tested on are the pairs of which a program of that fifth is the one looked at, trained on those in which
/// none of them occurs.
pub fn split_by_program(pairs: &[Pair], programs: usize) -> Vec<(Vec<Pair>, Vec<Pair>)> {
    // Every fifth program, so that no fifth is one class.
    (0..5)
        .map(|part| {
            let new = |program: usize| program < programs && program % 5 == part;
            let train = pairs.iter().filter(|pair| !new(pair.program) && !new(pair.neighbour));
            let test = pairs.iter().filter(|pair| new(pair.program));
            (train.copied().collect(), test.copied().collect())
        })
        .collect()
}
