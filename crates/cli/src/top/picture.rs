//! A screen as a picture.

use castell_trace::svg::Escaped;
use castell_trace::{Look, Theme};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::fmt::Write as _;

/// Pixels of a letter, and of the border.
const WIDTH: usize = 8;
const HEIGHT: usize = 17;
const BORDER: usize = 8;
/// From a row's top to the line that letters stand on.
const BASE: usize = 13;

/// Colours of a terminal.
struct Palette {
    paper: &'static str,
    ink: &'static str,
    red: &'static str,
    green: &'static str,
    yellow: &'static str,
}

const DARK: Palette =
    Palette { paper: "#16191d", ink: "#e4e7eb", red: "#ff7b72", green: "#56d364", yellow: "#e3b341" };
const LIGHT: Palette =
    Palette { paper: "#ffffff", ink: "#1b1f24", red: "#b3261e", green: "#1a7f37", yellow: "#8a6100" };

/// It as SVG.
pub fn svg(screen: &Buffer, look: &Look) -> String {
    let palette = if look.theme == Theme::Light { LIGHT } else { DARK };
    let area = screen.area();
    let (width, height) =
        (WIDTH * usize::from(area.width) + 2 * BORDER, HEIGHT * usize::from(area.height) + 2 * BORDER);
    let font = look.font.as_deref().map_or_else(String::new, |font| format!("'{}',", Escaped(font)));
    let title = Escaped(look.title.as_deref().unwrap_or("castell top"));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>text{{font:13px {font}'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace;white-space:pre}}.bold{{font-weight:bold}}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{}\"/>\n",
        palette.paper
    );
    for row in 0..area.height {
        let cells: Vec<&Cell> = (0..area.width).filter_map(|column| screen.cell((column, row))).collect();
        let mut column = 0;
        for run in cells.chunk_by(|one, other| one.style() == other.style()) {
            let top = BORDER + HEIGHT * usize::from(row);
            write_run(&mut out, run, (BORDER + WIDTH * column, top), &palette);
            column += run.len();
        }
    }
    out + "</svg>\n"
}

/// Letters of one style that stand beside each other.
fn write_run(out: &mut String, run: &[&Cell], (left, top): (usize, usize), palette: &Palette) {
    let text: String = run.iter().map(|cell| cell.symbol()).collect();
    let colour = match run[0].fg {
        Color::Red => palette.red,
        Color::Green => palette.green,
        Color::Yellow => palette.yellow,
        _ => palette.ink,
    };
    let is_reversed = run[0].modifier.contains(Modifier::REVERSED);
    if is_reversed {
        let width = WIDTH * run.len();
        let _ = writeln!(
            out,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{colour}\"/>"
        );
    }
    let shown = text.trim_end();
    if shown.is_empty() {
        return;
    }
    let blanks = shown.chars().take_while(|letter| *letter == ' ').count();
    let letters = shown.chars().count() - blanks;
    let class = if run[0].modifier.contains(Modifier::BOLD) { " class=\"bold\"" } else { "" };
    let _ = writeln!(
        out,
        "<text{class} x=\"{}\" y=\"{}\" textLength=\"{}\" fill=\"{}\" xml:space=\"preserve\">{}</text>",
        left + WIDTH * blanks,
        top + BASE,
        WIDTH * letters,
        if is_reversed { palette.paper } else { colour },
        Escaped(shown.trim_start_matches(' ')),
    );
}
