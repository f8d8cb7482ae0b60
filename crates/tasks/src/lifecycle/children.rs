//! How many children of a body are not done yet, and whether the body is; also for the members of a group.
//!
//! Children that end on other threads than the body's subtract 1 from a balance that starts at [`OPEN`]; the body's thread
//! counts those that it creates, less those that end on it, in a plain cell, and brings that count in when the body sleeps or
//! ends. So neither creating a child nor ending it where its parent waits costs an atomic operation. While the body sleeps or
//! has ended, the balance is the number of live children, and whoever takes it to zero goes on for the body: wakes it, or
//! carries its end upward.
//!
//! | the home is | the body | a child that ends on thread T |
//! |---|---|---|
//! | T | is awake on T, and lies below the child on T's stack | counts in the cell |
//! | another thread, or none | is awake elsewhere, or has ended | subtracts from the balance |
//! | a thread, with the mark | sleeps there | subtracts, and rings if it was the last |
//!
//! Only T makes T the home or ends that, so T is never wrong about it.

use castell_base::sync::{AtomicI64, AtomicPtr, Ordering};
use std::cell::Cell;

/// The balance of a body that is awake and has no children.
const OPEN: i64 = 1 << 62;
/// In the cell: some child was created since the body last waited for all.
const ANY: i64 = 1;
/// In the cell: some child that was waited for may not have told the balance yet.
const LATE: i64 = 2;
/// In the cell: one child.
const ONE: i64 = 4;

/// A thread that sleeps while the children of its task end.
pub(crate) trait Sleeper {
    /// Forgets that the bell rang.
    fn silence(&self);
    /// Wakes it from [`Sleeper::sleep`].
    fn ring(&self);
    /// Sleeps until the bell rings.
    fn sleep(&self);
}

