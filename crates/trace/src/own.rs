//! The time that spans have a row to themselves: of spans that lie within each other, the innermost counts.

use crate::Timeline;

impl Timeline {
    /// With each span cut where another one of its row lies within it; so no two of a row overlap. Spans of no length go.
    pub(crate) fn own_time(&self) -> Timeline {
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); self.ranks as usize];
        for (at, span) in self.spans.iter().enumerate().filter(|(_, span)| span.start_ps < span.end_ps) {
            rows[span.rank.index()].push(at);
        }
        let mut spans = Vec::with_capacity(self.spans.len());
        for row in &mut rows {
            row.sort_by_key(|&at| (self.spans[at].start_ps, std::cmp::Reverse(self.spans[at].end_ps), at));
            let mut open: Vec<usize> = Vec::new();
            let mut now = 0;
            for &next in &*row {
                self.close(&mut open, &mut now, self.spans[next].start_ps, &mut spans);
                open.push(next);
            }
            self.close(&mut open, &mut now, u64::MAX, &mut spans);
        }
        Timeline { spans, ..self.without_spans() }
    }

    fn without_spans(&self) -> Timeline {
        let Timeline { title, subtitle, messages, through, kinds, dependences, counters, only, .. } = self;
        Timeline {
            title: title.clone(),
            subtitle: subtitle.clone(),
            ranks: self.ranks,
            spans: Vec::new(),
            messages: messages.clone(),
            kinds: kinds.clone(),
            dependences: dependences.clone(),
            rows: self.rows,
            counters: counters.clone(),
            through: through.clone(),
            dropped: self.dropped,
            only: only.clone(),
        }
    }

    /// Takes a row on from `now` to `until_ps`: the span on top has the time, until it ends.
    fn close(&self, open: &mut Vec<usize>, now: &mut u64, until_ps: u64, spans: &mut Vec<crate::Span>) {
        while let Some(&top) = open.last() {
            let span = &self.spans[top];
            let (start_ps, end_ps) = (span.start_ps.max(*now), span.end_ps.min(until_ps));
            if start_ps < end_ps {
                spans.push(crate::Span { start_ps, end_ps, ..span.clone() });
                *now = end_ps;
            }
            if span.end_ps > until_ps {
                break;
            }
            open.pop();
        }
        if until_ps < u64::MAX {
            *now = until_ps.max(*now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activity, Span};
    use castell_base::Rank;

    #[test]
    fn the_innermost_has_the_row() {
        let span = |name: &str, start_ps, end_ps| Span {
            rank: Rank(0),
            name: name.into(),
            activity: Activity::Compute,
            start_ps,
            end_ps,
        };
        let spans = vec![
            span("main", 0, 100),
            span("waits", 20, 90),
            span("a", 30, 40),
            span("b", 40, 60),
            span("c", 45, 50),
            span("nothing", 95, 95),
            span("other", 110, 120),
            // One that went on elsewhere and overlaps.
            span("late", 115, 130),
        ];
        let timeline = Timeline { ranks: 1, spans, ..Timeline::default() };
        let own = timeline.own_time();
        let told: Vec<_> =
            own.spans.iter().map(|one| (one.name.as_str(), one.start_ps, one.end_ps)).collect();
        let expected = [
            ("main", 0, 20),
            ("waits", 20, 30),
            ("a", 30, 40),
            ("b", 40, 45),
            ("c", 45, 50),
            ("b", 50, 60),
            ("waits", 60, 90),
            ("main", 90, 100),
            ("other", 110, 115),
            ("late", 115, 130),
        ];
        assert_eq!(told, expected);
    }
}
