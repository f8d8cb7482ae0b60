//! What is carried out: a collective operation of sums, or a program from a file.

use crate::source;
use anyhow::{Context as _, bail};
use castell_base::Rank;
use castell_collectives::collective::{Collective, Memory, Shape};
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use castell_goal::program::Program;
use castell_goal::schedule::Schedule;
use std::path::PathBuf;

pub enum What {
    Collective { collective: Box<Collective>, elements: u64 },
    Program { program: Box<Program>, file: PathBuf },
}

impl What {
    /// A name with a colon that is no file's, or a file.
    pub fn read(text: &str, ranks: u32, elements: u64) -> anyhow::Result<What> {
        let file = PathBuf::from(text);
        if text.contains(':') && !file.exists() {
            let collective = Collective::new(text, Shape::new(ranks, elements, 8))?;
            return Ok(What::Collective { collective: Box::new(collective), elements });
        }
        let program = source::program(&file)?;
        source::insist(&program, &file)?;
        if program.num_ranks() != ranks {
            bail!("{text} is a program of {} ranks and cannot be run with {ranks}", program.num_ranks());
        }
        Ok(What::Program { program: Box::new(program), file })
    }

    /// A rank's part. What it contributes lies at the start of the scratchpad, what it gets behind that.
    pub fn schedule(&self, rank: Rank) -> anyhow::Result<Schedule> {
        match self {
            What::Collective { collective, .. } => {
                let bytes = self.bytes();
                let sum = Arithmetic::new(Operator::Add, ElementType::I64).expect("integers can be added");
                let mut graph = Graph::new();
                graph.allocate_scratchpad(2 * bytes);
                let [input, output, temporary] = [0, bytes, 2 * bytes].map(Place::scratch);
                let memory = Memory { input, output, temporary, in_place: false, combine: &sum };
                collective.weave(rank, &memory, &mut graph)?;
                Ok(graph.compile()?)
            }
            What::Program { program, file } => {
                let mut schedules = source::schedules(program, file)?;
                (rank.index() < schedules.len())
                    .then(|| schedules.swap_remove(rank.index()))
                    .context("no such rank")
            }
        }
    }

    /// Of what a rank contributes, and of what it gets.
    fn bytes(&self) -> u64 {
        match self {
            What::Collective { collective, elements } => match collective.shape().element_bytes {
                0 => 0,
                // Room for the blocks of all.
                bytes => bytes * elements * u64::from(collective.shape().ranks),
            },
            What::Program { .. } => 0,
        }
    }

    fn is_allreduce(&self) -> bool {
        matches!(self, What::Collective { collective, .. } if castell_collectives::pattern::Pattern::name(&**collective).starts_with("allreduce"))
    }

    /// What a rank begins a run with.
    pub fn input(&self, rank: Rank, run: u32) -> Vec<u8> {
        match self {
            What::Collective { elements, .. } if self.is_allreduce() => {
                (0..*elements).flat_map(|at| contribution(rank, run, at).to_ne_bytes()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What lies where in the scratchpad when an allreduce is through.
    pub fn output(&self, ranks: u32, run: u32) -> Option<(usize, Vec<u8>)> {
        let What::Collective { elements, .. } = self else { return None };
        let sum = |at| (0..ranks).map(|rank| contribution(Rank(rank), run, at)).sum::<i64>();
        self.is_allreduce()
            .then(|| (self.bytes() as usize, (0..*elements).flat_map(|at| sum(at).to_ne_bytes()).collect()))
    }
}

fn contribution(rank: Rank, run: u32, at: u64) -> i64 {
    i64::from(rank.0 + 1) * 1_000_003 - i64::from(run) + at as i64
}
