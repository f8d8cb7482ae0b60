//! Many messages ahead of their receives: the receiver keeps a bounded part of them, the senders the rest, and each
//! receive gets the right one.

use crate::group;
use crate::group::{group, start, start_open};
use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::engine::UNEXPECTED_BUDGET_BYTES;
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes a message.
const BYTES: u64 = 1024;
/// What may still come after the budget is used up: queues, and what was sent before the sender heard of it.
const SLACK_BYTES: u64 = 4 << 20;

/// What a message costs its receiver that its sender keeps.
const HEADER_BYTES: u64 = 64;

/// Sent behind all others, and received before them.
const GO: Tag = Tag(0);

/// How the receives name their messages.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// All have one tag.
    OneTag,
    /// Each has its own, received in the order of sending.
    Forward,
    /// The last message first.
    Reverse,
    /// Each has its own, and the receives take any tag from any source.
    Wildcard,
}

/// `count` messages from rank 1 to rank 0, each with its number in its first bytes; the receives are posted when all
/// have been sent, or kept by their sender.
fn ahead(comm: &Comm, count: u64, order: Order, open: bool, budget: u64) {
    comm.set_unexpected_budget(budget);
    let mut memory = vec![0_u64; (count * BYTES / 8) as usize];
    let base = memory.as_mut_ptr() as u64;
    let place = |at: u64| Place::user(base + at * BYTES);
    let tag = |at: u64| Tag(if order == Order::OneTag { 1 } else { at as u32 + 1 });
    let mut graph = Graph::new();
    if comm.rank() == Rank(1) {
        let mut before: Option<Vertex> = None;
        for at in 0..count {
            memory[(at * BYTES / 8) as usize] = at;
            let send = graph.send(place(at), BYTES, Rank(0), tag(at)).expect("legal");
            if let Some(before) = before {
                graph.irequires(before, send).expect("legal");
            }
            before = Some(send);
        }
        let go = graph.send(Place::VOID, 0, Rank(0), GO).expect("legal");
        graph.irequires(before.expect("a message"), go).expect("legal");
        run(comm, &graph, open);
        return;
    }
    let go = graph.recv(Place::VOID, 0, Some(Rank(1)), Some(GO)).expect("legal");
    let mut before = go;
    for step in 0..count {
        let at = if order == Order::Reverse { count - 1 - step } else { step };
        let (source, tag) = match order {
            Order::Wildcard => (None, None),
            _ => (Some(Rank(1)), Some(tag(at))),
        };
        let recv = graph.recv(place(at), BYTES, source, tag).expect("legal");
        graph.requires(go, recv).expect("legal");
        if step > 0 {
            graph.irequires(before, recv).expect("legal");
        }
        before = recv;
    }
    let most = run(comm, &graph, open);
    for at in 0..count {
        assert_eq!(memory[(at * BYTES / 8) as usize], at, "{order:?}");
    }
    assert!(most <= budget + count * HEADER_BYTES + SLACK_BYTES, "{order:?}: {most} bytes were kept");
    assert!(most > budget / 2, "{order:?}: only {most} bytes came ahead");
}

/// Says how many bytes of messages this rank kept at most.
fn run(comm: &Comm, graph: &Graph, open: bool) -> u64 {
    let handle = if open { start_open(comm, graph) } else { start(comm, graph) };
    handle.wait().expect("no failure");
    comm.counters().unexpected_bytes_max
}

#[test]
fn the_receiver_keeps_no_more_than_its_budget() {
    group(2, |comm| ahead(comm, 200_000, Order::OneTag, false, UNEXPECTED_BUDGET_BYTES));
}

#[test]
fn every_receive_finds_its_message_wherever_it_is() {
    for order in [Order::OneTag, Order::Forward, Order::Reverse, Order::Wildcard] {
        group(2, |comm| ahead(comm, 20_000, order, false, 2 << 20));
    }
    for order in [Order::OneTag, Order::Forward, Order::Reverse] {
        group(2, |comm| ahead(comm, 20_000, order, true, 2 << 20));
    }
}

