//! A linear model of anything, with how certain it is.

use super::least_squares::solve;
use crate::statistics::student_t;

/// Values as a combination of columns, by least squares.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearModel {
    /// One a column: its coefficient and that one's standard error; `None` for a column that those before it determine.
    pub terms: Vec<Option<(f64, f64)>>,
    /// The part of the variance around the mean that the model explains, adjusted for the number of terms; `None` without degrees of
    /// freedom, or where all values are the same.
    pub adjusted_r_squared: Option<f64>,
    /// Values less terms.
    pub degrees_of_freedom: usize,
}

impl LinearModel {
    /// The first column should be ones: the variance is that around the mean. Columns are as long as the values.
    pub fn of(columns: &[Vec<f64>], values: &[f64]) -> LinearModel {
        let solution = solve(columns, values);
        let terms: Vec<_> = solution
            .coefficients
            .iter()
            .zip(&solution.standard_errors)
            .map(|(coefficient, error)| coefficient.zip(*error))
            .collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let predicted = |at: usize| -> f64 {
            columns.iter().zip(&terms).filter_map(|(column, term)| Some(column[at] * (*term)?.0)).sum()
        };
        let left: f64 = values.iter().enumerate().map(|(at, value)| (value - predicted(at)).powi(2)).sum();
        let whole: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let freedom = solution.degrees_of_freedom as f64;
        let adjusted_r_squared =
            (freedom > 0.0 && whole > 0.0).then(|| 1.0 - (left / freedom) / (whole / (count - 1.0)));
        LinearModel { terms, adjusted_r_squared, degrees_of_freedom: solution.degrees_of_freedom }
    }

    /// So many standard errors a coefficient lies from 0 by chance with a probability of less than `1 - level`.
    pub fn t(&self, level: f64) -> Option<f64> {
        (self.degrees_of_freedom > 0).then(|| student_t(level, self.degrees_of_freedom as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_explains_what_it_explains() {
        // As in the test of least squares: residuals 1.8 of 5, and 2 degrees of freedom of 4 points.
        let columns = [vec![1.0; 4], vec![0.0, 1.0, 2.0, 3.0]];
        let model = LinearModel::of(&columns, &[1.0, 3.0, 2.0, 4.0]);
        let found = model.adjusted_r_squared.expect("points enough");
        assert!((found - (1.0 - 0.9 / (5.0 / 3.0))).abs() < 1e-12, "{found}");
        assert!((model.t(0.95).expect("points enough") - 4.303).abs() < 0.01);
        assert_eq!(LinearModel::of(&columns, &[2.0; 4]).adjusted_r_squared, None);
        assert_eq!(LinearModel::of(&[vec![1.0]], &[2.0]).t(0.95), None);
    }
}
