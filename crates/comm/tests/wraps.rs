//! Every protocol across the places where its counts begin again, or leave 32 bits; what they are stands in the engine's `age.rs`.

mod group;
mod protocols;

use castell_comm::job::JobOptions;
use group::{group_with, seed};
use protocols::{CASES, Random};
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs and calls of a job: more than the counts are put before the end.
const ROUNDS: u32 = 24;
const JOBS: u64 = 6;

#[test]
fn nothing_changes_where_counts_begin_again() {
    let seed = seed();
    for case in CASES.iter().filter(|case| !case.hides) {
        for number in 0..JOBS {
            let mut random = Random::seed_from_u64(seed + number);
            let job: JobOptions = (case.job)(&mut random);
            let rounds = AtomicU32::new(0);
            group_with(&job, |comm| {
                let mut random = random.clone();
                comm.grow_old(random.random_range(0..ROUNDS / 2));
                comm.job().gate(1);
                for round in 0..ROUNDS {
                    if let Err(wrong) = (case.body)(comm, &mut random) {
                        panic!("{}, CASTELL_TEST_SEED={}, round {round}: {wrong}", case.name, seed + number);
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert_eq!(rounds.into_inner(), job.ranks * ROUNDS);
        }
    }
}
