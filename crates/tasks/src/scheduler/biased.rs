//! A lock that costs its owner two plain stores, so that a worker's own queue is free while nobody else wants it.
//!
//! A visitor *asks* first: it raises its flag, and the owner, which looks at that whenever it wants in, lets it in. That costs nobody but the
//! two of them. Only where the owner does not come by for long, the visitor may *force* its way: owner and visitor have then each raised a flag
//! before they look at the other's (Dekker), the owner with the light barrier and the visitor with the heavy one
//! ([`castell_host::barrier`]), which interrupts all processors of the process, one visitor after the other: with 16 workers that
//! was most of what they did.
//!
//! | owner's flag | visitor's flag | who may touch the value |
//! |---|---|---|
//! | up | down, or it asks | the owner |
//! | down | down, or it asks | nobody: the owner may come in, or let the visitor in |
//! | down | let in | the visitor |
//! | down | forces, after its barrier | the visitor |
//! | up | forces | nobody yet: the owner takes its flag down and waits, or the visitor gives up |

use super::fences;
use castell_base::sync::{AtomicU32, Ordering, spin_hint};
use std::cell::UnsafeCell;

const DOWN: u32 = 0;
const UP: u32 = 1;

/// The visitor's flag: it wants in, and waits until the owner lets it.
const ASKS: u32 = 1;
/// The owner has let it in.
const LET_IN: u32 = 2;
/// It goes in once it has seen, after the heavy barrier, that the owner is out.
const FORCES: u32 = 3;
/// It is in, or about to be, and the owner sleeps until it is out.
const AWAITED: u32 = 4;

/// How often a visitor that asks looks whether it is let in: for some of the owner's steps from one use of the value to the next, where these
/// are short.
const ASKER_LOOKS: u32 = if cfg!(loom) { 2 } else { 64 };
/// How often a visitor that forces looks whether the owner is out before it gives up. The owner is inside for some nanoseconds,
/// unless it has lost its processor.
const VISITOR_LOOKS: u32 = if cfg!(loom) { 1 } else { 200 };
/// How often the owner looks whether the visitor is out before it sleeps.
const OWNER_LOOKS: u32 = if cfg!(loom) { 1 } else { 200 };

/// A value that one thread at a time, its owner, uses all the time and others hardly ever.
pub(super) struct Biased<V> {
    owner: AtomicU32,
    visitor: AtomicU32,
    value: UnsafeCell<V>,
}

// SAFETY: the flags let one thread at a time touch the value.
unsafe impl<V: Send> Sync for Biased<V> {}

impl<V> Biased<V> {
    pub(super) fn new(value: V) -> Self {
        Biased { owner: AtomicU32::new(DOWN), visitor: AtomicU32::new(DOWN), value: UnsafeCell::new(value) }
    }

    /// Uses the value as its owner.
    ///
    /// # Safety
    /// No other thread is the owner at the same time, and `action` does not come back here.
    #[inline(always)]
    pub(super) unsafe fn own<R>(&self, action: impl FnOnce(&mut V) -> R) -> R {
        self.owner.store(UP, Ordering::Relaxed);
        fences::light();
        // Acquire: what a visitor did before it took its flag down.
        if self.visitor.load(Ordering::Acquire) != DOWN {
            self.wait_for_visitor();
        }
        // SAFETY: our flag is up, and no visitor was let in or forced its way before that: one that forces it now sees our flag.
        let result = action(unsafe { &mut *self.value.get() });
        self.owner.store(DOWN, Ordering::Release);
        result
    }

    /// Uses the value from another thread, if its owner comes by soon and lets this one in.
    pub(super) fn ask<R>(&self, action: impl FnOnce(&mut V) -> R) -> Option<R> {
        if self.visitor.load(Ordering::Relaxed) != DOWN || !self.raise(ASKS) {
            return None; // somebody else is at it
        }
        let mut looks = 0;
        while self.visitor.load(Ordering::Acquire) == ASKS {
            looks += 1;
            if looks < ASKER_LOOKS {
                spin_hint();
            } else if self.visitor.compare_exchange(ASKS, DOWN, Ordering::Relaxed, Ordering::Acquire).is_ok()
            {
                return None;
            }
        }
        // SAFETY: the owner has let this one in, and waits until it is out.
        let result = action(unsafe { &mut *self.value.get() });
        self.leave();
        Some(result)
    }

    /// Uses the value from another thread, whether or not its owner comes by; `None` if somebody else is using it for longer than this can
    /// wait.
    pub(super) fn force<R>(&self, action: impl FnOnce(&mut V) -> R) -> Option<R> {
        if !self.raise(FORCES) {
            return None;
        }
        fences::heavy();
        let mut looks = 0;
        while self.owner.load(Ordering::Acquire) != DOWN {
            looks += 1;
            if looks >= VISITOR_LOOKS {
                self.leave();
                return None;
            }
            spin_hint();
        }
        // SAFETY: our flag was up before the owner's was seen down: an owner that comes now sees ours and waits.
        let result = action(unsafe { &mut *self.value.get() });
        self.leave();
        Some(result)
    }

