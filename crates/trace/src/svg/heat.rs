//! A table of numbers in colours: who slows whom.

use super::look::{Head, Look};
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// Numbers by row and column. The least is pale, the largest dark.
#[derive(Clone, Debug, Default)]
pub struct HeatMap {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// What the rows and the columns are.
    pub labels: [String; 2],
    /// Names of rows.
    pub rows: Vec<String>,
    /// Names of columns.
    pub columns: Vec<String>,
    /// Row by row; `None` where there is nothing.
    pub values: Vec<Vec<Option<f64>>>,
}

const LEFT: f64 = 150.0;
const TOP: f64 = 130.0;
/// A cell of large tables, and of small ones.
const CELLS: [f64; 2] = [38.0, 84.0];
/// Tables up to so many columns are small.
const SMALL: usize = 6;
/// Letters of a name that are shown.
const NAME_MAX: usize = 20;

/// Writes the table as an SVG drawing.
///
/// # Errors
/// Whatever the writer says.
pub fn write_heat_map(map: &HeatMap, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let cell = CELLS[usize::from(map.columns.len() <= SMALL)];
    let width = (LEFT + cell * map.columns.len() as f64 + 30.0).max(480.0);
    let height = TOP + cell * map.rows.len() as f64 + 30.0;
    let head = Head { title: &map.title, subtitle: &map.subtitle, left: 20.0, css: String::new() };
    look.open((width, height), head, out)?;
    writeln!(
        out,
        "<text class=\"quiet\" x=\"20\" y=\"66\">rows: {}; columns: {}</text>",
        Escaped(&map.labels[0]),
        Escaped(&map.labels[1])
    )?;
    for (at, name) in map.columns.iter().enumerate() {
        let (x, y) = (Px(LEFT + (at as f64 + 0.5) * cell), Px(TOP - 8.0));
        let name = short(name);
        writeln!(
            out,
            "<text class=\"tiny\" transform=\"translate({x} {y}) rotate(-40)\">{}</text>",
            Escaped(&name)
        )?;
    }
    let values = map.values.iter().flatten().flatten().copied();
    let (low, high) =
        values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    for (row, (name, values)) in map.rows.iter().zip(&map.values).enumerate() {
        let top = TOP + row as f64 * cell;
        let y = Px(top + cell / 2.0 + 4.0);
        writeln!(
            out,
            "<text class=\"end tiny\" x=\"{}\" y=\"{y}\">{}</text>",
            Px(LEFT - 8.0),
            Escaped(&short(name))
        )?;
        for (column, value) in values.iter().enumerate() {
            let left = LEFT + column as f64 * cell;
            let Some(value) = value else { continue };
            let warmth = if high > low { (value.ln() - low.ln()) / (high.ln() - low.ln()) } else { 0.0 };
            let (fill, ink) = colours(warmth);
            writeln!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/><text class=\"middle tiny\" \
                 style=\"fill:{ink}\" x=\"{}\" y=\"{y}\">{value:.2}</text>",
                Px(left + 1.0),
                Px(top + 1.0),
                Px(cell - 2.0),
                Px(cell - 2.0),
                Px(left + cell / 2.0)
            )?;
        }
    }
    writeln!(out, "</svg>")
}

fn short(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_MAX - 1).chain(['…']).collect()
}

/// From pale to dark, and the ink that can be read on it.
pub(super) fn colours(warmth: f64) -> (String, &'static str) {
    let warmth = if warmth.is_finite() { warmth.clamp(0.0, 1.0) } else { 0.0 };
    let mix = |pale: f64, dark: f64| (pale + (dark - pale) * warmth).round() as u8;
    let fill = format!("#{:02x}{:02x}{:02x}", mix(255.0, 150.0), mix(243.0, 30.0), mix(224.0, 40.0));
    (fill, if warmth > 0.5 { "#ffffff" } else { "#1b1f24" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_their_numbers_and_names_are_escaped() {
        let map = HeatMap {
            title: "a < b".to_owned(),
            rows: vec!["one".to_owned(), "two".to_owned()],
            columns: vec!["a very long name of a program".to_owned(), "&".to_owned()],
            values: vec![vec![Some(1.0), None], vec![Some(2.5), Some(f64::NAN)]],
            ..HeatMap::default()
        };
        let mut out = Vec::new();
        write_heat_map(&map, &Look::default(), &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(
            text.contains(">1.00<") && text.contains(">2.50<") && text.contains("a very long name of…"),
            "{text}"
        );
        assert!(
            text.contains("a &lt; b") && text.contains(">&amp;<") && text.matches("<rect").count() == 4,
            "{text}"
        );
    }
}
