//! Lambert's W, the inverse of w·eʷ, on its two real branches.

/// The branch with W ≥ -1, for arguments of at least -1/e; beyond that the branch point, -1.
pub(crate) fn lambert_w0(x: f64) -> f64 {
    let start = if x < 1.0 { near_branch_point(x, 1.0) } else { x.ln() - x.ln().max(1.0).ln() };
    refine(start, x)
}

/// The branch with W ≤ -1, for arguments from -1/e to 0; beyond that the branch point, -1.
pub(crate) fn lambert_w_minus_1(x: f64) -> f64 {
    let start = if x < -0.1 { near_branch_point(x, -1.0) } else { (-x).ln() - (-(-x).ln()).ln() };
    refine(start, x)
}

/// The series around (-1/e, -1) as far as its third term (Corless et al., "On the Lambert W function", 1996, eq. 4.22).
fn near_branch_point(x: f64, side: f64) -> f64 {
    let p = side * (2.0 * (std::f64::consts::E * x + 1.0)).max(0.0).sqrt();
    -1.0 + p - p * p / 3.0
}

/// Halley's iteration (the same paper, eq. 5.9); at the branch point, where it divides by zero, the start is the answer.
fn refine(mut w: f64, x: f64) -> f64 {
    const STEPS_MAX: u32 = 50;
    for _ in 0..STEPS_MAX {
        let (power, error) = (w.exp(), w * w.exp() - x);
        let step = error / (power * (w + 1.0) - (w + 2.0) * error / (2.0 * w + 2.0));
        if !step.is_finite() || step.abs() <= 1e-15 * w.abs() {
            break;
        }
        w -= step;
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_branches_invert_w_times_e_to_the_w() {
        for n in 0..2000 {
            let w = -1.0 + f64::from(n) * 0.01;
            let found = lambert_w0(w * w.exp());
            assert!((found - w).abs() < 1e-6 * (1.0 + w.abs()), "{w}: {found}");
            let w = -1.0 - f64::from(n) * 0.01;
            let found = lambert_w_minus_1(w * w.exp());
            assert!((found - w).abs() < 1e-6 * (1.0 + w.abs()), "{w}: {found}");
        }
    }

    #[test]
    fn small_values_are_as_exact_as_others() {
        for w in [1e-12, 1e-7, 1e-3, -1e-12, -1e-7, -1e-3] {
            let found = lambert_w0(w * f64::exp(w));
            assert!((found - w).abs() < 1e-12 * w.abs(), "{w}: {found}");
        }
    }
}
