//! What runs are called: by the table, by other ranks, by messages.

use crate::messages::Token;
use castell_goal::schedule::OpId;

/// Names a run: its place in the table and a serial number that no other run of this process ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunRef {
    pub(crate) slot: u32,
    pub(crate) serial: u64,
}

/// How a run finds its counterpart in other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Only with the run of the same number with that peer.
    Numbered,
    /// With all open runs, by source and tag in posting order.
    Open,
    /// With the call of the same number in the same context, see `number.rs`.
    Call { context: u32, word: u32 },
}

/// How messages call an operation.
#[inline]
pub(super) fn token(run: RunRef, op: OpId) -> Token {
    Token { owner: run.slot, part: op.0 }
}
