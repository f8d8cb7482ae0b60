//! Spans of one rank that overlap, side by side.

use crate::{Span, Timeline};
use castell_base::Rank;

/// Each rank's spans in order of their starts, and ends.
pub(crate) fn by_rank(timeline: &Timeline) -> impl Iterator<Item = (Rank, Vec<&Span>)> {
    let mut ranks: Vec<Vec<&Span>> = vec![Vec::new(); timeline.ranks as usize];
    for span in &timeline.spans {
        ranks[span.rank.index()].push(span);
    }
    ranks.into_iter().enumerate().map(|(rank, mut spans)| {
        spans.sort_by_key(|span| (span.start_ps, span.end_ps));
        (Rank(rank as u32), spans)
    })
}

/// Gives each span, spans coming in order of their starts, the first lane that is free; and says how many lanes that
/// takes. Where that were more than `lanes_max`, spans overlap in the last.
pub(crate) fn place<'a>(
    spans: impl Iterator<Item = &'a Span>,
    lanes_max: usize,
) -> (Vec<(usize, &'a Span)>, usize) {
    let mut free_ps: Vec<u64> = Vec::new();
    let mut placed = Vec::new();
    for span in spans {
        let fits = free_ps.iter().position(|free_ps| *free_ps <= span.start_ps);
        let lane = fits.unwrap_or_else(|| {
            if free_ps.len() < lanes_max {
                free_ps.push(0);
            }
            free_ps.len() - 1
        });
        free_ps[lane] = free_ps[lane].max(span.end_ps);
        placed.push((lane, span));
    }
    (placed, free_ps.len())
}