    /// One visitor at a time.
    fn raise(&self, flag: u32) -> bool {
        // Acquire: what the visitor before did.
        self.visitor.compare_exchange(DOWN, flag, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn leave(&self) {
        if self.visitor.swap(DOWN, Ordering::Release) == AWAITED {
            fences::wake(&self.visitor);
        }
    }

    #[cold]
    fn wait_for_visitor(&self) {
        loop {
            self.owner.store(DOWN, Ordering::Release);
            // Release: the visitor sees what its owner did with the value. One that has given up meanwhile is not let in.
            let _ = self.visitor.compare_exchange(ASKS, LET_IN, Ordering::AcqRel, Ordering::Relaxed);
            let mut looks = 0;
            loop {
                let seen = self.visitor.load(Ordering::Acquire);
                if seen == DOWN || seen == ASKS {
                    break; // another one that asks has to wait for the next time
                }
                looks += 1;
                if looks < OWNER_LOOKS {
                    spin_hint();
                } else if seen == AWAITED
                    || self
                        .visitor
                        .compare_exchange(seen, AWAITED, Ordering::Relaxed, Ordering::Relaxed)
                        .is_ok()
                {
                    fences::sleep(&self.visitor, AWAITED);
                }
            }
            self.owner.store(UP, Ordering::Relaxed);
            // One that forces its way may have come meanwhile: the same look as before. Who only asks is let in by the owner alone.
            fences::light();
            if matches!(self.visitor.load(Ordering::Acquire), DOWN | ASKS) {
                return;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn owner_and_visitors_never_meet() {
        castell_host::barrier::prepare();
        let (biased, done) = (&Biased::new((0u64, 0u64)), &AtomicBool::new(false));
        let step = |value: &mut (u64, u64)| {
            assert_eq!(value.0, value.1);
            value.0 += 1;
            std::hint::black_box(&mut *value);
            value.1 += 1;
        };
        let visits: u64 = std::thread::scope(|scope| {
            let visitor = |forces: bool| {
                scope.spawn(move || {
                    let mut visits = 0;
                    while !done.load(Ordering::Relaxed) {
                        let visited = if forces { biased.force(step) } else { biased.ask(step) };
                        visits += u64::from(visited.is_some());
                        std::thread::yield_now();
                    }
                    visits
                })
            };
            let visitors = [visitor(true), visitor(false), visitor(false)];
            for _ in 0..300_000 {
                // SAFETY: this thread alone is the owner.
                unsafe { biased.own(step) };
            }
            done.store(true, Ordering::Relaxed);
            visitors.into_iter().map(|visitor| visitor.join().expect("the visitor ends")).sum()
        });
        // SAFETY: the visitors are gone.
        assert_eq!(unsafe { biased.own(|value| *value) }, (300_000 + visits, 300_000 + visits));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// What is counted by hand; loom's own cell notices two threads inside.
    type Cell = loom::cell::UnsafeCell<i32>;

    fn owner_and(visitors: &'static [fn(&Biased<Cell>) -> Option<()>]) {
        // What goes wrong, goes wrong with few changes between threads.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = (visitors.len() > 1).then_some(2);
        model.check(move || {
            let biased = Arc::new(Biased::new(Cell::new(0)));
            let visits: Vec<_> = visitors
                .iter()
                .map(|visit| {
                    let biased = biased.clone();
                    thread::spawn(move || visit(&biased).is_some())
                })
                .collect();
            for _ in 0..2 {
                // SAFETY: this thread is the only owner, and loom's cell watches who is inside.
                unsafe { biased.own(add) };
            }
            let visited = visits.into_iter().map(|visit| i32::from(visit.join().expect("the visitor ends")));
            let expected = 2 + visited.sum::<i32>();
            // SAFETY: as above.
            assert_eq!(unsafe { biased.own(|cell| cell.with(|at| *at)) }, expected);
        });
    }

    fn add(cell: &mut Cell) {
        // SAFETY: loom's cell watches who is inside.
        cell.with_mut(|at| unsafe { *at += 1 });
    }

    #[test]
    fn who_forces_is_alone() {
        owner_and(&[|biased| biased.force(add)]);
    }

    #[test]
    fn who_asks_is_alone() {
        owner_and(&[|biased| biased.ask(add)]);
    }

    #[test]
    fn who_asks_and_who_forces_are_alone() {
        owner_and(&[|biased| biased.ask(add), |biased| biased.force(add)]);
    }
}
