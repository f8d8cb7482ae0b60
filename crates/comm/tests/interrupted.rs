//! Every protocol between ranks that stand still at random places, for long enough that the others can do anything meanwhile:
//! what arrives is right, ranks that leave right after their last step leave nobody waiting, and of ranks that die the others
//! hear.
//!
//! A program of its own, without the usual test harness: forking wants a process with one thread.

mod group;
#[path = "../../frames/tests/hosts/mod.rs"]
mod hosts;
mod interrupt;
mod protocols;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::Rank;
use castell_comm::job::JobOptions;
use castell_comm::launch::Launch;
use castell_comm::{Comm, Job};
use castell_host::process::Ended;
use group::{lose_rights, seed};
use hosts::Hosts;
use protocols::{CASES, Case, HOSTS_MAX, Random};
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long each case goes on making jobs, unless `CASTELL_TEST_SECONDS` says something else for all of them.
const CASE: Duration = Duration::from_millis(700);

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let asked = std::env::var("CASTELL_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let patience = asked.map_or(CASE, Duration::from_secs);
    let (seed, count) = (seed(), interrupt::shared_count());
    let cases = CASES.iter().flat_map(|case| [(case, false), (case, true)]);
    let mut passed = 0;
    for (case, dies) in cases {
        let name = format!("{}{}", case.name, if dies { "_with_a_death" } else { "_and_departures" });
        if wanted.as_deref().is_some_and(|part| !name.contains(part)) {
            continue;
        }
        // It runs this program once more for the case, in a namespace.
        if case.in_namespaces && !hosts::is_inside(&name, &["--map-root-user", "--net"]) {
            continue;
        }
        let hosts = case.in_namespaces.then(|| Hosts::new(HOSTS_MAX as usize, 1500, true));
        let (begin, before) = (Instant::now(), count.load(Ordering::Relaxed));
        let mut jobs = 0;
        while jobs == 0 || begin.elapsed() < patience {
            one_job(case, dies, hosts.as_ref(), seed + jobs, count);
            jobs += 1;
        }
        let interrupts = count.load(Ordering::Relaxed) - before;
        assert!(interrupts > 0, "nobody was interrupted");
        println!("test {name} ... ok ({jobs} jobs, {interrupts} interrupts)");
        passed += 1;
    }
    println!("{passed} passed");
    assert!(castell_host::process::children().is_empty(), "a child is left");
}

/// Starts a job and looks how its ranks end.
fn one_job(case: &Case, dies: bool, hosts: Option<&Hosts>, seed: u64, count: &'static AtomicU64) {
    let mut random = Random::seed_from_u64(seed);
    let job = JobOptions { stall_ms: 10_000, ..(case.job)(&mut random) };
    let launch = Launch {
        job: job.clone(),
        timeout: Some(Duration::from_secs(60)),
        grace: Duration::from_secs(30),
        ..Launch::new(job.ranks)
    };
    let victim = dies.then(|| Rank(random.random_range(0..job.ranks)));
    let as_rank = |rank: Rank, job: Job| {
        if case.hides {
            lose_rights();
        }
        let kills = (Some(rank) == victim).then_some(100);
        interrupt::begin(seed ^ u64::from(rank.0) << 32, count, kills);
        let mut random = random.clone();
        let comm = Comm::join(job, rank);
        if random.random_bool(0.3) {
            comm.grow_old(random.random_range(0..8));
            comm.job().gate(1);
        }
        let rounds = random.random_range(1..8);
        let outcome = (0..rounds).try_for_each(|_| (case.body)(&comm, &mut random));
        comm.finalize();
        if let Err(wrong) = &outcome
            && !victim.is_some_and(|victim| is_due_to(wrong, victim))
        {
            eprintln!("rank {rank}: {wrong}");
            return 99;
        }
        0
    };
    let host_of = |rank: Rank| job.hosts[rank.index()] as usize;
    let body = |rank: Rank, job: Job| match hosts {
        Some(hosts) => hosts.on(host_of(rank), || as_rank(rank, job)),
        None => as_rank(rank, job),
    };
    let outcome = launch.fork(&body).expect("the ranks start");
    let is_fine = |(rank, ended): (usize, &Ended)| match ended {
        Ended::Killed(libc::SIGKILL) => victim.is_some_and(|victim| victim.index() == rank),
        ended => *ended == Ended::Exited(0),
    };
    let all_fine = outcome.endings.iter().enumerate().all(is_fine) && !outcome.timed_out;
    assert!(all_fine, "{} with CASTELL_TEST_SEED={seed}: {outcome:?}", case.name);
}

/// Whether a failure is one that the victim's death explains: it is named, or somebody who had heard of it before failed or left.
fn is_due_to(wrong: &str, victim: Rank) -> bool {
    let reasons = [format!("rank {victim}"), "left the job".into(), "the run of rank".into()];
    !wrong.contains("wrong bytes") && reasons.iter().any(|reason| wrong.contains(reason))
}
