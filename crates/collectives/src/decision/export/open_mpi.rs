//! Open MPI's file of dynamic rules (`coll_tuned_dynamic_rules_filename`), version 4.1.
//!
//! The file is a list of numbers. How many collectives; of each its number and how many sizes of groups; of each the size
//! and how many sizes of messages; of each the size, the algorithm's number (0: Open MPI's own choice), a fan-out and a
//! segment's size. A rule holds from its size on up to the next one. The size of a message is that of the whole buffer: of
//! all blocks where there are blocks.

use super::{Choice, Equivalent, Exported, Operation, algorithm, is_word_of};
use super::{all_bytes, followed, note, of_blocks, ranks_that_matter, sizes_that_matter, with_those_between};
use crate::decision::Decisions;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Open MPI's numbers of the collectives that we have rules for.
const COLLECTIVES: [(u32, &str, Operation); 12] = [
    (0, "allgather", Operation::Allgather),
    (2, "allreduce", Operation::Allreduce),
    (3, "alltoall", Operation::Alltoall),
    (6, "barrier", Operation::Barrier),
    (7, "bcast", Operation::Broadcast),
    (8, "exscan", Operation::Exscan),
    (9, "gather", Operation::Gather),
    (11, "reduce", Operation::Reduce),
    (12, "reduce_scatter", Operation::ReduceScatter),
    (13, "reduce_scatter_block", Operation::ReduceScatter),
    (14, "scan", Operation::Scan),
    (15, "scatter", Operation::Scatter),
];

/// The rules of these decisions as Open MPI's dynamic rules. What no rule says stays Open MPI's own choice.
pub fn open_mpi(decisions: &Decisions) -> Exported {
    let mut notes = BTreeSet::new();
    let mut blocks: Vec<String> = Vec::new();
    for (number, name, operation) in COLLECTIVES {
        let mut ranks = ranks_that_matter(&decisions.rules, operation);
        if ranks.is_empty() {
            continue;
        }
        if of_blocks(operation) && sizes_that_matter(&decisions.rules, operation).len() > 1 {
            ranks = with_those_between(ranks);
        }
        let mut block = format!("{number} # {name}\n{} # sizes of groups\n", ranks.len());
        for ranks in ranks {
            let sizes = sizes_that_matter(&decisions.rules, operation);
            let mut lines: Vec<(u64, [u64; 3])> = Vec::new();
            for bytes in sizes {
                let choice = followed(&decisions.rules, operation, ranks, bytes)
                    .and_then(|rule| decisions.follow(rule, &super::Question::new(operation, ranks, bytes)));
                let numbers = choice.map_or([0; 3], |choice| numbers(number, &choice, &mut notes));
                if lines.last().is_none_or(|(_, last)| *last != numbers) {
                    lines.push((all_bytes(operation, ranks, bytes), numbers));
                }
            }
            writeln!(block, "{ranks} {} # ranks, sizes of messages", lines.len()).expect("text");
            for (bytes, [algorithm, fan_out, segment]) in lines {
                writeln!(block, "{bytes} {algorithm} {fan_out} {segment}").expect("text");
            }
        }
        blocks.push(block);
    }
    let text = format!("{} # collectives; written by castell tune export\n{}", blocks.len(), blocks.concat());
    Exported { text, notes }
}

/// Algorithm, fan-out, segment's size.
fn numbers(collective: u32, choice: &Choice<'_>, notes: &mut BTreeSet<String>) -> [u64; 3] {
    let Some(found) = equivalent(collective, choice) else { return [0; 3] };
    let Equivalent { name: (number, name), exact } = found;
    if !exact {
        notes.insert(note("Open MPI", choice, name));
    }
    let is_segmented = ["pipeline", "binary_tree in segments"].contains(&name);
    let fan_out = if name == "knomial" { u64::from(choice.ways) + 1 } else { 0 };
    [number, fan_out, if is_segmented { choice.segment_bytes } else { 0 }]
}

