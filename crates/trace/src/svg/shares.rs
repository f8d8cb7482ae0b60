//! Too many spans to draw each: what share of the time went into what.

use super::paper::Paper;
use super::rows::Shown;
use super::xml::Px;
use crate::kinds::{COLOURS, Colours, class};
use crate::{Activity, Timeline};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Columns of a line are so many pixels wide.
const COLUMN: f64 = 2.0;

/// Colours from the bottom of a line up: computing of all kinds, then the rest.
fn order() -> impl Iterator<Item = usize> + Clone {
    let rest = [Activity::Send, Activity::Recv, Activity::Other].map(|activity| activity as usize);
    std::iter::once(Activity::Compute as usize).chain(Activity::ALL.len()..COLOURS).chain(rest)
}

/// Each line as columns of colours; a colour's height is the share of the line's ranks' time.
pub(super) fn draw(timeline: &Timeline, paper: &Paper, out: &mut impl Write) -> io::Result<()> {
    let sums = Sums::of(timeline, paper);
    for (line, on_it) in (0..).zip(&paper.places.lines) {
        let in_line = if paper.places.shown == Shown::First { 1 } else { on_it.ranks.len() as u64 };
        let floor = paper.floor(line);
        let mut bottoms = vec![0.0; sums.columns];
        let totals: Vec<u64> = (0..sums.columns)
            .map(|column| order().map(|colour| sums.get(line, colour, column)).sum())
            .collect();
        for colour in order() {
            let mut path = Path::new(floor);
            for (column, bottom) in bottoms.iter_mut().enumerate() {
                let time_ps = sums.get(line, colour, column);
                // Operations that overlap could fill more than all of the time.
                let all_ps = (in_line * sums.width_ps(column)).max(totals[column]).max(1);
                let height = paper.bar * (time_ps as f64 / all_ps as f64);
                path.column(sums.x(column, paper), sums.x(column + 1, paper), *bottom, height);
                *bottom += height;
            }
            let drawn = path.finish();
            if !drawn.is_empty() {
                writeln!(out, "<path class=\"{}\" d=\"{drawn}\"/>", class(colour))?;
            }
        }
    }
    Ok(())
}

/// Rectangles, neighbours of equal height joined.
struct Path {
    floor: f64,
    text: String,
    /// Left, right, bottom and height of the rectangle in hand.
    open: Option<[f64; 4]>,
}

impl Path {
    fn new(floor: f64) -> Path {
        Path { floor, text: String::new(), open: None }
    }

    fn column(&mut self, left: f64, right: f64, bottom: f64, height: f64) {
        if let Some(open) = &mut self.open {
            let same = |a: f64, b: f64| (a - b).abs() < 0.1;
            if open[1] == left && same(open[2], bottom) && same(open[3], height) {
                open[1] = right;
                return;
            }
        }
        self.close();
        if height >= 0.1 {
            self.open = Some([left, right, bottom, height]);
        }
    }

    fn close(&mut self) {
        if let Some([left, right, bottom, height]) = self.open.take() {
            let (x, y) = (Px(left), Px(self.floor - bottom));
            let _ = write!(self.text, "M{x} {y}v{}h{}v{}z", Px(-height), Px(right - left), Px(height));
        }
    }

    fn finish(mut self) -> String {
        self.close();
        self.text
    }
}

/// Time by line, colour and column, in picoseconds.
struct Sums {
    columns: usize,
    end_ps: u64,
    part_ps: Vec<u64>,
    /// Changes, from column to column, in the number of spans that fill the column.
    full: Vec<i64>,
}

impl Sums {
    fn of(timeline: &Timeline, paper: &Paper) -> Sums {
        let columns = ((paper.right - paper.left) / COLUMN).max(1.0) as usize;
        let cells = paper.places.lines.len() * COLOURS * (columns + 1);
        let mut sums =
            Sums { columns, end_ps: paper.end_ps.max(1), part_ps: vec![0; cells], full: vec![0; cells] };
        let colours = Colours::of(timeline);
        for span in &timeline.spans {
            // Where ranks do the same, the first of them stands for all.
            let is_counted = paper.places.shown == Shown::Shares || paper.places.is_first(span.rank);
            if let Some(line) = paper.places.line(span.rank).filter(|_| is_counted) {
                sums.add(line, colours.number(span), span.start_ps, span.end_ps);
            }
        }
        for row in sums.full.chunks_exact_mut(columns + 1) {
            let mut running = 0;
            for change in row {
                running += *change;
                *change = running;
            }
        }
        sums
    }

    fn add(&mut self, line: u32, colour: usize, start_ps: u64, end_ps: u64) {
        if end_ps <= start_ps {
            return;
        }
        let (first, last) = (self.column(start_ps), self.column(end_ps - 1));
        let cell = self.cell(line, colour, 0);
        if first == last {
            self.part_ps[cell + first] += end_ps - start_ps;
            return;
        }
        self.part_ps[cell + first] += self.edge(first + 1) - start_ps;
        self.part_ps[cell + last] += end_ps - self.edge(last);
        self.full[cell + first + 1] += 1;
        self.full[cell + last] -= 1;
    }

    fn get(&self, line: u32, colour: usize, column: usize) -> u64 {
        let cell = self.cell(line, colour, column);
        self.part_ps[cell].saturating_add(self.width_ps(column).saturating_mul(self.full[cell] as u64))
    }

    fn cell(&self, line: u32, colour: usize, column: usize) -> usize {
        (line as usize * COLOURS + colour) * (self.columns + 1) + column
    }

    /// When a column begins.
    fn edge(&self, column: usize) -> u64 {
        (u128::from(self.end_ps) * column as u128 / self.columns as u128) as u64
    }

    fn width_ps(&self, column: usize) -> u64 {
        self.edge(column + 1) - self.edge(column)
    }

    /// The column in which a moment lies.
    fn column(&self, ps: u64) -> usize {
        let about = (u128::from(ps) * self.columns as u128 / u128::from(self.end_ps)) as usize;
        // Edges are rounded down, so a moment may lie one column further on.
        if about + 1 < self.columns && self.edge(about + 1) <= ps {
            about + 1
        } else {
            about.min(self.columns - 1)
        }
    }

    fn x(&self, column: usize, paper: &Paper) -> f64 {
        paper.x(self.edge(column))
    }
}
