//! Where panels and legend lie on the paper.

use super::scale::{Held, Scale};
use super::{Axis, CHART_COLOURS, Chart, Kind, Mark, Panel, Place, Powers, Series, Spread};
use crate::svg::paper::{CHARACTER, TINY_CHARACTER};
use crate::svg::xml::wrapped;

pub(super) const MARGIN: f64 = 16.0;
/// What a letter of a title takes in a wide font.
const TITLE_CHARACTER: f64 = 10.8;
/// Between a panel and what is right of it.
const RIGHT: f64 = 26.0;
/// Between lines of panels.
const BETWEEN: f64 = 14.0;
/// Of a panel that does not ask for a height.
const HEIGHT: f64 = 180.0;
/// From one row of dots to the next, and of bars that lie.
const ROW: f64 = 16.0;
const BAR: f64 = 14.0;
/// A line of small text.
const LINE: f64 = 12.0;
/// No more of a panel's width is for names.
const NAMES_PART: f64 = 0.45;

/// All of a chart.
pub(super) struct Layout<'a> {
    pub height: f64,
    /// Class, base line, text.
    pub head: Vec<(&'static str, f64, String)>,
    pub legend: Vec<Entry<'a>>,
    pub frames: Vec<Frame<'a>>,
    /// How many there are to draw.
    pub points: usize,
}

/// Which colour; `again` where others have had it already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour {
    pub number: usize,
    pub again: bool,
}

/// A sample with its name.
pub(super) struct Entry<'a> {
    pub x: f64,
    pub y: f64,
    pub name: String,
    pub series: &'a Series,
    pub colour: Colour,
}

/// A panel on the paper. Lengths in pixels from the left and from the top.
pub(super) struct Frame<'a> {
    pub panel: &'a Panel,
    pub colours: Vec<Colour>,
    pub x_axis: &'a Axis,
    pub y_axis: &'a Axis,
    pub x_scale: Scale,
    pub y_scale: Scale,
    pub x_ticks: Vec<f64>,
    pub y_ticks: Vec<f64>,
    /// Names in lines.
    pub x_names: Vec<Vec<String>>,
    pub y_names: Vec<String>,
    /// Names are at the left and numbers below.
    pub has_rows: bool,
    /// Numbers or names of this panel are written, and not only those of its neighbour.
    pub shows_x: bool,
    pub shows_y: bool,
    /// Nothing above has the same marks.
    pub is_first: bool,
    /// How high the words of marks stand.
    pub mark_levels: Vec<u8>,
    /// Where its column begins.
    pub begin: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub title_y: f64,
    pub y_label_y: f64,
    pub x_label_y: f64,
}

impl Frame<'_> {
    pub fn x(&self, value: f64) -> f64 {
        self.left + self.x_scale.part(value) * (self.right - self.left)
    }

    pub fn y(&self, value: f64) -> f64 {
        self.bottom - self.y_scale.part(value) * (self.bottom - self.top)
    }

    /// Where two coordinates meet. Names go down.
    pub fn at(&self, x: &Place, y: &Place) -> (f64, f64) {
        let part = self.y_scale.part_of(y);
        let down = if self.y_scale.has_names() { part } else { 1.0 - part };
        (
            self.left + self.x_scale.part_of(x) * (self.right - self.left),
            self.top + down * (self.bottom - self.top),
        )
    }

    /// The middle of a mark's word, which does not leave the paper, and half of its width.
    pub fn word(&self, mark: &Mark) -> (f64, f64) {
        let half = mark.text.chars().count() as f64 * TINY_CHARACTER / 2.0 + 2.0;
        (self.x(mark.at).min(self.right + RIGHT - half).max(self.begin + half), half)
    }

    fn sizes(&mut self, begin: f64, width: f64) {
        let texts = self.y_ticks.iter().map(|tick| self.y_scale.text(*tick));
        let longest = texts.chain(self.y_names.iter().cloned()).map(|text| text.chars().count()).max();
        let taken =
            longest.filter(|_| self.shows_y).map_or(8.0, |longest| longest as f64 * TINY_CHARACTER + 12.0);
        (self.begin, self.left, self.right) = (begin, begin + taken, begin + width - RIGHT);
    }
}

