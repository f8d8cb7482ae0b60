//! Charts: lines, dots and bars over two axes, in panels; what experiments and papers need.
//!
//! `scale` says where a value lies along an axis, `layout` where panels and legend lie on the paper, `shapes` draws what is in a panel,
//! `checked` reads a chart from JSON and says what is wrong with it.

mod checked;
mod layout;
mod scale;
mod shapes;

pub use checked::ChartError;
pub(super) use scale::{round_step, short};

use super::look::Look;
use super::theme;
use super::xml::{Escaped, Px};
use layout::{Frame, Layout};
use serde::Deserialize;
use std::io::{self, Write};

/// Colours of series; of more, some have the same one and differ in their strokes.
pub const CHART_COLOURS: usize = theme::KINDS;
/// Width of a chart that does not ask for one, in pixels.
const WIDTH: u32 = 900;

/// Panels over axes, with a legend. In JSON its keys are the fields' names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Chart {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// In pixels, 300 to 10,000 (numbers outside count as the nearest inside); 900 where it is not said.
    pub width: Option<u32>,
    /// Panels beside each other; 1 where it is not said.
    pub columns: usize,
    /// The axis that all panels have in common which have none of their own. Its labels stand below the lowest panels.
    pub x: Axis,
    /// The same, up; its labels stand left of the first panels.
    pub y: Axis,
    /// Of the first panel, where that has no title.
    pub series: Vec<Series>,
    /// Line by line.
    pub panels: Vec<Panel>,
}

/// An axis.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Stands behind each number. `bytes` are shown as KiB and so on; by powers, `ns`, `us`, `ms` and `s` as whichever is short.
    pub unit: String,
    /// How values lie along it.
    pub scale: Powers,
    /// Where it begins; what lies before is at the edge.
    pub from: Option<f64>,
    /// Where it ends.
    pub to: Option<f64>,
    /// Where there are numbers, instead of round ones.
    pub ticks: Vec<f64>,
    /// A value that is always on it, with a line of its own.
    pub base: Option<f64>,
    /// Values with a dashed line and a word.
    pub marks: Vec<Mark>,
    /// The order of names, where they are not to stand as they come.
    pub names: Vec<String>,
}

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Powers {
    /// Evenly.
    #[default]
    #[serde(rename = "linear")]
    None,
    /// By powers of two.
    #[serde(rename = "log2")]
    Two,
    /// By powers of ten.
    #[serde(rename = "log10")]
    Ten,
}

/// A place on an axis that is told of.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// The word.
    pub text: String,
}

/// A field with two axes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// Of what lies between the axes, in pixels, 40 to 5,000; where it is not said, it follows from what is drawn.
    pub height: Option<u32>,
    /// An axis of its own.
    pub x: Option<Axis>,
    /// The same, up.
    pub y: Option<Axis>,
    /// Bars at the same place stand on each other, not beside each other.
    pub stacked: bool,
    /// What is drawn, one over the other.
    pub series: Vec<Series>,
}

/// Points that belong together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Series {
    /// As in the legend; series of the same name have the same colour, and those without one are not in the legend.
    pub name: String,
    /// How they are drawn.
    pub kind: Kind,
    /// In the order in which a line goes through them.
    pub points: Vec<Point>,
    /// Which of the [`CHART_COLOURS`], from 0, instead of the next one.
    pub colour: Option<usize>,
    /// A broken line, without dots.
    pub dashed: bool,
    /// How dots look.
    pub mark: Shape,
    /// Numbers beside bars.
    pub labels: bool,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A line through them, and dots where there are few.
    #[default]
    Line,
    /// A dot each.
    Dots,
    /// A bar each: lying, where the names are at the left.
    Bars,
    /// Bars as wide as each says.
    Histogram,
}

/// How a dot looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// A filled circle.
    #[default]
    Dot,
    /// An empty one.
    Ring,
    /// Two strokes.
    Cross,
}

