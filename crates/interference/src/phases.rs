//! Phases of a program: stretches in which it does about the same, found in what was read of it over time.
//!
//! The readings are cut where that makes the parts so much more uniform that noise would hardly do it: the sum of squares within the
//! parts plus a price for each cut is smallest (optimal partitioning, Jackson and others 2005), the price following from the number
//! of readings (Schwarz 1978) and the noise from the differences between neighbours.

use std::ops::Range;

/// Differences below this part of a value are noise in any case: flows are compared by their logarithms.
const NOISE_MIN: f64 = 0.05;
/// The price of a cut, in units of noise and of the logarithm of the number of readings, per quantity.
const PRICE: f64 = 3.0;

/// Phases of readings that follow each other at equal distances, each a row of positive quantities; no phase is shorter than
/// `shortest`, unless there are fewer readings. Rows of different lengths are cut to the shortest.
///
/// ```
/// let rows: Vec<Vec<f64>> = (0..40).map(|at| vec![if at < 15 { 1e6 } else { 9e9 }]).collect();
/// assert_eq!(castell_interference::phases::phases(&rows, 3), [0..15, 15..40]);
/// ```
pub fn phases(rows: &[Vec<f64>], shortest: usize) -> Vec<Range<usize>> {
    let (count, shortest) = (rows.len(), shortest.max(1));
    let width = rows.iter().map(Vec::len).min().unwrap_or(0);
    if count < 2 * shortest || width == 0 {
        return if count == 0 { Vec::new() } else { vec![0..count; 1] };
    }
    let columns: Vec<Column> = (0..width).map(|at| Column::of(rows, at)).collect();
    let price = PRICE * width as f64 * (count as f64).ln();
    let cost = |from: usize, to: usize| columns.iter().map(|column| column.cost(from, to)).sum::<f64>();
    // The least sum up to each reading, and where the last phase before it begins.
    let mut best = vec![(0.0, 0usize); count + 1];
    for to in 1..=count {
        best[to] = (f64::INFINITY, 0);
        let last_start = to.saturating_sub(shortest);
        for from in 0..=last_start {
            if from != 0 && from < shortest {
                continue;
            }
            let sum = best[from].0 + cost(from, to) + if from == 0 { 0.0 } else { price };
            if sum < best[to].0 {
                best[to] = (sum, from);
            }
        }
    }
    let mut found = Vec::new();
    let mut to = count;
    while to > 0 {
        let from = best[to].1;
        found.push(from..to);
        to = from;
    }
    found.reverse();
    found
}

/// One quantity's logarithms in units of their noise: sums up to each reading, of them and of their squares.
struct Column {
    sums: Vec<(f64, f64)>,
}

impl Column {
    fn of(rows: &[Vec<f64>], at: usize) -> Column {
        let values: Vec<f64> = rows.iter().map(|row| row[at].max(f64::MIN_POSITIVE)).collect();
        // What is far below the largest flow is nothing, whatever its logarithm.
        let floor = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max) * 1e-4;
        let logs: Vec<f64> =
            values.iter().map(|value| value.clamp(floor.max(f64::MIN_POSITIVE), f64::MAX).ln()).collect();
        let noise = noise(&logs).max(NOISE_MIN);
        let mut sums = vec![(0.0, 0.0)];
        let middle = logs.iter().sum::<f64>() / logs.len() as f64;
        for log in logs {
            let value = (log - middle) / noise;
            let (sum, squares) = sums[sums.len() - 1];
            sums.push((sum + value, squares + value * value));
        }
        Column { sums }
    }

    /// The sum of squares around the mean.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let (sum, squares) = (self.sums[to].0 - self.sums[from].0, self.sums[to].1 - self.sums[from].1);
        (squares - sum * sum / (to - from) as f64).max(0.0)
    }
}

/// The standard deviation without the steps: from the median difference between neighbours.
fn noise(values: &[f64]) -> f64 {
    let mut differences: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    if differences.is_empty() {
        return 0.0;
    }
    differences.sort_by(f64::total_cmp);
    // The median of a normal variable's amount is 0.6745 of its deviation; a difference has twice the variance.
    differences[differences.len() / 2] / 0.6745 / 2f64.sqrt()
}

#[cfg(test)]
// One phase is what is meant.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    /// Numbers around 0 with deviation 1, from a seed.
    fn noise_from(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        let mut part = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1u64 << 24) as f64
        };
        move || (0..12).map(|_| part()).sum::<f64>() - 6.0
    }

    #[test]
    fn noise_alone_has_no_phases() {
        for seed in 0..40 {
            let mut noise = noise_from(seed);
            let rows: Vec<Vec<f64>> =
                (0..200).map(|_| (0..3).map(|_| 1e9 * (0.2 * noise()).exp()).collect()).collect();
            assert_eq!(phases(&rows, 3), [0..200], "seed {seed}");
        }
    }

    #[test]
    fn steps_are_found_where_they_are() {
        for seed in 0..40 {
            let mut noise = noise_from(seed);
            let level = |at: usize| {
                if at < 60 {
                    1e9
                } else if at < 90 {
                    4e9
                } else {
                    1.5e8
                }
            };
            let rows: Vec<Vec<f64>> = (0..200)
                .map(|at| vec![level(at) * (0.1 * noise()).exp(), 2e9 * (0.1 * noise()).exp()])
                .collect();
            assert_eq!(phases(&rows, 3), [0..60, 60..90, 90..200], "seed {seed}");
        }
    }

    #[test]
    fn odd_input_is_one_phase_or_none() {
        assert!(phases(&[], 3).is_empty());
        assert_eq!(phases(&[vec![1.0], vec![2.0]], 3), [0..2]);
        assert_eq!(phases(&[vec![], vec![1.0]], 1), [0..2]);
        let rows = vec![vec![0.0]; 30];
        assert_eq!(phases(&rows, 3), [0..30]);
        let rows: Vec<Vec<f64>> = (0..30).map(|at| vec![if at == 7 { f64::INFINITY } else { 0.0 }]).collect();
        assert_eq!(phases(&rows, 3).iter().map(ExactSizeIterator::len).sum::<usize>(), 30);
    }
}
