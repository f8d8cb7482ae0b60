//! More than two jobs on a node: improved step by step, with a bound for how good it can be at all.
//!
//! The best groups of three or more are hard to find (with three it is already a matching in three dimensions), so jobs are
//! exchanged between nodes as long as that helps. Each job meets as many others as there are further slots, so the transportation
//! problem with that many halves a job bounds the sum.

use super::optimum::{STEPS, pair_cost};
use super::place::{Nodes, Placement, Proof, below, place, slowdown_of};
use super::{Error, Jobs, Rule, Slowdowns, transport};
use castell_base::Rank;
use castell_base::random::Philox;

/// Exchanges that are tried for each job, as long as the total is not too large.
const TRIES_A_JOB: usize = 400;
/// Exchanges that are tried, at most.
const TRIES_MAX: usize = 20_000_000;
/// Programs for which the bound is calculated, at most.
const BOUND_PROGRAMS_MAX: usize = 1_000;

/// Groups of as many as a node has slots.
pub(super) fn groups(
    jobs: &Jobs,
    nodes: Nodes,
    slowdowns: &Slowdowns,
    slowdown_max: f64,
    seed: u64,
) -> Result<Placement, Error> {
    let empty = jobs.programs().len();
    let start = place(jobs, nodes, Rule::Twins, None, f64::INFINITY, seed)?;
    let slots = nodes.per_node as usize;
    let mut list: Vec<Vec<usize>> = Vec::new();
    for group in &start.groups {
        let mut programs = group.programs.clone();
        programs.resize(slots, empty);
        list.extend(std::iter::repeat_n(programs, group.nodes as usize));
    }
    // Nodes that stay empty otherwise may take jobs that are better alone.
    let spare = nodes.nodes.min(jobs.total()).saturating_sub(list.len() as u64);
    list.extend(std::iter::repeat_n(vec![empty; slots], spare as usize));
    exchange(&mut list, empty, slowdowns, slowdown_max, seed);
    list.iter_mut().for_each(|node| node.retain(|&program| program != empty));
    let is_too_slow =
        |node: &Vec<usize>| (0..node.len()).any(|at| slowdown_of(at, node, slowdowns) > slowdown_max);
    if list.iter().any(is_too_slow) {
        return Err(Error::TooSlow { slowdown_max, nodes: nodes.nodes, enough: jobs.total() });
    }
    let mut placement = Placement::of_nodes(list, Proof::None);
    placement.proof = bound(jobs, nodes, slowdowns, &placement);
    Ok(placement)
}

fn exchange(list: &mut [Vec<usize>], empty: usize, slowdowns: &Slowdowns, slowdown_max: f64, seed: u64) {
    let cost = |node: &[usize]| {
        let held: Vec<usize> = node.iter().copied().filter(|&program| program != empty).collect();
        let of = |at| {
            let slowdown: f64 = slowdown_of(at, &held, slowdowns);
            // Whatever is allowed is better than what is not.
            slowdown - 1.0 + if slowdown > slowdown_max { 1e9 + slowdown } else { 0.0 }
        };
        (0..held.len()).map(of).sum::<f64>()
    };
    let mut costs: Vec<f64> = list.iter().map(|node| cost(node)).collect();
    let mut random = Philox::new(seed, Rank(0), 2, 0);
    if list.len() < 2 {
        return;
    }
    for _ in 0..(list.len() * list[0].len() * TRIES_A_JOB).min(TRIES_MAX) {
        let (one, other) = (below(&mut random, list.len()), below(&mut random, list.len()));
        let (from, to) = (below(&mut random, list[one].len()), below(&mut random, list[other].len()));
        let (mine, theirs) = (list[one][from], list[other][to]);
        if one == other || mine == theirs {
            continue;
        }
        (list[one][from], list[other][to]) = (theirs, mine);
        let new = (cost(&list[one]), cost(&list[other]));
        if new.0 + new.1 < costs[one] + costs[other] - 1e-12 {
            (costs[one], costs[other]) = new;
        } else {
            (list[one][from], list[other][to]) = (mine, theirs);
        }
    }
}

fn bound(jobs: &Jobs, nodes: Nodes, slowdowns: &Slowdowns, placement: &Placement) -> Proof {
    if jobs.programs().len() > BOUND_PROGRAMS_MAX || jobs.total() == 0 {
        return Proof::None;
    }
    let others = u64::from(nodes.per_node.saturating_sub(1));
    let slots = nodes.nodes.min(jobs.total()) * u64::from(nodes.per_node);
    let mut halves: Vec<u64> =
        jobs.programs().iter().map(|program| u64::from(program.instances) * others).collect();
    halves.push((slots - jobs.total()) * others);
    let cost = |one: usize, other: usize| pair_cost(slowdowns, f64::INFINITY, one, other);
    let Some(solved) = transport::solve(&halves, &cost) else { return Proof::None };
    let least = 1.0 + solved.total as f64 / 2.0 / STEPS / jobs.total() as f64;
    // Costs are whole millionths.
    match placement.outcome(slowdowns).average - least < 1e-6 {
        true => Proof::Optimum,
        false => Proof::AtLeast(least),
    }
}
