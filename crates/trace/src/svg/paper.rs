//! Where things lie on the paper.

use super::rows::{Places, Shown, listed};
use super::xml::{Px, wrapped};
use crate::units::Unit;
use crate::{Through, Timeline};
use castell_base::Rank;

/// Lengths in pixels, from the left and from the top.
pub(super) struct Paper {
    pub width: f64,
    pub height: f64,
    pub title: Vec<String>,
    pub subtitle: Vec<String>,
    /// What is not drawn, and why.
    pub notes: Vec<String>,
    /// Base line of the legend.
    pub legend_y: f64,
    /// Where time 0 lies, and the end.
    pub left: f64,
    pub right: f64,
    /// Where the first line begins, and the last ends.
    pub top: f64,
    pub bottom: f64,
    /// From line to line.
    pub pitch: f64,
    /// Height of a bar.
    pub bar: f64,
    pub places: Places,
    /// The word for one of the rows.
    pub row: &'static str,
    /// Spans are drawn one by one.
    pub one_by_one: bool,
    /// So many messages are drawn; `None`: there are too many.
    pub arrows: Option<usize>,
    pub end_ps: u64,
    pub unit: Unit,
    /// By rank, when it was through.
    pub rank_ends_ps: Vec<u64>,
    /// As [`Timeline::through`].
    pub through: Vec<Through>,
}

/// What a character takes, on average, at sizes 17 (bold), 12 and 10.
pub(super) const TITLE_CHARACTER: f64 = 9.4;
pub(super) const CHARACTER: f64 = 6.9;
pub(super) const TINY_CHARACTER: f64 = 5.9;
pub(super) const MARGIN: f64 = 16.0;
const TEXT_LINE: f64 = 18.0;

impl Paper {
    /// `path`: what the critical path's time went into.
    pub fn new(
        timeline: &Timeline,
        (width, until_ps): (u32, u64),
        places: Places,
        (one_by_one, arrows): (bool, Option<usize>),
        path: Option<&str>,
    ) -> Paper {
        let width = f64::from(width);
        let end_ps = timeline.end_ps().max(until_ps);
        let unit = Unit::of(end_ps);
        let lines = places.lines.len();
        let characters = |each: f64| ((width - 2.0 * MARGIN) / each) as usize;
        let title = wrapped(&timeline.title, characters(TITLE_CHARACTER), 2);
        let subtitle = wrapped(&timeline.subtitle, characters(CHARACTER), 3);
        let mut notes = notes(timeline, &places, one_by_one, arrows.is_some());
        notes.splice(..0, path.map(|parts| format!("Critical path: {parts}.")));
        let notes: Vec<String> =
            notes.iter().flat_map(|note| wrapped(note, characters(CHARACTER), 3)).collect();
        let texts = title.len() as f64 * 1.3 + (subtitle.len() + notes.len() + 1) as f64;
        let legend_y = MARGIN + texts * TEXT_LINE + 24.0;
        let top = legend_y + 20.0;
        let (pitch, bar) = match lines {
            0..=12 => (38.0, 16.0),
            13..=24 => (28.0, 12.0),
            25..=40 => (22.0, 9.0),
            _ => (18.0, 7.0),
        };
        let bar = if one_by_one { bar } else { pitch - 4.0 };
        let bottom = top + lines as f64 * pitch;
        let label = places.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        let left = MARGIN + (label as f64 * CHARACTER).max(40.0) + 8.0;
        let rank_ends_ps = rank_ends(timeline);
        // The right margin holds each line's end.
        let longest = rank_ends_ps.iter().map(|end| unit.time(*end).chars().count()).max().unwrap_or(0);
        let longest = if timeline.through.is_empty() { longest } else { longest.max(6) };
        let right = width - MARGIN - 8.0 - (longest as f64 * CHARACTER).max(30.0);
        let height = bottom + 46.0;
        Paper {
            width,
            height,
            title,
            subtitle,
            notes,
            legend_y,
            left,
            right,
            top,
            bottom,
            pitch,
            bar,
            places,
            row: timeline.rows.name(),
            one_by_one,
            arrows,
            end_ps,
            unit,
            rank_ends_ps,
            through: timeline.through.clone(),
        }
    }

