//! Operations and what waits for what: a band a rank, boxes in columns from left to right, so that each stands behind what it waits for.

use super::arrows;
use super::look::{Head, Look};
use super::rows::listed;
use super::xml::{Escaped, Px};
use crate::Activity;
use castell_base::Rank;
use std::io::{self, Write};

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphBox {
    /// Whose.
    pub rank: Rank,
    /// Its name; may be empty.
    pub label: String,
    /// What it does.
    pub text: String,
    /// Its colour.
    pub activity: Activity,
}

/// What an arrow between two operations says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphArrow {
    /// The second waits for the end of the first.
    End,
    /// The second waits for the start of the first.
    Start,
    /// The first sends what the second receives.
    Message,
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct GraphPlot {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// In the order of their ranks.
    pub boxes: Vec<GraphBox>,
    /// From which box to which.
    pub arrows: Vec<(usize, usize, GraphArrow)>,
    /// All the ranks of a line that shows what several do, the first of them that of its boxes; the others have a line each.
    pub together: Vec<Vec<Rank>>,
}

impl GraphPlot {
    /// What stands beside a rank's boxes.
    fn name(&self, rank: Rank) -> String {
        match self.together.iter().find(|ranks| ranks.first() == Some(&rank)) {
            Some(ranks) if ranks.len() > 1 => format!("{} ({} alike)", listed(ranks, 12), ranks.len()),
            _ => format!("rank {rank}"),
        }
    }
}

/// Boxes that are drawn at most: more are no picture.
pub const BOXES_MAX: usize = 2_000;

const HEAD: f64 = 92.0;
const BOX_HEIGHT: f64 = 30.0;
const BETWEEN: f64 = 8.0;
const COLUMNS_APART: f64 = 46.0;
const CHARACTERS_MAX: usize = 30;
const CHARACTER: f64 = 6.1;
const WIDTH_MIN: f64 = 560.0;

/// Writes the graph as an SVG drawing. Of more than [`BOXES_MAX`] boxes the first ones are drawn, and that is said.
///
/// # Errors
/// Whatever the writer says.
///
/// # Panics
/// Where an arrow names a box that is not there.
pub fn write_graph(plot: &GraphPlot, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let boxes = &plot.boxes[..plot.boxes.len().min(BOXES_MAX)];
    assert!(
        plot.arrows.iter().all(|(from, to, _)| (*from).max(*to) < plot.boxes.len()),
        "an arrow to nowhere"
    );
    let arrows: Vec<(usize, usize, GraphArrow)> =
        plot.arrows.iter().copied().filter(|(from, to, _)| (*from).max(*to) < boxes.len()).collect();
    let layout = Layout::of(plot, boxes, &arrows);
    let width = Px(layout.width);
    let left_out = match plot.boxes.len() - boxes.len() {
        0 => String::new(),
        more => format!("; {more} more operations are not drawn"),
    };
    let css = ".message{stroke-width:1.2;stroke-dasharray:none}.start{stroke-dasharray:4 3}".to_owned();
    let subtitle = format!("{}{left_out}", plot.subtitle);
    let head = Head { title: &plot.title, subtitle: &subtitle, left: 16.0, css };
    look.open((layout.width, layout.height), head, out)?;
    writeln!(out, "{}", arrows::marker())?;
    write_legend(out)?;
    for (at, band) in layout.bands.iter().enumerate() {
        if at % 2 == 1 {
            let (y, height) = (Px(band.top), Px(band.height));
            writeln!(out, "<rect class=\"stripe\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>")?;
        }
        let y = Px(band.top + band.height / 2.0 + 4.0);
        writeln!(
            out,
            "<text class=\"end\" x=\"{}\" y=\"{y}\">{}</text>",
            Px(layout.left - 14.0),
            plot.name(band.rank)
        )?;
    }
    for (arrow, path) in arrows.iter().zip(&layout.paths) {
        let class = match arrow.2 {
            GraphArrow::End => "arrow",
            GraphArrow::Start => "arrow start",
            GraphArrow::Message => "critical message",
        };
        writeln!(out, "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#head)\"/>")?;
    }
    for (one, place) in boxes.iter().zip(&layout.places) {
        write_box(one, place, out)?;
    }
    writeln!(out, "</svg>")
}

fn write_legend(out: &mut impl Write) -> io::Result<()> {
    let mut x = 16.0;
    for (class, text) in [
        ("arrow", "waits for its end"),
        ("arrow start", "waits for its start"),
        ("critical message", "message"),
    ] {
        writeln!(
            out,
            "<path class=\"{class}\" d=\"M{} 66h24\" marker-end=\"url(#head)\"/><text x=\"{}\" y=\"70\">{text}</text>",
            Px(x),
            Px(x + 30.0)
        )?;
        x += 30.0 + text.len() as f64 * 6.9 + 18.0;
    }
    Ok(())
}

