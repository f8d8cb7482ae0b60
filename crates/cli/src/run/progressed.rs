//! How far the rounds are, for who waits at a terminal.

use castell_base::Rank;
use castell_bench::bar::bar;
use indicatif::ProgressBar;
use std::time::{Duration, Instant};

/// Before this long there is nothing to see.
const PATIENCE: Duration = Duration::from_secs(1);

/// The first rank shows it, between rounds: the others wait for it then, and no time is taken.
pub struct Progressed {
    began: Instant,
    bar: Option<ProgressBar>,
}

impl Progressed {
    /// For a rank of a program that is executed so often.
    pub fn of(rank: Rank, rounds: usize) -> Progressed {
        let shows = rank == Rank(0) && rounds > 1;
        Progressed {
            began: Instant::now(),
            bar: shows.then(|| bar(rounds as u64).with_message("executions")),
        }
    }

    /// So many are done.
    pub fn show(&self, rounds: usize) {
        if let Some(bar) = self.bar.as_ref().filter(|_| self.began.elapsed() > PATIENCE) {
            bar.set_position(rounds as u64);
        }
    }
}

impl Drop for Progressed {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
