//! Open runs that fail: whoever waits for their messages, or for their receives, fails with them; nobody else does.
//!
//! Rank 2 dies in each case.

use super::group::{place, start_open};
use super::{
    die, expect_death, expect_failure, expect_failure_after_death, expect_one_dead, ping_pong, ranks,
    ranks_with, receive,
};
use castell_base::{Rank, Tag};
use castell_comm::job::{JobOptions, Net, OverTcp, RankState};
use castell_comm::{Cause, Comm, Handle};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::Place;
use std::time::Duration;

/// More than a pipe takes: the send ends only with its receiver.
const LARGE: u64 = 2 << 20;

fn die_soon() -> ! {
    std::thread::sleep(Duration::from_millis(30));
    die()
}

/// A run that waits for rank 2, and has all vertices that `behind` gives back wait for that.
fn doomed(behind: impl FnOnce(&mut Graph) -> Vec<Vertex>) -> Graph {
    let mut graph = receive(8, Some(Rank(2)), "direct");
    let first = graph.vertices().next().expect("the receive");
    for vertex in behind(&mut graph) {
        graph.requires(first, vertex).expect("legal");
    }
    graph
}

/// One labelled send or receive.
fn one(send: bool, bytes: u64, peer: Rank, tag: u32, label: &str) -> Graph {
    let mut graph = Graph::new();
    let vertex = if send {
        graph.send(Place::VOID, bytes, peer, Tag(tag))
    } else {
        graph.recv(Place::VOID, bytes, Some(peer), Some(Tag(tag)))
    };
    graph.set_label(vertex.expect("legal"), label).expect("a label");
    graph
}

fn expect_cause(found: Cause, peer: u32, culprit: u32) -> Result<(), String> {
    let expected = Cause::PeerFailed { peer: Rank(peer), culprit: Rank(culprit) };
    if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
}

fn expect_direct(comm: &Comm, handle: &Handle) -> Result<(), String> {
    expect_death(&expect_failure_after_death(comm, handle, Rank(2), &["`direct: recv 8b from 2 tag 7`"])?)
}

pub fn messages_that_are_not_sent() {
    let outcome = ranks(4, &|comm| match comm.rank().0 {
        // 3 waits for 0, which waits for 1, which waits for 2.
        3 => {
            let handle = start_open(comm, &one(false, 8, Rank(0), 8, "far"));
            let parts = ["`far: recv 8b from 0 tag 8`", "the run of rank 0 failed because of rank 2"];
            expect_cause(expect_failure_after_death(comm, &handle, Rank(2), &parts)?, 0, 2)
        }
        0 => {
            let mut graph = receive(8, Some(Rank(1)), "indirect");
            let recv = graph.vertices().next().expect("the receive");
            // Through something that takes time and is never carried out.
            let sleep = graph.sleep(60_000_000_000).expect("legal");
            let send = graph.send(Place::VOID, 8, Rank(3), Tag(8)).expect("legal");
            graph.requires(recv, sleep).expect("legal");
            graph.requires(sleep, send).expect("legal");
            let handle = start_open(comm, &graph);
            let parts = ["`indirect: recv 8b from 1 tag 7`", "the run of rank 1 failed because of rank 2"];
            expect_cause(expect_failure_after_death(comm, &handle, Rank(2), &parts)?, 1, 2)?;
            ping_pong(comm, 8)
        }
        1 => {
            let graph = doomed(|graph| vec![graph.send(Place::VOID, 8, Rank(0), Tag(7)).expect("legal")]);
            expect_direct(comm, &start_open(comm, &graph))?;
            ping_pong(comm, 8)
        }
        _ => die_soon(),
    });
    expect_one_dead(&outcome, 2);
}

pub fn large_messages_that_are_not_taken() {
    let outcome = ranks(3, &|comm| {
        if comm.rank() == Rank(2) {
            die_soon();
        }
        if comm.rank() == Rank(0) {
            let parts = ["`large: send 2097152b to 1 tag 5`", "the run of rank 1 failed"];
            // Announced before the failure, then after it.
            for _ in 0..2 {
                let handle = start_open(comm, &one(true, LARGE, Rank(1), 5, "large"));
                expect_cause(expect_failure(comm, &handle, Rank(1), &parts)?, 1, 1)?;
                ping_pong(comm, 8)?;
            }
            let handle = start_open(comm, &one(false, LARGE, Rank(1), 6, "broken"));
            expect_cause(expect_failure(comm, &handle, Rank(1), &["`broken: recv 2097152b from 1"])?, 1, 1)?;
            // Everything is as before.
            return success(&start_open(comm, &one(true, LARGE, Rank(1), 5, "well")));
        }
        let graph = doomed(|graph| {
            graph.send(Place::VOID, LARGE, Rank(0), Tag(6)).expect("legal");
            let mut recv = || graph.recv(Place::VOID, LARGE, Some(Rank(0)), Some(Tag(5))).expect("legal");
            vec![recv(), recv()]
        });
        expect_direct(comm, &start_open(comm, &graph))?;
        for _ in 0..2 {
            ping_pong(comm, 8)?;
        }
        success(&start_open(comm, &one(false, LARGE, Rank(0), 5, "well")))
    });
    expect_one_dead(&outcome, 2);
}

