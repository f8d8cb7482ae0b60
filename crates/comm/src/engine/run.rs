//! A schedule under way.

use super::call::as_inside;
use super::carry::Shared;
use super::failure::Failure;
use super::fold::Folds;
use castell_base::Rank;
use castell_goal::op::Op;
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::stepper::Stepper;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Names a run: its place in the table and a serial number that no other run of this process ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RunRef {
    pub(super) slot: u32,
    pub(super) serial: u64,
}

impl RunRef {
    /// No run at all.
    pub(super) const NONE: RunRef = RunRef { slot: u32::MAX, serial: 0 };
}

/// How a run finds its counterpart in other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Only with the run of the same number with that peer.
    Numbered,
    /// With all open runs, by source and tag in posting order.
    Open,
    /// With the call of the same number in the same context, see `number.rs`.
    Call { context: u32, word: u32 },
}

pub(super) struct Run {
    pub(super) schedule: Arc<Schedule>,
    pub(super) stepper: Stepper,
    pub(super) scope: Scope,
    pub(super) serial: u64,
    /// `(peer, word for its messages)`, sorted by peer; empty for open runs.
    pub(super) numbers: Vec<(Rank, u32)>,
    /// 8-byte words, so that every element type is aligned at offsets that are multiples of its size.
    scratchpad: Box<[u64]>,
    /// Where the run lies if any process may carry it on; stepper and scratchpad above are empty then.
    pub(super) shared: Option<Shared>,
    pub(super) state: Arc<HandleState>,
    /// Its sends, and how many of them may still need this rank.
    sends: u32,
    sends_left: u32,
    /// Large messages that may be reduced as they come.
    pub(super) folds: Folds,
    /// Operations that were carried out in that way, and have not been started yet.
    pub(super) folded: Vec<OpId>,
    /// Messages that wait under this run's context (numbered runs).
    pub(super) unexpected: u32,
    /// Whether peers may carry it on if its schedule allows that.
    pub(super) may_share: bool,
    /// Counted among those that peers look for in vain, see `carry/README.md`.
    pub(super) is_unlisted: bool,
    /// In the list of runs that have something to start.
    pub(super) listed: bool,
    pub(super) failed: bool,
    /// Of a call: since when it is known to wait; 0: it was not looked at yet.
    pub(super) waiting_since_ns: u64,
}

impl Run {
    pub(super) fn new(
        schedule: Arc<Schedule>,
        scope: Scope,
        serial: u64,
        state: Arc<HandleState>,
        shared: Option<Shared>,
        folds: Folds,
    ) -> Run {
        let sends = if folds.are_large() { sends(&schedule) } else { u32::MAX };
        let (stepper, scratchpad) = match shared {
            Some(_) => (Stepper::default(), Box::default()),
            None => {
                let words = schedule.scratchpad_bytes().div_ceil(8) as usize;
                (Stepper::new(&schedule), vec![0; words].into_boxed_slice())
            }
        };
        Run {
            schedule,
            stepper,
            scope,
            serial,
            numbers: Vec::new(),
            scratchpad,
            shared,
            sends,
            sends_left: sends,
            folds,
            folded: Vec::new(),
            state,
            unexpected: 0,
            may_share: false,
            is_unlisted: false,
            listed: false,
            failed: false,
            waiting_since_ns: 0,
        }
    }

    /// Makes a finished run ready for the same schedule again without allocating.
    pub(super) fn restart(&mut self, scope: Scope, serial: u64, state: Arc<HandleState>) {
        if self.shared.is_none() {
            self.stepper.reset(&self.schedule);
        }
        self.scope = scope;
        self.serial = serial;
        if scope == Scope::Open {
            self.numbers.clear();
        }
        self.is_unlisted = false;
        self.folded.clear();
        self.sends_left = self.sends;
        self.state = state;
        self.unexpected = 0;
        self.listed = false;
        self.failed = false;
        self.waiting_since_ns = 0;
    }

    /// All bytes of a large message lie where its receiver finds them.
    pub(super) fn has_sent_one(&mut self) {
        self.sends_left = self.sends_left.wrapping_sub(1);
    }

    /// Whether nobody waits for anything that this rank has still to do, nor wants to hear of the end at once. Asked of runs with
    /// large messages only: others are not worth the counting.
    pub(super) fn has_sent_all(&self) -> bool {
        self.sends_left == 0 && !self.state.is_told
    }

    pub(super) fn scratchpad(&mut self) -> *mut u8 {
        match &self.shared {
            Some(shared) => shared.block.scratchpad(),
            None => self.scratchpad.as_mut_ptr().cast(),
        }
    }

    pub(super) fn scratchpad_bytes(&self) -> u64 {
        self.schedule.scratchpad_bytes()
    }

    /// The word that the run's messages to `peer` carry, see `number.rs`.
    #[inline]
    pub(super) fn number_with(&self, peer: Rank) -> u32 {
        if self.numbers.len() <= 8 {
            return self.numbers.iter().find(|(rank, _)| *rank == peer).map_or(0, |(_, number)| *number);
        }
        let found = self.numbers.binary_search_by_key(&peer, |(rank, _)| *rank);
        found.map_or(0, |at| self.numbers[at].1)
    }
}

