//! Words as patterns.

use super::{Fitted, Misfit, Stage, Word};
use crate::pattern::{PS_A_NS, Pattern, Rounds, build_rounds, operations_of_rounds};
use castell_base::{Rank, Tag, Time};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::Place;

/// The messages and computations of a word, without memory: what simulations need.
///
/// A stage's sends wait for the rank's computation before; receives wait for nothing; the computation waits for all
/// of the stage's messages and for the one before. A rank computes once in each stage in which it gets messages,
/// other than `g` stages. Elements are single bytes.
#[derive(Clone, Debug)]
pub struct Allreduce {
    fitted: Fitted,
    bytes: u64,
    compute: Time,
    /// Each stage, where all ranks do the same in each.
    rounds: Option<Vec<Round>>,
}

/// A stage in which all ranks do the same.
#[derive(Clone, Debug)]
struct Round {
    factor: u32,
    /// Distance between members of a group.
    distance: u32,
    /// How many parts the vector is cut in.
    divisor: u64,
}

impl Allreduce {
    /// The allreduce of `bytes` that `word` says, on `ranks` ranks, each of which computes for `compute` (whole
    /// nanoseconds) a stage.
    ///
    /// # Errors
    /// A word that does not fit.
    pub fn new(word: Word, ranks: u32, bytes: u64, compute: Time) -> Result<Allreduce, Misfit> {
        Ok(Allreduce::of(Fitted::new(word, ranks)?, bytes, compute))
    }

    /// The allreduce of `bytes` that a fitted word says.
    pub fn of(fitted: Fitted, bytes: u64, compute: Time) -> Allreduce {
        let rounds = rounds(&fitted, bytes);
        Allreduce { fitted, bytes, compute, rounds }
    }

    fn round(&self, round: u32) -> &Round {
        &self.rounds.as_ref().expect("a word with rounds")[round as usize]
    }

    /// The rank `steps` (fewer than the factor) members on in rank's group of that round.
    #[inline]
    fn member(&self, round: u32, rank: Rank, steps: u32) -> Rank {
        let Round { factor, distance, .. } = *self.round(round);
        let size = factor * distance;
        let place = if size.is_power_of_two() { rank.0 & (size - 1) } else { rank.0 % size };
        let on = steps * distance;
        Rank(if on < size - place { rank.0 + on } else { rank.0 - (size - on) })
    }
}

/// The stages, if all ranks do the same in each: no ranks stand aside or go home, and vectors are cut in equal parts.
fn rounds(fitted: &Fitted, bytes: u64) -> Option<Vec<Round>> {
    let mut divisor = 1;
    let stages = fitted.word().stages.iter().zip(&fitted.places);
    let rounds = stages.map(|(stage, place)| {
        let round = |factor, divisor| Some(Round { factor, distance: place.mask, divisor });
        match *stage {
            Stage::Factor { factor } => round(factor, divisor),
            Stage::ReduceScatter { factor } => {
                divisor *= u64::from(factor);
                round(factor, divisor)
            }
            Stage::Allgather { factor } => {
                let before = divisor;
                divisor /= u64::from(factor);
                round(factor, before)
            }
            _ => None,
        }
    });
    let rounds: Vec<Round> = rounds.collect::<Option<_>>()?;
    rounds.iter().all(|round| bytes.is_multiple_of(round.divisor)).then_some(rounds)
}

impl Pattern for Allreduce {
    fn ranks(&self) -> u32 {
        self.fitted.ranks()
    }

    fn name(&self) -> String {
        format!("allreduce:{}", self.fitted.word())
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        if self.rounds.is_some() {
            return build_rounds(self, rank, graph);
        }
        let mut before: Option<Vertex> = None;
        for step in self.fitted.steps(rank, self.bytes) {
            let tag = Tag(step.stage as u32);
            for transfer in &step.sends {
                let send = graph.send(Place::VOID, transfer.segment.count, transfer.peer, tag)?;
                if let Some(before) = before {
                    graph.requires(before, send)?;
                }
            }
            let receive = |transfer: &super::Transfer| {
                graph.recv(Place::VOID, transfer.segment.count, Some(transfer.peer), Some(tag))
            };
            let received: Vec<Vertex> = step.receives.iter().map(receive).collect::<Result<_, _>>()?;
            if received.is_empty() {
                continue;
            }
            let gathers = matches!(self.fitted.word().stages[step.stage], Stage::Allgather { .. });
            let compute = if gathers { Time(0) } else { self.compute };
            let calc = graph.calc(compute.0 / PS_A_NS)?;
            for vertex in received.into_iter().chain(before) {
                graph.requires(vertex, calc)?;
            }
            before = Some(calc);
        }
        Ok(())
    }

    fn operations(&self, rank: Rank) -> u64 {
        if self.rounds.is_some() {
            return operations_of_rounds(self);
        }
        let steps = self.fitted.steps(rank, self.bytes);
        let count = |step: &super::Step| {
            step.sends.len() + step.receives.len() + usize::from(!step.receives.is_empty())
        };
        steps.iter().map(count).sum::<usize>() as u64
    }

    fn rounds(&self) -> Option<&dyn Rounds> {
        self.rounds.is_some().then_some(self)
    }
}

impl Rounds for Allreduce {
    fn count(&self) -> u32 {
        self.fitted.word().stages.len() as u32
    }

    fn fan(&self, round: u32) -> u32 {
        self.round(round).factor - 1
    }

    fn to(&self, round: u32, rank: Rank, i: u32) -> Rank {
        self.member(round, rank, i + 1)
    }

    fn from(&self, round: u32, rank: Rank, i: u32) -> Rank {
        self.member(round, rank, self.round(round).factor - 1 - i)
    }

    fn bytes(&self, round: u32) -> u64 {
        self.bytes / self.round(round).divisor
    }

    fn compute(&self, round: u32) -> Time {
        match self.fitted.word().stages[round as usize] {
            Stage::Allgather { .. } => Time(0),
            _ => self.compute,
        }
    }

    fn tag(&self, round: u32) -> Tag {
        Tag(round)
    }
}
