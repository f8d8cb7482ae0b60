//! Normal and exponential numbers from 64 random bits each, almost always.
//!
//! The area under a density is cut into layers of the same size (Marsaglia and Tsang, "The ziggurat method for generating
//! random variables", Journal of Statistical Software 5(8), 2000). A layer is a rectangle and a bit more: eight bits choose
//! the layer, 53 others a place in it (Doornik, "An improved ziggurat method to generate normal random samples", 2005,
//! tells why the same bits must not do both), and 99 of 100 places lie in the rectangle, where no density has to be computed.

use super::distribution::uniform;
use castell_base::random::Philox;
use rand_core::RngCore;
use std::sync::LazyLock;

const LAYERS: usize = 256;

/// Layers from the lowest to the highest.
struct Tables {
    /// How wide each layer is; the lowest one's is the width of a rectangle as large as it with its tail.
    widths: [f64; LAYERS + 1],
    /// The density at these.
    heights: [f64; LAYERS + 1],
}

impl Tables {
    /// Layers of area `area`; the tail begins at `tail`.
    fn new(tail: f64, area: f64, density: fn(f64) -> f64, inverse: fn(f64) -> f64) -> Tables {
        let (mut widths, mut heights) = ([0.0; LAYERS + 1], [1.0; LAYERS + 1]);
        widths[0] = area / density(tail);
        widths[1] = tail;
        for layer in 1..LAYERS - 1 {
            widths[layer + 1] = inverse(area / widths[layer] + density(widths[layer]));
        }
        for layer in 0..LAYERS {
            heights[layer] = density(widths[layer]);
        }
        Tables { widths, heights }
    }
}

/// Where the tail of the normal density begins, and each layer's area, for 256 layers.
const NORMAL: (f64, f64) = (3.654_152_885_361_009, 0.004_928_673_233_974_655);
/// The same of the exponential one.
const EXPONENTIAL: (f64, f64) = (7.697_117_470_131_05, 0.003_949_659_822_581_557);

fn normal_density(x: f64) -> f64 {
    libm::exp(-x * x / 2.0)
}

fn exponential_density(x: f64) -> f64 {
    libm::exp(-x)
}

static NORMAL_TABLES: LazyLock<Tables> = LazyLock::new(|| {
    Tables::new(NORMAL.0, NORMAL.1, normal_density, |height| (-2.0 * libm::log(height)).sqrt())
});

static EXPONENTIAL_TABLES: LazyLock<Tables> = LazyLock::new(|| {
    Tables::new(EXPONENTIAL.0, EXPONENTIAL.1, exponential_density, |height| -libm::log(height))
});

/// So many places in a row don't lie above the density.
const ATTEMPTS_MAX: u32 = 1000;

/// Standard normal.
#[inline]
pub(super) fn normal(random: &mut Philox) -> f64 {
    let tables = &*NORMAL_TABLES;
    for _ in 0..ATTEMPTS_MAX {
        let bits = random.next_u64();
        let layer = bits as usize % LAYERS;
        // From -1 to 1.
        let place = (bits >> 11) as f64 * (2.0 / (1u64 << 53) as f64) - 1.0;
        let x = place * tables.widths[layer];
        if x.abs() < tables.widths[layer + 1] {
            return x;
        }
        if let Some(x) = normal_outside(tables, layer, x, random) {
            return x;
        }
    }
    0.0
}

/// What is not in a layer's rectangle.
#[cold]
fn normal_outside(tables: &Tables, layer: usize, x: f64, random: &mut Philox) -> Option<f64> {
    if layer > 0 {
        return is_below(tables, layer, normal_density(x), random).then_some(x);
    }
    // Marsaglia's way to the tail (1964).
    for _ in 0..ATTEMPTS_MAX {
        let beyond = -libm::log(uniform(random)) / NORMAL.0;
        if -2.0 * libm::log(uniform(random)) >= beyond * beyond {
            return Some((NORMAL.0 + beyond).copysign(x));
        }
    }
    None
}

