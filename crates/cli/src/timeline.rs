//! `--timeline FILE`: the ending of the name says what is written.

use crate::look::LookArgs;
use anyhow::Context;
use castell_base::Rank;
use castell_bench::bar::waiting;
use castell_trace::{Look, SvgOptions, Timeline};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The options of every command that draws timelines.
#[derive(clap::Args, Clone, Debug)]
pub struct TimelineArgs {
    /// Write when each operation started and finished: a drawing (.svg, .png, .pdf), a page to zoom into (.html), a trace for
    /// Perfetto and Chrome (.json) or for Paraver (.prv, with .pcf and .row beside it)
    #[arg(long, value_name = "FILE", group = "drawn", value_parser = file)]
    pub timeline: Option<TimelineFile>,
    /// Width of the drawing in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = WIDTH, requires = "timeline",
          value_parser = clap::value_parser!(u32).range(400..=10_000))]
    width: u32,
    /// Only what happened between two times, as 1.5ms..2ms
    #[arg(long, value_name = "FROM..TO", requires = "timeline", value_parser = part)]
    time: Option<Part>,
    /// Only these ranks, as 0..3,7: a page can show the others, too
    #[arg(long, value_name = "RANKS", requires = "timeline", value_parser = ranks)]
    only: Option<RankList>,
    /// A line of the drawing for each rank, up to 1,000 of them, also where many do the same
    #[arg(long, requires = "timeline")]
    every_rank: bool,
    #[command(flatten)]
    pub look: LookArgs,
}

/// A part of a timeline, picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    from_ps: u64,
    to_ps: u64,
}

fn part(text: &str) -> Result<Part, String> {
    let told = || format!("`{text}` is no part of a timeline: write two times such as 1.5ms..2ms");
    let (from, to) = text.split_once("..").ok_or_else(told)?;
    let time = |text: &str| text.parse::<castell_base::Time>().map(|time| time.0).map_err(|_| told());
    let (from_ps, to_ps) =
        (if from.is_empty() { 0 } else { time(from)? }, if to.is_empty() { u64::MAX } else { time(to)? });
    if from_ps >= to_ps {
        return Err(format!("`{text}`: the second time has to be the later one"));
    }
    Ok(Part { from_ps, to_ps })
}

/// Ranges of ranks, both ends included. In a type of its own: to the parser of arguments a list would be several values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RankList(Vec<(u32, u32)>);

fn ranks(text: &str) -> Result<RankList, String> {
    let told = || format!("`{text}` is no list of ranks: write as 0..3,7");
    let range = |part: &str| {
        let (first, last) = part.split_once("..").or_else(|| part.split_once('-')).unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| told());
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("`{part}`: the second rank has to be the larger one"));
        }
        Ok((first, last))
    };
    Ok(RankList(text.split(',').map(range).collect::<Result<_, _>>()?))
}

impl RankList {
    /// Those that there are.
    fn of(&self, ranks: u32) -> Vec<Rank> {
        let among = |rank: &u32| self.0.iter().any(|(first, last)| (first..=last).contains(&rank));
        (0..ranks).filter(among).map(Rank).collect()
    }
}

/// A file whose name says which of the formats it gets.
#[derive(Clone, Debug)]
pub struct TimelineFile {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Drawing,
    Html,
    Chrome,
    Paraver,
}

/// Reads the name of such a file.
pub fn file(name: &str) -> Result<TimelineFile, String> {
    let path = PathBuf::from(name);
    let format = match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg" | "png" | "pdf") => Format::Drawing,
        Some("html") => Format::Html,
        Some("json") => Format::Chrome,
        Some("prv") => Format::Paraver,
        _ => {
            return Err(
                "the ending of the name tells the format: .svg, .png, .pdf, .html, .json (Perfetto) or .prv (Paraver)"
                    .into(),
            );
        }
    };
    Ok(TimelineFile { path, format })
}

/// Pixels.
const WIDTH: u32 = 1200;

impl TimelineArgs {
    /// Of commands whose timelines are drawn whole.
    pub fn whole(timeline: Option<TimelineFile>, look: LookArgs) -> TimelineArgs {
        TimelineArgs { timeline, width: WIDTH, time: None, only: None, every_rank: false, look }
    }

