//! Where two strategies decide differently about the same scenario.

use crate::keeper::Happened;
use crate::node::{Decision, ResourceId};
use crate::simulate::Outcome;
use castell_base::Moment;
use std::collections::BTreeMap;

/// A decision and when it was made.
pub type Timed = (Moment, Decision);

/// What is different between two outcomes of one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Decisions that both make at the beginning, in the same order and at the same times.
    pub same: usize,
    /// The first decisions that differ; none where one has no more.
    pub first: Option<(Option<Timed>, Option<Timed>)>,
    /// By application, where all its steps ran under one and under the other: how many collections, the most first.
    pub places: Vec<Places>,
}

/// Collections of one application that ran in the same places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The application's place in the scenario.
    pub application: usize,
    /// Where their steps ran under the first strategy, one after another.
    pub one: Vec<ResourceId>,
    /// Under the second.
    pub other: Vec<ResourceId>,
    /// How many.
    pub collections: usize,
}

impl Difference {
    /// Compares two outcomes of one scenario.
    pub fn between(one: &Outcome, other: &Outcome) -> Difference {
        let (ones, others) = (decisions(one), decisions(other));
        let same = ones.iter().zip(&others).take_while(|(one, other)| one == other).count();
        let first = (same < ones.len().max(others.len()))
            .then(|| (ones.get(same).copied(), others.get(same).copied()));
        let (ones, others) = (places(one), places(other));
        let mut counts: BTreeMap<(usize, &[ResourceId], &[ResourceId]), usize> = BTreeMap::new();
        for (job, (one_ran, other_ran)) in one.jobs.iter().zip(ones.iter().zip(&others)) {
            *counts.entry((job.application, one_ran, other_ran)).or_default() += 1;
        }
        let mut places: Vec<_> = counts
            .into_iter()
            .map(|((application, one, other), collections)| Places {
                application,
                one: one.into(),
                other: other.into(),
                collections,
            })
            .collect();
        places.sort_by_key(|places| (places.application, std::cmp::Reverse(places.collections)));
        Difference { same, first, places }
    }

    /// Collections that ran elsewhere.
    pub fn elsewhere(&self) -> usize {
        self.places.iter().filter(|places| places.one != places.other).map(|places| places.collections).sum()
    }
}

fn decisions(outcome: &Outcome) -> Vec<Timed> {
    let decided = outcome.events.iter().filter_map(|event| match event.what {
        Happened::Decided(decision) => Some((event.at, decision)),
        _ => None,
    });
    decided.collect()
}

/// By job, where its steps ran.
fn places(outcome: &Outcome) -> Vec<Vec<ResourceId>> {
    let mut places = vec![Vec::new(); outcome.jobs.len()];
    for stretch in &outcome.stretches {
        places[stretch.job].push(stretch.resource);
    }
    places
}