fn write_box(one: &GraphBox, place: &Place, out: &mut impl Write) -> io::Result<()> {
    let (class, middle) = (one.activity.name(), Px(place.x + place.width / 2.0));
    writeln!(
        out,
        "<g><title>rank {}: {}{}{}</title><rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{BOX_HEIGHT}\" rx=\"4\"/>",
        one.rank,
        Escaped(&one.label),
        if one.label.is_empty() { "" } else { ": " },
        Escaped(&one.text),
        Px(place.x),
        Px(place.y),
        Px(place.width),
    )?;
    let lines: Vec<String> = lines(one);
    let first = place.y + if lines.len() == 1 { 19.0 } else { 13.0 };
    for (at, line) in lines.iter().enumerate() {
        let y = Px(first + 12.0 * at as f64);
        writeln!(
            out,
            "<text class=\"on-{class} middle tiny\" x=\"{middle}\" y=\"{y}\">{}</text>",
            Escaped(line)
        )?;
    }
    writeln!(out, "</g>")
}

/// What stands in a box.
fn lines(one: &GraphBox) -> Vec<String> {
    let texts = [&one.label, &one.text].into_iter().filter(|text| !text.is_empty());
    let short = |text: &String| match text.char_indices().nth(CHARACTERS_MAX - 1) {
        Some((at, _)) if text.chars().count() > CHARACTERS_MAX => format!("{}…", &text[..at]),
        _ => text.clone(),
    };
    texts.map(short).collect()
}

#[derive(Clone, Copy, Default)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
}

struct Band {
    rank: Rank,
    top: f64,
    height: f64,
}

struct Layout {
    places: Vec<Place>,
    /// By arrow.
    paths: Vec<String>,
    bands: Vec<Band>,
    left: f64,
    width: f64,
    height: f64,
}

impl Layout {
    fn of(plot: &GraphPlot, boxes: &[GraphBox], arrows: &[(usize, usize, GraphArrow)]) -> Layout {
        let columns = columns(boxes.len(), arrows);
        let slots = slots(boxes, arrows, &columns);
        let count = columns.iter().map(|column| column + 1).max().unwrap_or(0);
        let mut widths = vec![0.0f64; count];
        for (one, &column) in boxes.iter().zip(&columns) {
            let longest = lines(one).iter().map(|line| line.chars().count()).max().unwrap_or(0);
            widths[column] = widths[column].max(longest as f64 * CHARACTER + 14.0);
        }
        let names = boxes.chunk_by(|one, next| one.rank == next.rank).map(|ranks| plot.name(ranks[0].rank));
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        let left = 16.0 + longest as f64 * 6.9 + 14.0;
        let mut starts = Vec::with_capacity(count);
        let mut x = left;
        for width in &widths {
            starts.push(x);
            x += width + COLUMNS_APART;
        }
        let mut bands: Vec<Band> = Vec::new();
        let mut top = HEAD;
        let mut places = vec![Place::default(); boxes.len()];
        for rank_boxes in group(boxes) {
            let rank = boxes[rank_boxes.start].rank;
            let most = rank_boxes.clone().map(|at| slots[at] + 1).max().unwrap_or(1);
            let height = most as f64 * (BOX_HEIGHT + BETWEEN) + BETWEEN;
            for at in rank_boxes {
                let (width, y) =
                    (widths[columns[at]], top + BETWEEN + slots[at] as f64 * (BOX_HEIGHT + BETWEEN));
                places[at] = Place { x: starts[columns[at]], y, width };
            }
            bands.push(Band { rank, top, height });
            top += height;
        }
        let path = |&(from, to, _): &(usize, usize, GraphArrow)| path(places[from], places[to]);
        let paths = arrows.iter().map(path).collect();
        Layout { places, paths, bands, left, width: x.max(WIDTH_MIN), height: top + 16.0 }
    }
}

/// The boxes of each rank.
fn group(boxes: &[GraphBox]) -> Vec<std::ops::Range<usize>> {
    let mut groups = Vec::new();
    let mut first = 0;
    for ranks in boxes.chunk_by(|one, next| one.rank == next.rank) {
        groups.push(first..first + ranks.len());
        first += ranks.len();
    }
    groups
}

/// Each box's column: behind all that it waits for. Where they wait in a circle, the first of them begins.
fn columns(count: usize, arrows: &[(usize, usize, GraphArrow)]) -> Vec<usize> {
    let (mut columns, mut waits) = (vec![0; count], vec![0usize; count]);
    let mut after = vec![Vec::new(); count];
    for &(from, to, _) in arrows.iter().filter(|(from, to, _)| from != to) {
        after[from].push(to);
        waits[to] += 1;
    }
    let mut is_placed = vec![false; count];
    let mut ready: Vec<usize> = (0..count).rev().filter(|at| waits[*at] == 0).collect();
    let mut next_left = 0;
    loop {
        let at = match ready.pop() {
            Some(at) => at,
            None => match (next_left..count).find(|at| !is_placed[*at]) {
                Some(at) => at,
                None => return columns,
            },
        };
        if is_placed[at] {
            continue;
        }
        is_placed[at] = true;
        while next_left < count && is_placed[next_left] {
            next_left += 1;
        }
        for &to in after[at].iter().filter(|to| !is_placed[**to]) {
            columns[to] = columns[to].max(columns[at] + 1);
            waits[to] -= 1;
            if waits[to] == 0 {
                ready.push(to);
            }
        }
    }
}

