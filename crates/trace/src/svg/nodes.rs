//! Who is on which node: a box a node, a bar for each job in it, the longer the more the job suffers.

use super::look::{Head, Look};
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// Nodes with what runs on them.
#[derive(Clone, Debug, Default)]
pub struct NodesPlot {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// The boxes.
    pub nodes: Vec<NodeBox>,
}

/// A node, or several that have the same on them.
#[derive(Clone, Debug, Default)]
pub struct NodeBox {
    /// What is written above it.
    pub label: String,
    /// Name of each job and, if known, how much longer it runs than alone: a factor. `None` in place of a name: an empty slot.
    pub jobs: Vec<(Option<String>, Option<f64>)>,
}

/// Boxes that are drawn, at most; a line says how many are not.
pub const BOXES_MAX: usize = 400;

const WIDTH: f64 = 900.0;
const MARGIN: f64 = 20.0;
const HEAD: f64 = 66.0;
const BOX: f64 = 164.0;
const GAP: f64 = 10.0;
const BAR: f64 = 20.0;
const LABEL: f64 = 18.0;
/// Letters that a bar has room for.
const LETTERS: usize = 14;

/// Writes the nodes as an SVG drawing.
///
/// # Errors
/// Whatever the writer says.
pub fn write_nodes(plot: &NodesPlot, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let shown = &plot.nodes[..plot.nodes.len().min(BOXES_MAX)];
    let slots = shown.iter().map(|node| node.jobs.len()).max().unwrap_or(0);
    let columns = ((WIDTH - 2.0 * MARGIN + GAP) / (BOX + GAP)) as usize;
    let pitch = LABEL + slots as f64 * (BAR + 3.0) + 8.0 + GAP;
    let height = HEAD + shown.len().div_ceil(columns) as f64 * pitch + 30.0;
    let slowdowns = shown.iter().flat_map(|node| node.jobs.iter().filter_map(|job| job.1));
    let most = slowdowns.fold(1.0, f64::max) - 1.0;
    let head = Head { title: &plot.title, subtitle: &plot.subtitle, left: MARGIN, css: String::new() };
    look.open((WIDTH, height), head, out)?;
    for (at, node) in shown.iter().enumerate() {
        let (x, y) = (MARGIN + (at % columns) as f64 * (BOX + GAP), HEAD + (at / columns) as f64 * pitch);
        write_box(node, most, (x, y, pitch - GAP), out)?;
    }
    if shown.len() < plot.nodes.len() {
        let left = plot.nodes.len() - shown.len();
        let y = Px(height - 12.0);
        writeln!(
            out,
            "<text class=\"quiet\" x=\"{MARGIN}\" y=\"{y}\">and {left} more, which are not drawn</text>"
        )?;
    }
    writeln!(out, "</svg>")
}

fn write_box(
    node: &NodeBox,
    most: f64,
    (x, y, height): (f64, f64, f64),
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(
        out,
        "<rect class=\"node\" x=\"{}\" y=\"{}\" width=\"{BOX}\" height=\"{}\" rx=\"4\"/>\
         <text class=\"tiny\" x=\"{}\" y=\"{}\">{}</text>",
        Px(x),
        Px(y),
        Px(height),
        Px(x + 6.0),
        Px(y + 13.0),
        Escaped(&shortened(&node.label, 26))
    )?;
    for (at, (name, slowdown)) in node.jobs.iter().enumerate() {
        let top = y + LABEL + at as f64 * (BAR + 3.0);
        let Some(name) = name else {
            writeln!(
                out,
                "<text class=\"tiny quiet\" x=\"{}\" y=\"{}\">empty</text>",
                Px(x + 10.0),
                Px(top + 14.0)
            )?;
            continue;
        };
        let suffered = slowdown.map_or(0.0, |slowdown| (slowdown - 1.0).max(0.0));
        let part = if most > 0.0 { (suffered / most).min(1.0) } else { 0.0 };
        let said = slowdown.map_or(String::new(), |slowdown| format!("{:+.1} %", (slowdown - 1.0) * 100.0));
        writeln!(
            out,
            "<rect class=\"wait\" x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{BAR}\"/>\
             <rect class=\"send\" x=\"{0}\" y=\"{1}\" width=\"{3}\" height=\"{BAR}\"><title>{4} {said}</title></rect>\
             <text x=\"{5}\" y=\"{6}\">{7}</text><text class=\"end\" x=\"{8}\" y=\"{6}\">{said}</text>",
            Px(x + 6.0),
            Px(top),
            Px(BOX - 12.0),
            Px((BOX - 12.0) * part),
            Escaped(name),
            Px(x + 10.0),
            Px(top + 14.0),
            Escaped(&shortened(name, LETTERS)),
            Px(x + BOX - 10.0)
        )?;
    }
    Ok(())
}

fn shortened(text: &str, letters: usize) -> String {
    match text.chars().count() > letters {
        true => text.chars().take(letters - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_drawn_as_far_as_there_is_room() {
        let job = |name: &str, slowdown| (Some(name.to_owned()), slowdown);
        let node = NodeBox {
            label: "node 1".into(),
            jobs: vec![job("a < b", Some(1.5)), job("a very long name of a program", None), (None, None)],
        };
        let plot = NodesPlot { title: "t".into(), subtitle: "s".into(), nodes: vec![node; BOXES_MAX + 7] };
        let mut text = Vec::new();
        write_nodes(&plot, &Look::default(), &mut text).expect("memory takes it");
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(text.contains("a &lt; b") && text.contains("+50.0 %") && text.contains("and 7 more"));
        assert!(text.ends_with("</svg>\n") && !text.contains("NaN"));
        assert_eq!(text.matches("class=\"node\"").count(), BOXES_MAX);
    }
}
