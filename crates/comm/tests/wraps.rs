//! Every protocol across the places where its counts begin again, or leave 32 bits; what they are stands in the engine's `age.rs`.
//!
//! A program of its own, without the usual test harness: forking wants a process with one thread.

mod group;
mod protocols;

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::collective::Call;
use castell_comm::job::{Job, JobOptions, Net, OverTcp};
use castell_comm::launch::Launch;
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use castell_host::process::Ended;
use group::{group_with, lose_rights, place, seed, start};
use protocols::{CASES, Random};
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Runs and calls of a job: more than the counts are put before the end.
const ROUNDS: u32 = 24;
const JOBS: u64 = 6;

/// The first message each way goes in more pieces than this one.
const PIECES: u32 = 14;
const PIECES_BYTES: usize = 100_000;

/// How many runs, and as many calls, before the counts begin again.
const AHEAD: u32 = 3;

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let tests: [(&str, fn()); 3] = [
        ("each_fragment_may_be_the_last_before_counts_begin_again", each_fragment_may_be_the_last),
        (
            "each_run_and_call_ahead_may_be_the_last_before_counts_begin_again",
            each_run_and_call_may_be_the_last,
        ),
        ("nothing_changes_where_counts_begin_again", nothing_changes_where_counts_begin_again),
    ];
    for (name, test) in tests {
        if wanted.as_deref().is_none_or(|part| name.contains(part)) {
            test();
            println!("test {name} ... ok");
        }
    }
}

/// A large message each way, between ranks that may not read each other, so that it goes as fragments: counts begin again at
/// its announcement, at any of its pieces, and behind it.
fn each_fragment_may_be_the_last() {
    for left in 0..PIECES + 2 {
        let job = JobOptions { pipes: false, stall_ms: 10_000, ..JobOptions::new(2) };
        let launch = Launch { job, timeout: Some(Duration::from_secs(60)), ..Launch::new(2) };
        let body = |rank: Rank, job: Job| {
            lose_rights();
            let comm = Comm::join(job, rank);
            comm.grow_old(left);
            comm.job().gate(1);
            // What counts uses of descriptors goes on by one with each.
            for round in 0..3 {
                let value = |rank: Rank| move |at: usize| (at as u32 + rank.0 + round) as u8;
                let peer = Rank(1 - rank.0);
                let mut out: Vec<u8> = (0..PIECES_BYTES).map(value(rank)).collect();
                let mut into = vec![0; PIECES_BYTES];
                let mut graph = Graph::new();
                graph.send(place(&mut out), PIECES_BYTES as u64, peer, Tag(0)).expect("legal");
                graph.recv(place(&mut into), PIECES_BYTES as u64, Some(peer), Some(Tag(0))).expect("legal");
                let before = comm.counters().messages;
                start(&comm, &graph).wait().expect("nobody fails");
                if !into.iter().copied().eq((0..PIECES_BYTES).map(value(peer))) {
                    eprintln!("rank {rank}: wrong bytes in round {round}");
                    return 99;
                }
                assert_eq!(comm.counters().messages - before, 1);
            }
            comm.finalize();
            0
        };
        let outcome = launch.fork(&body).expect("the ranks start");
        let is_fine = outcome.endings.iter().all(|ended| *ended == Ended::Exited(0)) && !outcome.timed_out;
        assert!(is_fine, "{left} before the end: {outcome:?}");
    }
}

/// Runs and calls in turns over a network, where both are told apart by the numbers of their messages only. One rank is ahead with
/// all of them before the other one begins, so that nothing but its number says what a message is for.
fn each_run_and_call_may_be_the_last() {
    for left in 0..AHEAD {
        let net = Net::Tcp(OverTcp::default());
        let job = JobOptions { net, stall_ms: 10_000, ..JobOptions::new(2) };
        let launch = Launch { job, timeout: Some(Duration::from_secs(60)), ..Launch::new(2) };
        let body = |rank: Rank, job: Job| {
            let comm = Comm::join(job, rank);
            comm.grow_old(left);
            comm.job().gate(1);
            let world = comm.world();
            assert_eq!(comm.next_call(0), u64::from(u32::MAX - left), "the world is as old as all else");
            let begin = || comm.job().gate(2);
            if rank == Rank(1) {
                begin();
            }
            for round in 0..2 * AHEAD as u64 {
                let sent = |place: u64| if rank == Rank(0) { 10 * round + place } else { u64::MAX };
                let (mut message, mut told) = ([sent(0)], [sent(1)]);
                let mut graph = Graph::new();
                let at = Place::user(message.as_mut_ptr() as u64);
                match rank {
                    Rank(0) => graph.send(at, 8, Rank(1), Tag(0)),
                    _ => graph.recv(at, 8, Some(Rank(0)), Some(Tag(0))),
                }
                .expect("legal");
                start(&comm, &graph).wait().expect("nobody fails");
                world.call(Call::broadcast(&mut told, Rank(0))).expect("nobody fails");
                assert_eq!([message[0], told[0]], [10 * round, 10 * round + 1], "{left} left, round {round}");
            }
            if rank == Rank(0) {
                begin();
            }
            comm.finalize();
            0
        };
        let outcome = launch.fork(&body).expect("the ranks start");
        let is_fine = outcome.endings.iter().all(|ended| *ended == Ended::Exited(0)) && !outcome.timed_out;
        assert!(is_fine, "{left} before the end: {outcome:?}");
    }
}

fn nothing_changes_where_counts_begin_again() {
    let seed = seed();
    // Whoever hides is a process: see above. What frames count has a test of theirs.
    for case in CASES.iter().filter(|case| !case.hides && !case.in_namespaces) {
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
