//! What several runs say together.

use castell_base::Time;

/// Order statistics, mean and 95 % confidence intervals of times.
///
/// ```
/// use castell_base::Time;
/// use castell_sim::statistics::Summary;
/// let times: Vec<Time> = (1..=9).map(Time).collect();
/// let summary = Summary::of(&times).unwrap();
/// assert_eq!((summary.min, summary.median, summary.max), (Time(1), Time(5), Time(9)));
/// assert_eq!(summary.median_interval, Some((Time(2), Time(8))));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How many times.
    pub count: usize,
    /// The smallest.
    pub min: Time,
    /// The middle one; of an even number, the lower of the two.
    pub median: Time,
    /// The largest.
    pub max: Time,
    /// In picoseconds.
    pub mean_ps: f64,
    /// Estimated from this sample, in picoseconds; 0 of a single time.
    pub standard_deviation_ps: f64,
    /// Where the mean lies with 95 % confidence if times are distributed normally (Student's t); picoseconds. Of one
    /// time there is none.
    pub mean_interval_ps: Option<(f64, f64)>,
    /// Where the median lies with at least 95 % confidence however times are distributed (from their order); there is
    /// none of fewer than 6.
    pub median_interval: Option<(Time, Time)>,
}

impl Summary {
    /// Of at least one time.
    pub fn of(times: &[Time]) -> Option<Summary> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let count = sorted.len();
        // Counted from the smallest, so that large times lose no digits.
        let over_min = || sorted.iter().map(|&time| (time - min).0 as f64);
        let mean_over_min = over_min().sum::<f64>() / count as f64;
        let squares: f64 = over_min().map(|time| (time - mean_over_min).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let mean = min.0 as f64 + mean_over_min;
        let half = students_t(count - 1).map(|t| t * deviation / (count as f64).sqrt());
        Some(Summary {
            count,
            min,
            median: sorted[(count - 1) / 2],
            max,
            mean_ps: mean,
            standard_deviation_ps: deviation,
            mean_interval_ps: half.map(|half| (mean - half, mean + half)),
            median_interval: median_places(count).map(|(low, high)| (sorted[low], sorted[high])),
        })
    }
}

/// The 97.5 % quantile of Student's distribution with so many degrees of freedom.
fn students_t(freedom: usize) -> Option<f64> {
    const SMALL: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match freedom {
        0 => None,
        1..=30 => Some(SMALL[freedom - 1]),
        // The first terms of the expansion around the normal distribution's quantile z: z + (z³ + z)/4ν.
        _ => Some(1.95996 + (1.95996f64.powi(3) + 1.95996) / (4.0 * freedom as f64)),
    }
}

/// Between which places of a sorted sample the median lies with at least 95 % confidence: as many are cut off at either
/// side as a fair coin, tossed so often, shows heads less often than that with at most 2.5 %.
fn median_places(count: usize) -> Option<(usize, usize)> {
    // The binomial distribution in logarithms: 2^-n leaves the doubles behind.
    let tosses = count as f64;
    let mut logarithm = -tosses * std::f64::consts::LN_2;
    let (mut below, mut cut) = (0.0, 0);
    loop {
        below += logarithm.exp();
        if below > 0.025 {
            break;
        }
        logarithm += ((tosses - cut as f64) / (cut as f64 + 1.0)).ln();
        cut += 1;
    }
    (cut > 0).then(|| (cut - 1, count - cut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_model::statistics::student_t;

    #[test]
    fn intervals_of_medians_are_those_of_the_tables() {
        // Sign test, 95 %: places from 1 of the lower end.
        for (count, low) in [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (20, 6), (25, 8), (100, 40)] {
            assert_eq!(median_places(count), Some((low - 1, count - low)), "{count}");
        }
        assert_eq!(median_places(5), None);
        assert!(median_places(100_000).is_some());
    }

    #[test]
    fn equal_times_have_no_spread() {
        let summary = Summary::of(&[Time(u64::MAX / 2); 50]).unwrap();
        assert_eq!(summary.standard_deviation_ps, 0.0);
        assert_eq!(summary.mean_interval_ps, Some((summary.mean_ps, summary.mean_ps)));
        assert_eq!(summary.median_interval, Some((summary.min, summary.max)));
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[Time(7)]).unwrap().mean_interval_ps, None);
    }

    #[test]
    fn a_mean_and_its_interval() {
        // 1 to 5: deviation sqrt(2.5), t(4) = 2.776.
        let summary = Summary::of(&[1, 2, 3, 4, 5].map(Time)).unwrap();
        let (low, high) = summary.mean_interval_ps.unwrap();
        assert_eq!(summary.mean_ps, 3.0);
        assert!((high - 3.0 - 1.963).abs() < 1e-3 && (3.0 - low - 1.963).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn the_median_is_the_middle_one_or_the_lower_of_two() {
        for (times, median) in [(&[9][..], 9), (&[8, 3], 3), (&[5, 1, 7, 2, 9], 5), (&[4, 6, 1, 9], 4)] {
            let times: Vec<Time> = times.iter().map(|&time| Time(time)).collect();
            assert_eq!(Summary::of(&times).map(|summary| summary.median), Some(Time(median)), "{times:?}");
        }
    }

    #[test]
    fn students_t_is_that_of_the_distribution() {
        assert_eq!(students_t(0), None);
        for freedom in 1..300 {
            let (found, exact) = (students_t(freedom).unwrap(), student_t(0.95, freedom as u64));
            assert!((found - exact).abs() < 4e-3, "{freedom}: {found}, not {exact}");
        }
    }
}
