//! LogGOPSim's binary format, which its `txt2bin` writes and its simulator (and ATLAHS) reads.
//!
//! Little-endian, unaligned, without checksum:
//!
//! | where | bytes | what |
//! |---|---|---|
//! | header | 8 | magic 4223; 2342 once a simulation with `--save-mem` has used the file up |
//! | | 4 | number of ranks |
//! | | 1, 1 | highest processor, highest network interface of all operations |
//! | table | 16 a rank | start and end of the rank's block, counted from byte 8 of the file |
//! | block | 4, 4 | number of operations, number of independent ones |
//! | | 4 each | the independent operations |
//! | | 39 each | the operations: unmet dependencies (4), kind (1: 1 send, 2 receive, 3 calc), peer (4), size or duration (8), tag (4), processor (1), interface (1), then number (4) and first index (4) of those that wait for its end, the same (4, 4) of those that wait for its start |
//! | | 4 each | the list into which the indices point |
//!
//! A peer or tag of 2^32 - 1 means any. There are no labels, no buffers and no other operations.

mod read;
mod write;

pub use read::read;
pub use write::write;

use castell_base::Rank;

/// First eight bytes of a file.
pub const MAGIC: u64 = 4223;
/// First eight bytes of a file whose counters a simulation has counted down.
pub const MAGIC_USED_UP: u64 = 2342;

/// The most ranks that are read and written: each takes 24 bytes, also where it does nothing.
pub const RANKS_MAX: u32 = 1 << 26;

const HEADER_BYTES: u64 = 8 + 4 + 1 + 1;
/// Positions in the table of blocks count from here.
const ORIGIN: u64 = 8;
const TABLE_ENTRY_BYTES: u64 = 16;
const NODE_BYTES: usize = 39;
const ANY: u32 = u32::MAX;

mod kind {
    pub const SEND: u8 = 1;
    pub const RECV: u8 = 2;
    pub const CALC: u8 = 3;
}

/// Whether these bytes begin like a file of LogGOPSim's, used up or not.
pub fn is_loggopsim(bytes: &[u8]) -> bool {
    let magic = bytes.first_chunk().map(|&magic| u64::from_le_bytes(magic));
    matches!(magic, Some(MAGIC | MAGIC_USED_UP))
}

/// Why bytes are no LogGOPSim program, or a program cannot become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BinaryError {
    /// Another magic number.
    #[error("not a LogGOPSim binary: it does not begin with the number {MAGIC}")]
    Magic,
    /// The magic number of a file that a simulation has changed.
    #[error(
        "this LogGOPSim binary was used up by a simulation with --save-mem, which counts its dependencies down; \
         make it anew from its text"
    )]
    UsedUp,
    /// The file ends too early.
    #[error("the file ends within {what}: {bytes} bytes, but at least {needed} are needed")]
    Truncated {
        /// What is cut off.
        what: &'static str,
        /// Length of the file.
        bytes: u64,
        /// Length that is needed.
        needed: u64,
    },
    /// No ranks, or more than [`RANKS_MAX`].
    #[error("{0} ranks; this format is read and written for 1 to {RANKS_MAX} ranks")]
    Ranks(u32),
    /// A rank's block does not begin where the last one ended.
    #[error("the block of rank {rank} starts at {start}, but the block before it ends at {expected}")]
    BlockStart {
        /// The rank.
        rank: Rank,
        /// Start, counted from byte 8.
        start: u64,
        /// Where it has to start.
        expected: u64,
    },
    /// A rank's block is not as long as what it holds.
    #[error("the block of rank {rank} has {bytes} bytes, but {what} it takes {needed}")]
    BlockBytes {
        /// The rank.
        rank: Rank,
        /// Its length by the table.
        bytes: u64,
        /// What of it was counted.
        what: &'static str,
        /// The length by what it holds.
        needed: u64,
    },
    /// Bytes behind the last block.
    #[error("{0} bytes follow the last rank's block")]
    Trailing(u64),
    /// An operation that is not to be understood.
    #[error("operation {index} of rank {rank}: {problem}")]
    Node {
        /// The rank.
        rank: Rank,
        /// The operation, from 0.
        index: u32,
        /// What is wrong with it.
        problem: NodeProblem,
    },
    /// An operation that the format cannot hold.
    #[error(
        "{name} of rank {rank} cannot be written in LogGOPSim's format, which has no {lacks}: {operation}"
    )]
    Unsupported {
        /// The rank.
        rank: Rank,
        /// Label or number of the operation.
        name: String,
        /// What the format has not.
        lacks: &'static str,
        /// The operation as text.
        operation: String,
    },
    /// More dependencies in a rank than indices can count.
    #[error("rank {rank} has {edges} dependencies; LogGOPSim's format can count {max}", max = u32::MAX)]
    TooManyEdges {
        /// The rank.
        rank: Rank,
        /// How many it has.
        edges: u64,
    },
}

/// What is wrong with an operation in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeProblem {
    /// Not send, receive or calc.
    #[error("kind {0} is unknown (1 send, 2 receive, 3 calc)")]
    Kind(u8),
    /// Its successors are not where the last operation's ended.
    #[error("its list of successors starts at {first}, but the list before it ends at {expected}")]
    List {
        /// Where it says that the list starts.
        first: u32,
        /// Where it has to start.
        expected: u32,
    },
    /// Its successors leave the list.
    #[error("its {count} successors from {first} on leave the list of {entries}")]
    ListEnd {
        /// Start.
        first: u32,
        /// Length.
        count: u32,
        /// Entries of the whole list.
        entries: u32,
    },
    /// A successor that does not exist.
    #[error("its successor {successor} does not exist: the rank has {nodes} operations")]
    Successor {
        /// The successor.
        successor: u32,
        /// Operations of the rank.
        nodes: u32,
    },
    /// The counter of unmet dependencies is not the number of edges that end here.
    #[error("it counts {stored} unmet dependencies, but {edges} edges end at it")]
    Unmet {
        /// The counter.
        stored: u32,
        /// The edges.
        edges: u32,
    },
    /// An entry of the list of independent operations is not the next operation without dependencies.
    #[error("it is listed as independent, but {0}")]
    Independent(&'static str),
    /// An operation without dependencies is not in the list of independent ones.
    #[error("it has no dependencies, but is not listed as independent")]
    NotIndependent,
    /// The graph refused it.
    #[error("{0}")]
    Refused(crate::graph::GraphError),
}
