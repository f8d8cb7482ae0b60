//! Ranks that do the same at the same times.

use crate::{Activity, Timeline};
use castell_base::Rank;

/// The time is looked at in so many parts.
const PARTS: usize = 64;
/// Of what two ranks do, so much may differ.
const DIFFERENCE_MAX: f32 = 0.1;

/// Groups of the ranks: those of a group spend nine tenths of their busy time with what the group's first rank does in the same
/// 64th of the whole time. Empty where that takes more than `groups_max` of them.
pub(crate) fn alike(timeline: &Timeline, ranks: &[Rank], groups_max: usize) -> Vec<Vec<Rank>> {
    let busy = Busy::of(timeline);
    let mut groups: Vec<Vec<Rank>> = Vec::new();
    for &rank in ranks {
        match groups.iter().position(|group| busy.difference(group[0], rank) <= DIFFERENCE_MAX) {
            Some(at) => groups[at].push(rank),
            None if groups.len() == groups_max => return Vec::new(),
            None => groups.push(vec![rank]),
        }
    }
    groups
}

/// By rank, activity and part of the time: how much of the part.
struct Busy {
    shares: Vec<f32>,
}

const ROW: usize = PARTS * Activity::ALL.len();

impl Busy {
    fn of(timeline: &Timeline) -> Busy {
        let mut shares = vec![0.0; timeline.ranks as usize * ROW];
        let end_ps = timeline.end_ps().max(1) as f64;
        let place = |ps: u64| ps as f64 / end_ps * PARTS as f64;
        for span in timeline.spans.iter().filter(|span| span.activity != Activity::Wait) {
            let row = span.rank.index() * ROW + span.activity as usize * PARTS;
            let (start, end) = (place(span.start_ps), place(span.end_ps));
            for part in start as usize..=(end as usize).min(PARTS - 1) {
                let covered = end.min(part as f64 + 1.0) - start.max(part as f64);
                shares[row + part] += covered.max(0.0) as f32;
            }
        }
        Busy { shares }
    }

    fn row(&self, rank: Rank) -> &[f32] {
        &self.shares[rank.index() * ROW..][..ROW]
    }

    /// 0: they do the same; 1: they have nothing in common.
    fn difference(&self, one: Rank, other: Rank) -> f32 {
        let pairs = self.row(one).iter().zip(self.row(other));
        let (apart, all) =
            pairs.fold((0.0, 0.0), |(apart, all), (a, b)| (apart + (a - b).abs(), all + a + b));
        if all > 0.0 { apart / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    fn timeline(spans: &[(u32, Activity, u64, u64)]) -> Timeline {
        let span = |&(rank, activity, start_ps, end_ps): &(u32, Activity, u64, u64)| Span {
            rank: Rank(rank),
            name: String::new(),
            activity,
            start_ps,
            end_ps,
        };
        Timeline { ranks: 4, spans: spans.iter().map(span).collect(), ..Timeline::default() }
    }

    #[test]
    fn who_does_the_same_goes_together() {
        let ranks: Vec<Rank> = (0..4).map(Rank).collect();
        use Activity::{Compute, Send};
        let spans = [(0, Compute, 0, 1000), (1, Compute, 0, 500), (2, Compute, 5, 990), (3, Send, 0, 1000)];
        let groups = alike(&timeline(&spans), &ranks, 4);
        assert_eq!(groups, [vec![Rank(0), Rank(2)], vec![Rank(1)], vec![Rank(3)]]);
        assert!(alike(&timeline(&spans), &ranks, 2).is_empty(), "that would be three groups");
        assert_eq!(alike(&timeline(&[]), &ranks, 4), std::slice::from_ref(&ranks), "nobody did anything");
        // However little somebody does: when it does it counts.
        let rare = [(0, Send, 0, 1), (1, Send, 0, 1), (2, Send, 500, 501), (3, Compute, 999, 1000)];
        assert_eq!(alike(&timeline(&rare), &ranks, 4).len(), 3);
    }
}
