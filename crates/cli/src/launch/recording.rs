//! What the ranks of a program noted, put together after its end: drawn, simulated, written as a program.

use super::Args;
use crate::predicted::Predicted;
use crate::{clocks, output};
use anyhow::Context;
use castell_base::Rank;
use castell_comm::describe_call;
use castell_comm::hosts::Recorded;
use castell_goal::text;
use castell_host::journal::Noted;
use castell_model::Model;
use castell_sim::recorded;
use castell_sim::{Schedules, Source};
use castell_trace::Timeline;
use castell_trace::joined::{Joined, Notes, Reading};
use castell_trace::journal::Event;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What the ranks noted.
pub struct Recording {
    pub noted: Vec<Noted>,
    /// Where they were on hosts with clocks of their own.
    pub clocks: Option<Recorded>,
}

impl Recording {
    /// After the end: writes what was asked for.
    ///
    /// # Errors
    /// A file cannot be written, or what was recorded cannot be simulated.
    pub fn write(mut self, args: &Args, eager_bytes: u32) -> anyhow::Result<()> {
        if let Some(clocks) = &self.clocks {
            clocks::say(clocks, args.verbose);
        }
        let notes = self.notes();
        let reading = Reading { describe: &describe_call, eager_bytes: eager_bytes.into() };
        let joined = Joined::of(&notes, &reading);
        let subtitle = clocks::carried(args.net, self.clocks.as_ref());
        let measured = Timeline { title: title(&args.program), subtitle, ..joined.timeline() };
        if measured.spans.is_empty() {
            castell_host::say(
                "no timeline: no process of the program has joined the group (is it linked with castell?)",
            );
            return Ok(());
        }
        if measured.dropped > 0 {
            castell_host::say(&format!(
                "the timeline lacks {} events that found no room (--timeline-events N makes more)",
                measured.dropped
            ));
        }
        let predicted = simulated(args, &joined, &measured)?;
        if let Some(line) = args.timeline.write_beside([measured].into_iter().chain(predicted).collect())? {
            castell_host::say(&line);
        }
        Ok(())
    }

    /// On one clock.
    fn notes(&mut self) -> Vec<Notes> {
        let notes = (0..).map(Rank).zip(std::mem::take(&mut self.noted)).map(|(rank, noted)| {
            let here = |event: Event| match &self.clocks {
                None => event,
                Some(clocks) => event.with_times(|theirs_ns| clocks.to_own(rank, theirs_ns)),
            };
            let events = noted.rows.into_iter().filter_map(Event::of_row).map(here).collect();
            Notes { events, names: noted.names, dropped: noted.dropped }
        });
        notes.collect()
    }
}

/// What a model says of it, and the program that it is, where these are wanted.
fn simulated(args: &Args, joined: &Joined<'_>, measured: &Timeline) -> anyhow::Result<Option<Timeline>> {
    if args.model.is_none() && args.goal.is_none() {
        return Ok(None);
    }
    let recorded::Recorded { program, left_out } = recorded::program(joined).map_err(|(rank, error)| {
        anyhow::anyhow!("what rank {rank} did cannot be written as a program: {error}")
    })?;
    if left_out > 0 {
        castell_host::say(&format!(
            "warning: {left_out} sends and receives are in no simulation: the other side noted none"
        ));
    }
    if let Some(path) = &args.goal {
        let mut text = String::new();
        text::print(&program, &mut text)?;
        output::write(path, text.into_bytes())?;
        castell_host::say(&format!("program: {} (`castell simulate` it)", path.display()));
    }
    let predict = |model: &Model| -> anyhow::Result<Timeline> {
        let schedules = Schedules::new(Source::Program(&program))?;
        let predicted = Predicted::new(&schedules, model, measured)?;
        predicted.lines().iter().for_each(|line| castell_host::say(line));
        Ok(predicted.timeline)
    };
    args.model.as_ref().map(|model| predict(model).context("--model")).transpose()
}

/// The program's name, without its folder, and its arguments.
fn title(words: &[OsString]) -> String {
    let program = Path::new(&words[0]).file_name().unwrap_or(&words[0]);
    let words = std::iter::once(program).chain(words[1..].iter().map(OsString::as_os_str));
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
