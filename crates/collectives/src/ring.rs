//! Chains and rings: each rank hears from its predecessor and tells its successor.

use crate::pattern::{Pattern, Rounds, pattern_of_rounds};
use crate::tree::swap_root;
use castell_base::{Rank, Tag, Time};
use castell_goal::graph::{Graph, GraphError};
use castell_goal::op::Place;

/// A broadcast along a chain in segments: each rank passes a segment on once it has it.
#[derive(Clone, Debug)]
pub struct ChainBroadcast {
    ranks: u32,
    bytes: u64,
    segment_bytes: u64,
    root: Rank,
    in_step: bool,
}

impl ChainBroadcast {
    /// A broadcast of `bytes` from `root` in segments of `segment_bytes` (at least 1). `in_step`: a rank takes a
    /// segment only once it has passed on the one before.
    pub fn new(ranks: u32, bytes: u64, segment_bytes: u64, root: Rank, in_step: bool) -> ChainBroadcast {
        ChainBroadcast { ranks, bytes, segment_bytes: segment_bytes.max(1), root, in_step }
    }

    fn segments(&self) -> u64 {
        self.bytes.div_ceil(self.segment_bytes)
    }
}

impl Pattern for ChainBroadcast {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        if self.in_step { "bcast:chain-in-step".into() } else { "bcast:chain".into() }
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        let me = swap_root(rank.0, self.root.0);
        let peer = |virtual_rank| Rank(swap_root(virtual_rank, self.root.0));
        let mut sent_before = None;
        for segment in 0..self.segments() {
            let bytes = self.segment_bytes.min(self.bytes - segment * self.segment_bytes);
            let (mut recv, mut send) = (None, None);
            if me > 0 {
                recv = Some(graph.recv(Place::VOID, bytes, Some(peer(me - 1)), Some(Tag(0)))?);
            }
            if me + 1 < self.ranks {
                send = Some(graph.send(Place::VOID, bytes, peer(me + 1), Tag(0))?);
            }
            if let (Some(recv), Some(send)) = (recv, send) {
                graph.requires(recv, send)?;
            }
            if let (true, Some(sent), Some(recv)) = (self.in_step, sent_before, recv) {
                graph.requires(sent, recv)?;
            }
            sent_before = send;
        }
        Ok(())
    }

    fn operations(&self, rank: Rank) -> u64 {
        let me = swap_root(rank.0, self.root.0);
        self.segments() * (u64::from(me > 0) + u64::from(me + 1 < self.ranks))
    }
}

/// A message round the ring in both directions at once, begun by rank 0.
#[derive(Clone, Debug)]
pub struct DoubleRing {
    ranks: u32,
    bytes: u64,
}

impl DoubleRing {
    /// Messages of `bytes` round a ring of `ranks` ranks.
    pub fn new(ranks: u32, bytes: u64) -> DoubleRing {
        DoubleRing { ranks, bytes }
    }
}

impl Pattern for DoubleRing {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn name(&self) -> String {
        "double-ring".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        let next = Rank(if rank.0 + 1 < self.ranks { rank.0 + 1 } else { 0 });
        let previous = Rank(if rank.0 > 0 { rank.0 - 1 } else { self.ranks - 1 });
        for (to, from) in [(next, previous), (previous, next)] {
            let send = graph.send(Place::VOID, self.bytes, to, Tag(0))?;
            let recv = graph.recv(Place::VOID, self.bytes, Some(from), Some(Tag(0)))?;
            if rank.0 > 0 {
                graph.requires(recv, send)?;
            }
        }
        Ok(())
    }

    fn operations(&self, _rank: Rank) -> u64 {
        4
    }
}

/// The shape of an allreduce on a ring: a reduce-scatter of `ranks` - 1 rounds and an allgather of as many; each
/// message holds bytes / ranks, rounded down.
#[derive(Clone, Debug)]
pub struct RingAllreduce {
    ranks: u32,
    bytes: u64,
    compute: Time,
}

impl RingAllreduce {
    /// An allreduce of `bytes`; each rank computes for `compute` in each round of the reduce-scatter.
    pub fn new(ranks: u32, bytes: u64, compute: Time) -> RingAllreduce {
        RingAllreduce { ranks, bytes, compute }
    }
}

pattern_of_rounds!(RingAllreduce, "allreduce:ring");

impl Rounds for RingAllreduce {
    fn count(&self) -> u32 {
        2 * (self.ranks - 1)
    }

    fn fan(&self, _round: u32) -> u32 {
        1
    }

    fn to(&self, _round: u32, rank: Rank, _i: u32) -> Rank {
        Rank(if rank.0 + 1 < self.ranks { rank.0 + 1 } else { 0 })
    }

    fn from(&self, _round: u32, rank: Rank, _i: u32) -> Rank {
        Rank(if rank.0 > 0 { rank.0 - 1 } else { self.ranks - 1 })
    }

    fn bytes(&self, _round: u32) -> u64 {
        self.bytes / u64::from(self.ranks)
    }

    fn compute(&self, round: u32) -> Time {
        if round < self.ranks - 1 { self.compute } else { Time(0) }
    }
}
