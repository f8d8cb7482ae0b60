//! What is chosen where no rule says anything: algorithms that are never far from the best on shared memory.

use super::{Choice, Operation, Question};

/// From here on a vector is worth splitting. Bytes.
const SPLIT_BYTES: u64 = 32 << 10;
/// From here on blocks go straight to where they belong. Bytes.
const DIRECT_BYTES: u64 = 1 << 10;
/// From here on a broadcast goes in segments along a chain of few ranks. Bytes.
const SEGMENTED_BYTES: u64 = 256 << 10;

/// The sizes from which on another choice is made, ascending. Bytes.
pub(super) const SIZES: [u64; 3] = [DIRECT_BYTES, SPLIT_BYTES, SEGMENTED_BYTES];

pub(super) fn choose(question: &Question) -> Choice<'static> {
    let &Question { ranks, bytes, commutative, packed, uniform, .. } = question;
    Choice::new(match question.operation {
        Operation::Barrier => "barrier:dissemination",
        Operation::Bcast if bytes >= SEGMENTED_BYTES && ranks > 2 => "bcast:scatter-allgather",
        Operation::Bcast => "bcast:binomial",
        Operation::Gather if bytes < DIRECT_BYTES && ranks > 4 => "gather:binomial",
        Operation::Gather => "gather:linear",
        Operation::Scatter if bytes < DIRECT_BYTES && ranks > 4 => "scatter:binomial",
        Operation::Scatter => "scatter:linear",
        Operation::Allgather if bytes >= SPLIT_BYTES => "allgather:ring",
        Operation::Allgather if packed && ranks.is_power_of_two() => "allgather:recursive-doubling",
        Operation::Allgather => "allgather:bruck",
        Operation::Reduce if commutative => "reduce:binomial",
        Operation::Reduce => "reduce:binomial-in-order",
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
    })
}
