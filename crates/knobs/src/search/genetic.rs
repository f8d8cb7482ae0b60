//! The genetic search of the paper: roulette wheel, uniform crossover, mutation by a uniform amount.

use super::{Ended, Goal};
use crate::space::{Setting, Space};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Its numbers; by default those of chapter 6.2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Genetic {
    /// Settings of a generation.
    pub population: usize,
    /// How many generations there are, the first one included.
    pub generations: usize,
    /// How likely a value changes.
    pub mutation: f64,
    /// By how many steps at most it does, up or down.
    pub reach: u32,
}

impl Default for Genetic {
    fn default() -> Genetic {
        Genetic { population: 500, generations: 50, mutation: 0.15, reach: 50 }
    }
}

/// Measures generation after generation. Of each, parents are drawn as likely as they are fit: the fitness is what is measured if much of it
/// is wanted, and its inverse if little is.
///
/// # Errors
/// Measuring is over before the last generation is.
pub fn genetic(
    space: &Space,
    goal: Goal,
    numbers: Genetic,
    seed: u64,
    mut measure: impl FnMut(Setting) -> Result<Option<f64>, Ended>,
) -> Result<(), Ended> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut population: Vec<Vec<f64>> =
        (0..numbers.population.max(1)).map(|_| space.anywhere(&mut rng)).collect();
    for generation in 1..=numbers.generations {
        let measured: Result<Vec<_>, Ended> =
            population.iter().map(|numbers| measure(space.setting(numbers))).collect();
        let wheel = Wheel::of(&fitness(goal, &measured?));
        if generation < numbers.generations {
            population = (0..population.len())
                .map(|_| {
                    let parents = [&population[wheel.draw(&mut rng)], &population[wheel.draw(&mut rng)]];
                    child(space, parents, numbers, &mut rng)
                })
                .collect();
        }
    }
    Ok(())
}

fn child(space: &Space, parents: [&Vec<f64>; 2], numbers: Genetic, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let reach = i64::from(numbers.reach);
    let value = |(at, knob): (usize, &crate::Knob)| {
        let mut number = parents[rng.random_range(0..2)][at];
        if rng.random_bool(numbers.mutation.clamp(0.0, 1.0)) {
            number += rng.random_range(-reach..=reach) as f64;
        }
        number.clamp(0.0, (knob.count() - 1) as f64)
    };
    space.knobs().iter().enumerate().map(value).collect()
}

/// Not below 0, and 0 for what could not be measured. Where an inverse makes no sense, since not all times are above 0, the rank counts.
fn fitness(goal: Goal, measured: &[Option<f64>]) -> Vec<f64> {
    let is_positive = measured.iter().flatten().all(|value| *value > 0.0);
    let of = |value: &Option<f64>| match (*value, goal) {
        (None, _) => 0.0,
        (Some(value), Goal::Most) if is_positive => value,
        (Some(value), Goal::Least) if is_positive => 1.0 / value,
        (value, _) => measured.iter().filter(|other| goal.order(value, **other).is_le()).count() as f64,
    };
    measured.iter().map(of).collect()
}

/// Draws a number as likely as its part of the whole.
struct Wheel {
    /// Of all up to this one.
    sums: Vec<f64>,
}

impl Wheel {
    fn of(parts: &[f64]) -> Wheel {
        let mut sum = 0.0;
        let sums = parts.iter().map(|part| {
            sum += if part.is_finite() { *part } else { 0.0 };
            sum
        });
        Wheel { sums: sums.collect() }
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> usize {
        let whole = self.sums.last().copied().unwrap_or(0.0);
        if whole <= 0.0 || !whole.is_finite() {
            return rng.random_range(0..self.sums.len());
        }
        let at = rng.random_range(0.0..whole);
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Knob;

    #[test]
    fn who_is_fitter_is_drawn_more_often() {
        let wheel = Wheel::of(&[1.0, 0.0, 3.0]);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut drawn = [0; 3];
        (0..4000).for_each(|_| drawn[wheel.draw(&mut rng)] += 1);
        assert!(drawn[1] == 0 && drawn[0] > 800 && drawn[0] < 1200, "{drawn:?}");
        let nobody = Wheel::of(&[0.0, 0.0]);
        (0..100).for_each(|_| drawn[nobody.draw(&mut rng)] += 1);
        assert!(drawn[1] > 0, "where nobody is fit all are alike");
    }

    #[test]
    fn fitness_is_the_rate_or_the_inverse_of_the_time() {
        assert_eq!(fitness(Goal::Most, &[Some(4.0), None, Some(2.0)]), [4.0, 0.0, 2.0]);
        assert_eq!(fitness(Goal::Least, &[Some(4.0), None, Some(2.0)]), [0.25, 0.0, 0.5]);
        assert_eq!(fitness(Goal::Least, &[Some(-4.0), None, Some(2.0)]), [3.0, 0.0, 2.0]);
    }

    #[test]
    fn generations_are_as_many_and_as_large_as_was_said() {
        let space = Space::new(vec![Knob::parse("a=0..1000").expect("a knob")]).expect("a space");
        let numbers = Genetic { population: 40, generations: 12, ..Genetic::default() };
        let mut seen = Vec::new();
        let ended = genetic(&space, Goal::Least, numbers, 7, |setting| {
            seen.push(setting[0]);
            Ok(Some(1.0 + (setting[0] - 300).abs() as f64))
        });
        assert_eq!((ended, seen.len()), (Ok(()), 480));
        let far =
            |part: &[i64]| part.iter().map(|value| (value - 300).abs()).sum::<i64>() / part.len() as i64;
        assert!(far(&seen[440..]) * 4 < far(&seen[..40]), "{} {}", far(&seen[440..]), far(&seen[..40]));
        assert!(seen.iter().all(|value| (0..=1000).contains(value)));
    }
}
