//! The drawing of the house: ARCHITECTURE.md's table as a picture, kept in `docs/src/house.svg`.
//!
//! A layered drawing: a row holds rooms that import from rows below it only, an arrow that others imply is left out, and one
//! that passes rows has a place of its own in each, so that it runs behind no box.

use super::rooms::{FLOORS, Room, Table};
use super::{File, Finding};
use castell_trace::svg::{Head, Look, marker};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// Where the drawing is kept.
const PATH: &str = "docs/src/house.svg";
const BOX_WIDTH: usize = 104;
const BOX_HEIGHT: usize = 30;
const ROW_HEIGHT: usize = 84;
/// For the title.
const TOP: usize = 56;
const GAP: usize = 26;
/// For the floors' names.
const MARGIN: usize = 84;
/// How often the rows are ordered by their neighbours' places.
const SWEEPS: usize = 8;

/// The drawing that is kept is the one of today's table.
pub fn check(root: &Path, table: &Table) -> Vec<Finding> {
    let kept = std::fs::read_to_string(root.join(PATH)).unwrap_or_default();
    if kept == draw(table) {
        return Vec::new();
    }
    vec![Finding::new(PATH, 1, "is not what ARCHITECTURE.md's table says: `cargo xtask tidy --draw`")]
}

/// Writes today's drawing.
pub fn write(root: &Path, files: &[File]) -> anyhow::Result<()> {
    std::fs::write(root.join(PATH), draw(&Table::read(files)?))?;
    println!("{PATH}: drawn");
    Ok(())
}

/// What has a place in a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node<'a> {
    Room(&'a str),
    /// An arrow from the one room to the other, where it passes this row.
    Passage(&'a str, &'a str, usize),
}

impl Node<'_> {
    fn width(self) -> usize {
        if matches!(self, Node::Room(_)) { BOX_WIDTH } else { 0 }
    }
}

type Rooms<'a> = BTreeMap<&'a str, &'a Room>;

/// The rows from the top down, and the arrows as the nodes that each goes through.
struct Layers<'a> {
    floors: Vec<usize>,
    rows: Vec<Vec<Node<'a>>>,
    arrows: Vec<Vec<Node<'a>>>,
}

impl<'a> Layers<'a> {
    fn of(table: &'a Table) -> Layers<'a> {
        let rooms: Rooms<'_> = table.rooms.iter().map(|room| (room.name.as_str(), room)).collect();
        let level = |room: &Room| (room.height(), steps_in_floor(room, &rooms));
        let levels: BTreeSet<(usize, usize)> = rooms.values().map(|room| level(room)).collect();
        let levels: Vec<(usize, usize)> = levels.into_iter().rev().collect();
        let row_of = |name: &str| levels.iter().position(|at| *at == level(rooms[name])).expect("its level");
        let mut rows = vec![Vec::new(); levels.len()];
        let mut arrows = Vec::new();
        for (name, room) in &rooms {
            rows[row_of(name)].push(Node::Room(name));
            for below in direct(room, &rooms) {
                let passages = (row_of(name) + 1..row_of(below)).map(|row| Node::Passage(name, below, row));
                let passages: Vec<Node<'_>> = passages.collect();
                for (row, passage) in (row_of(name) + 1..).zip(&passages) {
                    rows[row].push(*passage);
                }
                arrows.push([&[Node::Room(name)], &passages[..], &[Node::Room(below)]].concat());
            }
        }
        let floors = levels.iter().map(|(floor, _)| *floor).collect();
        let mut layers = Layers { floors, rows, arrows };
        layers.order();
        layers
    }

    /// Each row in the order of the middles of its neighbours above, then below, several times: fewer arrows cross.
    fn order(&mut self) {
        for sweep in 0..SWEEPS {
            for at in 0..self.rows.len() {
                let row = if sweep % 2 == 0 { at } else { self.rows.len() - 1 - at };
                let places = self.places();
                let middle = |node: &Node<'_>| {
                    let steps = self.arrows.iter().flat_map(|arrow| arrow.windows(2));
                    let beside = steps.filter_map(|step| match sweep % 2 {
                        0 => (step[1] == *node).then_some(step[0]),
                        _ => (step[0] == *node).then_some(step[1]),
                    });
                    let beside: Vec<usize> = beside.map(|other| places[&other].0).collect();
                    if beside.is_empty() {
                        places[node].0
                    } else {
                        beside.iter().sum::<usize>() / beside.len()
                    }
                };
                let mut ordered = self.rows[row].clone();
                ordered.sort_by_cached_key(|node| (middle(node), *node));
                self.rows[row] = ordered;
            }
        }
    }

    fn width_of(row: &[Node<'_>]) -> usize {
        row.iter().map(|node| node.width() + GAP).sum()
    }

    fn width(&self) -> usize {
        self.rows.iter().map(|row| Layers::width_of(row)).max().unwrap_or(0)
    }

    /// The middle of each node's upper edge.
    fn places(&self) -> BTreeMap<Node<'a>, (usize, usize)> {
        let mut places = BTreeMap::new();
        for (line, row) in self.rows.iter().enumerate() {
            let mut x = MARGIN + (self.width() - Layers::width_of(row)) / 2;
            for node in row {
                places.insert(*node, (x + node.width() / 2, TOP + GAP + line * ROW_HEIGHT));
                x += node.width() + GAP;
            }
        }
        places
    }
}

