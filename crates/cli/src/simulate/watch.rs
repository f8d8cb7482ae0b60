//! A progress bar for runs that take long.

use castell_base::{Rank, Time};
use castell_goal::schedule::OpId;
use castell_sim::Source;
use castell_sim::instrument::Instrument;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Between two looks at the clock.
const OPERATIONS: u64 = 1 << 14;
/// Runs shorter than this show no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts finished operations, and shows a bar at the terminal once the run takes long.
pub struct Watch {
    total: u64,
    finished: u64,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Watch {
    /// Of so many runs of a program.
    pub fn new(source: Source<'_>, runs: u32) -> Watch {
        let operations: u64 = match source {
            Source::Program(program) => program.operations(),
            Source::Schedules(schedules) => schedules.iter().map(|schedule| schedule.len() as u64).sum(),
            Source::Set(set) => set.schedules().map(|(_, schedule)| schedule.len() as u64).sum(),
            Source::Pattern(pattern) => (0..pattern.ranks()).map(|rank| pattern.operations(Rank(rank))).sum(),
            Source::Compiled(schedules) => schedules.iter().map(|(_, schedule)| schedule.len() as u64).sum(),
        };
        let total = operations.saturating_mul(runs.into());
        Watch { total, finished: 0, started: Instant::now(), bar: None }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    #[cold]
    fn show(&mut self) {
        if self.bar.is_none() && self.started.elapsed() > PATIENCE {
            let style = "{bar:40} {percent}% of {human_len} operations, {eta} left";
            let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
            self.bar = Some(ProgressBar::new(self.total).with_style(style));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.finished);
        }
    }
}

impl Instrument for Watch {
    fn finished(&mut self, _: Rank, _: OpId, _: Time) {
        self.finished += 1;
        if self.finished.is_multiple_of(OPERATIONS) {
            self.show();
        }
    }
}
