//! What is chosen where no rule says anything: algorithms that are never far from the best on shared memory.

use super::{Choice, Operation, Question};

/// From here on a vector is worth splitting. Bytes.
const SPLIT_BYTES: u64 = 32 << 10;
/// From here on blocks go straight to where they belong. Bytes.
const DIRECT_BYTES: u64 = 1 << 10;
/// Up to here large parts of vectors go straight from each rank to all that need them: each looks at them where they lie.
/// Ranks.
const DIRECT_RANKS_MAX: u32 = 64;
/// From here on a broadcast goes in segments along a chain of few ranks. Bytes.
const SEGMENTED_BYTES: u64 = 256 << 10;

/// The sizes from which on another choice is made, ascending. Bytes.
pub(super) const SIZES: [u64; 3] = [DIRECT_BYTES, SPLIT_BYTES, SEGMENTED_BYTES];

pub(super) fn choose(question: &Question) -> Choice<'static> {
    let &Question { ranks, bytes, commutative, packed, uniform, .. } = question;
    let crowded = question.is_crowded();
    let is_direct = ranks <= DIRECT_RANKS_MAX;
    Choice::new(match question.operation {
        // Where ranks share processors, a wait costs a change of processes: those through one rank wait least.
        Operation::Barrier if crowded => "barrier:linear",
        Operation::Broadcast if crowded && (bytes < SPLIT_BYTES || is_direct) => "bcast:linear",
        Operation::Gather if crowded => "gather:linear",
        Operation::Scatter if crowded => "scatter:linear",
        Operation::Allgather if crowded && packed && bytes.saturating_mul(u64::from(ranks)) < SPLIT_BYTES => {
            "allgather:gather-bcast"
        }
        Operation::Allgather if crowded && is_direct => "allgather:linear",
        Operation::ReduceScatter if crowded && is_direct && bytes >= DIRECT_BYTES => "reduce_scatter:linear",
        Operation::Reduce if crowded && bytes < SPLIT_BYTES => "reduce:linear",
        Operation::Allreduce if crowded && bytes < SPLIT_BYTES => "allreduce:linear",
        Operation::Barrier => "barrier:dissemination",
        Operation::Broadcast if bytes >= SEGMENTED_BYTES && ranks > 2 => "bcast:scatter-allgather",
        Operation::Broadcast => "bcast:binomial",
        Operation::Gather if bytes < DIRECT_BYTES && ranks > 4 => "gather:binomial",
        Operation::Gather => "gather:linear",
        Operation::Scatter if bytes < DIRECT_BYTES && ranks > 4 => "scatter:binomial",
        Operation::Scatter => "scatter:linear",
        Operation::Allgather if bytes >= SPLIT_BYTES => "allgather:ring",
        Operation::Allgather if packed && ranks.is_power_of_two() => "allgather:recursive-doubling",
        Operation::Allgather => "allgather:bruck",
        Operation::Reduce if commutative => "reduce:binomial",
        Operation::Reduce => "reduce:binomial-in-order",
        Operation::Allreduce if bytes >= SPLIT_BYTES && is_direct => "allreduce:direct",
        Operation::Allreduce if bytes >= SPLIT_BYTES => "allreduce:rabenseifner",
        Operation::Allreduce => "allreduce:recursive-doubling",
        Operation::ReduceScatter if bytes >= DIRECT_BYTES && commutative => "reduce_scatter:ring",
        Operation::ReduceScatter if bytes < DIRECT_BYTES && packed && ranks > 4 => {
            "reduce_scatter:reduce-scatter"
        }
        Operation::ReduceScatter => "reduce_scatter:linear",
        Operation::Alltoall if uniform && bytes < 64 && ranks > 8 => "alltoall:bruck",
        Operation::Alltoall if bytes >= SPLIT_BYTES => "alltoall:pairwise",
        Operation::Alltoall => "alltoall:linear",
        Operation::Scan => "scan:recursive-doubling",
        Operation::Exscan => "exscan:recursive-doubling",
        // One algorithm each, whatever it is called.
        Operation::NeighbourAllgather => "neighbour_allgather:linear",
        Operation::NeighbourAlltoall => "neighbour_alltoall:linear",
    })
}
