//! Ranks that die, at every bad moment: whoever waits for them gets an error that names them, the others go on.
//!
//! A program of its own, without the usual test harness: forking wants a process with one thread.

mod group;
mod open_runs;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::{Rank, Tag};
use castell_comm::collective::{Call, CallError, Reduction};
use castell_comm::job::{Death, JobOptions, Net, OverTcp, Progress, RankState, Reads};
use castell_comm::launch::{Launch, Outcome};
use castell_comm::{Cause, Comm, Handle, Job};
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use castell_host::process::Ended;
use group::{lose_rights, place, start, start_open};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Body<'a> = dyn Fn(&Comm) -> Result<(), String> + 'a;

/// Set for processes that another launcher starts as ranks.
const ROLE: &str = "CASTELL_TEST_ROLE";

/// Who carries runs on in this round of the cases.
static PROGRESS: AtomicUsize = AtomicUsize::new(0);

fn main() {
    if std::env::var_os(ROLE).is_some() {
        std::process::exit(as_unwatched_rank());
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let cases: [(&str, fn()); 30] = [
        ("a_receive_from_the_dead_fails", a_receive_from_the_dead_fails),
        ("a_receive_from_any_source_fails", a_receive_from_any_source_fails),
        ("large_messages_break_off", large_messages_break_off),
        ("failures_travel_along_dependences", failures_travel_along_dependences),
        ("failed_open_runs_take_their_messages_along", open_runs::messages_that_are_not_sent),
        ("failed_open_runs_take_large_sends_along", open_runs::large_messages_that_are_not_taken),
        ("failed_open_runs_keep_the_order", open_runs::later_messages_meet_later_receives),
        ("failed_open_runs_past_the_budget", open_runs::messages_that_were_kept),
        ("failed_open_runs_with_full_queues", open_runs::many_messages_that_are_not_sent),
        ("failed_open_runs_in_the_middle_of_messages", open_runs::messages_in_their_middle),
        ("failed_open_runs_of_one_rank", open_runs::messages_to_itself),
        ("whoever_never_joined_is_dead_too", whoever_never_joined_is_dead_too),
        ("a_full_queue_of_a_dead_rank", a_full_queue_of_a_dead_rank),
        ("what_the_dead_had_sent_arrives", what_the_dead_had_sent_arrives),
        ("killed_while_it_sends", killed_while_it_sends),
        ("leaving_early_is_named", leaving_early_is_named),
        ("killed_over_tcp", killed_over_tcp),
        ("exiting_early_is_named", exiting_early_is_named),
        ("nobody_has_to_wait_for_the_error", nobody_has_to_wait_for_the_error),
        ("gets_from_the_dead_fail", gets_from_the_dead_fail),
        ("runs_started_after_a_death_fail", runs_started_after_a_death_fail),
        ("ranks_of_other_launchers_watch_each_other", ranks_of_other_launchers_watch_each_other),
        ("calls_with_the_dead_fail", calls_with_the_dead_fail),
        ("killed_while_its_memory_is_read", killed_while_its_memory_is_read),
        ("killed_while_its_buffers_are_read", killed_while_its_buffers_are_read),
        ("killed_while_sums_are_made", killed_while_sums_are_made),
        ("killed_while_multicasts_are_read", killed_while_multicasts_are_read),
        ("killed_while_calls_are_under_way", killed_while_calls_are_under_way),
        ("whose_memory_is_forbidden_is_asked_otherwise", whose_memory_is_forbidden_is_asked_otherwise),
        ("nothing_is_left", nothing_is_left),
    ];
    for (name, case) in
        cases.iter().filter(|(name, _)| wanted.as_deref().is_none_or(|part| name.contains(part)))
    {
        for progress in [Progress::Thread, Progress::Peers] {
            PROGRESS.store(progress as usize, Ordering::Relaxed);
            let start = Instant::now();
            case();
            println!("test {name} ({}) ... ok ({} ms)", progress.name(), start.elapsed().as_millis());
        }
    }
    assert!(castell_host::process::children().is_empty(), "a child is left");
}

/// Runs `body` in every rank; it says what is wrong.
fn ranks_with(job: JobOptions, body: &Body<'_>) -> Outcome {
    let ranks = job.ranks;
    let job = JobOptions { progress: Progress::ALL[PROGRESS.load(Ordering::Relaxed)], ..job };
    let launch = Launch { job, grace: Duration::from_secs(20), ..Launch::new(ranks) };
    let as_rank = |rank: Rank, job: Job| {
        let comm = Comm::join(job, rank);
        // Otherwise a death could come before somebody is there to see it.
        comm.job().gate(1);
        let outcome = body(&comm);
        comm.finalize();
        outcome.map_or_else(
            |wrong| {
                eprintln!("rank {rank}: {wrong}");
                99
            },
            |()| 0,
        )
    };
    launch.fork(&as_rank).expect("the ranks start")
}

fn ranks(ranks: u32, body: &Body<'_>) -> Outcome {
    ranks_with(JobOptions::new(ranks), body)
}

/// All but `dead` ended well, and it was killed.
fn expect_one_dead(outcome: &Outcome, dead: usize) {
    for (rank, ended) in outcome.endings.iter().enumerate() {
        let expected = if rank == dead { Ended::Killed(libc::SIGKILL) } else { Ended::Exited(0) };
        assert_eq!(*ended, expected, "rank {rank}");
    }
}

fn die() -> ! {
    // SAFETY: no arguments but a signal.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("killed")
}

/// Waits for the end of a run and for the reason, which has to have these `parts`.
fn expect_failure(comm: &Comm, handle: &Handle, dead: Rank, parts: &[&str]) -> Result<Cause, String> {
    let Err(failure) = handle.wait() else { return Err("the run did not fail".into()) };
    let text = failure.to_string();
    let mut parts = parts.to_vec();
    let name = format!("rank {dead}");
    parts.push(&name);
    if let Some(missing) = parts.iter().find(|part| !text.contains(**part)) {
        return Err(format!("no `{missing}` in `{text}`"));
    }
    if failure.cause.culprit(comm.rank()) != dead {
        return Err(format!("the wrong one is blamed: {failure:?}"));
    }
    Ok(failure.cause)
}

/// The same once the rank is known to be dead: from then on nobody may have to ask for the error.
fn expect_failure_after_death(
    comm: &Comm,
    handle: &Handle,
    dead: Rank,
    parts: &[&str],
) -> Result<Cause, String> {
    let begin = Instant::now();
    while comm.job().control(dead).state() == RankState::Alive {
        std::thread::sleep(Duration::from_millis(1));
        if begin.elapsed() > Duration::from_secs(20) {
            return Err("nobody died".into());
        }
    }
    expect_failure(comm, handle, dead, parts)
}

/// One labelled receive of `bytes` bytes.
fn receive(bytes: u64, source: Option<Rank>, label: &str) -> Graph {
    let mut graph = Graph::new();
    let recv = graph.recv(Place::VOID, bytes, source, Some(Tag(7))).expect("legal");
    graph.set_label(recv, label).expect("a label");
    graph
}

/// Ranks 0 and 1 go on as ever.
fn ping_pong(comm: &Comm, bytes: usize) -> Result<(), String> {
    let (mut out, mut back) = (vec![comm.rank().0 as u8; bytes], vec![9_u8; bytes]);
    let peer = Rank(1 - comm.rank().0);
    for _ in 0..20 {
        let mut graph = Graph::new();
        graph.send(place(&mut out), bytes as u64, peer, Tag(1)).expect("legal");
        graph.recv(place(&mut back), bytes as u64, Some(peer), Some(Tag(1))).expect("legal");
        start(comm, &graph).wait().map_err(|failure| failure.to_string())?;
        if back.iter().any(|byte| *byte != peer.0 as u8) {
            return Err("wrong bytes".into());
        }
    }
    Ok(())
}

const DEATH: Cause = Cause::PeerDied { peer: Rank(2), death: Death::Signaled(libc::SIGKILL) };

fn expect_death(cause: &Cause) -> Result<(), String> {
    if *cause == DEATH { Ok(()) } else { Err(format!("{cause:?}")) }
}

fn a_receive_from_the_dead_fails() {
    let outcome = ranks(3, &|comm| {
        if comm.rank() == Rank(2) {
            std::thread::sleep(Duration::from_millis(30));
            die();
        }
        let handle = start(comm, &receive(8, Some(Rank(2)), "wanted"));
        // Runs of the living go on before, meanwhile and afterwards.
        ping_pong(comm, 8)?;
        let parts = ["`wanted: recv 8b from 2 tag 7`", "was killed by signal 9"];
        let cause = expect_failure_after_death(comm, &handle, Rank(2), &parts)?;
        expect_death(&cause)?;
        ping_pong(comm, 8)?;
        ping_pong(comm, 100_000)
    });
    expect_one_dead(&outcome, 2);
    assert_eq!((outcome.first_failure, outcome.exit_code()), (Some(Rank(2)), 137));
}

fn a_receive_from_any_source_fails() {
    let outcome = ranks(3, &|comm| {
        if comm.rank() == Rank(2) {
            std::thread::sleep(Duration::from_millis(30));
            die();
        }
        let handle = start_open(comm, &receive(8, None, "anything"));
        let cause =
            expect_failure_after_death(comm, &handle, Rank(2), &["`anything: recv 8b from any tag 7`"])?;
        expect_death(&cause)?;
        ping_pong(comm, 8)
    });
    expect_one_dead(&outcome, 2);
}

fn large_messages_break_off() {
    const BYTES: usize = 64 << 20;
    for round in 0..4_u64 {
        let outcome = ranks(3, &|comm| {
            let (mut out, mut back) = (vec![1_u8; BYTES], vec![0_u8; BYTES]);
            let peer = Rank(if comm.rank() == Rank(2) { 0 } else { 2 });
            let mut graph = Graph::new();
            let send = graph.send(place(&mut out), BYTES as u64, peer, Tag(1)).expect("legal");
            let recv = graph.recv(place(&mut back), BYTES as u64, Some(peer), Some(Tag(1))).expect("legal");
            graph.set_label(send, "there").expect("a label");
            graph.set_label(recv, "back").expect("a label");
            let handle = match comm.rank() {
                Rank(1) => return Ok(()),
                _ => start(comm, &graph),
            };
            if comm.rank() == Rank(2) {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(200 + 3000 * round));
                    die();
                });
                // Both ends have to be at work for the transfer to be under way; it may even be over.
                let _ = handle.wait();
                std::thread::sleep(Duration::from_secs(5));
            }
            match expect_failure_after_death(comm, &handle, Rank(2), &["67108864b"]) {
                Ok(cause) => expect_death(&cause),
                Err(_) if handle.wait().is_ok() => Ok(()),
                Err(wrong) => Err(wrong),
            }
        });
        expect_one_dead(&outcome, 2);
    }
}

