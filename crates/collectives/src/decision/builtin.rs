//! What is chosen where no rule says anything: algorithms that are never far from the best on shared memory.
//!
//! What was measured for it, on two processors and on sixteen, stands in `experiments/built-in-choices`.

use super::{Choice, Operation, Question};

/// From here on a vector is worth splitting. Bytes.
const SPLIT_BYTES: u64 = 32 << 10;
/// From here on each of several ranks that have a processor each reduces a part of a vector. Bytes.
const PARTS_BYTES: u64 = 2 << 10;
/// From here on blocks go straight to where they belong. Bytes.
const DIRECT_BYTES: u64 = 1 << 10;
/// Up to here large parts of vectors go straight from each rank to all that need them: each looks at them where they lie.
/// Ranks.
const DIRECT_RANKS_MAX: u32 = 64;
/// From here on many ranks that pass a broadcast on do so in parts. Bytes.
const SEGMENTED_BYTES: u64 = 256 << 10;
/// From here on it is worth while that several processors reduce. Bytes.
const SHARED_OUT_BYTES: u64 = 1 << 20;

/// Up to here a message leaves its sender whole, whenever the receiver comes. Bytes.
const PIPE_BYTES: u64 = 1 << 20;

/// Below this size it costs next to nothing to look at one more vector. Bytes.
const TINY_BYTES: u64 = 64;
/// Where ranks share processors: up to here many ranks' blocks go through one of them. Bytes.
const FLAT_BYTES: u64 = 512;
/// From more ranks on.
const FLAT_ALLGATHER_RANKS_MAX: u32 = 16;
/// Few ranks exchange what they have all at once. Ranks.
const FLAT_RANKS_MAX: u32 = 4;
/// Small vectors that are reduced. Ranks.
const FLAT_ALLREDUCE_RANKS_MAX: u32 = 8;
/// Barriers have nothing but the flags. Ranks.
const FLAT_BARRIER_RANKS_MAX: u32 = 16;
/// Up to here scans pass small results from rank to rank. Ranks.
const PASSED_ON_RANKS_MAX: u32 = 12;
/// Messages up to here have a place of their own. Bytes.
const PLACE_BYTES: u64 = 4 << 10;
/// From here on partial results go along the ranks where these share processors, since each passes each vector on once. Bytes.
const CHAINED_BYTES: u64 = 4 << 10;

/// The sizes from which on another choice is made, ascending. Bytes.
pub(super) const SIZES: [u64; 9] = [
    TINY_BYTES,
    FLAT_BYTES,
    DIRECT_BYTES,
    PARTS_BYTES,
    CHAINED_BYTES,
    PLACE_BYTES + 1,
    SPLIT_BYTES,
    SEGMENTED_BYTES,
    SHARED_OUT_BYTES,
];

/// Between hosts: from here on parts of vectors go between hosts at the same time. Bytes.
const SPLIT_OVER_HOSTS_BYTES: u64 = 32 << 10;

pub(super) fn choose(question: &Question) -> Choice<'static> {
    if question.is_for_hosts() {
        return Choice::new(over_hosts(question));
    }
    if question.ranks > 1 && is_exchanged(question) {
        // One wait each, and nobody waits for the one through which all goes.
        return Choice::new(format!("{}:a{}", question.operation, question.ranks));
    }
    Choice::new(if question.is_crowded() {
        for_shared_processors(question).unwrap_or_else(|| usual(question))
    } else {
        usual(question)
    })
}

/// Whether all exchange with all what they have.
fn is_exchanged(question: &Question) -> bool {
    let &Question { operation, ranks, bytes, started, .. } = question;
    let (ranks_max, below) = match operation {
        // A message of such a call costs more than a look at what lies there.
        Operation::Barrier if started && question.is_crowded() => (FLAT_RANKS_MAX, u64::MAX),
        Operation::Allreduce if started && question.is_crowded() => (FLAT_RANKS_MAX, CHAINED_BYTES),
        Operation::Barrier => (FLAT_BARRIER_RANKS_MAX, u64::MAX),
        // All messages leave before anybody waits: the call goes on by itself.
        Operation::Allreduce if started => (FLAT_BARRIER_RANKS_MAX, PLACE_BYTES + 1),
        Operation::Allreduce if ranks <= FLAT_RANKS_MAX => (FLAT_RANKS_MAX, SPLIT_BYTES),
        Operation::Allreduce if question.is_crowded() => (FLAT_ALLREDUCE_RANKS_MAX, CHAINED_BYTES),
        Operation::Allreduce => (FLAT_BARRIER_RANKS_MAX, TINY_BYTES),
        _ => return false,
    };
    ranks <= ranks_max && bytes < below
}

