//! What colours stand for: activities, and of tasks their labels.

use crate::{Activity, Span, Timeline};
use std::collections::HashMap;

/// Labels that have a colour of their own; all others share one more.
pub(crate) const KINDS_MAX: usize = 7;
/// Colours: of the activities, of labels, and of all other labels.
pub(crate) const COLOURS: usize = Activity::ALL.len() + KINDS_MAX + 1;

impl Timeline {
    /// Bars get the colours of their labels: numbers at the end of a name, as in `gemm_12_0` and `task 3`, count as no part of the label.
    #[must_use]
    pub fn coloured_by_label(mut self) -> Timeline {
        let mut times: HashMap<&str, u64> = HashMap::new();
        for span in self.spans.iter().filter(|span| span.activity == Activity::Compute) {
            *times.entry(label(&span.name)).or_default() += span.end_ps - span.start_ps;
        }
        let mut kinds: Vec<(&str, u64)> = times.into_iter().collect();
        kinds.sort_by_key(|(name, ps)| (std::cmp::Reverse(*ps), *name));
        self.kinds = kinds.into_iter().map(|(name, _)| name.to_owned()).collect();
        self
    }
}

/// A name without the numbers at its end; the whole name, where it is nothing but that.
fn label(name: &str) -> &str {
    let mut rest = name;
    loop {
        let without = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        let shorter = without.strip_suffix(['_', ' ', '-']);
        match shorter.filter(|_| without.len() < rest.len()) {
            Some(shorter) if !shorter.is_empty() => rest = shorter,
            _ => return rest,
        }
    }
}

/// The colour of each span, by number: activities come first, in the order of [`Activity::ALL`].
pub(crate) struct Colours<'a> {
    kinds: HashMap<&'a str, usize>,
}

impl Colours<'_> {
    pub fn of(timeline: &Timeline) -> Colours<'_> {
        Colours { kinds: timeline.kinds.iter().enumerate().map(|(at, kind)| (kind.as_str(), at)).collect() }
    }

    pub fn number(&self, span: &Span) -> usize {
        let kind = (span.activity == Activity::Compute).then(|| self.kinds.get(label(&span.name))).flatten();
        kind.map_or(span.activity as usize, |kind| Activity::ALL.len() + kind.min(&KINDS_MAX))
    }
}

/// The name of a colour in style sheets.
pub(crate) fn class(colour: usize) -> &'static str {
    const KINDS: [&str; KINDS_MAX + 1] =
        ["kind-0", "kind-1", "kind-2", "kind-3", "kind-4", "kind-5", "kind-6", "kind-7"];
    match Activity::ALL.get(colour) {
        Some(activity) => activity.name(),
        None => KINDS[colour - Activity::ALL.len()],
    }
}

/// What the colour of a label stands for.
pub(crate) fn kind_name(timeline: &Timeline, colour: usize) -> String {
    let kind = colour - Activity::ALL.len();
    match timeline.kinds.get(kind) {
        Some(name) if kind < KINDS_MAX => name.clone(),
        _ => format!("{} other labels", timeline.kinds.len().saturating_sub(KINDS_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Rank;

    #[test]
    fn numbers_are_no_part_of_a_label() {
        let labels = ["gemm_12_0", "task 3", "potrf", "12", "lu2", "a-b_7", "_1"].map(label);
        assert_eq!(labels, ["gemm", "task", "potrf", "12", "lu2", "a-b", "_1"]);
    }

    #[test]
    fn labels_with_the_most_time_come_first_and_the_last_share_a_colour() {
        let span = |name: String, end_ps| Span {
            rank: Rank(0),
            name,
            activity: Activity::Compute,
            start_ps: 0,
            end_ps,
        };
        let mut spans: Vec<Span> = (0..9)
            .map(|at| {
                span(format!("{}_0", ["a", "b", "c", "d", "e", "f", "g", "h", "i"][at]), 10 + at as u64)
            })
            .collect();
        spans.push(span("a_1".into(), 50));
        let timeline = Timeline { ranks: 1, spans, ..Timeline::default() }.coloured_by_label();
        assert_eq!(timeline.kinds.concat(), "aihgfedcb");
        let colours = Colours::of(&timeline);
        let classes: Vec<_> = timeline.spans.iter().map(|span| class(colours.number(span))).collect();
        assert_eq!(classes[..4], ["kind-0", "kind-7", "kind-7", "kind-6"]);
        assert_eq!(classes[8..], ["kind-1", "kind-0"]);
    }
}
