//! How many children of a body are not done yet, and whether the body is; also for the members of a group.
//!
//! Children that end subtract 1 from a balance that starts at [`OPEN`]; the body counts those that it creates in a plain
//! cell, and brings that count in when it sleeps or ends. So creating a child costs no atomic operation, and a child that
//! ends costs one. While the body sleeps or has ended, the balance is the number of live children, and whoever takes it
//! to zero goes on for the body: wakes it, or carries its end upward.

use crate::current::Thread;
use castell_base::sync::{AtomicI64, AtomicPtr, Ordering};
use std::cell::Cell;

/// The balance of a body that is awake and has no children.
const OPEN: i64 = 1 << 62;

/// See the module.
pub(crate) struct Children {
    balance: AtomicI64,
    created: Cell<i64>,
    /// The body's thread while it sleeps.
    waiter: AtomicPtr<Thread>,
}

/// What the end of a child means for its parent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// There are others, or the body is awake.
    Others,
    /// It was the last, and the body, which slept, was woken.
    Woken,
    /// It was the last, and the body has ended.
    Nobody,
}

impl Children {
    pub(crate) const fn new() -> Self {
        Children {
            balance: AtomicI64::new(OPEN),
            created: Cell::new(0),
            waiter: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The body creates a child. Only from the body's thread.
    #[inline]
    pub(crate) fn add(&self) {
        self.created.set(self.created.get() + 1);
    }

    /// How many are not done. Only from the body's thread.
    #[inline]
    pub(crate) fn live(&self) -> i64 {
        self.created.get() - (OPEN - self.balance.load(Ordering::Acquire))
    }

    /// `count` of those that were created were waited for by themselves. Only from the body's thread.
    pub(crate) fn waited_for(&self, count: i64) {
        // They have taken themselves from the balance, or are about to.
        self.balance.fetch_add(count, Ordering::AcqRel);
        self.created.set(self.created.get() - count);
    }

    /// How many were created and not waited for yet, done or not. Only from the body's thread.
    pub(crate) fn unwaited(&self) -> i64 {
        self.created.get()
    }

    /// All that were created are done: counting starts again, so that it never runs over. Only from the body's thread.
    #[inline]
    pub(crate) fn forget(&self) {
        self.balance.store(OPEN, Ordering::Relaxed);
        self.created.set(0);
    }

    /// A child is done, with all its descendants.
    #[inline]
    pub(crate) fn remove(&self) -> Left {
        if self.balance.fetch_sub(1, Ordering::AcqRel) != 1 {
            return Left::Others;
        }
        let waiter = self.waiter.load(Ordering::Acquire);
        // SAFETY: the thread stays in the sleep that set the pointer until its bell rings.
        match unsafe { waiter.as_ref() } {
            None => Left::Nobody,
            Some(waiter) => {
                waiter.ring();
                Left::Woken
            }
        }
    }

    /// The body ends and creates no more; true if no child is live.
    #[inline]
    pub(crate) fn close(&self) -> bool {
        let created = self.created.get();
        if self.balance.load(Ordering::Acquire) == OPEN - created {
            return true; // nobody else can touch it
        }
        self.balance.fetch_sub(OPEN - created, Ordering::AcqRel) == OPEN - created
    }

    /// Sleeps by `sleep` until the last child is done or `sleep` returns.
    pub(crate) fn sleep(&self, thread: &Thread, sleep: impl FnOnce()) {
        thread.silence();
        self.waiter.store(std::ptr::from_ref(thread).cast_mut(), Ordering::Release);
        let created = self.created.get();
        // From here on, whoever takes the balance to zero rings.
        if self.balance.fetch_sub(OPEN - created, Ordering::AcqRel) != OPEN - created {
            sleep();
        } else {
            thread.ring();
        }
        if self.balance.fetch_add(OPEN - created, Ordering::AcqRel) == 0 {
            // The last one is done and rings; it must have let go of this thread before it goes on.
            thread.wait_for_bell(None);
        }
        self.waiter.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}
