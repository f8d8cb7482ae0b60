//! A progress bar for runs that take long.

use castell_base::{Rank, Time};
use castell_collectives::pattern::Pattern;
use castell_goal::schedule::OpId;
use castell_sim::Source;
use castell_sim::instrument::Instrument;
use indicatif::ProgressBar;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Between two looks at the clock: an operation may take half a millisecond, where many messages wait for their receives.
const OPERATIONS: u64 = 1 << 10;
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
    /// Somebody else shows how far all is.
    is_hidden: bool,
}

impl Watch {
    /// Of so many runs of a program; none is shown where they are a part of more.
    pub fn new(source: Source<'_>, runs: u32, is_hidden: bool) -> Watch {
        let total = operations_of(source).saturating_mul(runs.into());
        let (finished, started, bar) = (AtomicU64::new(0), Instant::now(), OnceLock::new());
        Watch { finished: 0, together: Arc::new(Together { total, finished, started, bar, is_hidden }) }
    }

    /// For a run on a fast engine: is told how many of its operations are finished.
    pub fn teller(&self) -> impl Fn(u64) + use<> {
        let (watch, known) = (self.clone(), Cell::new(0));
        move |finished| {
            // A run that another engine begins anew goes back.
            let more = finished.wrapping_sub(known.replace(finished));
            let before = watch.together.finished.fetch_add(more, Ordering::Relaxed);
            watch.together.show(before.wrapping_add(more));
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.together.bar.get() {
            bar.finish_and_clear();
        }
    }

    #[cold]
    fn show(&mut self) {
        let told = std::mem::take(&mut self.finished);
        let before = self.together.finished.fetch_add(told, Ordering::Relaxed);
        self.together.show(before + told);
    }
}

impl Together {
    fn show(&self, finished: u64) {
        if !self.is_hidden && self.started.elapsed() > PATIENCE {
            let bar = self.bar.get_or_init(|| {
                let style = castell_bench::bar::style("{bar:40} {percent}% of {human_len} operations");
                let bar = ProgressBar::new(self.total).with_style(style).with_elapsed(self.started.elapsed());
                // Also where no operation ends for long.
                bar.enable_steady_tick(Duration::from_secs(1));
                bar
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

/// How many operations there are, about.
pub fn operations_of(source: Source<'_>) -> u64 {
    match source {
        Source::Program(program) => program.operations(),
        Source::Schedules(schedules) => schedules.iter().map(|schedule| schedule.len() as u64).sum(),
        Source::Set(set) => set.schedules().map(|(_, schedule)| schedule.len() as u64).sum(),
        Source::Pattern(pattern) => operations(pattern),
        Source::Compiled(schedules) => schedules.iter().map(|(_, schedule)| schedule.len() as u64).sum(),
    }
}

/// How many operations a pattern has, about: for some patterns each rank's have to be made to be counted.
fn operations(pattern: &dyn Pattern) -> u64 {
    /// The length of a bar is not worth more: what the ranks up to then have is taken for all of them.
    const COUNTING: Duration = Duration::from_millis(20);
    let (began, ranks) = (Instant::now(), u64::from(pattern.ranks()));
    if pattern.rounds().is_some() {
        return pattern.operations(Rank(0)).saturating_mul(ranks);
    }
    let mut operations = 0u64;
    for rank in 0..pattern.ranks() {
        if rank % 256 == 255 && began.elapsed() > COUNTING {
            let each = operations as f64 / f64::from(rank);
            return (each * ranks as f64) as u64;
        }
        operations = operations.saturating_add(pattern.operations(Rank(rank)));
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_goal::program::Program;

    #[test]
    fn runs_count_together_and_one_may_begin_anew() {
        let program = Program::new(2);
        let watch = Watch::new(Source::from(&program), 2, true);
        let finished = || watch.together.finished.load(Ordering::Relaxed);
        let (first, second) = (watch.teller(), watch.teller());
        [(&first as &dyn Fn(u64), 10), (&second, 3), (&first, 0), (&first, 25)]
            .into_iter()
            .for_each(|(tell, operations)| tell(operations));
        assert_eq!(finished(), 28);
    }
}
