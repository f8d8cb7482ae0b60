//! When a rank truly waited: a receive was pending, and the rank had nothing else to do.

use std::collections::BTreeSet;

/// A receive that was posted before its message came. Picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// When it was posted.
    pub posted_ps: u64,
    /// When its message came.
    pub came_ps: u64,
}

/// Time without anything to do. Picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// From when on.
    pub start_ps: u64,
    /// Until when.
    pub end_ps: u64,
    /// Which of the pending receives ended it, or would have ended next.
    pub pending: usize,
}

/// When one rank waited, and for which of its receives. `busy` is when it did something, from when to when, in any order and
/// overlapping as may be. A receive that was posted early costs nothing as long as the rank is busy.
pub fn true_waits(busy: &[(u64, u64)], pending: &[Pending]) -> Vec<Waited> {
    let busy = union(busy);
    let mut by_posting: Vec<usize> = (0..pending.len()).collect();
    by_posting.sort_by_key(|&at| pending[at].posted_ps);
    let ends = pending.iter().flat_map(|one| [one.posted_ps, one.came_ps]);
    let mut points: Vec<u64> = ends.chain(busy.iter().flat_map(|&(start, end)| [start, end])).collect();
    points.sort_unstable();
    points.dedup();
    let mut waited: Vec<Waited> = Vec::new();
    // Who is pending at a point, the next to end first.
    let mut open = BTreeSet::new();
    let (mut next_posted, mut next_busy) = (0, 0);
    for pair in points.windows(2) {
        let (now, next) = (pair[0], pair[1]);
        while let Some(&at) = by_posting.get(next_posted).filter(|&&at| pending[at].posted_ps <= now) {
            open.insert((pending[at].came_ps, at));
            next_posted += 1;
        }
        while open.first().is_some_and(|&(came_ps, _)| came_ps <= now) {
            open.pop_first();
        }
        while busy.get(next_busy).is_some_and(|&(_, end)| end <= now) {
            next_busy += 1;
        }
        let is_busy = busy.get(next_busy).is_some_and(|&(start, _)| start <= now);
        let Some(&(_, at)) = open.first().filter(|_| !is_busy) else { continue };
        match waited.last_mut() {
            Some(last) if last.end_ps == now && last.pending == at => last.end_ps = next,
            _ => waited.push(Waited { start_ps: now, end_ps: next, pending: at }),
        }
    }
    waited
}

/// The same times, in order and disjoint.
fn union(times: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted: Vec<(u64, u64)> = times.iter().copied().filter(|(start, end)| start < end).collect();
    sorted.sort_unstable();
    let mut union: Vec<(u64, u64)> = Vec::new();
    for (start, end) in sorted {
        match union.last_mut() {
            Some((_, last)) if *last >= start => *last = end.max(*last),
            _ => union.push((start, end)),
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(busy: &[(u64, u64)], pending: &[(u64, u64)]) -> Vec<(u64, u64, usize)> {
        let pending: Vec<Pending> =
            pending.iter().map(|&(posted_ps, came_ps)| Pending { posted_ps, came_ps }).collect();
        true_waits(busy, &pending).iter().map(|one| (one.start_ps, one.end_ps, one.pending)).collect()
    }

    #[test]
    fn a_receive_that_was_posted_early_costs_nothing_while_the_rank_computes() {
        assert_eq!(waits(&[(0, 100)], &[(0, 80)]), []);
        assert_eq!(waits(&[(0, 100)], &[(0, 130)]), [(100, 130, 0)]);
        assert_eq!(waits(&[(10, 20), (15, 30), (50, 60)], &[(5, 55)]), [(5, 10, 0), (30, 50, 0)]);
    }

    #[test]
    fn of_several_receives_the_first_to_end_is_waited_for() {
        assert_eq!(waits(&[(0, 10)], &[(0, 40), (0, 25)]), [(10, 25, 1), (25, 40, 0)]);
        // What came before it was posted, and at once, is no wait.
        assert_eq!(waits(&[], &[(10, 5), (7, 7)]), []);
    }

    /// Against every picosecond looked at by itself.
    #[test]
    fn waiting_is_pending_and_not_busy() {
        let mut state = 88172645463325252u64;
        let mut draw = |of: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % of
        };
        for round in 0..2000 {
            let mut pairs = |count: u64| -> Vec<(u64, u64)> {
                (0..count)
                    .map(|_| (draw(60), draw(60)))
                    .map(|(one, other)| (one.min(other), one.max(other)))
                    .collect()
            };
            let (busy, pending) = (pairs(round % 5), pairs(round % 4));
            let found = waits(&busy, &pending);
            for time in 0..60 {
                let within = |&(start, end): &(u64, u64)| start <= time && time < end;
                let expected = pending.iter().any(within) && !busy.iter().any(within);
                let times = found.iter().filter(|(start, end, _)| *start <= time && time < *end).count();
                assert_eq!(
                    times,
                    usize::from(expected),
                    "round {round}, at {time}: {busy:?} {pending:?} {found:?}"
                );
            }
        }
    }
}
