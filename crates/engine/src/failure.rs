//! How a run can fail, in words that name the operation and the peer.

use castell_base::Rank;
use castell_shm::job::Death;
use std::fmt;

/// Why a run ended without finishing its schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rank whose run failed.
    pub rank: Rank,
    /// The operation, as it is printed in GOAL text with its label, if it is known.
    pub operation: Option<String>,
    /// What happened.
    pub cause: Cause,
}

/// What made a run fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The peer of the operation died.
    PeerDied {
        /// Who.
        peer: Rank,
        /// How.
        death: Death,
    },
    /// The peer of the operation left the job before it did its part.
    PeerLeft {
        /// Who.
        peer: Rank,
    },
    /// The message's size is not the receive's.
    SizeMismatch {
        /// Sender.
        peer: Rank,
        /// Bytes of the message.
        sent: u64,
        /// Bytes of the receive.
        expected: u64,
    },
    /// The peer's run of the same pattern failed.
    PeerFailed {
        /// Who told us.
        peer: Rank,
        /// Whom its failure names.
        culprit: Rank,
    },
    /// A buffer is not in this process's memory, or not in its peer's.
    BadAddress {
        /// The other end of the transfer.
        peer: Rank,
    },
    /// The kernel does not let this process read the memory of its peer any more, though it did before.
    CopyForbidden {
        /// The peer.
        peer: Rank,
    },
    /// A put or get names memory outside the peer's scratchpad, or a peer's run that has ended.
    BadTarget {
        /// The peer.
        peer: Rank,
    },
    /// A member of the communicator called something else in the place of this call.
    CallsDiffer {
        /// Who.
        peer: Rank,
        /// What it called.
        theirs: Box<str>,
        /// What was called here.
        ours: Box<str>,
    },
    /// What the function of a `call` operation had started failed.
    Function {
        /// Why.
        reason: Box<str>,
    },
    /// The job ends: the engine was shut down under the run.
    ShutDown,
}

impl Cause {
    /// The rank that is to blame.
    pub fn culprit(&self, me: Rank) -> Rank {
        match self {
            Cause::PeerDied { peer, .. }
            | Cause::PeerLeft { peer }
            | Cause::SizeMismatch { peer, .. }
            | Cause::BadAddress { peer }
            | Cause::CopyForbidden { peer }
            | Cause::CallsDiffer { peer, .. }
            | Cause::BadTarget { peer } => *peer,
            Cause::PeerFailed { culprit, .. } => *culprit,
            Cause::Function { .. } | Cause::ShutDown => me,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: ", self.rank)?;
        if let Some(operation) = &self.operation {
            write!(f, "`{operation}`: ")?;
        }
        match &self.cause {
            Cause::PeerDied { peer, death } => write!(f, "rank {peer} {death}"),
            Cause::PeerLeft { peer } => write!(f, "rank {peer} left the job before it did its part"),
            Cause::SizeMismatch { peer, sent, expected } => write!(
                f,
                "the sizes do not match: rank {peer} sent {sent} bytes, the receive is for {expected} bytes"
            ),
            Cause::PeerFailed { peer, culprit } if peer == culprit => {
                write!(f, "the run of rank {peer} failed")
            }
            Cause::PeerFailed { peer, culprit } => {
                write!(f, "the run of rank {peer} failed because of rank {culprit}")
            }
            Cause::BadAddress { peer } => write!(
                f,
                "a buffer is not readable or writable memory, here or in rank {peer}: check addresses and sizes"
            ),
            Cause::CopyForbidden { peer } => write!(
                f,
                "the kernel forbids reading the memory of rank {peer}, which it allowed before: do not change a process's user or \
                 whether it can be dumped between calls"
            ),
            Cause::BadTarget { peer } => {
                write!(f, "outside the scratchpad of rank {peer}'s run, or that run has ended")
            }
            Cause::CallsDiffer { peer, theirs, ours } => write!(
                f,
                "the calls differ: rank {peer} called {theirs} where rank {} called {ours}; all ranks of a \
                 communicator make the same calls in the same order",
                self.rank
            ),
            Cause::Function { reason } => write!(f, "{reason}"),
            Cause::ShutDown => write!(f, "the job was finalized while the run was still going"),
        }
    }
}

impl std::error::Error for Failure {}
