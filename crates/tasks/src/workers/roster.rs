//! Who holds which worker, as plain data; `threads` keeps it behind a lock and carries out what it says.

use super::WorkerId;
use castell_host::futex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const NOTHING: u32 = u32::MAX;
const END: u32 = u32::MAX - 1;

/// Where a thread without a worker sleeps until it is given one.
#[derive(Debug)]
pub(super) struct Seat {
    word: AtomicU32,
}

impl Seat {
    pub(super) fn new() -> Arc<Seat> {
        Arc::new(Seat { word: AtomicU32::new(NOTHING) })
    }

    pub(super) fn give(&self, worker: WorkerId) {
        self.set(worker.0);
    }

    /// There will be no more worker.
    pub(super) fn end(&self) {
        self.set(END);
    }

    fn set(&self, word: u32) {
        self.word.store(word, Ordering::Release);
        futex::wake(&self.word, 1, u32::MAX);
    }

    /// Sleeps until it is given a worker; `None`: the thread shall end.
    pub(super) fn sit(&self) -> Option<WorkerId> {
        loop {
            match self.word.load(Ordering::Acquire) {
                NOTHING => drop(futex::wait(&self.word, NOTHING, u32::MAX, None)),
                END => return None,
                worker => return Some(WorkerId(worker)),
            }
        }
    }
}

/// A thread that sleeps without a worker.
pub(super) struct Waiting {
    pub(super) seat: Arc<Seat>,
}

/// Workers and the threads that have none.
pub(super) struct Roster {
    pub(super) enabled: Vec<bool>,
    held: Vec<bool>,
    /// Threads in the middle of a task, oldest first: they get a worker before others do.
    wanting: VecDeque<Waiting>,
    /// Threads with nothing on their stack.
    spare: Vec<Waiting>,
    pub(super) stopping: bool,
}

/// What becomes of a worker that its thread gives up.
pub(super) enum Heir {
    /// This thread gets it.
    Thread(Arc<Seat>),
    /// Nobody sleeps without a worker: a thread has to be started for it.
    Nobody,
    /// It is taken away: nobody gets it.
    TakenAway,
}

impl Roster {
    pub(super) fn new(workers: usize) -> Roster {
        Roster {
            enabled: vec![true; workers],
            held: vec![true; workers],
            wanting: VecDeque::new(),
            spare: Vec::new(),
            stopping: false,
        }
    }

    /// Who gets a worker that its thread gives up; the roster says from now on that it is held by that one.
    pub(super) fn give_up(&mut self, worker: WorkerId) -> Heir {
        let index = worker.index();
        if !self.enabled[index] {
            self.held[index] = false;
            return Heir::TakenAway;
        }
        match self.wanting.pop_front().or_else(|| self.spare.pop()) {
            Some(waiting) => Heir::Thread(waiting.seat),
            None => Heir::Nobody,
        }
    }

    /// The thread that gets a worker in place of one whose stack is empty: only one that has something on its stack.
    pub(super) fn next_wanting(&mut self) -> Option<Arc<Seat>> {
        self.wanting.pop_front().map(|waiting| waiting.seat)
    }

    pub(super) fn wanting(&self) -> usize {
        self.wanting.len()
    }

    /// A thread wants a worker to go on with its task: one that nobody holds, or a place in the line.
    pub(super) fn want(&mut self, seat: &Arc<Seat>) -> Option<WorkerId> {
        let free = (0..self.held.len()).find(|&index| self.enabled[index] && !self.held[index]);
        match free {
            Some(index) => {
                self.held[index] = true;
                Some(WorkerId(index as u32))
            }
            None => {
                self.wanting.push_back(Waiting { seat: Arc::clone(seat) });
                None
            }
        }
    }

    /// A thread with nothing on its stack and no worker.
    pub(super) fn rest(&mut self, seat: &Arc<Seat>) {
        self.spare.push(Waiting { seat: Arc::clone(seat) });
    }

    /// Notes that a worker is taken away; false, and nothing happens, if it is the last of those that `alike` names.
    pub(super) fn disable(&mut self, worker: WorkerId, alike: impl Fn(usize) -> bool) -> bool {
        let others = (0..self.enabled.len())
            .filter(|&other| other != worker.index() && self.enabled[other] && alike(other));
        if others.count() == 0 {
            return false;
        }
        self.enabled[worker.index()] = false;
        true
    }

    /// Notes that a worker is given back; if nobody holds it, somebody has to.
    pub(super) fn enable(&mut self, worker: WorkerId) -> Option<Heir> {
        let index = worker.index();
        self.enabled[index] = true;
        if std::mem::replace(&mut self.held[index], true) {
            return None;
        }
        Some(self.give_up(worker))
    }

    pub(super) fn is_held(&self, worker: WorkerId) -> bool {
        self.held[worker.index()]
    }

    /// Nobody could be found for it after all.
    pub(super) fn leave_free(&mut self, worker: WorkerId) {
        self.held[worker.index()] = false;
    }

    /// Ends all threads that sleep without a worker.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
        self.spare.drain(..).chain(self.wanting.drain(..)).for_each(|waiting| waiting.seat.end());
    }
}