/// More large messages than a rank can announce at a time: those behind them ask for leave, so that a receive need not wait for
/// others that come later.
#[test]
fn many_large_messages_are_received_in_any_order() {
    const COUNT: u64 = 100;
    const LARGE: u64 = 40_000;
    group(2, |comm| {
        let mut memory = vec![0_u8; (COUNT * LARGE) as usize];
        let mut graph = Graph::new();
        let me = comm.rank().0;
        let base = memory.as_mut_ptr() as u64;
        let mut before: Option<Vertex> = None;
        for step in 0..COUNT {
            let at = if me == 1 { step } else { COUNT - 1 - step };
            let place = Place::user(base + at * LARGE);
            if me == 1 {
                memory[(at * LARGE) as usize..][..LARGE as usize].fill(at as u8 + 1);
                graph.send(place, LARGE, Rank(0), Tag(at as u32)).expect("legal");
                continue;
            }
            let recv = graph.recv(place, LARGE, Some(Rank(1)), Some(Tag(at as u32))).expect("legal");
            if let Some(before) = before {
                graph.requires(before, recv).expect("legal");
            }
            before = Some(recv);
        }
        start(comm, &graph).wait().expect("no failure");
        let is_whole = |(at, bytes): (usize, &[u8])| bytes.iter().all(|byte| *byte == at as u8 + 1);
        assert!(memory.chunks(LARGE as usize).enumerate().all(is_whole));
    });
}

#[test]
fn several_senders_share_the_budget() {
    const EACH: u64 = 10_000;
    group(4, |comm| {
        let me = comm.rank().0;
        comm.set_unexpected_budget(2 << 20);
        let mut memory = vec![0_u64; (3 * EACH * BYTES / 8) as usize];
        let base = memory.as_mut_ptr() as u64;
        let mut graph = Graph::new();
        if me > 0 {
            let go = graph.send(Place::VOID, 0, Rank(0), GO).expect("legal");
            for at in 0..EACH {
                memory[(at * BYTES / 8) as usize] = u64::from(me) << 32 | at;
                let send = graph.send(Place::user(base + at * BYTES), BYTES, Rank(0), Tag(1)).expect("legal");
                graph.irequires(send, go).expect("legal");
            }
            run(comm, &graph, false);
            return;
        }
        let begin = graph.proxy().expect("legal");
        for source in 1..4 {
            let go = graph.recv(Place::VOID, 0, Some(Rank(source)), Some(GO)).expect("legal");
            graph.requires(go, begin).expect("legal");
        }
        for at in 0..3 * EACH {
            let tag = (at % 2 == 0).then_some(Tag(1));
            let recv = graph.recv(Place::user(base + at * BYTES), BYTES, None, tag).expect("legal");
            graph.requires(begin, recv).expect("legal");
        }
        let most = run(comm, &graph, false);
        let mut next = [0_u64; 4];
        for at in 0..3 * EACH {
            let word = memory[(at * BYTES / 8) as usize];
            let (from, number) = ((word >> 32) as usize, word & 0xffff_ffff);
            assert_eq!(number, next[from], "message {at}, from rank {from}");
            next[from] += 1;
        }
        assert!(most <= (2 << 20) + SLACK_BYTES, "{most} bytes were kept");
    });
}

