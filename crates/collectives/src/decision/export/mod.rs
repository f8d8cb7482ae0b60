//! Decisions in the words of other libraries, which have some of our algorithms and nothing like the others.
//!
//! Each mapping says of every algorithm what the library calls it, and whether that is the same algorithm or only the
//! nearest one that the library has.

mod mpich;
mod open_mpi;

pub use mpich::mpich;
pub use open_mpi::open_mpi;

use super::{Choice, Operation, Question, Rule};
use std::collections::BTreeSet;

/// Larger groups than this many ranks (as a power of two) share their sizes.
const RANKS_LOG2_MAX: u32 = 16;

/// A file for another library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// What the file holds.
    pub text: String,
    /// What the library cannot express, and what is taken for it; a line each.
    pub notes: BTreeSet<String>,
}

/// What a library has for one of our algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Equivalent<T> {
    /// As the library writes it.
    name: T,
    /// Whether it is the same algorithm.
    exact: bool,
}

impl<T> Equivalent<T> {
    fn same(name: T) -> Equivalent<T> {
        Equivalent { name, exact: true }
    }

    fn nearest(name: T) -> Equivalent<T> {
        Equivalent { name, exact: false }
    }
}

/// What stands behind the colon.
fn algorithm<'a>(choice: &'a Choice<'_>) -> &'a str {
    choice.algorithm.split_once(':').map_or("", |(_, algorithm)| algorithm)
}

/// Whether a word has only stages such as `a2`.
fn is_word_of(word: &str, stages: &[&str]) -> bool {
    !word.is_empty() && word.split(',').all(|stage| stages.contains(&stage))
}

/// The rule that is followed for a call whose operator commutes.
fn followed(rules: &[Rule], operation: Operation, ranks: u32, bytes: u64) -> Option<&Rule> {
    rules.iter().find(|rule| rule.fits(&Question::new(operation, ranks, bytes)))
}

/// The numbers of ranks at which the rules of an operation change, ascending; from 2 on.
fn ranks_that_matter(rules: &[Rule], operation: Operation) -> Vec<u32> {
    let of_operation = rules.iter().filter(|rule| rule.operation == operation);
    let ends = of_operation.flat_map(|rule| [rule.ranks.0.max(2), rule.ranks.1.saturating_add(1)]);
    ends.filter(|&ranks| (2..u32::MAX).contains(&ranks)).collect::<BTreeSet<u32>>().into_iter().collect()
}

/// The sizes from which on another rule is followed, ascending; the first is 0.
fn sizes_that_matter(rules: &[Rule], operation: Operation) -> Vec<u64> {
    let of_operation = rules.iter().filter(|rule| rule.operation == operation);
    let ends = of_operation.flat_map(|rule| [Some(rule.bytes_min), rule.bytes_max.checked_add(1)]);
    ends.flatten().chain([0]).collect::<BTreeSet<u64>>().into_iter().collect()
}

/// With numbers of ranks between: where the size of all blocks counts, it grows with the group though the rule is the same.
/// Every number up to 32, then powers of two.
fn with_those_between(ranks: Vec<u32>) -> Vec<u32> {
    let between = (2..=32).chain((6..=RANKS_LOG2_MAX).map(|log2| 1 << log2));
    let (least, most) = (ranks[0], ranks[ranks.len() - 1]);
    let all: BTreeSet<u32> = between.filter(|ranks| (least..most).contains(ranks)).chain(ranks).collect();
    all.into_iter().collect()
}

/// Whether there is a block for each rank, of which libraries count all together.
fn of_blocks(operation: Operation) -> bool {
    use Operation::{Allgather, Alltoall, Gather, ReduceScatter, Scatter};
    [Allgather, Alltoall, Gather, ReduceScatter, Scatter].contains(&operation)
}

/// The size of all blocks, or of the vector.
fn all_bytes(operation: Operation, ranks: u32, bytes: u64) -> u64 {
    if of_blocks(operation) { bytes.saturating_mul(u64::from(ranks)) } else { bytes }
}

fn note(library: &str, choice: &Choice<'_>, instead: &str) -> String {
    format!("{library} has no {}: it gets {instead}, the nearest that it has", choice.algorithm)
}