/// Exponential of mean 1.
#[inline]
pub(super) fn exponential(random: &mut Philox) -> f64 {
    let tables = &*EXPONENTIAL_TABLES;
    for _ in 0..ATTEMPTS_MAX {
        let bits = random.next_u64();
        let layer = bits as usize % LAYERS;
        // From 0 to 1, both excluded.
        let place = ((bits >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64);
        let x = place * tables.widths[layer];
        if x < tables.widths[layer + 1] {
            return x;
        }
        if let Some(x) = exponential_outside(tables, layer, x, random) {
            return x;
        }
    }
    0.0
}

#[cold]
fn exponential_outside(tables: &Tables, layer: usize, x: f64, random: &mut Philox) -> Option<f64> {
    match layer {
        // The tail is the same density again.
        0 => Some(EXPONENTIAL.0 - libm::log(uniform(random))),
        _ => is_below(tables, layer, exponential_density(x), random).then_some(x),
    }
}

/// Whether a place in a layer at a random height is below the density there.
fn is_below(tables: &Tables, layer: usize, density: f64, random: &mut Philox) -> bool {
    let (low, high) = (tables.heights[layer], tables.heights[layer + 1]);
    low + (high - low) * uniform(random) < density
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Rank;
    use castell_base::random::Key;

    /// Of so many draws, how many are below each of some values: as many as there should be, within five standard errors.
    fn compare(draw: fn(&mut Philox) -> f64, quantiles: &[(f64, f64)]) {
        const DRAWS: u64 = 2_000_000;
        let mut below = vec![0u64; quantiles.len()];
        for operation in 0..DRAWS {
            let x = draw(&mut Key { seed: 5, rank: Rank(1), operation }.stream(0));
            for (count, (value, _)) in below.iter_mut().zip(quantiles) {
                *count += u64::from(x < *value);
            }
        }
        for (count, (value, share)) in below.iter().zip(quantiles) {
            let error = (share * (1.0 - share) / DRAWS as f64).sqrt();
            let found = *count as f64 / DRAWS as f64;
            assert!((found - share).abs() < 5.0 * error, "{found} are below {value}, not {share}");
        }
    }

    #[test]
    fn normal_numbers_are_as_often_below_as_the_distribution_says() {
        let upper = [
            (0.0, 0.5),
            (0.1, 0.539_827_837_277_029),
            (0.5, 0.691_462_461_274_013),
            (1.0, 0.841_344_746_068_543),
            (2.0, 0.977_249_868_051_821),
            (3.0, 0.998_650_101_968_37),
            (3.654_152_885_361_009, 0.999_870_983_756),
            (4.0, 0.999_968_328_758_167),
        ];
        compare(normal, &upper);
        compare(normal, &upper.map(|(value, share)| (-value, 1.0 - share)));
    }

    #[test]
    fn exponential_numbers_are_as_often_below_as_the_distribution_says() {
        compare(exponential, &[0.01, 0.1, 0.7, 1.0, 3.0, 7.7, 10.0].map(|x| (x, -libm::expm1(-x))));
    }

    /// So few draws are in the tail that the shares above hardly see what it looks like.
    #[test]
    fn the_tail_of_normal_numbers_is_that_of_the_density() {
        const DRAWS: u64 = 100_000;
        let beyond = |operation| {
            let mut random = Key { seed: 6, rank: Rank(1), operation }.stream(0);
            normal_outside(&NORMAL_TABLES, 0, 1.0, &mut random).expect("in the tail") - NORMAL.0
        };
        let mean = (0..DRAWS).map(beyond).sum::<f64>() / DRAWS as f64;
        let steps = || (0..40_000).map(|step| f64::from(step) * 1e-4);
        let weight = |beyond: f64| normal_density(NORMAL.0 + beyond);
        let exact = steps().map(|at| at * weight(at)).sum::<f64>() / steps().map(weight).sum::<f64>();
        // Five standard errors: the tail's deviation is less than its mean.
        assert!((mean - exact).abs() < 5.0 * exact / (DRAWS as f64).sqrt(), "{mean}, not {exact}");
    }

    #[test]
    fn layers_fill_the_area_under_the_density() {
        for (tables, area) in [(&*NORMAL_TABLES, NORMAL.1), (&*EXPONENTIAL_TABLES, EXPONENTIAL.1)] {
            for layer in 1..LAYERS {
                let found = tables.widths[layer] * (tables.heights[layer + 1] - tables.heights[layer]);
                // The highest layer takes what the rounding of all others leaves.
                let tolerance = if layer == LAYERS - 1 { 1e-6 } else { 1e-12 };
                assert!((found / area - 1.0).abs() < tolerance, "layer {layer}: {found}, not {area}");
            }
        }
    }
}
