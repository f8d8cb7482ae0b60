//! Spans, one by one.

use super::paper::{Paper, TINY_CHARACTER};
use super::xml::{Escaped, Px};
use crate::kinds::{Colours, class};
use crate::lanes::{by_rank, place};
use crate::{Activity, Span, Timeline};
use castell_base::Rank;
use std::io::{self, Write};

/// Spans of one rank that overlap lie above one another in so many lanes at most; then they cover one another.
const LANES_MAX: usize = 4;
/// No bar is narrower, however short its span.
const WIDTH_MIN: f64 = 0.8;

/// Thin bars where a rank waits: its spans of that kind, and the gaps between all others up to its end.
pub(super) fn waits(timeline: &Timeline, paper: &Paper, out: &mut impl Write) -> io::Result<()> {
    let thick = paper.wait();
    writeln!(out, "<g class=\"wait\">")?;
    for (rank, spans) in by_rank(timeline).filter(|(rank, _)| paper.places.is_first(*rank)) {
        let mut free_ps = 0;
        let mut gap = |from_ps: u64, to_ps: u64, name: &str| {
            let (x, width) = (paper.x(from_ps), paper.x(to_ps) - paper.x(from_ps));
            if width < WIDTH_MIN {
                return Ok(());
            }
            let y = Px(paper.y(rank) - thick / 2.0);
            let tooltip = tooltip(rank, name, from_ps, to_ps, paper);
            writeln!(
                out,
                "<rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{}\"><title>{tooltip}</title></rect>",
                Px(x),
                Px(width),
                Px(thick)
            )
        };
        for span in spans {
            if span.start_ps > free_ps {
                gap(free_ps, span.start_ps, "waiting")?;
            }
            if span.activity == Activity::Wait {
                gap(span.start_ps.max(free_ps), span.end_ps, &span.name)?;
            }
            free_ps = free_ps.max(span.end_ps);
        }
    }
    writeln!(out, "</g>")
}

/// A bar for each span in which a rank was busy.
pub(super) fn draw(timeline: &Timeline, paper: &Paper, out: &mut impl Write) -> io::Result<()> {
    let colours = Colours::of(timeline);
    for (rank, spans) in by_rank(timeline).filter(|(rank, _)| paper.places.is_first(*rank)) {
        let busy = spans.into_iter().filter(|span| span.activity != Activity::Wait);
        let (placed, lanes) = place(busy, LANES_MAX);
        if placed.is_empty() {
            continue;
        }
        writeln!(out, "<g>")?;
        let thick = paper.bar / lanes as f64;
        for (lane, span) in placed {
            let top = paper.y(rank) - paper.bar / 2.0 + lane as f64 * thick;
            bar(span, class(colours.number(span)), (top, thick), paper, out)?;
        }
        writeln!(out, "</g>")?;
    }
    Ok(())
}

fn bar(
    span: &Span,
    class: &str,
    (top, thick): (f64, f64),
    paper: &Paper,
    out: &mut impl Write,
) -> io::Result<()> {
    let x = paper.x(span.start_ps);
    let width = (paper.x(span.end_ps) - x).max(WIDTH_MIN);
    // Neighbours of one colour stay apart where there is room.
    let inner = if width > 4.0 { width - 0.6 } else { width };
    write!(
        out,
        "<rect class=\"bar {class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">",
        Px(x),
        Px(top),
        Px(inner),
        Px(thick - if thick > 4.0 { 0.0 } else { 0.3 })
    )?;
    let tooltip = tooltip(span.rank, &span.name, span.start_ps, span.end_ps, paper);
    writeln!(out, "<title>{tooltip}</title></rect>")?;
    let text_width = span.name.chars().count() as f64 * TINY_CHARACTER;
    if thick >= 12.0 && text_width + 6.0 < width {
        let (x, y) = (Px(x + width / 2.0), Px(top + thick / 2.0 + 3.5));
        writeln!(
            out,
            "<text class=\"tiny middle on-{class}\" x=\"{x}\" y=\"{y}\" pointer-events=\"none\">{}</text>",
            Escaped(&span.name)
        )?;
    }
    Ok(())
}

fn tooltip(rank: Rank, name: &str, from_ps: u64, to_ps: u64, paper: &Paper) -> String {
    let number = |ps| paper.unit.number(ps);
    let (from, to, unit) = (number(from_ps), number(to_ps), paper.unit.name);
    let duration = paper.unit.time(to_ps.saturating_sub(from_ps));
    let row = paper.row;
    format!("{row} {rank}: {}, {from} to {to} {unit} ({duration})", Escaped(name))
}
