//! What is known of a program.

use super::posterior::Equation;
use super::probed::Probed;
use crate::class::class_of;
use crate::{Class, Estimate, Profile, Readings, Thresholds};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Comparisons that are kept of a program: the last ones.
pub const COMPARISONS_MAX: usize = 48;
/// Readings older than about so long count no more. Seconds of running.
const MEMORY_S: f64 = 600.0;

/// A program that was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// For people.
    pub name: String,
    /// When it was seen last. Seconds since 1970.
    pub seen_s: u64,
    /// What flows towards its cores, where that could be counted.
    flows: Option<Flows>,
    pub(super) compared: VecDeque<Equation>,
    /// What it and a probe did to each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) probed: Option<Probed>,
}

/// Bytes a second into L1, L2 and the last-level cache, while the program has processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flows {
    into: [f64; 3],
    cores: usize,
    /// For how long they were counted.
    seconds: f64,
    /// Whether nobody was beside it.
    is_alone: bool,
}

impl Program {
    /// What flows, where that could be counted.
    pub fn readings(&self) -> Option<Readings> {
        let [l1, l2, llc] = self.flows?.into;
        Readings::new(l1, l2, llc).ok()
    }

    /// Its class.
    pub fn class(&self) -> Option<Class> {
        let cores = self.flows?.cores;
        Some(class_of(&self.readings()?, &Thresholds::of_cores(cores)))
    }

    /// What predictors by class want to know.
    pub(super) fn profile(&self, id: &str) -> Option<Profile> {
        Some(Profile {
            name: id.to_owned(),
            class: self.class()?,
            readings: self.readings(),
            behaviour: None,
        })
    }

    /// The neighbours that it was compared with and without.
    pub fn neighbours(&self) -> BTreeSet<&str> {
        self.compared.iter().flat_map(Equation::terms).map(|(neighbour, _)| neighbour).collect()
    }

    /// What it and a probe did to each other, if they have met.
    pub fn probed(&self) -> Option<&Probed> {
        self.probed.as_ref()
    }

    /// The slowdowns that were seen when a neighbour came or went, and no other: the last one last.
    pub fn beside(&self, neighbour: &str) -> impl Iterator<Item = f64> {
        let alone = self.compared.iter().filter(|seen| seen.instead_of.is_none());
        alone.filter(move |seen| seen.neighbour == neighbour).map(|seen| seen.logarithm.exp())
    }

    /// Their median with limits (95 %), once there are enough for any.
    pub fn estimate(&self, neighbour: &str) -> Option<Estimate> {
        Estimate::of(&self.beside(neighbour).collect::<Vec<f64>>(), 1)
    }

    pub(super) fn rename(&mut self, name: &str) {
        if self.name != name {
            name.clone_into(&mut self.name);
        }
    }

    /// Time alone tells more than time with neighbours: the first of it puts aside what was read before.
    pub(super) fn read(&mut self, readings: &Readings, cores: usize, seconds: f64, is_alone: bool) {
        let new = Flows {
            into: [readings.into_l1(), readings.into_l2(), readings.into_llc()],
            cores: cores.max(1),
            seconds,
            is_alone,
        };
        match &mut self.flows {
            _ if seconds.is_nan() || seconds <= 0.0 => {}
            Some(old) if old.is_alone && !is_alone => {}
            Some(old) if old.is_alone == is_alone => {
                let part = seconds / (old.seconds.min(MEMORY_S) + seconds);
                for (old, new) in old.into.iter_mut().zip(new.into) {
                    *old += part * (new - *old);
                }
                (old.cores, old.seconds) = (new.cores, old.seconds + seconds);
            }
            flows => *flows = Some(new),
        }
    }

    pub(super) fn add(&mut self, equation: Equation) {
        self.compared.push_back(equation);
        if self.compared.len() > COMPARISONS_MAX {
            self.compared.pop_front();
        }
    }

    pub(super) fn forget(&mut self, neighbour: &str) {
        self.compared.retain(|seen| !seen.is_about(neighbour));
    }
}
