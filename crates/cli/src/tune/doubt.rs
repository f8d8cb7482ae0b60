//! Whether a model is one of what was measured.

/// A model that explains less of the multicasts' variance is no model of them.
const R_SQUARED_MIN: f64 = 0.5;
/// A model that is so far from the measured calls, in the median, contradicts them.
const FACTOR_MAX: f64 = 2.0;

/// Why the model is not to be trusted, if it is not; `ratios` are times as measured over those that it predicts.
pub fn doubt(r_squared: f64, ratios: impl Iterator<Item = f64>) -> Option<String> {
    if r_squared < R_SQUARED_MIN {
        return Some(format!("it explains only {:.0} % of the multicasts' variance", 100.0 * r_squared));
    }
    let ratios = ratios.filter(|ratio| ratio.is_finite());
    let mut factors: Vec<f64> = ratios.map(|ratio| ratio.max(1.0 / ratio)).collect();
    factors.sort_by(f64::total_cmp);
    let median = *factors.get(factors.len() / 2)?;
    (median > FACTOR_MAX).then(|| {
        format!("its predictions are wrong by a factor of {median:.1} in the median of what was tried")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_explain_nothing_and_models_that_are_far_off_are_doubted() {
        let of = |r_squared, ratios: &[f64]| doubt(r_squared, ratios.iter().copied());
        let explains = of(0.49, &[1.0]).expect("too little");
        assert!(explains.contains("only 49 %"), "{explains}");
        // Half of them are too slow, or too quick, by more than twice.
        for ratios in [[1.0, 2.5, 9.0], [0.1, 0.4, 1.1]] {
            let wrong = of(0.5, &ratios).expect("too far off");
            assert!(wrong.contains("a factor of 2.5 in the median"), "{wrong}");
        }
        assert_eq!(of(0.5, &[0.6, 1.9, 50.0]), None);
        assert_eq!(of(1.0, &[]), None, "nothing is known that contradicts it");
        assert_eq!(of(1.0, &[f64::INFINITY, f64::NAN]), None);
    }
}