fn equivalent(collective: u32, choice: &Choice<'_>) -> Option<Equivalent<(u64, &'static str)>> {
    let same = |number, name| Some(Equivalent::same((number, name)));
    let near = |number, name| Some(Equivalent::nearest((number, name)));
    let word = algorithm(choice);
    let splits = word.contains('r') && word.contains('g') && word.contains(',');
    match (collective, word) {
        (0, "linear") => same(1, "linear"),
        (0, "bruck") if choice.ways == 1 => same(2, "bruck"),
        (0, "bruck") => near(2, "bruck"),
        (0, "recursive-doubling") => same(3, "recursive_doubling"),
        (0, "ring") => same(4, "ring"),
        (0, _) => near(3, "recursive_doubling"),
        (2, "recursive-doubling") => same(3, "recursive_doubling"),
        (2, "reduce-bcast") => same(2, "nonoverlapping"),
        (2, "ring") => same(4, "ring"),
        (2, "rabenseifner") => same(6, "rabenseifner"),
        (2, "hierarchical") => near(2, "nonoverlapping"),
        (2, word) if is_word_of(word, &["a2"]) => same(3, "recursive_doubling"),
        (2, word) if is_word_of(word, &["r2", "g2"]) => same(6, "rabenseifner"),
        (2, word) if splits || word == "direct" => near(6, "rabenseifner"),
        (2, _) => near(3, "recursive_doubling"),
        (3, "linear") => same(1, "linear"),
        (3, "pairwise") => same(2, "pairwise"),
        (3, "bruck") => same(3, "modified_bruck"),
        (6, "linear") => same(1, "linear"),
        (6, "tree") => same(6, "tree"),
        (6, "dissemination") if choice.ways == 1 => same(4, "bruck"),
        (6, "dissemination") => near(4, "bruck"),
        (6, "recursive-doubling") => same(3, "recursive_doubling"),
        (6, word) if is_word_of(word, &["a2"]) => same(3, "recursive_doubling"),
        (6, _) => near(3, "recursive_doubling"),
        (7, "linear") => same(1, "basic_linear"),
        (7, "chain") => same(3, "pipeline"),
        (7, "binary") => same(5, "binary_tree"),
        (7, "binary-segmented") => same(5, "binary_tree in segments"),
        (7, "binomial") => same(6, "binomial"),
        (7, "binomial-in-order") => near(6, "binomial"),
        (7, "k-nomial") => same(7, "knomial"),
        (7, "scatter-allgather") => same(9, "scatter_allgather_ring"),
        (9, "linear") => same(1, "basic_linear"),
        (9, "binomial") => same(2, "binomial"),
        (9, "linear-sync") => same(3, "linear_sync"),
        (11, "linear") => same(1, "linear"),
        (11, "chain") => same(3, "pipeline"),
        (11, "binomial") => same(5, "binomial"),
        (11, "binomial-in-order") => near(6, "in-order_binary"),
        (11, "rabenseifner") => same(7, "rabenseifner"),
        (12, "reduce-scatter") => same(1, "non-overlapping"),
        (12, "linear") => near(1, "non-overlapping"),
        (12, "ring") => same(3, "ring"),
        (12, word) if is_word_of(word, &["r2"]) => same(2, "recursive_halving"),
        (12, _) => near(2, "recursive_halving"),
        (13, "linear" | "reduce-scatter") => near(1, "basic_linear"),
        (13, word) if is_word_of(word, &["r2"]) => same(3, "recursive_halving"),
        (13, _) => near(3, "recursive_halving"),
        (8 | 14, "linear") => same(1, "linear"),
        (8 | 14, "recursive-doubling") => same(2, "recursive_doubling"),
        (15, "linear") => same(1, "basic_linear"),
        (15, "binomial") => same(2, "binomial"),
        _ => None,
    }
}