fn success(handle: &Handle) -> Result<(), String> {
    handle.wait().map_err(|failure| failure.to_string())
}

pub fn later_messages_meet_later_receives() {
    let outcome = ranks(3, &|comm| {
        if comm.rank() == Rank(2) {
            die_soon();
        }
        let mut bytes = [0_u8; 8];
        let mut graph = Graph::new();
        if comm.rank() == Rank(0) {
            let first = start_open(comm, &one(false, 8, Rank(1), 9, "first"));
            graph.recv(place(&mut bytes), 8, Some(Rank(1)), Some(Tag(9))).expect("legal");
            let second = start_open(comm, &graph);
            expect_cause(expect_failure_after_death(comm, &first, Rank(2), &["`first: recv"])?, 1, 2)?;
            success(&second)?;
            // The first of these is for the run that failed.
            for value in [3, 4] {
                let mut out = [value; 8];
                let mut graph = Graph::new();
                graph.send(place(&mut out), 8, Rank(1), Tag(10)).expect("legal");
                success(&start_open(comm, &graph))?;
            }
            return if bytes == [2; 8] { Ok(()) } else { Err(format!("{bytes:?}")) };
        }
        let failing = doomed(|graph| {
            let send = graph.send(Place::VOID, 8, Rank(0), Tag(9)).expect("legal");
            vec![send, graph.recv(Place::VOID, 8, Some(Rank(0)), Some(Tag(10))).expect("legal")]
        });
        expect_direct(comm, &start_open(comm, &failing))?;
        let mut out = [2_u8; 8];
        graph.send(place(&mut out), 8, Rank(0), Tag(9)).expect("legal");
        graph.recv(place(&mut bytes), 8, Some(Rank(0)), Some(Tag(10))).expect("legal");
        success(&start_open(comm, &graph))?;
        if bytes == [4; 8] { Ok(()) } else { Err(format!("{bytes:?}")) }
    });
    expect_one_dead(&outcome, 2);
}

/// Receives one message after the other: first some that were sent, then none but failures.
fn expect_some_then_failures(comm: &Comm, messages: u32, bytes: u64) -> Result<u32, String> {
    let mut came = 0;
    for at in 0..messages {
        match start_open(comm, &one(false, bytes, Rank(1), 3, "each")).wait() {
            Ok(()) if came == at => came += 1,
            Ok(()) => return Err(format!("message {at} came after one that failed")),
            Err(failure) => expect_cause(failure.cause, 1, 2)?,
        }
    }
    Ok(came)
}

pub fn messages_that_were_kept() {
    const MESSAGES: u32 = 600;
    let job = JobOptions { queue_slots: 64, ..JobOptions::new(3) };
    let outcome = ranks_with(job, &|comm| {
        if comm.rank() == Rank(2) {
            // Until rank 1 says so.
            super::group::start(comm, &receive(8, Some(Rank(1)), "signal")).wait().expect("a signal");
            die();
        }
        if comm.rank() == Rank(0) {
            comm.set_unexpected_budget(10_000);
            // Each message that is taken in makes room for another one: none is before rank 1 cannot send any more.
            for _ in 0..3 {
                ping_pong(comm, 8)?;
            }
            let came = expect_some_then_failures(comm, MESSAGES, 100)?;
            let most = comm.counters().unexpected_bytes_max;
            println!("  {came} of {MESSAGES} messages had been sent, {most} bytes kept at most");
            return if came < MESSAGES { Ok(()) } else { Err("nothing was kept".into()) };
        }
        ping_pong(comm, 8)?;
        let graph = doomed(|graph| {
            for _ in 0..MESSAGES {
                graph.send(Place::VOID, 100, Rank(0), Tag(3)).expect("legal");
            }
            Vec::new()
        });
        let handle = start_open(comm, &graph);
        // The other side has taken in what it takes, and asked to hold the rest.
        ping_pong(comm, 8)?;
        let mut signal = Graph::new();
        signal.send(Place::VOID, 8, Rank(2), Tag(7)).expect("legal");
        success(&super::group::start(comm, &signal))?;
        expect_direct(comm, &handle)?;
        ping_pong(comm, 8)
    });
    expect_one_dead(&outcome, 2);
}

