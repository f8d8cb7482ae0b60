//! Whole jobs of many ranks in one thread, in virtual time, from one seed: random programs over engines whose transport is slow and
//! full whenever it likes. Nothing sleeps, no process is started; a seed that fails is printed and fails again.

use crate::Failure;
use crate::handle_state::HandleState;
use crate::messages::attach_to;
use crate::runs::Scope;
use crate::turn::Engine;
use castell_base::random::Philox;
use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::Place;
use castell_shm::job::{Death, Job, JobOptions, Progress};
use castell_transport::faults::{Faults, Profile};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Turns of all ranks together after which a job counts as hanging.
const TURNS_MAX: usize = 20_000;
/// The default number of seeds.
const SEEDS: u64 = 100;

struct Random(Philox);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        use rand::RngCore as _;
        (self.0.next_u64() % end as u64) as usize
    }
}

/// A message of the program.
struct Message {
    from: usize,
    to: usize,
    tag: u32,
    sent: Vec<u8>,
    received: Vec<u8>,
}

/// Messages in an order in which a job can always go on; those of a pair and a tag are of one length.
fn messages(random: &mut Random, ranks: usize) -> Vec<Message> {
    let count = 1 + random.below(40);
    let mut lengths = BTreeMap::new();
    let messages = (0..count).map(|number| {
        let (from, tag) = (random.below(ranks), random.below(3) as u32);
        let to = (from + 1 + random.below(ranks - 1)) % ranks;
        let length = [0, 8, 33, 500, 3000, 70_000][random.below(6)];
        let length = *lengths.entry((from, to, tag)).or_insert(length);
        let sent = (0..length).map(|at| (number * 31 + at * 7) as u8).collect();
        Message { from, to, tag, sent, received: vec![0xEE; length] }
    });
    messages.collect()
}

/// One rank's part: its operations in the order of the messages, each behind some before it. Of the same pair and tag one starts
/// after the other, since they meet in the order in which they start.
fn graph(random: &mut Random, messages: &mut [Message], rank: usize) -> Graph {
    let mut graph = Graph::new();
    let mut last: BTreeMap<(usize, usize, u32), Vertex> = BTreeMap::new();
    for message in messages.iter_mut().filter(|message| message.from == rank || message.to == rank) {
        let (bytes, tag) = (message.sent.len() as u64, Tag(message.tag));
        let vertex = if message.from == rank {
            let place = Place::user(message.sent.as_mut_ptr() as u64);
            graph.send(place, bytes, Rank(message.to as u32), tag)
        } else {
            let place = Place::user(message.received.as_mut_ptr() as u64);
            graph.recv(place, bytes, Some(Rank(message.from as u32)), Some(tag))
        };
        let vertex = vertex.expect("a legal operation");
        if vertex.index() > 0 && random.below(2) == 0 {
            let before = Vertex(random.below(vertex.index()) as u32);
            graph.requires(before, vertex).expect("an edge forward");
        }
        if let Some(before) = last.insert((message.from, message.to, message.tag), vertex) {
            graph.irequires(before, vertex).expect("an edge forward");
        }
    }
    graph
}

/// How each rank's run ended; `None`: it never did.
type Outcomes = Vec<Option<Result<(), Failure>>>;

/// Runs a job; `killed`: a rank that dies in the middle.
fn run(seed: u64, kills: bool) -> (Vec<Message>, Outcomes, Option<usize>) {
    let mut random = Random(Philox::new(seed, Rank(0), 0, 1));
    let ranks = 2 + random.below(4);
    let options = JobOptions {
        queue_slots: 64,
        eager_bytes: 512,
        rings: random.below(2) == 0,
        pipes: random.below(2) == 0,
        progress: Progress::Thread,
        ..JobOptions::new(ranks as u32)
    };
    let job = Arc::new(Job::create(&options).expect("a small job"));
    let faults = Faults::new(seed, Profile::ROUGH);
    let mut engines: Vec<Engine> = (0..ranks as u32)
        .map(|rank| {
            job.join(Rank(rank), std::process::id(), 0, &[0]).expect("nobody has it");
            // SAFETY: one end a rank of a job of its own, all in this thread.
            let port = unsafe { attach_to(&job, Rank(rank), &faults) };
            Engine::new(&job, Rank(rank), port, None, |_| String::new())
        })
        .collect();
    let mut messages = messages(&mut random, ranks);
    let states: Vec<Arc<HandleState>> = (0..ranks)
        .map(|rank| {
            let schedule = graph(&mut random, &mut messages, rank).compile().expect("a legal graph");
            let Engine { messages, runs, .. } = &mut engines[rank];
            let state = Arc::new(HandleState::new(runs.table.next_serial(), None, None));
            runs.start(messages, &Arc::new(schedule), Scope::Open, Arc::clone(&state), false);
            state
        })
        .collect();
    let killed = kills.then(|| (random.below(ranks), random.below(100)));
    let is_dead = |rank: usize, turn: usize| killed.is_some_and(|(who, when)| who == rank && turn >= when);
    for turn in 0..TURNS_MAX {
        if killed.is_some_and(|(_, when)| when == turn) {
            let rank = Rank(killed.expect("looked at").0 as u32);
            job.mark_dead(rank, Death::Signaled(9));
        }
        let rank = random.below(ranks);
        if !is_dead(rank, turn) {
            engines[rank].turn();
        }
        let has_ended = |rank: usize| states[rank].is_done() && engines[rank].is_at_rest();
        if (0..ranks).all(|rank| is_dead(rank, turn) || has_ended(rank)) {
            break;
        }
    }
    let outcomes = states.iter().map(|state| state.outcome()).collect();
    (messages, outcomes, killed.map(|(rank, _)| rank))
}

/// One seed's, or those of `CASTELL_SEED` and after it.
fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("CASTELL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    first..first + SEEDS
}

#[test]
fn every_message_comes_once_and_in_the_order_of_posting() {
    let start = std::time::Instant::now();
    for seed in seeds() {
        let (messages, outcomes, _) = run(seed, false);
        for (rank, outcome) in outcomes.into_iter().enumerate() {
            assert_eq!(outcome, Some(Ok(())), "CASTELL_SEED={seed}: rank {rank}");
        }
        for (number, message) in messages.iter().enumerate() {
            assert!(message.received == message.sent, "CASTELL_SEED={seed}: message {number}");
        }
    }
    println!("{SEEDS} jobs in {:?}", start.elapsed());
}

#[test]
fn deaths_name_culprits_and_nothing_hangs() {
    let mut failed = 0;
    for seed in seeds() {
        let (_, outcomes, killed) = run(seed, true);
        let killed = killed.expect("one is");
        let has_failed = |rank: usize| rank == killed || matches!(outcomes[rank], Some(Err(_)));
        for (rank, outcome) in outcomes.iter().enumerate().filter(|(rank, _)| *rank != killed) {
            let outcome =
                outcome.as_ref().unwrap_or_else(|| panic!("CASTELL_SEED={seed}: rank {rank} hangs"));
            if let Err(failure) = outcome {
                // Who hears of a failure sooner than of its cause names the rank that failed.
                let culprit = failure.cause.culprit(Rank(rank as u32));
                assert!(has_failed(culprit.index()), "CASTELL_SEED={seed}: rank {rank}: {failure}");
                failed += 1;
            }
        }
    }
    assert!(failed > SEEDS / 4, "{failed} runs failed: ranks die too late");
}
