//! PLB's α's as tables over the size of the messages.

use super::{Fit, FitError, Options, PlbParameters, Sample, Template, fit};
use crate::{BySize, Model};
use castell_base::Time;
use std::collections::BTreeMap;

/// PLB fitted for each size of messages by itself, as in table 4.1 of "Larger-scale collectives" (2020).
#[derive(Clone, Debug)]
pub struct FitBySize {
    /// PLB whose α's are tables over the sizes; nothing if no size has a model.
    pub model: Option<Model>,
    /// The fit for each size, rising.
    pub sizes: Vec<(u64, Fit)>,
}

impl FitBySize {
    /// Sizes for which a parameter came out negative: they are not part of the model.
    pub fn left_out(&self) -> impl Iterator<Item = u64> {
        self.sizes.iter().filter(|(_, fit)| fit.model.is_none()).map(|(bytes, _)| *bytes)
    }
}

/// Fits PLB's α_p and α_r for each size of messages by itself; what it takes to send bytes is then part of α_r.
///
/// # Errors
///
/// Another model than PLB, or a size with too few different numbers of messages.
pub fn fit_by_size(template: &Template, samples: &[Sample], options: Options) -> Result<FitBySize, FitError> {
    if template.name() != "plb" {
        return Err(FitError::NotBySize { model: template.name() });
    }
    let mut by_size: BTreeMap<u64, Vec<Sample>> = BTreeMap::new();
    for sample in samples {
        by_size.entry(sample.bytes).or_default().push(*sample);
    }
    let fits = by_size.into_iter().map(|(bytes, samples)| Ok((bytes, fit(template, &samples, options)?)));
    let sizes: Vec<(u64, Fit)> = fits.collect::<Result<_, FitError>>()?;
    let entries = sizes.iter().filter_map(|(bytes, fit)| match &fit.model {
        Some(Model::Plb(plb)) => Some((*bytes, plb.alpha_p.of(*bytes), plb.alpha_r.of(*bytes))),
        _ => None,
    });
    let model = tables(template, entries.collect());
    Ok(FitBySize { model, sizes })
}

/// PLB with α's that were measured elsewhere, by size; and the sizes that are left out because an α is negative there.
///
/// # Errors
///
/// Another model than PLB.
pub fn from_parameters(
    template: &Template,
    rows: &[PlbParameters],
) -> Result<(Option<Model>, Vec<u64>), FitError> {
    if template.name() != "plb" {
        return Err(FitError::NotBySize { model: template.name() });
    }
    let (possible, impossible): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row.alpha_p_ps >= 0.0 && row.alpha_r_ps >= 0.0);
    let entry = |row: &PlbParameters| {
        (row.bytes, Time::from_ps_f64(row.alpha_p_ps), Time::from_ps_f64(row.alpha_r_ps))
    };
    let model = tables(template, possible.into_iter().map(entry).collect());
    Ok((model, impossible.into_iter().map(|row| row.bytes).collect()))
}

/// A constant if there is one size, a table otherwise; of a size that is there twice, the last is taken.
fn tables(template: &Template, entries: Vec<(u64, Time, Time)>) -> Option<Model> {
    let alpha = |of: fn(&(u64, Time, Time)) -> Time| {
        let table: BTreeMap<u64, Time> = entries.iter().map(|entry| (entry.0, of(entry))).collect();
        match table.len() {
            1 => table.into_values().next().map(BySize::from),
            _ => BySize::table(table.into_iter().collect()).ok(),
        }
    };
    let (alpha_p, alpha_r) = (alpha(|entry| entry.1)?, alpha(|entry| entry.2)?);
    let values =
        [("alpha_p", alpha_p.to_string()), ("alpha_r", alpha_r.to_string()), ("beta", "0ns".to_owned())];
    Some(template.with(values.into_iter().filter(|(key, _)| !template.is_given(key))))
}
