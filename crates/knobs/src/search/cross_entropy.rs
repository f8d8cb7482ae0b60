//! The cross-entropy method (Rubinstein and Kroese, "The Cross-Entropy Method", 2004): settings are drawn from a normal distribution for each
//! knob, which moves to where the best of them lay.

use super::{Ended, Goal};
use crate::space::{Setting, Space};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossEntropy {
    /// Settings that are drawn before the distributions move.
    pub round: usize,
    /// How many of the best of a round say where to.
    pub best: usize,
    /// How much of the way there their means go.
    pub pace: f64,
    /// How much of the way to the best ones' deviations theirs go: less, so that they do not close too early.
    pub narrowing: f64,
}

impl Default for CrossEntropy {
    fn default() -> CrossEntropy {
        CrossEntropy { round: 20, best: 5, pace: 0.8, narrowing: 0.6 }
    }
}

/// A knob's distribution, over the numbers of its values.
struct Normal {
    mean: f64,
    deviation: f64,
    last: f64,
}

/// Measures round after round, for ever; when the distributions have become narrower than a step it begins anew.
///
/// # Errors
/// Measuring is over.
pub fn cross_entropy(
    space: &Space,
    goal: Goal,
    numbers: CrossEntropy,
    seed: u64,
    mut measure: impl FnMut(Setting) -> Result<Option<f64>, Ended>,
) -> Result<(), Ended> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let round = numbers.round.max(2);
    let best = numbers.best.clamp(1, round);
    let mut normals = wide(space);
    let mut is_first = true;
    loop {
        let mut drawn = Vec::with_capacity(round);
        for _ in 0..round {
            // At first there is nothing to go by.
            let at = if is_first { space.anywhere(&mut rng) } else { draw(&normals, &mut rng) };
            let measured = measure(space.setting(&at))?;
            drawn.push((measured, at));
        }
        is_first = false;
        drawn.sort_by(|(one, _), (other, _)| goal.order(*one, *other));
        drawn.truncate(best);
        drawn.retain(|(measured, _)| measured.is_some());
        if drawn.is_empty() {
            continue;
        }
        for (at, normal) in normals.iter_mut().enumerate() {
            let values = || drawn.iter().map(|(_, numbers)| numbers[at]);
            let count = drawn.len() as f64;
            let mean = values().sum::<f64>() / count;
            let deviation = (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
            normal.mean += numbers.pace * (mean - normal.mean);
            normal.deviation += numbers.narrowing * (deviation - normal.deviation);
        }
        // There is nothing left to find here.
        if normals.iter().all(|normal| normal.deviation < 0.5) {
            normals = wide(space);
            is_first = true;
        }
    }
}

/// Over all values.
fn wide(space: &Space) -> Vec<Normal> {
    let last = |knob: &crate::Knob| (knob.count() - 1) as f64;
    space
        .knobs()
        .iter()
        .map(|knob| Normal { mean: last(knob) / 2.0, deviation: last(knob) / 2.0, last: last(knob) })
        .collect()
}

fn draw(normals: &[Normal], rng: &mut ChaCha8Rng) -> Vec<f64> {
    normals
        .iter()
        .map(|normal| (normal.mean + normal.deviation * standard(rng)).clamp(0.0, normal.last))
        .collect()
}

/// A standard normal number (Box and Muller, 1958).
fn standard(rng: &mut ChaCha8Rng) -> f64 {
    let (one, other): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - one).ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Knob;

    #[test]
    fn it_goes_where_the_best_are_and_stays_inside() {
        let knobs = ["a=0..1000", "b=0..100", "c=5..5"].map(|text| Knob::parse(text).expect("a knob"));
        let space = Space::new(knobs.to_vec()).expect("a space");
        for seed in 0..20 {
            let (mut left, mut best) = (400, f64::INFINITY);
            let ended = cross_entropy(&space, Goal::Least, CrossEntropy::default(), seed, |setting| {
                assert!((0..=1000).contains(&setting[0]) && (0..=100).contains(&setting[1]));
                left -= 1;
                let cost = (setting[0] - 930).abs() as f64 + 10.0 * (setting[1] - 3).abs() as f64;
                best = best.min(cost);
                if left > 0 { Ok(Some(cost)) } else { Err(Ended) }
            });
            assert!(ended == Err(Ended) && best <= 10.0, "seed {seed}: {best}");
        }
    }

    #[test]
    fn what_cannot_be_measured_is_stood() {
        let space = Space::new(vec![Knob::parse("a=0..9").expect("a knob")]).expect("a space");
        let mut left = 200;
        let ended = cross_entropy(&space, Goal::Most, CrossEntropy::default(), 1, |setting| {
            left -= 1;
            if left == 0 { Err(Ended) } else { Ok((left < 100 && setting[0] > 7).then_some(1.0)) }
        });
        assert_eq!(ended, Err(Ended));
    }
}
