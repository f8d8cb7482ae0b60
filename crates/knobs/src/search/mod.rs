//! What is measured next. Each search calls what measures until that says that it is over, and keeps nothing to itself: who
//! measures sees all settings.

mod cross_entropy;
mod genetic;

pub use cross_entropy::{CrossEntropy, cross_entropy};
pub use genetic::{Genetic, genetic};

use crate::space::{Setting, Space};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use std::cmp::Ordering;

/// What is wanted of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// As little as can be: a time.
    Least,
    /// As much as can be: a rate.
    Most,
}

impl Goal {
    /// The better one is less; what could not be measured is worse than all else.
    pub fn order(self, one: Option<f64>, other: Option<f64>) -> Ordering {
        match (one, other) {
            (Some(one), Some(other)) if self == Goal::Least => one.total_cmp(&other),
            (Some(one), Some(other)) => other.total_cmp(&one),
            (one, other) => other.is_some().cmp(&one.is_some()),
        }
    }
}

/// There are no more measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// Settings without any plan, for ever.
///
/// # Errors
/// Measuring is over.
pub fn random(
    space: &Space,
    seed: u64,
    mut measure: impl FnMut(Setting) -> Result<Option<f64>, Ended>,
) -> Result<(), Ended> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    loop {
        measure(space.setting(&space.anywhere(&mut rng)))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_one_comes_first_and_failures_last() {
        for (goal, better, worse) in [(Goal::Least, 1.0, 2.0), (Goal::Most, 2.0, 1.0)] {
            assert_eq!(goal.order(Some(better), Some(worse)), Ordering::Less);
            assert_eq!(goal.order(None, Some(worse)), Ordering::Greater);
            assert_eq!(goal.order(Some(worse), None), Ordering::Less);
            assert_eq!(goal.order(None, None), Ordering::Equal);
        }
    }
}
