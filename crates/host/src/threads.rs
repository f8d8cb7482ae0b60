//! Threads to lend to rooms that start none.

use castell_base::{Job, Threads};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::sync::OnceLock;

/// So many threads, with the one that asks. The others start with the first jobs and wait for more afterwards, first awake and
/// then asleep: a simulation has jobs for them some thousand times a second.
pub struct Lent {
    count: usize,
    others: OnceLock<Option<ThreadPool>>,
}

impl Lent {
    /// As many as asked for; one a processor if nothing is asked for.
    pub fn new(asked: Option<u32>) -> Lent {
        let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
        Lent::of(asked.map_or_else(processors, |asked| asked as usize))
    }

    /// So many.
    pub fn of(count: usize) -> Lent {
        Lent { count, others: OnceLock::new() }
    }

    /// Where the system gives no threads, the one that asks does everything.
    fn others(&self) -> Option<&ThreadPool> {
        let start = || ThreadPoolBuilder::new().num_threads(self.count - 1).build().ok();
        if self.count > 1 { self.others.get_or_init(start).as_ref() } else { None }
    }
}

impl Threads for Lent {
    fn count(&self) -> usize {
        self.count
    }

    fn run(&self, jobs: Vec<Job<'_>>) {
        let mut jobs = jobs.into_iter();
        let own = jobs.next();
        match self.others() {
            Some(others) => others.in_place_scope(|scope| {
                jobs.for_each(|job| scope.spawn(move |_| job()));
                own.into_iter().for_each(|job| job());
            }),
            None => own.into_iter().chain(jobs).for_each(|job| job()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_job_runs_once_round_after_round() {
        for count in [1, 2, 5] {
            let (lent, ran) = (Lent::of(count), AtomicUsize::new(0));
            for round in 1..100 {
                let count_it = || {
                    ran.fetch_add(1, Ordering::Relaxed);
                };
                lent.run((0..count).map(|_| Box::new(count_it) as Job<'_>).collect());
                assert_eq!(ran.load(Ordering::Relaxed), round * count);
            }
        }
    }
}
