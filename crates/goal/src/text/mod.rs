//! GOAL text: LogGOPSim's format, and ours, which is a superset of it.
//!
//! `docs/src/goal-text.md` describes the language. [`parse`] reads it with a hand-written scanner that allocates
//! nothing a line; [`print()`] writes a program so that [`parse`] gives the same program back.

mod dot;
mod error;
mod labels;
mod operation;
mod parser;
mod parts;
mod print;
mod print_schedule;
mod scanner;
mod usual;

pub use dot::{messages, print_dot};
pub use error::{ERRORS_MAX, ParseError, ParseErrors, Problem};
pub use print::{Operation, print, print_rank};
pub use print_schedule::print_schedule;

use crate::program::Program;
use castell_base::Threads;

/// The longest label that a text may hold, in bytes.
pub const LABEL_BYTES_MAX: usize = 4096;

/// Words that cannot be labels: LogGOPSim's scanner takes them as operations wherever a line begins.
pub const RESERVED: [&str; 5] = ["send", "recv", "calc", "rank", "num_ranks"];

/// Reads a program from GOAL text; `file` is its name in error messages.
///
/// Ranks that are missing at the end are empty; a program's memory is bounded by the text's length, whatever
/// `num_ranks` says. Bytes that are not UTF-8 are accepted in comments only.
///
/// # Errors
/// Everything that is wrong, up to [`ERRORS_MAX`] errors.
///
/// ```
/// let text = "num_ranks 2\nrank 0 { hello: send 8b to 1 }\nrank 1 { recv 8b from -1 }";
/// let program = castell_goal::text::parse(text, "hello.goal").unwrap();
/// assert_eq!((program.num_ranks(), program.operations()), (2, 2));
///
/// let wrong = castell_goal::text::parse("num_ranks 1\nrank 0 {\na: calc many\n}", "wrong.goal").unwrap_err();
/// assert_eq!(
///     wrong.to_string(),
///     "wrong.goal:3:9: expected a number (a duration in nanoseconds), found `many` (in `a` of rank 0)"
/// );
/// ```
pub fn parse(text: impl AsRef<[u8]>, file: &str) -> Result<Program, ParseErrors> {
    parser::Parser::new(text.as_ref()).parse(file)
}

/// As [`parse`], on threads that the caller lends: the same program, and the same errors. A text with errors takes longer, since
/// it is read once more from its beginning.
///
/// # Errors
/// As [`parse`].
pub fn parse_on(text: impl AsRef<[u8]>, file: &str, threads: &dyn Threads) -> Result<Program, ParseErrors> {
    parts::parse(text.as_ref(), file, threads)
}
