//! What threads did outside of tasks, as far as tasks are concerned: made roots, waited for them, and took time between.
//!
//! A program that calls [`Runtime::run`](crate::Runtime::run) twice has two roots of which the second cannot begin before the
//! first is done: not because of data, but because its thread says so.

use std::collections::HashMap;
use std::thread::ThreadId;

/// A thread outside, in steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// In order. A root is made after the step that it names, and before the next one.
    pub steps: Vec<Step>,
}

/// What a thread did from making a root, or from having waited for one, to the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// How long, in nanoseconds. Nothing is known of what a thread does before the first root and after the last wait.
    pub ns: u64,
    /// For which task it had waited, with all that was created in it.
    pub joined: Option<usize>,
}

impl Outside {
    /// Whether it made a root after it had waited for another.
    pub(super) fn orders(&self, last_made: usize) -> bool {
        self.steps[..=last_made].iter().any(|step| step.joined.is_some())
    }
}

/// Threads while notes are read.
#[derive(Default)]
pub(super) struct Outsiders {
    numbers: HashMap<ThreadId, usize>,
    threads: Vec<Outside>,
    /// By thread: since when it does something else than wait.
    since: Vec<u64>,
}

impl Outsiders {
    fn thread(&mut self, id: ThreadId, now: u64) -> usize {
        *self.numbers.entry(id).or_insert_with(|| {
            self.threads.push(Outside { steps: vec![Step::default()] });
            self.since.push(now);
            self.threads.len() - 1
        })
    }

    fn end_step(&mut self, thread: usize, now: u64) {
        let step = self.threads[thread].steps.last_mut();
        step.into_iter().for_each(|step| step.ns += now.saturating_sub(self.since[thread]));
        self.since[thread] = now;
    }

    /// A thread makes a root: its number, and that of its step.
    pub(super) fn makes(&mut self, id: ThreadId, now: u64) -> (usize, usize) {
        let thread = self.thread(id, now);
        self.end_step(thread, now);
        let steps = &mut self.threads[thread].steps;
        steps.push(Step::default());
        (thread, steps.len() - 2)
    }

    /// A thread begins to wait for a task.
    pub(super) fn joins(&mut self, id: ThreadId, now: u64) {
        let thread = self.thread(id, now);
        self.end_step(thread, now);
    }

    /// It has waited for it.
    pub(super) fn joined(&mut self, id: ThreadId, task: usize, now: u64) {
        let thread = self.thread(id, now);
        self.threads[thread].steps.push(Step { ns: 0, joined: Some(task) });
        self.since[thread] = now;
    }

    /// All of them.
    pub(super) fn all(self) -> Vec<Outside> {
        self.threads
    }
}
