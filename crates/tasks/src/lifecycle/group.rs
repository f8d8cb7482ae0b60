//! Groups of tasks that are waited for, and cancelled, together.

use crate::lifecycle::children::Children;
use crate::lifecycle::current::Thread;
use castell_base::sync::{AtomicBool, AtomicPtr, Ordering};
use std::ffi::c_void;

/// A group around tasks; it lives on the stack of the body that opened it, which waits for the tasks in it.
pub struct Group {
    pub(crate) outer: *const Group,
    pub(crate) cancelled: AtomicBool,
    /// The tasks that the body itself created in it; what those create is theirs.
    pub(crate) members: Children<Thread>,
    /// The body had created others before it opened the group.
    pub(crate) had_others: bool,
    /// What whoever opened it keeps with it.
    pub(crate) companion: AtomicPtr<c_void>,
}

impl Group {
    /// Whether it or one around it was cancelled: tasks in it that have not begun are skipped.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        let mut group = Some(self);
        while let Some(inner) = group {
            if inner.cancelled.load(Ordering::Relaxed) {
                return true;
            }
            // SAFETY: a group outlives the groups inside it.
            group = unsafe { inner.outer.as_ref() };
        }
        false
    }

    /// Whether it is `outer`, which may be gone, or opened inside that.
    pub(crate) fn is_inside(&self, outer: *const Group) -> bool {
        let mut group = Some(self);
        while let Some(inner) = group {
            if std::ptr::eq(inner, outer) {
                return true;
            }
            // SAFETY: a group outlives the groups inside it.
            group = unsafe { inner.outer.as_ref() };
        }
        false
    }

    /// The task that opened `innermost` and those around it has become another, which goes on in them: none of them has members any more.
    ///
    /// # Safety
    /// That task calls; all that was created in these groups is done, and nobody else knows them.
    pub(crate) unsafe fn begin_again(innermost: *const Group) {
        let mut group = innermost.cast_mut();
        // SAFETY: the caller's promise. They came from boxes.
        while let Some(one) = unsafe { group.as_mut() } {
            one.members = Children::new();
            one.had_others = false;
            group = one.outer.cast_mut();
        }
    }

    /// Skips all tasks in it that have not begun.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}