fn failures_travel_along_dependences() {
    let outcome = ranks(4, &|comm| {
        // 0 waits for 1, 1 waits for 2; 3 has to do with nobody but itself and 0 later.
        match comm.rank().0 {
            0 => {
                let handle = start(comm, &receive(8, Some(Rank(1)), "indirect"));
                let parts = ["`indirect: recv 8b from 1 tag 7`", "rank 1 failed because of rank 2"];
                let cause = expect_failure_after_death(comm, &handle, Rank(2), &parts)?;
                if cause != (Cause::PeerFailed { peer: Rank(1), culprit: Rank(2) }) {
                    return Err(format!("{cause:?}"));
                }
                ping_pong(comm, 8)
            }
            1 => {
                let mut graph = receive(8, Some(Rank(2)), "direct");
                let recv = graph.vertices().next().expect("the receive");
                let send = graph.send(Place::VOID, 8, Rank(0), Tag(7)).expect("legal");
                graph.requires(recv, send).expect("legal");
                let handle = start(comm, &graph);
                expect_death(&expect_failure_after_death(comm, &handle, Rank(2), &["`direct: recv"])?)?;
                ping_pong(comm, 8)
            }
            2 => {
                std::thread::sleep(Duration::from_millis(30));
                die();
            }
            _ => {
                let mut graph = Graph::new();
                graph.send(Place::VOID, 8, Rank(3), Tag(1)).expect("legal");
                let recv = graph.recv(Place::VOID, 8, Some(Rank(3)), Some(Tag(1))).expect("legal");
                let later = graph.sleep(200_000_000).expect("legal");
                graph.requires(recv, later).expect("legal");
                start(comm, &graph).wait().map_err(|failure| failure.to_string())
            }
        }
    });
    expect_one_dead(&outcome, 2);
}

