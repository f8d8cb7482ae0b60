//! The launcher as the ranks see it: who died is known at once, whoever it was and however early.
//!
//! This test is a program of its own, without the usual test harness: forking wants a process with one thread, and
//! `role` below is what it does when it is started as a rank.

use castell_base::Rank;
use castell_host::process::Ended;
use castell_host::topology::Processors;
use castell_launch::bootstrap::{self, JOB_FD_VARIABLE};
use castell_launch::launch::{Launch, Outcome};
use castell_shm::job::{Death, Job, JobError, RankState};
use castell_shm::watch::Watch;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Set for processes that are ranks.
const ROLE: &str = "CASTELL_TEST_ROLE";

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        std::process::exit(as_a_rank(&role));
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let cases: [(&str, fn()); 9] = [
        ("forked_ranks_share_the_job", forked_ranks_share_the_job),
        ("a_death_is_seen_at_once", a_death_is_seen_at_once),
        ("ranks_that_never_join_are_known", ranks_that_never_join_are_known),
        ("panics_are_failures", panics_are_failures),
        ("threads_are_not_forked", threads_are_not_forked),
        ("reports_are_asked_for", reports_are_asked_for),
        ("programs_find_the_job", programs_find_the_job),
        ("a_second_program_for_a_rank_is_refused", a_second_program_for_a_rank_is_refused),
        ("a_program_behind_a_script_is_watched", a_program_behind_a_script_is_watched),
    ];
    for (name, case) in
        cases.iter().filter(|(name, _)| wanted.as_deref().is_none_or(|part| name.contains(part)))
    {
        case();
        println!("test {name} ... ok");
    }
    assert!(castell_host::process::children().is_empty(), "a child is left");
}

fn fork(ranks: u32, body: &dyn Fn(Rank, Job) -> i32) -> Outcome {
    let launch = Launch { grace: Duration::from_secs(20), ..Launch::new(ranks) };
    launch.fork(body).expect("the ranks start")
}

fn join(job: &Job, rank: Rank) {
    let (pid, start_time) = Watch::own_identity();
    job.join(rank, pid, start_time, &[]).expect("nobody has the rank");
}

/// Waits until the job shows `rank` in a state that `fits`; 0 for success.
fn expect_state(job: &Job, rank: Rank, fits: impl Fn(RankState) -> bool) -> i32 {
    let start = Instant::now();
    while !fits(job.control(rank).state()) {
        if start.elapsed() > Duration::from_secs(10) {
            eprintln!("rank {rank} is {:?}", job.control(rank).state());
            return 99;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    0
}

fn forked_ranks_share_the_job() {
    let outcome = fork(5, &|rank, job| {
        join(&job, rank);
        assert_eq!(job.ranks(), 5);
        let all = (0..5).map(|other| expect_state(&job, Rank(other), |state| state != RankState::Unborn));
        let result = all.sum();
        job.mark_finished(rank, &[]);
        result
    });
    assert_eq!(outcome.endings, [Ended::Exited(0); 5]);
    assert_eq!((outcome.exit_code(), outcome.first_failure), (0, None));
}

fn a_death_is_seen_at_once() {
    let outcome = fork(3, &|rank, job| {
        join(&job, rank);
        if rank == Rank(1) {
            // SAFETY: no arguments but a signal.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        expect_state(&job, Rank(1), |state| state == RankState::Dead(Death::Signaled(libc::SIGKILL)))
    });
    assert_eq!(outcome.endings, [Ended::Exited(0), Ended::Killed(libc::SIGKILL), Ended::Exited(0)]);
    assert_eq!((outcome.exit_code(), outcome.first_failure), (137, Some(Rank(1))));
}

fn ranks_that_never_join_are_known() {
    let outcome = fork(2, &|rank, job| match rank {
        Rank(0) => expect_state(&job, Rank(1), |state| state == RankState::Dead(Death::Exited(0))),
        _ => 0,
    });
    assert_eq!(outcome.exit_code(), 0);
}

fn panics_are_failures() {
    let outcome = fork(2, &|rank, _| if rank == Rank(1) { panic!("on purpose") } else { 0 });
    assert_eq!(outcome.endings, [Ended::Exited(0), Ended::Exited(101)]);
}

fn threads_are_not_forked() {
    let error = std::thread::scope(|scope| {
        scope
            .spawn(|| Launch::new(1).fork(&|_, _| 0).expect_err("two threads").to_string())
            .join()
            .expect("a thread")
    });
    assert!(error.contains("2 threads"), "{error}");
}

fn reports_are_asked_for() {
    let outcome = fork(2, &|rank, job| {
        join(&job, rank);
        if rank == Rank(1) {
            // SAFETY: integers; the parent is the supervisor.
            unsafe { libc::kill(libc::getppid(), libc::SIGUSR1) };
        }
        expect_state(&job, rank, |_| job.stall_requests() == 1)
    });
    assert_eq!(outcome.exit_code(), 0);
}

/// Starts this program as every rank, `before` being put in front of it.
fn launch_myself(launch: &Launch, before: &[&str], role: &str) -> Outcome {
    let mut words: Vec<OsString> = vec!["env".into(), format!("{ROLE}={role}").into()];
    words.extend(before.iter().map(OsString::from));
    words.push(std::env::current_exe().expect("this program").into());
    launch.program(&words[0], &words[1..]).expect("the ranks start")
}

/// What ranks that are programs do.
fn as_a_rank(role: &str) -> i32 {
    let membership =
        bootstrap::join(|_| -> Result<_, JobError> { panic!("the launcher made it") }).expect("a group");
    assert!(membership.is_supervised);
    let (rank, job) = (membership.rank, Job::attach(membership.segment).expect("a job"));
    join(&job, rank);
    match role {
        "meet" => {
            // Whoever is started from here does not hold the job's memory.
            let number = std::env::var(JOB_FD_VARIABLE).expect("set by the launcher");
            let test =
                std::process::Command::new("test").args(["-e", &format!("/proc/self/fd/{number}")]).status();
            assert!(!test.expect("test runs").success());
            assert_eq!(Processors::usable().cpus.len(), 1, "bound");
            (0..job.ranks())
                .map(|other| expect_state(&job, Rank(other), |state| state != RankState::Unborn))
                .sum()
        }
        "once" => 0,
        // Under a script that goes on: only this process ends.
        _ if rank == Rank(1) => {
            std::thread::sleep(Duration::from_millis(600));
            3
        }
        _ => expect_state(&job, Rank(1), |state| state == RankState::Dead(Death::Vanished)),
    }
}

fn programs_find_the_job() {
    let mut launch = Launch::new(3);
    launch.binding = format!("{}", Processors::usable().cpus[0]).parse().expect("a list");
    assert_eq!(launch_myself(&launch, &[], "meet").endings, [Ended::Exited(0); 3]);
}

fn a_second_program_for_a_rank_is_refused() {
    let script = "\"$0\" && ! \"$0\" 2>/dev/null";
    assert_eq!(launch_myself(&Launch::new(2), &["sh", "-c", script], "once").endings, [Ended::Exited(0); 2]);
}

fn a_program_behind_a_script_is_watched() {
    let launch = Launch { grace: Duration::from_secs(20), ..Launch::new(2) };
    let script = "\"$0\"; code=$?; if [ $CASTELL_RANK = 1 ]; then sleep 1; fi; exit $code";
    let outcome = launch_myself(&launch, &["sh", "-c", script], "script");
    assert_eq!(outcome.endings, [Ended::Exited(0), Ended::Exited(3)]);
}
