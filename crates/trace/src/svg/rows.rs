//! Which rank is on which line: one on each, those that do the same on one, or neighbours where there are too many.

use crate::alike::alike;
use crate::{Rows, Timeline};
use castell_base::Rank;

/// Lines that a drawing has at most; of more ranks, neighbours share a line.
pub const LINES_MAX: u32 = 64;
/// The same where a line for each rank is asked for.
pub const EVERY_RANK_LINES_MAX: u32 = 1000;
/// So many ranks have a line each, however alike they are.
const APART_MAX: usize = 16;

/// A line with its ranks, in order.
pub(super) struct Line {
    pub ranks: Vec<Rank>,
    pub name: String,
}

/// What a line shows of its ranks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// What the first of them did; the others did the same, if there are others.
    First,
    /// What share of their time went into what.
    Shares,
}

/// The lines from the top down.
pub(super) struct Places {
    pub lines: Vec<Line>,
    pub shown: Shown,
    /// By rank; those without a line are not drawn.
    line_of: Vec<Option<u32>>,
}

impl Places {
    /// The lines of a drawing; `every_rank`: also where many do the same.
    pub fn of(timeline: &Timeline, every_rank: bool) -> Places {
        let ranks: Vec<Rank> = (0..timeline.ranks).map(Rank).filter(|rank| timeline.is_seen(*rank)).collect();
        let groups = if every_rank || timeline.rows != Rows::Ranks || ranks.len() <= APART_MAX {
            Vec::new()
        } else {
            alike(timeline, &ranks, LINES_MAX as usize)
        };
        if !groups.is_empty() && groups.len() * 2 <= ranks.len() {
            return Places::new(timeline, groups, Shown::First);
        }
        let lines_max = if every_rank { EVERY_RANK_LINES_MAX } else { LINES_MAX };
        let together = ranks.len().div_ceil(lines_max as usize).max(1);
        let shown = if together == 1 { Shown::First } else { Shown::Shares };
        Places::new(timeline, ranks.chunks(together).map(<[Rank]>::to_vec).collect(), shown)
    }

    fn new(timeline: &Timeline, groups: Vec<Vec<Rank>>, shown: Shown) -> Places {
        let mut line_of = vec![None; timeline.ranks as usize];
        for (line, ranks) in (0..).zip(&groups) {
            ranks.iter().for_each(|rank| line_of[rank.index()] = Some(line));
        }
        let line = |ranks: Vec<Rank>| Line { name: name(&ranks, shown, timeline.rows), ranks };
        Places { lines: groups.into_iter().map(line).collect(), shown, line_of }
    }

    /// The rank's line, from the top.
    pub fn line(&self, rank: Rank) -> Option<u32> {
        self.line_of[rank.index()]
    }

    /// Whether it is this rank that its line shows.
    pub fn is_first(&self, rank: Rank) -> bool {
        self.line(rank).is_some_and(|line| self.lines[line as usize].ranks[0] == rank)
    }

    /// The rank that is shown in its place.
    pub fn first(&self, rank: Rank) -> Rank {
        self.line(rank).map_or(rank, |line| self.lines[line as usize].ranks[0])
    }

    /// Whether lines stand for several ranks that do the same.
    pub fn has_alike(&self) -> bool {
        self.shown == Shown::First && self.lines.iter().any(|line| line.ranks.len() > 1)
    }

    /// How many ranks have a place.
    pub fn count(&self) -> usize {
        self.lines.iter().map(|line| line.ranks.len()).sum()
    }
}

fn name(ranks: &[Rank], shown: Shown, rows: Rows) -> String {
    match (ranks, shown) {
        ([one], _) => format!("{} {one}", rows.name()),
        ([first, .., last], Shown::Shares) => format!("{first} – {last}"),
        _ => format!("{} ({} alike)", listed(ranks, 12), ranks.len()),
    }
}

/// `0–3, 7`, with an ellipsis where it would be longer than so many characters.
pub(super) fn listed(ranks: &[Rank], length_max: usize) -> String {
    let mut text = String::new();
    for part in ranks.chunk_by(|one, next| one.0 + 1 == next.0) {
        let part = match part {
            [first, .., last] => format!("{first}–{last}"),
            [one] => one.to_string(),
            [] => continue,
        };
        let comma = if text.is_empty() { "" } else { ", " };
        if !text.is_empty() && text.chars().count() + 2 + part.chars().count() > length_max {
            return text + ", …";
        }
        text = text + comma + &part;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_a_line_where_that_is_asked_for_until_there_are_too_many() {
        let lines = |ranks: u32, every_rank| {
            Places::of(&Timeline { ranks, ..Timeline::default() }, every_rank).lines.len()
        };
        assert_eq!((lines(64, true), lines(100, true), lines(1000, true)), (64, 100, 1000));
        assert_eq!(lines(1001, true), 501, "two a line");
        let is_named = |line: &Line| line.name.starts_with("rank ");
        assert!(Places::of(&Timeline { ranks: 100, ..Timeline::default() }, true).lines.iter().all(is_named));
    }

    #[test]
    fn ranks_are_listed_as_far_as_there_is_room() {
        let ranks = |numbers: &[u32]| numbers.iter().copied().map(Rank).collect::<Vec<_>>();
        assert_eq!(listed(&ranks(&[0, 1, 2, 3, 7]), 12), "0–3, 7");
        assert_eq!(listed(&ranks(&[0, 2, 4, 6, 8, 10]), 12), "0, 2, 4, 6, …");
        assert_eq!(listed(&[], 12), "");
    }
}