/// Colours by name, in the order in which they come.
fn colours<'a>(panels: &[&'a Panel]) -> (Vec<Vec<Colour>>, Vec<(&'a Series, Colour)>) {
    let mut named: Vec<(&Series, Colour)> = Vec::new();
    let of_number = |number: usize| Colour { number: number % CHART_COLOURS, again: number >= CHART_COLOURS };
    let mut all = Vec::new();
    for panel in panels {
        let mut of_panel = Vec::new();
        for (at, series) in panel.series.iter().enumerate() {
            let known = named.iter().find(|(known, _)| !series.name.is_empty() && known.name == series.name);
            let next = if series.name.is_empty() { at } else { named.len() };
            let colour = match (series.colour, known) {
                (Some(number), _) => of_number(number),
                (None, Some((_, colour))) => *colour,
                (None, None) => of_number(next),
            };
            if known.is_none() && !series.name.is_empty() {
                named.push((series, colour));
            }
            of_panel.push(colour);
        }
        all.push(of_panel);
    }
    (all, named)
}

/// Of the panels that have an axis in common, or of the one that has its own.
fn scale<'a>(axis: &Axis, panels: impl Iterator<Item = &'a Panel>, is_x: bool) -> Scale {
    let mut held = Held::default();
    let mut has_bars = false;
    for panel in panels {
        let along_x =
            |series: &Series| series.points.iter().any(|point| matches!(point.x, Some(Place::Name(_))));
        let along_y =
            |series: &Series| series.points.iter().any(|point| matches!(point.y, Some(Place::Name(_))));
        let has_rows = panel.series.iter().any(along_y);
        // Values are on the axis that has numbers where the other one has names, else on the upright one.
        let is_value = is_x == (has_rows && !panel.series.iter().any(along_x));
        held.is_value |= is_value;
        let mut sums: Vec<(&Place, f64)> = Vec::new();
        for series in &panel.series {
            has_bars |= series.kind == Kind::Bars;
            let stands = matches!(series.kind, Kind::Bars | Kind::Histogram);
            if stands && is_value && !series.points.is_empty() && axis.scale == Powers::None {
                held.numbers.push(0.0);
            }
            if stands && has_rows && is_value && series.labels {
                held.room = 0.12;
            }
            for point in &series.points {
                let Some((x, y)) = point.both() else { continue };
                let (own, other) = if is_x { (x, y) } else { (y, x) };
                held.places.push(own);
                match point.spread {
                    Spread::Range(least, most) if is_value => held.numbers.extend([least, most]),
                    Spread::Width(from, to) if is_x => held.numbers.extend([from, to]),
                    _ => {}
                }
                if panel.stacked && is_value && series.kind == Kind::Bars {
                    let number = own.number().unwrap_or(0.0);
                    match sums.iter_mut().find(|(place, _)| *place == other) {
                        Some((_, sum)) => *sum += number,
                        None => sums.push((other, number)),
                    }
                }
            }
        }
        held.numbers.extend(sums.into_iter().map(|(_, sum)| sum));
    }
    if !held.is_value && axis.scale == Powers::None && has_bars {
        // The first and the last bar lie on the paper as the others do.
        let mut places: Vec<f64> = held.places.iter().filter_map(|place| place.number()).collect();
        places.sort_by(f64::total_cmp);
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0);
        let half = gaps.fold(f64::INFINITY, f64::min) / 2.0;
        held.numbers.extend(places.first().map(|first| first - half));
        held.numbers.extend(places.last().map(|last| last + half));
    }
    held.numbers.retain(|number| number.is_finite());
    Scale::of(axis, &held)
}

