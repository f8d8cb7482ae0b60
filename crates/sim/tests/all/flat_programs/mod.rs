//! Random programs of sends, receives and calcs.

use castell_base::{Rank, Tag};
use castell_goal::graph::{EdgeKind, Graph, Vertex};
use castell_goal::op::Place;
use castell_goal::program::Program;
use rand::Rng;

/// What a random program has.
pub struct Shape {
    pub ranks: u32,
    pub steps: u32,
    pub processors: u8,
    pub tags: u32,
    pub wild: bool,
    pub bytes_max: u64,
    /// Whether messages only go to lower ranks, or only to higher ones.
    pub downhill: Option<bool>,
}

impl Shape {
    pub fn random(random: &mut impl Rng) -> Shape {
        Shape {
            ranks: [1, 2, 3, 4, 7, 8, 16][random.random_range(0..7)],
            steps: [5, 20, 60, 200][random.random_range(0..4)],
            processors: [1, 1, 1, 3][random.random_range(0..4)],
            tags: [1, 1, 3, 40][random.random_range(0..4)],
            wild: random.random_bool(0.2),
            bytes_max: [8, 100, 200_000][random.random_range(0..3)],
            downhill: None,
        }
    }

    /// Messages are added at both ends at a time, so that an order exists in which nothing waits forever (rendezvous
    /// may find another).
    pub fn program(&self, random: &mut impl Rng) -> Program {
        let mut program = Program::new(self.ranks);
        for _ in 0..self.steps {
            let rank = Rank(random.random_range(0..self.ranks));
            if random.random_bool(0.3) {
                let ns = [0, 0, 1000, 1500, 2500, 17][random.random_range(0..6)];
                let vertex = program.rank_mut(rank).calc(ns).expect("a small graph");
                self.finish(program.rank_mut(rank), vertex, random);
                continue;
            }
            let (dest, tag) = (Rank(random.random_range(0..self.ranks)), random.random_range(0..self.tags));
            let (low, high) = (rank.min(dest), rank.max(dest));
            let (rank, dest) = match self.downhill {
                Some(_) if low == high => continue,
                Some(true) => (high, low),
                Some(false) => (low, high),
                None => (rank, dest),
            };
            let bytes = self.bytes(rank, dest, tag);
            let send = program.rank_mut(rank).send(Place::VOID, bytes, dest, Tag(tag));
            self.finish(program.rank_mut(rank), send.expect("a small graph"), random);
            let (any_source, any_tag) = (self.wild && random.random(), self.wild && random.random());
            let (source, tag) = ((!any_source).then_some(rank), (!any_tag).then_some(Tag(tag)));
            let recv = program.rank_mut(dest).recv(Place::VOID, bytes, source, tag);
            self.finish(program.rank_mut(dest), recv.expect("a small graph"), random);
        }
        program
    }

    /// The same in one channel as a rule; with wildcards, everywhere.
    fn bytes(&self, source: Rank, dest: Rank, tag: u32) -> u64 {
        let sizes = [1, 8, self.bytes_max];
        if self.wild { self.bytes_max } else { sizes[(source.0 * 7 + dest.0 * 3 + tag) as usize % 3] }
    }

    /// Processor, interface and dependencies.
    fn finish(&self, graph: &mut Graph, vertex: Vertex, random: &mut impl Rng) {
        graph.set_cpu(vertex, random.random_range(0..self.processors)).expect("its vertex");
        graph.set_nic(vertex, random.random_range(0..self.processors)).expect("its vertex");
        for _ in 0..[0, 0, 1, 1, 2, 3][random.random_range(0..6)] {
            let back = [1, 2, 6][random.random_range(0..3)];
            if vertex.0 == 0 {
                break;
            }
            let before = Vertex(random.random_range(vertex.0.saturating_sub(back)..vertex.0));
            let kind = if random.random_bool(0.7) { EdgeKind::Finish } else { EdgeKind::Start };
            match kind {
                EdgeKind::Finish => graph.requires(before, vertex).expect("its vertices"),
                EdgeKind::Start => graph.irequires(before, vertex).expect("its vertices"),
            }
        }
    }
}
