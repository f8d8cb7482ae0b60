//! A progress bar for runs that take long.

use castell_base::{Rank, Time};
use castell_goal::schedule::OpId;
use castell_sim::Source;
use castell_sim::instrument::Instrument;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Between two looks at the clock.
const OPERATIONS: u64 = 1 << 14;
/// Runs shorter than this show no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts finished operations, and shows a bar at the terminal once the run takes long. Clones count together: one a
/// thread.
#[derive(Clone)]
pub struct Watch {
    /// What this one has not told the others yet.
    finished: u64,
    together: Arc<Together>,
}

struct Together {
    total: u64,
    finished: AtomicU64,
    started: Instant,
    bar: OnceLock<ProgressBar>,
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
        let (finished, started, bar) = (AtomicU64::new(0), Instant::now(), OnceLock::new());
        Watch { finished: 0, together: Arc::new(Together { total, finished, started, bar }) }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.together.bar.get() {
            bar.finish_and_clear();
        }
    }

    #[cold]
    fn show(&mut self) {
        let together = &self.together;
        let told = std::mem::take(&mut self.finished);
        let finished = told + together.finished.fetch_add(told, Ordering::Relaxed);
        if together.started.elapsed() > PATIENCE {
            let bar = together.bar.get_or_init(|| {
                let style = "{bar:40} {percent}% of {human_len} operations, {eta} left";
                let style =
                    ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
                ProgressBar::new(together.total).with_style(style)
            });
            bar.set_position(finished);
        }
    }
}

impl Instrument for Watch {
    fn finished(&mut self, _: Rank, _: OpId, _: Time) {
        self.finished += 1;
        if self.finished == OPERATIONS {
            self.show();
        }
    }
}