    /// Whether the timeline can be written, to be asked before a long run.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self) -> anyhow::Result<()> {
        self.timeline.as_ref().map_or(Ok(()), |timeline| crate::output::check(&timeline.path))
    }

    /// The file for Perfetto, if it is to be one: there are others who write these.
    pub fn chrome(&self) -> Option<&Path> {
        self.timeline.as_ref().filter(|file| matches!(file.format, Format::Chrome)).map(|file| &*file.path)
    }

    /// The file, whatever its format.
    pub fn path(&self) -> Option<&Path> {
        self.timeline.as_ref().map(|file| &*file.path)
    }

    /// Whether a file has one timeline only, as pages and traces do; drawings have several beneath each other.
    pub fn has_one(&self) -> bool {
        self.timeline.as_ref().is_some_and(|file| !matches!(file.format, Format::Drawing))
    }

    /// Whether there is room to say in which line of a program's text an operation stands.
    pub fn tells_lines(&self) -> bool {
        self.timeline.as_ref().is_some_and(|file| matches!(file.format, Format::Html))
    }

    /// With the title, if it is to have that, and of the time that was asked for.
    fn as_wanted(&self, mut timeline: Timeline, is_titled: bool) -> Timeline {
        if let Some(title) = self.look.look().title.filter(|_| is_titled) {
            timeline.title = title;
        }
        if let Some(Part { from_ps, to_ps }) = self.time {
            let (all_ps, until_ps) = (timeline.end_ps(), to_ps.min(timeline.end_ps()));
            let ms = |ps: u64| ps as f64 * 1e-9;
            let told = format!("{:.6} to {:.6} of {:.6} ms", ms(from_ps), ms(until_ps), ms(all_ps));
            let comma = if timeline.subtitle.is_empty() { "" } else { "; " };
            timeline.subtitle.push_str(comma);
            timeline.subtitle.push_str(&told);
            timeline = timeline.between(from_ps, to_ps);
        }
        if let Some(only) = &self.only {
            let only = only.of(timeline.ranks);
            // What was recorded is not lost for it.
            if only.is_empty() {
                let rows = timeline.rows.name();
                castell_host::say(&format!(
                    "warning: --only names no {rows} of the {}: all are shown",
                    timeline.ranks
                ));
            } else {
                timeline.only = Some(only);
            }
        }
        timeline
    }

    /// Writes the timeline where one was asked for, and returns a line that says so.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn write(&self, timeline: Timeline) -> anyhow::Result<Option<String>> {
        self.write_beside(vec![timeline])
    }

    /// As [`write`](Self::write); a drawing has the others beneath the first one, on the same axis.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn write_beside(&self, timelines: Vec<Timeline>) -> anyhow::Result<Option<String>> {
        let Some(TimelineFile { path, format }) = &self.timeline else { return Ok(None) };
        let mut timelines: Vec<Timeline> =
            timelines.into_iter().enumerate().map(|(at, one)| self.as_wanted(one, at == 0)).collect();
        let _line = waiting(format!("writing {}", path.display()));
        let Look { theme, font, .. } = self.look.look();
        if let Format::Drawing = format {
            let every_rank = self.every_rank;
            let options = SvgOptions { theme, width: self.width, font, every_rank, until_ps: 0 };
            let mut svg = Vec::new();
            match &timelines[..] {
                [timeline] => castell_trace::write_svg(timeline, &options, &mut svg)?,
                several => castell_trace::write_svg_beside(several, &options, &mut svg)?,
            }
            crate::picture::write(path, svg)?;
            let is_svg = path.extension().is_some_and(|ending| ending == "svg");
            let viewer = if is_svg { " (open it in a browser)" } else { "" };
            return Ok(Some(format!("timeline: {}{viewer}", path.display())));
        }
        if timelines.is_empty() {
            return Ok(None);
        }
        let (timeline, mut out) = (timelines.swap_remove(0), create(path)?);
        let (written, viewer) = match format {
            Format::Drawing => unreachable!("is written"),
            Format::Html => (castell_trace::write_html(&timeline, &mut out), "a browser"),
            Format::Chrome => (
                castell_trace::write_chrome(&timeline.seen(), &mut out),
                "ui.perfetto.dev or chrome://tracing",
            ),
            Format::Paraver => {
                let [mut pcf, mut row] =
                    [create(&path.with_extension("pcf"))?, create(&path.with_extension("row"))?];
                let written = castell_trace::write_paraver(&timeline.seen(), &mut out, &mut pcf, &mut row);
                (written.and_then(|()| pcf.flush()).and_then(|()| row.flush()), "Paraver")
            }
        };
        written.and_then(|()| out.flush()).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Some(format!("timeline: {} (open it in {viewer})", path.display())))
    }
}

fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_as_people_write_them() {
        let of = |text: &str, count| {
            ranks(text).map(|list| list.of(count).iter().map(|rank| rank.0).collect::<Vec<_>>())
        };
        assert_eq!(of("0..2,7", 100), Ok(vec![0, 1, 2, 7]));
        assert_eq!(of("7, 1-2,2", 100), Ok(vec![1, 2, 7]));
        assert_eq!(of("6..900", 8), Ok(vec![6, 7]));
        assert_eq!(of("9", 8), Ok(vec![]));
        for wrong in ["", "a", "3..1", "1..", "-1"] {
            assert!(ranks(wrong).is_err(), "{wrong}");
        }
    }
}
