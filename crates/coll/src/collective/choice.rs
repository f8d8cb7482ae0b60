//! Which algorithm a call takes when it names none.

use super::{Operation, Reason};
use castell_collectives::decision::{Choice, Decisions, Question};
use castell_shm::job::Job;
use std::sync::OnceLock;

/// Asks that reductions give the same bits wherever ranks are.
const SAME_BITS: &str = "CASTELL_SAME_BITS";

/// Whether that was asked for.
pub(crate) fn wants_same_bits() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var(SAME_BITS).is_ok_and(|value| value == "1"))
}

/// The algorithm: the one that was named, or that the job decides on; rank 0 speaks for all.
pub(crate) fn choose<'a>(
    job: &'a Job,
    rank: u32,
    operation: Operation,
    named: Option<&str>,
    question: &Question,
) -> Result<Choice<'a>, Reason> {
    let of = operation.name();
    match named {
        None => {
            if question.is_for_hosts() {
                // Each host has a tuning file of its own, if any, which says nothing of others.
                return Ok(Decisions::builtin().choose(question).into_owned());
            }
            let question = Question { processors: job.processors(), ..*question };
            Ok(job.decisions(rank == 0).choose(&question))
        }
        Some(text) => {
            let (name, ways) = parted(text).unwrap_or((text, 1));
            let algorithm = match name.split_once(':') {
                None => format!("{of}:{name}"),
                Some((prefix, _)) if prefix == of => name.to_owned(),
                Some(_) => return Err(Reason::Argument(format!("`{name}` is no algorithm for {of}"))),
            };
            Ok(Choice { ways, ..Choice::new(algorithm) })
        }
    }
}

/// A name and the number of messages a round: `bruck 3-way`.
fn parted(text: &str) -> Option<(&str, u32)> {
    let (name, ways) = text.strip_suffix("-way")?.rsplit_once(' ')?;
    Some((name, ways.parse().ok().filter(|ways| *ways > 0)?))
}

/// As it is named.
pub(crate) fn label(choice: &Choice<'_>) -> String {
    match choice.ways {
        1 => choice.algorithm.clone().into_owned(),
        ways => format!("{} {ways}-way", choice.algorithm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_part_of_a_name() {
        assert_eq!(parted("bruck 3-way"), Some(("bruck", 3)));
        for name in ["bruck", "a2,a3", "bruck 0-way", "bruck -way", "3-way"] {
            assert_eq!(parted(name), None, "{name}");
        }
        let choice = Choice { ways: 3, ..Choice::new("allgather:bruck") };
        assert_eq!(parted(&label(&choice)), Some(("allgather:bruck", 3)));
    }
}
