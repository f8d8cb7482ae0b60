//! What is fitted: a model, the parameters that are known, and what the others contribute to a time.

use super::Sample;
use crate::parameters::split_outside_parentheses;
use crate::{Model, ModelError};

/// Why a model cannot be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// The text that says what to fit is wrong.
    #[error(transparent)]
    Template(#[from] ModelError),
    /// The model is not linear in its parameters.
    #[error("{model} is not linear in its parameters, so that it cannot be fitted; {LINEAR} can")]
    NotLinear {
        /// The model's name.
        model: &'static str,
    },
    /// Every parameter is given.
    #[error("{model}: nothing to fit, since all of its parameters are given; leave one out")]
    NothingToFit {
        /// The model's name.
        model: &'static str,
    },
    /// There are no measurements.
    #[error("there are no measurements to fit {model} to")]
    NoSamples {
        /// The model's name.
        model: &'static str,
    },
    /// A parameter that has no sensible default cannot be told apart from the others.
    #[error(
        "these measurements don't tell {key} apart from the other parameters of {model}: measure with different numbers \
         of messages, or give it as in `{model}:{key}=380ns`"
    )]
    Indistinct {
        /// The model's name.
        model: &'static str,
        /// The parameter.
        key: &'static str,
    },
    /// Only PLB's α's can be tables.
    #[error("{model} has no parameters that depend on the size of the messages; only plb has")]
    NotBySize {
        /// The model's name.
        model: &'static str,
    },
}

const LINEAR: &str = "bsp, lb, logp, loggp, loggps, loggops and plb";

/// Which model to fit, and which of its parameters are known: `plb`, `plb:beta=0ns`, `loggp:o=500ns`.
#[derive(Clone, Debug)]
pub struct Template {
    model: Model,
    given: Vec<(String, String)>,
}

impl Template {
    /// Reads a model's name and, as [`Model::parse`] does, parameters that are known.
    ///
    /// # Errors
    ///
    /// Those of [`Model::parse`]; a model that is not linear; nothing left to fit.
    pub fn parse(text: &str) -> Result<Template, FitError> {
        let model = Model::parse(text)?;
        let list = text.split_once(':').map_or("", |(_, list)| list);
        let items = split_outside_parentheses(list).into_iter();
        let given: Vec<(String, String)> = items
            .filter_map(|item| item.split_once('='))
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .collect();
        let template = Template { model, given };
        let name = template.model.name();
        let unknowns = unknowns(name).ok_or(FitError::NotLinear { model: name })?;
        if unknowns.iter().all(|unknown| template.is_given(unknown.key)) {
            return Err(FitError::NothingToFit { model: name });
        }
        Ok(template)
    }

    pub(super) fn is_given(&self, key: &str) -> bool {
        self.given(key).is_some()
    }

    /// The model's name.
    pub(super) fn name(&self) -> &'static str {
        self.model.name()
    }

    /// The text of a parameter that is given.
    pub(super) fn given(&self, key: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| given == key).map(|(_, value)| value.as_str())
    }

    /// The text of a parameter's default.
    pub(super) fn default_of(&self, key: &str) -> String {
        let printed = Model::parse(self.name()).expect("a name is a model").to_string();
        let list = printed.split_once(':').expect("a printed model has parameters").1;
        let mut items = split_outside_parentheses(list).into_iter().filter_map(|item| item.split_once('='));
        items.find(|(name, _)| *name == key).expect("an unknown is a parameter").1.to_owned()
    }

    /// The model with these values for what was not given.
    pub(super) fn with(&self, values: impl IntoIterator<Item = (&'static str, String)>) -> Model {
        let fitted = values.into_iter().map(|(key, value)| format!("{key}={value}"));
        let given = self.given.iter().map(|(key, value)| format!("{key}={value}"));
        let list: Vec<String> = given.chain(fitted).collect();
        Model::parse(&format!("{}:{}", self.model.name(), list.join(",")))
            .expect("given parameters were read before, and fitted ones are printed from numbers")
    }
}

/// A parameter that least squares can find.
pub(super) struct Unknown {
    pub(super) key: &'static str,
    /// Its coefficient for m messages of n bytes.
    coefficient: fn(m: f64, n: f64) -> f64,
    pub(super) quantity: Quantity,
    pub(super) otherwise: Otherwise,
}

impl Unknown {
    /// Its coefficient for a point.
    pub(super) fn at(&self, point: &Sample) -> f64 {
        (self.coefficient)(point.messages as f64, point.bytes as f64)
    }
}

/// What becomes of a parameter that the measurements don't tell apart from those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// It stays at the model's default.
    Default,
    /// It is 0.
    Zero,
    /// Nothing can be said.
    Refused,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time.
    Time,
    /// A time for each byte.
    PerByte,
}

/// In the order in which they are preferred if the measurements don't tell them apart.
pub(super) fn unknowns(model: &str) -> Option<Vec<Unknown>> {
    use Quantity::{PerByte, Time};
    let unknown = |key, coefficient, quantity, otherwise| Unknown { key, coefficient, quantity, otherwise };
    let time = |key, coefficient| unknown(key, coefficient, Time, Otherwise::Refused);
    let or_default = |key, coefficient| unknown(key, coefficient, Time, Otherwise::Default);
    let per_byte = |key, coefficient| unknown(key, coefficient, PerByte, Otherwise::Zero);
    Some(match model {
        "plb" => vec![time("alpha_p", |_, _| 1.0), time("alpha_r", |m, _| m), per_byte("beta", |_, n| n)],
        "lb" => vec![time("alpha", |m, _| m), per_byte("beta", |m, n| m * n)],
        "logp" => vec![time("L", |_, _| 1.0), or_default("o", |_, _| 2.0), or_default("g", |m, _| m - 1.0)],
        "loggp" | "loggps" | "loggops" => vec![
            time("L", |_, _| 1.0),
            or_default("o", |_, _| 2.0),
            or_default("g", |m, _| m - 1.0),
            per_byte("G", |m, n| m * (n - 1.0)),
        ],
        "bsp" => vec![time("l", |_, _| 1.0), time("g", |m, _| m), per_byte("G", |m, n| m * n)],
        _ => return None,
    })
}
