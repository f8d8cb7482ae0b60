//! Constants from all pairs that were seen.

use super::posterior::Normal;
use super::program::Program;
use super::told::{ANYTHING, Basis, Prior};
use super::traits::Traits;
use crate::scn::median;
use crate::{Class, Pair, Profile, Scn};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// An observation, with what could have been said without others of the same pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seen {
    pub(super) program: String,
    pub(super) neighbour: String,
    pub(super) slowdown: f64,
    pub(super) priors: Vec<Prior>,
}

/// What follows from a window of observations.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) scn: Option<Scn>,
    pub(super) traits: Traits,
    pub(super) median: Option<f64>,
    /// Standard deviation of an observation around its pair's mean. Natural logarithm.
    pub(super) noise: f64,
    /// Standard deviation of the truth around what is said without having seen the pair, basis by basis. Natural logarithm; of probes and
    /// profiles by how much they foretell.
    doubts: [f64; 5],
}

/// With fewer observations there are no constants.
const PAIRS_MIN: usize = 8;
/// Until enough was seen, so much noise and doubt are taken to be there, as if they had been seen so often.
const NOISE: (f64, f64) = (0.1, 4.0);
const DOUBT: (f64, f64) = (0.3, 3.0);
/// Less noise than that is luck.
const NOISE_MIN: f64 = 0.005;
/// Truths differ from what classes say by more than that.
const DOUBT_MIN: f64 = 0.02;
/// What a probe or profiles foretell is off by a part of itself: half, on a simulated chip, beside so much that is off anyhow. Natural
/// logarithms.
const PART_DOUBT: f64 = 0.5;
const PART_OFF: f64 = 0.1;
/// No pair is predicted to cost more because of its classes.
const FACTOR_MAX: f64 = 20.0;
/// Bandwidths of the link that are tried, in steps of a tenth.
const LINKS: i32 = 32;

impl Default for Fit {
    fn default() -> Fit {
        Fit {
            scn: None,
            traits: Traits::default(),
            median: None,
            noise: NOISE.0,
            doubts: Basis::ALL.map(first),
        }
    }
}

impl Fit {
    pub(super) fn of(window: &VecDeque<Seen>, programs: &BTreeMap<String, Program>) -> Fit {
        let mut indices: HashMap<&str, usize> = HashMap::new();
        let mut profiles = Vec::new();
        for (id, program) in programs {
            if let Some(profile) = program.profile(id) {
                indices.insert(id, profiles.len());
                profiles.push(profile);
            }
        }
        let pair = |seen: &Seen| {
            let [program, neighbour] =
                [&seen.program, &seen.neighbour].map(|id| indices.get(id.as_str()).copied());
            Some(Pair { program: program?, neighbour: neighbour?, slowdown: seen.slowdown })
        };
        let pairs: Vec<Pair> = window.iter().filter_map(pair).collect();
        let all: Vec<Pair> =
            window.iter().map(|seen| Pair { program: 0, neighbour: 0, slowdown: seen.slowdown }).collect();
        let noise = noise(window);
        let doubts = Basis::ALL.map(|basis| doubt(window, basis, noise));
        Fit { scn: scn(&profiles, &pairs), traits: Traits::of(window), median: median(&all), noise, doubts }
    }

    /// The one that lay nearest to the truth so far; of equal ones the first.
    pub(super) fn best(&self, priors: &[Prior]) -> Option<Prior> {
        let doubt = |prior: &&Prior| self.normal(Some(**prior)).deviation;
        priors.iter().min_by(|one, other| doubt(one).total_cmp(&doubt(other))).copied()
    }

    /// What a prior says, and how far the truth may lie from that.
    pub(super) fn normal(&self, prior: Option<Prior>) -> Normal {
        prior.map_or(ANYTHING, |prior| Normal {
            middle: prior.slowdown.ln(),
            deviation: (self.doubts[prior.basis as usize] * scale(&prior)).hypot(prior.spread),
        })
    }

