//! Which knobs matter: a linear model of what was measured.

use crate::space::{Setting, Space};
use castell_model::fit::LinearModel;

/// What a step of one knob changes, as far as a linear model goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// For 1 more of the knob's value.
    pub coefficient: f64,
    /// Its standard error.
    pub standard_error: f64,
}

impl Effect {
    /// The coefficient in standard errors.
    pub fn t(self) -> f64 {
        self.coefficient / self.standard_error
    }
}

/// A linear model of what was measured: a constant, and an effect of each knob.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// What would be measured where all knobs are 0.
    pub constant: Option<Effect>,
    /// In the order of the knobs; `None` for one that never changed, or only together with those before it.
    pub knobs: Vec<Option<Effect>>,
    /// The part of the variance that the model explains, less what as many arbitrary knobs would.
    pub adjusted_r_squared: Option<f64>,
    /// From how many standard errors on an effect is none by chance (Student's t, two sides).
    pub significant_t: Option<f64>,
}

/// The level of the paper's table.
const SIGNIFICANCE: f64 = 0.001;

impl Effects {
    /// Of all that could be measured.
    pub fn of(space: &Space, measured: &[(Setting, Option<f64>)]) -> Effects {
        let points: Vec<(&Setting, f64)> =
            measured.iter().filter_map(|(setting, value)| Some((setting, (*value)?))).collect();
        let mut columns = vec![vec![1.0; points.len()]];
        for place in 0..space.knobs().len() {
            columns.push(points.iter().map(|(setting, _)| setting[place] as f64).collect());
        }
        let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        let model = LinearModel::of(&columns, &values);
        let mut effects = model
            .terms
            .iter()
            .map(|term| term.map(|(coefficient, standard_error)| Effect { coefficient, standard_error }));
        Effects {
            constant: effects.next().flatten(),
            knobs: effects.collect(),
            adjusted_r_squared: model.adjusted_r_squared,
            significant_t: model.t(1.0 - SIGNIFICANCE),
        }
    }

    /// Whether this effect is there beyond doubt.
    pub fn is_significant(&self, effect: Effect) -> bool {
        self.significant_t.is_some_and(|limit| effect.t().abs() >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Knob;

    #[test]
    fn what_matters_is_found_with_its_size() {
        let knobs = ["a=0..100", "b=0..100", "c=3..3"].map(|text| Knob::parse(text).expect("a knob"));
        let space = Space::new(knobs.to_vec()).expect("a space");
        // What b does is nothing; the rest is a saw that neither explains.
        let measured: Vec<(Setting, Option<f64>)> = (0..200)
            .map(|at| {
                let (a, b) = (at * 37 % 101, at * 53 % 97);
                (vec![a, b, 3], (at != 5).then_some(10.0 + 0.9 * a as f64 + (at % 3 - 1) as f64))
            })
            .collect();
        let effects = Effects::of(&space, &measured);
        let [a, b, c] = effects.knobs[..] else { panic!("three knobs") };
        let (a, b) = (a.expect("it changes"), b.expect("it changes"));
        assert!((a.coefficient - 0.9).abs() < 0.01 && effects.is_significant(a), "{a:?}");
        assert!(b.coefficient.abs() < 0.01 && !effects.is_significant(b), "{b:?}");
        assert_eq!(c, None, "it never changed");
        assert!(effects.adjusted_r_squared.expect("enough points") > 0.99);
        let none = Effects::of(&space, &[(vec![1, 2, 3], None)]);
        assert_eq!((none.adjusted_r_squared, none.significant_t), (None, None));
    }
}
