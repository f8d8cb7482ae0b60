//! Which algorithm a call takes when it names none.

use super::{Operation, Reason};
use castell_collectives::decision::{Choice, Question};
use castell_shm::job::Job;

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
