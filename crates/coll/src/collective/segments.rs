//! How large calls are cut: in segments that ranks work on one behind the other, and which messages stay in their senders' buffers.

use super::Operation;
use castell_collectives::collective::{Blocks, Shape};
use castell_engine::slot::BOUNCE_BYTES;
use castell_shm::cma_probe::WORTH;

/// Segments in which large vectors and blocks are worked on: one rank copies a segment while another one copies or reduces the one
/// before. Bytes.
const SEGMENT_BYTES: u64 = 32 << 10;
/// Where ranks share processors each segment costs changes of processes. Bytes.
const SEGMENT_BYTES_OVERSUBSCRIBED: u64 = 512 << 10;
/// The longest segments of what many ranks read that have a processor each, or of which each reduces a part. Bytes.
const SEGMENT_BYTES_READ_BY_MANY: u64 = 128 << 10;
const SEGMENT_BYTES_IN_PARTS: u64 = 256 << 10;
/// Up to so many ranks are few.
const FEW_RANKS: u32 = 4;
/// From here on blocks are read out of the senders' own buffers where one rank needs each of them. Bytes.
const ZERO_COPY_BYTES_MIN: u64 = 256 << 10;
/// The same where the sender's copy into its bounce buffer is hidden well. Bytes.
const ZERO_COPY_LATE_BYTES_MIN: u64 = 384 << 10;
/// The same where many exchange blocks and each rank has a processor. Bytes.
const ZERO_COPY_EARLY_BYTES_MIN: u64 = 128 << 10;
/// The same for all blocks of a root together, where each rank has a processor. (Many that read within one large page wait for
/// each other: below this size they did.) Bytes.
const ZERO_COPY_SCATTER_BYTES_MIN: u64 = 4 << 20;
/// The same of vectors of two ranks that are reduced. Bytes.
const ZERO_COPY_VECTOR_BYTES_MIN: u64 = 2 << 20;

/// How dear copies by the kernel may be, in copies by the processor alone, for messages of so many bytes to be read out of their
/// senders' buffers; `None`: they go through bounce buffers however cheap that is. It is worth while where each is read by one rank: what
/// several read is faster out of a bounce buffer, where it is copied once, and page by page by nobody. Where data goes one way and
/// both ranks have a processor, sender and receiver work at the same time on segments.
pub(super) fn zero_copy_up_to(
    operation: Operation,
    ranks: u32,
    bytes: u64,
    is_oversubscribed: bool,
) -> Option<u32> {
    let (least, dearness_max) = match operation {
        Operation::Alltoall if ranks > FEW_RANKS && !is_oversubscribed => (ZERO_COPY_EARLY_BYTES_MIN, WORTH),
        Operation::Alltoall => (ZERO_COPY_BYTES_MIN, WORTH),
        Operation::Scatter if is_oversubscribed => (ZERO_COPY_BYTES_MIN, WORTH),
        // All copy at the same time what the root would copy out one after the other.
        Operation::Scatter if ranks > 2 => (ZERO_COPY_SCATTER_BYTES_MIN / u64::from(ranks), ranks),
        Operation::Allgather if ranks == 2 => (ZERO_COPY_LATE_BYTES_MIN, WORTH),
        Operation::Allreduce if ranks == 2 => (ZERO_COPY_VECTOR_BYTES_MIN, WORTH),
        _ => return None,
    };
    (bytes >= least).then_some(dearness_max)
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
        // Three at least, so that one is copied while another one is read.
        let third = whole.saturating_mul(shape.element_bytes) / 3 + 64;
        let up_to = |most| third.clamp(2 * SEGMENT_BYTES, most);
        let has_many = shape.ranks > FEW_RANKS;
        let most = match operation {
            _ if is_oversubscribed => SEGMENT_BYTES_OVERSUBSCRIBED,
            // Each does little of a segment, and all wait for all.
            Operation::Reduce if name == "reduce:direct" => up_to(SEGMENT_BYTES_IN_PARTS),
            Operation::Allreduce if has_many => up_to(SEGMENT_BYTES_IN_PARTS),
            Operation::Broadcast if has_many => up_to(SEGMENT_BYTES_READ_BY_MANY),
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
