//! What a message costs from program to program: two interfaces that are the ends of one veth pair, and messages to and fro between them, with no
//! process in between. `unshare -n target/release/examples/hops`

use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::Place;
use castell_xdp::{Compiled, Group, Interface, Mode, Patience, Session};
use std::process::Command;

/// To and fro in one run.
const ROUNDS: usize = 100;
const RUNS: usize = 200;

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).status().expect("`ip` is there");
    assert!(done.success(), "ip {words}: run this as root, in a network namespace of its own (`unshare -n`)");
}

/// Rank 0 sends so many messages at once, rank 1 answers when all are there.
fn rounds(me: u32, copies: u32) -> Graph {
    let (mut graph, mut before) = (Graph::new(), Vec::<Vertex>::new());
    let (other, here) = (Rank(1 - me), Place::VOID);
    for _ in 0..ROUNDS {
        let (mine, theirs) = if me == 0 { (copies, 1) } else { (1, copies) };
        let mut sends: Vec<Vertex> =
            (0..mine).map(|tag| graph.send(here, 8, other, Tag(tag)).expect("legal")).collect();
        let mut recvs: Vec<Vertex> =
            (0..theirs).map(|tag| graph.recv(here, 8, Some(other), Some(Tag(tag))).expect("legal")).collect();
        let (first, last) = if me == 0 { (&mut sends, &mut recvs) } else { (&mut recvs, &mut sends) };
        for (from, to) in [(&before, &*first), (&*first, &*last)] {
            for &target in to {
                from.iter().for_each(|&source| graph.requires(source, target).expect("legal"));
            }
        }
        before.clone_from(last);
    }
    graph
}

fn median_ns(interfaces: &[Interface; 2], copies: u32) -> u64 {
    let macs: Vec<_> = (0..).map(Rank).zip(interfaces.iter().map(Interface::mac)).collect();
    let mut sessions = [0, 1].map(|me| {
        let schedule = rounds(me, copies).compile().expect("a schedule");
        let compiled = Compiled::new(&schedule, Rank(me)).unwrap_or_else(|misfit| panic!("{misfit}"));
        let group = Group { me: Rank(me), session: 1 + u64::from(copies), macs: macs.clone() };
        Session::new(&interfaces[me as usize], compiled, group, Patience::default())
            .unwrap_or_else(|error| panic!("{error}"))
    });
    let mut took = Vec::new();
    for _ in 0..RUNS {
        // Rank 0 sends first, so it begins last.
        let runs = [1, 0].map(|me: usize| sessions[me].start(&[]).expect("it starts"));
        sessions
            .iter_mut()
            .for_each(|session| session.wait(runs[0]).unwrap_or_else(|error| panic!("{error}")));
        let stamps = sessions[0].stamps(runs[1]);
        took.push((stamps.completed_ns - stamps.armed_ns) / ROUNDS as u64);
    }
    took.sort_unstable();
    took[RUNS / 2]
}

fn main() {
    ip("link add a0 type veth peer name a1");
    ip("link set a0 up");
    ip("link set a1 up");
    println!("to and fro, median of {RUNS} runs of {ROUNDS} rounds, ns a round");
    for mode in [Mode::Native, Mode::Generic] {
        let open = |name| Interface::open(name, mode).unwrap_or_else(|error| panic!("{error}"));
        let interfaces = [open("a0"), open("a1")];
        for copies in [1, 2, 4] {
            println!("{mode:?}, {copies} there and 1 back: {}", median_ns(&interfaces, copies));
        }
        println!("{:?}", interfaces[1].counters());
    }
}
