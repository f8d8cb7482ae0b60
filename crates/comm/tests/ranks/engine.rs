//! The engine, with threads as ranks: every kind of operation, matching, large messages, many runs, refusals.

use crate::group::{group, group_with, place, start, start_open};
use castell_base::{Rank, Tag};
use castell_comm::job::{JobOptions, Progress};
use castell_comm::{Cause, Comm, Handle};
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, Block, ElementType, Memory, Operator, Place};
use std::time::Duration;

/// Both ends of `rounds` ping-pongs of `bytes` bytes between ranks 0 and 1.
fn ping_pong(me: Rank, rounds: u32, buffer: Place, bytes: u64) -> Graph {
    let mut graph = Graph::new();
    let peer = Rank(1 - me.0);
    let mut last = None;
    for _ in 0..rounds {
        let (first, second) = if me.0 == 0 {
            let send = graph.send(buffer, bytes, peer, Tag(0)).expect("legal");
            (send, graph.recv(buffer, bytes, Some(peer), Some(Tag(0))).expect("legal"))
        } else {
            let recv = graph.recv(buffer, bytes, Some(peer), Some(Tag(0))).expect("legal");
            (recv, graph.send(buffer, bytes, peer, Tag(0)).expect("legal"))
        };
        graph.requires(first, second).expect("legal");
        if let Some(last) = last {
            graph.requires(last, first).expect("legal");
        }
        last = Some(second);
    }
    graph
}

#[test]
fn ping_pongs_of_every_size() {
    group(2, |comm| {
        for bytes in [0, 1, 8, 32, 33, 500, 4096, 8192, 8193, 100_000, 1 << 20, 3 << 20] {
            let mut buffer: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
            if comm.rank() == Rank(1) {
                buffer.fill(0);
            }
            let graph = ping_pong(comm.rank(), 5, place(&mut buffer), bytes);
            start(comm, &graph).wait().expect("no failure");
            assert!(buffer.iter().enumerate().all(|(i, byte)| *byte == i as u8), "{bytes} bytes");
        }
    });
}

#[test]
fn row_major_meets_column_major() {
    for side in [4_u64, 300] {
        group(2, |comm| {
            let cells = (side * side) as usize;
            let mut matrix: Vec<u32> = (0..cells as u32).collect();
            let mut graph = Graph::new();
            let base = matrix.as_mut_ptr() as u64;
            if comm.rank() == Rank(0) {
                let rows: Vec<_> =
                    (0..side).map(|r| Block { offset: base + r * side * 4, bytes: side * 4 }).collect();
                graph.send_vec(Memory::User, &rows, Rank(1), Tag(3)).expect("legal");
            } else {
                matrix.fill(0);
                let cell = |i: u64| Block { offset: base + ((i % side) * side + i / side) * 4, bytes: 4 };
                let columns: Vec<_> = (0..side * side).map(cell).collect();
                graph.recv_vec(Memory::User, &columns, Some(Rank(0)), Some(Tag(3))).expect("legal");
            }
            start(comm, &graph).wait().expect("no failure");
            if comm.rank() == Rank(1) {
                let n = side as u32;
                let transposed = (0..n).flat_map(|r| (0..n).map(move |c| c * n + r));
                assert!(matrix.iter().copied().eq(transposed));
            }
        });
    }
}

#[test]
fn any_source_and_any_tag_take_everything_in_order() {
    const EACH: u32 = 50;
    group(4, |comm| {
        let mut graph = Graph::new();
        let mut boxes = vec![0_u64; (3 * EACH) as usize];
        let mut mine: Vec<u64> = (0..EACH).map(|i| u64::from(comm.rank().0) << 32 | u64::from(i)).collect();
        if comm.rank() == Rank(0) {
            for slot in &mut boxes {
                graph.recv(Place::user(std::ptr::from_mut(slot) as u64), 8, None, None).expect("legal");
            }
        } else {
            for (i, value) in mine.iter_mut().enumerate() {
                graph
                    .send(Place::user(std::ptr::from_mut(value) as u64), 8, Rank(0), Tag(i as u32))
                    .expect("legal");
            }
        }
        start(comm, &graph).wait().expect("no failure");
        if comm.rank() == Rank(0) {
            for from in 1..4_u64 {
                let got: Vec<_> = boxes.iter().filter(|v| **v >> 32 == from).map(|v| *v as u32).collect();
                assert!(got.iter().copied().eq(0..EACH), "rank {from}: {got:?}");
            }
        }
    });
}

