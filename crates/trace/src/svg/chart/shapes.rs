//! What is in a panel: lines, dots, bars.

use super::layout::{Colour, Entry, Frame, Layout};
use super::scale::figure;
use super::{Kind, Place, Series, Shape, Spread};
use crate::svg::paper::TINY_CHARACTER;
use crate::svg::xml::{Escaped, Px};
use std::io::{self, Write};

/// A line with more points has no dots; neither has a broken one.
const DOTTED_MAX: usize = 40;
/// More points than these are drawn as one path of small dots, and say nothing each.
const SEPARATE_MAX: usize = 1000;
/// Widest bar, in pixels.
const BAR_MAX: f64 = 56.0;
/// What bars take of the room between two places.
const FILLED: f64 = 0.76;

/// Draws all series of a panel, bars first.
pub(super) fn write(frame: &Frame<'_>, layout: &Layout<'_>, out: &mut impl Write) -> io::Result<()> {
    let series = || frame.panel.series.iter().zip(&frame.colours);
    let is_separate = layout.points <= SEPARATE_MAX;
    for (one, colour) in series().filter(|(series, _)| series.kind == Kind::Histogram) {
        histogram(frame, one, *colour, out)?;
    }
    bars(frame, out)?;
    for (one, colour) in series().filter(|(series, _)| series.kind == Kind::Line) {
        line(frame, one, *colour, out)?;
    }
    for (one, colour) in series() {
        match one.kind {
            Kind::Line if one.points.len() <= DOTTED_MAX && !one.dashed => {
                dots(frame, one, *colour, 2.4, is_separate, out)?
            }
            Kind::Dots => dots(frame, one, *colour, 3.8, is_separate, out)?,
            _ => {}
        }
    }
    Ok(())
}

/// A sample for the legend.
pub(super) fn sample(entry: &Entry<'_>, out: &mut impl Write) -> io::Result<()> {
    let (x, y, colour) = (entry.x, entry.y - 4.0, entry.colour);
    match entry.series.kind {
        Kind::Line => {
            let dashes = dashes(entry.series, colour);
            writeln!(out, "<path class=\"line-{}\"{dashes} d=\"M{} {}h18\"/>", colour.number, Px(x), Px(y))?;
        }
        Kind::Dots => dot((x + 9.0, y), 4.2, entry.series.mark, colour, "", out)?,
        Kind::Bars | Kind::Histogram => {
            let (class, top) = (bar_class(colour), Px(y - 5.0));
            writeln!(
                out,
                "<rect class=\"{class}\" x=\"{}\" y=\"{top}\" width=\"18\" height=\"10\"/>",
                Px(x)
            )?;
        }
    }
    writeln!(out, "<text x=\"{}\" y=\"{}\">{}</text>", Px(x + 24.0), Px(entry.y), Escaped(&entry.name))
}

fn dashes(series: &Series, colour: Colour) -> &'static str {
    if series.dashed != colour.again { " stroke-dasharray=\"5 4\"" } else { "" }
}

fn bar_class(colour: Colour) -> String {
    format!("fill-{}{}", colour.number, if colour.again { " faint" } else { "" })
}

