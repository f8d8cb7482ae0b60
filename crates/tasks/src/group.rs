//! Groups of tasks that are waited for, and cancelled, together.

use castell_base::sync::{AtomicBool, Ordering};

/// A group around tasks; it lives on the stack of the body that opened it.
pub struct Group {
    outer: *const Group,
    cancelled: AtomicBool,
}

impl Group {
    /// Whether it or one around it was cancelled: tasks in it that have not begun are skipped.
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
}
