//! Trees over the ranks, and the patterns that send along their edges.

use crate::pattern::Pattern;
use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::Place;

/// Swaps rank 0 and the root: what was made for root 0 works for any other.
pub(crate) fn swap_root(rank: u32, root: u32) -> u32 {
    match rank {
        0 => root,
        rank if rank == root => 0,
        rank => rank,
    }
}

/// Which way the messages of a [`Binomial`] go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the root: a rank sends only after it has received.
    Broadcast,
    /// To the root: a rank sends only after it has received from all that report to it.
    Reduce,
}

/// A broadcast or reduction along a binomial tree whose distances double: in round r each of the first 2^r ranks has
/// to do with the one 2^r behind it.
#[derive(Clone, Debug)]
pub struct Binomial {
    direction: Direction,
    ranks: u32,
    bytes: u64,
    root: Rank,
}

impl Binomial {
    /// A broadcast from `root` or reduction to it, of `bytes`.
    pub fn new(direction: Direction, ranks: u32, bytes: u64, root: Rank) -> Binomial {
        Binomial { direction, ranks, bytes, root }
    }

    /// Adds the message to the father or from it, and those to the children or from them; in that order.
    fn message(&self, graph: &mut Graph, sends: bool, peer: u32) -> Result<Vertex, GraphError> {
        let peer = Rank(swap_root(peer, self.root.0));
        if sends {
            graph.send(Place::VOID, self.bytes, peer, Tag(0))
        } else {
            graph.recv(Place::VOID, self.bytes, Some(peer), Some(Tag(0)))
        }
    }

    /// The ranks (root and rank 0 swapped) that `me` sends to, nearest first.
    fn children(&self, me: u32) -> impl Iterator<Item = u32> {
        let (first, ranks) = (if me > 0 { me.ilog2() + 1 } else { 0 }, u64::from(self.ranks));
        let all = (first..u32::BITS).map(move |bit| u64::from(me) + (1 << bit));
        all.take_while(move |&child| child < ranks).map(|child| child as u32)
    }
}

impl Pattern for Binomial {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        match self.direction {
            Direction::Broadcast => "bcast:binomial".into(),
            Direction::Reduce => "reduce:binomial".into(),
        }
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        let me = swap_root(rank.0, self.root.0);
        let reduce = self.direction == Direction::Reduce;
        // The highest bit tells the round in which a rank has to do with its father.
        let father = if me > 0 { Some(self.message(graph, reduce, me - (1 << me.ilog2()))?) } else { None };
        for child in self.children(me) {
            let child = self.message(graph, !reduce, child)?;
            if let Some(father) = father {
                let (first, second) = if reduce { (child, father) } else { (father, child) };
                graph.requires(first, second)?;
            }
        }
        Ok(())
    }

    fn operations(&self, rank: Rank) -> u64 {
        let me = swap_root(rank.0, self.root.0);
        u64::from(me > 0) + self.children(me).count() as u64
    }
}

/// A broadcast along a binary tree: rank r passes on to 2r + 1 and 2r + 2 (with the root and rank 0 swapped).
#[derive(Clone, Debug)]
pub struct BinaryBroadcast {
    ranks: u32,
    bytes: u64,
    root: Rank,
}

impl BinaryBroadcast {
    /// A broadcast of `bytes` from `root`.
    pub fn new(ranks: u32, bytes: u64, root: Rank) -> BinaryBroadcast {
        BinaryBroadcast { ranks, bytes, root }
    }

    fn children(&self, me: u32) -> impl Iterator<Item = u32> {
        let ranks = u64::from(self.ranks);
        let both = [2 * u64::from(me) + 1, 2 * u64::from(me) + 2];
        both.into_iter().filter(move |&child| child < ranks).map(|child| child as u32)
    }
}

impl Pattern for BinaryBroadcast {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        "bcast:binary".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        let me = swap_root(rank.0, self.root.0);
        let peer = |virtual_rank| Rank(swap_root(virtual_rank, self.root.0));
        let mut recv = None;
        if me > 0 {
            recv = Some(graph.recv(Place::VOID, self.bytes, Some(peer((me - 1) / 2)), Some(Tag(0)))?);
        }
        for child in self.children(me) {
            let send = graph.send(Place::VOID, self.bytes, peer(child), Tag(0))?;
            if let Some(recv) = recv {
                graph.requires(recv, send)?;
            }
        }
        Ok(())
    }

    fn operations(&self, rank: Rank) -> u64 {
        let me = swap_root(rank.0, self.root.0);
        u64::from(me > 0) + self.children(me).count() as u64
    }
}
