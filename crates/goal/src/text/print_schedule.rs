//! A compiled schedule, readable.

use super::print::Operation;
use crate::schedule::{ANY_JOIN, OpId, Schedule};
use castell_base::Rank;
use std::fmt::{self, Write};

/// Writes one rank's schedule record by record: the word offset by which an operation is named, what it waits for,
/// label and operation, then the operations that its end and its start release.
///
/// ```
/// let program = castell_goal::text::parse("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 7\nb requires a\n}", "").unwrap();
/// let (rank, graph) = program.graphs().next().unwrap();
/// let mut printed = String::new();
/// castell_goal::text::print_schedule(rank, &graph.compile().unwrap(), &mut printed)?;
/// assert_eq!(
///     printed,
///     "rank 0: 2 operations, 1 independent, 0 counters, at most 1 ready, scratchpad 0b, 92 bytes\n\
///      \x20     18: a: calc 5  -> 21\n\
///      \x20     21: b: calc 7\n"
/// );
/// # Ok::<(), std::fmt::Error>(())
/// ```
///
/// # Errors
/// Those of `out`.
pub fn print_schedule(rank: Rank, schedule: &Schedule, out: &mut impl Write) -> fmt::Result {
    let (joins, needs) = (schedule.joins(), schedule.needs());
    writeln!(
        out,
        "rank {rank}: {} operations, {} independent, {} counters, at most {} ready, scratchpad {}b, {} bytes",
        schedule.len(),
        schedule.independent(),
        joins.len(),
        schedule.ready_max(),
        schedule.scratchpad_bytes(),
        schedule.bytes()
    )?;
    // Joins are listed in the order of their records.
    let mut counters = joins.iter().zip(needs).peekable();
    for id in schedule.operations() {
        write!(out, "{:>8}: ", id.0)?;
        if let Some((_, need)) = counters.next_if(|(join, _)| *join & !ANY_JOIN == id.0) {
            write!(out, "[{need}] ")?;
        }
        if let Some(label) = schedule.label(id) {
            write!(out, "{label}: ")?;
        }
        write!(out, "{}", Operation(schedule.op(id), schedule.traits(id)))?;
        targets(" ->", schedule.successors(id), out)?;
        targets(" started ->", schedule.start_successors(id), out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn targets(arrow: &str, targets: impl ExactSizeIterator<Item = OpId>, out: &mut impl Write) -> fmt::Result {
    if targets.len() > 0 {
        write!(out, " {arrow}")?;
    }
    for target in targets {
        write!(out, " {}", target.0)?;
    }
    Ok(())
}
