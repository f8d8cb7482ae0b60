//! What a program made of a trace does not say by itself.

use std::fmt;

/// Something that is not in the trace but in the program, or the other way round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Collective calls, of which a trace holds no messages.
    Collectives {
        /// MPI's name of the call.
        call: &'static str,
        /// How many such operations (each called by all members).
        operations: u64,
        /// What stands for them.
        algorithm: &'static str,
    },
    /// Calls without a place in the program.
    LeftOut {
        /// What they are.
        what: &'static str,
        /// How many.
        calls: u64,
    },
    /// Messages that overtook others of the same sender, receiver and tag.
    Overtaking {
        /// How many.
        messages: u64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Collectives { call, operations, algorithm } => {
                write!(f, "{operations} x {call} became {algorithm}")
            }
            Note::LeftOut { what, calls } => write!(f, "{calls} {what} left out"),
            Note::Overtaking { messages } => write!(
                f,
                "{messages} messages overtook others of the same sender, receiver and tag (MPI allows that on different \
                 communicators, which GOAL does not have): they may be received in another order"
            ),
        }
    }
}
