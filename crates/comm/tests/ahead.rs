//! Many messages ahead of their receives: the receiver keeps a bounded part of them, the senders the rest, and each
//! receive gets the right one.

mod group;

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::engine::UNEXPECTED_BUDGET_BYTES;
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::Place;
use group::{group, start, start_open};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes a message.
const BYTES: u64 = 1024;
/// What may still come after the budget is used up: queues, and what was sent before the sender heard of it.
const SLACK_BYTES: u64 = 4 << 20;

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
    assert!(most <= budget + SLACK_BYTES, "{order:?}: {most} bytes were kept");
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
    // Whoever finds out counts: the receiver, or a sender that delivers straight into the receiver's run.
    let orphans = AtomicU64::new(0);
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
        // The receiver stays until the last one has gone out.
        let mut last = Graph::new();
        if comm.rank() == Rank(1) {
            last.send(Place::VOID, 0, Rank(0), GO).expect("legal");
        } else {
            last.recv(Place::VOID, 0, Some(Rank(1)), Some(GO)).expect("legal");
        }
        run(comm, &last, false);
        orphans.fetch_add(comm.counters().orphans, Ordering::Relaxed);
        if comm.rank() == Rank(0) {
            assert!(most < ROUNDS * EACH * BYTES / 4, "{most} bytes of finished runs were kept");
        }
    });
    // Groups ran for each way of progress.
    assert_eq!(orphans.into_inner(), 2 * ROUNDS * EACH);
}
