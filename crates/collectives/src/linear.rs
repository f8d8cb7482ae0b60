//! Patterns in which everybody deals with everybody, or with one: no tree, no rounds.

use crate::pattern::{Pattern, Rounds};
use crate::tree::swap_root;
use castell_base::{Rank, Tag, Time};
use castell_goal::graph::{Graph, GraphError};
use castell_goal::op::Place;

/// Which way the messages of a [`Linear`] go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From all others to the root.
    Gather,
    /// From the root to all others.
    Scatter,
}

/// A message between the root and each other rank, in ascending order of ranks (with the root and rank 0 swapped);
/// no rank waits for anything but its messages.
#[derive(Clone, Debug)]
pub struct Linear {
    direction: Direction,
    ranks: u32,
    bytes: u64,
    root: Rank,
}

impl Linear {
    /// A gather or scatter of `bytes` a rank.
    pub fn new(direction: Direction, ranks: u32, bytes: u64, root: Rank) -> Linear {
        Linear { direction, ranks, bytes, root }
    }
}

impl Pattern for Linear {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        match self.direction {
            Direction::Gather => "gather:linear".into(),
            Direction::Scatter => "scatter:linear".into(),
        }
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        let sends = (rank == self.root) == (self.direction == Direction::Scatter);
        let others = if rank == self.root { 1..self.ranks } else { 0..1 };
        for peer in others.map(|other| Rank(swap_root(other, self.root.0))) {
            if sends {
                graph.send(Place::VOID, self.bytes, peer, Tag(0))?;
            } else {
                graph.recv(Place::VOID, self.bytes, Some(peer), Some(Tag(0)))?;
            }
        }
        Ok(())
    }

    fn operations(&self, rank: Rank) -> u64 {
        if rank == self.root { u64::from(self.ranks) - 1 } else { 1 }
    }
}

/// A barrier around a counter: rank 0 hears from all others, then tells them all. Messages have 1 byte.
#[derive(Clone, Debug)]
pub struct LinearBarrier {
    ranks: u32,
}

impl LinearBarrier {
    /// A barrier of `ranks` ranks.
    pub fn new(ranks: u32) -> LinearBarrier {
        LinearBarrier { ranks }
    }
}

/// Size of a message of [`LinearBarrier`].
const BARRIER_BYTES: u64 = 1;

impl Pattern for LinearBarrier {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        "barrier:linear".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        let tag = Tag(0);
        if rank.0 > 0 {
            graph.send(Place::VOID, BARRIER_BYTES, Rank(0), tag)?;
            graph.recv(Place::VOID, BARRIER_BYTES, Some(Rank(0)), Some(tag))?;
            return Ok(());
        }
        // Joins the others' messages, so that there are two edges a rank and not the square.
        let all_here = graph.calc(0)?;
        for peer in (1..self.ranks).map(Rank) {
            let recv = graph.recv(Place::VOID, BARRIER_BYTES, Some(peer), Some(tag))?;
            let send = graph.send(Place::VOID, BARRIER_BYTES, peer, tag)?;
            graph.requires(recv, all_here)?;
            graph.requires(all_here, send)?;
        }
        Ok(())
    }

    fn operations(&self, rank: Rank) -> u64 {
        if rank.0 > 0 { 2 } else { 2 * u64::from(self.ranks) - 1 }
    }
}

/// A message from each rank to each other one, all at once; each rank begins with its successor and goes round.
#[derive(Clone, Debug)]
pub struct LinearAlltoall {
    ranks: u32,
    bytes: u64,
}

impl LinearAlltoall {
    /// `bytes` from each of `ranks` ranks to each other one.
    pub fn new(ranks: u32, bytes: u64) -> LinearAlltoall {
        LinearAlltoall { ranks, bytes }
    }
}

impl Pattern for LinearAlltoall {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        "alltoall:linear".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        for i in 0..self.fan(0) {
            graph.send(Place::VOID, self.bytes, self.to(0, rank, i), Tag(0))?;
            graph.recv(Place::VOID, self.bytes, Some(Rounds::from(self, 0, rank, i)), Some(Tag(0)))?;
        }
        Ok(())
    }

    fn operations(&self, _rank: Rank) -> u64 {
        2 * (u64::from(self.ranks) - 1)
    }

    fn rounds(&self) -> Option<&dyn Rounds> {
        Some(self)
    }
}

impl Rounds for LinearAlltoall {
    fn count(&self) -> u32 {
        1
    }

    fn fan(&self, _round: u32) -> u32 {
        self.ranks - 1
    }

    fn to(&self, _round: u32, rank: Rank, i: u32) -> Rank {
        Rank(((u64::from(rank.0) + u64::from(i) + 1) % u64::from(self.ranks)) as u32)
    }

    fn from(&self, _round: u32, rank: Rank, i: u32) -> Rank {
        let ranks = u64::from(self.ranks);
        Rank(((u64::from(rank.0) + ranks - u64::from(i) - 1) % ranks) as u32)
    }

    fn bytes(&self, _round: u32) -> u64 {
        self.bytes
    }

    fn compute(&self, _round: u32) -> Time {
        Time(0)
    }
}
