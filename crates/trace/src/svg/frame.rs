//! Everything around what happened: title, legend, lines, axis.

use super::SvgOptions;
use super::arrows;
use super::paper::{CHARACTER, MARGIN, Paper};
use super::rows::{Line, listed};
use super::theme;
use super::xml::{Escaped, Px};
use crate::kinds::{COLOURS, Colours, class, kind_name};
use crate::units::marks;
use crate::{Activity, Rows, Through, Timeline};
use castell_base::counted;
use std::io::{self, Write};

/// The root element, style sheet, paper, title and subtitle.
pub(super) fn open(
    timeline: &Timeline,
    options: &SvgOptions,
    paper: &Paper,
    out: &mut impl Write,
) -> io::Result<()> {
    let (width, height) = (Px(paper.width), Px(paper.height));
    let summary = summary(timeline, paper);
    let title = if timeline.title.is_empty() { "timeline" } else { &timeline.title };
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-labelledby=\"title summary\">"
    )?;
    writeln!(out, "<title id=\"title\">{}</title>", Escaped(title))?;
    writeln!(out, "<desc id=\"summary\">{}. {}</desc>", Escaped(&timeline.subtitle), Escaped(&summary))?;
    let kinds = if timeline.kinds.is_empty() { String::new() } else { theme::kind_style(options.theme) };
    let style =
        theme::style(options.theme) + &kinds + &options.font.as_deref().map(theme::font).unwrap_or_default();
    writeln!(out, "<style>{style}</style>")?;
    let (_, _, head) = arrows::looks(paper.arrows.unwrap_or(0));
    writeln!(
        out,
        "<defs><marker id=\"head\" viewBox=\"0 0 8 6\" refX=\"7.5\" refY=\"3\" markerWidth=\"{head}\" markerHeight=\"{}\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"head\" d=\"M0 0L8 3L0 6z\"/></marker></defs>",
        Px(head * 0.75)
    )?;
    writeln!(out, "<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>")?;
    for (class, y, text) in paper.head() {
        writeln!(out, "<text class=\"{class}\" x=\"{MARGIN}\" y=\"{y}\">{}</text>", Escaped(text))?;
    }
    let notes = std::iter::once(&summary).chain(&paper.notes);
    for (index, note) in notes.enumerate() {
        let y = paper.notes_y(index);
        writeln!(out, "<text class=\"quiet\" x=\"{MARGIN}\" y=\"{y}\">{}</text>", Escaped(note))?;
    }
    Ok(())
}

fn summary(timeline: &Timeline, paper: &Paper) -> String {
    let word = timeline.rows.name();
    let ranks = counted(timeline.ranks, word);
    // Others send nothing to each other.
    let messages = match timeline.rows {
        Rows::Ranks => counted(timeline.messages.len(), "message") + "; ",
        Rows::Workers | Rows::Nodes => String::new(),
    };
    let comma = if messages.is_empty() { "; " } else { ", " };
    // Ends that lie outside of a part are not told as if they were its own.
    if timeline.through.contains(&Through::Later) {
        return format!("{ranks}{comma}{messages}goes on after this part");
    }
    let ends = &paper.rank_ends_ps;
    let (first, last) = (ends.iter().min().copied().unwrap_or(0), ends.iter().max().copied().unwrap_or(0));
    let (end, skew) = (paper.unit.time(last), paper.unit.time(last - first));
    match (timeline.ranks, last == first) {
        (0 | 1, _) => format!("{ranks}{comma}{messages}ends at {end}"),
        (_, true) => format!("{ranks}{comma}{messages}all {word}s end at {end}"),
        _ => format!("{ranks}{comma}{messages}the last {word} ends at {end}, {skew} after the first"),
    }
}

/// A sample of each colour that is used, and what it stands for.
pub(super) fn legend(
    timeline: &Timeline,
    paper: &Paper,
    has_path: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let y = paper.legend_y;
    let mut x = MARGIN;
    for (colour, thick, name) in samples(timeline, paper.one_by_one) {
        let (top, class) = (Px(y - 4.0 - thick / 2.0), class(colour));
        let name_width = name.chars().count() as f64 * CHARACTER;
        if x + 24.0 + name_width > paper.width - MARGIN {
            break;
        }
        writeln!(
            out,
            "<rect class=\"{class}\" x=\"{}\" y=\"{top}\" width=\"18\" height=\"{thick}\"/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            Px(x),
            Px(x + 24.0),
            Px(y),
            Escaped(&name)
        )?;
        x += 24.0 + name_width + 18.0;
    }
    if paper.arrows.is_some_and(|drawn| drawn > 0) {
        let (from, to, middle) = (Px(x), Px(x + 24.0), Px(y - 4.0));
        writeln!(
            out,
            "<path class=\"arrow\" d=\"M{from} {middle}H{to}\" marker-end=\"url(#head)\"/>\
             <text x=\"{}\" y=\"{}\">message, from its departure to its arrival</text>",
            Px(x + 30.0),
            Px(y)
        )?;
        x += 30.0 + 43.0 * CHARACTER + 18.0;
    }
    // On narrow paper its line in words has to do.
    if has_path && x + 24.0 + 13.0 * CHARACTER < paper.width - MARGIN {
        writeln!(
            out,
            "<path class=\"critical\" d=\"M{} {}h18\"/><text x=\"{}\" y=\"{}\">critical path</text>",
            Px(x),
            Px(y - 4.0),
            Px(x + 24.0),
            Px(y)
        )?;
    }
    Ok(())
}

