//! The least average slowdown on nodes of two slots.
//!
//! The transportation problem of the programs gives pairs that are right but for odd circles, and potentials that prove it. The
//! blossom algorithm goes on from there, job by job, so that few trees are left to grow. Of more jobs than [`VERTICES_MAX`] only
//! some of each pair are given to it, and the transportation problem says how far from the optimum that can be.

use super::dual::Cost;
use super::place::{Group, Nodes, Placement, Proof};
use super::{Error, Jobs, Slowdowns, blossom, transport};
use std::collections::BTreeMap;

/// Jobs that are matched one by one, at most.
const VERTICES_MAX: u64 = 3_000;
/// Programs, at most: the time grows with their number to the power of three.
const PROGRAMS_MAX: usize = 3_000;
/// Steps of a cost in a factor of 1: four times a millionth, so that halves of halves are whole.
pub(super) const STEPS: f64 = 4_000_000.0;

/// What two jobs suffer together, more than alone; the number of programs stands for an empty slot.
pub(super) fn pair_cost(slowdowns: &Slowdowns, slowdown_max: f64, one: usize, other: usize) -> Cost {
    let programs = slowdowns.names().len();
    if one == programs || other == programs {
        return Cost::Of(0);
    }
    let (mine, theirs) = (slowdowns.of(one, other), slowdowns.of(other, one));
    if mine > slowdown_max || theirs > slowdown_max {
        return Cost::Never;
    }
    Cost::Of(4 * ((mine + theirs - 2.0) * (STEPS / 4.0)).round() as i64)
}

/// The best pairs.
pub(super) fn pairs(
    jobs: &Jobs,
    nodes: Nodes,
    slowdowns: &Slowdowns,
    slowdown_max: f64,
) -> Result<Placement, Error> {
    let programs = jobs.programs().len();
    if programs > PROGRAMS_MAX {
        return Err(Error::TooLarge {
            what: "the optimum",
            limit: format!("{PROGRAMS_MAX} programs"),
            instead: "take the rule twins, or place them in parts",
        });
    }
    // More nodes than jobs leave the rest empty.
    let nodes = Nodes { nodes: nodes.nodes.min(jobs.total()), ..nodes };
    solve(jobs, nodes, slowdowns, slowdown_max)
        .ok_or_else(|| infeasible(jobs, nodes, slowdowns, slowdown_max))
}

fn solve(jobs: &Jobs, nodes: Nodes, slowdowns: &Slowdowns, slowdown_max: f64) -> Option<Placement> {
    let table = Table::new(slowdowns, slowdown_max);
    let cost = |one: usize, other: usize| table.of(one, other);
    let mut instances: Vec<u64> =
        jobs.programs().iter().map(|program| u64::from(program.instances)).collect();
    instances.push(2 * nodes.nodes - jobs.total());
    let fractional = transport::solve(&instances, &cost)?;
    let mut pairs = whole_pairs(&instances, &fractional.flow);
    let (kept, mates, list) = few_jobs(&instances, &mut pairs);
    let potentials = list.iter().map(|&program| fractional.potentials[program]).collect();
    let of_jobs = |one: usize, other: usize| cost(list[one], list[other]);
    let (mates, least) = blossom::match_all(list.len(), &of_jobs, potentials, mates)?;
    for (one, &other) in mates.iter().enumerate().filter(|(one, other)| one < other) {
        *pairs.entry((list[one].min(list[other]), list[one].max(list[other]))).or_insert(0) += 1;
    }
    let value: i128 = pairs
        .iter()
        .map(|(&(one, other), &of)| match cost(one, other) {
            Cost::Of(cost) => i128::from(cost) * i128::from(of),
            Cost::Never => unreachable!("no such pair was made"),
        })
        .sum();
    assert!(kept > 0 || value == least, "a matching costs what its proof says");
    let is_proved = kept == 0 || 2 * value == fractional.total;
    let average = 1.0 + fractional.total as f64 / 2.0 / STEPS / jobs.total().max(1) as f64;
    let empty = jobs.programs().len();
    let groups = pairs.into_iter().filter(|(_, of)| *of > 0).map(|((one, other), nodes)| Group {
        programs: [one, other].into_iter().filter(|&program| program != empty).collect(),
        nodes,
    });
    let mut groups: Vec<Group> = groups.filter(|group| !group.programs.is_empty()).collect();
    groups.sort();
    Some(Placement { groups, proof: if is_proved { Proof::Optimum } else { Proof::AtLeast(average) } })
}

/// All costs, looked up: they are asked for again and again.
struct Table {
    costs: Vec<Cost>,
    width: usize,
}

impl Table {
    fn new(slowdowns: &Slowdowns, slowdown_max: f64) -> Table {
        let width = slowdowns.names().len() + 1;
        let all = (0..width).flat_map(|one| (0..width).map(move |other| (one, other)));
        let costs = all.map(|(one, other)| pair_cost(slowdowns, slowdown_max, one, other));
        Table { costs: costs.collect(), width }
    }

    #[inline]
    fn of(&self, one: usize, other: usize) -> Cost {
        self.costs[one * self.width + other]
    }
}

/// Whole pairs of what flows both ways.
fn whole_pairs(instances: &[u64], flow: &[u64]) -> BTreeMap<(usize, usize), u64> {
    let programs = instances.len();
    let mut pairs = BTreeMap::new();
    for one in 0..programs {
        for other in one..programs {
            let both = match one == other {
                true => flow[one * programs + one],
                false => flow[one * programs + other] + flow[other * programs + one],
            };
            if both / 2 > 0 {
                pairs.insert((one, other), both / 2);
            }
        }
    }
    pairs
}

/// The jobs that are matched one by one: those without a partner, and of each pair as many as there is room for; how many pairs are
/// kept as they are, who is with whom so far, and the program of each.
fn few_jobs(instances: &[u64], pairs: &mut BTreeMap<(usize, usize), u64>) -> (u64, Vec<usize>, Vec<usize>) {
    let mut left = instances.to_vec();
    for (&(one, other), &of) in pairs.iter() {
        left[one] -= of;
        left[other] -= of;
    }
    let alone: u64 = left.iter().sum();
    let fits = |most: u64| alone + 2 * pairs.values().map(|&of| of.min(most)).sum::<u64>() <= VERTICES_MAX;
    let most = (0..=VERTICES_MAX).rev().find(|&most| fits(most)).unwrap_or(0);
    let (mut mates, mut list) = (Vec::new(), Vec::new());
    for (&(one, other), of) in pairs.iter_mut() {
        for _ in 0..(*of).min(most) {
            mates.extend([list.len() + 1, list.len()]);
            list.extend([one, other]);
        }
        *of -= (*of).min(most);
    }
    for (program, &of) in left.iter().enumerate() {
        list.extend(std::iter::repeat_n(program, of as usize));
    }
    mates.resize(list.len(), usize::MAX);
    (pairs.values().sum(), mates, list)
}

/// Says how many nodes would be enough.
fn infeasible(jobs: &Jobs, nodes: Nodes, slowdowns: &Slowdowns, slowdown_max: f64) -> Error {
    let (mut too_few, mut enough) = (nodes.nodes, jobs.total());
    while jobs.total() <= VERTICES_MAX && too_few + 1 < enough {
        let middle = too_few + (enough - too_few) / 2;
        let is_enough = solve(jobs, Nodes { nodes: middle, ..nodes }, slowdowns, slowdown_max).is_some();
        if is_enough { enough = middle } else { too_few = middle }
    }
    Error::TooSlow { slowdown_max, nodes: nodes.nodes, enough }
}
