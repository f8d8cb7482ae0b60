//! A timeline as a drawing: a line a rank, a bar an operation, an arrow a message.
//!
//! `paper` says where things lie, `theme` how they look, `bars` and `arrows` draw what happened, `shares` draws it
//! where there is too much to draw one by one.

mod arrows;
mod bars;
mod beside;
mod boxes;
mod chart;
mod critical;
mod frame;
mod gantt;
mod graph;
mod heat;
mod look;
mod matrices;
mod network;
mod nodes;
mod paper;
mod rows;
mod shares;
mod stages;
mod theme;
mod xml;

pub use arrows::marker;
pub use beside::write_svg_beside;
pub use boxes::{BoxPanel, BoxPlot, FiveNumbers, write_box_plot};
pub use chart::{
    Axis, CHART_COLOURS, Chart, ChartError, Kind, Mark, Panel, Place, Point, Powers, Series, Shape, Spread,
    write_chart,
};
pub use gantt::{GanttBar, GanttPanel, GanttPlot, write_gantt};
pub use graph::{BOXES_MAX, GraphArrow, GraphBox, GraphPlot, write_graph};
pub use heat::{HeatMap, write_heat_map};
pub use look::{Head, Look};
pub use matrices::{StageMatrices, write_stage_matrices};
pub use network::{NetworkLink, NetworkNode, NetworkPlot, write_network};
pub use nodes::{NodeBox, NodesPlot, write_nodes};
pub use rows::{EVERY_RANK_LINES_MAX, LINES_MAX};
pub use stages::{StagePlot, write_stages};
pub use theme::Theme;
pub use xml::Escaped;

use crate::{Rows, Timeline};
use paper::Paper;
use rows::{Places, Shown};
use std::io::{self, Write};

/// Bars that are drawn one by one; more are drawn as shares of the time.
pub const BARS_MAX: usize = 10_000;
/// Arrows that are drawn; of more messages, none is.
pub const ARROWS_MAX: usize = 2_000;

/// How a drawing looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SvgOptions {
    /// Colours.
    pub theme: Theme,
    /// Width in pixels, 400 to 10,000 (numbers outside count as the nearest inside); the height follows from the ranks.
    pub width: u32,
    /// Font family that is asked for first; before that of the system where there is none.
    pub font: Option<String>,
    /// A line for each rank, also where many do the same.
    pub every_rank: bool,
    /// The axis goes on until then, if nothing happens later: so that drawings can be compared. Picoseconds.
    pub until_ps: u64,
}

impl Default for SvgOptions {
    fn default() -> SvgOptions {
        SvgOptions { theme: Theme::Auto, width: 1200, font: None, every_rank: false, until_ps: 0 }
    }
}

/// Writes a timeline as an SVG drawing: title and subtitle, legend, a line a rank with its end, bars of what it was
/// busy with, an arrow from each message's departure to its arrival, a time axis. Exact times are in the tooltips.
///
/// The critical path is a line below the bars, and its parts are told in words.
///
/// Of more than 16 ranks, those that do the same at the same times share a line, unless that is asked for otherwise.
///
/// The size of the file is bounded whatever the timeline holds: above [`LINES_MAX`] ranks ([`EVERY_RANK_LINES_MAX`] where a line for
/// each is asked for) or [`BARS_MAX`] spans, a line shows by the height of the colours what share of their time its ranks spent on what; above [`ARROWS_MAX`] messages
/// none is drawn. The drawing says so where it happens.
///
/// ```
/// use castell_trace::{SvgOptions, Timeline, write_svg};
/// let mut out = Vec::new();
/// let timeline = Timeline { title: "a < b".into(), ranks: 2, ..Timeline::default() };
/// write_svg(&timeline, &SvgOptions::default(), &mut out)?;
/// assert!(String::from_utf8(out).unwrap().contains("a &lt; b"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Whatever the writer says.
///
/// # Panics
/// Where a span or message names a rank that the timeline does not have.
pub fn write_svg(timeline: &Timeline, options: &SvgOptions, out: &mut impl Write) -> io::Result<()> {
    let own = (timeline.rows == Rows::Workers).then(|| timeline.own_time());
    let timeline = own.as_ref().unwrap_or(timeline);
    let spans = timeline.spans.iter().map(|span| span.rank);
    let ends = timeline.messages.iter().flat_map(|message| [message.from, message.to]);
    for rank in spans.chain(ends) {
        assert!(rank.0 < timeline.ranks, "rank {rank} in a timeline of {}", timeline.ranks);
    }
    let places = Places::of(timeline, options.every_rank);
    let bars = timeline.spans.iter().filter(|span| places.is_first(span.rank)).count();
    let one_by_one = places.shown == Shown::First && bars <= BARS_MAX;
    let drawn = timeline.messages.iter().filter(|message| arrows::is_drawn(message, &places)).count();
    let arrows = places.shown == Shown::First && drawn <= ARROWS_MAX;
    let steps = critical::steps(timeline);
    let path = critical::parts(timeline, &steps);
    let width = options.width.clamp(400, 10_000);
    let arrows = arrows.then_some(drawn);
    let paper =
        Paper::new(timeline, (width, options.until_ps), places, (one_by_one, arrows), path.as_deref());
    frame::open(timeline, options, &paper, out)?;
    frame::legend(timeline, &paper, critical::is_drawn(&paper, &steps), out)?;
    frame::lines_and_axis(&paper, out)?;
    if one_by_one {
        bars::waits(timeline, &paper, out)?;
    } else {
        shares::draw(timeline, &paper, out)?;
    }
    if arrows.is_some() {
        arrows::draw(timeline, &paper, out)?;
    }
    if one_by_one {
        bars::draw(timeline, &paper, out)?;
        critical::draw(timeline, &paper, &steps, out)?;
    }
    writeln!(out, "</svg>")
}
