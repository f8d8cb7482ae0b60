//! Which algorithm a call takes when it names none.

use super::{Operation, Reason};
use crate::tuning::Tuning;
use castell_collectives::decision::{self, Choice, Decisions, Question};
use std::sync::OnceLock;

/// What decides: this machine's tuning file, read when it is first asked, and behind it the built-in rules. Where the file
/// is refused, a process that `speaks` says why.
fn decisions(speaks: bool) -> &'static Decisions {
    static DECISIONS: OnceLock<Decisions> = OnceLock::new();
    DECISIONS.get_or_init(|| {
        let Tuning { decisions, reason, .. } = Tuning::load();
        if let Some(reason) = reason.filter(|_| speaks) {
            eprintln!("castell: {reason}");
        }
        decisions
    })
}

/// The operation as decisions name it; those of neighbours have one algorithm each.
fn decided(operation: Operation) -> decision::Operation {
    decision::Operation::parse(operation.name()).expect("an operation that has algorithms")
}

/// The question about a call; `bytes` is 0 where ranks do not know each other's.
pub(crate) fn question(operation: Operation, ranks: u32, bytes: u64) -> Question {
    Question::new(decided(operation), ranks, bytes)
}

/// The algorithm: the one that was named, or that is decided on; rank 0 speaks for all.
pub(crate) fn choose<'a>(
    rank: u32,
    operation: Operation,
    named: Option<&str>,
    question: &Question,
) -> Result<Choice<'a>, Reason> {
    let of = operation.name();
    match named {
        None => Ok(decisions(rank == 0).choose(question)),
        Some(name) => match name.split_once(':') {
            None => Ok(Choice::new(format!("{of}:{name}"))),
            Some((prefix, _)) if prefix == of => Ok(Choice::new(name.to_owned())),
            Some(_) => Err(Reason::Argument(format!("`{name}` is no algorithm for {of}"))),
        },
    }
}
