//! A rank that is far ahead of another one with its calls, in one thread, step by step: it goes on until it is asked to hold, and each
//! call gets its own message.

use crate::departures::engines_of;
use crate::handle_state::HandleState;
use crate::runs::Scope;
use crate::turn::Engine;
use castell_base::{Rank, Tag};
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use castell_shm::job::{Job, JobOptions, Progress};
use std::sync::Arc;

const CALLS: usize = 100;
/// So many messages of calls to come are kept before their sender is to hold.
const KEPT: usize = 10;
/// The world's.
const CONTEXT: u32 = 0;

/// Starts the next call of the world: a number goes from rank 0 to rank 1.
fn start(engine: &mut Engine, me: Rank, number: &mut u64) -> Arc<HandleState> {
    let (at, mut graph) = (Place::user(&raw mut *number as u64), Graph::new());
    match me {
        Rank(0) => graph.send(at, 8, Rank(1), Tag(0)),
        _ => graph.recv(at, 8, Some(Rank(0)), Some(Tag(0))),
    }
    .expect("legal");
    let schedule = Arc::new(graph.compile().expect("a legal graph"));
    let Engine { messages, runs, .. } = engine;
    let state = Arc::new(HandleState::new(runs.table.next_serial(), None, None));
    let scope = Scope::Call { context: CONTEXT, word: runs.contexts.take(CONTEXT) };
    runs.start(messages, &schedule, scope, Arc::clone(&state), true);
    state
}

/// A sender and a receiver which keeps only few messages of calls to come.
fn pair() -> [Engine; 2] {
    let options = JobOptions { progress: Progress::Thread, ..JobOptions::new(2) };
    let job = Arc::new(Job::create(&options).expect("a small job"));
    let mut engines = engines_of(&job);
    engines[1].messages.limit_early(KEPT);
    engines
}

fn turn(engines: &mut [Engine; 2]) {
    for _ in 0..4 {
        engines.iter_mut().for_each(|engine| _ = engine.turn());
    }
}

#[test]
fn who_is_far_ahead_holds_and_each_call_gets_its_message() {
    let mut engines = pair();
    let (mut sent, mut received): (Vec<u64>, _) = ((1..=CALLS as u64).collect(), vec![0; CALLS]);
    let mut states = Vec::new();
    for number in &mut sent {
        states.push(start(&mut engines[0], Rank(0), number));
        turn(&mut engines);
    }
    let ended = states.iter().filter(|state| state.is_done()).count();
    assert_eq!(ended, KEPT + 1, "with one more than are kept it is asked to hold");
    for number in &mut received {
        states.push(start(&mut engines[1], Rank(1), number));
        turn(&mut engines);
    }
    assert!(states.iter().all(|state| matches!(state.outcome(), Some(Ok(())))), "all have ended");
    assert_eq!(received, sent);
    assert!(start(&mut engines[0], Rank(0), &mut sent[0]).is_done(), "it may go on");
}

/// What came for calls that are given up before they were made is kept no longer.
#[test]
fn who_holds_may_go_on_when_the_calls_are_given_up_that_it_is_ahead_with() {
    let mut engines = pair();
    let mut sent: Vec<u64> = (0..=KEPT as u64 + 1).collect();
    let mut states = Vec::new();
    for number in &mut sent {
        states.push(start(&mut engines[0], Rank(0), number));
        turn(&mut engines);
    }
    assert!(!states[KEPT + 1].is_done(), "it holds");
    for _ in 0..states.len() {
        let word = engines[1].runs.contexts.take(CONTEXT);
        engines[1].forget_call(&[Rank(0)], word);
        turn(&mut engines);
    }
    assert!(states[KEPT + 1].is_done(), "nobody wants it");
    assert!(start(&mut engines[0], Rank(0), &mut sent[0]).is_done(), "it may go on");
}
