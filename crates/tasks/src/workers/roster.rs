//! Who holds which worker, as plain data; `threads` keeps it behind a lock and carries out what it says.

use super::WorkerId;
use castell_host::futex;
use castell_sched::Kind;
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

/// Workers and the threads that have none.
pub(super) struct Roster {
    pub(super) enabled: Vec<bool>,
    held: Vec<bool>,
    kinds: Vec<Kind>,
    /// By kind: threads in the middle of a task, oldest first. They get a worker, of the kind that they had, before others do.
    wanting: [VecDeque<Arc<Seat>>; Kind::COUNT],
    /// Threads with nothing on their stack.
    spare: Vec<Arc<Seat>>,
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
    pub(super) fn new(kinds: Vec<Kind>) -> Roster {
        Roster {
            enabled: vec![true; kinds.len()],
            held: vec![true; kinds.len()],
            kinds,
            wanting: Default::default(),
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
        match self.next_wanting(self.kinds[index]).or_else(|| self.spare.pop()) {
            Some(seat) => Heir::Thread(seat),
            None => Heir::Nobody,
        }
    }

    /// The thread that gets a worker in place of one whose stack is empty: only one that has something on its stack.
    pub(super) fn next_wanting(&mut self, kind: Kind) -> Option<Arc<Seat>> {
        self.wanting[kind.index()].pop_front()
    }

    pub(super) fn wanting(&self, kind: Kind) -> usize {
        self.wanting[kind.index()].len()
    }

    /// A thread wants a worker to go on with its task: one that nobody holds, or a place in the line.
    pub(super) fn want(&mut self, seat: &Arc<Seat>, kind: Kind) -> Option<WorkerId> {
        let fits = |&index: &usize| self.enabled[index] && !self.held[index] && self.kinds[index] == kind;
        let free = (0..self.held.len()).find(fits);
        match free {
            Some(index) => {
                self.held[index] = true;
                Some(WorkerId(index as u32))
            }
            None => {
                self.wanting[kind.index()].push_back(Arc::clone(seat));
                None
            }
        }
    }

    /// A thread with nothing on its stack and no worker.
    pub(super) fn rest(&mut self, seat: &Arc<Seat>) {
        self.spare.push(Arc::clone(seat));
    }

    /// How many workers of each kind are not taken away.
    pub(super) fn enabled_of_kinds(&self) -> [u64; Kind::COUNT] {
        let mut counts = [0; Kind::COUNT];
        let enabled = self.kinds.iter().zip(&self.enabled).filter(|(_, enabled)| **enabled);
        enabled.for_each(|(kind, _)| counts[kind.index()] += 1);
        counts
    }

    /// Notes that a worker is taken away; false, and nothing happens, if it is the last of its kind.
    pub(super) fn disable(&mut self, worker: WorkerId) -> bool {
        let alike = |other: usize| self.enabled[other] && self.kinds[other] == self.kinds[worker.index()];
        if !(0..self.enabled.len()).any(|other| other != worker.index() && alike(other)) {
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
        let wanting = self.wanting.iter_mut().flat_map(|line| line.drain(..));
        self.spare.drain(..).chain(wanting).for_each(|seat| seat.end());
    }
}
