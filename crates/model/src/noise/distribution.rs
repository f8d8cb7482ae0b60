//! Random numbers with the distributions that measurements have.
//!
//! Logarithms and the like come from a library in Rust, not from the machine's (square roots are the machine's, which IEEE
//! 754 wants exactly rounded), and every number is drawn from a stream of
//! its own: the same bits on every machine.

use super::ziggurat::{exponential, normal};
use castell_base::random::Philox;
use rand_core::RngCore;
use std::sync::Arc;

/// A distribution of times (in picoseconds), times a byte (picoseconds a byte) or factors. All are given by what a
/// measurement has: mean and standard deviation where nothing else is said.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Normal. What is negative becomes 0.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// Its logarithm is normal.
    Lognormal {
        /// Mean, above 0.
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Gamma.
    Gamma {
        /// Mean, above 0.
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// Each value between two is as likely.
    Uniform {
        /// The least.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// Pareto, with a long tail: P(x > t) = (minimum / t)^shape.
    Pareto {
        /// The least, above 0.
        minimum: f64,
        /// Above 1, so that there is a mean.
        shape: f64,
    },
    /// Each of these measured values is as likely.
    Sample(Arc<[f64]>),
}

impl Distribution {
    /// One value, never negative.
    #[inline]
    pub fn draw(&self, random: &mut Philox) -> f64 {
        match self {
            Distribution::Normal { mean, deviation } => (mean + deviation * normal(random)).max(0.0),
            Distribution::Exponential { mean } => mean * exponential(random),
            _ => self.draw_otherwise(random),
        }
    }

    #[inline(never)]
    fn draw_otherwise(&self, random: &mut Philox) -> f64 {
        match self {
            Distribution::Normal { .. } | Distribution::Exponential { .. } => self.draw(random),
            Distribution::Lognormal { mean, deviation } => {
                let variance = libm::log1p((deviation / mean) * (deviation / mean));
                libm::exp(libm::log(*mean) - variance / 2.0 + variance.sqrt() * normal(random))
            }
            Distribution::Gamma { mean, deviation } => {
                let shape = (mean / deviation) * (mean / deviation);
                mean / shape * gamma(shape, random)
            }
            Distribution::Uniform { low, high } => low + (high - low) * uniform(random),
            Distribution::Pareto { minimum, shape } => minimum * libm::pow(uniform(random), -1.0 / shape),
            Distribution::Sample(values) => {
                // The high half of the product: no division, and a bias of one in 2^64 / len.
                values[((u128::from(random.next_u64()) * values.len() as u128) >> 64) as usize]
            }
        }
    }

    /// The mean (of a normal distribution: before what is negative becomes 0).
    pub fn mean(&self) -> f64 {
        match self {
            Distribution::Normal { mean, .. }
            | Distribution::Lognormal { mean, .. }
            | Distribution::Exponential { mean }
            | Distribution::Gamma { mean, .. } => *mean,
            Distribution::Uniform { low, high } => low / 2.0 + high / 2.0,
            Distribution::Pareto { minimum, shape } => minimum * shape / (shape - 1.0),
            Distribution::Sample(values) => values.iter().sum::<f64>() / values.len() as f64,
        }
    }

    /// No value is smaller.
    pub fn minimum(&self) -> f64 {
        match self {
            Distribution::Normal { mean, deviation } if *deviation == 0.0 => *mean,
            Distribution::Normal { .. }
            | Distribution::Lognormal { .. }
            | Distribution::Exponential { .. }
            | Distribution::Gamma { .. } => 0.0,
            Distribution::Uniform { low, .. } => *low,
            Distribution::Pareto { minimum, .. } => *minimum,
            Distribution::Sample(values) => values.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }

    /// The only value there is, if there is only one.
    pub fn constant(&self) -> Option<f64> {
        match self {
            Distribution::Normal { mean, deviation }
            | Distribution::Lognormal { mean, deviation }
            | Distribution::Gamma { mean, deviation } => (*deviation == 0.0).then_some(*mean),
            Distribution::Exponential { mean } => (*mean == 0.0).then_some(0.0),
            Distribution::Uniform { low, high } => (low == high).then_some(*low),
            Distribution::Pareto { .. } => None,
            Distribution::Sample(values) => {
                values.iter().all(|value| *value == values[0]).then_some(values[0])
            }
        }
    }
}

/// Between 0 and 1, both excluded.
pub(super) fn uniform(random: &mut Philox) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
}

/// Gamma of scale 1 (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000).
fn gamma(shape: f64, random: &mut Philox) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, random) * libm::pow(uniform(random), 1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    // More than 95 of 100 attempts succeed: so many failures don't happen.
    const ATTEMPTS_MAX: u32 = 1000;
    for _ in 0..ATTEMPTS_MAX {
        let x = normal(random);
        let v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
        if v > 0.0 && libm::log(uniform(random)) < x * x / 2.0 + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Rank;
    use castell_base::random::Key;

    const DRAWS: u64 = 20_000;

    fn values(distribution: &Distribution) -> Vec<f64> {
        let stream = |operation| Key { seed: 11, rank: Rank(3), operation }.stream(0);
        (0..DRAWS).map(|operation| distribution.draw(&mut stream(operation))).collect()
    }

    #[test]
    fn draws_have_the_mean_and_the_deviation_that_were_asked_for() {
        let cases = [
            (Distribution::Normal { mean: 1500.0, deviation: 100.0 }, 100.0),
            (Distribution::Lognormal { mean: 1500.0, deviation: 700.0 }, 700.0),
            (Distribution::Exponential { mean: 100.0 }, 100.0),
            (Distribution::Gamma { mean: 50.0, deviation: 20.0 }, 20.0),
            (Distribution::Gamma { mean: 50.0, deviation: 80.0 }, 80.0),
            (Distribution::Uniform { low: 10.0, high: 30.0 }, 20.0 / 12f64.sqrt()),
            (Distribution::Pareto { minimum: 10.0, shape: 6.0 }, 12.0 * (1.0f64 / 24.0).sqrt()),
            (Distribution::Sample([1.0, 2.0, 3.0, 4.0].into()), 1.25f64.sqrt()),
        ];
        for (distribution, deviation) in cases {
            let values = values(&distribution);
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            // Five standard errors of the mean; the deviation's own errors depend on the tail.
            let tolerance = 5.0 * deviation / count.sqrt();
            assert!((mean - distribution.mean()).abs() < tolerance, "{distribution:?}: mean {mean}");
            let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
            let found = (squares / count).sqrt();
            assert!((found / deviation - 1.0).abs() < 0.1, "{distribution:?}: deviation {found}");
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(least >= distribution.minimum(), "{distribution:?}: {least}");
        }
    }

    #[test]
    fn known_bits() {
        // What these seeds draw must never change, on any machine.
        let stream = || Key { seed: 1, rank: Rank(2), operation: 3 }.stream(4);
        let bits = |distribution: Distribution| distribution.draw(&mut stream()).to_bits();
        let found = [
            bits(Distribution::Normal { mean: 1500.0, deviation: 100.0 }),
            bits(Distribution::Lognormal { mean: 1500.0, deviation: 100.0 }),
            bits(Distribution::Exponential { mean: 100.0 }),
            bits(Distribution::Gamma { mean: 100.0, deviation: 200.0 }),
            bits(Distribution::Uniform { low: 0.0, high: 1.0 }),
            bits(Distribution::Pareto { minimum: 1.0, shape: 2.0 }),
        ];
        let expected = [
            0x4096_faa4_d27b_b1cc,
            0x4096_eee1_35aa_9e7d,
            0x404b_c231_1891_de46,
            0x4020_191f_fb4d_f912,
            0x3fd9_3c0f_656a_4bfb,
            0x3ff9_7b10_5fd2_7801,
        ];
        assert_eq!(found, expected, "{found:#x?}");
    }

    #[test]
    fn draws_without_spread_are_constants() {
        let cases = [
            Distribution::Normal { mean: 7.0, deviation: 0.0 },
            Distribution::Uniform { low: 7.0, high: 7.0 },
            Distribution::Sample([7.0, 7.0].into()),
        ];
        for distribution in cases {
            assert_eq!(distribution.constant(), Some(7.0));
            assert_eq!(distribution.draw(&mut Philox::new(0, Rank(0), 0, 0)), 7.0);
        }
        assert_eq!(Distribution::Exponential { mean: 1.0 }.constant(), None);
    }
}
