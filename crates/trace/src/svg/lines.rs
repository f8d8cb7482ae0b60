//! Lines over a common axis, in panels one above the other: what a program does over time, or how it slows over sizes.

use super::look::{Head, Look};
use super::theme;
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// What the common axis shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Axis {
    /// Seconds.
    #[default]
    Seconds,
    /// Bytes, by powers of two.
    Bytes,
    /// Hours.
    Hours,
    /// Numbers of something, by powers of two.
    Counts,
}

impl Axis {
    fn is_by_powers(self) -> bool {
        matches!(self, Axis::Bytes | Axis::Counts)
    }
}

/// A line: points in the order of the axis; where one is missing the line is interrupted.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// What it is.
    pub name: String,
    /// Where, and how much.
    pub points: Vec<(f64, Option<f64>)>,
    /// Where, and from how much to how much the truth may lie.
    pub band: Vec<(f64, f64, f64)>,
}

/// Lines with one scale.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// What is shown, with its unit.
    pub label: String,
    /// At most five have a colour of their own.
    pub lines: Vec<Line>,
    /// A value that is always on the scale, with a line of its own, unless that is by powers of ten.
    pub base: f64,
    /// By powers of ten: for values above 0 that grow as much as the axis does.
    pub by_powers: bool,
}

/// Panels over one axis.
#[derive(Clone, Debug, Default)]
pub struct LinePlot {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// What the panels have in common.
    pub axis: Axis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// Places on the axis that are marked, each with a word.
    pub marks: Vec<(f64, String)>,
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const HEAD: f64 = 92.0;
const PANEL: f64 = 170.0;
const BETWEEN: f64 = 44.0;
const COLOURS: usize = 5;

struct Scale {
    axis: Axis,
    first: f64,
    last: f64,
}

impl Scale {
    fn of(plot: &LinePlot) -> Scale {
        let lines = plot.panels.iter().flat_map(|panel| &panel.lines);
        let places = lines.flat_map(|line| line.points.iter().map(|(place, _)| *place));
        let places =
            places.chain(plot.marks.iter().map(|(place, _)| *place)).filter(|place| place.is_finite());
        let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
        for place in places.map(|place| along(plot.axis, place)) {
            (first, last) = (first.min(place), last.max(place));
        }
        if plot.axis.is_by_powers() {
            (first, last) = (first.floor(), last.ceil());
        }
        if last <= first || !first.is_finite() {
            let middle = if first.is_finite() { first } else { 0.0 };
            (first, last) = (middle, middle + 1.0);
        }
        Scale { axis: plot.axis, first, last }
    }

    fn x(&self, place: f64) -> f64 {
        let place = along(self.axis, place).clamp(self.first, self.last);
        LEFT + (place - self.first) / (self.last - self.first) * (WIDTH - LEFT - RIGHT)
    }

    /// Places for grid lines, with what is written there.
    fn ticks(&self) -> Vec<(f64, String)> {
        if self.axis.is_by_powers() {
            let step = ((self.last - self.first) / 12.0).ceil().max(1.0) as usize;
            let powers = (self.first as i32..=self.last as i32).step_by(step);
            let name = |power| match self.axis {
                Axis::Bytes => bytes_name(power),
                _ => format!("{:.0}", f64::from(power).exp2()),
            };
            return powers.map(|power| (f64::from(power).exp2(), name(power))).collect();
        }
        let step = round_step((self.last - self.first) / 8.0);
        let first = (self.first / step).ceil() as i64;
        let ticks = (first..first + 12).map(|at| at as f64 * step).filter(|place| *place <= self.last);
        let unit = if self.axis == Axis::Hours { "h" } else { "s" };
        ticks.map(|place| (place, format!("{} {unit}", short(place)))).collect()
    }
}

fn along(axis: Axis, place: f64) -> f64 {
    if axis.is_by_powers() { place.max(1.0).log2() } else { place }
}

/// 1, 2 or 5 times a power of ten, not below `step`.
pub(super) fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1e-12).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|round| *round >= step)
        .unwrap_or(power)
}

fn bytes_name(power: i32) -> String {
    let unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][(power.max(0) / 10) as usize % 7];
    format!("{} {unit}", 1u64 << (power.max(0) % 10))
}

pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Writes the plot as an SVG drawing.
///
/// # Errors
/// Whatever the writer says.
pub fn write_line_plot(plot: &LinePlot, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let scale = Scale::of(plot);
    let panels = plot.panels.len() as f64;
    let bottom = HEAD + panels * (PANEL + BETWEEN) - BETWEEN;
    let height = bottom + 34.0;
    let head =
        Head { title: &plot.title, subtitle: &plot.subtitle, left: LEFT, css: theme::line_style(look.theme) };
    look.open((WIDTH, height), head, out)?;
    for (x, text) in scale.ticks().into_iter().map(|(place, text)| (Px(scale.x(place)), text)) {
        writeln!(
            out,
            "<path class=\"grid\" d=\"M{x} {}V{}\"/><text class=\"middle tiny\" x=\"{x}\" y=\"{}\">{text}</text>",
            Px(HEAD),
            Px(bottom),
            Px(bottom + 18.0)
        )?;
    }
    for (place, word) in &plot.marks {
        let x = Px(scale.x(*place));
        writeln!(
            out,
            "<path class=\"arrow\" stroke-dasharray=\"4 3\" d=\"M{x} {}V{}\"/>\
             <text class=\"middle tiny\" x=\"{x}\" y=\"{}\">{}</text>",
            Px(HEAD),
            Px(bottom),
            Px(HEAD - 22.0),
            Escaped(word)
        )?;
    }
    for (at, panel) in plot.panels.iter().enumerate() {
        write_panel(panel, &scale, HEAD + at as f64 * (PANEL + BETWEEN), out)?;
    }
    writeln!(out, "</svg>")
}

/// A panel's scale: whole steps, or powers of ten.
struct Values {
    by_powers: bool,
    low: f64,
    high: f64,
    step: f64,
}

impl Values {
    fn of(panel: &Panel) -> Values {
        let by_powers = panel.by_powers;
        let points = panel.lines.iter().flat_map(|line| line.points.iter().filter_map(|(_, value)| *value));
        let bands =
            panel.lines.iter().flat_map(|line| line.band.iter().flat_map(|(_, low, high)| [*low, *high]));
        let shown = |value: &f64| value.is_finite() && (!by_powers || *value > 0.0);
        let base = if by_powers { (f64::INFINITY, f64::NEG_INFINITY) } else { (panel.base, panel.base) };
        let range = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let (low, high) = points.chain(bands).filter(shown).fold(base, range);
        if by_powers {
            let (low, high) =
                if low <= high { (low.log10().floor(), high.log10().ceil()) } else { (0.0, 1.0) };
            let step = ((high - low) / 6.0).ceil().max(1.0);
            return Values { by_powers, low, high: high.max(low + 1.0), step };
        }
        let step = round_step((high - low).max(1e-9) / 4.0);
        let low = (low / step).floor() * step;
        Values { by_powers, low, high: low + step * 5.0, step }
    }

    /// How far up a value lies, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let value = if self.by_powers { value.max(f64::MIN_POSITIVE).log10() } else { value };
        (value.clamp(self.low, self.high) - self.low) / (self.high - self.low)
    }

    /// Values for grid lines.
    fn ticks(&self) -> Vec<f64> {
        let count = ((self.high - self.low) / self.step).round() as u32;
        let at = |number: u32| self.low + self.step * f64::from(number);
        match self.by_powers {
            false => (0..=count).map(at).collect(),
            // Where there are few powers, what lies between them is marked as well.
            true => {
                let between: &[f64] = if count <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let all = (0..=count)
                    .flat_map(|number| between.iter().map(move |times| times * 10f64.powf(at(number))));
                all.filter(|value| value.log10() <= self.high + 1e-9).collect()
            }
        }
    }
}

fn write_panel(panel: &Panel, scale: &Scale, top: f64, out: &mut impl Write) -> io::Result<()> {
    let values = Values::of(panel);
    let y = |value: f64| top + PANEL * (1.0 - values.part(value));
    for value in values.ticks() {
        let (line, right) = (Px(y(value)), Px(WIDTH - RIGHT));
        writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {line}H{right}\"/><text class=\"end tiny\" x=\"{}\" y=\"{}\">{}</text>",
            Px(LEFT - 6.0),
            Px(line.0 + 3.0),
            short(value)
        )?;
    }
    let base = if panel.by_powers { top + PANEL } else { y(panel.base) };
    writeln!(out, "<path class=\"arrow\" d=\"M{LEFT} {}H{}\"/>", Px(base), Px(WIDTH - RIGHT))?;
    writeln!(out, "<text x=\"{LEFT}\" y=\"{}\">{}</text>", Px(top - 6.0), Escaped(&panel.label))?;
    for (at, line) in panel.lines.iter().enumerate() {
        write_line(line, at, scale, &y, out)?;
        write_key(line, at, panel, top, out)?;
    }
    Ok(())
}

