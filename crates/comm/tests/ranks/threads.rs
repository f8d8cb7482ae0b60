//! Several application threads on one membership, and what may happen to handles and groups at odd times.

use crate::group::{group, place, start, start_open};
use castell_base::{Rank, Tag};
use castell_comm::job::JobOptions;
use castell_comm::{Comm, Handle, Job, RunError};
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A value to the peer and one from it, with a tag.
fn exchange(peer: Rank, tag: u32, out: &mut [u8], back: &mut [u8]) -> Graph {
    let mut graph = Graph::new();
    graph.send(place(out), out.len() as u64, peer, Tag(tag)).expect("legal");
    graph.recv(place(back), back.len() as u64, Some(peer), Some(Tag(tag))).expect("legal");
    graph
}

#[test]
fn a_run_can_be_started_while_another_thread_waits() {
    group(2, |comm| {
        let peer = Rank(1 - comm.rank().0);
        let is_waiting = AtomicBool::new(false);
        let (mut first, mut second) = ([0_u8; 8], [1_u8; 8]);
        std::thread::scope(|scope| {
            // Rank 0's first run ends only when its second has been started.
            if comm.rank() == Rank(0) {
                let waiting = scope.spawn(|| {
                    let mut graph = Graph::new();
                    graph.recv(place(&mut first), 8, Some(peer), Some(Tag(1))).expect("legal");
                    let handle = start_open(comm, &graph);
                    is_waiting.store(true, Ordering::SeqCst);
                    handle.wait().expect("no failure");
                });
                while !is_waiting.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                // Long enough for the other thread to fall asleep, most times.
                std::thread::sleep(Duration::from_millis(20));
                let mut graph = Graph::new();
                graph.send(place(&mut second), 8, peer, Tag(2)).expect("legal");
                start_open(comm, &graph).wait().expect("no failure");
                waiting.join().expect("the other thread ends");
            } else {
                let mut graph = Graph::new();
                let recv = graph.recv(place(&mut second), 8, Some(peer), Some(Tag(2))).expect("legal");
                let send = graph.send(place(&mut first), 8, peer, Tag(1)).expect("legal");
                graph.requires(recv, send).expect("legal");
                start_open(comm, &graph).wait().expect("no failure");
            }
        });
    });
}

#[test]
fn many_threads_run_and_wait_at_once() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 150;
    group(2, |comm| {
        let (me, peer) = (comm.rank().0, Rank(1 - comm.rank().0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        // Threads of one rank start runs in any order: open runs match by tag.
                        let length = [8, 40, 9000, 50_000][(round % 4) as usize];
                        let (mut out, mut back) = (vec![(me + round) as u8; length], vec![0_u8; length]);
                        let graph = exchange(peer, thread, &mut out, &mut back);
                        let handle = start_open(comm, &graph);
                        match (round + thread) % 3 {
                            0 => handle.wait().expect("no failure"),
                            1 => poll(&handle),
                            _ => {
                                let again = handle.clone();
                                drop(handle);
                                while !again.is_done() {
                                    std::thread::sleep(Duration::from_micros(50));
                                }
                                again.wait().expect("no failure");
                            }
                        }
                        assert!(back.iter().all(|byte| *byte == (peer.0 + round) as u8), "{thread} {round}");
                    }
                });
            }
            // One more that keeps asking.
            let counting = comm.clone();
            scope.spawn(move || {
                for _ in 0..500 {
                    assert!(counting.counters().messages <= u64::from(THREADS * ROUNDS));
                    std::thread::yield_now();
                }
            });
        });
        assert_eq!(comm.counters().messages, u64::from(THREADS * ROUNDS));
    });
}

fn poll(handle: &Handle) {
    loop {
        if let Some(outcome) = handle.test() {
            return outcome.expect("no failure");
        }
        std::thread::yield_now();
    }
}

#[test]
fn threads_that_execute_take_turns_at_driving() {
    group(2, |comm| {
        let peer = Rank(1 - comm.rank().0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    // Which thread's message meets which thread's receive does not matter: all are alike.
                    let (mut out, mut back) = ([7_u8; 16], [0_u8; 16]);
                    let schedule =
                        Arc::new(exchange(peer, 0, &mut out, &mut back).compile().expect("compiles"));
                    for _ in 0..300 {
                        // SAFETY: the buffers live until the run has ended.
                        unsafe { comm.execute(&schedule) }.expect("starts").expect("no failure");
                        assert_eq!(back, [7; 16]);
                    }
                });
            }
        });
    });
}

#[test]
fn leaving_waits_for_runs_whose_handles_are_gone() {
    let mut boxes = [[0_u8; 20_000]; 2];
    let (first, second) = boxes.split_at_mut(1);
    let places = [place(&mut first[0]), place(&mut second[0])];
    group(2, |comm| {
        let peer = Rank(1 - comm.rank().0);
        let mut graph = Graph::new();
        let pause = graph.sleep(20_000_000).expect("legal");
        let send = graph.send(places[comm.rank().index()], 10_000, peer, Tag(0)).expect("legal");
        let place = Place::user(places[comm.rank().index()].offset + 10_000);
        graph.recv(place, 10_000, Some(peer), Some(Tag(0))).expect("legal");
        graph.requires(pause, send).expect("legal");
        drop(start(comm, &graph));
    });
}

