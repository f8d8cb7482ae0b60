//! A collective operation in stages on more ranks than lines can be told apart: a square a stage, a cell a block of senders and of receivers.

use super::heat::colours;
use super::look::{Head, Look};
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// How many messages go from where to where in each stage.
#[derive(Clone, Debug, Default)]
pub struct StageMatrices {
    /// What is shown.
    pub title: String,
    /// How large it is.
    pub subtitle: String,
    /// Ranks, in blocks of as many neighbours each but for the last.
    pub ranks: u32,
    /// Blocks of senders, and as many of receivers.
    pub blocks: u32,
    /// Names of the stages, and the messages from each block to each: row by row, by senders.
    pub stages: Vec<(String, Vec<u64>)>,
}

const CELL: f64 = 3.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 112.0;
/// Beside a square, and below it.
const GAPS: [f64; 2] = [28.0, 46.0];
/// Squares in a row.
const ACROSS: usize = 4;
const WIDTH_MIN: f64 = 640.0;

/// Writes the squares as an SVG drawing: senders from top to bottom, receivers from left to right.
///
/// # Errors
/// Whatever the writer says.
pub fn write_stage_matrices(plot: &StageMatrices, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let side = CELL * f64::from(plot.blocks);
    let (across, down) = (plot.stages.len().clamp(1, ACROSS), plot.stages.len().div_ceil(ACROSS).max(1));
    let width = (LEFT + (side + GAPS[0]) * across as f64).max(WIDTH_MIN);
    let height = TOP + (side + GAPS[1]) * down as f64;
    let head = Head { title: &plot.title, subtitle: &plot.subtitle, left: 20.0, css: String::new() };
    look.open((width, height), head, out)?;
    let most = plot.stages.iter().flat_map(|(_, counts)| counts).copied().max().unwrap_or(0);
    let size = plot.ranks.div_ceil(plot.blocks.max(1));
    writeln!(
        out,
        "<text class=\"quiet\" x=\"20\" y=\"66\">senders down, receivers across; a cell is {size} by {size} ranks: the darker, the more messages \
         (up to {most})</text>"
    )?;
    for (at, (name, counts)) in plot.stages.iter().enumerate() {
        let left = LEFT + (side + GAPS[0]) * (at % ACROSS) as f64;
        let top = TOP + (side + GAPS[1]) * (at / ACROSS) as f64;
        if at % ACROSS == 0 {
            for (rank, y) in [(0, top + 10.0), (plot.ranks.saturating_sub(1), top + side)] {
                writeln!(
                    out,
                    "<text class=\"end tiny quiet\" x=\"{}\" y=\"{}\">{rank}</text>",
                    Px(left - 5.0),
                    Px(y)
                )?;
            }
        }
        write_square(plot, name, counts, (left, top, most), out)?;
    }
    writeln!(out, "</svg>")
}

fn write_square(
    plot: &StageMatrices,
    name: &str,
    counts: &[u64],
    (left, top, most): (f64, f64, u64),
    out: &mut impl Write,
) -> io::Result<()> {
    let side = CELL * f64::from(plot.blocks);
    writeln!(out, "<text x=\"{}\" y=\"{}\">{}</text>", Px(left), Px(top - 8.0), Escaped(name))?;
    writeln!(
        out,
        "<rect class=\"base\" fill=\"none\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
        Px(left - 1.0),
        Px(top - 1.0),
        Px(side + 2.0),
        Px(side + 2.0)
    )?;
    let scale = (most as f64).ln_1p().max(f64::MIN_POSITIVE);
    for (row, counts) in counts.chunks(plot.blocks.max(1) as usize).enumerate() {
        // Cells of a row that are alike are one rectangle.
        let mut column = 0;
        for alike in counts.chunk_by(|one, other| one == other) {
            if alike[0] > 0 {
                let (fill, _) = colours(0.15 + 0.85 * (alike[0] as f64).ln_1p() / scale);
                writeln!(
                    out,
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{CELL}\" fill=\"{fill}\"/>",
                    Px(left + CELL * column as f64),
                    Px(top + CELL * row as f64),
                    Px(CELL * alike.len() as f64)
                )?;
            }
            column += alike.len();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_a_stage_and_a_rectangle_for_cells_that_are_alike() {
        let plot = StageMatrices {
            title: "a < b".into(),
            ranks: 6,
            blocks: 3,
            stages: vec![("r2".into(), vec![1, 1, 0, 0, 2, 0, 0, 0, 1]), ("<".into(), vec![0; 9])],
            ..StageMatrices::default()
        };
        let mut out = Vec::new();
        write_stage_matrices(&plot, &Look::default(), &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let cells: Vec<&str> = text.lines().filter(|line| line.contains("height=\"3\"")).collect();
        assert_eq!(cells.len(), 3, "{text}");
        assert!(cells[0].contains("width=\"6\"") && cells[1].contains("#961e28"), "{cells:?}");
        assert_eq!(text.matches("class=\"base\"").count(), 2);
        assert!(
            text.contains("a &lt; b") && text.contains(">&lt;<") && text.contains("2 by 2 ranks"),
            "{text}"
        );
    }
}
