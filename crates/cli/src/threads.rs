//! Threads for simulations.

use castell_sim::{Job, Threads};
use std::num::NonZero;

/// So many threads, started for each round of jobs.
#[derive(Clone, Copy, Debug)]
pub struct Lent(pub usize);

impl Lent {
    /// As many as asked for; one a processor if nothing is asked for.
    pub fn new(asked: Option<u32>) -> Lent {
        let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
        Lent(asked.map_or_else(processors, |asked| asked as usize))
    }
}

impl Threads for Lent {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, jobs: Vec<Job<'_>>) {
        std::thread::scope(|scope| {
            let mut jobs = jobs.into_iter();
            let own = jobs.next();
            // A panic in one of them goes on at the end of the scope.
            jobs.for_each(|job| drop(scope.spawn(job)));
            own.into_iter().for_each(|job| job());
        });
    }
}
