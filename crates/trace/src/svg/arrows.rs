//! Messages, one by one.

use super::paper::Paper;
use super::xml::Px;
use crate::{Message, Timeline};
use std::io::{self, Write};

/// Thickness, opacity and length of the head of so many arrows: the more there are, the lighter.
pub(super) fn looks(messages: usize) -> (f64, f64, f64) {
    match messages {
        0..=100 => (1.2, 0.9, 8.0),
        101..=500 => (0.8, 0.7, 7.0),
        _ => (0.5, 0.45, 4.0),
    }
}

/// An arrow a message, below the bars.
pub(super) fn draw(timeline: &Timeline, paper: &Paper, out: &mut impl Write) -> io::Result<()> {
    let (thick, opacity, _) = looks(timeline.messages.len());
    writeln!(out, "<g class=\"arrow\" stroke-width=\"{thick}\" opacity=\"{opacity}\">")?;
    for message in &timeline.messages {
        let tooltip = tooltip(message, paper);
        writeln!(
            out,
            "<path d=\"{}\" marker-end=\"url(#head)\"><title>{tooltip}</title></path>",
            path(message, paper)
        )?;
    }
    writeln!(out, "</g>")
}

/// From the edge of the sender's bar to the edge of the receiver's; a message to itself in a bow above the bar.
fn path(message: &Message, paper: &Paper) -> String {
    let (x1, x2) = (Px(paper.x(message.sent_ps)), Px(paper.x(message.arrived_ps)));
    let (from, to, half) = (paper.y(message.from), paper.y(message.to), paper.bar / 2.0);
    if message.from == message.to {
        let (edge, above) = (Px(from - half), Px(paper.pitch / 2.0 - half));
        return format!(
            "M{x1} {edge}C{x1} {} {x2} {} {x2} {edge}",
            Px(edge.0 - above.0),
            Px(edge.0 - above.0)
        );
    }
    let down = if to > from { half } else { -half };
    format!("M{x1} {}L{x2} {}", Px(from + down), Px(to - down))
}

fn tooltip(message: &Message, paper: &Paper) -> String {
    let Message { from, to, tag, bytes, .. } = message;
    let (sent, arrived) = (paper.unit.time(message.sent_ps), paper.unit.time(message.arrived_ps));
    let received = paper.unit.time(message.received_ps);
    format!(
        "rank {from} to rank {to}: {bytes} bytes, tag {tag}; left {sent}, arrived {arrived}, received {received}"
    )
}
