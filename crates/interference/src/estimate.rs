//! What paired measurements say: a median with limits that hold for any distribution, and whether there is an effect at all.

/// How much slower, with limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median of the pairs' ratios; 1: no difference.
    pub slowdown: f64,
    /// The truth lies from here,
    pub low: f64,
    /// to here.
    pub high: f64,
    /// Pairs.
    pub pairs: usize,
}

impl Estimate {
    /// Of ratios, with limits that all of `comparisons` such estimates keep together with 95 %: order statistics (Thompson 1936),
    /// Bonferroni's bound. None where there are too few pairs for any limits.
    pub fn of(ratios: &[f64], comparisons: usize) -> Option<Estimate> {
        let mut sorted: Vec<f64> =
            ratios.iter().copied().filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let outside = outside(count, 0.05 / comparisons.max(1) as f64)?;
        let (low, high) = (sorted[outside], sorted[count - 1 - outside]);
        let slowdown = (sorted[(count - 1) / 2] * sorted[count / 2]).sqrt();
        Some(Estimate { slowdown, low, high, pairs: count })
    }

    /// Whether a difference was measured.
    pub fn is_effect(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// The least number of pairs that gives limits for so many comparisons.
pub fn pairs_min(comparisons: usize) -> usize {
    (1..64).find(|pairs| outside(*pairs, 0.05 / comparisons.max(1) as f64).is_some()).unwrap_or(64)
}

/// How many values on each side may lie outside of limits that miss the median with at most this probability.
fn outside(count: usize, probability: f64) -> Option<usize> {
    // Each value is below the median with probability 1/2.
    let mut term = 0.5f64.powi(count as i32);
    let (mut tail, mut found) = (0.0, None);
    for below in 0..count.div_ceil(2) {
        tail += term;
        if 2.0 * tail > probability {
            break;
        }
        found = Some(below);
        term *= (count - below) as f64 / (below + 1) as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_tables() {
        // For the median at 95 %: 6 values, the first and last; 11: the second; 20: the sixth.
        assert_eq!((outside(5, 0.05), outside(6, 0.05)), (None, Some(0)));
        assert_eq!((outside(11, 0.05), outside(20, 0.05)), (Some(1), Some(5)));
        assert_eq!(pairs_min(1), 6);
        let ratios: Vec<f64> = (0..11).map(|at| 1.0 + f64::from(at) / 10.0).collect();
        let estimate = Estimate::of(&ratios, 1).expect("enough");
        assert_eq!((estimate.slowdown, estimate.low, estimate.high), (1.5, 1.1, 1.9));
        assert!(estimate.is_effect());
        assert!(Estimate::of(&ratios[..5], 1).is_none());
    }

    #[test]
    fn without_a_difference_an_effect_is_seen_as_rarely_as_promised() {
        let mut state = 1u64;
        let mut part = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1u64 << 24) as f64 + 1e-9
        };
        let (mut false_alarms, tries) = (0, 4000);
        for _ in 0..tries {
            // Heavy tails: now and then something else takes the processor for long.
            let ratios: Vec<f64> = (0..11).map(|_| (1.0 + 0.02 / part()) / (1.0 + 0.02 / part())).collect();
            false_alarms += usize::from(Estimate::of(&ratios, 1).expect("enough").is_effect());
        }
        assert!(false_alarms <= tries / 20, "{false_alarms} of {tries}");
    }
}
