//! What programs and a probe have done to each other, and what follows for two programs that have never met.
//!
//! A probe is a neighbour with known behaviour. What a program feels of it, and how much it feels of the program, tell a pair that was never
//! seen (after Mars, Tang, Hundt, Skadron and Soffa, "Bubble-Up", MICRO 2011): the logarithm of the one times that of the other, by the
//! logarithm of what two probes do to each other.

use super::posterior::Normal;
use super::told::{Basis, Prior};
use serde::{Deserialize, Serialize};

/// Meetings with a probe that are kept of a program, and of a probe with another one. A program that has had so many is known.
pub const MEETINGS_MAX: usize = 24;
/// A program that met a probe so often has had its chances.
const TRIES_MAX: u32 = 4 * MEETINGS_MAX as u32;
/// So long all meetings may have a program stand still, together. Seconds.
pub const STILL_S_MAX: f64 = 1.0;
/// With fewer, nothing is said.
const MEETINGS_MIN: usize = 8;
/// A median of measurements is surer than that by luck only. Natural logarithm.
const SPREAD_MIN: f64 = 0.005;
/// Standard deviations beyond which there is an effect (95 %, one side).
const EFFECT: f64 = 1.645;

/// What came out of a meeting of a program with a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Met {
    /// By which factor the probe was slower beside it, if that was measured.
    pub presses: Option<f64>,
    /// By which factor the program was slower beside the probe, if that was.
    pub feels: Option<f64>,
    /// For how long the program stood still for it. Seconds.
    pub still_s: f64,
}

/// All meetings of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probed {
    presses: Vec<f64>,
    feels: Vec<f64>,
    still_s: f64,
    tries: u32,
}

/// A factor with its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor {
    /// The median.
    pub slowdown: f64,
    /// The truth lies from here,
    pub low: f64,
    /// to here, with 90 %.
    pub high: f64,
}

impl Probed {
    pub(super) fn add(&mut self, met: &Met) {
        let put = |list: &mut Vec<f64>, factor: Option<f64>| {
            let factor = factor.filter(|factor| (0.05..=100.0).contains(factor));
            factor.filter(|_| list.len() < MEETINGS_MAX).into_iter().for_each(|factor| list.push(factor));
        };
        put(&mut self.presses, met.presses);
        put(&mut self.feels, met.feels);
        self.still_s += met.still_s.max(0.0);
        self.tries += 1;
    }

    /// By which factor a probe is slower beside the program.
    pub fn presses(&self) -> Option<Factor> {
        of(&self.presses).map(Factor::of)
    }

    /// By which factor the program is slower beside a probe.
    pub fn feels(&self) -> Option<Factor> {
        of(&self.feels).map(Factor::of)
    }

    /// Meetings in which it was measured how much the program presses.
    pub fn meetings(&self) -> usize {
        self.presses.len()
    }

    /// For how long the program stood still for that. Seconds.
    pub fn still_s(&self) -> f64 {
        self.still_s
    }

    /// Whether no meeting is wanted any more.
    pub fn is_done(&self) -> bool {
        self.presses.len() >= MEETINGS_MAX || self.still_s >= STILL_S_MAX || self.tries >= TRIES_MAX
    }
}

impl Factor {
    fn of(normal: Normal) -> Factor {
        let reach = EFFECT * normal.deviation;
        let [slowdown, low, high] =
            [normal.middle, normal.middle - reach, normal.middle + reach].map(f64::exp);
        Factor { slowdown, low, high }
    }
}

/// What two probes do to each other.
pub(super) fn itself(slowdowns: &[f64]) -> Option<Factor> {
    of(slowdowns).map(Factor::of)
}

/// What is to be said of a program beside a neighbour, if both have met a probe often enough, and two probes each other. Where two probes do
/// nothing to each other that can be measured, nor the one to the program, nor the neighbour to the other, nothing is what follows.
pub(super) fn foretold(program: &Probed, neighbour: &Probed, itself: &[f64]) -> Option<Prior> {
    let (feels, presses, both) = (of(&program.feels)?, of(&neighbour.presses)?, of(itself)?);
    let is_effect = |known: &Normal| known.middle > EFFECT * known.deviation;
    let prior =
        |logarithm: f64, spread: f64| Prior { slowdown: logarithm.exp(), basis: Basis::Probe, spread };
    if !is_effect(&both) {
        let is_nothing = !is_effect(&feels) && !is_effect(&presses);
        return is_nothing.then(|| prior(0.0, feels.deviation.hypot(presses.deviation)));
    }
    // Faster beside somebody is luck.
    let [felt, pressed] = [feels, presses].map(|known| known.middle.max(0.0));
    let parts = [
        pressed / both.middle * feels.deviation,
        felt / both.middle * presses.deviation,
        felt * pressed / both.middle.powi(2) * both.deviation,
        // Where both parts are nothing, their errors are not.
        feels.deviation * presses.deviation / both.middle,
    ];
    let spread = parts.iter().map(|part| part * part).sum::<f64>().sqrt();
    Some(prior(felt * pressed / both.middle, spread))
}

/// The median of logarithms, and the standard deviation of that; none of few.
fn of(factors: &[f64]) -> Option<Normal> {
    if factors.len() < MEETINGS_MIN {
        return None;
    }
    let mut logarithms: Vec<f64> = factors.iter().map(|factor| factor.ln()).collect();
    let middle = median(&mut logarithms);
    let mut off: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - middle).abs()).collect();
    // For normal values 1.4826 times the median deviation is the standard deviation, and a median is 1.2533 times as uncertain as a mean.
    let deviation = 1.4826 * 1.2533 * median(&mut off) / (factors.len() as f64).sqrt();
    Some(Normal { middle, deviation: deviation.max(SPREAD_MIN) })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}