pub fn many_messages_that_are_not_sent() {
    const MESSAGES: u32 = 1000;
    let job = JobOptions { queue_slots: 64, ..JobOptions::new(3) };
    let outcome = ranks_with(job, &|comm| {
        if comm.rank() == Rank(2) {
            die_soon();
        }
        if comm.rank() == Rank(0) {
            // Looks at no message before rank 1 is done with its part.
            while comm.job().control(Rank(2)).state() == RankState::Alive {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(50));
            let came = expect_some_then_failures(comm, MESSAGES, 8)?;
            return if came == 0 { Ok(()) } else { Err(format!("{came} messages from nowhere")) };
        }
        let graph = doomed(|graph| {
            let send = |_| graph.send(Place::VOID, 8, Rank(0), Tag(3)).expect("legal");
            (0..MESSAGES).map(send).collect()
        });
        let handle = start_open(comm, &graph);
        // Never calls castell again before the other side has got everything.
        while handle.test().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        while comm.job().control(Rank(0)).state() == RankState::Alive {
            std::thread::sleep(Duration::from_millis(1));
        }
        expect_direct(comm, &handle)
    });
    expect_one_dead(&outcome, 2);
}

pub fn messages_to_itself() {
    let outcome = ranks(3, &|comm| match comm.rank().0 {
        0 => {
            let me = comm.rank();
            let failing = doomed(|graph| {
                let send = graph.send(Place::VOID, 8, me, Tag(1)).expect("legal");
                // The second is for a send of this run itself.
                graph.send(Place::VOID, LARGE, me, Tag(4)).expect("legal");
                let mut recv = |tag| graph.recv(Place::VOID, LARGE, Some(me), Some(Tag(tag))).expect("legal");
                vec![send, recv(3), recv(4)]
            });
            let mut relay = one(false, 8, me, 1, "relayed");
            let recv = relay.vertices().next().expect("the receive");
            let send = relay.send(Place::VOID, 8, Rank(1), Tag(2)).expect("legal");
            relay.requires(recv, send).expect("legal");
            let direct = start_open(comm, &failing);
            let relay = start_open(comm, &relay);
            let large = start_open(comm, &one(true, LARGE, me, 3, "large"));
            expect_direct(comm, &direct)?;
            expect_cause(expect_failure(comm, &relay, Rank(2), &["`relayed: recv 8b from 0 tag 1`"])?, 0, 2)?;
            expect_cause(expect_failure(comm, &large, Rank(2), &["`large: send 2097152b to 0"])?, 0, 2)
        }
        1 => {
            let handle = start_open(comm, &one(false, 8, Rank(0), 2, "last"));
            expect_cause(
                expect_failure_after_death(comm, &handle, Rank(2), &["`last: recv 8b from 0"])?,
                0,
                2,
            )
        }
        _ => die_soon(),
    });
    expect_one_dead(&outcome, 2);
}

/// A message that was asked for is half on its way when its run fails.
pub fn messages_in_their_middle() {
    // More than lies in a connection whose other end takes nothing.
    const BYTES: u64 = 96 << 20;
    let job = JobOptions { net: Net::Tcp(OverTcp::default()), ..JobOptions::new(3) };
    let outcome = ranks_with(job, &|comm| match comm.rank().0 {
        0 => {
            let graph = doomed(|graph| {
                graph.send(Place::VOID, BYTES, Rank(1), Tag(5)).expect("legal");
                graph.send(Place::VOID, 8, Rank(1), Tag(6)).expect("legal");
                Vec::new()
            });
            expect_direct(comm, &start_open(comm, &graph))?;
            ping_pong(comm, 8)
        }
        1 => {
            let large = start_open(comm, &one(false, BYTES, Rank(0), 5, "large"));
            // By then the large one, which was asked for before, has been granted.
            success(&start_open(comm, &one(false, 8, Rank(0), 6, "small")))?;
            stand_still(Duration::from_secs(1));
            let parts = ["`large: recv 100663296b from 0 tag 5`", "the run of rank 0 failed"];
            expect_cause(expect_failure(comm, &large, Rank(2), &parts)?, 0, 2)?;
            ping_pong(comm, 8)
        }
        _ => {
            std::thread::sleep(Duration::from_millis(400));
            die()
        }
    });
    expect_one_dead(&outcome, 2);
}

/// Stops all threads of this process for so long.
fn stand_still(time: Duration) {
    let script = format!("sleep {}; kill -CONT $PPID", time.as_secs_f64());
    let mut waker = std::process::Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
    // SAFETY: no arguments but a signal.
    unsafe { libc::raise(libc::SIGSTOP) };
    waker.wait().expect("it ends");
}
