//! Parameters from measurements, by linear least squares.
//!
//! What is fitted is the time of a multicast, as the models' closed forms have it: m messages of n bytes, sent one after
//! the other to different ranks, until the last can be used.
//!
//! | model | time | unknowns |
//! |---|---|---|
//! | `plb` | α_p + m·α_r + n·β | `alpha_p`, `alpha_r`, `beta` |
//! | `lb` | m·α + m·n·β | `alpha`, `beta` |
//! | `logp` | L + 2·o + (m-1)·g | `L`, `o`, `g` |
//! | `loggp`, `loggps`, `loggops` | L + 2·o + (m-1)·g + m·(n-1)·G | `L`, `o`, `g`, `G` |
//! | `bsp` | l + m·g + m·n·G | `l`, `g`, `G` |
//!
//! (g and G of the LogP family are those that hold messages apart: the lines assume g ≥ o and G ≥ O.) An unknown that
//! the measurements don't tell apart from others is kept at its default, and said so. `lop` and `logfp` are not linear in
//! their parameters.
//!
//! Start at [`Template`], which says what is fitted, and [`fit()`].

mod by_size;
mod least_squares;
mod linear;
mod samples;
mod template;

pub use by_size::{FitBySize, fit_by_size, from_parameters};
pub use linear::LinearModel;
pub use samples::{Measurements, PlbParameters, Sample, TableError};
pub use template::{FitError, Quantity, Template};

use crate::statistics::{median, student_t};
use crate::{BySize, Model};
use castell_base::{PerByte, Time};
use least_squares::{Solution, solve};
use std::collections::BTreeMap;
use template::{Otherwise, Unknown, unknowns};

/// The level of the confidence intervals.
pub const CONFIDENCE: f64 = 0.95;

/// How many measurements of one point become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimator {
    /// The least: what the machine can do.
    #[default]
    Minimum,
    /// The median: what it does.
    Median,
    /// None: every measurement counts.
    All,
}

/// Which errors are made small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weighting {
    /// Those in time, so that long times count most.
    #[default]
    Absolute,
    /// Those in parts of the measured time.
    Relative,
}

/// How to fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What is fitted to.
    pub estimator: Estimator,
    /// Which errors count.
    pub weighting: Weighting,
}

/// A parameter's value from a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The parameter.
    pub key: &'static str,
    /// What it is.
    pub quantity: Quantity,
    /// In picoseconds, or picoseconds a byte.
    pub value_ps: f64,
    /// Standard error, in the same unit; infinite if there are as many parameters as points.
    pub standard_error_ps: f64,
    /// Half the width of the confidence interval at [`CONFIDENCE`].
    pub half_width_ps: f64,
}

impl Estimate {
    /// The value as it stands in a model; nothing if it is negative.
    fn text(&self) -> Option<String> {
        (self.value_ps >= 0.0).then(|| match self.quantity {
            Quantity::Time => Time::from_ps_f64(self.value_ps).to_string(),
            Quantity::PerByte => PerByte::from_ps_f64(self.value_ps).to_string(),
        })
    }
}

/// A parameter that was not fitted, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The parameter.
    pub key: &'static str,
    /// The value it has.
    pub value: String,
    /// Why.
    pub reason: &'static str,
}

/// A point beside the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// The point as it was measured.
    pub measured: Sample,
    /// What the fitted model says, in picoseconds.
    pub predicted_ps: f64,
}

impl Residual {
    /// Predicted less measured, as a part of the measured time; 0 if both are 0.
    pub fn relative_error(&self) -> f64 {
        let error = self.predicted_ps - self.measured.time_ps;
        if error == 0.0 { 0.0 } else { error / self.measured.time_ps }
    }
}

/// A fitted model and how good it is.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The model; nothing if a parameter came out negative, which no machine has.
    pub model: Option<Model>,
    /// What was found.
    pub estimates: Vec<Estimate>,
    /// What was not looked for.
    pub kept: Vec<Kept>,
    /// The points, by size and number of messages.
    pub residuals: Vec<Residual>,
    /// How many measurements they were made from.
    pub samples: usize,
    /// The part of the points' variance that the model explains; 1 is all.
    pub r_squared: f64,
    /// The root of the mean square of the residuals, per degree of freedom, in picoseconds.
    pub residual_deviation_ps: f64,
}

