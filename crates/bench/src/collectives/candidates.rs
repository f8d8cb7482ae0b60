//! Which algorithms are tried for a call, and what the model says of each.

use crate::collectives::ours::{Candidate, Way};
use castell_base::Time;
use castell_collectives::collective::ALGORITHMS;
use castell_collectives::decision::{Choice, Operation};
use castell_collectives::language::{Fitted, Word};
use castell_collectives::search::{Order, Search, Weights, heuristic};
use castell_model::{ClosedForms, Plb};
use castell_sim::{Machine, Simulation};

/// Groups as large as that, in which everybody sends to everybody, are tried.
const FLAT_RANKS_MAX: u32 = 32;
/// From here on segments pay. Bytes.
const SEGMENTED_BYTES: u64 = 32 << 10;
/// Algorithms that send to `ways` ranks a round are tried with these.
const WAYS: [u32; 2] = [1, 3];

/// All candidates for a call; recursive doubling first where there is one.
pub fn candidates(operation: Operation, ranks: u32, bytes: u64, plb: Option<&Plb>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut add = |choice: Choice<'static>| {
        let candidate = Candidate { operation, bytes, choice, way: Way::Named };
        // Different names may stand for one word.
        let word = word(&candidate, ranks);
        let is_known =
            |other: &Candidate| *other == candidate || word.is_some() && self::word(other, ranks) == word;
        if !found.iter().any(is_known) && candidate.collective(ranks).is_ok() {
            found.push(candidate);
        }
    };
    let named = |name: &str| Choice::new(format!("{operation}:{name}"));
    add(named("recursive-doubling"));
    for algorithm in ALGORITHMS.iter().filter(|algorithm| {
        let of_operation = algorithm.name.split_once(':').map(|(operation, _)| operation);
        of_operation == Some(operation.name()) && algorithm.fits(ranks, true, true)
    }) {
        let segmented = ["chain", "segmented"].iter().any(|word| algorithm.name.ends_with(word));
        let has_ways =
            ["k-nomial", "bruck", "dissemination"].iter().any(|word| algorithm.name.ends_with(word));
        match () {
            () if segmented && bytes < SEGMENTED_BYTES => {}
            () if has_ways && operation != Operation::Alltoall => {
                for ways in WAYS.into_iter().filter(|&ways| ways < ranks) {
                    add(Choice { ways, ..Choice::new(algorithm.name) });
                }
            }
            () => add(Choice::new(algorithm.name)),
        }
    }
    match operation {
        Operation::Allreduce | Operation::Barrier => {
            if (2..=FLAT_RANKS_MAX).contains(&ranks) {
                add(named(&format!("a{ranks}")));
            }
            for word in plb.iter().flat_map(|plb| words_of_model(ranks, bytes, plb)) {
                add(named(&word.to_string()));
            }
            if operation == Operation::Allreduce {
                add(named("hierarchical"));
                if (2..=FLAT_RANKS_MAX).contains(&ranks) {
                    add(named("direct"));
                }
                add(named("rabenseifner"));
            }
        }
        Operation::ReduceScatter | Operation::Allgather if ranks.is_power_of_two() && ranks > 1 => {
            let letter = if operation == Operation::Allgather { 'g' } else { 'r' };
            add(named(&vec![format!("{letter}2"); ranks.ilog2() as usize].join(",")));
        }
        _ => {}
    }
    found
}

/// The best word, and the heuristic's.
fn words_of_model(ranks: u32, bytes: u64, plb: &Plb) -> [Word; 2] {
    let weights = Weights::new(plb.clone(), bytes);
    let quick = heuristic(ranks, weights.factor_max(ranks), &weights, Order::Sorted);
    [Search::new(ranks, weights).best(ranks), quick]
}

/// What the closed form says, for words.
pub fn predicted(candidate: &Candidate, ranks: u32, plb: &Plb) -> Option<Time> {
    let word = word(candidate, ranks)?;
    Some(Fitted::new(word, ranks).ok()?.cost(candidate.bytes).plb(plb))
}

/// The word that a name stands for, if it does.
fn word(candidate: &Candidate, ranks: u32) -> Option<Word> {
    let (operation, name) = candidate.choice.algorithm.split_once(':')?;
    if !["allreduce", "barrier"].contains(&operation) {
        return None;
    }
    match name {
        "recursive-doubling" => Some(Word::recursive_doubling(ranks)),
        "rabenseifner" => Some(Word::rabenseifner(ranks)),
        "direct" => Some(Word::direct(ranks)),
        "hierarchical" => Some(Word::hierarchical(ranks, candidate.choice.ways.saturating_add(1))),
        word => word.parse().ok(),
    }
}

/// What the simulator says under the model.
pub fn simulated(candidate: &Candidate, ranks: u32, plb: &Plb) -> anyhow::Result<Time> {
    let collective = candidate.collective(ranks)?.with_compute(compute(candidate, ranks, plb));
    let machine = Machine::new(castell_model::Model::Plb(plb.clone()));
    let pattern: &dyn castell_collectives::pattern::Pattern = &collective;
    Ok(Simulation::new(pattern, &machine).run()?.makespan())
}

/// What each reduction takes: of the whole vector; where parts are reduced, the mean over their number.
fn compute(candidate: &Candidate, ranks: u32, plb: &Plb) -> Time {
    let whole = plb.reduction(candidate.bytes);
    let others = u64::from(ranks.saturating_sub(1)).max(1);
    let name = candidate.choice.algorithm.as_ref();
    let reductions = match candidate.operation {
        Operation::Reduce | Operation::Allreduce | Operation::Scan | Operation::Exscan => match name {
            _ if name.ends_with(":ring") => others,
            _ if name.ends_with("rabenseifner") || name.contains(":r2") => u64::from(ranks.max(2).ilog2()),
            _ => 1,
        },
        Operation::ReduceScatter => 1,
        _ => return Time(0),
    };
    // Whole nanoseconds, as patterns compute.
    Time((whole.0 / reductions).next_multiple_of(1000))
}