#[test]
fn messages_that_no_receive_takes_are_dropped_with_their_run() {
    const ROUNDS: u64 = 100;
    const EACH: u64 = 100;
    /// The sender keeps some of them after its run, and they go out while the two say what they have counted.
    const QUESTIONS_MAX: u32 = 10_000;
    // Whoever finds out counts: the receiver, or a sender that delivers straight into the receiver's run.
    let counted = [AtomicU64::new(0), AtomicU64::new(0)];
    group(2, |comm| {
        let memory = [0_u8; BYTES as usize];
        let place = Place::user(memory.as_ptr() as u64);
        let mut graph = Graph::new();
        if comm.rank() == Rank(1) {
            let go = graph.send(Place::VOID, 0, Rank(0), GO).expect("legal");
            for _ in 0..EACH {
                let send = graph.send(place, BYTES, Rank(0), Tag(1)).expect("legal");
                graph.irequires(send, go).expect("legal");
            }
            graph.recv(Place::VOID, 0, Some(Rank(0)), Some(GO)).expect("legal");
        } else {
            let go = graph.recv(Place::VOID, 0, Some(Rank(1)), Some(GO)).expect("legal");
            let answer = graph.send(Place::VOID, 0, Rank(1), GO).expect("legal");
            graph.requires(go, answer).expect("legal");
        }
        let mut most = 0;
        for _ in 0..ROUNDS {
            most = run(comm, &graph, false);
        }
        let mut last = Graph::new();
        let (sent, received) = (
            last.send(Place::VOID, 0, Rank(1 - comm.rank().0), GO).expect("legal"),
            last.recv(Place::VOID, 0, Some(Rank(1 - comm.rank().0)), Some(GO)).expect("legal"),
        );
        let (first, second) = if comm.rank() == Rank(1) { (sent, received) } else { (received, sent) };
        last.requires(second, first).expect("legal");
        let mut all = 0;
        for _ in 0..QUESTIONS_MAX {
            counted[comm.rank().index()].store(comm.counters().orphans, Ordering::Relaxed);
            // Both have said it, and both have heard it.
            run(comm, &last, false);
            all = counted.iter().map(|count| count.load(Ordering::Relaxed)).sum();
            run(comm, &last, false);
            if all == ROUNDS * EACH {
                break;
            }
        }
        assert_eq!(all, ROUNDS * EACH);
        if comm.rank() == Rank(0) {
            assert!(most < ROUNDS * EACH * BYTES / 4, "{most} bytes of finished runs were kept");
        }
    });
}

/// Puts come for runs that the receiver has not started: it keeps a bounded part of them, too.
#[test]
fn puts_ahead_of_their_runs_stay_with_the_sender() {
    const RUNS: u64 = 600;
    const PUT: u64 = 20_000;
    const BUDGET: u64 = 1 << 20;
    group(2, |comm| {
        comm.set_unexpected_budget(BUDGET);
        let mut memory = vec![0_u8; (RUNS * PUT) as usize];
        let base = memory.as_mut_ptr() as u64;
        let mut go = Graph::new();
        if comm.rank() == Rank(1) {
            let schedules = (0..RUNS).map(|run| {
                memory[(run * PUT) as usize..][..PUT as usize].fill(run as u8);
                let mut graph = Graph::new();
                graph.allocate_scratchpad(PUT);
                let local = Place::user(base + run * PUT);
                let put = graph.put(local, PUT, Rank(0), Place::scratch(0)).expect("legal");
                let told = graph.send(Place::VOID, 0, Rank(0), Tag(1)).expect("legal");
                graph.requires(put, told).expect("legal");
                graph
            });
            let graphs: Vec<Graph> = schedules.collect();
            let handles: Vec<_> = graphs.iter().map(|graph| start(comm, graph)).collect();
            go.send(Place::VOID, 0, Rank(0), GO).expect("legal");
            start_open(comm, &go).wait().expect("no failure");
            handles.iter().for_each(|handle| handle.wait().expect("no failure"));
            return;
        }
        go.recv(Place::VOID, 0, Some(Rank(1)), Some(GO)).expect("legal");
        run(comm, &go, true);
        for run in 0..RUNS {
            let mut graph = Graph::new();
            graph.allocate_scratchpad(PUT);
            let told = graph.recv(Place::VOID, 0, Some(Rank(1)), Some(Tag(1))).expect("legal");
            let kept = Place::user(base + run * PUT);
            let copy = Arithmetic::new(Operator::Copy, ElementType::U8).expect("legal");
            let copy = graph.local(Place::scratch(0), Place::VOID, kept, copy, PUT).expect("legal");
            graph.requires(told, copy).expect("legal");
            start(comm, &graph).wait().expect("no failure");
        }
        for run in 0..RUNS {
            let block = &memory[(run * PUT) as usize..][..PUT as usize];
            assert!(block.iter().all(|byte| *byte == run as u8), "the put of run {run}");
        }
        let most = comm.counters().unexpected_bytes_max;
        assert!(most <= BUDGET + SLACK_BYTES, "{most} bytes were kept");
        assert!(most > BUDGET / 2, "only {most} bytes came ahead");
    });
}

