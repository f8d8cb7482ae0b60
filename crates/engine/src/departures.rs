//! Ranks that leave as soon as they have done their part, in one thread, step by step: whoever waits for that part has it, whenever it looks
//! between their steps.

use crate::Failure;
use crate::handle_state::HandleState;
use crate::messages::{Gone, attach_to};
use crate::runs::Scope;
use crate::turn::Engine;
use castell_base::{Rank, Tag};
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use castell_shm::job::{Job, JobOptions, Progress};
use castell_shm::rendezvous::PIPE_BYTES;
use castell_transport::faults::Faults;
use std::sync::Arc;

const SENDER: usize = 0;
const RECEIVER: usize = 1;
/// More turns of both than any message takes.
const TURNS_MAX: usize = 200;

/// A way for a message from rank 0 to rank 1.
struct Case {
    name: &'static str,
    bytes: usize,
    has_pipes: bool,
    /// It lies in the sender's pool.
    is_pooled: bool,
    /// The receiver may not read the sender's memory.
    is_forbidden: bool,
}

const PLAIN: Case =
    Case { name: "queue", bytes: 100, has_pipes: true, is_pooled: false, is_forbidden: false };

const CASES: [Case; 6] = [
    PLAIN,
    Case { name: "pipe", bytes: 100_000, ..PLAIN },
    Case { name: "full pipe", bytes: 3 * PIPE_BYTES as usize + 5, ..PLAIN },
    Case { name: "copy", bytes: 1_100_000, has_pipes: false, ..PLAIN },
    Case { name: "pool", bytes: 1_100_000, is_pooled: true, ..PLAIN },
    Case { name: "fragments", bytes: 100_000, has_pipes: false, is_forbidden: true, ..PLAIN },
];

/// Both ranks of a job of two, in one thread.
pub(crate) fn engines_of(job: &Arc<Job>) -> [Engine; 2] {
    let faults = Faults::new(0, Default::default());
    [0, 1].map(|rank| {
        job.join(Rank(rank), std::process::id(), 0, &[0]).expect("nobody has it");
        // SAFETY: one end a rank of a job of its own, all in this thread.
        let port = unsafe { attach_to(job, Rank(rank), &faults) };
        Engine::new(job, Rank(rank), port, None, |_| String::new())
    })
}

/// A job of two, whose message has yet to go.
struct Pair {
    job: Arc<Job>,
    engines: [Engine; 2],
    states: [Arc<HandleState>; 2],
    /// What is sent and where it is received, for as long as the engines are there.
    _buffers: [Vec<u8>; 2],
    received: *const u8,
}

impl Pair {
    fn new(case: &Case) -> Pair {
        let options = JobOptions { pipes: case.has_pipes, progress: Progress::Thread, ..JobOptions::new(2) };
        let job = Arc::new(Job::create(&options).expect("a small job"));
        let mut engines = engines_of(&job);
        if case.is_forbidden {
            engines[RECEIVER].messages.forbid_reading(Rank(SENDER as u32));
        }
        let mut buffers = [(); 2].map(|()| vec![0; case.bytes]);
        let [out, into] = buffers.each_mut().map(|buffer| buffer.as_mut_ptr());
        let out = if case.is_pooled { job.of_pool(Rank(SENDER as u32), 0, case.bytes) } else { out };
        // SAFETY: so many bytes lie there, and nobody else uses them.
        unsafe { std::slice::from_raw_parts_mut(out, case.bytes) }
            .iter_mut()
            .enumerate()
            .for_each(|(at, to)| *to = byte(at));
        let graphs = [SENDER, RECEIVER].map(|rank| {
            let mut graph = Graph::new();
            let (bytes, tag) = (case.bytes as u64, Tag(0));
            match rank {
                SENDER => graph.send(Place::user(out as u64), bytes, Rank(1), tag),
                _ => graph.recv(Place::user(into as u64), bytes, Some(Rank(0)), Some(tag)),
            }
            .expect("legal");
            graph
        });
        let mut graphs = graphs.into_iter();
        let states = engines.each_mut().map(|engine| {
            let schedule = graphs.next().expect("one each").compile().expect("a legal graph");
            let Engine { messages, runs, .. } = engine;
            let state = Arc::new(HandleState::new(runs.table.next_serial(), None, None));
            runs.start(messages, &Arc::new(schedule), Scope::Open, Arc::clone(&state), false);
            state
        });
        Pair { job, engines, states, _buffers: buffers, received: into }
    }

