//! What is said about a program and its neighbour.

use super::posterior::Normal;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a prediction comes from, where the pair itself was not seen, or hardly; what is better founded stands first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// From what each and a probe did to each other.
    Probe,
    /// From profiles of both that are kept: distances and bandwidths.
    Profiles,
    /// From how both did with others.
    Others,
    /// From both classes, with constants from all pairs that were seen.
    Classes,
    /// The median of all that was seen.
    Median,
}

impl Basis {
    /// All of them.
    pub const ALL: [Basis; 5] = [Basis::Probe, Basis::Profiles, Basis::Others, Basis::Classes, Basis::Median];
}

/// What would be said of a pair without observations of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// The slowdown.
    pub slowdown: f64,
    /// Where that comes from.
    pub basis: Basis,
    /// The standard deviation of what it was made of, where that was measured. Natural logarithm.
    #[serde(default)]
    pub spread: f64,
}

/// A prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// The most likely slowdown; 1 where nothing is known.
    pub slowdown: f64,
    /// The truth lies from here,
    pub low: f64,
    /// to here, with 90 %.
    pub high: f64,
    /// What would be said without observations of this pair.
    pub prior: Option<Prior>,
    /// Comparisons that had this pair in them.
    pub seen: usize,
}

/// From this ratio of the most to the least on, there is no answer.
const OPEN: f64 = 1.3;
/// Standard deviations within which 90 % lie.
pub(super) const LIMIT: f64 = 1.645;
/// Where nothing is known: between a tenth and ten times as much.
pub(super) const ANYTHING: Normal = Normal { middle: 0.0, deviation: std::f64::consts::LN_10 / LIMIT };

impl Told {
    pub(super) fn of(known: Normal, prior: Option<Prior>, seen: usize) -> Told {
        let Normal { middle, deviation } = known;
        let reach = LIMIT * deviation;
        Told {
            slowdown: middle.exp(),
            low: (middle - reach).exp(),
            high: (middle + reach).exp(),
            prior,
            seen,
        }
    }

    /// Nobody is beside it.
    pub(super) fn alone() -> Told {
        Told { slowdown: 1.0, low: 1.0, high: 1.0, prior: None, seen: 0 }
    }

    /// Beside both of two neighbours.
    pub fn and(self, other: Told) -> Told {
        let reach = |told: Told| told.high.ln() - told.slowdown.ln();
        let slowdown = self.slowdown * other.slowdown;
        let reach = reach(self).hypot(reach(other));
        Told {
            slowdown,
            low: slowdown * (-reach).exp(),
            high: slowdown * reach.exp(),
            prior: self.prior.zip(other.prior).map(|(one, other)| Prior {
                slowdown: one.slowdown * other.slowdown,
                basis: one.basis.max(other.basis),
                spread: one.spread.hypot(other.spread),
            }),
            seen: self.seen.min(other.seen),
        }
    }

    /// Where it comes from, as far as it does not from observations of this pair.
    pub fn basis(&self) -> Option<Basis> {
        self.prior.map(|prior| prior.basis)
    }

    /// Whether it follows from a probe or from profiles alone: the two were never seen beside each other.
    pub fn is_foretold(&self) -> bool {
        self.seen == 0 && matches!(self.basis(), Some(Basis::Probe | Basis::Profiles))
    }

    /// The most by the least that is possible.
    pub(super) fn openness(&self) -> f64 {
        self.high / self.low
    }

    /// Whether what is known leaves too much open for an answer.
    pub fn cannot_tell(&self) -> bool {
        self.openness() > OPEN
    }

    /// Whether there is an answer, and it is that there is no effect.
    pub fn is_no_effect(&self) -> bool {
        !self.cannot_tell() && self.low <= 1.0 && self.high >= 1.0
    }
}

impl fmt::Display for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = match self.seen {
            0 => "never seen together".to_owned(),
            1 => "seen once".to_owned(),
            count => format!("seen {count} times"),
        };
        let basis = match self.basis() {
            Some(Basis::Probe) => ", foretold by a probe",
            Some(Basis::Profiles) => ", from their profiles",
            Some(Basis::Others) => ", from how both did with others",
            Some(Basis::Classes) => ", from their classes",
            Some(Basis::Median) => ", from the median of all pairs",
            None => "",
        };
        if self.seen == 0 && self.prior.is_none() {
            return out.write_str("I can't tell: nothing was seen yet");
        }
        let (low, high) = (self.low, self.high);
        if self.cannot_tell() {
            return write!(out, "I can't tell: between {low:.2} and {high:.2} ({seen}{basis})");
        }
        if self.is_no_effect() {
            return write!(out, "no measurable effect: between {low:.2} and {high:.2} ({seen}{basis})");
        }
        write!(out, "{:.2} times as long, between {low:.2} and {high:.2} ({seen}{basis})", self.slowdown)
    }
}
