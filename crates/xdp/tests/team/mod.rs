//! Ranks on hosts of their own, each in a thread, with schedules of collective operations.

use crate::hosts::Hosts;
use castell_base::Rank;
use castell_collectives::collective::{Collective, Memory, Shape};
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use castell_goal::schedule::Schedule;
use castell_xdp::{Compiled, Group, Interface, Mode, Patience, Session, XdpError};
use std::sync::atomic::{AtomicU64, Ordering};

/// An interface a host.
pub fn interfaces(hosts: &Hosts, count: u32, mode: Mode) -> Vec<Interface> {
    let open = |host: u32| hosts.on(host as usize, || Interface::open("e0", mode));
    (0..count).map(|host| open(host).unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// The schedule of a rank: what it contributes lies at the start of the scratchpad, what it gets behind that.
pub fn schedule(collective: &Collective, rank: Rank) -> Schedule {
    let bytes = collective.shape().count * collective.shape().element_bytes;
    let sum = Arithmetic::new(Operator::Add, ElementType::I64).expect("legal");
    let mut graph = Graph::new();
    graph.allocate_scratchpad(2 * bytes);
    let [input, output, temporary] = [0, bytes, 2 * bytes].map(Place::scratch);
    let memory = Memory { input, output, temporary, in_place: false, combine: &sum };
    collective.weave(rank, &memory, &mut graph).expect("legal");
    graph.compile().expect("it compiles")
}

/// A session a rank, all with a number that there was not before.
pub fn sessions(interfaces: &[Interface], name: &str, count: u64, patience: Patience) -> Vec<Session> {
    static NEXT: AtomicU64 = AtomicU64::new(0x5E55_1011_0000_0001);
    let session = NEXT.fetch_add(1 << 20, Ordering::Relaxed);
    let ranks = interfaces.len() as u32;
    let macs: Vec<_> = (0..).map(Rank).zip(interfaces.iter().map(Interface::mac)).collect();
    let collective =
        Collective::new(name, Shape::new(ranks, count, 8)).unwrap_or_else(|error| panic!("{error}"));
    let make = |(me, interface): (u32, &Interface)| -> Result<Session, XdpError> {
        let compiled = Compiled::new(&schedule(&collective, Rank(me)), Rank(me))
            .unwrap_or_else(|misfit| panic!("{misfit}"));
        Session::new(interface, compiled, Group { me: Rank(me), session, macs: macs.clone() }, patience)
    };
    (0..).zip(interfaces).map(|at| make(at).unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// What rank `me` contributes to a run.
pub fn contribution(me: u32, run: u32, count: u64) -> Vec<i64> {
    (0..count as i64).map(|at| (at - 3) * i64::from(me + 1) * 1_000_003 + i64::from(run)).collect()
}

pub fn to_bytes(elements: &[i64]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_ne_bytes()).collect()
}

/// Has all ranks do so many runs, up to `deep` of them under way at once, and compares what each got.
pub fn run(sessions: Vec<Session>, name: &str, count: u64, runs: u32, deep: u32) {
    let ranks = sessions.len() as u32;
    let operation = name.split(':').next().expect("a name");
    let one = |mut session: Session, me: u32| -> Result<(), XdpError> {
        let mut started = std::collections::VecDeque::new();
        for number in 0..runs {
            let run = session.start(&to_bytes(&input(operation, me, number, count)))?;
            started.push_back((number, run));
            while started.len() as u32 >= deep || (number + 1 == runs && !started.is_empty()) {
                let (number, run) = started.pop_front().expect("it is there");
                session.wait(run)?;
                let mut scratch = vec![0; 2 * 8 * count as usize];
                session.read(run, &mut scratch);
                if let Some(expected) = output(operation, ranks, number, count) {
                    let at = if operation == "bcast" && me == 0 { 0 } else { 8 * count as usize };
                    assert!(
                        operation == "bcast" && me == 0 || scratch[at..] == to_bytes(&expected),
                        "{name}: rank {me}, run {}",
                        run.0
                    );
                }
            }
        }
        session.finish()
    };
    let outcomes: Vec<Result<(), XdpError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .into_iter()
            .zip(0..)
            .map(|(session, me)| scope.spawn(move || one(session, me)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    for (me, outcome) in outcomes.into_iter().enumerate() {
        outcome.unwrap_or_else(|error| panic!("{name} with {ranks} ranks: rank {me}: {error}"));
    }
}

fn input(operation: &str, me: u32, run: u32, count: u64) -> Vec<i64> {
    match operation {
        "barrier" => Vec::new(),
        // The root contributes what lies in the output.
        "bcast" => [contribution(me, run, count), contribution(me, run, count)].concat(),
        _ => contribution(me, run, count),
    }
}

fn output(operation: &str, ranks: u32, run: u32, count: u64) -> Option<Vec<i64>> {
    match operation {
        "barrier" => None,
        "bcast" => Some(contribution(0, run, count)),
        _ => {
            let all: Vec<Vec<i64>> = (0..ranks).map(|rank| contribution(rank, run, count)).collect();
            Some((0..count as usize).map(|at| all.iter().map(|one| one[at]).sum()).collect())
        }
    }
}