#[test]
fn several_threads_may_leave_at_once() {
    for _ in 0..20 {
        group(2, |comm| {
            let peer = Rank(1 - comm.rank().0);
            let (mut out, mut back) = ([1_u8; 8], [0_u8; 8]);
            let handle = start(comm, &exchange(peer, 0, &mut out, &mut back));
            std::thread::scope(|scope| {
                scope.spawn(|| comm.finalize());
                scope.spawn(|| comm.finalize());
                handle.wait().expect("no failure");
            });
            assert_eq!(back, [1; 8]);
        });
    }
}

#[test]
fn nothing_runs_after_leaving() {
    group(1, |comm| {
        let mut graph = Graph::new();
        graph.calc(1).expect("legal");
        let schedule = Arc::new(graph.compile().expect("compiles"));
        comm.finalize();
        // SAFETY: no user memory.
        let refused = unsafe { comm.run(&schedule) }.map(|_| ());
        assert_eq!(refused, Err(RunError::Finalized));
        // SAFETY: as above.
        let refused = unsafe { comm.execute(&schedule) }.map(|_| ());
        assert_eq!(refused, Err(RunError::Finalized));
        comm.finalize();
    });
}

#[test]
fn threads_that_start_runs_while_another_leaves_get_an_answer() {
    for _ in 0..20 {
        group(1, |comm| {
            let mut graph = Graph::new();
            graph.sleep(1000).expect("legal");
            let schedule = Arc::new(graph.compile().expect("compiles"));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    loop {
                        // SAFETY: no user memory.
                        match unsafe { comm.run(&schedule) } {
                            Ok(handle) => handle.wait().expect("no failure"),
                            Err(error) => return assert_eq!(error, RunError::Finalized),
                        }
                    }
                });
                std::thread::sleep(Duration::from_millis(1));
                comm.finalize();
            });
        });
    }
}

#[test]
fn schedules_that_do_not_fit_are_refused() {
    group(2, |comm| {
        let mut graph = Graph::new();
        graph.recv(Place::VOID, 8, Some(Rank(2)), None).expect("legal");
        let schedule = Arc::new(graph.compile().expect("compiles"));
        // SAFETY: no user memory.
        let refused = unsafe { comm.run(&schedule) }.map(|_| ());
        assert_eq!(refused, Err(RunError::NoSuchRank { rank: Rank(2), size: 2 }));
        let mut graph = Graph::new();
        graph.allocate_scratchpad(1 << 60);
        graph.calc(1).expect("legal");
        let schedule = Arc::new(graph.compile().expect("compiles"));
        // SAFETY: as above.
        let refused = unsafe { comm.run(&schedule) }.map(|_| ());
        assert_eq!(refused, Err(RunError::Scratchpad { bytes: 1 << 60 }));
    });
}

#[test]
fn a_message_to_oneself_of_another_size_fails_the_run() {
    for bytes in [8_u64, 100_000] {
        for receive_first in [false, true] {
            let options = JobOptions::new(1);
            let comm = Comm::join(Job::create(&options).expect("a job"), Rank(0));
            let mut memory = vec![0_u8; 200_000];
            let mut graph = Graph::new();
            let send = graph.send(place(&mut memory), bytes, Rank(0), Tag(0)).expect("legal");
            let recv = graph.recv(place(&mut memory), bytes + 1, Some(Rank(0)), None).expect("legal");
            let (first, second) = if receive_first { (recv, send) } else { (send, recv) };
            graph.irequires(first, second).expect("legal");
            let failure = start(&comm, &graph).wait().expect_err("sizes differ");
            assert!(failure.to_string().contains("sizes do not match"), "{failure}");
            // The group is as good as before.
            let mut graph = Graph::new();
            graph.send(Place::VOID, bytes, Rank(0), Tag(0)).expect("legal");
            graph.recv(Place::VOID, bytes, Some(Rank(0)), None).expect("legal");
            start(&comm, &graph).wait().expect("no failure");
            comm.finalize();
        }
    }
}

#[test]
fn a_message_to_oneself_meets_any_source_after_all_others_left() {
    group(2, |comm| {
        if comm.rank() == Rank(1) {
            return;
        }
        let mut graph = Graph::new();
        let pause = graph.sleep(30_000_000).expect("legal");
        let send = graph.send(Place::VOID, 8, Rank(0), Tag(0)).expect("legal");
        graph.recv(Place::VOID, 8, None, Some(Tag(0))).expect("legal");
        graph.requires(pause, send).expect("legal");
        start(comm, &graph).wait().expect("no failure");
        // Without one there is nobody left to wait for.
        let mut graph = Graph::new();
        graph.recv(Place::VOID, 8, None, Some(Tag(0))).expect("legal");
        let failure = start(comm, &graph).wait().expect_err("nobody sends");
        assert!(failure.to_string().contains("rank 1 left the job"), "{failure}");
    });
}
