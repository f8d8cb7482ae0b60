//! Messages, one by one.

use super::paper::Paper;
use super::rows::Places;
use super::xml::Px;
use crate::lanes::by_rank;
use crate::{Activity, Message, Span, Timeline};
use castell_base::Rank;
use std::io::{self, Write};

/// Thickness, opacity and length of the head of so many arrows: the more there are, the lighter.
pub(super) fn looks(messages: usize) -> (f64, f64, f64) {
    match messages {
        0..=100 => (1.2, 0.9, 8.0),
        101..=500 => (0.8, 0.7, 7.0),
        _ => (0.5, 0.45, 4.0),
    }
}

/// The head of arrows in drawings that are no timelines: `marker-end="url(#head)"`.
pub fn marker() -> String {
    let (_, _, head) = looks(0);
    format!(
        "<defs><marker id=\"head\" viewBox=\"0 0 8 6\" refX=\"7.5\" refY=\"3\" markerWidth=\"{head}\" markerHeight=\"6\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"head\" d=\"M0 0L8 3L0 6z\"/></marker></defs>"
    )
}

/// Whether a message has an arrow: both ends have a line, and it comes to the rank that its line shows.
pub(super) fn is_drawn(message: &Message, places: &Places) -> bool {
    places.line(message.from).is_some() && places.is_first(message.to)
}

/// An arrow a message, below the bars.
pub(super) fn draw(timeline: &Timeline, paper: &Paper, out: &mut impl Write) -> io::Result<()> {
    let (thick, opacity, _) = looks(paper.arrows.unwrap_or(0));
    writeln!(out, "<g class=\"arrow\" stroke-width=\"{thick}\" opacity=\"{opacity}\">")?;
    let lines = Lines::of(timeline, paper);
    for message in timeline.messages.iter().filter(|message| is_drawn(message, &paper.places)) {
        let (tooltip, path) = (tooltip(message, paper), path(message, paper, &lines));
        writeln!(out, "<path d=\"{path}\" marker-end=\"url(#head)\"><title>{tooltip}</title></path>")?;
    }
    writeln!(out, "</g>")
}

/// From the edge of the sender's bar to the edge of the receiver's; a message to itself in a bow above the bar.
fn path(message: &Message, paper: &Paper, lines: &Lines) -> String {
    let (x1, x2) = (Px(paper.x(message.sent_ps)), Px(paper.x(message.arrived_ps)));
    let (from, to) = (paper.y(message.from), paper.y(message.to));
    if paper.places.line(message.from) == paper.places.line(message.to) {
        let half = paper.bar / 2.0;
        let (edge, above) = (Px(from - half), Px(from - paper.pitch / 2.0));
        return format!("M{x1} {edge}C{x1} {above} {x2} {above} {x2} {edge}");
    }
    let half = |rank, ps| lines.thickness(rank, ps, paper) / 2.0 * if to > from { 1.0 } else { -1.0 };
    let (start, end) = (half(message.from, message.sent_ps), half(message.to, message.arrived_ps));
    format!("M{x1} {}L{x2} {}", Px(from + start), Px(to - end))
}

/// When each rank's line is thick.
struct Lines {
    /// By rank, starts and ends of what it was busy with, in order of the starts.
    busy_ps: Vec<Vec<(u64, u64)>>,
    /// What a pixel is: so far a bar is drawn beside its time.
    pixel_ps: u64,
}

impl Lines {
    fn of(timeline: &Timeline, paper: &Paper) -> Lines {
        let busy = |spans: Vec<&Span>| {
            let busy = spans.into_iter().filter(|span| span.activity != Activity::Wait);
            busy.map(|span| (span.start_ps, span.end_ps)).collect()
        };
        let busy_ps = by_rank(timeline).map(|(_, spans)| busy(spans)).collect();
        let pixel_ps = (paper.end_ps as f64 / (paper.right - paper.left)) as u64;
        Lines { busy_ps, pixel_ps }
    }

    /// How thick the line of a rank is at a moment: where it has a bar, as that; where it waits, hardly.
    fn thickness(&self, rank: Rank, moment_ps: u64, paper: &Paper) -> f64 {
        /// So many bars before the moment are looked at.
        const LOOKED_AT_MAX: usize = 16;
        let busy = &self.busy_ps[paper.places.first(rank).index()];
        let begun =
            busy.partition_point(|(start_ps, _)| *start_ps <= moment_ps.saturating_add(self.pixel_ps));
        let lasts = |(_, end_ps): &(u64, u64)| end_ps.saturating_add(self.pixel_ps) >= moment_ps;
        let has_bar = busy[..begun].iter().rev().take(LOOKED_AT_MAX).any(lasts);
        if has_bar { paper.bar } else { paper.wait() }
    }
}

fn tooltip(message: &Message, paper: &Paper) -> String {
    let Message { from, to, tag, bytes, .. } = message;
    let (sent, arrived) = (paper.unit.time(message.sent_ps), paper.unit.time(message.arrived_ps));
    let received = paper.unit.time(message.received_ps);
    format!(
        "rank {from} to rank {to}: {bytes} bytes, tag {tag}; left {sent}, arrived {arrived}, received {received}"
    )
}