/// Where ranks share processors, a wait costs a change of processes: through one rank the others wait once.
fn for_shared_processors(question: &Question) -> Option<&'static str> {
    let &Question { ranks, bytes, commutative, packed, uniform, .. } = question;
    let is_direct = ranks <= DIRECT_RANKS_MAX;
    let all = bytes.saturating_mul(u64::from(ranks));
    Some(match question.operation {
        Operation::Barrier => "barrier:linear",
        Operation::Broadcast if bytes < SPLIT_BYTES || is_direct => "bcast:linear",
        Operation::Gather => "gather:linear",
        Operation::Scatter => "scatter:linear",
        // Each writes its block once, and all read it there; of many small ones it is dearer to look at each. Started calls write
        // it once for each.
        Operation::Allgather
            if packed
                && (ranks > FLAT_ALLGATHER_RANKS_MAX && bytes < FLAT_BYTES
                    || question.started && all < SPLIT_BYTES && ranks > 8) =>
        {
            "allgather:gather-bcast"
        }
        Operation::Allgather if is_direct => "allgather:linear",
        Operation::ReduceScatter if is_direct && (bytes >= DIRECT_BYTES || ranks <= 16) => {
            "reduce_scatter:linear"
        }
        Operation::ReduceScatter if packed && bytes < DIRECT_BYTES => "reduce_scatter:reduce-scatter",
        // The root reduces all vectors where they lie; in a tree, ranks would write down what they have in between.
        Operation::Reduce if bytes < SPLIT_BYTES || bytes < SHARED_OUT_BYTES && !question.started => {
            "reduce:linear"
        }
        Operation::Reduce if commutative => "reduce:binomial",
        Operation::Reduce => "reduce:binomial-in-order",
        Operation::Allreduce if bytes < SPLIT_BYTES => "allreduce:linear",
        // All blocks leave before anyone waits.
        Operation::Alltoall if is_direct => "alltoall:linear",
        // As long as what half of the ranks get in a round is small.
        Operation::Alltoall if uniform && bytes.saturating_mul(u64::from(ranks / 2)) <= PLACE_BYTES => {
            "alltoall:bruck"
        }
        Operation::Scan if !question.started && (ranks <= PASSED_ON_RANKS_MAX || bytes >= DIRECT_BYTES) => {
            "scan:linear"
        }
        Operation::Exscan if !question.started && (ranks <= PASSED_ON_RANKS_MAX || bytes >= DIRECT_BYTES) => {
            "exscan:linear"
        }
        Operation::Scan if ranks > FLAT_RANKS_MAX && bytes >= CHAINED_BYTES => "scan:linear",
        Operation::Exscan if ranks > FLAT_RANKS_MAX && (bytes >= CHAINED_BYTES || ranks <= 8) => {
            "exscan:linear"
        }
        _ => return None,
    })
}

/// Where some messages cross a network: few of them, of which each host's leader sends and gets its share. Reductions combine in one
/// order for all placements.
fn over_hosts(question: &Question) -> &'static str {
    let &Question { operation, hosts, bytes, packed, uniform, .. } = question;
    let is_large = bytes >= SPLIT_OVER_HOSTS_BYTES;
    match operation {
        Operation::Barrier => "barrier:two-level",
        Operation::Broadcast if is_large && hosts > 2 => "bcast:two-level-split",
        Operation::Broadcast => "bcast:two-level",
        Operation::Gather if bytes < DIRECT_BYTES => "gather:two-level",
        Operation::Gather => "gather:linear",
        Operation::Scatter if bytes < DIRECT_BYTES => "scatter:two-level",
        Operation::Scatter => "scatter:linear",
        Operation::Allgather if packed && !is_large => "allgather:two-level",
        Operation::Allgather if packed => "allgather:two-level-ring",
        Operation::Allgather => "allgather:bruck",
        Operation::Reduce => "reduce:two-level",
        Operation::Allreduce if is_large => "allreduce:two-level-split",
        Operation::Allreduce => "allreduce:two-level",
        Operation::ReduceScatter if packed => "reduce_scatter:two-level",
        Operation::ReduceScatter => "reduce_scatter:linear",
        Operation::Alltoall if uniform && bytes < DIRECT_BYTES => "alltoall:two-level",
        Operation::Alltoall if bytes >= SPLIT_BYTES => "alltoall:pairwise",
        Operation::Alltoall => "alltoall:linear",
        Operation::Scan => "scan:two-level",
        Operation::Exscan => "exscan:two-level",
        Operation::NeighbourAllgather => "neighbour_allgather:linear",
        Operation::NeighbourAlltoall => "neighbour_alltoall:linear",
    }
}

