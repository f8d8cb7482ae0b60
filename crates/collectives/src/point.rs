//! Messages between two ranks, and from one rank to many: what models are fitted with.

use crate::pattern::Pattern;
use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::Place;

/// A message from rank 0 to rank 1 and back, `rounds` times; all other ranks look on.
#[derive(Clone, Debug)]
pub struct PingPong {
    ranks: u32,
    bytes: u64,
    rounds: u32,
}

impl PingPong {
    /// `rounds` there and back between the first two of `ranks` ranks.
    pub fn new(ranks: u32, bytes: u64, rounds: u32) -> PingPong {
        PingPong { ranks, bytes, rounds }
    }
}

impl Pattern for PingPong {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        if self.rounds == 1 { "pingpong".into() } else { format!("pingpong:{}", self.rounds) }
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        let peer = Rank(1 - rank.0.min(1));
        if rank.0 > 1 || self.ranks < 2 {
            return Ok(());
        }
        let mut before: Option<Vertex> = None;
        for turn in 0..2 * u64::from(self.rounds) {
            let vertex = if turn % 2 == u64::from(rank.0) {
                graph.send(Place::VOID, self.bytes, peer, Tag(0))?
            } else {
                graph.recv(Place::VOID, self.bytes, Some(peer), Some(Tag(0)))?
            };
            if let Some(before) = before {
                graph.requires(before, vertex)?;
            }
            before = Some(vertex);
        }
        Ok(())
    }

    fn operations(&self, rank: Rank) -> u64 {
        if rank.0 > 1 || self.ranks < 2 { 0 } else { 2 * u64::from(self.rounds) }
    }
}

/// The same message from the root to each other rank, in ascending order of ranks, as fast as the root can.
#[derive(Clone, Debug)]
pub struct Multicast {
    ranks: u32,
    bytes: u64,
    root: Rank,
}

impl Multicast {
    /// A message of `bytes` from `root` to all others.
    pub fn new(ranks: u32, bytes: u64, root: Rank) -> Multicast {
        Multicast { ranks, bytes, root }
    }
}

impl Pattern for Multicast {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        "multicast".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        if rank != self.root {
            graph.recv(Place::VOID, self.bytes, Some(self.root), Some(Tag(0)))?;
            return Ok(());
        }
        for dest in (0..self.ranks).map(Rank).filter(|&dest| dest != rank) {
            graph.send(Place::VOID, self.bytes, dest, Tag(0))?;
        }
        Ok(())
    }

    fn operations(&self, rank: Rank) -> u64 {
        if rank == self.root { u64::from(self.ranks) - 1 } else { 1 }
    }
}