fn whoever_never_joined_is_dead_too() {
    let launch = Launch { grace: Duration::from_secs(20), ..Launch::new(3) };
    let body = |rank: Rank, job: Job| {
        if rank == Rank(2) {
            std::thread::sleep(Duration::from_millis(30));
            die();
        }
        let comm = Comm::join(job, rank);
        let handle = start(&comm, &receive(8, Some(Rank(2)), "unborn"));
        let outcome = expect_failure(&comm, &handle, Rank(2), &["`unborn: recv", "signal 9"]);
        comm.finalize();
        i32::from(outcome.is_err())
    };
    expect_one_dead(&launch.fork(&body).expect("the ranks start"), 2);
}

fn a_full_queue_of_a_dead_rank() {
    for bytes in [8, 4000] {
        let job = JobOptions { queue_slots: 64, ..JobOptions::new(3) };
        let outcome = ranks_with(job, &|comm| {
            if comm.rank() == Rank(2) {
                // Looks at no message: its queue fills up.
                std::thread::sleep(Duration::from_millis(60));
                die();
            }
            let mut graph = Graph::new();
            for _ in 0..2000 {
                graph.send(Place::VOID, bytes, Rank(2), Tag(3)).expect("legal");
            }
            let handle = start(comm, &graph);
            expect_death(&expect_failure_after_death(comm, &handle, Rank(2), &["send", "to 2 tag 3"])?)?;
            ping_pong(comm, 5000)
        });
        expect_one_dead(&outcome, 2);
    }
}

