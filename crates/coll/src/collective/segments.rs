//! How large calls are cut: in segments that ranks work on one behind the other, and which messages stay in their senders' buffers.

use super::Operation;
use castell_collectives::collective::{Blocks, Shape};
use castell_engine::slot::BOUNCE_BYTES;

/// Segments in which large vectors and blocks are worked on: one rank copies a segment while another one copies or reduces the one
/// before. Bytes.
const SEGMENT_BYTES: u64 = 32 << 10;
/// Where ranks share processors each segment costs changes of processes. Bytes.
const SEGMENT_BYTES_OVERSUBSCRIBED: u64 = 512 << 10;
/// From here on blocks are read out of the senders' own buffers where one rank needs each of them. Bytes.
const ZERO_COPY_BYTES_MIN: u64 = 256 << 10;
/// The same where the sender's copy into its bounce buffer is hidden well. Bytes.
const ZERO_COPY_LATE_BYTES_MIN: u64 = 384 << 10;
/// The same of vectors of two ranks that are reduced. Bytes.
const ZERO_COPY_VECTOR_BYTES_MIN: u64 = 2 << 20;

/// From how many bytes on messages of an operation are read out of their senders' buffers: where each is read by one rank. What
/// several read is faster out of a bounce buffer, where it is copied once, and page by page by nobody. Where data goes one way and
/// each rank has a processor, sender and receiver work at the same time on segments.
pub(super) fn zero_copy_from(operation: Operation, ranks: u32, is_oversubscribed: bool) -> Option<u64> {
    match operation {
        Operation::Alltoall => Some(ZERO_COPY_BYTES_MIN),
        Operation::Scatter if is_oversubscribed => Some(ZERO_COPY_BYTES_MIN),
        Operation::Allgather if ranks == 2 => Some(ZERO_COPY_LATE_BYTES_MIN),
        Operation::Allreduce if ranks == 2 => Some(ZERO_COPY_VECTOR_BYTES_MIN),
        _ => None,
    }
}

/// How the vectors of a call, or the blocks of each rank, are cut in segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Elements of a segment, but for the last one.
    pub(super) elements: u64,
    /// How many segments there are.
    pub(super) count: u64,
    /// Elements of what is cut.
    pub(super) whole: u64,
    /// Each rank has a block, and all of them are cut alike.
    has_blocks: bool,
}

impl Cut {
    /// `None`: it stays in one piece, since it is small, or since results would depend on where elements lie.
    pub(super) fn of(
        operation: Operation,
        name: &str,
        shape: &Shape,
        count: u64,
        is_oversubscribed: bool,
    ) -> Option<Cut> {
        let has_blocks = match operation {
            Operation::Allreduce | Operation::Broadcast | Operation::Reduce => false,
            Operation::Gather | Operation::Scatter | Operation::Allgather => true,
            Operation::Alltoall | Operation::ReduceScatter => true,
            _ => return None,
        };
        // Round a ring each part of a vector begins with another rank.
        if name == "allreduce:ring" || shape.element_bytes == 0 {
            return None;
        }
        let whole = if has_blocks { count } else { shape.count };
        let line = 64u64.div_ceil(shape.element_bytes);
        let most = match operation {
            _ if is_oversubscribed => SEGMENT_BYTES_OVERSUBSCRIBED,
            // All copy at the same time anyhow.
            _ if !operation.is_one_way() => 2 * SEGMENT_BYTES,
            _ => SEGMENT_BYTES,
        };
        let sends_many =
            matches!(operation, Operation::Scatter | Operation::Alltoall | Operation::ReduceScatter);
        let room = BOUNCE_BYTES as u64 / if sends_many { u64::from(shape.ranks) } else { 1 };
        let most = (most.min(room) / shape.element_bytes).max(1);
        // An odd number: segments and calls take turns with two bounce buffers.
        let wanted = whole.div_ceil(most) | 1;
        let elements = whole.div_ceil(wanted).next_multiple_of(line).min(whole);
        let count = whole.div_ceil(elements.max(1));
        (count > 1).then_some(Cut { elements, count, whole, has_blocks })
    }

    /// The shape of a segment of so many elements: the first one.
    pub(super) fn part(&self, shape: &Shape, elements: u64) -> Shape {
        if !self.has_blocks {
            return Shape { count: elements, ..shape.clone() };
        }
        let block = |rank| (u64::from(rank) * self.whole, elements);
        let blocks = Blocks::Listed((0..shape.ranks).map(block).collect());
        // A vector that is reduced is as long as all blocks.
        let count = shape.count / self.whole * elements;
        Shape { count, arriving: blocks.clone(), blocks, ..shape.clone() }
    }
}
