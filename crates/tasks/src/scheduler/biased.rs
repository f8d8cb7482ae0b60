//! A lock that costs its owner two plain stores, so that a worker's own queue is free while nobody else wants it.
//!
//! Owner and visitor each raise a flag and then look at the other's (Dekker). The owner's barrier is the light one, the
//! visitor's the heavy one ([`castell_host::barrier`]): visits are rare.
//!
//! | owner's flag | visitor's flag | who may touch the value |
//! |---|---|---|
//! | up | down | the owner |
//! | down | up or waited for | the visitor |
//! | up | up | nobody yet: the owner takes its flag down and waits, or the visitor gives up |

use super::fences;
use castell_base::sync::{AtomicU32, Ordering, spin_hint};
use std::cell::UnsafeCell;

const DOWN: u32 = 0;
const UP: u32 = 1;
/// Up, and the owner sleeps until it is down.
const AWAITED: u32 = 2;

/// How often a visitor looks whether the owner is out before it gives up. The owner is inside for some nanoseconds,
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
        // SAFETY: our flag is up, and no visitor's was after that: a visitor that comes now sees ours.
        let result = action(unsafe { &mut *self.value.get() });
        self.owner.store(DOWN, Ordering::Release);
        result
    }

    /// Uses the value from another thread; `None` if somebody else is using it for longer than this can wait.
    pub(super) fn visit<R>(&self, action: impl FnOnce(&mut V) -> R) -> Option<R> {
        if self.visitor.compare_exchange(DOWN, UP, Ordering::Acquire, Ordering::Relaxed).is_err() {
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

    fn leave(&self) {
        if self.visitor.swap(DOWN, Ordering::Release) == AWAITED {
            fences::wake(&self.visitor);
        }
    }

    #[cold]
    fn wait_for_visitor(&self) {
        loop {
            self.owner.store(DOWN, Ordering::Release);
            let mut looks = 0;
            while self.visitor.load(Ordering::Acquire) != DOWN {
                looks += 1;
                if looks < OWNER_LOOKS {
                    spin_hint();
                } else if self.visitor.compare_exchange(UP, AWAITED, Ordering::Relaxed, Ordering::Relaxed)
                    != Err(DOWN)
                {
                    fences::sleep(&self.visitor, AWAITED);
                }
            }
            self.owner.store(UP, Ordering::Relaxed);
            // Another visitor may have come meanwhile: the same look as before.
            fences::light();
            if self.visitor.load(Ordering::Acquire) == DOWN {
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
            let visitor = || {
                scope.spawn(move || {
                    let mut visits = 0;
                    while !done.load(Ordering::Relaxed) {
                        visits += u64::from(biased.visit(step).is_some());
                        std::thread::yield_now();
                    }
                    visits
                })
            };
            let visitors = [visitor(), visitor()];
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

    #[test]
    fn one_at_a_time() {
        // Loom's own cell would notice two threads inside; ours is counted by hand.
        loom::model(|| {
            let biased = Arc::new(Biased::new(loom::cell::UnsafeCell::new(0)));
            let visitor = {
                let biased = biased.clone();
                // SAFETY: loom's cell watches who is inside.
                let add = |at: *mut i32| unsafe { *at += 1 };
                thread::spawn(move || biased.visit(|cell| cell.with_mut(add)).is_some())
            };
            for _ in 0..2 {
                // SAFETY: this thread is the only owner, and loom's cell watches who is inside.
                unsafe { biased.own(|cell| cell.with_mut(|at| *at += 1)) };
            }
            let visited = visitor.join().expect("the visitor ends");
            // SAFETY: as above.
            let count = unsafe { biased.own(|cell| cell.with(|at| *at)) };
            assert_eq!(count, 2 + i32::from(visited));
        });
    }
}