#[test]
fn a_schedule_runs_many_times_at_once_without_cross_matching() {
    group(3, |comm| {
        // A ring through the scratchpad: what arrives is passed on, so that rounds of different runs could mix.
        let size = comm.size();
        let mut graph = Graph::new();
        graph.allocate_scratchpad(16 * u64::from(size));
        let mut last = None;
        for round in 0..u64::from(size) {
            let right = Rank((comm.rank().0 + 1) % size);
            let left = Rank((comm.rank().0 + size - 1) % size);
            let send = graph.send(Place::scratch(round * 16), 16, right, Tag(0)).expect("legal");
            let recv =
                graph.recv(Place::scratch((round + 1) % u64::from(size) * 16), 16, Some(left), Some(Tag(0)));
            let recv = recv.expect("legal");
            if let Some(last) = last {
                graph.requires(last, send).expect("legal");
                graph.requires(last, recv).expect("legal");
            }
            last = Some(recv);
        }
        let schedule = std::sync::Arc::new(graph.compile().expect("compiles"));
        for _ in 0..20 {
            // SAFETY: the schedule touches its scratchpad only.
            let handles: Vec<Handle> =
                (0..30).map(|_| unsafe { comm.run(&schedule) }.expect("runs")).collect();
            for handle in handles.iter().rev() {
                handle.wait().expect("no failure");
            }
        }
    });
}

#[test]
fn a_rank_that_is_no_peer_need_not_run_anything() {
    group(3, |comm| {
        if comm.rank().0 < 2 {
            let mut buffer = [0_u8; 8];
            for _ in 0..10 {
                start(comm, &ping_pong(comm.rank(), 3, place(&mut buffer), 8)).wait().expect("no failure");
            }
        }
        // Then all three: rank 2 talks to both for the first time.
        let mut graph = Graph::new();
        for peer in (0..3).filter(|peer| *peer != comm.rank().0).map(Rank) {
            graph.send(Place::VOID, 4, peer, Tag(1)).expect("legal");
            graph.recv(Place::VOID, 4, Some(peer), Some(Tag(1))).expect("legal");
        }
        start(comm, &graph).wait().expect("no failure");
    });
}

#[test]
fn open_runs_match_however_they_are_cut() {
    group(2, |comm| {
        let mut values: Vec<u64> = (0..10).collect();
        if comm.rank() == Rank(0) {
            let mut graph = Graph::new();
            let mut last = None;
            for value in &mut values {
                let send = graph
                    .send(Place::user(std::ptr::from_mut(value) as u64), 8, Rank(1), Tag(0))
                    .expect("legal");
                if let Some(last) = last {
                    graph.requires(last, send).expect("legal");
                }
                last = Some(send);
            }
            start_open(comm, &graph).wait().expect("no failure");
        } else {
            for i in 0..10 {
                let mut value = [0_u8; 8];
                let mut graph = Graph::new();
                graph.recv(place(&mut value), 8, Some(Rank(0)), None).expect("legal");
                start_open(comm, &graph).wait().expect("no failure");
                assert_eq!(u64::from_ne_bytes(value), i);
            }
        }
    });
}

#[test]
fn progress_without_a_single_call() {
    group(2, |comm| {
        for bytes in [8_u64, 2 << 20] {
            let mut buffer = vec![comm.rank().0 as u8; bytes as usize];
            let handle = start(comm, &ping_pong(comm.rank(), 50, place(&mut buffer), bytes));
            let mut waited = 0;
            while !handle.is_done() {
                std::thread::sleep(Duration::from_millis(1));
                waited += 1;
                assert!(waited < 20_000, "nobody makes progress");
            }
            handle.wait().expect("no failure");
        }
    });
}