    /// Where a moment lies, from the left.
    pub fn x(&self, ps: u64) -> f64 {
        self.left + (self.right - self.left) * (ps as f64 / self.end_ps.max(1) as f64)
    }

    /// When these ranks were through, in words where that is not seen.
    pub fn end_of(&self, ranks: &[Rank]) -> String {
        let through = |rank: &Rank| self.through.get(rank.index()).copied().unwrap_or(Through::Within);
        if ranks.iter().any(|rank| through(rank) == Through::Later) {
            "later".to_owned()
        } else if !ranks.is_empty() && ranks.iter().all(|rank| through(rank) == Through::Before) {
            "before".to_owned()
        } else {
            let end_ps = ranks.iter().map(|rank| self.rank_ends_ps[rank.index()]).max().unwrap_or(0);
            self.unit.time(end_ps)
        }
    }

    /// The middle of a rank's line; of the first, if it has none.
    pub fn y(&self, rank: Rank) -> f64 {
        self.top + (f64::from(self.places.line(rank).unwrap_or(0)) + 0.5) * self.pitch
    }

    /// Height of a bar in which a rank waits.
    pub fn wait(&self) -> f64 {
        (self.bar / 5.0).max(2.0)
    }

    /// Where the colours of a line stand on that shows shares.
    pub fn floor(&self, line: u32) -> f64 {
        self.top + f64::from(line + 1) * self.pitch - 2.0
    }

    /// Base lines of the text above the legend: class, position, text.
    pub fn head(&self) -> impl Iterator<Item = (&'static str, Px, &str)> {
        let title = self.title.iter().map(|text| ("title", 1.3, text.as_str()));
        let subtitle = self.subtitle.iter().map(|text| ("subtitle", 1.0, text.as_str()));
        let mut y = MARGIN;
        title.chain(subtitle).map(move |(class, step, text)| {
            y += step * TEXT_LINE;
            (class, Px(y), text)
        })
    }

    /// Base lines of the text between subtitle and legend.
    pub fn notes_y(&self, index: usize) -> Px {
        let above = self.title.len() as f64 * 1.3 + (self.subtitle.len() + index + 1) as f64;
        Px(MARGIN + above * TEXT_LINE)
    }
}

fn rank_ends(timeline: &Timeline) -> Vec<u64> {
    let mut ends = vec![0; timeline.ranks as usize];
    for span in &timeline.spans {
        let end = &mut ends[span.rank.index()];
        *end = span.end_ps.max(*end);
    }
    ends
}

fn notes(timeline: &Timeline, places: &Places, one_by_one: bool, arrows: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let word = timeline.rows.name();
    if places.count() < timeline.ranks as usize {
        let mut ranks: Vec<Rank> = places.lines.iter().flat_map(|line| line.ranks.iter().copied()).collect();
        ranks.sort_unstable();
        notes.push(format!("Only {word}s {} are drawn.", listed(&ranks, 60)));
    }
    if places.has_alike() {
        notes.push(format!(
            "{}s that do the same at the same times (nine tenths of it) share a line, which shows the first of them and what comes to it.",
            capitalised(word)
        ));
    }
    if !one_by_one {
        let ranks = match places.lines.first() {
            Some(line) if places.shown == Shown::Shares => format!("{} {word}s", line.ranks.len()),
            _ => format!("a {word}"),
        };
        notes.push(format!(
            "A line stands for {ranks}; the height of a colour is the share of their time, blank is waiting."
        ));
    }
    if !arrows && !timeline.messages.is_empty() {
        notes.push("There are too many messages to draw an arrow each.".into());
    }
    if timeline.dropped > 0 {
        notes.push(format!("{} events are missing: there was no room for them.", timeline.dropped));
    }
    notes
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}
