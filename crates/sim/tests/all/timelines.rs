//! What a recorder has of puts, gets, supersteps and networks, in times that were worked out by hand.

use castell_base::Rank;
use castell_goal::text;
use castell_model::Model;
use castell_model::topology::Topology;
use castell_sim::instruments::{Counts, Recorder, Waits};
use castell_sim::{Machine, Schedules, Simulation};
use castell_trace::{Message, Timeline};
use std::sync::Arc;

fn machine(model: &str) -> Machine {
    Machine::new(Model::parse(model).unwrap_or_else(|error| panic!("{error}")))
}

fn timeline(program: &str, machine: &Machine) -> Timeline {
    let program = text::parse(program, "").unwrap_or_else(|error| panic!("{error}"));
    let schedules = Schedules::new(&program).unwrap();
    let mut recorder = Recorder::default();
    Simulation::new(&schedules, machine).run_with(&mut recorder).unwrap();
    recorder.timeline(&schedules)
}

/// From, to, bytes; when it left, when its head and when all of it was there, when its receive was over; what went into
/// latency, bandwidth and receiving. All in ns.
fn told(message: &Message) -> ([u64; 3], [u64; 4], [u64; 3]) {
    let travel = message.travel.expect("it is known what a message's time went into");
    let ns = |ps: u64| ps / 1000;
    (
        [message.from.0.into(), message.to.0.into(), message.bytes],
        [message.sent_ps, message.head_ps, message.arrived_ps, message.received_ps].map(ns),
        [travel.latency_ps, travel.bandwidth_ps, travel.receiving_ps].map(ns),
    )
}

fn messages(program: &str, machine: &Machine) -> Vec<([u64; 3], [u64; 4], [u64; 3])> {
    timeline(program, machine).messages.iter().map(told).collect()
}

/// Name, rank, begin and end in ns.
fn spans(program: &str, machine: &Machine) -> Vec<(String, u32, u64, u64)> {
    let timeline = timeline(program, machine);
    let told = |span: &castell_trace::Span| {
        (span.name.clone(), span.rank.0, span.start_ps / 1000, span.end_ps / 1000)
    };
    timeline.spans.iter().map(told).collect()
}

const PUT: &str =
    "num_ranks 2\nrank 0 { scratchpad 16b\n p: put 9b to 1 at @0 into @0 }\nrank 1 { scratchpad 16b\n }";
const GET: &str =
    "num_ranks 2\nrank 0 { scratchpad 16b\n g: get 9b from 1 at @0 into @0 }\nrank 1 { scratchpad 16b\n }";
const PLB: &str = "plb:alpha_p=500ns,alpha_r=100ns,beta=1ns";

#[test]
fn a_put_is_a_message_and_a_get_are_two() {
    // Sent after alpha_r, there after alpha_p and the bytes.
    assert_eq!(messages(PUT, &machine(PLB)), [([0, 1, 9], [100, 609, 609, 609], [500, 9, 0])]);
    // The question has no bytes; the answer leaves when it is there, and occupies nobody.
    assert_eq!(
        messages(GET, &machine(PLB)),
        [([0, 1, 0], [100, 600, 600, 600], [500, 0, 0]), ([1, 0, 9], [600, 1109, 1109, 1109], [500, 9, 0])]
    );
    // The first byte is there after o + L, the others behind it.
    let log = machine("loggops:L=1000ns,o=10ns,g=7ns,G=2ns,O=0,S=100000");
    assert_eq!(messages(PUT, &log), [([0, 1, 9], [10, 1010, 1026, 1026], [1000, 16, 0])]);
    assert_eq!(
        messages(GET, &log),
        [
            ([0, 1, 0], [10, 1010, 1010, 1010], [1000, 0, 0]),
            // The interface is told what to do, and is not occupied by o.
            ([1, 0, 9], [1010, 2010, 2026, 2026], [1000, 16, 0])
        ]
    );
    // Between them a put takes the interface: the next send waits for it.
    let text = PUT.replace("into @0 }\nrank 1 { scratchpad 16b\n }", "into @0\n s: send 1b to 1 tag 0\n s requires c\n }\nrank 1 { scratchpad 16b\n r: recv 1b from 0 tag 0 }");
    let text = text.replace("p: put", "c: calc 0\n p: put");
    let log = machine("loggops:L=1000ns,o=10ns,g=700ns,G=0,O=0,S=100000");
    assert_eq!(messages(&text, &log)[1].1, [710, 1710, 1720, 1720]);
}

#[test]
fn messages_of_a_superstep_come_after_it() {
    let bsp = machine("bsp:g=10ns,G=1ns,l=1us");
    let text = "num_ranks 2\n\
        rank 0 { c: calc 500\n s: send 8b to 1 tag 0\n s requires c }\n\
        rank 1 { w: calc 600\n r: recv 8b from 0 tag 0\n d: calc 100\n d requires r\n t: send 2b to 0 tag 1\n t requires d }";
    let text = &text.replace("rank 0 {", "rank 0 { u: recv 2b from 1 tag 1\n e: calc 7\n e requires u\n");
    // All have computed after 600; g + 8 G and the barrier later it is there. Then 100 and another superstep.
    assert_eq!(
        messages(text, &bsp),
        [
            ([0, 1, 8], [600, 1618, 1618, 1618], [1000, 18, 0]),
            ([1, 0, 2], [1718, 2730, 2730, 2730], [1000, 12, 0])
        ]
    );
    let told = [("c", 0, 0, 500), ("w", 1, 0, 600), ("d", 1, 1618, 1718), ("e", 0, 2730, 2737)];
    let told = told.map(|(name, rank, from, to)| (format!("{name}: calc"), rank, from, to));
    assert_eq!(spans(text, &bsp), told);
    // A get is told from the side that asks; in the superstep each byte is sent once.
    assert_eq!(messages(GET, &bsp), [([0, 1, 9], [0, 1019, 1019, 1019], [1000, 19, 0])]);
    assert_eq!(messages(PUT, &bsp), [([0, 1, 9], [0, 1019, 1019, 1019], [1000, 19, 0])]);
    // Two messages to one rank from two, which is the busiest.
    let text = "num_ranks 3\nrank 0 { s: send 5b to 2 tag 0 }\nrank 1 { s: send 9b to 2 tag 0 }\n\
        rank 2 { a: recv 5b from 0 tag 0\n b: recv 9b from 1 tag 0 }";
    let each = [1034, 1034, 1034];
    for (message, from) in messages(text, &bsp).iter().zip(0..) {
        assert_eq!((message.0[0], &message.1[1..], message.2), (from, &each[..], [1000, 34, 0]));
    }
}