/// Where each rank has a processor: up to 64 of them read at the same time what one has written once, which trees and rings only pass on.
fn usual(question: &Question) -> &'static str {
    let &Question { operation, ranks, bytes, commutative, packed, uniform, started, .. } = question;
    let is_direct = ranks <= DIRECT_RANKS_MAX;
    match operation {
        Operation::Barrier => "barrier:dissemination",
        // Those that are started write what does not fit in a place once for each.
        Operation::Broadcast if is_direct && (!started || bytes <= PLACE_BYTES) => "bcast:linear",
        Operation::Broadcast if is_direct || bytes < SEGMENTED_BYTES => "bcast:binomial",
        Operation::Broadcast => "bcast:scatter-allgather",
        Operation::Gather if bytes < DIRECT_BYTES && !is_direct => "gather:binomial",
        Operation::Gather => "gather:linear",
        Operation::Scatter if bytes < DIRECT_BYTES && !is_direct => "scatter:binomial",
        Operation::Scatter => "scatter:linear",
        Operation::Allgather if is_direct => "allgather:linear",
        Operation::Allgather if bytes >= SPLIT_BYTES => "allgather:ring",
        Operation::Allgather if packed && ranks.is_power_of_two() => "allgather:recursive-doubling",
        Operation::Allgather => "allgather:bruck",
        // The root looks at all vectors where they lie, or at the parts that the others have reduced.
        Operation::Reduce if is_direct && bytes < linear_below(question) => "reduce:linear",
        Operation::Reduce if is_direct && ranks > 2 && (!started || bytes >= SHARED_OUT_BYTES) => {
            "reduce:direct"
        }
        Operation::Reduce if commutative => "reduce:binomial",
        Operation::Reduce => "reduce:binomial-in-order",
        // One message each: who comes last finds all that it needs, and nobody waits for the other.
        Operation::Allreduce if started && ranks == 2 && bytes <= PIPE_BYTES => {
            "allreduce:recursive-doubling"
        }
        Operation::Allreduce if is_direct && bytes >= parts_from(question) => "allreduce:direct",
        Operation::Allreduce if bytes >= SPLIT_BYTES => "allreduce:rabenseifner",
        Operation::Allreduce => "allreduce:recursive-doubling",
        Operation::ReduceScatter if is_direct => "reduce_scatter:linear",
        Operation::ReduceScatter if bytes >= DIRECT_BYTES && commutative => "reduce_scatter:ring",
        Operation::ReduceScatter if bytes < DIRECT_BYTES && packed => "reduce_scatter:reduce-scatter",
        Operation::ReduceScatter => "reduce_scatter:linear",
        Operation::Alltoall if uniform && bytes < TINY_BYTES && ranks > 16 => "alltoall:bruck",
        Operation::Alltoall if bytes >= SPLIT_BYTES && !(started && is_direct) => "alltoall:pairwise",
        Operation::Alltoall => "alltoall:linear",
        // Two ranks have nothing to share: who has the vector sends it.
        Operation::Scan if ranks == 2 && bytes >= CHAINED_BYTES => "scan:linear",
        Operation::Exscan if ranks == 2 => "exscan:linear",
        Operation::Scan => "scan:recursive-doubling",
        Operation::Exscan => "exscan:recursive-doubling",
        // One algorithm each, whatever it is called.
        Operation::NeighbourAllgather => "neighbour_allgather:linear",
        Operation::NeighbourAlltoall => "neighbour_alltoall:linear",
    }
}

/// Below how many bytes the root reduces all vectors.
fn linear_below(question: &Question) -> u64 {
    match question.ranks {
        // All others are done with it once they have sent.
        _ if question.started => PLACE_BYTES + 1,
        ..=FLAT_RANKS_MAX => SPLIT_BYTES,
        _ => FLAT_BYTES,
    }
}

/// From how many bytes on each rank reduces a part of a vector for all.
fn parts_from(question: &Question) -> u64 {
    if question.ranks == 2 || question.started { SPLIT_BYTES } else { PARTS_BYTES }
}
