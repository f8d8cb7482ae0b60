//! The critical path: a line below the bars that it goes through, and along its messages; its parts in words.

use super::paper::Paper;
use super::xml::Px;
use crate::Timeline;
use crate::path::{Part, Step, critical_path, message_parts};
use std::io::{self, Write};

/// Steps that are drawn; a longer path is only told of.
const STEPS_MAX: usize = 4_000;

/// A timeline's critical path, where there is one: somebody waited for somebody.
pub(super) fn steps(timeline: &Timeline) -> Vec<Step> {
    let waits = timeline.messages.len() + timeline.dependences.len();
    if waits == 0 { Vec::new() } else { critical_path(timeline) }
}

/// What its time went into, as `computing 61 %, message 30 % (latency 28 %, bandwidth 2 %)`; nothing where it is empty.
pub(super) fn parts(timeline: &Timeline, steps: &[Step]) -> Option<String> {
    let parts = crate::path::parts(timeline, steps);
    let all: u64 = parts.iter().map(|(_, ps)| ps).sum();
    let percent = |(name, ps): &(&str, u64)| format!("{name} {:.0} %", *ps as f64 * 100.0 / all as f64);
    // What is less than half a percent is left out.
    let is_told = |(_, ps): &&(&str, u64)| *ps as f64 * 200.0 >= all as f64;
    let within = message_parts(timeline, steps);
    let within: Vec<String> = within.iter().filter(is_told).map(percent).collect();
    let text = |part: &(&str, u64)| match part.0 {
        "message" if !within.is_empty() => format!("{} ({})", percent(part), within.join(", ")),
        _ => percent(part),
    };
    (all > 0).then(|| parts.iter().filter(is_told).map(text).collect::<Vec<_>>().join(", "))
}

/// Whether it can be drawn.
pub(super) fn is_drawn(paper: &Paper, steps: &[Step]) -> bool {
    paper.one_by_one && !steps.is_empty() && steps.len() <= STEPS_MAX
}

/// One line through all steps, from the first to the last.
pub(super) fn draw(
    timeline: &Timeline,
    paper: &Paper,
    steps: &[Step],
    out: &mut impl Write,
) -> io::Result<()> {
    if !is_drawn(paper, steps) {
        return Ok(());
    }
    let below = |rank| Px(paper.y(rank) + paper.bar / 2.0 + 2.0);
    write!(out, "<path class=\"critical\" d=\"")?;
    let mut is_on = false;
    for step in steps {
        let (start, end) = (Px(paper.x(step.start_ps)), Px(paper.x(step.end_ps)));
        let from = match step.part {
            Part::Message(message) => timeline.messages[message].from,
            Part::Dependence(dependence) => timeline.dependences[dependence].from,
            _ => step.rank,
        };
        // It is interrupted where it goes through ranks that are not drawn.
        if paper.places.line(from).is_none() || paper.places.line(step.rank).is_none() {
            is_on = false;
            continue;
        }
        let verb = if is_on { "L" } else { "M" };
        is_on = true;
        write!(out, "{verb}{start} {}L{end} {}", below(from), below(step.rank))?;
    }
    writeln!(out, "\"><title>critical path: what the end waited for</title></path>")
}
