//! The little statistics that fitting and repeated runs need: medians, and Student's t for confidence intervals.

/// The median, or nothing if there are no values. Sorts them.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some(values[middle - 1] / 2.0 + values[middle] / 2.0),
    }
}

/// The mean, and half the width of its confidence interval (Student's t) at a level such as 0.95; nothing for fewer than
/// two values, whose spread is not known.
pub fn mean_with_confidence(values: &[f64], level: f64) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let standard_error = (squares / (count - 1.0) / count).sqrt();
    Some((mean, standard_error * student_t(level, values.len() as u64 - 1)))
}

/// The t for which a Student-distributed value with this many degrees of freedom lies between -t and t with probability
/// `level`, between 0 and 1.
///
/// # Panics
///
/// Without degrees of freedom.
pub fn student_t(level: f64, degrees_of_freedom: u64) -> f64 {
    assert!(degrees_of_freedom > 0, "no degrees of freedom");
    let freedom = degrees_of_freedom as f64;
    let outside = |t: f64| incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t));
    let (mut low, mut high) = (0.0, 1.0);
    // At most 2^100: with one degree of freedom t grows as 1 / (1 - level).
    while outside(high) > 1.0 - level && high < 1e30 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = low / 2.0 + high / 2.0;
        if outside(middle) > 1.0 - level { low = middle } else { high = middle }
    }
    high
}

/// The regularized incomplete beta function I_x(a, b), by its continued fraction (Abramowitz and Stegun, 26.5.8).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on this side only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() - log_beta(a, b)).exp() / a;
    const TERMS_MAX: u32 = 500;
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    // Lentz's evaluation from the front: numerators and denominators as ratios of consecutive convergents.
    let (mut fraction, mut c, mut d) = (1.0, 1.0, 0.0);
    for term in 0..TERMS_MAX {
        let m = f64::from(term / 2);
        let numerator = match term {
            0 => 1.0,
            _ if term % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 / away_from_zero(1.0 + numerator * d);
        c = away_from_zero(1.0 + numerator / c);
        let step = c * d;
        fraction *= step;
        if (step - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * (fraction - 1.0)
}

fn log_beta(a: f64, b: f64) -> f64 {
    log_gamma(a) + log_gamma(b) - log_gamma(a + b)
}

/// ln Γ(x) for x > 0: Stirling's series (Abramowitz and Stegun, 6.1.41) where it is accurate, the recurrence below.
fn log_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return log_gamma(x + 1.0) - x.ln();
    }
    let (inverse, square) = (1.0 / x, 1.0 / (x * x));
    let series =
        inverse / 12.0 - inverse * square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0));
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 2e-3 * expected, "{found}, not {expected}");
    }

    #[test]
    fn students_t_is_that_of_the_tables() {
        for (freedom, expected) in
            [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (1000, 1.962)]
        {
            close(student_t(0.95, freedom), expected);
        }
        close(student_t(0.99, 7), 3.499);
        close(student_t(0.5, 3), 0.765);
    }

    /// The probability of -t to t as a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    fn inside(t: f64, freedom: u64) -> f64 {
        let angle = (t / (freedom as f64).sqrt()).atan();
        let odd = freedom % 2 == 1;
        let (mut sum, mut term) = (0.0, if odd { angle.cos() } else { 1.0 });
        for factor in (if odd { 1 } else { 0 }..freedom - 1).step_by(2) {
            sum += term;
            term *= (factor + 1) as f64 / (factor + 2) as f64 * angle.cos().powi(2);
        }
        let sum = angle.sin() * sum;
        if odd { (angle + sum) * std::f64::consts::FRAC_2_PI } else { sum }
    }

    #[test]
    fn students_t_has_the_probability_that_was_asked_for() {
        for freedom in [1, 2, 3, 4, 7, 12, 40, 151] {
            for level in [1e-3, 0.1, 0.5, 0.9, 0.99, 0.9999] {
                let found = inside(student_t(level, freedom), freedom);
                assert!((found - level).abs() < 1e-11, "{freedom} degrees, {level}: {found}");
            }
        }
    }

    #[test]
    fn gamma_is_the_factorial() {
        let mut factorial: f64 = 1.0;
        for n in 1..25 {
            factorial *= f64::from(n);
            let found = log_gamma(f64::from(n) + 1.0);
            assert!((found - factorial.ln()).abs() < 1e-11 * factorial.ln().max(1.0), "{n}! has {found}");
        }
        assert!((log_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-11);
    }

    #[test]
    fn medians_and_means() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(mean_with_confidence(&[1.0], 0.95), None);
        let (mean, half) = mean_with_confidence(&[1.0, 2.0, 3.0], 0.95).unwrap();
        close(mean, 2.0);
        close(half, 4.303 / 3f64.sqrt());
        let (mean, half) = mean_with_confidence(&[1.0, 3.0], 0.95).unwrap();
        close(mean, 2.0);
        close(half, 12.706);
    }
}