#[test]
fn messages_to_oneself() {
    group(1, |comm| {
        for bytes in [0_u64, 16, 5000, 2 << 20] {
            for receive_first in [false, true] {
                let mut from: Vec<u8> = (0..bytes).map(|i| (i * 7) as u8).collect();
                let mut to = vec![0_u8; bytes as usize];
                let mut graph = Graph::new();
                let send = graph.send(place(&mut from), bytes, Rank(0), Tag(9)).expect("legal");
                let recv = graph.recv(place(&mut to), bytes, Some(Rank(0)), Some(Tag(9))).expect("legal");
                let wait = graph.calc(1).expect("legal");
                graph.requires(wait, if receive_first { send } else { recv }).expect("legal");
                start(comm, &graph).wait().expect("no failure");
                assert_eq!(from, to);
            }
        }
    });
}

#[test]
fn local_operations_and_time_stamps() {
    group(1, |comm| {
        let add = Arithmetic::new(Operator::Add, ElementType::F64).expect("legal");
        let copy = Arithmetic::new(Operator::Copy, ElementType::U8).expect("legal");
        let mut numbers: Vec<f64> = (0..100).map(f64::from).collect();
        let mut stamps = [0_f64; 2];
        let mut graph = Graph::new();
        graph.allocate_scratchpad(800);
        let (all, scratch) = (Place::user(numbers.as_mut_ptr() as u64), Place::scratch(0));
        let first = graph.wtime(Place::user(stamps.as_mut_ptr() as u64)).expect("legal");
        let save = graph.local(all, Place::VOID, scratch, copy, 800).expect("legal");
        let twice = graph.local(all, scratch, all, add, 100).expect("legal");
        let again = graph.local(all, all, all, add, 100).expect("legal");
        let last = graph.wtime(Place::user(stamps.as_mut_ptr() as u64 + 8)).expect("legal");
        for (before, after) in [(first, save), (save, twice), (twice, again), (again, last)] {
            graph.requires(before, after).expect("legal");
        }
        start(comm, &graph).wait().expect("no failure");
        assert!(numbers.iter().enumerate().all(|(i, n)| *n == 4.0 * i as f64));
        assert!(stamps[0] > 0.0 && stamps[1] >= stamps[0]);
    });
}

#[test]
fn put_and_get_reach_the_peers_scratchpad() {
    for bytes in [8_u64, 50_000] {
        group(2, |comm| {
            let me = comm.rank();
            let peer = Rank(1 - me.0);
            let mut mine = vec![me.0 as u8 + 1; bytes as usize];
            let (mut got, mut put_here) = (vec![0_u8; bytes as usize], vec![0_u8; bytes as usize]);
            let copy = Arithmetic::new(Operator::Copy, ElementType::U8).expect("legal");
            let mut graph = Graph::new();
            graph.allocate_scratchpad(2 * bytes);
            // Half 0 is for the peer's put; half 1 is what the peer gets.
            let expose = graph
                .local(place(&mut mine), Place::VOID, Place::scratch(bytes), copy, bytes)
                .expect("legal");
            let put = graph.put(place(&mut mine), bytes, peer, Place::scratch(0)).expect("legal");
            let tell = graph.send(Place::VOID, 1, peer, Tag(0)).expect("legal");
            let told = graph.recv(Place::VOID, 1, Some(peer), Some(Tag(0))).expect("legal");
            let take = graph
                .local(Place::scratch(0), Place::VOID, place(&mut put_here), copy, bytes)
                .expect("legal");
            let get = graph.get(place(&mut got), bytes, peer, Place::scratch(bytes)).expect("legal");
            let done = graph.send(Place::VOID, 1, peer, Tag(1)).expect("legal");
            graph.recv(Place::VOID, 1, Some(peer), Some(Tag(1))).expect("legal");
            for (before, after) in [(expose, tell), (put, tell), (told, take), (told, get), (get, done)] {
                graph.requires(before, after).expect("legal");
            }
            start(comm, &graph).wait().expect("no failure");
            assert!(got.iter().chain(&put_here).all(|byte| *byte == peer.0 as u8 + 1));
        });
    }
}

