//! What can be wrong with GOAL text, and how it is said.

use crate::graph::GraphError;
use crate::op::IllegalArithmetic;
use castell_base::Rank;
use std::fmt;

/// How many errors [`parse`](super::parse) reports before it gives up on a file.
pub const ERRORS_MAX: usize = 20;

/// Everything that was found wrong with a text, in the order of the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseErrors {
    /// Name of the file, as the caller gave it.
    pub file: String,
    /// The errors, at most [`ERRORS_MAX`].
    pub errors: Vec<ParseError>,
    /// Whether reading stopped at the bound: there may be more.
    pub stopped: bool,
}

impl fmt::Display for ParseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{error}", self.file)?;
        }
        if self.stopped {
            write!(f, "\n{}: too many errors; the rest of the file was not read", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseErrors {}

/// One error: where, in which operation, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// The rank whose block it is in.
    pub rank: Option<Rank>,
    /// Label of the operation it is in.
    pub label: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

impl ParseError {
    /// The error without its place: what, and in which operation.
    pub fn message(&self) -> String {
        let mut message = self.problem.to_string();
        match (&self.label, self.rank) {
            (Some(label), Some(rank)) => message += &format!(" (in `{label}` of rank {rank})"),
            (None, Some(rank)) => message += &format!(" (in rank {rank})"),
            _ => (),
        }
        message
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message())
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The grammar wants something else here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What may stand here.
        expected: String,
        /// What stands here.
        found: String,
    },
    /// A number does not fit.
    #[error("{digits} ({what}) is too large: at most {limit}")]
    TooLarge {
        /// What the number stands for.
        what: &'static str,
        /// The number as written, shortened.
        digits: String,
        /// The largest that is allowed.
        limit: u64,
    },
    /// An option was given twice.
    #[error("`{0}` is given twice for this operation")]
    OptionTwice(&'static str),
    /// An option that this operation does not have.
    #[error("`{operation}` has no `{option}`")]
    OptionForeign {
        /// The operation's word.
        operation: &'static str,
        /// The option's word.
        option: &'static str,
    },
    /// `-1` where only a receive may be unspecific.
    #[error("a send has one {0}: -1 (any) is for receives")]
    SendToAny(&'static str),
    /// No `num_ranks` before the first rank.
    #[error("`num_ranks N` is missing before the first rank")]
    RanksUnknown,
    /// `num_ranks` a second time.
    #[error("`num_ranks` is given twice")]
    RanksTwice,
    /// `num_ranks 0`.
    #[error("a program has at least one rank")]
    NoRanks,
    /// A rank that is not the next one.
    #[error(
        "rank {found} stands where rank {expected} is expected: ranks are listed in order, none left out"
    )]
    RankOutOfOrder {
        /// The next rank in order.
        expected: u32,
        /// The rank given.
        found: u32,
    },
    /// A rank that was given before.
    #[error("rank {0} is given twice")]
    RankTwice(u32),
    /// A rank that `num_ranks` excludes.
    #[error("rank {rank} does not exist: num_ranks is {ranks}, so the last rank is {}", ranks - 1)]
    RankBeyond {
        /// The rank given.
        rank: u32,
        /// What `num_ranks` said.
        ranks: u32,
    },
    /// A block was not closed before the next rank, or before the end.
    #[error("rank {rank}, opened in line {line}, is not closed: `}}` is missing before this")]
    Unclosed {
        /// The open rank.
        rank: u32,
        /// Where its block began.
        line: u32,
    },
    /// `/*` without `*/`.
    #[error("this comment is never closed: `*/` is missing")]
    CommentUnclosed,
    /// Two operations of a rank with the same label.
    #[error("label `{label}` is defined twice: first in line {first}")]
    LabelTwice {
        /// The label.
        label: String,
        /// Line of the first definition.
        first: u32,
    },
    /// A label that LogGOPSim would take as an operation.
    #[error("`{0}` cannot be a label: it begins an operation or a rank")]
    LabelReserved(String),
    /// A label that no operation of the rank has.
    #[error("no operation of this rank has the label `{label}`{}", did_you_mean(closest))]
    LabelUnknown {
        /// The label.
        label: String,
        /// The most similar label of the rank.
        closest: Option<String>,
    },
    /// A label that is defined further down.
    #[error("label `{label}` is used before its definition in line {defined}: move this line below it")]
    LabelEarly {
        /// The label.
        label: String,
        /// Line of the definition.
        defined: u32,
    },
    /// A label that is too long to store.
    #[error("a label of {0} bytes: at most {max} are allowed", max = super::LABEL_BYTES_MAX)]
    LabelLong(usize),
    /// The list of blocks does not hold what the operation moves.
    #[error("the blocks hold {blocks} bytes, but the operation needs {bytes}")]
    BlocksDisagree {
        /// Sum of the lengths.
        blocks: u64,
        /// What the operation says.
        bytes: u64,
    },
    /// A list of blocks where only one piece of memory may stand.
    #[error("expected one place (`@offset`, `0xaddress` or `void`), found a list of blocks")]
    ListForeign,
    /// An operator that its type does not have.
    #[error("{0}")]
    Illegal(IllegalArithmetic),
    /// `scratchpad` a second time.
    #[error("the scratchpad of this rank is given twice")]
    ScratchpadTwice,
    /// An operation that would wait for itself.
    #[error("`{0}` cannot wait for itself")]
    SelfDependency(String),
    /// The graph refused the operation or edge.
    #[error("{0}")]
    Refused(GraphError),
}

fn did_you_mean(closest: &Option<String>) -> String {
    closest.as_ref().map(|label| format!("; did you mean `{label}`?")).unwrap_or_default()
}
