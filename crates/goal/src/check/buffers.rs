//! Peers that do not exist, and buffers that leave the scratchpad.

use super::{Found, Kind, Severity};
use crate::graph::Vertex;
use crate::op::{Buffer, Memory, Op, Place};
use castell_base::Rank;

pub(super) fn check(found: &mut Found) {
    let program = found.program;
    for (rank, graph) in program.graphs() {
        for vertex in graph.vertices() {
            let at = Site { rank, vertex, scratchpad: graph.scratchpad_bytes() };
            match graph.op(vertex) {
                Op::Send { buffer, bytes, dest, .. } => {
                    at.peer(dest, found);
                    at.buffer(buffer, bytes, found);
                }
                Op::Recv { buffer, bytes, source, .. } => {
                    if let Some(source) = source {
                        at.peer(source, found);
                    }
                    at.buffer(buffer, bytes, found);
                }
                Op::Local { b1, b2, b3, arithmetic, count } => {
                    let bytes = count.saturating_mul(arithmetic.element().bytes());
                    [b1, b2, b3].into_iter().for_each(|buffer| at.buffer(buffer, bytes, found));
                }
                Op::Wtime { b3 } => at.buffer(Buffer::Plain(b3), 8, found),
                Op::Put { local, bytes, dest: peer, remote }
                | Op::Get { local, bytes, source: peer, remote } => {
                    at.buffer(Buffer::Plain(local), bytes, found);
                    if at.peer(peer, found) {
                        at.remote(peer, remote, bytes, found);
                    }
                }
                Op::Proxy | Op::Calc { .. } | Op::Sleep { .. } | Op::Call { .. } => (),
            }
        }
    }
}

/// The operation in hand.
struct Site {
    rank: Rank,
    vertex: Vertex,
    scratchpad: u64,
}

impl Site {
    /// Reports a peer outside the group; returns whether it is inside.
    fn peer(&self, peer: Rank, found: &mut Found) -> bool {
        let ranks = found.program.num_ranks();
        if peer.0 < ranks {
            return true;
        }
        found.add(Severity::Error, Kind::Peer, (self.rank, self.vertex), |_| {
            format!(
                "its peer, rank {peer}, does not exist: the program has {ranks} ranks, so the last is {}",
                ranks - 1
            )
        });
        false
    }

    fn buffer(&self, buffer: Buffer, bytes: u64, found: &mut Found) {
        match buffer {
            Buffer::Plain(Place { memory: Memory::Scratch, offset }) => self.range(offset, bytes, found),
            Buffer::Vector(Memory::Scratch, blocks) => {
                let outside = blocks.iter().find(|block| !fits(block.offset, block.bytes, self.scratchpad));
                outside.into_iter().for_each(|block| self.range(block.offset, block.bytes, found));
            }
            _ => (),
        }
    }

    fn range(&self, offset: u64, bytes: u64, found: &mut Found) {
        if !fits(offset, bytes, self.scratchpad) {
            let (end, scratchpad) = (u128::from(offset) + u128::from(bytes), self.scratchpad);
            found.add(Severity::Error, Kind::Bounds, (self.rank, self.vertex), |_| {
                format!("it uses bytes {offset} to {end} of the scratchpad, which has {scratchpad}")
            });
        }
    }

    fn remote(&self, peer: Rank, remote: Place, bytes: u64, found: &mut Found) {
        let scratchpad = found.program.rank(peer).scratchpad_bytes();
        if remote.memory == Memory::Scratch && !fits(remote.offset, bytes, scratchpad) {
            let (offset, end) = (remote.offset, u128::from(remote.offset) + u128::from(bytes));
            found.add(Severity::Error, Kind::Bounds, (self.rank, self.vertex), |_| {
                format!(
                    "it uses bytes {offset} to {end} of the scratchpad of rank {peer}, which has {scratchpad}"
                )
            });
        }
    }
}

fn fits(offset: u64, bytes: u64, scratchpad: u64) -> bool {
    offset.checked_add(bytes).is_some_and(|end| end <= scratchpad)
}