#[test]
fn different_sizes_fail_on_both_sides_with_names() {
    for bytes in [16_u64, 100_000] {
        group(2, |comm| {
            let mut graph = Graph::new();
            let mut wrong = vec![0_u8; bytes as usize + 1];
            if comm.rank() == Rank(0) {
                graph.send(place(&mut wrong), bytes, Rank(1), Tag(4)).expect("legal");
                // Keeps the run open until the receiver has seen the size.
                graph.recv(Place::VOID, 1, Some(Rank(1)), Some(Tag(5))).expect("legal");
            } else {
                let bad =
                    graph.recv(place(&mut wrong), bytes + 1, Some(Rank(0)), Some(Tag(4))).expect("legal");
                graph.set_label(bad, "bad").expect("a label");
                let send = graph.send(Place::VOID, 1, Rank(0), Tag(5)).expect("legal");
                graph.requires(bad, send).expect("legal");
            }
            let failure = start(comm, &graph).wait().expect_err("sizes differ");
            if comm.rank() == Rank(1) {
                assert_eq!(
                    failure.cause,
                    Cause::SizeMismatch { peer: Rank(0), sent: bytes, expected: bytes + 1 }
                );
                assert!(failure.to_string().contains("`bad: recv"), "{failure}");
            } else {
                assert!(matches!(failure.cause, Cause::PeerFailed { peer: Rank(1), .. }), "{failure}");
            }
        });
    }
}

#[test]
fn tiny_queues_lose_and_reorder_nothing() {
    group_with(&JobOptions { queue_slots: 16, ..JobOptions::new(3) }, |comm| many_to_one(comm, 2000));
}

/// Ranks 1 … send `each` messages of growing sizes to rank 0, which receives them a while later.
fn many_to_one(comm: &Comm, each: u32) {
    let senders = comm.size() - 1;
    let mut boxes = vec![[0_u64; 16]; (each * senders) as usize];
    let mut graph = Graph::new();
    let size = |i: u32| 8 + 8 * u64::from(i % 16);
    if comm.rank() == Rank(0) {
        std::thread::sleep(Duration::from_millis(5));
        for (at, slot) in boxes.iter_mut().enumerate() {
            let (source, i) = (Rank(at as u32 % senders + 1), at as u32 / senders);
            graph
                .recv(Place::user(slot.as_mut_ptr() as u64), size(i), Some(source), Some(Tag(0)))
                .expect("legal");
        }
    } else {
        for (at, slot) in boxes.iter_mut().enumerate().take(each as usize) {
            *slot = [u64::from(comm.rank().0) << 32 | at as u64; 16];
            graph
                .send(Place::user(slot.as_mut_ptr() as u64), size(at as u32), Rank(0), Tag(0))
                .expect("legal");
        }
    }
    start(comm, &graph).wait().expect("no failure");
    if comm.rank() == Rank(0) {
        for (at, slot) in boxes.iter().enumerate() {
            let (source, i) = (at as u64 % u64::from(senders) + 1, at as u64 / u64::from(senders));
            assert_eq!(slot[0], source << 32 | i);
        }
    }
}

#[test]
fn large_messages_move_while_nobody_waits() {
    const ROUNDS: usize = 40;
    for bytes in [10_000, 300_000, 2 << 20] {
        let options = JobOptions { progress: Progress::Thread, ..JobOptions::new(2) };
        group_with(&options, |comm| {
            let mut buffers = [vec![1_u8; bytes], vec![0; bytes]];
            let [to, from] = buffers.each_mut().map(|buffer| place(buffer));
            let peer = Rank(1 - comm.rank().0);
            let mut graph = Graph::new();
            graph.send(to, bytes as u64, peer, Tag(0)).expect("legal");
            graph.recv(from, bytes as u64, Some(peer), Some(Tag(0))).expect("legal");
            for _ in 0..ROUNDS {
                let run = start(comm, &graph);
                while !run.is_done() {
                    std::thread::yield_now(); // computes, so to speak
                }
                run.wait().expect("no failure");
            }
            // A message may come in the moment in which a sleep ends by itself, but not again and again.
            let overslept = comm.counters().overslept;
            assert!(overslept < 4, "{bytes} bytes: {overslept} of {ROUNDS} runs waited for nothing");
        });
    }
}
