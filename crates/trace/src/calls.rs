//! A timeline of collective calls of which only begin and end are known, as a library that stands in front of another one sees them.
//!
//! Calls of the whole group in which everybody waits for everybody are told apart from their waiting: nobody gets on before the last one
//! has come. Of other calls nobody knows here who waited for whom.

use crate::joined::OWN;
use crate::{Activity, Dependence, Span, Timeline};
use castell_base::Rank;

/// A call. Times are picoseconds from the timeline's zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    /// Whose.
    pub rank: Rank,
    /// Which operation, as MPI has it: `allreduce`.
    pub operation: String,
    /// What is written behind the operation.
    pub details: String,
    /// How many ranks took part.
    pub ranks: u32,
    /// Whether the program was inside until it ended; otherwise it went on meanwhile.
    pub is_blocking: bool,
    /// When it began.
    pub start_ps: u64,
    /// When it was over.
    pub end_ps: u64,
}

/// Operations in which each rank needs something of each other one.
const OF_ALL: [&str; 9] = [
    "barrier",
    "allgather",
    "allgatherv",
    "allreduce",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce_scatter",
    "reduce_scatter_block",
];

/// The calls, and between blocking ones the program.
pub fn timeline(ranks: u32, mut calls: Vec<CollectiveCall>) -> Timeline {
    calls.retain(|call| call.rank.0 < ranks);
    calls.sort_by_key(|call| (call.rank, call.start_ps, call.end_ps));
    let mut timeline = Timeline { ranks, ..Timeline::default() };
    let mut began_ps: Vec<u64> = calls.iter().map(|call| call.start_ps).collect();
    for met in meetings(ranks, &calls) {
        let last = *met.iter().max_by_key(|at| calls[**at].start_ps).expect("there is a rank");
        let last_ps = calls[last].start_ps;
        for at in met {
            let call = &calls[at];
            if at != last && last_ps > call.start_ps && last_ps <= call.end_ps {
                began_ps[at] = last_ps;
                let from = calls[last].rank;
                timeline.dependences.push(Dependence {
                    from,
                    ended_ps: last_ps,
                    to: call.rank,
                    began_ps: last_ps,
                });
            }
        }
    }
    let mut free_ps = vec![0; ranks as usize];
    for (call, &start_ps) in calls.iter().zip(&began_ps) {
        let CollectiveCall { rank, operation, details, is_blocking, end_ps, .. } = call;
        let name = format!("{operation}{details}");
        let activity = if *is_blocking { Activity::Recv } else { Activity::Other };
        timeline.spans.push(Span { rank: *rank, name, activity, start_ps, end_ps: *end_ps });
        if *is_blocking {
            let free_ps = &mut free_ps[rank.index()];
            program(&mut timeline.spans, *rank, *free_ps, call.start_ps);
            *free_ps = call.end_ps.max(*free_ps);
        }
    }
    timeline
}

fn program(spans: &mut Vec<Span>, rank: Rank, start_ps: u64, end_ps: u64) {
    if start_ps < end_ps {
        spans.push(Span { rank, name: OWN.to_owned(), activity: Activity::Compute, start_ps, end_ps });
    }
}

/// Blocking calls of the whole group in which all wait for all, each rank's: the n-th of each rank are one, as long as they are the same.
fn meetings(ranks: u32, calls: &[CollectiveCall]) -> Vec<Vec<usize>> {
    let mut of_rank: Vec<Vec<usize>> = vec![Vec::new(); ranks as usize];
    for (at, call) in calls.iter().enumerate() {
        if call.is_blocking && call.ranks == ranks {
            of_rank[call.rank.index()].push(at);
        }
    }
    let count = of_rank.iter().map(Vec::len).min().unwrap_or(0);
    let same = |number: &usize| {
        let names: Vec<&str> = of_rank.iter().map(|of| calls[of[*number]].operation.as_str()).collect();
        names.windows(2).all(|two| two[0] == two[1])
    };
    let met = (0..count).take_while(same);
    let met = met.filter(|number| OF_ALL.contains(&&*calls[of_rank[0][*number]].operation));
    met.map(|number| of_rank.iter().map(|of| of[number]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Part, critical_path};

    fn call(rank: u32, operation: &str, start_ps: u64, end_ps: u64) -> CollectiveCall {
        CollectiveCall {
            rank: Rank(rank),
            operation: operation.into(),
            details: " of 8 b".into(),
            ranks: 2,
            is_blocking: true,
            start_ps,
            end_ps,
        }
    }

    fn row(timeline: &Timeline, rank: u32) -> Vec<(&str, u64, u64)> {
        let spans = timeline.spans.iter().filter(|span| span.rank == Rank(rank));
        let mut spans: Vec<_> = spans.map(|span| (&*span.name, span.start_ps, span.end_ps)).collect();
        spans.sort_by_key(|span| span.1);
        spans
    }

    /// Rank 0 waits 40 for rank 1, and the path of what the end waited for goes there.
    #[test]
    fn who_came_last_is_waited_for() {
        let calls = vec![
            call(0, "allreduce", 10, 60),
            call(1, "allreduce", 50, 55),
            call(0, "bcast", 80, 90),
            call(1, "bcast", 56, 57),
        ];
        let timeline = timeline(2, calls);
        let expected = [
            ("the program", 0, 10),
            ("allreduce of 8 b", 50, 60),
            ("the program", 60, 80),
            ("bcast of 8 b", 80, 90),
        ];
        assert_eq!(row(&timeline, 0), expected);
        let path = critical_path(&timeline);
        let first = path.first().map(|step| (step.rank, step.start_ps, step.end_ps));
        assert_eq!(first, Some((Rank(1), 0, 50)), "{path:?}");
        assert!(path.iter().all(|step| step.part != Part::Gap), "{path:?}");
    }

    /// What is not the same on all ranks, of some of them, or goes one way only, says nothing about who waited for whom.
    #[test]
    fn other_calls_are_not_taken_apart() {
        let part = CollectiveCall { ranks: 1, ..call(0, "allreduce", 5, 6) };
        let calls = vec![
            part,
            call(0, "bcast", 10, 60),
            call(1, "bcast", 50, 55),
            call(0, "barrier", 70, 99),
            call(1, "allreduce", 90, 95),
        ];
        let timeline = timeline(2, calls);
        assert!(timeline.dependences.is_empty());
        assert!(row(&timeline, 0).contains(&("barrier of 8 b", 70, 99)));
    }

    /// The program goes on beside a call that it started.
    #[test]
    fn started_calls_are_beside_the_program() {
        let started = CollectiveCall { is_blocking: false, ..call(0, "iallreduce", 10, 60) };
        let unknown = CollectiveCall { rank: Rank(7), ..call(0, "barrier", 0, 1) };
        let timeline = timeline(1, vec![started, call(0, "barrier", 20, 30), unknown]);
        assert_eq!(
            row(&timeline, 0),
            [("the program", 0, 20), ("iallreduce of 8 b", 10, 60), ("barrier of 8 b", 20, 30)]
        );
        let nothing = super::timeline(2, Vec::new());
        assert!(nothing.spans.is_empty());
    }
}
