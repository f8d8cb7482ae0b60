//! Which algorithm a call takes when it names none.

use super::{Operation, Reason};
use crate::job::Job;
use castell_collectives::decision::{Choice, Question};

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
        Some(name) => match name.split_once(':') {
            None => Ok(Choice::new(format!("{of}:{name}"))),
            Some((prefix, _)) if prefix == of => Ok(Choice::new(name.to_owned())),
            Some(_) => Err(Reason::Argument(format!("`{name}` is no algorithm for {of}"))),
        },
    }
}