/// How many sends a schedule has.
fn sends(schedule: &Schedule) -> u32 {
    schedule.operations().filter(|op| matches!(schedule.op(*op), Op::Send { .. })).count() as u32
}

/// What a handle and the engine share of a run.
pub(super) struct HandleState {
    /// 0 going on, 1 finished, 2 failed.
    done: AtomicU32,
    sleepers: AtomicU32,
    /// When it ended, nanoseconds on the job's clock.
    end_ns: AtomicU64,
    /// For a run in a block: the word that becomes `serial` when the run has ended, wherever it was carried on.
    remote: AtomicPtr<AtomicU32>,
    serial: u32,
    failure: Mutex<Option<Failure>>,
    /// Who wants to hear of the end.
    told: Mutex<Option<Told>>,
    /// Whether anybody does.
    is_told: bool,
}

/// What is called with a run's outcome, see [`super::Comm::run_then`].
pub(super) type Told = Box<dyn FnOnce(Result<(), Failure>) + Send>;

impl HandleState {
    pub(super) fn new(serial: u64, told: Option<Told>) -> HandleState {
        HandleState {
            is_told: told.is_some(),
            told: Mutex::new(told),
            remote: AtomicPtr::new(std::ptr::null_mut()),
            serial: serial as u32,
            done: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            end_ns: AtomicU64::new(0),
            failure: Mutex::new(None),
        }
    }

    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.done_word() != 0 || self.has_ended_elsewhere() || self.done_word() != 0
    }

    /// A look before one at the block, and another one behind it: while a run is taken out of its block, `done` comes first and
    /// what the block said is gone then.
    #[inline]
    fn done_word(&self) -> u32 {
        self.done.load(Ordering::Acquire)
    }

    /// The run lies in a block, whose word for the end this is.
    pub(super) fn watch(&self, done: *const AtomicU32) {
        self.remote.store(done.cast_mut(), Ordering::Release);
    }

    #[inline]
    fn has_ended_elsewhere(&self) -> bool {
        let remote = self.remote.load(Ordering::Acquire);
        !remote.is_null() && self.has_ended_in(remote)
    }

    /// Whether the word says that this run has ended.
    #[inline]
    pub(super) fn has_ended_in(&self, done: *const AtomicU32) -> bool {
        // SAFETY: the word lies in the job's segment, which every handle and the engine keep mapped.
        unsafe { (*done).load(Ordering::Acquire) == self.serial }
    }

    /// The outcome, once done.
    pub(super) fn outcome(&self) -> Option<Result<(), Failure>> {
        let mut done = self.done_word();
        if done == 0 {
            if self.has_ended_elsewhere() {
                return Some(Ok(()));
            }
            done = self.done_word();
        }
        match done {
            0 => None,
            1 => Some(Ok(())),
            _ => {
                let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Some(Err(failure.expect("a failed run says why")))
            }
        }
    }

    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    pub(super) fn complete(&self, outcome: Result<(), Failure>, now_ns: u64) {
        let told = if self.is_told { self.take_told() } else { None };
        let heard = told.as_ref().map(|_| outcome.clone());
        self.end_ns.store(now_ns, Ordering::Relaxed);
        let done = match outcome {
            Ok(()) => 1,
            Err(failure) => {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                2
            }
        };
        // SeqCst on both words: either the sleeper sees `done`, or this side sees the sleeper.
        self.done.store(done, Ordering::SeqCst);
        // Only now: who has seen there that the run has ended must not find that it goes on.
        self.remote.store(std::ptr::null_mut(), Ordering::Release);
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            self.nudge();
        }
        if let (Some(told), Some(outcome)) = (told, heard) {
            as_inside(|| told(outcome));
        }
    }

    #[cold]
    fn take_told(&self) -> Option<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Wakes whoever sleeps on this handle, to look around.
    pub(super) fn nudge(&self) {
        castell_host::futex::wake(&self.done, i32::MAX, u32::MAX);
    }

    /// Sleeps until the run ends, somebody nudges, or `patience` is over.
    pub(super) fn sleep(&self, patience: Duration) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if self.done.load(Ordering::SeqCst) == 0 {
            castell_host::futex::wait(&self.done, 0, u32::MAX, Some(patience));
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run ends in its block, and its owner takes it out of there while somebody asks for the outcome.
    #[test]
    fn what_has_ended_stays_so() {
        const RUNS: u64 = 20_000;
        let word = AtomicU32::new(0);
        let states: Vec<HandleState> = (1..=RUNS).map(|serial| HandleState::new(serial, None)).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (state, serial) in states.iter().zip(1..) {
                    // As `Block::begin` and `Block::end` do it.
                    word.store(0, Ordering::Release);
                    state.watch(&raw const word);
                    word.store(serial, Ordering::Release);
                    state.complete(Ok(()), 0);
                }
            });
            for (index, state) in states.iter().enumerate() {
                while !state.is_done() {
                    std::hint::spin_loop();
                }
                assert!(state.outcome().is_some(), "run {index} had ended");
            }
        });
    }
}
