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
/// The same where most jobs were placed well already.
const TRIES_BEHIND_PARTS: usize = 4;
/// Exchanges that are tried, at most.
const TRIES_MAX: usize = 20_000_000;
/// With more jobs than this, a part with the same programs is placed, and taken as often as there is room for.
const WHOLE_MAX: u64 = 40_000;
/// About how many jobs such a part has.
const PART: u64 = 20_000;
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
    let (mut list, tries) = match jobs.total() {
        0..=WHOLE_MAX => (apart(jobs, nodes, seed)?, TRIES_A_JOB),
        _ => (of_parts(jobs, nodes, slowdowns, slowdown_max, seed)?, TRIES_BEHIND_PARTS),
    };
    exchange(&mut list, tries, slowdowns, slowdown_max, seed);
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

/// Twins apart, empty slots as one more program: where exchanges begin.
fn apart(jobs: &Jobs, nodes: Nodes, seed: u64) -> Result<Vec<Vec<usize>>, Error> {
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
    Ok(list)
}

/// Copies of a placement of a part of the jobs, and the others where there is room: a million jobs are few programs, so that few exchanges
/// are worth as much as many.
fn of_parts(
    jobs: &Jobs,
    nodes: Nodes,
    slowdowns: &Slowdowns,
    slowdown_max: f64,
    seed: u64,
) -> Result<Vec<Vec<usize>>, Error> {
    let empty = jobs.programs().len();
    let copies = jobs.total().div_ceil(PART);
    let of_part = Nodes { nodes: nodes.nodes.min(jobs.total()) / copies, ..nodes };
    let mut room = of_part.nodes * u64::from(nodes.per_node);
    let mut left: Vec<u64> = jobs.programs().iter().map(|program| u64::from(program.instances)).collect();
    let mut part = jobs.programs().to_vec();
    for (program, left) in part.iter_mut().zip(&mut left) {
        let taken = (*left / copies).min(room);
        room -= taken;
        *left -= taken * copies;
        program.instances = taken as u32;
    }
    // Programs without an instance are none: others have their numbers in the part.
    let numbers: Vec<usize> =
        (0..part.len()).filter(|&program| part[program].instances > 0).chain([empty]).collect();
    let mut placed =
        apart(&Jobs::new(part.into_iter().filter(|program| program.instances > 0))?, of_part, seed)?;
    placed.iter_mut().flatten().for_each(|program| *program = numbers[*program]);
    exchange(&mut placed, TRIES_A_JOB, slowdowns, slowdown_max, seed);
    let mut list = Vec::new();
    for _ in 0..copies {
        list.extend_from_slice(&placed);
    }
    let spare = nodes.nodes.min(jobs.total()).saturating_sub(list.len() as u64);
    list.extend(std::iter::repeat_n(vec![empty; nodes.per_node as usize], spare as usize));
    let mut rest =
        left.iter().enumerate().flat_map(|(program, of)| std::iter::repeat_n(program, *of as usize));
    let free = list.iter_mut().rev().flatten().filter(|slot| **slot == empty);
    for slot in free {
        let Some(program) = rest.next() else { break };
        *slot = program;
    }
    assert!(rest.next().is_none(), "there are slots for all jobs");
    Ok(list)
}

fn exchange(list: &mut [Vec<usize>], tries: usize, slowdowns: &Slowdowns, slowdown_max: f64, seed: u64) {
    let empty = slowdowns.names().len();
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
    for _ in 0..(list.len() * list[0].len() * tries).min(TRIES_MAX) {
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
