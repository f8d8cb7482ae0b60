//! What ran where and when, for several plans on one axis: a panel a plan, a row a resource, a bar a step, a colour an application.

use super::chart::{round_step, short};
use super::look::{Head, Look};
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub struct GanttBar {
    /// Its row in the panel.
    pub row: usize,
    /// From when, in seconds.
    pub from_s: f64,
    /// Until when.
    pub to_s: f64,
    /// Its place in [`GanttPlot::kinds`].
    pub kind: usize,
    /// What a pointer that rests on it is told.
    pub name: String,
}

/// A plan.
#[derive(Clone, Debug, Default)]
pub struct GanttPanel {
    /// What it is.
    pub label: String,
    /// Names of its rows.
    pub rows: Vec<String>,
    /// What is in them.
    pub bars: Vec<GanttBar>,
}

/// Plans under each other.
#[derive(Clone, Debug, Default)]
pub struct GanttPlot {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// What colours stand for; the first five have one of their own.
    pub kinds: Vec<String>,
    /// From top to bottom.
    pub panels: Vec<GanttPanel>,
}

/// Bars that a panel draws; a line says how many are not drawn.
pub const BARS_MAX: usize = 20_000;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 30.0;
const HEAD: f64 = 84.0;
const ROW: f64 = 20.0;
const LABEL: f64 = 22.0;
const BETWEEN: f64 = 12.0;
const COLOURS: [&str; 5] = ["recv", "send", "compute", "other", "wait"];

/// Writes the plans as an SVG drawing.
///
/// # Errors
/// Whatever the writer says.
pub fn write_gantt(plot: &GanttPlot, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let ends = plot.panels.iter().flat_map(|panel| panel.bars.iter().map(|bar| bar.to_s));
    let end_s = ends.filter(|end| end.is_finite()).fold(1e-12, f64::max);
    let x = |seconds: f64| LEFT + seconds.clamp(0.0, end_s) / end_s * (WIDTH - LEFT - RIGHT);
    let heights = plot.panels.iter().map(|panel| LABEL + panel.rows.len() as f64 * ROW + BETWEEN);
    let bottom = HEAD + heights.sum::<f64>();
    let height = bottom + 30.0;
    let head = Head { title: &plot.title, subtitle: &plot.subtitle, left: 20.0, css: String::new() };
    look.open((WIDTH, height), head, out)?;
    write_kinds(&plot.kinds, out)?;
    let step = round_step(end_s / 10.0);
    for at in 0..=12 {
        let seconds = step * f64::from(at);
        if seconds <= end_s {
            let (place, to) = (Px(x(seconds)), Px(bottom));
            writeln!(
                out,
                "<path class=\"grid\" d=\"M{place} {}V{to}\"/><text class=\"middle tiny\" x=\"{place}\" y=\"{}\">{} s</text>",
                Px(HEAD),
                Px(bottom + 16.0),
                short(seconds)
            )?;
        }
    }
    let mut top = HEAD;
    for panel in &plot.panels {
        write_panel(panel, top, &x, out)?;
        top += LABEL + panel.rows.len() as f64 * ROW + BETWEEN;
    }
    writeln!(out, "</svg>")
}

fn write_kinds(kinds: &[String], out: &mut impl Write) -> io::Result<()> {
    let mut x = 20.0;
    for (at, kind) in kinds.iter().enumerate().take(COLOURS.len()) {
        let width = 30.0 + kind.chars().count() as f64 * 7.5;
        if x + width > WIDTH {
            break;
        }
        writeln!(
            out,
            "<rect class=\"{}\" x=\"{}\" y=\"60\" width=\"14\" height=\"10\"/><text x=\"{}\" y=\"69\">{}</text>",
            COLOURS[at],
            Px(x),
            Px(x + 19.0),
            Escaped(kind)
        )?;
        x += width;
    }
    Ok(())
}

fn write_panel(
    panel: &GanttPanel,
    top: f64,
    x: &impl Fn(f64) -> f64,
    out: &mut impl Write,
) -> io::Result<()> {
    let left_out = panel.bars.len().saturating_sub(BARS_MAX);
    let note = if left_out > 0 { format!(" ({left_out} later steps are not drawn)") } else { String::new() };
    writeln!(out, "<text x=\"20\" y=\"{}\">{}{note}</text>", Px(top + 15.0), Escaped(&panel.label))?;
    for (at, row) in panel.rows.iter().enumerate() {
        let y = top + LABEL + at as f64 * ROW;
        writeln!(
            out,
            "<text class=\"tiny quiet end\" x=\"{}\" y=\"{}\">{}</text><path class=\"base\" d=\"M{LEFT} {}H{}\"/>",
            Px(LEFT - 6.0),
            Px(y + 13.0),
            Escaped(row),
            Px(y + ROW - 2.0),
            Px(WIDTH - RIGHT)
        )?;
    }
    for bar in panel.bars.iter().take(BARS_MAX) {
        let (from, to) = (x(bar.from_s), x(bar.to_s));
        // A gap as thin as a line shows where one ends and the next begins.
        let width = (to - from - 0.5).max(0.5);
        writeln!(
            out,
            "<rect class=\"bar {}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}: {} to {} s</title></rect>",
            COLOURS[bar.kind % COLOURS.len()],
            Px(from),
            Px(top + LABEL + bar.row as f64 * ROW),
            Px(width),
            Px(ROW - 3.0),
            Escaped(&bar.name),
            short(bar.from_s),
            short(bar.to_s)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_drawn_on_one_axis() {
        let bar = |row, from_s, to_s| GanttBar { row, from_s, to_s, kind: 1, name: "a < b".into() };
        let panel =
            |bars| GanttPanel { label: "fast & small".into(), rows: vec!["gpu".into(), "core".into()], bars };
        let plot = GanttPlot {
            title: "t".into(),
            subtitle: "s".into(),
            kinds: vec!["one".into(), "two".into()],
            panels: vec![panel(vec![bar(0, 0.0, 50.0)]), panel(vec![bar(1, 0.0, 100.0); BARS_MAX + 3])],
        };
        let mut text = Vec::new();
        write_gantt(&plot, &Look::default(), &mut text).expect("memory takes it");
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(text.contains("a &lt; b: 0 to 50 s") && text.contains("fast &amp; small"), "{text}");
        assert!(text.contains("3 later steps are not drawn") && text.ends_with("</svg>\n"));
        // Half the time is half the width, less the gap.
        let whole = WIDTH - LEFT - RIGHT;
        assert!(text.contains(&format!("width=\"{}\"", Px(whole / 2.0 - 0.5))), "{text}");
        let mut empty = Vec::new();
        write_gantt(&GanttPlot::default(), &Look::default(), &mut empty).expect("memory takes it");
        assert!(!String::from_utf8(empty).expect("UTF-8").contains("NaN"));
    }
}