/// What is told of a point.
fn told(frame: &Frame<'_>, series: &Series, x: &Place, y: &Place) -> String {
    let (x, y) = (frame.x_scale.told(x), frame.y_scale.told(y));
    let parts = [series.name.as_str(), &x, &y];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

fn line(frame: &Frame<'_>, series: &Series, colour: Colour, out: &mut impl Write) -> io::Result<()> {
    let number = colour.number;
    let place = |x: &Place, y: &Place| {
        let (x, y) = frame.at(x, y);
        format!("{} {}", Px(x), Px(y))
    };
    let ranges = series.points.iter().filter_map(|point| match (&point.x, point.spread) {
        (Some(x), Spread::Range(least, most)) if least.is_finite() && most.is_finite() => {
            Some((x, least, most))
        }
        _ => None,
    });
    let ranges: Vec<_> = ranges.collect();
    if !ranges.is_empty() {
        let upper = ranges.iter().map(|(x, _, most)| place(x, &Place::Number(*most)));
        let lower = ranges.iter().rev().map(|(x, least, _)| place(x, &Place::Number(*least)));
        let around: Vec<String> = upper.chain(lower).collect();
        writeln!(out, "<path class=\"band-{number}\" d=\"M{}Z\"/>", around.join("L"))?;
    }
    let mut path = String::new();
    for piece in series.points.split(|point| point.both().is_none()).filter(|piece| !piece.is_empty()) {
        let points: Vec<String> =
            piece.iter().filter_map(|point| point.both()).map(|(x, y)| place(x, y)).collect();
        // A point alone is a short stroke.
        path += &format!("M{}{}", points.join("L"), if points.len() == 1 { "h2" } else { "" });
    }
    if path.is_empty() {
        return Ok(());
    }
    let (dashes, name) = (dashes(series, colour), Escaped(&series.name));
    writeln!(out, "<path class=\"line-{number}\"{dashes} d=\"{path}\"><title>{name}</title></path>")
}

fn dots(
    frame: &Frame<'_>,
    series: &Series,
    colour: Colour,
    radius: f64,
    is_separate: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let points = series.points.iter().filter_map(|point| Some((point.both()?, point.spread)));
    if !is_separate && series.kind == Kind::Dots {
        let path = points.map(|((x, y), _)| frame.at(x, y)).map(|(x, y)| format!("M{} {}h.01", Px(x), Px(y)));
        let (number, path, name) = (colour.number, path.collect::<String>(), Escaped(&series.name));
        return writeln!(
            out,
            "<path class=\"line-{number} small\" d=\"{path}\"><title>{name}</title></path>"
        );
    }
    for ((x, y), spread) in points {
        let at = frame.at(x, y);
        if series.kind == Kind::Dots {
            whisker(frame, at, spread, out)?;
        }
        dot(at, radius, series.mark, colour, &told(frame, series, x, y), out)?;
    }
    Ok(())
}

fn dot(
    (x, y): (f64, f64),
    radius: f64,
    mark: Shape,
    colour: Colour,
    told: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let title = if told.is_empty() { String::new() } else { format!("<title>{}</title>", Escaped(told)) };
    let (number, cx, cy) = (colour.number, Px(x), Px(y));
    let mark = if mark == Shape::Dot && colour.again { Shape::Ring } else { mark };
    match mark {
        Shape::Dot => {
            writeln!(
                out,
                "<circle class=\"dot fill-{number}\" cx=\"{cx}\" cy=\"{cy}\" r=\"{radius}\">{title}</circle>"
            )
        }
        Shape::Ring => {
            let radius = Px(radius + 0.4);
            writeln!(
                out,
                "<circle class=\"line-{number}\" cx=\"{cx}\" cy=\"{cy}\" r=\"{radius}\">{title}</circle>"
            )
        }
        Shape::Cross => {
            let (back, side) = (Px(-2.0 * radius), Px(2.0 * radius));
            let from = format!("{} {}", Px(x - radius), Px(y - radius));
            writeln!(
                out,
                "<path class=\"line-{number}\" d=\"M{from}l{side} {side}m{back} 0l{side} {back}\">{title}</path>"
            )
        }
    }
}

/// From the least to the most.
fn whisker(frame: &Frame<'_>, (x, y): (f64, f64), spread: Spread, out: &mut impl Write) -> io::Result<()> {
    let Spread::Range(least, most) = spread else { return Ok(()) };
    let path = match frame.has_rows {
        true => format!("M{} {}H{}", Px(frame.x(least)), Px(y), Px(frame.x(most))),
        false => format!("M{} {}V{}", Px(x), Px(frame.y(least)), Px(frame.y(most))),
    };
    writeln!(out, "<path class=\"arrow whisker\" d=\"{path}\"/>")
}

/// A rectangle between two corners.
fn rectangle(
    class: &str,
    one: (f64, f64),
    other: (f64, f64),
    told: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let (x, y) = (one.0.min(other.0), one.1.min(other.1));
    let (width, height) = ((one.0 - other.0).abs(), (one.1 - other.1).abs());
    let (x, y, width, height) = (Px(x), Px(y), Px(width), Px(height));
    writeln!(
        out,
        "<rect class=\"bar {class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"><title>{}</title></rect>",
        Escaped(told)
    )
}

fn histogram(frame: &Frame<'_>, series: &Series, colour: Colour, out: &mut impl Write) -> io::Result<()> {
    for point in &series.points {
        let (Some((_, y)), Spread::Width(from, to)) = (point.both(), point.spread) else { continue };
        if !to.is_finite() {
            continue;
        }
        let (_, top) = frame.at(&Place::Number(from), y);
        let (left, right) = (frame.x(from), frame.x(to));
        let range = Place::Name(format!("{} to {}", frame.x_scale.text(from), frame.x_scale.text(to)));
        let told = told(frame, series, &range, y);
        rectangle(&bar_class(colour), (left, top), (right.max(left + 0.8), frame.y(0.0)), &told, out)?;
    }
    Ok(())
}

/// Bars at the same place beside each other or, stacked, on each other.
fn bars(frame: &Frame<'_>, out: &mut impl Write) -> io::Result<()> {
    let all: Vec<_> = frame
        .panel
        .series
        .iter()
        .zip(&frame.colours)
        .filter(|(series, _)| series.kind == Kind::Bars)
        .collect();
    let middle = |x: &Place, y: &Place| if frame.has_rows { frame.at(x, y).1 } else { frame.at(x, y).0 };
    let points = || all.iter().flat_map(|(series, _)| &series.points).filter_map(|point| point.both());
    let mut middles: Vec<f64> = points().map(|(x, y)| middle(x, y)).collect();
    middles.sort_by(f64::total_cmp);
    let (length, names) = match frame.has_rows {
        true => (frame.bottom - frame.top, frame.y_scale.names.len()),
        false => (frame.right - frame.left, frame.x_scale.names.len()),
    };
    let gaps = middles.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.5);
    let room = if names > 0 { length / names as f64 } else { gaps.fold(length / 4.0, f64::min) };
    let beside = if frame.panel.stacked { 1 } else { all.len() };
    let thick = (room * FILLED / beside.max(1) as f64).min(BAR_MAX);
    // How far each place is filled already.
    let mut filled: Vec<(f64, f64)> = Vec::new();
    for (at, (series, colour)) in all.iter().enumerate() {
        let aside = if frame.panel.stacked { 0.0 } else { (at as f64 + 0.5 - beside as f64 / 2.0) * thick };
        for point in &series.points {
            let Some((x, y)) = point.both() else { continue };
            let value = if frame.has_rows { x } else { y };
            let (Some(value), centre) = (value.number(), middle(x, y) + aside) else { continue };
            let from = filled.iter().find(|(place, _)| *place == centre).map_or(0.0, |(_, value)| *value);
            let to = if frame.panel.stacked { from + value } else { value };
            if frame.panel.stacked {
                filled.retain(|(place, _)| *place != centre);
                filled.push((centre, to));
            }
            let (first, last) =
                if frame.has_rows { (frame.top, frame.bottom) } else { (frame.left, frame.right) };
            let [low, high] =
                [0.5 - thick / 2.0, thick / 2.0 - 0.5].map(|side| (centre + side).clamp(first, last));
            let (one, other, end) = match frame.has_rows {
                true => ((frame.x(from), low), (frame.x(to), high), (frame.x(to), centre)),
                false => ((low, frame.y(from)), (high, frame.y(to)), (centre, frame.y(to))),
            };
            rectangle(&bar_class(**colour), one, other, &told(frame, series, x, y), out)?;
            whisker(frame, end, point.spread, out)?;
            if series.labels {
                label(frame, end, (value, point.spread), thick, out)?;
            }
        }
    }
    Ok(())
}

/// A bar's number at its end, where there is room for it.
fn label(
    frame: &Frame<'_>,
    (x, y): (f64, f64),
    (value, spread): (f64, Spread),
    thick: f64,
    out: &mut impl Write,
) -> io::Result<()> {
    let text = figure(value);
    // Above what is drawn from the least to the most.
    let (most, aside) = if let Spread::Range(_, most) = spread { (most, 9.0) } else { (value, 4.0) };
    let (class, x, y) = match frame.has_rows {
        true => ("tiny", frame.x(most).max(x) + aside + 1.0, y + 3.5),
        false => ("middle tiny", x, frame.y(most).min(y) - aside),
    };
    if !frame.has_rows && text.len() as f64 * TINY_CHARACTER > thick + 10.0 {
        return Ok(());
    }
    writeln!(out, "<text class=\"{class}\" x=\"{}\" y=\"{}\">{text}</text>", Px(x), Px(y))
}