fn what_the_dead_had_sent_arrives() {
    let outcome = ranks(3, &|comm| {
        if comm.rank() == Rank(2) {
            let mut graph = Graph::new();
            for to in [Rank(0), Rank(1)] {
                graph.send(Place::VOID, 500, to, Tag(7)).expect("legal");
            }
            start(comm, &graph).wait().map_err(|failure| failure.to_string())?;
            die();
        }
        // Started long after the death, and still the message is there.
        while comm.job().control(Rank(2)).state() == RankState::Alive {
            std::thread::sleep(Duration::from_millis(1));
        }
        start(comm, &receive(500, Some(Rank(2)), "sent")).wait().map_err(|failure| failure.to_string())?;
        let handle = start(comm, &receive(500, Some(Rank(2)), "not sent"));
        expect_death(&expect_failure(comm, &handle, Rank(2), &["`not sent: recv"])?)
    });
    expect_one_dead(&outcome, 2);
}

/// Dies between any two instructions of sending; messages of others behind its half-written ones still arrive.
fn killed_while_it_sends() {
    for round in 0..12_u64 {
        let job = JobOptions { queue_slots: 64, rings: false, ..JobOptions::new(3) };
        let outcome = ranks_with(job, &|comm| {
            if comm.rank() == Rank(2) {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(2000 + 777 * round));
                    die();
                });
                let mut graph = Graph::new();
                let mut last = None;
                for at in 0..200_000_u32 {
                    let bytes = u64::from(at % 7) * 100;
                    let send = graph.send(Place::VOID, bytes, Rank(at % 2), Tag(at)).expect("legal");
                    if let Some(last) = last {
                        graph.irequires(last, send).expect("legal");
                    }
                    last = Some(send);
                }
                let _ = start(comm, &graph).wait();
                std::thread::sleep(Duration::from_secs(5));
            }
            let handle = start(comm, &receive(8, Some(Rank(2)), "never"));
            for _ in 0..5 {
                ping_pong(comm, 700)?;
            }
            expect_death(&expect_failure_after_death(comm, &handle, Rank(2), &["`never: recv"])?)?;
            ping_pong(comm, 700)
        });
        expect_one_dead(&outcome, 2);
    }
}