#[test]
fn spans_are_named_by_label_and_operation() {
    let text = "num_ranks 2\n\
        rank 0 { scratchpad 16b\n calc 10\n c: sleep 20\n a: local add u64 1 @0 @8 into @8\n\
        s: send 8b to 1 tag 3\n p: put 8b to 1 at @0 into @0\n g: get 8b from 1 at @0 into @0 }\n\
        rank 1 { scratchpad 16b\n recv 8b from 0 tag 3 }";
    let machine = machine("loggops:L=1000ns,o=10ns,g=0,G=0,O=0,S=100000");
    let mut names: Vec<(String, u32)> =
        spans(text, &machine).into_iter().map(|(name, rank, ..)| (name, rank)).collect();
    names.sort_unstable();
    let expected = [
        ("c: sleep", 0),
        ("calc", 0),
        ("g: get 8 B from 1", 0),
        ("p: put 8 B to 1", 0),
        ("s: send 8 B to 1, tag 3", 0),
        ("takes in: rank 0, s: send 8 B to 1, tag 3", 1),
    ];
    assert_eq!(names, expected.map(|(name, rank)| (name.to_owned(), rank)));
    // A local operation takes time where reducing does.
    let plb = self::machine("plb:alpha_p=1ns,alpha_r=1ns,gamma=1ns");
    let (name, ..) = spans(text, &plb).into_iter().find(|(name, ..)| name.starts_with("a: ")).unwrap();
    assert_eq!(name, "a: add 1 u64");
}

/// Two links of 50 ns and 1 ns a byte; the second message waits for the first one on the second link.
#[test]
fn messages_over_links_leave_and_arrive_when_the_links_say() {
    let star = Topology::parse("star:ranks=3,link=50ns,G=1ns", &mut |_| Err(String::new())).unwrap();
    let machine = machine("plb:alpha_p=500ns,alpha_r=100ns,beta=0").with_network(Arc::new(star));
    let text = "num_ranks 3\nrank 0 { s: send 1000b to 2 tag 0 }\nrank 1 { s: send 1000b to 2 tag 0 }\n\
        rank 2 { a: recv 1000b from 0 tag 0\n b: recv 1000b from 1 tag 0\n c: send 7b to 2 tag 5\n d: recv 7b from 2 tag 5 }";
    let told = messages(text, &machine);
    // Into the network after alpha_r; two latencies, the rest of alpha_p, and the bytes behind.
    assert_eq!(told[0], ([0, 2, 1000], [100, 1700, 1700, 1700], [600, 1000, 0]));
    // 1000 ns of standing still are neither latency nor bandwidth.
    assert_eq!(told[1], ([1, 2, 1000], [100, 2700, 2700, 2700], [600, 1000, 0]));
    // Who sends to itself uses no link.
    assert_eq!(told[2], ([2, 2, 7], [100, 600, 600, 600], [500, 0, 0]));
}

/// A sender that waited for its receive goes on because the message was late, or because the receiver was busy.
#[test]
fn what_a_rendezvous_waited_for_is_told() {
    let log = machine("loggops:L=1000ns,o=10ns,g=0,G=0,O=0,S=0");
    let told = |before: &str| {
        let text = format!(
            "num_ranks 2\nrank 0 {{ s: send 8b to 1 tag 0\n c: calc 7\n c requires s }}\n\
             rank 1 {{ {before} }}"
        );
        let told = |one: &castell_trace::Dependence| (one.from.0, one.ended_ps, one.to.0, one.began_ps);
        timeline(&text, &log).dependences.iter().map(told).collect::<Vec<_>>()
    };
    // Posted in time: the message, which left at 10, is met when it comes.
    assert_eq!(told("r: recv 8b from 0 tag 0"), [(0, 10_000, 0, 1_010_000)]);
    // Posted when the receiver has computed, and has taken in the message.
    let late = told("w: calc 5000\n r: recv 8b from 0 tag 0\n r requires w");
    assert!(
        late.len() == 1 && late[0].0 == 1 && late[0].1 == late[0].3 && late[0].1 >= 5_000_000,
        "{late:?}"
    );
}

#[test]
fn counts_and_waits_are_those_of_the_run() {
    let (mut counts, mut waits) = (Counts::default(), Waits::default());
    let program = text::parse(GET, "").unwrap();
    let end = Simulation::new(&program, &machine(PLB)).run_with((&mut counts, &mut waits)).unwrap().end;
    assert_eq!((counts.sent, counts.received), (vec![1, 1], vec![1, 1]));
    assert_eq!((counts.sent_bytes, counts.received_bytes), (vec![0, 9], vec![9, 0]));
    // Rank 0 asks for 100 ns and waits for the rest.
    assert_eq!((end[0].0, waits.waiting(Rank(0), end[0]).0), (1_109_000, 1_009_000));
}
