//! What happens at which size: bars and a curve over bytes, for reuse distances and cache sizes.

use super::look::{Head, Look};
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// Shares of something by size, and a ratio that falls with size. Both axes of sizes are logarithmic; so is that of the shares.
#[derive(Clone, Debug, Default)]
pub struct SizePlot {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// What the bars count, and what the curve is.
    pub labels: [String; 2],
    /// From how many bytes to how many, and the share of all.
    pub bars: Vec<(f64, f64, f64)>,
    /// Bytes, and the ratio there, by size.
    pub curve: Vec<(f64, f64)>,
    /// Sizes to be marked, each with a word.
    pub marks: Vec<(f64, String)>,
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const HEAD: f64 = 96.0;
const PANEL: f64 = 170.0;
const BETWEEN: f64 = 46.0;
/// Shares below this are not drawn, as a power of ten.
const SHARE_POWER_MIN: i32 = -6;

/// The axis of sizes: whole powers of two on both ends.
struct Axis {
    first: i32,
    last: i32,
}

impl Axis {
    fn of(plot: &SizePlot) -> Axis {
        let bars = plot.bars.iter().flat_map(|(from, to, _)| [*from, *to]);
        let sizes = bars.chain(plot.curve.iter().map(|(size, _)| *size));
        let sizes = sizes.chain(plot.marks.iter().map(|(size, _)| *size)).filter(|size| *size >= 1.0);
        let (mut first, mut last) = (i32::MAX, 0);
        for power in sizes.map(f64::log2) {
            (first, last) = (first.min(power.floor() as i32), last.max(power.ceil() as i32));
        }
        let first = first.min(last);
        Axis { first, last: last.max(first + 4) }
    }

    fn x(&self, size: f64) -> f64 {
        let power = size.max(1.0).log2().clamp(f64::from(self.first), f64::from(self.last));
        LEFT + (power - f64::from(self.first)) / f64::from(self.last - self.first) * (WIDTH - LEFT - RIGHT)
    }
}

/// `4096` is `4 KiB`.
fn size_name(power: i32) -> String {
    let unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][(power / 10) as usize % 7];
    format!("{} {unit}", 1u64 << (power % 10))
}

/// Writes the plot as an SVG drawing.
///
/// # Errors
/// Whatever the writer says.
pub fn write_size_plot(plot: &SizePlot, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let axis = Axis::of(plot);
    let height = HEAD + 2.0 * PANEL + BETWEEN + 50.0;
    let head = Head {
        title: &plot.title,
        subtitle: &plot.subtitle,
        left: LEFT,
        css: ".curve{fill:none;stroke-width:2}".to_owned(),
    };
    look.open((WIDTH, height), head, out)?;
    let (bars, curve) = (HEAD, HEAD + PANEL + BETWEEN);
    write_axis(&axis, bars, curve, out)?;
    write_marks(plot, &axis, curve + PANEL, out)?;
    write_bars(plot, &axis, bars, out)?;
    write_curve(plot, &axis, curve, out)?;
    writeln!(out, "</svg>")
}

fn write_axis(axis: &Axis, bars: f64, curve: f64, out: &mut impl Write) -> io::Result<()> {
    let step = ((axis.last - axis.first) / 12).max(1);
    for power in (axis.first..=axis.last).step_by(step as usize) {
        let x = Px(axis.x(f64::from(power).exp2()));
        for top in [bars, curve] {
            writeln!(out, "<path class=\"grid\" d=\"M{x} {}V{}\"/>", Px(top), Px(top + PANEL))?;
        }
        let y = Px(curve + PANEL + 18.0);
        writeln!(out, "<text class=\"middle tiny\" x=\"{x}\" y=\"{y}\">{}</text>", size_name(power))?;
    }
    let shares = (SHARE_POWER_MIN / 2..=0)
        .map(|half| (share_y(bars, 10f64.powi(2 * half)), format!("1e{}", 2 * half)));
    let ratios = (0..=4).map(|part| (ratio_y(curve, f64::from(part) / 4.0), format!("{} %", 25 * part)));
    for (y, text) in shares.chain(ratios) {
        let (y, right) = (Px(y), Px(WIDTH - RIGHT));
        writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y}H{right}\"/><text class=\"end tiny\" x=\"{}\" y=\"{}\">{text}</text>",
            Px(LEFT - 6.0),
            Px(y.0 + 3.0)
        )?;
    }
    Ok(())
}

fn write_marks(plot: &SizePlot, axis: &Axis, bottom: f64, out: &mut impl Write) -> io::Result<()> {
    for (size, word) in &plot.marks {
        let x = Px(axis.x(*size));
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
    Ok(())
}

fn share_y(top: f64, share: f64) -> f64 {
    let power = share.max(1e-300).log10().clamp(f64::from(SHARE_POWER_MIN), 0.0);
    top + PANEL * power / f64::from(SHARE_POWER_MIN)
}

fn ratio_y(top: f64, ratio: f64) -> f64 {
    top + PANEL * (1.0 - ratio.clamp(0.0, 1.0))
}

fn write_bars(plot: &SizePlot, axis: &Axis, top: f64, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<text x=\"{LEFT}\" y=\"{}\">{}</text>", Px(top - 6.0), Escaped(&plot.labels[0]))?;
    for (from, to, share) in &plot.bars {
        let (x, y) = (axis.x(*from), share_y(top, *share));
        let width = (axis.x(*to) - x).max(1.0);
        writeln!(
            out,
            "<rect class=\"send bar\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{from:.0} to {to:.0} B: \
             {:.4} %</title></rect>",
            Px(x),
            Px(y),
            Px(width),
            Px((top + PANEL - y).max(0.0)),
            share * 100.0
        )?;
    }
    Ok(())
}

fn write_curve(plot: &SizePlot, axis: &Axis, top: f64, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<text x=\"{LEFT}\" y=\"{}\">{}</text>", Px(top - 6.0), Escaped(&plot.labels[1]))?;
    let points =
        plot.curve.iter().map(|(size, ratio)| format!("{} {}", Px(axis.x(*size)), Px(ratio_y(top, *ratio))));
    let path: Vec<String> = points.collect();
    if path.is_empty() {
        return Ok(());
    }
    writeln!(out, "<path class=\"arrow curve\" d=\"M{}H{}\"/>", path.join("L"), Px(WIDTH - RIGHT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_lies_on_the_paper_whatever_the_numbers() {
        let plot = SizePlot {
            title: "a < b".to_owned(),
            bars: vec![(0.0, 64.0, 1.0), (64.0, 128.0, 0.0), (1e18, 2e18, f64::MIN_POSITIVE)],
            curve: vec![(0.0, 1.0), (4096.0, 0.5), (1e18, -0.1)],
            marks: vec![(32768.0, "L1 & more".to_owned())],
            ..SizePlot::default()
        };
        for plot in [plot, SizePlot::default()] {
            let mut text = Vec::new();
            write_size_plot(&plot, &Look::default(), &mut text).expect("memory takes it");
            let text = String::from_utf8(text).expect("UTF-8");
            assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains("a < b"), "{text}");
            for x in text.split(" x=\"").skip(1) {
                let x: f64 = x.split('"').next().and_then(|x| x.parse().ok()).expect("a number");
                assert!((0.0..=WIDTH).contains(&x), "{x}");
            }
        }
    }
}