/// Gets ahead of the runs that they read from stay with who wants them.
#[test]
fn gets_ahead_of_their_runs_wait_for_them() {
    const RUNS: u64 = 300;
    group(2, |comm| {
        comm.set_unexpected_budget(4096);
        let peer = Rank(1 - comm.rank().0);
        let mut graph = Graph::new();
        graph.allocate_scratchpad(8);
        if comm.rank() == Rank(0) {
            let mut go = Graph::new();
            go.recv(Place::VOID, 0, Some(peer), Some(GO)).expect("legal");
            run(comm, &go, true);
            graph.recv(Place::VOID, 0, Some(peer), Some(Tag(1))).expect("legal");
            for _ in 0..RUNS {
                run(comm, &graph, false);
            }
            let most = comm.counters().unexpected_bytes_max;
            assert!(most <= 4096 + SLACK_BYTES, "{most} bytes were kept");
            return;
        }
        let mut words = vec![1_u64; RUNS as usize];
        let base = words.as_mut_ptr() as u64;
        let graphs = (0..RUNS).map(|run| {
            let mut graph = graph.clone();
            let told = graph.send(Place::VOID, 0, peer, Tag(1)).expect("legal");
            let get = graph.get(Place::user(base + 8 * run), 8, peer, Place::scratch(0)).expect("legal");
            graph.requires(get, told).expect("legal");
            graph
        });
        let handles: Vec<_> = graphs.map(|graph| start(comm, &graph)).collect();
        let mut go = Graph::new();
        go.send(Place::VOID, 0, peer, GO).expect("legal");
        run(comm, &go, true);
        handles.iter().for_each(|handle| handle.wait().expect("no failure"));
        assert!(words.iter().all(|word| *word == 0), "a scratchpad is zero at first");
    });
}

/// An answer that is larger than any queue goes out piece by piece, also when the run that it reads from ends meanwhile.
#[test]
fn the_answer_to_a_large_get_outlives_its_run() {
    const GET: u64 = 30_000_000;
    extern "C" fn pause(_: *mut std::ffi::c_void) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    group(2, |comm| {
        let peer = Rank(1 - comm.rank().0);
        let mut memory = vec![7_u8; GET as usize];
        let mut graph = Graph::new();
        graph.allocate_scratchpad(GET);
        if comm.rank() == Rank(0) {
            graph.recv(Place::VOID, 0, Some(peer), Some(Tag(1))).expect("legal");
            start(comm, &graph).wait().expect("no failure");
            // The memory that the run had is used again.
            start(comm, &graph).wait().expect("no failure");
            return;
        }
        let get = graph.get(group::place(&mut memory), GET, peer, Place::scratch(0)).expect("legal");
        let told = graph.send(Place::VOID, 0, peer, Tag(1)).expect("legal");
        let call = graph.call(pause as *const () as u64, 0).expect("legal");
        graph.irequires(get, told).expect("legal");
        graph.requires(told, call).expect("legal");
        start(comm, &graph).wait().expect("no failure");
        assert!(memory.iter().all(|byte| *byte == 0), "a scratchpad is zero at first");
        let mut last = Graph::new();
        last.send(Place::VOID, 0, peer, Tag(1)).expect("legal");
        start(comm, &last).wait().expect("no failure");
    });
}