impl<'a> Layout<'a> {
    pub fn of(chart: &'a Chart, panels: &[&'a Panel], title: &str, width: f64) -> Layout<'a> {
        let columns = chart.columns.max(1);
        let (all_colours, named) = colours(panels);
        let common =
            |has_own: fn(&Panel) -> bool| panels.iter().copied().filter(move |panel| !has_own(panel));
        let common_x = scale(&chart.x, common(|panel| panel.x.is_some()), true);
        let common_y = scale(&chart.y, common(|panel| panel.y.is_some()), false);
        let mut frames: Vec<Frame<'a>> = Vec::new();
        for (at, (panel, colours)) in panels.iter().copied().zip(all_colours).enumerate() {
            let own = |axis: &'a Option<Axis>, is_x| {
                axis.as_ref().map(|axis| (axis, scale(axis, [panel].into_iter(), is_x)))
            };
            let (x_axis, x_scale) = own(&panel.x, true).unwrap_or_else(|| (&chart.x, common_x.clone()));
            let (y_axis, y_scale) = own(&panel.y, false).unwrap_or_else(|| (&chart.y, common_y.clone()));
            let is_common = |other: Option<&&Panel>, axis: fn(&Panel) -> bool| {
                !axis(panel) && other.is_some_and(|other| !axis(other))
            };
            let left = (at % columns > 0).then(|| &panels[at - 1]);
            let above = at.checked_sub(columns).and_then(|above| panels.get(above));
            frames.push(Frame {
                panel,
                colours,
                x_axis,
                y_axis,
                has_rows: y_scale.has_names() && !x_scale.has_names(),
                x_scale,
                y_scale,
                x_ticks: Vec::new(),
                y_ticks: Vec::new(),
                x_names: Vec::new(),
                y_names: Vec::new(),
                shows_x: !is_common(panels.get(at + columns), |panel| panel.x.is_some()),
                shows_y: !is_common(left, |panel| panel.y.is_some()),
                is_first: !is_common(above, |panel| panel.x.is_some()),
                mark_levels: Vec::new(),
                begin: 0.0,
                left: 0.0,
                right: 0.0,
                top: 0.0,
                bottom: 0.0,
                title_y: 0.0,
                y_label_y: 0.0,
                x_label_y: 0.0,
            });
        }
        let (head, mut y) = head(title, &chart.subtitle, width);
        let (legend, below) = legend(&named, width, y);
        y = below;
        place_across(&mut frames, columns, width);
        for line in frames.chunks_mut(columns) {
            y = place_down(line, y) + BETWEEN;
        }
        let points = panels.iter().flat_map(|panel| &panel.series).map(|series| series.points.len()).sum();
        Layout { height: (y - BETWEEN + MARGIN).max(60.0), head, legend, frames, points }
    }
}

/// Title and subtitle, and where what follows may begin.
fn head(title: &str, subtitle: &str, width: f64) -> (Vec<(&'static str, f64, String)>, f64) {
    let fitting =
        |text: &str, each: f64, lines| wrapped(text, ((width - 2.0 * MARGIN) / each) as usize, lines);
    let mut y = 8.0;
    let mut head = Vec::new();
    for text in fitting(title, TITLE_CHARACTER, 2) {
        y += 20.0;
        head.push(("title", y, text));
    }
    for text in fitting(subtitle, CHARACTER, 4) {
        y += 18.0;
        head.push(("quiet", y, text));
    }
    (head, y + 10.0)
}

fn legend<'a>(named: &[(&'a Series, Colour)], width: f64, top: f64) -> (Vec<Entry<'a>>, f64) {
    let (mut x, mut y) = (MARGIN, top + 14.0);
    let mut entries = Vec::new();
    let longest = ((width - 2.0 * MARGIN - 24.0) / CHARACTER) as usize;
    for (series, colour) in named {
        let name = wrapped(&series.name, longest, 1).concat();
        let taken = 24.0 + name.chars().count() as f64 * CHARACTER;
        if x > MARGIN && x + taken > width - MARGIN {
            (x, y) = (MARGIN, y + 18.0);
        }
        entries.push(Entry { x, y, name, series, colour: *colour });
        x += taken + 18.0;
    }
    let below = if entries.is_empty() { top } else { y + 12.0 };
    (entries, below)
}

