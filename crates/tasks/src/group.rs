//! Groups of tasks that are waited for, and cancelled, together.

use crate::children::Children;
use crate::current::Thread;
use crate::wait::wait_counted;
use castell_base::sync::{AtomicBool, Ordering};

/// A group around tasks; it lives on the stack of the body that opened it, which waits for the tasks in it.
pub struct Group {
    outer: *const Group,
    cancelled: AtomicBool,
    /// The tasks that the body itself created in it; what those create is theirs.
    pub(crate) members: Children<Thread>,
    /// The body had created others before it opened the group.
    had_others: bool,
}

impl Group {
    /// Opens a group inside the thread's present one, runs `body` in it and waits for the tasks that it created. If
    /// `body` panics, the group is cancelled first.
    pub(crate) fn with<R>(thread: &Thread, body: impl FnOnce() -> R) -> R {
        let outer = thread.group.get();
        // SAFETY: a body is running, so its task is alive.
        let had_others = unsafe { &*thread.task.get() }.children.has_unwaited();
        let group = Group { outer, cancelled: AtomicBool::new(false), members: Children::new(), had_others };
        let close = Close { thread, group: &group };
        thread.group.set(&group);
        let result = body();
        drop(close);
        result
    }

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

    /// Skips all tasks in it that have not begun.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

struct Close<'a> {
    thread: &'a Thread,
    group: &'a Group,
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.group.cancel();
        }
        // SAFETY: a body is running, so its task is alive.
        let task = unsafe { &*self.thread.task.get() };
        if self.group.members.live() > 0 {
            // Others of its descendants may pause until this body goes on: they are not to lie above it.
            task.await_group(self.group);
            wait_counted(self.thread, &self.group.members);
            task.await_group(std::ptr::null());
        }
        if !self.group.members.is_untouched() {
            task.children.waited_for(&self.group.members, self.group.had_others);
        }
        self.thread.group.set(self.group.outer);
    }
}