/// A point. In JSON `[x, y]`, with an error range `[x, y, least, most]`, of a histogram `[from, to, y]`; where x or y is null, a line is
/// interrupted.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Along.
    pub x: Option<Place>,
    /// Up.
    pub y: Option<Place>,
    /// What it has besides.
    pub spread: Spread,
}

/// What a point has besides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Spread {
    /// Nothing.
    #[default]
    None,
    /// From how much to how much the value may be.
    Range(f64, f64),
    /// From where to where a bar goes.
    Width(f64, f64),
}

/// A coordinate.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// On an axis of numbers.
    Number(f64),
    /// On an axis of names.
    Name(String),
}

impl Place {
    fn number(&self) -> Option<f64> {
        match self {
            Place::Number(number) => Some(*number),
            Place::Name(_) => None,
        }
    }
}

impl Point {
    /// A point of a line that is interrupted where there is no value.
    pub fn new(x: f64, y: Option<f64>) -> Point {
        Point { x: Some(Place::Number(x)), y: y.map(Place::Number), spread: Spread::None }
    }

    /// The same with an error range.
    pub fn between(x: f64, y: Option<f64>, least: f64, most: f64) -> Point {
        Point { spread: Spread::Range(least, most), ..Point::new(x, y) }
    }

    /// A bar of a histogram.
    pub fn wide(from: f64, to: f64, y: f64) -> Point {
        Point { spread: Spread::Width(from, to), ..Point::new(from, Some(y)) }
    }

    /// Where along an axis of numbers; 0 of a name.
    pub fn along(&self) -> f64 {
        self.x.as_ref().and_then(Place::number).unwrap_or(0.0)
    }

    /// Both coordinates, where there are some.
    fn both(&self) -> Option<(&Place, &Place)> {
        let is_finite = |place: &&Place| place.number().is_none_or(f64::is_finite);
        Some((self.x.as_ref().filter(is_finite)?, self.y.as_ref().filter(is_finite)?))
    }
}