impl Fit {
    /// The parameters that came out negative, so that there is no model.
    pub fn negative(&self) -> impl Iterator<Item = &Estimate> {
        self.estimates.iter().filter(|estimate| estimate.value_ps < 0.0)
    }

    /// The point that the model is farthest from, relatively.
    pub fn worst(&self) -> Option<&Residual> {
        let error = |residual: &&Residual| residual.relative_error().abs();
        self.residuals.iter().max_by(|a, b| error(a).total_cmp(&error(b)))
    }
}

/// Finds the parameters of a template's model that were not given.
///
/// A parameter that comes out negative but whose confidence interval reaches 0 is kept at 0.
///
/// # Errors
///
/// Too few different points for the unknown parameters.
pub fn fit(template: &Template, samples: &[Sample], options: Options) -> Result<Fit, FitError> {
    let model = template.name();
    let unknowns = unknowns(model).ok_or(FitError::NotLinear { model })?;
    let points = points(samples, options.estimator);
    if points.is_empty() {
        return Err(FitError::NoSamples { model });
    }
    let mut kept: Vec<Kept> = Vec::new();
    loop {
        let is_kept = |unknown: &Unknown| kept.iter().any(|kept| kept.key == unknown.key);
        let is_sought = |unknown: &&Unknown| !template.is_given(unknown.key) && !is_kept(unknown);
        let sought: Vec<&Unknown> = unknowns.iter().filter(is_sought).collect();
        let known = Known::all(template, &unknowns, &kept);
        let solution = solve_points(&sought, &known, &points, options.weighting);
        if let Some(index) = solution.coefficients.iter().position(Option::is_none) {
            kept.push(keep(template, sought[index])?);
            continue;
        }
        let estimates = estimates(&sought, &solution);
        let insignificant = |estimate: &&Estimate| {
            estimate.value_ps < 0.0 && estimate.value_ps + estimate.half_width_ps >= 0.0
        };
        if let Some(estimate) = estimates.iter().find(insignificant) {
            let reason = "its confidence interval reaches 0";
            kept.push(Kept { key: estimate.key, value: "0ns".to_owned(), reason });
            continue;
        }
        let residual = |point: &Sample| {
            let found: f64 =
                sought.iter().zip(&estimates).map(|(unknown, e)| e.value_ps * unknown.at(point)).sum();
            Residual { measured: *point, predicted_ps: found + known_part(&known, point) }
        };
        let residuals = points.iter().map(residual).collect();
        return Ok(assess(template, estimates, kept, residuals, samples.len(), solution.degrees_of_freedom));
    }
}

/// One point a (bytes, messages), by rising bytes, or all samples.
fn points(samples: &[Sample], estimator: Estimator) -> Vec<Sample> {
    if estimator == Estimator::All {
        return samples.to_vec();
    }
    let mut groups: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    for sample in samples {
        groups.entry((sample.bytes, sample.messages)).or_default().push(sample.time_ps);
    }
    let point = |((bytes, messages), mut times): ((u64, u64), Vec<f64>)| {
        let time_ps = match estimator {
            Estimator::Median => median(&mut times).expect("a group has a sample"),
            _ => times.into_iter().fold(f64::INFINITY, f64::min),
        };
        Sample { bytes, messages, time_ps }
    };
    groups.into_iter().map(point).collect()
}

/// A parameter that is given or kept.
struct Known<'a> {
    unknown: &'a Unknown,
    value: KnownValue,
}

enum KnownValue {
    Time(BySize),
    PerByte(PerByte),
}

impl<'a> Known<'a> {
    fn all(template: &Template, unknowns: &'a [Unknown], kept: &[Kept]) -> Vec<Known<'a>> {
        let known = |unknown: &'a Unknown| {
            let kept = kept.iter().find(|kept| kept.key == unknown.key).map(|kept| kept.value.as_str());
            let text = template.given(unknown.key).or(kept)?;
            let value = match unknown.quantity {
                Quantity::Time => KnownValue::Time(BySize::parse(text).expect("it was read before")),
                Quantity::PerByte => KnownValue::PerByte(PerByte::parse(text).expect("it was read before")),
            };
            Some(Known { unknown, value })
        };
        unknowns.iter().filter_map(known).collect()
    }
}