    /// What classes say.
    pub(super) fn by_class(&self, program: &Profile, neighbour: &Profile) -> Option<f64> {
        let factor = self.scn?.predict(program, neighbour).ok()?;
        factor.is_finite().then(|| factor.clamp(1.0, FACTOR_MAX))
    }
}

/// Until enough was seen.
fn first(basis: Basis) -> f64 {
    if is_off_by_a_part(basis) { PART_DOUBT } else { DOUBT.0 }
}

fn is_off_by_a_part(basis: Basis) -> bool {
    matches!(basis, Basis::Probe | Basis::Profiles)
}

/// Of what a prior is off by a part.
fn scale(prior: &Prior) -> f64 {
    if is_off_by_a_part(prior.basis) { prior.slowdown.ln().hypot(PART_OFF) } else { 1.0 }
}

fn scn(profiles: &[Profile], pairs: &[Pair]) -> Option<Scn> {
    if pairs.len() < PAIRS_MIN {
        return None;
    }
    Scn::train(profiles, pairs, link(profiles, pairs)).ok()
}

/// What the memory link carries: the bandwidth with which the formula for two streams errs least. Without two streams, so much that
/// they do not slow each other, as far as anybody knows.
fn link(profiles: &[Profile], pairs: &[Pair]) -> f64 {
    let taken = |at: usize| profiles[at].readings.as_ref().map_or(0.0, crate::Readings::into_llc);
    let streams = pairs
        .iter()
        .filter(|pair| [pair.program, pair.neighbour].iter().all(|at| profiles[*at].class == Class::S));
    let both: Vec<(f64, f64)> =
        streams.map(|pair| (taken(pair.program) + taken(pair.neighbour), pair.slowdown)).collect();
    let most = both.iter().map(|pair| pair.0).fold(0.0, f64::max);
    if most <= 0.0 {
        return f64::MAX;
    }
    let misfit = |link: &f64| -> f64 {
        both.iter().map(|(sum, slowdown)| ((sum / link).max(1.0) / slowdown - 1.0).powi(2)).sum()
    };
    let tried = (0..=LINKS).map(|step| most * 1.1f64.powi(-step));
    tried.min_by(|one, other| misfit(one).total_cmp(&misfit(other))).unwrap_or(f64::MAX)
}

/// Of pairs that were seen several times: how far apart the observations of one are.
fn noise(window: &VecDeque<Seen>) -> f64 {
    let mut by_pair: HashMap<(&str, &str), (f64, f64, f64)> = HashMap::new();
    for seen in window {
        let sums = by_pair.entry((&seen.program, &seen.neighbour)).or_default();
        let value = seen.slowdown.ln();
        *sums = (sums.0 + 1.0, sums.1 + value, sums.2 + value * value);
    }
    // In an order that is always the same: sums of fractions depend on it.
    let mut keys: Vec<_> = by_pair.keys().copied().collect();
    keys.sort_unstable();
    let (mut squares, mut freedom) = (NOISE.0 * NOISE.0 * NOISE.1, NOISE.1);
    for key in keys {
        let (count, once, twice) = by_pair[&key];
        squares += (twice - once * once / count).max(0.0);
        freedom += count - 1.0;
    }
    (squares / freedom).sqrt().max(NOISE_MIN)
}

/// How far what was said beforehand, without observations of the pair, lay from what was observed then; without the noise in that.
fn doubt(window: &VecDeque<Seen>, basis: Basis, noise: f64) -> f64 {
    let (mut squares, mut count) = (first(basis).powi(2) * DOUBT.1, DOUBT.1);
    for seen in window {
        if let Some(prior) = seen.priors.iter().find(|prior| prior.basis == basis) {
            let known = noise * noise + prior.spread * prior.spread;
            let off = ((seen.slowdown / prior.slowdown).ln().powi(2) - known).max(0.0);
            squares += off / scale(prior).powi(2);
            count += 1.0;
        }
    }
    (squares / count).sqrt().max(DOUBT_MIN)
}