/// How many rooms of the same floor lie below each other under this one.
fn steps_in_floor(room: &Room, rooms: &Rooms<'_>) -> usize {
    let below = room.may_import.iter().filter_map(|name| rooms.get(name.as_str()));
    let same = below.filter(|below| below.floor == room.floor && below.name != room.name);
    same.map(|below| steps_in_floor(below, rooms) + 1).max().unwrap_or(0)
}

/// What a room imports and none of its other imports does.
fn direct<'a>(room: &'a Room, rooms: &Rooms<'a>) -> Vec<&'a str> {
    let mut implied = BTreeSet::new();
    for import in &room.may_import {
        reach(import, rooms, &mut implied);
    }
    room.may_import.iter().map(String::as_str).filter(|import| !implied.contains(import)).collect()
}

/// Everything below a room, without itself.
fn reach<'a>(name: &str, rooms: &Rooms<'a>, found: &mut BTreeSet<&'a str>) {
    for import in rooms.get(name).map_or(&[][..], |room| &room.may_import) {
        if found.insert(import) {
            reach(import, rooms, found);
        }
    }
}

fn draw(table: &Table) -> String {
    let layers = Layers::of(table);
    let places = layers.places();
    let (width, height) = (MARGIN + layers.width(), TOP + layers.rows.len() * ROW_HEIGHT);
    let head = Head {
        title: "The rooms of castell and what they import",
        subtitle: "arrows that others imply are left out",
        left: 10.0,
        ..Head::default()
    };
    let mut begun = Vec::new();
    Look::default().open((width as f64, height as f64), head, &mut begun).expect("memory takes it");
    let mut svg = String::from_utf8(begun).expect("what it writes is text") + &marker() + "\n";
    draw_floors(&mut svg, &layers, width);
    for arrow in &layers.arrows {
        let points: Vec<(usize, usize)> = arrow.iter().map(|node| places[node]).collect();
        draw_arrow(&mut svg, &points);
    }
    for (node, (middle, y)) in &places {
        let Node::Room(name) = node else { continue };
        let _ = writeln!(
            svg,
            "<rect x=\"{}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"5\" class=\"node\"/>\
             <text class=\"middle\" x=\"{middle}\" y=\"{}\">{name}</text>",
            middle - BOX_WIDTH / 2,
            y + 20
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_floors(svg: &mut String, layers: &Layers<'_>, width: usize) {
    for (floor, name) in FLOORS.iter().enumerate() {
        let mut lines = (0..layers.rows.len()).filter(|line| layers.floors[*line] == floor);
        let Some(first) = lines.next() else { continue };
        let (top, height) = (TOP + first * ROW_HEIGHT + GAP / 4, (lines.count() + 1) * ROW_HEIGHT - GAP / 4);
        let _ = writeln!(
            svg,
            "<rect class=\"{}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>\
             <text class=\"quiet\" x=\"10\" y=\"{}\">{name}</text>",
            ["paper", "stripe"][floor % 2],
            top + 20
        );
    }
}

/// From below a box through its passages to the box that it points at.
fn draw_arrow(svg: &mut String, points: &[(usize, usize)]) {
    let (x, y) = points[0];
    let mut path = format!("M{x} {}", y + BOX_HEIGHT);
    for (at, pair) in points.windows(2).enumerate() {
        let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
        let bend = (y2 - y1 - BOX_HEIGHT) / 2;
        let _ = write!(path, "C{x1} {} {x2} {} {x2} {y2}", y1 + BOX_HEIGHT + bend, y2 - bend);
        if at + 2 < points.len() {
            let _ = write!(path, "V{}", y2 + BOX_HEIGHT);
        }
    }
    let _ = writeln!(svg, "<path class=\"arrow\" d=\"{path}\" marker-end=\"url(#head)\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_stand_above_what_they_import_and_implied_arrows_are_left_out() {
        let text = "| doors | `cli` | - | comm goal base |\n| worldly | `comm` | - | host goal base |\n\
                    | worldly | `host` | - | base |\n| pure | `goal` | - | base |\n| ground | `base` | - | - |\n";
        let file = File { path: "ARCHITECTURE.md".to_owned(), text: text.to_owned() };
        let table = Table::read(&[file]).expect("there is a table");
        let layers = Layers::of(&table);
        let rooms = |row: &Vec<Node<'_>>| {
            let named = row.iter().filter_map(|node| match node {
                Node::Room(name) => Some((*name).to_owned()),
                Node::Passage(..) => None,
            });
            named.collect::<Vec<_>>()
        };
        let rows: Vec<Vec<String>> = layers.rows.iter().map(rooms).collect();
        assert_eq!(rows, [["cli"], ["comm"], ["host"], ["goal"], ["base"]]);
        // cli to comm; comm to host and, past host, to goal; host, past goal, and goal to base.
        let mut lengths: Vec<usize> = layers.arrows.iter().map(Vec::len).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, [2, 2, 2, 3, 3]);
        assert!(draw(&table).contains(">goal</text>"));
    }
}
