//! What can go wrong, and how operations are named when it does.

use crate::deadlock::Deadlock;
use castell_base::Rank;
use castell_goal::compile::CompileError;
use castell_goal::graph::GraphError;
use std::fmt;

/// An operation as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationName {
    /// Where it is executed.
    pub rank: Rank,
    /// Its label, or its number among the rank's operations.
    pub name: String,
    /// What it does: "recv of 8 bytes from rank 3, tag 7".
    pub what: String,
}

impl fmt::Display for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: {} ({})", self.rank, self.name, self.what)
    }
}

/// Why a simulation has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// A rank's graph is no schedule.
    #[error("rank {rank}: {error}")]
    Compile {
        /// The rank.
        rank: Rank,
        /// What is wrong with its graph.
        error: CompileError,
    },
    /// A rank's graph could not be made.
    #[error("rank {rank}: {error}")]
    Generate {
        /// The rank.
        rank: Rank,
        /// Why not.
        error: GraphError,
    },
    /// A peer outside the program.
    #[error("{operation}: there is no rank {peer} in a program of {ranks} ranks; correct the peer")]
    UnknownRank {
        /// What names it.
        operation: Box<OperationName>,
        /// The rank that does not exist.
        peer: Rank,
        /// Size of the program.
        ranks: u32,
    },
    /// A message met a receive of another size.
    #[error(
        "a message of {sent} bytes met a receive of {expected} bytes: {send} - {recv}; make the sizes equal"
    )]
    SizeMismatch {
        /// The send.
        send: Box<OperationName>,
        /// Bytes of the message.
        sent: u64,
        /// The receive.
        recv: Box<OperationName>,
        /// Bytes that the receive takes.
        expected: u64,
    },
    /// Nothing can happen any more, and not everything has.
    #[error("{0}")]
    Deadlock(Box<Deadlock>),
    /// Times beyond what 64 bits of picoseconds hold (213 days).
    #[error(
        "{operation}: would last or start beyond 213 days, the longest time there is; shorten it or the model's parameters"
    )]
    Overflow {
        /// What would happen too late.
        operation: Box<OperationName>,
    },
    /// Data were to be carried, but the operation names memory of a process.
    #[error("{operation}: names an address, and a simulation has no memory of processes; use the scratchpad")]
    Address {
        /// The operation.
        operation: Box<OperationName>,
    },
    /// Data were to be carried, and a put or get leaves the other side's scratchpad.
    #[error(
        "{operation}: bytes {offset} to {end} of rank {peer}'s scratchpad, which has {available}; correct the offset"
    )]
    RemoteBounds {
        /// The put or get.
        operation: Box<OperationName>,
        /// Whose scratchpad.
        peer: Rank,
        /// First byte.
        offset: u64,
        /// First byte behind.
        end: u64,
        /// Size of the scratchpad.
        available: u64,
    },
    /// The scratchpads handed in do not fit the program.
    #[error(
        "rank {rank}: was given a scratchpad of {given} bytes, its graph has one of {expected}; give it that many"
    )]
    Scratchpad {
        /// The rank.
        rank: Rank,
        /// Bytes handed in.
        given: u64,
        /// Bytes that its graph asks for.
        expected: u64,
    },
    /// The network has fewer places than the program has ranks.
    #[error(
        "the network has places for {places} ranks, and the program has {ranks}; choose a larger network"
    )]
    NetworkTooSmall {
        /// Ranks of the program.
        ranks: u32,
        /// Ranks that the network has room for.
        places: u32,
    },
    /// A model without messages of their own meets a network.
    #[error("under {0}, messages are exchanged all at once and meet on no links; leave the network out")]
    NoNetwork(&'static str),
    /// Hosts of fewer ranks than the program has.
    #[error("the program has {ranks} ranks, and hosts are given for {places}")]
    HostsTooFew {
        /// Of the program.
        ranks: u32,
        /// That have a host.
        places: u32,
    },
    /// Two levels that don't go together, or with something else.
    #[error("messages within hosts cost by another model than those between hosts: {0}")]
    Levels(&'static str),
    /// A model that this engine does not know.
    #[error("the simulator does not know the model {0}; choose another one")]
    UnknownModel(&'static str),
    /// An engine that was asked for by name cannot run this.
    #[error("the {engine} engine cannot simulate this: {reason}; let castell choose the engine")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// What it cannot do.
        reason: String,
    },
}