/// The colours that are used: which, how thick a sample is, and what it stands for.
fn samples(timeline: &Timeline, has_gaps: bool) -> Vec<(usize, f64, String)> {
    let colours = Colours::of(timeline);
    let mut used = [false; COLOURS];
    timeline.spans.iter().for_each(|span| used[colours.number(span)] = true);
    // Gaps are waiting, too.
    used[Activity::Wait as usize] = has_gaps;
    let kinds = (Activity::ALL.len()..COLOURS).map(|colour| (colour, 10.0, kind_name(timeline, colour)));
    let activities = [
        (Activity::Compute, 10.0, "computing"),
        (Activity::Send, 10.0, "sending"),
        (Activity::Recv, 10.0, "receiving"),
        (Activity::Other, 10.0, "other"),
        (Activity::Wait, 3.0, "waiting"),
    ];
    let activities =
        activities.map(|(activity, thick, name)| (activity as usize, thick, name.to_owned())).into_iter();
    kinds.chain(activities).filter(|(colour, ..)| used[*colour]).collect()
}

/// A stripe or line a rank with its name and its end, and the axis with its grid.
pub(super) fn lines_and_axis(paper: &Paper, out: &mut impl Write) -> io::Result<()> {
    for line in (1..paper.places.lines.len()).step_by(2) {
        let y = Px(paper.top + line as f64 * paper.pitch);
        let (width, height) = (Px(paper.width - 2.0 * MARGIN), Px(paper.pitch));
        writeln!(
            out,
            "<rect class=\"stripe\" x=\"{MARGIN}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        )?;
    }
    axis(paper, out)?;
    if paper.places.lines.iter().any(|line| line.ranks.len() > 1) {
        let (x, y) = (Px(paper.left - 8.0), Px(paper.top - 3.0));
        writeln!(out, "<text class=\"quiet end\" x=\"{x}\" y=\"{y}\">{}s</text>", paper.row)?;
    }
    for (line, Line { ranks, name }) in (0..).zip(&paper.places.lines) {
        let middle = paper.top + (f64::from(line) + 0.5) * paper.pitch;
        let (text_y, left, right) = (Px(middle + 4.0), Px(paper.left), Px(paper.right));
        let all = match &ranks[..] {
            [_] => String::new(),
            _ => format!("<title>{}s {}</title>", paper.row, listed(ranks, 2000)),
        };
        let base = if paper.one_by_one { middle } else { paper.floor(line) };
        writeln!(
            out,
            "<text class=\"end\" x=\"{}\" y=\"{text_y}\">{name}{all}</text>\
             <path class=\"base\" d=\"M{left} {}H{right}\"/>\
             <text class=\"quiet\" x=\"{}\" y=\"{text_y}\">{}</text>",
            Px(paper.left - 8.0),
            Px(base),
            Px(paper.right + 8.0),
            paper.end_of(ranks)
        )?;
    }
    Ok(())
}

fn axis(paper: &Paper, out: &mut impl Write) -> io::Result<()> {
    let (left, right, top, bottom) = (Px(paper.left), Px(paper.right), Px(paper.top), Px(paper.bottom));
    let marks_max = ((paper.right - paper.left) / 90.0) as u64;
    for mark in marks(paper.end_ps, marks_max) {
        let x = Px(paper.x(mark));
        let number = paper.unit.number(mark);
        writeln!(
            out,
            "<path class=\"grid\" d=\"M{x} {top}V{}\"/><text class=\"middle\" x=\"{x}\" y=\"{}\">{number}</text>",
            Px(paper.bottom + 5.0),
            Px(paper.bottom + 19.0)
        )?;
    }
    writeln!(
        out,
        "<path class=\"axis\" d=\"M{left} {bottom}H{right}\"/>\
         <text class=\"quiet middle\" x=\"{}\" y=\"{}\">time in {}</text>\
         <text class=\"quiet\" x=\"{}\" y=\"{}\">end</text>",
        Px((paper.left + paper.right) / 2.0),
        Px(paper.bottom + 37.0),
        paper.unit.name,
        Px(paper.right + 8.0),
        Px(paper.top - 3.0)
    )
}
