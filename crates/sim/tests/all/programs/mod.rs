//! Random programs that run to their end.

use castell_base::{Rank, Tag};
use castell_goal::graph::Graph;
use castell_goal::graph::{EdgeKind, Vertex};
use castell_goal::op::{Arithmetic, ElementType, Op, Operator, Place};
use castell_goal::program::Program;
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;

/// A program as a list of what happens: messages and computations in an order in which they could happen, so that no
/// rank waits for itself.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub ranks: u32,
    pub actions: Vec<Action>,
}

#[derive(Clone, Debug)]
pub enum Action {
    /// From, to, bytes, tag.
    Message(u32, u32, u64, u32),
    /// Rank, nanoseconds.
    Compute(u32, u64),
    /// Rank, how many vertices back: the rank's last vertex waits for an earlier one.
    Wait(u32, u32, EdgeKind),
    /// Rank, peer, and what LogGOPSim does not know, by number.
    Beyond(u32, u32, u32),
}

impl Recipe {
    pub fn random(random: &mut ChaCha8Rng) -> Recipe {
        let ranks = random.random_range(2..8);
        let mut actions = Vec::new();
        for _ in 0..random.random_range(1..60) {
            let rank = random.random_range(0..ranks);
            actions.push(match random.random_range(0..10) {
                0..=2 => Action::Compute(rank, *[0, 1, 500, 1500, 4000].choose(random).unwrap()),
                3..=6 => {
                    let to = random.random_range(0..ranks);
                    // The size follows from who sends what, so that messages of one kind never meet other receives.
                    let tag = random.random_range(0..3);
                    // No rendezvous with oneself, which a receive that waits for the send would never let happen.
                    let kinds = if rank == to { 3 } else { 4 };
                    let bytes = [1, 8, 1000, 70_000][((rank + 2 * to + tag) % kinds) as usize];
                    Action::Message(rank, to, bytes, tag)
                }
                7 => Action::Wait(rank, random.random_range(1..5), EdgeKind::Start),
                _ => Action::Wait(rank, random.random_range(1..5), EdgeKind::Finish),
            });
        }
        Recipe { ranks, actions }
    }

    /// The same with puts, gets, sleeping, proxies, local operations, concurrency, `any`, several processors and
    /// interfaces in between.
    pub fn with_everything(mut self, random: &mut ChaCha8Rng) -> Recipe {
        for _ in 0..random.random_range(1..30) {
            let (rank, peer) = (random.random_range(0..self.ranks), random.random_range(0..self.ranks));
            let at = random.random_range(0..=self.actions.len());
            self.actions.insert(at, Action::Beyond(rank, peer, random.random_range(0..9)));
        }
        self
    }

    /// The program, in which rank r of the recipe is rank `labels[r]`.
    pub fn program(&self, labels: &[u32]) -> Program {
        let mut program = Program::new(self.ranks);
        for action in &self.actions {
            match *action {
                Action::Message(from, to, bytes, tag) => {
                    let (from, to, tag) = (Rank(labels[from as usize]), Rank(labels[to as usize]), Tag(tag));
                    program.rank_mut(from).send(Place::VOID, bytes, to, tag).unwrap();
                    program.rank_mut(to).recv(Place::VOID, bytes, Some(from), Some(tag)).unwrap();
                }
                Action::Compute(rank, ns) => {
                    program.rank_mut(Rank(labels[rank as usize])).calc(ns).unwrap();
                }
                Action::Beyond(rank, peer, kind) => {
                    beyond(program.rank_mut(Rank(labels[rank as usize])), Rank(labels[peer as usize]), kind);
                }
                Action::Wait(rank, back, kind) => {
                    let graph = program.rank_mut(Rank(labels[rank as usize]));
                    let Some(last) = (graph.len() as u32).checked_sub(1) else { continue };
                    let Some(before) = last.checked_sub(back) else { continue };
                    match kind {
                        EdgeKind::Finish => graph.requires(Vertex(before), Vertex(last)).unwrap(),
                        EdgeKind::Start => graph.irequires(Vertex(before), Vertex(last)).unwrap(),
                    }
                }
            }
        }
        program
    }

    /// Messages of the program; a get has two.
    pub fn messages(&self) -> u64 {
        let program = self.plain();
        let graphs = program.graphs();
        let each = graphs.flat_map(|(_, graph)| {
            graph.vertices().map(|vertex| match graph.op(vertex) {
                Op::Send { .. } | Op::Put { .. } => 1,
                Op::Get { .. } => 2,
                _ => 0,
            })
        });
        each.sum()
    }

    /// With rank r as rank r.
    pub fn plain(&self) -> Program {
        self.program(&(0..self.ranks).collect::<Vec<_>>())
    }
}

fn beyond(graph: &mut Graph, peer: Rank, kind: u32) {
    let sum = Arithmetic::new(Operator::Add, ElementType::U64).unwrap();
    let last = (graph.len() as u32).checked_sub(1).map(Vertex);
    match (kind, last) {
        (0, _) => drop(graph.put(Place::VOID, 100, peer, Place::VOID).unwrap()),
        (1, _) => drop(graph.get(Place::VOID, 1000, peer, Place::VOID).unwrap()),
        (2, _) => drop(graph.sleep(700).unwrap()),
        (3, _) => drop(graph.proxy().unwrap()),
        (4, _) => drop(graph.local(Place::VOID, Place::VOID, Place::VOID, sum, 8).unwrap()),
        (5, Some(last)) => graph.set_concurrent(last).unwrap(),
        (6, Some(last)) => graph.set_cpu(last, 1).unwrap(),
        (7, Some(last)) => graph.set_nic(last, 1).unwrap(),
        (8, Some(last)) if last.0 > 1 => {
            graph.requires(Vertex(last.0 - 1), last).unwrap();
            graph.requires(Vertex(last.0 - 2), last).unwrap();
            graph.set_any(last, 1).unwrap();
        }
        _ => {}
    }
}

/// Runs `test` on programs from these seeds; a failure names its seed.
pub fn on_random_programs(seeds: std::ops::Range<u64>, test: impl Fn(&Recipe, &mut ChaCha8Rng)) {
    for seed in seeds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let recipe = Recipe::random(&mut random);
            test(&recipe, &mut random);
        }));
        if let Err(panic) = outcome {
            eprintln!("the failing program is that of seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
