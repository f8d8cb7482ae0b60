//! Runs that any process may carry on: patterns of several rounds, with buffers in scratchpads and elsewhere, many at once,
//! started at random times, and mixed with runs that only their own process carries on.

use crate::group::{group_with, seed};
use castell_base::{Rank, Tag};
use castell_comm::job::{JobOptions, Progress};
use castell_comm::{Comm, Handle};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use castell_goal::schedule::Schedule;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::time::Duration;

/// Groups that are tried.
const GROUPS: u64 = 60;
/// Runs of a schedule that go on at once.
const AT_ONCE: usize = 3;

/// In each round every rank sends its sum to one rank and adds what it gets from another.
struct Pattern {
    /// By round: rank r sends to `(r + shift) % ranks`.
    shifts: Vec<u32>,
    ranks: u32,
    /// Elements a message.
    count: u64,
    /// Ranks whose runs cannot lie in shared memory.
    private: Vec<bool>,
    /// Ranks whose sum lies in user memory.
    user: Vec<bool>,
}

impl Pattern {
    fn draw(random: &mut ChaCha8Rng) -> Pattern {
        let ranks = random.random_range(2..=9);
        let rounds = random.random_range(1..=8);
        Pattern {
            shifts: (0..rounds).map(|_| random.random_range(0..ranks)).collect(),
            ranks,
            count: [1, 1, 4, 100, 1000][random.random_range(0..5)],
            private: (0..ranks).map(|_| random.random_range(0..4) == 0).collect(),
            user: (0..ranks).map(|_| random.random_range(0..3) == 0).collect(),
        }
    }

    /// What every rank ends with when rank r starts with `start(r)`.
    fn serial(&self, start: impl Fn(u32) -> u64) -> Vec<u64> {
        let mut sums: Vec<u64> = (0..self.ranks).map(start).collect();
        for shift in &self.shifts {
            let before = sums.clone();
            for rank in 0..self.ranks {
                let to = (rank + shift) % self.ranks;
                sums[to as usize] = sums[to as usize].wrapping_add(before[rank as usize]);
            }
        }
        sums
    }

    /// The graph of `me`, from `input` to `output` (addresses).
    fn graph(&self, me: Rank, input: u64, output: u64) -> Graph {
        let bytes = self.count * 8;
        let arithmetic = |operator| Arithmetic::new(operator, ElementType::U64).expect("legal");
        let mut graph = Graph::new();
        graph.allocate_scratchpad(bytes * (1 + self.shifts.len() as u64));
        let is_user = self.user[me.index()];
        let sum = if is_user { Place::user(output) } else { Place::scratch(0) };
        let copy = |graph: &mut Graph, from: Place, to: Place| {
            graph.local(from, from, to, arithmetic(Operator::Copy), self.count).expect("legal")
        };
        let mut last = copy(&mut graph, Place::user(input), sum);
        let mut sent: Option<Vertex> = None;
        for (round, shift) in self.shifts.iter().enumerate() {
            let to = Rank((me.0 + shift) % self.ranks);
            let from = Rank((me.0 + self.ranks - shift) % self.ranks);
            let landing = Place::scratch(bytes * (1 + round as u64));
            let send = graph.send(sum, bytes, to, Tag(round as u32)).expect("legal");
            let recv = graph.recv(landing, bytes, Some(from), Some(Tag(round as u32))).expect("legal");
            let add = graph.local(sum, landing, sum, arithmetic(Operator::Add), self.count).expect("legal");
            graph.requires(last, send).expect("legal");
            graph.requires(recv, add).expect("legal");
            graph.requires(send, add).expect("legal");
            if round % 2 == 1 {
                // Some receives are posted late: their messages wait apart from the scratchpad.
                graph.requires(last, recv).expect("legal");
            }
            (last, sent) = (add, Some(send));
        }
        if !is_user {
            let out = copy(&mut graph, sum, Place::user(output));
            graph.requires(last, out).expect("legal");
            graph.requires(sent.unwrap_or(last), out).expect("legal");
        }
        if self.private[me.index()] {
            graph.calc(1).expect("legal");
        }
        graph
    }
}