/// Each box's place from the top among those of its rank: that of what it waits for, if it is free there.
fn slots(boxes: &[GraphBox], arrows: &[(usize, usize, GraphArrow)], columns: &[usize]) -> Vec<usize> {
    let mut slots = vec![0; boxes.len()];
    let mut before = vec![Vec::new(); boxes.len()];
    for &(from, to, _) in arrows {
        if boxes[from].rank == boxes[to].rank && columns[from] < columns[to] {
            before[to].push(from);
        }
    }
    for rank_boxes in group(boxes) {
        let mut in_order: Vec<usize> = rank_boxes.collect();
        in_order.sort_by_key(|at| (columns[*at], *at));
        // What passes a column on its way to a later one keeps its place there free.
        let mut taken = std::collections::HashSet::new();
        for &at in &in_order {
            let wanted = before[at].iter().map(|from| slots[*from]).min().unwrap_or(0);
            let nearest = before[at].iter().map(|from| columns[*from]).max().unwrap_or(columns[at]);
            let free = |slot: &usize| {
                (nearest + 1..=columns[at]).all(|column| !taken.contains(&(column, *slot)))
                    && !taken.contains(&(columns[at], *slot))
            };
            let slot = (wanted..).find(free).unwrap_or(wanted);
            slots[at] = slot;
            taken.extend((nearest + 1..=columns[at]).map(|column| (column, slot)));
            taken.insert((columns[at], slot));
        }
    }
    slots
}

/// From the right edge of a box to the left edge of another one.
fn path(from: Place, to: Place) -> String {
    let (x1, y1) = (from.x + from.width, from.y + BOX_HEIGHT / 2.0);
    let (x2, y2) = (to.x, to.y + BOX_HEIGHT / 2.0);
    let bend = ((x2 - x1) / 2.0).clamp(COLUMNS_APART / 2.0, 90.0);
    let [x1, y1, a, b, x2, y2] = [x1, y1, x1 + bend, x2 - bend, x2, y2].map(Px);
    format!("M{x1} {y1}C{a} {y1} {b} {y2} {x2} {y2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(rank: u32, label: &str) -> GraphBox {
        GraphBox {
            rank: Rank(rank),
            label: label.into(),
            text: "calc 5 < 6".into(),
            activity: Activity::Compute,
        }
    }

    fn drawn(plot: &GraphPlot) -> String {
        let mut out = Vec::new();
        write_graph(plot, &Look::default(), &mut out).expect("memory takes it");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn each_stands_behind_what_it_waits_for_and_none_covers_another() {
        let boxes = vec![one(0, "a"), one(0, "b"), one(0, "c"), one(0, "d"), one(1, "e")];
        use GraphArrow::{End, Message, Start};
        let arrows = vec![(0, 1, End), (0, 2, Start), (1, 3, End), (2, 3, End), (0, 3, End), (3, 4, Message)];
        let layout = Layout::of(&GraphPlot::default(), &boxes, &arrows);
        for &(from, to, _) in &arrows {
            let (from, to) = (layout.places[from], layout.places[to]);
            assert!(from.x + from.width < to.x);
        }
        for (at, one) in layout.places.iter().enumerate() {
            for other in &layout.places[at + 1..] {
                let apart =
                    one.x + one.width <= other.x || one.x != other.x && other.x + other.width <= one.x;
                assert!(apart || (one.y - other.y).abs() >= BOX_HEIGHT, "{at}");
            }
        }
        let text = drawn(&GraphPlot { title: "a & b".into(), boxes, arrows, ..GraphPlot::default() });
        assert_eq!(text.matches("rx=\"4\"").count(), 5);
        assert_eq!(text.matches("marker-end").count(), 6 + 3);
        assert!(text.contains("calc 5 &lt; 6") && text.contains(">rank 1</text>") && !text.contains("NaN"));
    }

    #[test]
    fn circles_and_many_boxes_have_a_drawing_too() {
        use GraphArrow::End;
        let circle = vec![(0, 1, End), (1, 2, End), (2, 0, End), (2, 2, End)];
        let boxes = vec![one(0, "a"), one(0, "b"), one(0, "")];
        assert!(drawn(&GraphPlot { boxes, arrows: circle, ..GraphPlot::default() }).ends_with("</svg>\n"));
        assert!(drawn(&GraphPlot::default()).ends_with("</svg>\n"));
        let together = vec![vec![Rank(0), Rank(1), Rank(5)], vec![Rank(3)]];
        let text =
            drawn(&GraphPlot { boxes: vec![one(0, "a"), one(3, "b")], together, ..GraphPlot::default() });
        assert!(text.contains(">0–1, 5 (3 alike)</text>") && text.contains(">rank 3</text>"), "{text}");
        let many = BOXES_MAX + 7;
        let arrows = (1..many).map(|at| (at - 1, at, End)).collect();
        let text = drawn(&GraphPlot { boxes: vec![one(3, "x"); many], arrows, ..GraphPlot::default() });
        assert!(text.contains("7 more operations are not drawn"));
    }
}