/// Writes the chart as an SVG drawing.
///
/// # Errors
/// Whatever the writer says.
pub fn write_chart(chart: &Chart, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let first = Panel { series: chart.series.clone(), ..Panel::default() };
    let first = (!chart.series.is_empty()).then_some(&first);
    let panels: Vec<&Panel> = first.into_iter().chain(&chart.panels).collect();
    let width = f64::from(chart.width.unwrap_or(WIDTH).clamp(300, 10_000));
    let title = look.title.as_deref().unwrap_or(&chart.title);
    let layout = Layout::of(chart, &panels, title, width);
    let css = theme::chart_style(look.theme);
    look.begin((width, layout.height), title, &css, out)?;
    writeln!(out, "<desc>{}</desc>", Escaped(&summary(chart, &layout)))?;
    for (class, y, text) in &layout.head {
        let (x, y) = (Px(layout::MARGIN), Px(*y));
        writeln!(out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", Escaped(text))?;
    }
    for entry in &layout.legend {
        shapes::sample(entry, out)?;
    }
    for frame in &layout.frames {
        write_axes(frame, out)?;
        shapes::write(frame, &layout, out)?;
    }
    writeln!(out, "</svg>")
}

/// What somebody is told who does not see it.
fn summary(chart: &Chart, layout: &Layout<'_>) -> String {
    let mut text = chart.subtitle.clone();
    for frame in &layout.frames {
        let names: Vec<&str> = frame.panel.series.iter().map(|series| series.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let parts = [&frame.panel.title, &frame.y_axis.label, &frame.x_axis.label].map(String::as_str);
        let parts = parts.into_iter().zip(["", "", "over "]).filter(|(part, _)| !part.is_empty());
        let parts: Vec<String> = parts.map(|(part, before)| format!("{before}{part}")).collect();
        let dot = if text.is_empty() || text.ends_with('.') { "" } else { "." };
        let colon = if parts.is_empty() || names.is_empty() { "" } else { ": " };
        text += &format!("{dot} {}{colon}{}", parts.join(" "), names.join(", "));
    }
    text.trim().to_owned()
}

/// Grid, numbers, names, title and marks of a panel.
fn write_axes(frame: &Frame<'_>, out: &mut impl Write) -> io::Result<()> {
    let Frame { left, right, top, bottom, .. } = *frame;
    let text = |class: &str, (x, y): (f64, f64), text: &str, out: &mut dyn Write| {
        if text.is_empty() {
            return Ok(());
        }
        writeln!(out, "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>", Px(x), Px(y), Escaped(text))
    };
    let line = |class: &str, (x, y): (f64, f64), to: &str, out: &mut dyn Write| {
        writeln!(out, "<path class=\"{class}\" d=\"M{} {}{to}\"/>", Px(x), Px(y))
    };
    let (across, up) = (format!("H{}", Px(right)), format!("V{}", Px(bottom)));
    text("name", (left, frame.title_y), &frame.panel.title, out)?;
    let row = (bottom - top) / frame.y_names.len().max(1) as f64;
    for at in (1..frame.y_names.len()).step_by(2) {
        let (x, y, width) = (Px(frame.begin), Px(top + at as f64 * row), Px(right - frame.begin));
        writeln!(
            out,
            "<rect class=\"stripe\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\"/>",
            Px(row)
        )?;
    }
    for tick in &frame.y_ticks {
        let y = frame.y(*tick);
        line("grid", (left, y), &across, out)?;
        if frame.shows_y {
            text("end tiny", (left - 9.0, y + 3.5), &frame.y_scale.text(*tick), out)?;
        }
    }
    for tick in &frame.x_ticks {
        let x = frame.x(*tick);
        line("grid", (x, top), &up, out)?;
        if frame.shows_x {
            text("middle tiny", (x, bottom + 15.0), &frame.x_scale.text(*tick), out)?;
        }
    }
    for (at, lines) in frame.y_names.iter().enumerate().filter(|_| frame.shows_y) {
        let y = top + (at as f64 + 0.5) * row;
        text("end tiny", (left - 9.0, y + 3.5), lines, out)?;
    }
    for (at, lines) in frame.x_names.iter().enumerate().filter(|_| frame.shows_x) {
        let x = left + (at as f64 + 0.5) * (right - left) / frame.x_names.len() as f64;
        for (number, part) in lines.iter().enumerate() {
            text("middle tiny", (x, bottom + 15.0 + 12.0 * number as f64), part, out)?;
        }
    }
    if frame.shows_y {
        text("quiet tiny", (frame.begin, frame.y_label_y), &frame.y_axis.label, out)?;
    }
    if frame.shows_x {
        text("middle quiet tiny", ((left + right) / 2.0, frame.x_label_y), &frame.x_axis.label, out)?;
    }
    // Bars stand on the edge, and dots have rows.
    let has_bars = frame.panel.series.iter().any(|series| series.kind == Kind::Bars);
    let has_dots = frame.has_rows && !has_bars;
    let (from, edge) = if frame.has_rows { (top, &up) } else { (bottom, &across) };
    line(if has_dots { "grid" } else { "arrow" }, (left, from), edge, out)?;
    for base in frame.y_axis.base.into_iter().filter(|_| !frame.y_scale.has_names()) {
        line("arrow", (left, frame.y(base)), &across, out)?;
    }
    for base in frame.x_axis.base.into_iter().filter(|_| !frame.x_scale.has_names()) {
        line("arrow", (frame.x(base), top), &up, out)?;
    }
    for mark in &frame.y_axis.marks {
        let y = frame.y(mark.at);
        line("arrow\" stroke-dasharray=\"4 3", (left, y), &across, out)?;
        text("end tiny", (right, y - 4.0), &mark.text, out)?;
    }
    for (mark, level) in frame.x_axis.marks.iter().zip(&frame.mark_levels) {
        let x = frame.x(mark.at);
        line("arrow\" stroke-dasharray=\"4 3", (x, top - if frame.is_first { 4.0 } else { 0.0 }), &up, out)?;
        if frame.is_first {
            text("middle tiny", (frame.word(mark).0, top - 8.0 - 12.0 * f64::from(*level)), &mark.text, out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
