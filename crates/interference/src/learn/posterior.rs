//! What follows for a program's neighbours from all comparisons that it was in.
//!
//! Unknown are the logarithms of its slowdowns beside each neighbour. A neighbour that came or went tells one of them, one that came instead
//! of another tells the difference of two, each with the same noise; and before anything was seen each is about what classes say. All of
//! it is normal, so the answer is that of least squares.

use serde::{Deserialize, Serialize};

/// A comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Equation {
    pub(super) neighbour: String,
    pub(super) instead_of: Option<String>,
    /// Natural logarithm of the slowdown.
    pub(super) logarithm: f64,
    /// Seconds since 1970.
    pub(super) at_s: u64,
}

/// Middle and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Normal {
    pub(super) middle: f64,
    pub(super) deviation: f64,
}

impl Equation {
    /// Each neighbour with its sign.
    pub(super) fn terms(&self) -> impl Iterator<Item = (&str, f64)> {
        let minus = self.instead_of.iter().map(|other| (other.as_str(), -1.0));
        std::iter::once((self.neighbour.as_str(), 1.0)).chain(minus)
    }

    pub(super) fn is_about(&self, neighbour: &str) -> bool {
        self.terms().any(|(other, _)| other == neighbour)
    }
}

/// What is known of a sum of unknowns with signs.
pub(super) fn solve<'a>(
    equations: impl Iterator<Item = &'a Equation> + Clone,
    prior: impl Fn(&str) -> Normal,
    noise: f64,
    wanted: &[(&'a str, f64)],
) -> Normal {
    let terms = equations.clone().flat_map(Equation::terms).map(|(name, _)| name);
    let mut names: Vec<&str> = terms.chain(wanted.iter().map(|(name, _)| *name)).collect();
    names.sort_unstable();
    names.dedup();
    let place = |name: &str| names.binary_search(&name).expect("all names are there");
    let count = names.len();
    let mut matrix = vec![vec![0.0; count]; count];
    let mut right = vec![0.0; count];
    for (at, name) in names.iter().enumerate() {
        let prior = prior(name);
        let weight = 1.0 / (prior.deviation * prior.deviation);
        matrix[at][at] += weight;
        right[at] += weight * prior.middle;
    }
    let weight = 1.0 / (noise * noise);
    for equation in equations {
        for (one, sign) in equation.terms() {
            right[place(one)] += weight * sign * equation.logarithm;
            for (other, other_sign) in equation.terms() {
                matrix[place(one)][place(other)] += weight * sign * other_sign;
            }
        }
    }
    let mut asked = vec![0.0; count];
    wanted.iter().for_each(|(name, sign)| asked[place(name)] += sign);
    let answer = solved(matrix, asked.clone());
    let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
    Normal { middle: dot(&answer, &right), deviation: dot(&answer, &asked).max(0.0).sqrt() }
}

/// The solution of a system that is symmetric and positive: elimination needs no pivots.
fn solved(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let count = right.len();
    for at in 0..count {
        let (above, below) = matrix.split_at_mut(at + 1);
        let row = &above[at];
        for (offset, other) in below.iter_mut().enumerate() {
            let factor = other[at] / row[at];
            if factor != 0.0 {
                other[at..].iter_mut().zip(&row[at..]).for_each(|(other, row)| *other -= factor * row);
                right[at + 1 + offset] -= factor * right[at];
            }
        }
    }
    for at in (0..count).rev() {
        let known: f64 = (at + 1..count).map(|other| matrix[at][other] * right[other]).sum();
        right[at] = (right[at] - known) / matrix[at][at];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equation(neighbour: &str, instead_of: Option<&str>, logarithm: f64) -> Equation {
        Equation {
            neighbour: neighbour.into(),
            instead_of: instead_of.map(str::to_owned),
            logarithm,
            at_s: 0,
        }
    }

    #[test]
    fn one_unknown_is_the_weighted_mean_and_differences_reach_through() {
        let prior = |_: &str| Normal { middle: 0.2, deviation: 0.2 };
        let seen = [equation("a", None, 0.5), equation("a", None, 0.7)];
        let found = solve(seen.iter(), prior, 0.1, &[("a", 1.0)]);
        // Weights 25, 100 and 100.
        let mean = (25.0 * 0.2 + 100.0 * 0.5 + 100.0 * 0.7) / 225.0;
        assert!((found.middle - mean).abs() < 1e-12 && (found.deviation - 1.0 / 15.0).abs() < 1e-12);
        // c instead of b, b instead of a: what is known of a tells about c, less surely.
        let wide = |_: &str| Normal { middle: 0.0, deviation: 100.0 };
        let seen = [equation("a", None, 0.5), equation("b", Some("a"), 0.3), equation("c", Some("b"), -0.1)];
        let found = solve(seen.iter(), wide, 0.1, &[("c", 1.0)]);
        assert!(
            (found.middle - 0.7).abs() < 1e-3 && (found.deviation - 0.03f64.sqrt()).abs() < 1e-3,
            "{found:?}"
        );
        let ratio = solve(seen.iter(), wide, 0.1, &[("c", 1.0), ("b", -1.0)]);
        assert!((ratio.middle + 0.1).abs() < 1e-3 && (ratio.deviation - 0.1).abs() < 1e-3, "{ratio:?}");
        let nothing = solve(seen.iter(), prior, 0.1, &[("x", 1.0)]);
        assert!((nothing.middle - 0.2).abs() < 1e-12 && (nothing.deviation - 0.2).abs() < 1e-12);
    }
}