fn write_line(
    line: &Line,
    at: usize,
    scale: &Scale,
    y: &impl Fn(f64) -> f64,
    out: &mut impl Write,
) -> io::Result<()> {
    let colour = at % COLOURS;
    let place = |at: f64, value: f64| format!("{} {}", Px(scale.x(at)), Px(y(value)));
    if !line.band.is_empty() {
        let upper = line.band.iter().map(|(at, _, high)| place(*at, *high));
        let lower = line.band.iter().rev().map(|(at, low, _)| place(*at, *low));
        let around: Vec<String> = upper.chain(lower).collect();
        writeln!(out, "<path class=\"band-{colour}\" d=\"M{}Z\"/>", around.join("L"))?;
    }
    let pieces = line.points.split(|(_, value)| value.is_none()).filter(|piece| !piece.is_empty());
    let mut path = String::new();
    for piece in pieces {
        let points: Vec<String> =
            piece.iter().filter_map(|(at, value)| Some(place(*at, (*value)?))).collect();
        // A point alone is a short stroke.
        path += &format!("M{}{}", points.join("L"), if points.len() == 1 { "h2" } else { "" });
    }
    if path.is_empty() {
        return Ok(());
    }
    writeln!(out, "<path class=\"line-{colour}\" d=\"{path}\"><title>{}</title></path>", Escaped(&line.name))
}

fn write_key(line: &Line, at: usize, panel: &Panel, top: f64, out: &mut impl Write) -> io::Result<()> {
    let behind: usize = panel.lines[at..].iter().map(|line| line.name.chars().count() + 6).sum();
    let x = (WIDTH - RIGHT - behind as f64 * 6.5).max(LEFT);
    writeln!(
        out,
        "<path class=\"line-{}\" d=\"M{} {}h18\"/><text class=\"tiny\" x=\"{}\" y=\"{}\">{}</text>",
        at % COLOURS,
        Px(x),
        Px(top - 10.0),
        Px(x + 22.0),
        Px(top - 6.0),
        Escaped(&line.name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(plot: &LinePlot) -> String {
        let mut text = Vec::new();
        write_line_plot(plot, &Look::default(), &mut text).expect("memory takes it");
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn everything_lies_on_the_paper_whatever_the_numbers() {
        let line = |points: Vec<(f64, Option<f64>)>| Line {
            name: "a < b".to_owned(),
            points,
            band: vec![(1.0, 0.5, 2.0)],
        };
        let panel = |points| Panel {
            label: "x & y".to_owned(),
            lines: vec![line(points)],
            base: 1.0,
            by_powers: false,
        };
        let odd = vec![(0.0, Some(1.0)), (3.0, None), (1e18, Some(-1e9)), (2e18, Some(f64::MIN_POSITIVE))];
        let by_powers = |panel| Panel { by_powers: true, ..panel };
        for axis in [Axis::Seconds, Axis::Bytes, Axis::Counts] {
            for panels in [
                vec![],
                vec![Panel::default(), by_powers(Panel::default())],
                vec![panel(odd.clone()), panel(vec![(4.0, Some(2.0))]), by_powers(panel(odd.clone()))],
            ] {
                let marks = vec![(32768.0, "L1".to_owned())];
                let text = drawn(&LinePlot { axis, panels, marks, ..LinePlot::default() });
                assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains("a < b"), "{text}");
                for x in text.split(" x=\"").skip(1) {
                    let x: f64 = x.split('"').next().and_then(|x| x.parse().ok()).expect("a number");
                    assert!((0.0..=WIDTH).contains(&x), "{x}");
                }
            }
        }
    }

    #[test]
    fn powers_of_ten_lie_evenly_and_few_are_subdivided() {
        let of = |values: &[f64]| {
            let points = values.iter().map(|value| (1.0, Some(*value))).collect();
            let line = Line { points, ..Line::default() };
            Values::of(&Panel { lines: vec![line], by_powers: true, ..Panel::default() })
        };
        let wide = of(&[0.02, 300.0]);
        assert_eq!((wide.low, wide.high), (-2.0, 3.0));
        assert_eq!(wide.ticks().len(), 6);
        assert!((wide.part(1.0) - 0.4).abs() < 1e-12 && wide.part(0.0) == 0.0);
        let ticks: Vec<String> = of(&[3.0, 70.0]).ticks().into_iter().map(short).collect();
        assert_eq!(ticks, ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(of(&[10.0]).ticks().len(), 4, "a value alone has a scale, too");
    }

    #[test]
    fn a_line_is_interrupted_where_a_point_is_missing() {
        let points =
            vec![(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(1.0)), (4.0, Some(3.0))];
        let line = Line { name: "it".to_owned(), points, band: Vec::new() };
        let plot =
            LinePlot { panels: vec![Panel { lines: vec![line], ..Panel::default() }], ..LinePlot::default() };
        let text = drawn(&plot);
        let path = text
            .lines()
            .find(|row| row.contains("line-0\" d=\"M") && row.contains("<title>"))
            .expect("a line");
        assert_eq!(path.matches('M').count(), 2, "{path}");
    }
}