fn leaving_early_is_named() {
    for net in [Net::Shm, Net::Tcp(OverTcp::default())] {
        leaves_early(net);
    }
}

/// Over TCP, too, in the middle of what it sends and while nobody has met it.
fn killed_over_tcp() {
    for has_sent in [false, true] {
        let job = JobOptions { net: Net::Tcp(OverTcp::default()), ..JobOptions::new(3) };
        let outcome = ranks_with(job, &|comm| {
            if comm.rank() == Rank(2) {
                if has_sent {
                    for rank in [0, 1] {
                        let mut graph = Graph::new();
                        graph.send(Place::VOID, 8, Rank(rank), Tag(9)).expect("legal");
                        start(comm, &graph).wait().map_err(|failure| failure.to_string())?;
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
                die();
            }
            let handle = start(comm, &receive(8, Some(Rank(2)), "never"));
            expect_death(&expect_failure_after_death(comm, &handle, Rank(2), &["`never: recv"])?)?;
            ping_pong(comm, 700)?;
            ping_pong(comm, 100_000)
        });
        expect_one_dead(&outcome, 2);
    }
}

fn leaves_early(net: Net) {
    let outcome = ranks_with(JobOptions { net, ..JobOptions::new(3) }, &|comm| {
        if comm.rank() == Rank(2) {
            return Ok(());
        }
        let handle = start(comm, &receive(8, Some(Rank(2)), "late"));
        let cause =
            expect_failure(comm, &handle, Rank(2), &["`late: recv", "left the job before it did its part"])?;
        if cause != (Cause::PeerLeft { peer: Rank(2) }) {
            return Err(format!("{cause:?}"));
        }
        ping_pong(comm, 8)
    });
    assert_eq!(outcome.exit_code(), 0);
}

fn exiting_early_is_named() {
    for code in [0, 3] {
        let launch = Launch { grace: Duration::from_secs(20), ..Launch::new(2) };
        let body = |rank: Rank, job: Job| {
            let comm = Comm::join(job, rank);
            if rank == Rank(1) {
                return code;
            }
            let handle = start(&comm, &receive(8, Some(Rank(1)), "missed"));
            let text = format!("exited with code {code} without finalizing");
            let outcome = expect_failure_after_death(&comm, &handle, Rank(1), &["`missed: recv", &text]);
            comm.finalize();
            i32::from(outcome.is_err())
        };
        let outcome = launch.fork(&body).expect("the ranks start");
        assert_eq!(outcome.endings, [Ended::Exited(0), Ended::Exited(code)]);
    }
}

fn nobody_has_to_wait_for_the_error() {
    let outcome = ranks(3, &|comm| {
        if comm.rank() == Rank(2) {
            std::thread::sleep(Duration::from_millis(30));
            die();
        }
        let handle = start(comm, &receive(8, Some(Rank(2)), "unattended"));
        let begin = Instant::now();
        while handle.test().is_none() {
            std::thread::sleep(Duration::from_millis(2));
            if begin.elapsed() > Duration::from_secs(10) {
                return Err("nobody told".into());
            }
        }
        expect_death(&expect_failure(comm, &handle, Rank(2), &["`unattended: recv"])?)
    });
    expect_one_dead(&outcome, 2);
}

fn gets_from_the_dead_fail() {
    let outcome = ranks(3, &|comm| {
        if comm.rank() == Rank(2) {
            std::thread::sleep(Duration::from_millis(30));
            die();
        }
        let mut graph = Graph::new();
        graph.allocate_scratchpad(16);
        let get = graph.get(Place::scratch(0), 8, Rank(2), Place::scratch(8)).expect("legal");
        graph.set_label(get, "fetch").expect("a label");
        let handle = start(comm, &graph);
        expect_death(&expect_failure_after_death(comm, &handle, Rank(2), &["`fetch: get 8b from 2`"])?)
    });
    expect_one_dead(&outcome, 2);
}

fn runs_started_after_a_death_fail() {
    let outcome = ranks(3, &|comm| {
        if comm.rank() == Rank(2) {
            die();
        }
        while comm.job().control(Rank(2)).state() == RankState::Alive {
            std::thread::sleep(Duration::from_millis(1));
        }
        for bytes in [0, 8, 100_000] {
            let mut graph = Graph::new();
            let send = graph.send(Place::VOID, bytes, Rank(2), Tag(0)).expect("legal");
            graph.set_label(send, "in vain").expect("a label");
            let recv = graph.recv(Place::VOID, bytes, Some(Rank(2)), Some(Tag(0))).expect("legal");
            graph.requires(send, recv).expect("legal");
            let handle = start(comm, &graph);
            expect_death(
                &expect_failure(comm, &handle, Rank(2), &["from 2 tag 0"])
                    .or_else(|_| expect_failure(comm, &handle, Rank(2), &["`in vain: send"]))?,
            )?;
        }
        ping_pong(comm, 8)
    });
    expect_one_dead(&outcome, 2);
}

/// Under a launcher that knows nothing of castell the ranks look after each other.
fn ranks_of_other_launchers_watch_each_other() {
    let program = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new("timeout");
    command.args(["60", "mpiexec.mpich", "-n", "3"]).arg(program).env(ROLE, "unwatched");
    command.stdin(std::process::Stdio::null());
    let output = command.output().expect("timeout runs");
    if output.status.code() == Some(127) {
        return skipped::skip("mpiexec.mpich", "not installed");
    }
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    for rank in 0..2 {
        let line = format!("rank {rank}: `watched: recv 8b from 2 tag 7`: rank 2 is gone");
        assert!(text.contains(&line), "no `{line}` in\n{text}");
    }
}

fn as_unwatched_rank() -> i32 {
    let comm = Comm::init().expect("a group");
    comm.job().gate(1);
    if comm.rank() == Rank(2) {
        std::thread::sleep(Duration::from_millis(30));
        // Quietly: that launcher kills the others when one is killed.
        // SAFETY: ends this process.
        unsafe { libc::_exit(0) };
    }
    let handle = start(&comm, &receive(8, Some(Rank(2)), "watched"));
    let failure = handle.wait().expect_err("nobody sends");
    println!("{failure}");
    let outcome = ping_pong(&comm, 8);
    comm.finalize();
    i32::from(outcome.is_err())
}

/// Collective calls fail on all ranks that depend on the dead, and name it.
fn calls_with_the_dead_fail() {
    const BEFORE: u64 = 20;
    let outcome = ranks(4, &|comm| {
        let world = comm.world();
        for round in 0..=BEFORE {
            if comm.rank() == Rank(2) && round == BEFORE {
                die();
            }
            let outcome = world.allreduce(&[round], &mut [0], Reduction::Sum);
            match outcome {
                Ok(()) if round < BEFORE => {}
                Ok(()) => return Err("a call with the dead went well".into()),
                Err(error) if round < BEFORE => return Err(format!("call {round}: {error}")),
                Err(error) if !error.to_string().contains("rank 2") => {
                    return Err(format!("not named: {error}"));
                }
                Err(_) => {}
            }
        }
        // Whoever comes later hears of it, too.
        let later = world.barrier().err().map(|error| error.to_string());
        later.filter(|error| error.contains("rank 2")).map(|_| ()).ok_or_else(|| "the barrier".into())
    });
    expect_one_dead(&outcome, 2);
}

/// Large exchanges, in which ranks read each other's memory, until one of them is killed at any moment.
fn killed_while_its_memory_is_read() {
    killed_in_exchanges(Reads::Always, &|_, data| data);
}

/// The same out of buffers that all ranks can read.
fn killed_while_its_buffers_are_read() {
    killed_in_exchanges(Reads::Auto, &|comm, data| {
        let mut shared = comm.allocate(data.len()).expect("some memory");
        shared.copy_from_slice(&data);
        shared
    });
}

fn killed_in_exchanges<B: Deref<Target = [u64]>>(reads: Reads, buffer: &dyn Fn(&Comm, Vec<u64>) -> B) {
    const BLOCK: usize = 100_000;
    killed_in_calls(reads, &|comm, calls| {
        let world = comm.world();
        let (me, size) = (world.rank().index() as u64, world.size() as usize);
        let data = buffer(comm, vec![me; BLOCK * size]);
        let mut found = vec![9; BLOCK * size];
        calls(&mut || {
            found.fill(9);
            world.alltoall(&data, &mut found)?;
            let right = |(at, number): (usize, &u64)| *number == (at / BLOCK) as u64;
            Ok(found.iter().enumerate().all(right))
        })
    });
}

/// Sums that are made while the messages come, out of pipes and out of buffers that all can read.
fn killed_while_sums_are_made() {
    for (is_pooled, name) in
        [(false, "recursive-doubling"), (false, "direct"), (true, "recursive-doubling"), (true, "direct")]
    {
        killed_in_calls(Reads::Auto, &|comm, calls| {
            const COUNT: usize = 100_000;
            let (world, name) = (comm.world(), format!("allreduce:{name}"));
            let own = vec![u64::from(comm.rank().0) + 1; COUNT];
            let mut shared = comm.allocate(COUNT).expect("some memory");
            shared.copy_from_slice(&own);
            let mut found = vec![9; COUNT];
            calls(&mut || {
                found.fill(9);
                let input: &[u64] = if is_pooled { &shared } else { &own };
                let call = Call::allreduce(input, &mut found, Reduction::Sum).by(&name);
                world.scope(|scope| scope.start(call)?.wait())?;
                Ok(found.iter().all(|number| *number == 6))
            })
        });
    }
}

/// What each rank writes once for all others.
fn killed_while_multicasts_are_read() {
    killed_in_calls(Reads::Auto, &|comm, calls| {
        const COUNT: usize = 200;
        let world = comm.world();
        let own = vec![u64::from(comm.rank().0); COUNT];
        let mut found = vec![9; COUNT * world.size() as usize];
        calls(&mut || {
            found.fill(9);
            world.allgather(&own, &mut found)?;
            let right = |(at, number): (usize, &u64)| *number == (at / COUNT) as u64;
            Ok(found.iter().enumerate().all(right))
        })
    });
}

/// Small started calls, several at a time.
fn killed_while_calls_are_under_way() {
    killed_in_calls(Reads::Auto, &|comm, calls| {
        let world = comm.world();
        let own = [u64::from(comm.rank().0) + 1];
        let mut sums = [[9]; 12];
        calls(&mut || {
            sums = [[9]; 12];
            world.scope(|scope| {
                let mut started = Vec::new();
                for sum in &mut sums {
                    started.push(scope.start(Call::allreduce(&own, sum, Reduction::Sum))?);
                }
                let outcomes: Vec<_> = started.iter().rev().map(|call| call.wait()).collect();
                outcomes.into_iter().collect::<Result<(), _>>()
            })?;
            Ok(sums.iter().all(|sum| *sum == [6]))
        })
    });
}

/// A call, and whether what it gave is right.
type Checked<'a> = dyn FnMut() -> Result<bool, CallError> + 'a;

/// Makes a call again and again, until it fails as it has to.
type Repeat<'a> = dyn Fn(&mut Checked<'_>) -> Result<(), String> + 'a;

/// Three ranks call again and again, until one is killed in the middle: the others hear of it, and were given nothing wrong.
fn killed_in_calls(reads: Reads, body: &dyn Fn(&Comm, &Repeat<'_>) -> Result<(), String>) {
    for round in 0..10 {
        let job = JobOptions { reads, ..JobOptions::new(3) };
        let outcome = ranks_with(job, &|comm| {
            body(comm, &|call| {
                call().map_err(|error| format!("the first call: {error}"))?;
                if comm.rank() == Rank(1) {
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_micros(400 * round));
                        die();
                    });
                }
                loop {
                    match call() {
                        Ok(true) => {}
                        Ok(false) => return Err("something else than what was sent".into()),
                        Err(error) if error.to_string().contains("rank 1") => return Ok(()),
                        // Who has read all in the last call goes on where the other one failed and has left.
                        Err(error) if error.to_string().contains("left the job") => return Ok(()),
                        Err(error) => return Err(format!("not named: {error}")),
                    }
                }
            })
        });
        expect_one_dead(&outcome, 1);
    }
}

