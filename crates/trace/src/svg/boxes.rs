//! Boxes beside each other, in panels one above the other: how values spread at parts of a range.

use super::chart::{round_step, short};
use super::look::{Head, Look};
use super::theme;
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// Five numbers: the least, the quartiles, the greatest.
pub type FiveNumbers = [f64; 5];

/// Boxes over the parts of one range.
#[derive(Clone, Debug, Default)]
pub struct BoxPanel {
    /// What the range is of.
    pub label: String,
    /// What is written beneath each box, and its numbers if there are any.
    pub boxes: Vec<(String, Option<FiveNumbers>)>,
}

/// Panels with one scale.
#[derive(Clone, Debug, Default)]
pub struct BoxPlot {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// From top to bottom.
    pub panels: Vec<BoxPanel>,
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const HEAD: f64 = 92.0;
const PANEL: f64 = 150.0;
const BETWEEN: f64 = 58.0;
/// Of the room of a box.
const FILLED: f64 = 0.6;

/// Writes the plot as an SVG drawing.
///
/// # Errors
/// Whatever the writer says.
pub fn write_box_plot(plot: &BoxPlot, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let height = HEAD + plot.panels.len() as f64 * (PANEL + BETWEEN);
    let head = Head {
        title: &plot.title,
        subtitle: &plot.subtitle,
        left: LEFT,
        css: theme::chart_style(look.theme),
    };
    look.open((WIDTH, height), head, out)?;
    let scale = Scale::of(plot);
    for (at, panel) in plot.panels.iter().enumerate() {
        write_panel(panel, &scale, HEAD + at as f64 * (PANEL + BETWEEN), out)?;
    }
    writeln!(out, "</svg>")
}

/// Whole steps from below the least number to above the greatest.
struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    fn of(plot: &BoxPlot) -> Scale {
        let boxes = plot.panels.iter().flat_map(|panel| &panel.boxes);
        let numbers = boxes.filter_map(|(_, numbers)| *numbers).flatten().filter(|number| number.is_finite());
        let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
            (low.min(number), high.max(number))
        });
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let step = round_step(((high - low) / 4.0).max(high.abs() * 1e-6).max(1e-9));
        let low = (low / step).floor() * step;
        Scale { low, high: (high / step).ceil().max(low / step + 1.0) * step, step }
    }

    fn y(&self, top: f64, number: f64) -> f64 {
        top + PANEL * (1.0 - (number.clamp(self.low, self.high) - self.low) / (self.high - self.low))
    }
}

fn write_panel(panel: &BoxPanel, scale: &Scale, top: f64, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<text x=\"{LEFT}\" y=\"{}\">{}</text>", Px(top - 8.0), Escaped(&panel.label))?;
    let steps = ((scale.high - scale.low) / scale.step).round() as u32;
    for number in (0..=steps).map(|at| scale.low + scale.step * f64::from(at)) {
        let y = Px(scale.y(top, number));
        writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y}H{}\"/><text class=\"end tiny\" x=\"{}\" y=\"{}\">{}</text>",
            Px(WIDTH - RIGHT),
            Px(LEFT - 6.0),
            Px(y.0 + 3.0),
            short(number)
        )?;
    }
    let room = (WIDTH - LEFT - RIGHT) / panel.boxes.len().max(1) as f64;
    for (at, (name, numbers)) in panel.boxes.iter().enumerate() {
        let middle = LEFT + room * (at as f64 + 0.5);
        let (x, y) = (Px(middle), Px(top + PANEL + 16.0));
        writeln!(out, "<text class=\"middle tiny\" x=\"{x}\" y=\"{y}\">{}</text>", Escaped(name))?;
        if let Some(numbers) = numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite())) {
            write_box(numbers, middle, room * FILLED, |number| scale.y(top, number), out)?;
        }
    }
    Ok(())
}

fn write_box(
    numbers: FiveNumbers,
    middle: f64,
    width: f64,
    y: impl Fn(f64) -> f64,
    out: &mut impl Write,
) -> io::Result<()> {
    let [least, lower, median, upper, most] = numbers.map(|number| Px(y(number)));
    let (left, right, x) = (Px(middle - width / 2.0), Px(middle + width / 2.0), Px(middle));
    writeln!(
        out,
        "<path class=\"band-0\" d=\"M{left} {lower}H{right}V{upper}H{left}Z\"/>\
         <path class=\"line-0\" d=\"M{left} {lower}H{right}V{upper}H{left}ZM{x} {least}V{lower}M{x} {upper}V{most}\"/>\
         <path class=\"line-1\" d=\"M{left} {median}H{right}\"/>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_lies_on_the_paper_whatever_the_numbers() {
        let boxes = |numbers: &[Option<FiveNumbers>]| {
            numbers.iter().map(|numbers| ("1 < 2".to_owned(), *numbers)).collect::<Vec<_>>()
        };
        for numbers in [
            vec![],
            vec![None],
            vec![Some([1.0; 5])],
            vec![Some([0.0; 5]), Some([-1e12, -3.0, 0.0, 5.0, 1e12]), None],
            vec![Some([1e-9, 2e-9, 3e-9, 4e-9, f64::NAN])],
        ] {
            let panel = BoxPanel { label: "a & b".to_owned(), boxes: boxes(&numbers) };
            let plot = BoxPlot { panels: vec![panel.clone(), panel], ..BoxPlot::default() };
            let mut text = Vec::new();
            write_box_plot(&plot, &Look::default(), &mut text).expect("memory takes it");
            let text = String::from_utf8(text).expect("UTF-8");
            assert!(!text.contains("inf") && !text.contains("1 < 2"), "{text}");
            let (drawn, finite) =
                (text.matches("class=\"line-1\"").count(), |numbers: &&FiveNumbers| !numbers[4].is_nan());
            assert_eq!(drawn, 2 * numbers.iter().flatten().filter(finite).count(), "{text}");
            assert!(!text.contains("NaN"), "{text}");
        }
    }
}
