//! Workers that lend processors to other programs, and borrow theirs: each runs tasks only while it has a processor of the node's board
//! ([`castell_host::board`]).
//!
//! A worker that is about to sleep gives its processor up. One that has work and none takes one, and sleeps until it gets it. One whose processor is
//! wanted back gives it up at the next task boundary. So nothing has to tell the runtime when to lend.

use super::WorkerId;
use crate::error::TaskError;
use castell_host::board::{self, Membership, Turn, default_path};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const NEVER_HAD: u32 = u32::MAX;

/// For threads that need no processor of the board.
pub(crate) static NOTHING: AtomicU64 = AtomicU64::new(0);
/// What differs from what [`NOTHING`] holds.
const NO_TURN: u64 = u64::MAX;

/// The processors that a runtime's workers have.
pub(crate) struct Share {
    membership: Arc<Membership>,
    holds: Box<[Hold]>,
}

/// What one worker has; only the thread that is the worker uses it.
#[repr(align(128))]
struct Hold {
    /// The processor that it has, or had last.
    cpu: AtomicU32,
    /// Of its turn; [`NO_TURN`]: it has none.
    word: AtomicU64,
}

/// It may be bound to what the thread that has started it was bound to.
const INHERITED: u32 = u32::MAX - 1;

thread_local! {
    /// To which processor the thread is bound; [`NEVER_HAD`]: to none.
    static BOUND: Cell<u32> = const { Cell::new(INHERITED) };
}

impl Share {
    /// For so many workers, if processors are to be shared: because the program says so, or the environment unless the program says no.
    ///
    /// # Errors
    /// The program says so, and it cannot be. What the environment says and cannot be is told on standard error.
    pub(crate) fn wanted(
        by_program: Option<bool>,
        workers: usize,
        is_bound: bool,
    ) -> Result<Option<Share>, TaskError> {
        let path = match by_program {
            Some(false) => return Ok(None),
            Some(true) => board::wanted().unwrap_or_else(default_path),
            None => match board::wanted() {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        if is_bound {
            castell_host::say("workers that are bound to processors share none with other programs");
            return Ok(None);
        }
        match board::join(&path, workers) {
            Ok(membership) => Ok(Some(Share::of(membership, workers))),
            Err(error) if by_program.is_some() => Err(TaskError::Board(Arc::new(error))),
            Err(error) => {
                castell_host::say(&format!("processors are not shared: {error}"));
                Ok(None)
            }
        }
    }

    fn of(membership: Arc<Membership>, workers: usize) -> Share {
        let hold = |_| Hold { cpu: AtomicU32::new(NEVER_HAD), word: AtomicU64::new(NO_TURN) };
        Share { membership, holds: (0..workers).map(hold).collect() }
    }

    fn hold(&self, worker: WorkerId) -> &Hold {
        &self.holds[worker.index()]
    }

    /// What the worker's thread looks at, and what that holds as long as the thread goes on.
    pub(crate) fn sign(&self, worker: WorkerId) -> (*const AtomicU64, u64) {
        match self.turn(worker) {
            Some(turn) => {
                self.membership.note_thread(turn);
                self.bind(turn);
                (self.membership.word(turn.cpu()), turn.word())
            }
            None => (&raw const NOTHING, NO_TURN),
        }
    }

    fn turn(&self, worker: WorkerId) -> Option<Turn> {
        let hold = self.hold(worker);
        let word = hold.word.load(Ordering::Relaxed);
        (word != NO_TURN).then(|| Turn::of(hold.cpu.load(Ordering::Relaxed), word))
    }

    /// The worker's thread was a worker of `other` until now, and is this one with the turn that it had; nothing if it had none, or if the two
    /// don't share in the same program: a fork's child is not its parent.
    pub(crate) fn take_over(&self, worker: WorkerId, other: &Share, as_worker: WorkerId) {
        if let Some(turn) = other.turn(as_worker)
            && Arc::ptr_eq(&self.membership, &other.membership)
        {
            other.hold(as_worker).word.store(NO_TURN, Ordering::Relaxed);
            let hold = self.hold(worker);
            hold.cpu.store(turn.cpu(), Ordering::Relaxed);
            hold.word.store(turn.word(), Ordering::Relaxed);
        }
    }

    /// Gives up what it has, and takes a processor if there is one for it.
    pub(crate) fn try_take(&self, worker: WorkerId) -> bool {
        self.give(worker);
        self.note(worker, self.membership.try_take(self.last(worker)))
    }

    /// The same, and sleeps until there is one; false if the worker `is_elsewhere` meanwhile: whoever makes it so calls [`Share::rouse`].
    pub(crate) fn take(&self, worker: WorkerId, is_elsewhere: impl Fn() -> bool) -> bool {
        self.give(worker);
        self.note(worker, self.membership.take(self.last(worker), is_elsewhere))
    }

    fn last(&self, worker: WorkerId) -> Option<u32> {
        Some(self.hold(worker).cpu.load(Ordering::Relaxed)).filter(|&cpu| cpu != NEVER_HAD)
    }

    fn note(&self, worker: WorkerId, turn: Option<Turn>) -> bool {
        let Some(turn) = turn else { return false };
        let hold = self.hold(worker);
        hold.cpu.store(turn.cpu(), Ordering::Relaxed);
        hold.word.store(turn.word(), Ordering::Relaxed);
        self.bind(turn);
        true
    }

    /// Gives up what it has, if anything.
    pub(crate) fn give(&self, worker: WorkerId) {
        if let Some(turn) = self.turn(worker) {
            self.hold(worker).word.store(NO_TURN, Ordering::Relaxed);
            self.membership.give(turn);
            self.unbind();
        }
    }

    /// The calling thread runs where its turn is, since Linux may leave two threads on one processor. A program that is alone is left to Linux.
    fn bind(&self, turn: Turn) {
        if self.membership.is_alone() {
            return self.unbind();
        }
        if BOUND.replace(turn.cpu()) != turn.cpu() {
            // It was allowed when the program came to the board. If it is not any more, the system knows a better place.
            let _ = castell_host::topology::move_thread(&[turn.cpu()]);
        }
    }

    /// The calling thread may run anywhere: where it was, others do when it wakes.
    fn unbind(&self) {
        if BOUND.replace(NEVER_HAD) != NEVER_HAD {
            let _ = castell_host::topology::move_thread(self.membership.cpus());
        }
    }

    /// Those that sleep in [`Share::take`] look whether they are to be elsewhere.
    pub(crate) fn rouse(&self) {
        self.membership.rouse();
    }
}
