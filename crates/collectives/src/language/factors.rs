//! Allreduces whose factors multiply to the number of ranks.

use super::{Stage, Word};
use crate::pattern::{Pattern, Rounds, build_rounds, operations_of_rounds};
use castell_base::{Rank, Tag, Time};
use castell_goal::graph::{Graph, GraphError};

/// An allreduce as a word of factor stages says it.
///
/// In the stage with factor F and distance `mask` (the product of the factors before it), member j of rank r's group
/// is ⌊r / base⌋·base + (r + j·mask) mod base, with base = F·mask; it gets r's j-th message.
#[derive(Clone, Debug)]
pub struct Allreduce {
    word: Word,
    /// Factor and distance of each stage.
    stages: Vec<(u32, u32)>,
    ranks: u32,
    bytes: u64,
    compute: Time,
}

/// A word that does not fit the number of ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{word}` is for {product} ranks (the product of its factors), not for {ranks}; change --ranks or a factor"
)]
pub struct Misfit {
    /// The word.
    pub word: Word,
    /// Ranks that it fits.
    pub product: u64,
    /// Ranks asked for.
    pub ranks: u32,
}

impl Allreduce {
    /// The allreduce of `bytes` that `word` says, on `ranks` ranks, each of which computes for `compute` a stage.
    ///
    /// # Errors
    /// A word whose factors do not multiply to `ranks`.
    pub fn new(word: Word, ranks: u32, bytes: u64, compute: Time) -> Result<Allreduce, Misfit> {
        let mut mask = 1_u64;
        let mut stages = Vec::new();
        for &Stage::Factor { factor } in &word.stages {
            stages.push((factor, mask.min(u64::from(u32::MAX)) as u32));
            mask = mask.saturating_mul(u64::from(factor));
        }
        if mask != u64::from(ranks) {
            return Err(Misfit { word, product: mask, ranks });
        }
        Ok(Allreduce { word, stages, ranks, bytes, compute })
    }

    /// The rank `steps` members on in rank's group of that round.
    fn member(&self, round: u32, rank: Rank, steps: u32) -> Rank {
        let (factor, mask) = self.stages[round as usize];
        let base = factor * mask;
        let shifted = u64::from(rank.0 % base) + u64::from(steps) * u64::from(mask);
        Rank(rank.0 / base * base + (shifted % u64::from(base)) as u32)
    }
}

impl Pattern for Allreduce {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        format!("allreduce:{}", self.word)
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        build_rounds(self, rank, graph)
    }

    fn operations(&self, _rank: Rank) -> u64 {
        operations_of_rounds(self)
    }

    fn rounds(&self) -> Option<&dyn Rounds> {
        Some(self)
    }
}

impl Rounds for Allreduce {
    fn count(&self) -> u32 {
        self.stages.len() as u32
    }

    fn fan(&self, round: u32) -> u32 {
        self.stages[round as usize].0 - 1
    }

    fn to(&self, round: u32, rank: Rank, i: u32) -> Rank {
        self.member(round, rank, i + 1)
    }

    fn from(&self, round: u32, rank: Rank, i: u32) -> Rank {
        let (factor, _) = self.stages[round as usize];
        self.member(round, rank, factor - 1 - i)
    }

    fn bytes(&self, _round: u32) -> u64 {
        self.bytes
    }

    fn compute(&self, _round: u32) -> Time {
        self.compute
    }

    fn tag(&self, round: u32) -> Tag {
        Tag(round)
    }
}
