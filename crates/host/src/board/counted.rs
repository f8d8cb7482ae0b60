//! Threads that compute without being told when, as ranks do: they have a processor of the board while they are awake, and lend it while they sleep in
//! a blocking call.
//!
//! Such a thread never waits for its processor. What it has the right to it takes at once, also from a borrower in the middle of a task, who sees at the end
//! of that task that its turn is over; where it has no right and nothing is free it goes on uncounted.

use super::{Membership, Turn};
use crate::HostError;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Whether a thread of this process is counted, or was.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// What the calling thread has.
struct Mine {
    membership: Weak<Membership>,
    last: Option<u32>,
    turn: Option<Turn>,
}

impl Mine {
    /// The process's place; nothing where that is gone, or in a fork's child.
    fn membership(&self) -> Option<Arc<Membership>> {
        self.membership.upgrade().filter(|membership| membership.process() == std::process::id())
    }

    fn give(&mut self) {
        if let (Some(turn), Some(membership)) = (self.turn.take(), self.membership()) {
            membership.give(turn);
        }
    }

    fn take(&mut self) {
        if let (None, Some(membership)) = (self.turn, self.membership()) {
            self.turn = membership.take_at_once(self.last);
            self.last = self.turn.map(Turn::cpu).or(self.last);
        }
    }
}

/// The thread that has begun this is counted until it is dropped, with the process's place on the board.
#[derive(Debug)]
pub struct Counted {
    _membership: Arc<Membership>,
}

impl Counted {
    /// The calling thread is counted, as one of the workers of this place.
    ///
    /// # Errors
    /// The board's lock cannot be had.
    pub fn begin(membership: Arc<Membership>) -> Result<Counted, HostError> {
        membership.never_wait()?;
        IS_WANTED.store(true, Ordering::Relaxed);
        let mut mine = Mine { membership: Arc::downgrade(&membership), last: None, turn: None };
        mine.take();
        MINE.set(Some(mine));
        Ok(Counted { _membership: membership })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // On another thread nothing is found; then what that one has goes with the place.
        if let Ok(Some(mut mine)) = MINE.try_with(RefCell::take) {
            mine.give();
        }
    }
}

/// The calling thread, if it is counted, sleeps or is about to: until this is dropped its processor is for others.
#[derive(Debug)]
pub struct Lent(());

impl Lent {
    /// Whether threads of this process lend their processors.
    pub fn is_wanted() -> bool {
        IS_WANTED.load(Ordering::Relaxed)
    }

    /// Gives the processor up; nothing if the thread is not counted.
    pub fn begin() -> Option<Lent> {
        // Without a look at what the thread has: the first one allocates.
        Lent::is_wanted().then(|| with_mine(Mine::give)).flatten().map(Lent)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        with_mine(Mine::take);
    }
}

/// Nothing if the thread is not counted, or ends.
fn with_mine(action: fn(&mut Mine)) -> Option<()> {
    MINE.try_with(|mine| mine.borrow_mut().as_mut().map(action)).ok().flatten()
}
