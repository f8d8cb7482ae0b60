//! Shared memory keeps the rules of transports, also with faults around it.

#![cfg(not(loom))]

use castell_base::Rank;
use castell_shm::Shm;
use castell_shm::job::{Death, Job, JobOptions};
use castell_transport::Down;
use castell_transport::conformance::{Group, check};
use castell_transport::faults::{Faults, Faulty, Profile};
use std::sync::Arc;

struct Ranks {
    job: Arc<Job>,
    ends: Vec<Faulty<Shm>>,
}

impl Ranks {
    fn new(options: &JobOptions, faults: &Faults) -> Ranks {
        let job = Arc::new(Job::create(options).expect("a small job"));
        let join = |rank| {
            job.join(Rank(rank), 1000 + rank, 0, &[]).expect("nobody has it");
            // SAFETY: one end a rank of a job of this test's own, all in one thread.
            faults.wrap(Rank(rank), unsafe { Shm::attach(Arc::clone(&job), Rank(rank)) })
        };
        let ends = (0..options.ranks).map(join).collect();
        Ranks { job, ends }
    }
}

impl Group for Ranks {
    type Transport = Faulty<Shm>;

    fn transport(&mut self, rank: Rank) -> &mut Faulty<Shm> {
        &mut self.ends[rank.index()]
    }

    fn end(&mut self, rank: Rank, why: Down) -> bool {
        let others: Vec<Rank> = (0..self.job.ranks()).map(Rank).filter(|other| *other != rank).collect();
        match why {
            Down::Died => self.job.mark_dead(rank, Death::Signaled(9)),
            Down::Left => self.job.mark_finished(rank, &others),
            Down::PathLost => return false,
        }
        true
    }
}

fn options(rings: bool) -> impl Fn(u32) -> JobOptions {
    move |ranks| JobOptions { rings, queue_slots: 256, ..JobOptions::new(ranks) }
}

#[test]
fn shared_memory_keeps_the_rules() {
    for rings in [true, false] {
        let options = options(rings);
        check(u64::from(rings), |ranks| Ranks::new(&options(ranks), &Faults::new(0, Profile::default())))
            .unwrap_or_else(|broken| panic!("rings: {rings}: {broken}"));
    }
}

#[test]
fn shared_memory_keeps_the_rules_when_it_is_slow_and_full() {
    for seed in 0..3 {
        let options = options(true);
        check(seed, |ranks| Ranks::new(&options(ranks), &Faults::new(seed, Profile::ROUGH)))
            .unwrap_or_else(|broken| panic!("{broken}"));
    }
}