/// Heights of panels, for the numbers beside them, and with these all that lies from left to right.
fn place_across(frames: &mut [Frame<'_>], columns: usize, width: f64) {
    let columns = columns.min(frames.len()).max(1);
    let column = (width - 2.0 * MARGIN + 16.0) / columns as f64;
    for frame in frames.iter_mut() {
        let height = frame.panel.height.map(|height| f64::from(height).clamp(40.0, 5000.0));
        let bars = frame.panel.series.iter().filter(|series| series.kind == Kind::Bars).count();
        let bars = if frame.panel.stacked { bars.min(1) } else { bars };
        let row = if bars > 0 { bars as f64 * BAR + 6.0 } else { ROW };
        let rows = frame.y_scale.names.len() as f64 * row;
        frame.bottom = height.unwrap_or(if rows > 0.0 { rows } else { HEIGHT });
        frame.y_ticks = frame.y_scale.ticks(frame.bottom, |_| 20.0);
        let letters = (column * NAMES_PART / TINY_CHARACTER) as usize;
        frame.y_names = frame.y_scale.names.iter().map(|name| wrapped(name, letters, 1).concat()).collect();
    }
    for at in 0..columns {
        let mut left = 0.0f64;
        for frame in frames.iter_mut().skip(at).step_by(columns) {
            frame.sizes(MARGIN + at as f64 * column, column);
            left = left.max(frame.left);
        }
        for frame in frames.iter_mut().skip(at).step_by(columns) {
            frame.left = left;
            let length = frame.right - frame.left;
            frame.x_ticks =
                frame.x_scale.ticks(length, |text| text.chars().count() as f64 * TINY_CHARACTER + 14.0);
            let letters = (length / frame.x_scale.names.len().max(1) as f64 / TINY_CHARACTER) as usize;
            frame.x_names = frame.x_scale.names.iter().map(|name| wrapped(name, letters.max(3), 3)).collect();
            frame.mark_levels = levels(frame);
        }
    }
}

/// Words of marks that would lie on each other stand above each other.
fn levels(frame: &Frame<'_>) -> Vec<u8> {
    let mut ends = [f64::NEG_INFINITY; 4];
    let mut levels = Vec::new();
    for mark in &frame.x_axis.marks {
        let (x, half) = frame.word(mark);
        let level = ends.iter().position(|end| *end <= x - half).unwrap_or(0);
        ends[level] = x + half;
        levels.push(level as u8);
    }
    levels
}

/// Places a line of panels below `y`, and tells where it ends.
fn place_down(line: &mut [Frame<'_>], y: f64) -> f64 {
    let most = |of: &dyn Fn(&Frame<'_>) -> f64| line.iter().map(of).fold(0.0, f64::max);
    let title = most(&|frame| if frame.panel.title.is_empty() { 0.0 } else { 18.0 });
    let label = most(&|frame| if frame.shows_y && !frame.y_axis.label.is_empty() { 14.0 } else { 0.0 });
    let words = most(&|frame| match frame.mark_levels.iter().max() {
        Some(level) if frame.is_first && frame.x_axis.marks.iter().any(|mark| !mark.text.is_empty()) => {
            LINE * f64::from(level + 1)
        }
        _ => 0.0,
    });
    let height = most(&|frame| frame.bottom);
    let names = most(&|frame| {
        let lines = frame.x_names.iter().map(Vec::len).max().unwrap_or(0);
        if frame.shows_x { LINE * lines.max(1) as f64 + 8.0 } else { 0.0 }
    });
    let x_label = most(&|frame| if frame.shows_x && !frame.x_axis.label.is_empty() { 15.0 } else { 0.0 });
    let top = y + title + label + words + 8.0;
    for frame in line.iter_mut() {
        (frame.title_y, frame.y_label_y) = (y + 14.0, y + title + 12.0);
        (frame.top, frame.bottom) = (top, top + frame.bottom);
        frame.x_label_y = frame.bottom + names + 13.0;
    }
    top + height + names + x_label
}
