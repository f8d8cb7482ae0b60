//! Where commutative tasks take turns.

use super::dependent::Dependent;
use super::lock::Lock;
use castell_deps::{Exclusion, Kind, Region};
use std::ptr::NonNull;

/// Which commutative tasks hold which bytes; one table for all tasks that share memory.
pub struct Exclusive<T>(Lock<Exclusion<Holder<T>>>);

/// A task in the table: it holds bytes or waits for some, so it is alive.
struct Holder<T>(NonNull<T>);

impl<T> Clone for Holder<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Holder<T> {}

impl<T> PartialEq for Holder<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

// SAFETY: tasks can be looked at from any thread.
unsafe impl<T> Send for Exclusive<T> {}
// SAFETY: as above, and the table is behind a lock.
unsafe impl<T> Sync for Exclusive<T> {}

impl<T> Default for Exclusive<T> {
    fn default() -> Self {
        Exclusive(Lock::new(Exclusion::new()))
    }
}

impl<T: Dependent> Exclusive<T> {
    /// Takes the bytes of all of the task's commutative accesses, or notes that it waits.
    ///
    /// # Safety
    /// The task is alive, nothing but this blocks it, and its ancestors are alive.
    pub(super) unsafe fn acquire(&self, task: NonNull<T>) -> bool {
        // SAFETY: the caller's promise.
        let record = unsafe { task.as_ref() };
        let regions: Vec<Region> = record
            .accesses()
            .iter()
            .filter(|access| access.kind() == Kind::Commutative && !access.state().is_weak())
            .map(|access| access.region())
            .collect();
        // SAFETY: whoever holds bytes is alive: it gives them back before its accesses go.
        let is_ancestor = |holder: Holder<T>| record.descends_from(unsafe { holder.0.as_ref() });
        self.0.with(|table| {
            let has_got = table.acquire(Holder(task), &regions, is_ancestor);
            if !has_got && let Some(holder) = table.in_the_way(&regions, is_ancestor) {
                // SAFETY: as above.
                record.waits_for_turn(unsafe { holder.0.as_ref() });
            }
            has_got
        })
    }

    /// Gives back what `task` holds of `region`; returns those that got all that they waited for. The task's record need not
    /// be there any more.
    pub(super) fn release(&self, task: NonNull<T>, region: Region) -> Vec<NonNull<T>> {
        let waiting = self.0.with(|table| table.release(Holder(task), region));
        // SAFETY: they wait, so they are alive, and nothing but their turn blocks them.
        waiting.into_iter().map(|holder| holder.0).filter(|task| unsafe { self.acquire(*task) }).collect()
    }
}
