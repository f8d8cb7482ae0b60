//! What a handle and the engine share of a run.

use super::call::as_inside;
use super::failure::Failure;
use super::runs::{number_of_run, number_of_steps};
use crate::slot::SlotSet;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a handle and the engine share of a run.
pub(crate) struct HandleState {
    /// 0 going on, 1 finished, 2 failed.
    done: AtomicU32,
    sleepers: AtomicU32,
    /// When it ended, nanoseconds on the job's clock.
    end_ns: AtomicU64,
    /// For a run in a block: the word that becomes `serial` when the run has ended, wherever it was carried on.
    remote: AtomicPtr<AtomicU64>,
    serial: u64,
    failure: Mutex<Option<Failure>>,
    /// Who wants to hear of the end.
    told: Mutex<Option<Told>>,
    /// Whether anybody does.
    pub(crate) is_told: bool,
    /// It is a call with slots, see `programs/started.rs`.
    pub(crate) set: Option<SlotSet>,
}

/// What is called with a run's outcome, see [`crate::Process::run_then`].
pub(crate) type Told = Box<dyn FnOnce(Result<(), Failure>) + Send>;

impl HandleState {
    pub(crate) fn new(serial: u64, told: Option<Told>, set: Option<SlotSet>) -> HandleState {
        HandleState {
            set,
            is_told: told.is_some(),
            told: Mutex::new(told),
            remote: AtomicPtr::new(std::ptr::null_mut()),
            serial,
            done: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            end_ns: AtomicU64::new(0),
            failure: Mutex::new(None),
        }
    }

    /// What the run is called in a journal.
    pub(crate) fn number_in_journal(&self) -> u64 {
        match self.set {
            Some(set) => number_of_steps(set.index(), self.serial),
            None => number_of_run(self.serial),
        }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.done_word() != 0 || self.has_ended_elsewhere() || self.done_word() != 0
    }

    /// A look before one at the block, and another one behind it: while a run is taken out of its block, `done` comes first and
    /// what the block said is gone then.
    #[inline]
    fn done_word(&self) -> u32 {
        self.done.load(Ordering::Acquire)
    }

    /// The run lies in a block, whose word for the end this is.
    pub(crate) fn watch(&self, done: *const AtomicU64) {
        self.remote.store(done.cast_mut(), Ordering::Release);
    }

    #[inline]
    fn has_ended_elsewhere(&self) -> bool {
        let remote = self.remote.load(Ordering::Acquire);
        !remote.is_null() && self.has_ended_in(remote)
    }

    /// Whether the word says that this run has ended.
    #[inline]
    pub(crate) fn has_ended_in(&self, done: *const AtomicU64) -> bool {
        // SAFETY: the word lies in the job's segment, which every handle and the engine keep mapped.
        unsafe { (*done).load(Ordering::Acquire) == self.serial }
    }

    /// The outcome, once done.
    pub(crate) fn outcome(&self) -> Option<Result<(), Failure>> {
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

    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn complete(&self, outcome: Result<(), Failure>, now_ns: u64) {
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
    pub(crate) fn nudge(&self) {
        castell_host::futex::wake(&self.done, i32::MAX, u32::MAX);
    }

    /// Sleeps until the run ends, somebody nudges, or `patience` is over.
    pub(crate) fn sleep(&self, patience: Duration) {
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
        let word = AtomicU64::new(0);
        let states: Vec<HandleState> =
            (1..=RUNS).map(|serial| HandleState::new(serial, None, None)).collect();
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