/// What the known parameters contribute to a point, in picoseconds.
fn known_part(known: &[Known], point: &Sample) -> f64 {
    let part = |known: &Known| {
        let ps = match &known.value {
            KnownValue::Time(time) => time.of(point.bytes).0 as f64,
            KnownValue::PerByte(per_byte) => per_byte.as_ps_f64(),
        };
        ps * known.unknown.at(point)
    };
    known.iter().map(part).sum()
}

fn solve_points(sought: &[&Unknown], known: &[Known], points: &[Sample], weighting: Weighting) -> Solution {
    let weight = |point: &Sample| match weighting {
        Weighting::Relative if point.time_ps > 0.0 => 1.0 / point.time_ps,
        _ => 1.0,
    };
    let column = |unknown: &&Unknown| {
        points.iter().map(|point| weight(point) * unknown.at(point)).collect::<Vec<f64>>()
    };
    let columns: Vec<Vec<f64>> = sought.iter().map(column).collect();
    let value = |point: &Sample| weight(point) * (point.time_ps - known_part(known, point));
    solve(&columns, &points.iter().map(value).collect::<Vec<f64>>())
}

/// What becomes of a parameter that the points don't tell apart from those before it.
fn keep(template: &Template, unknown: &Unknown) -> Result<Kept, FitError> {
    let value = match unknown.otherwise {
        Otherwise::Refused => {
            return Err(FitError::Indistinct { model: template.name(), key: unknown.key });
        }
        Otherwise::Default => template.default_of(unknown.key),
        Otherwise::Zero => "0ns".to_owned(),
    };
    Ok(Kept { key: unknown.key, value, reason: "these measurements don't tell it apart from the others" })
}

fn estimates(sought: &[&Unknown], solution: &Solution) -> Vec<Estimate> {
    let t = match solution.degrees_of_freedom {
        0 => f64::INFINITY,
        freedom => student_t(CONFIDENCE, freedom as u64),
    };
    let found = solution.coefficients.iter().zip(&solution.standard_errors);
    let estimate = |(unknown, (value, error)): (&&Unknown, (&Option<f64>, &Option<f64>))| {
        let error = error.expect("no column is dependent");
        Estimate {
            key: unknown.key,
            quantity: unknown.quantity,
            value_ps: value.expect("no column is dependent"),
            standard_error_ps: error,
            half_width_ps: if error == 0.0 { 0.0 } else { error * t },
        }
    };
    sought.iter().zip(found).map(estimate).collect()
}

fn assess(
    template: &Template,
    estimates: Vec<Estimate>,
    kept: Vec<Kept>,
    residuals: Vec<Residual>,
    samples: usize,
    degrees_of_freedom: usize,
) -> Fit {
    let square = |value: f64| value * value;
    let count = residuals.len() as f64;
    let mean = residuals.iter().map(|residual| residual.measured.time_ps).sum::<f64>() / count;
    let total: f64 = residuals.iter().map(|residual| square(residual.measured.time_ps - mean)).sum();
    let left: f64 =
        residuals.iter().map(|residual| square(residual.predicted_ps - residual.measured.time_ps)).sum();
    let texts: Option<Vec<(&'static str, String)>> =
        estimates.iter().map(|estimate| Some((estimate.key, estimate.text()?))).collect();
    let kept_texts = kept.iter().map(|kept| (kept.key, kept.value.clone()));
    let model = texts.map(|texts| template.with(texts.into_iter().chain(kept_texts)));
    Fit {
        model,
        estimates,
        kept,
        residuals,
        samples,
        r_squared: if total > 0.0 { 1.0 - left / total } else { 1.0 },
        residual_deviation_ps: (left / degrees_of_freedom.max(1) as f64).sqrt(),
    }
}

#[cfg(test)]
mod tests;