/// One rank is another user's: all ranks find out, and their large calls go another way.
fn whose_memory_is_forbidden_is_asked_otherwise() {
    const BLOCK: usize = 100_000;
    let progress = Progress::ALL[PROGRESS.load(Ordering::Relaxed)];
    let job = JobOptions { progress, reads: Reads::Always, ..JobOptions::new(3) };
    let launch = Launch { job, grace: Duration::from_secs(20), ..Launch::new(3) };
    let as_rank = |rank: Rank, job: Job| {
        if rank == Rank(1) {
            lose_rights();
        }
        let comm = Comm::join(job, rank);
        let world = comm.world();
        let data: Vec<u64> = (0..3 * BLOCK as u64).map(|at| at + 1_000_000 * u64::from(rank.0)).collect();
        let mut found = vec![0; 3 * BLOCK];
        for _ in 0..3 {
            world.alltoall(&data, &mut found).expect("goes well");
        }
        let own = (BLOCK * rank.index()) as u64;
        for (at, number) in found.iter().enumerate() {
            assert_eq!(*number, 1_000_000 * (at / BLOCK) as u64 + own + (at % BLOCK) as u64);
        }
        assert_eq!(world.reads_peers(), Some(false));
        comm.finalize();
        0
    };
    let outcome = launch.fork(&as_rank).expect("the ranks start");
    assert!(outcome.endings.iter().all(|ended| *ended == Ended::Exited(0)), "{:?}", outcome.endings);
}

/// The memory, the processes and whatever else a job made are gone with it, also when a rank was killed.
fn nothing_is_left() {
    let listing = |directory: &str| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let own = |directory: &str| -> Vec<_> {
        listing(directory).into_iter().filter(|name| name.to_string_lossy().contains("castell")).collect()
    };
    let descriptors = || {
        let all = std::fs::read_dir("/proc/self/fd").expect("/proc").flatten();
        all.filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .filter(|target| target.to_string_lossy().contains("castell"))
            .count()
    };
    let before = (own("/dev/shm"), own("/tmp"), descriptors());
    a_receive_from_the_dead_fails();
    assert_eq!((own("/dev/shm"), own("/tmp"), descriptors()), before);
    assert!(castell_host::process::children().is_empty());
}