/// See the module.
pub(crate) struct Children<T> {
    balance: AtomicI64,
    /// The number of those that were created and did not end at home, times [`ONE`], with [`ANY`] and [`LATE`].
    created: Cell<i64>,
    /// The thread on which the body is awake, once it has children; with the lowest bit, on which it sleeps.
    home: AtomicPtr<T>,
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

impl<T: Sleeper> Children<T> {
    #[inline]
    pub(crate) fn new() -> Self {
        Children {
            balance: AtomicI64::new(OPEN),
            created: Cell::new(0),
            home: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The body creates a child. Only from the body's thread, `thread`.
    #[inline]
    pub(crate) fn add(&self, thread: &T) {
        self.created.set((self.created.get() | ANY) + ONE);
        self.home.store(std::ptr::from_ref(thread).cast_mut(), Ordering::Relaxed);
    }

    /// Whether the body is awake on `thread`, the calling one, and has children.
    #[inline]
    pub(crate) fn is_home(&self, thread: &T) -> bool {
        std::ptr::eq(self.home.load(Ordering::Relaxed), thread)
    }

    /// Whether the body is awake on some thread, or sleeps there: a moment's view.
    pub(crate) fn is_awake(&self) -> bool {
        !self.home.load(Ordering::Relaxed).is_null()
    }

    /// A child is done, with all its descendants, and [`Children::is_home`].
    #[inline]
    pub(crate) fn remove_at_home(&self) {
        self.created.set(self.created.get() - ONE);
    }

    /// No child was created since the body last waited for all, and nobody else looks at this. Only from the body's thread.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.created.get() == 0
    }

    #[inline]
    fn outstanding(&self) -> i64 {
        self.created.get() >> ONE.trailing_zeros()
    }

    /// How many are not done. Only from the body's thread.
    #[inline]
    pub(crate) fn live(&self) -> i64 {
        self.outstanding() - (OPEN - self.balance.load(Ordering::Acquire))
    }

    /// Those among `members`, which the body created and which are done, were waited for by themselves; before them, others had
    /// been created if `had_any`. Only from the body's thread.
    pub(crate) fn waited_for(&self, members: &Children<T>, had_any: bool) {
        let elsewhere = members.outstanding();
        let mut created = self.created.get() - elsewhere * ONE;
        if elsewhere != 0 {
            // They have taken themselves from the balance, or are about to.
            self.balance.fetch_add(elsewhere, Ordering::AcqRel);
            created |= LATE;
        }
        let any = if had_any { ANY } else { 0 };
        self.created.set((created & !ANY) | any);
    }

    /// Whether any was created and not waited for yet, done or not. Only from the body's thread.
    pub(crate) fn has_unwaited(&self) -> bool {
        self.created.get() & ANY != 0
    }

    /// Whether `action` creates children that it does not wait for. Only from the body's thread.
    pub(crate) fn watch(&self, action: impl FnOnce()) -> bool {
        let before = self.created.get() & ANY;
        self.created.set(self.created.get() & !ANY);
        action();
        let leaves_some = self.has_unwaited();
        self.created.set(self.created.get() | before);
        leaves_some
    }

    /// All that were created are done: counting starts again, so that it never runs over. Only from the body's thread.
    #[inline]
    pub(crate) fn forget(&self) {
        self.balance.store(OPEN, Ordering::Relaxed);
        self.created.set(0);
    }

    /// `count` children are done, with all their descendants.
    #[inline]
    pub(crate) fn remove(&self, count: i64) -> Left {
        if self.balance.fetch_sub(count, Ordering::AcqRel) != count {
            return Left::Others;
        }
        let home = self.home.load(Ordering::Acquire);
        if home.is_null() {
            return Left::Nobody;
        }
        // SAFETY: the thread stays in the sleep that marked the pointer until its bell rings.
        unsafe { (*home.map_addr(|address| address & !1)).ring() };
        Left::Woken
    }

    /// The body's thread leaves the body: it has ended, or somebody else goes on with it. Before [`Children::close`].
    #[inline]
    pub(crate) fn leave(&self) {
        self.home.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// The body has ended and creates no more; true if no child is live.
    #[inline]
    pub(crate) fn close(&self) -> bool {
        let outstanding = self.outstanding();
        if self.balance.load(Ordering::Acquire) == OPEN - outstanding {
            return true; // nobody else can touch it
        }
        // Release: who takes it to zero sees that nobody is at home.
        self.balance.fetch_sub(OPEN - outstanding, Ordering::AcqRel) == OPEN - outstanding
    }

    /// Sleeps by `sleep` until the last child is done or `sleep` returns.
    pub(crate) fn sleep(&self, thread: &T, sleep: impl FnOnce()) {
        thread.silence();
        let home = std::ptr::from_ref(thread).cast_mut();
        self.home.store(home.map_addr(|address| address | 1), Ordering::Release);
        // This thread ends no child while it sleeps here.
        let outstanding = self.outstanding();
        // From here on, whoever takes the balance to zero rings.
        if self.balance.fetch_sub(OPEN - outstanding, Ordering::AcqRel) != OPEN - outstanding {
            sleep();
        } else {
            thread.ring();
        }
        if self.balance.fetch_add(OPEN - outstanding, Ordering::AcqRel) == 0 {
            // The last one is done and rings; it must have let go of this thread before it goes on.
            thread.sleep();
        }
        self.home.store(home, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    #[derive(Default)]
    struct Bed {
        rung: Mutex<bool>,
        changed: Condvar,
        _aligned: u64,
    }

    impl Sleeper for Bed {
        fn silence(&self) {
            *self.rung.lock().expect("no panic") = false;
        }

        fn ring(&self) {
            *self.rung.lock().expect("no panic") = true;
            self.changed.notify_all();
        }

        fn sleep(&self) {
            let mut rung = self.rung.lock().expect("no panic");
            while !*rung {
                rung = self.changed.wait(rung).expect("no panic");
            }
        }
    }

    struct Body {
        children: Children<Bed>,
        beds: [Bed; 2],
    }

    // SAFETY: the cell is used by the body's thread, and by who goes on after it.
    unsafe impl Sync for Body {}
    // SAFETY: as above.
    unsafe impl Send for Body {}

    fn body() -> Arc<Body> {
        Arc::new(Body { children: Children::new(), beds: [Bed::default(), Bed::default()] })
    }

    fn end(body: &Body, thread: usize, count: i64) -> Left {
        if body.children.is_home(&body.beds[thread]) {
            (0..count).for_each(|_| body.children.remove_at_home());
            return Left::Others;
        }
        body.children.remove(count)
    }

    #[test]
    fn a_waiter_hears_of_the_last() {
        loom::model(|| {
            let body = body();
            (0..3).for_each(|_| body.children.add(&body.beds[0]));
            let other = {
                let body = body.clone();
                thread::spawn(move || end(&body, 1, 2))
            };
            assert_eq!(end(&body, 0, 1), Left::Others);
            while body.children.live() > 0 {
                body.children.sleep(&body.beds[0], || body.beds[0].sleep());
            }
            assert_ne!(other.join().expect("it ends"), Left::Nobody);
            body.children.forget();
            body.children.leave();
            assert!(body.children.close());
        });
    }

    #[test]
    fn a_sleep_may_end_early() {
        loom::model(|| {
            let body = body();
            body.children.add(&body.beds[0]);
            let other = {
                let body = body.clone();
                thread::spawn(move || end(&body, 1, 1))
            };
            body.children.sleep(&body.beds[0], || ());
            while body.children.live() > 0 {
                body.children.sleep(&body.beds[0], || body.beds[0].sleep());
            }
            assert_ne!(other.join().expect("it ends"), Left::Nobody);
        });
    }

    #[test]
    fn one_goes_on_for_a_body_that_ended() {
        loom::model(|| {
            let body = body();
            (0..3).for_each(|_| body.children.add(&body.beds[0]));
            let others = [1, 1].map(|count| {
                let body = body.clone();
                thread::spawn(move || end(&body, 1, count) == Left::Nobody)
            });
            assert_eq!(end(&body, 0, 1), Left::Others);
            body.children.leave();
            let here = body.children.close();
            let there = others.map(|other| other.join().expect("it ends"));
            let last = u32::from(here) + there.map(u32::from).iter().sum::<u32>();
            assert_eq!(last, 1);
        });
    }

    #[test]
    fn members_that_were_waited_for_are_forgotten() {
        loom::model(|| {
            let (body, group) = (body(), body());
            body.children.add(&body.beds[0]);
            for _ in 0..2 {
                body.children.add(&body.beds[0]);
                group.children.add(&body.beds[0]);
            }
            let other = {
                let (body, group) = (body.clone(), group.clone());
                thread::spawn(move || {
                    group.children.remove(1);
                    end(&body, 1, 1)
                })
            };
            group.children.remove_at_home();
            assert_eq!(end(&body, 0, 1), Left::Others);
            while group.children.live() > 0 {
                group.children.sleep(&body.beds[0], || body.beds[0].sleep());
            }
            body.children.waited_for(&group.children, true);
            assert_eq!(end(&body, 0, 1), Left::Others);
            assert!(!body.children.is_untouched());
            body.children.leave();
            let here = body.children.close();
            assert!(here ^ (other.join().expect("it ends") == Left::Nobody));
        });
    }
    /// The body has nothing but a group, whose last member rings it before it tells the body's balance.
    #[test]
    fn a_late_member_ends_a_body_that_only_had_a_group() {
        loom::model(|| {
            let (body, group) = (body(), body());
            body.children.add(&body.beds[0]);
            group.children.add(&body.beds[0]);
            let other = {
                let (body, group) = (body.clone(), group.clone());
                thread::spawn(move || {
                    group.children.remove(1);
                    end(&body, 1, 1)
                })
            };
            while group.children.live() > 0 {
                group.children.sleep(&body.beds[0], || body.beds[0].sleep());
            }
            body.children.waited_for(&group.children, false);
            assert!(!body.children.has_unwaited());
            assert!(!body.children.is_untouched(), "the task could go before the other has looked");
            body.children.leave();
            let here = body.children.close();
            assert!(here ^ (other.join().expect("it ends") == Left::Nobody));
        });
    }
}
