//! Copies of reductions that are combined one at a time, and where that was asked for in the order in which tasks were created.

use castell_base::sync::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Combines a finished copy into its target.
pub type Combine = Box<dyn FnOnce() + Send>;

/// Who is on at each target, by its address; also the lock under which copies are combined.
#[derive(Default)]
pub struct Turns(Mutex<BTreeMap<usize, Order>>);

/// The turns at one target.
#[derive(Default)]
struct Order {
    taken: u64,
    next: u64,
    /// Those whose turn has not come; nothing where a task was skipped.
    early: BTreeMap<u64, Option<Combine>>,
}

/// Something that keeps turns.
pub trait KeepsTurns {
    /// The turns that it keeps.
    fn turns(&self) -> &Turns;
}

impl KeepsTurns for &Turns {
    fn turns(&self) -> &Turns {
        self
    }
}

/// A place in the order in which copies are combined. A task that is skipped gives its place up.
pub struct Turn<K: KeepsTurns> {
    target: usize,
    number: u64,
    kept_by: K,
    /// It has passed: from then on its number may be that of a later turn.
    passed: AtomicBool,
}

impl Turns {
    /// Nobody has taken a turn.
    pub const fn new() -> Turns {
        Turns(Mutex::new(BTreeMap::new()))
    }

    /// Combines a copy whose order does not matter.
    pub fn alone(&self, combine: impl FnOnce()) {
        let _held = self.lock();
        combine();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Order>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: KeepsTurns> Turn<K> {
    /// The next place at the target with this address: to be called in the order in which tasks are created.
    pub fn take(target: usize, kept_by: K) -> Turn<K> {
        let mut orders = kept_by.turns().lock();
        let order = orders.entry(target).or_default();
        order.taken += 1;
        let number = order.taken - 1;
        drop(orders);
        Turn { target, number, kept_by, passed: AtomicBool::new(false) }
    }

    /// Combines a copy once this turn has come: now, or when the one before passes. Once.
    pub fn pass(&self, combine: Combine) {
        self.go_on(Some(combine));
    }

    fn go_on(&self, combine: Option<Combine>) {
        let mut orders = self.kept_by.turns().lock();
        // Relaxed: looked at under the lock.
        if self.passed.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(order) = orders.get_mut(&self.target) else { return };
        order.early.insert(self.number, combine);
        while let Some(combine) = order.early.remove(&order.next) {
            order.next += 1;
            if let Some(combine) = combine {
                combine();
            }
        }
        if order.next == order.taken {
            orders.remove(&self.target);
        }
    }
}

impl<K: KeepsTurns> Drop for Turn<K> {
    fn drop(&mut self) {
        self.go_on(None);
    }
}