fn run(comm: &Comm, pattern: &Pattern, seed: u64) {
    let me = comm.rank();
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ u64::from(me.0) << 32);
    let mut memory = vec![0_u64; 2 * AT_ONCE * pattern.count as usize];
    let base = memory.as_mut_ptr() as u64;
    let place = |at: usize| base + at as u64 * pattern.count * 8;
    let start = |rank: u32, at: usize, round: u64| u64::from(rank) * 1000 + at as u64 * 17 + round * 7 + 1;
    let schedules: Vec<Arc<Schedule>> = (0..AT_ONCE)
        .map(|at| {
            let graph = pattern.graph(me, place(at), place(AT_ONCE + at));
            Arc::new(graph.compile().expect("compiles"))
        })
        .collect();
    for round in 0..5 {
        let elements = pattern.count as usize;
        for at in 0..AT_ONCE {
            memory[at * elements..][..elements].fill(start(me.0, at, round));
        }
        let mut handles: Vec<Handle> = Vec::new();
        for (at, schedule) in schedules.iter().enumerate() {
            if random.random_range(0..4) == 0 {
                std::thread::sleep(Duration::from_micros(random.random_range(0..300)));
            }
            if at + 1 == AT_ONCE && random.random_range(0..3) == 0 {
                // A run that is waited for at once lies in its own process.
                // SAFETY: as below.
                unsafe { comm.execute(schedule) }.expect("starts").expect("no failure");
                continue;
            }
            // SAFETY: the memory outlives the waits below, and nobody touches it before.
            handles.push(unsafe { comm.run(schedule) }.expect("starts"));
        }
        if random.random_range(0..2) == 0 {
            // Somebody has to carry the runs on meanwhile.
            let patience = std::time::Instant::now();
            while !handles.iter().all(Handle::is_done) {
                assert!(
                    patience.elapsed() < Duration::from_secs(20),
                    "rank {me}: nobody carries the runs on"
                );
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        for handle in handles {
            handle.wait().expect("no failure");
        }
        for at in 0..AT_ONCE {
            let expected = pattern.serial(|rank| start(rank, at, round))[me.index()];
            let got = &memory[(AT_ONCE + at) * elements..][..elements];
            assert!(got.iter().all(|sum| *sum == expected), "rank {me}, run {at}: {got:?}, not {expected}");
        }
    }
}

#[test]
fn sums_come_out_whoever_carries() {
    let seed = seed();
    for group in 0..GROUPS {
        let seed = seed + group;
        let pattern = Pattern::draw(&mut ChaCha8Rng::seed_from_u64(seed));
        let options = JobOptions { progress: Progress::Peers, ..JobOptions::new(pattern.ranks) };
        group_with(&options, |comm| run(comm, &pattern, seed));
    }
}

#[test]
fn a_schedule_that_nobody_waits_for_ends() {
    let options = JobOptions { progress: Progress::Peers, ..JobOptions::new(4) };
    let pattern = Pattern {
        shifts: vec![1, 2, 1, 3],
        ranks: 4,
        count: 2,
        private: vec![false; 4],
        user: vec![false; 4],
    };
    group_with(&options, |comm| run(comm, &pattern, 1));
}

/// What a rank sends before its receiver has started its run waits, here or there; it does not change places.
#[test]
fn sends_that_are_held_back_keep_their_order() {
    const SENDS: u64 = 6;
    let started = std::sync::Barrier::new(2);
    let options = JobOptions { progress: Progress::Peers, ..JobOptions::new(2) };
    // The receiver's run is its own, or lies in a block.
    for takes_any in [true, false] {
        group_with(&options, |comm| {
            let mut bytes = [0_u8; 64];
            let user = Place::user(bytes.as_mut_ptr() as u64);
            let mut graph = Graph::new();
            graph.allocate_scratchpad(64);
            let mut last = None;
            for number in 0..SENDS {
                let tag = Tag(number as u32);
                let vertex = if comm.rank() == Rank(0) {
                    // By turns what any process may send and what only this one may.
                    let from = if number % 2 == 0 { Place::scratch(0) } else { user };
                    graph.send(from, number, Rank(1), tag)
                } else {
                    graph.recv(user, number, Some(Rank(0)), (!takes_any).then_some(tag))
                };
                let vertex = vertex.expect("legal");
                if let Some(last) = last.replace(vertex) {
                    graph.irequires(last, vertex).expect("legal");
                }
            }
            let schedule = Arc::new(graph.compile().expect("compiles"));
            if comm.rank() == Rank(1) {
                started.wait();
            }
            // SAFETY: waited for below.
            let run = unsafe { comm.run(&schedule) }.expect("starts");
            if comm.rank() == Rank(0) {
                started.wait();
            }
            run.wait().expect("sizes match in this order only");
        });
    }
}
