//! Linear least squares in a few unknowns, by orthogonalization.

/// What the best coefficients are, and how certain they are.
#[derive(Clone, Debug)]
pub(super) struct Solution {
    /// One a column; `None` for a column that the columns before it determine.
    pub coefficients: Vec<Option<f64>>,
    /// Standard errors; infinite without degrees of freedom.
    pub standard_errors: Vec<Option<f64>>,
    /// Points less determined coefficients.
    pub degrees_of_freedom: usize,
}

/// A column is dependent if what is left of it beside the others is smaller than this part of it.
const DEPENDENT: f64 = 1e-9;

/// Coefficients that minimize the sum of squares of `values` less the combination of `columns`.
pub(super) fn solve(columns: &[Vec<f64>], values: &[f64]) -> Solution {
    // Modified Gram-Schmidt; `upper[j][i]` is the part of the i-th kept column in the j-th.
    let (mut basis, mut upper, mut kept) = (Vec::<Vec<f64>>::new(), Vec::<Vec<f64>>::new(), Vec::new());
    for (index, column) in columns.iter().enumerate() {
        let length = dot(column, column).sqrt();
        let mut rest = column.clone();
        let mut parts = vec![0.0; basis.len()];
        // Twice is enough: the second pass takes out what rounding left in the first.
        for _ in 0..2 {
            for (part, direction) in parts.iter_mut().zip(&basis) {
                let again = dot(&rest, direction);
                *part += again;
                subtract(&mut rest, direction, again);
            }
        }
        let left = dot(&rest, &rest).sqrt();
        if left > DEPENDENT * length && left > 0.0 {
            rest.iter_mut().for_each(|entry| *entry /= left);
            parts.push(left);
            basis.push(rest);
            upper.push(parts);
            kept.push(index);
        }
    }
    let mut residual = values.to_vec();
    let mut projections = Vec::new();
    for direction in &basis {
        let part = dot(&residual, direction);
        subtract(&mut residual, direction, part);
        projections.push(part);
    }
    let degrees_of_freedom = values.len().saturating_sub(kept.len());
    let deviation = (dot(&residual, &residual) / degrees_of_freedom as f64).sqrt();
    let found = substitute_back(&upper, &projections);
    let mut solution = Solution {
        coefficients: vec![None; columns.len()],
        standard_errors: vec![None; columns.len()],
        degrees_of_freedom,
    };
    for (place, &index) in kept.iter().enumerate() {
        // The variance of coefficient i is that of the residuals times the square of row i of the inverse of `upper`.
        let row = (0..kept.len()).map(|unit| {
            let unit: Vec<f64> = (0..kept.len()).map(|i| if i == unit { 1.0 } else { 0.0 }).collect();
            substitute_back(&upper, &unit)[place]
        });
        let factor = row.map(|entry| entry * entry).sum::<f64>().sqrt();
        solution.coefficients[index] = Some(found[place]);
        let error = if degrees_of_freedom == 0 { f64::INFINITY } else { deviation * factor };
        solution.standard_errors[index] = Some(error);
    }
    solution
}

fn substitute_back(upper: &[Vec<f64>], projections: &[f64]) -> Vec<f64> {
    let mut found = projections.to_vec();
    for last in (0..upper.len()).rev() {
        found[last] /= upper[last][last];
        for before in 0..last {
            found[before] -= upper[last][before] * found[last];
        }
    }
    found
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn subtract(from: &mut [f64], direction: &[f64], amount: f64) {
    from.iter_mut().zip(direction).for_each(|(entry, direction)| *entry -= amount * direction);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{found}, not {expected}");
    }

    #[test]
    fn a_line_through_points_is_found_with_its_errors() {
        // y = 1, 3, 2, 4 at x = 0, 1, 2, 3: intercept 1.3, slope 0.8; residual sum of squares 1.8, so that the slope's
        // standard error is the root of (1.8 / 2) / 5.
        let columns = [vec![1.0; 4], vec![0.0, 1.0, 2.0, 3.0]];
        let solution = solve(&columns, &[1.0, 3.0, 2.0, 4.0]);
        close(solution.coefficients[0].unwrap(), 1.3);
        close(solution.coefficients[1].unwrap(), 0.8);
        close(solution.standard_errors[1].unwrap(), (0.9f64 / 5.0).sqrt());
        close(solution.standard_errors[0].unwrap(), (0.9f64 * (0.25 + 2.25 / 5.0)).sqrt());
        assert_eq!(solution.degrees_of_freedom, 2);
    }

    #[test]
    fn what_the_columns_before_determine_is_left_out() {
        let columns = [vec![1.0; 3], vec![2.0; 3], vec![1.0, 2.0, 3.0], vec![0.0; 3]];
        let solution = solve(&columns, &[5.0, 7.0, 9.0]);
        close(solution.coefficients[0].unwrap(), 3.0);
        assert_eq!(solution.coefficients[1], None);
        close(solution.coefficients[2].unwrap(), 2.0);
        assert_eq!(solution.coefficients[3], None);
    }
}