    /// The rank turns until it is through, or finds nothing to do any more; whether it is through.
    fn turn_alone(&mut self, rank: usize) -> bool {
        let mut turns = 0;
        while turns < TURNS_MAX && self.engines[rank].turn() {
            turns += 1;
        }
        self.states[rank].is_done() && self.engines[rank].is_at_rest()
    }

    fn leave(&self, rank: usize) {
        self.job.mark_finished(Rank(rank as u32), &self.engines[rank].messages.met());
    }

    fn outcome(&self, rank: usize) -> Option<Result<(), Failure>> {
        self.states[rank].outcome()
    }

    fn check_received(&self, case: &Case) {
        // SAFETY: the buffer is there, and nobody writes to it any more.
        let received = unsafe { std::slice::from_raw_parts(self.received, case.bytes) };
        assert!(received.iter().copied().eq((0..case.bytes).map(byte)), "{}: wrong bytes", case.name);
    }
}

fn byte(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

/// Both take turns so many times; then `stays` stands still, and the other one takes all its part and leaves, if it can.
fn leave_at(case: &Case, turns: usize, leaves: usize) -> Option<Pair> {
    let mut pair = Pair::new(case);
    for _ in 0..turns {
        pair.engines.iter_mut().for_each(|engine| _ = engine.turn());
    }
    pair.engines[1 - leaves].turn();
    if !pair.turn_alone(leaves) {
        return None;
    }
    pair.leave(leaves);
    Some(pair)
}

/// Whoever stays hears that the other one has left when it looks at both the next time.
#[test]
fn who_has_done_its_part_may_leave() {
    for case in &CASES {
        for leaves in [SENDER, RECEIVER] {
            let mut left = 0;
            for turns in 0..TURNS_MAX {
                let Some(mut pair) = leave_at(case, turns, leaves) else { continue };
                left += 1;
                let had_it_all = pair.states[1 - leaves].is_done();
                assert!(pair.turn_alone(1 - leaves), "{} after {turns} turns", case.name);
                assert_eq!(pair.outcome(1 - leaves), Some(Ok(())), "{} after {turns} turns", case.name);
                pair.check_received(case);
                if had_it_all {
                    break;
                }
            }
            assert!(left > 0, "{}: rank {leaves} is never through", case.name);
        }
    }
}

/// The other one has its part done and leaves between the look that whoever stays takes at its messages and the one at who has left: that
/// is all that it hears.
#[test]
fn who_has_left_had_done_its_part_if_nobody_looked_since() {
    for case in &CASES {
        for leaves in [SENDER, RECEIVER] {
            for turns in 0..TURNS_MAX {
                let Some(mut pair) = leave_at(case, turns, leaves) else { continue };
                let had_it_all = pair.states[1 - leaves].is_done();
                let Engine { messages, runs, .. } = &mut pair.engines[1 - leaves];
                // Of messages that go through the queue all are taken in before this is told.
                if leaves == SENDER && !messages.has_transfers() && !had_it_all {
                    continue;
                }
                runs.note_departures(messages, vec![(Rank(leaves as u32), Gone::Left)]);
                assert!(pair.turn_alone(1 - leaves), "{} after {turns} turns", case.name);
                assert_eq!(pair.outcome(1 - leaves), Some(Ok(())), "{} after {turns} turns", case.name);
                pair.check_received(case);
                if had_it_all {
                    break;
                }
            }
        }
    }
}
