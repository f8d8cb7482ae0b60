//! What a scheduler has to know of the things that it queues, so that its queues can be tested with other things.

use castell_base::sync::{AtomicPtr, Ordering};
use castell_sched::Kind;
use std::ptr::NonNull;

/// Something that a scheduler can queue: it brings its own link, so queueing allocates nothing.
///
/// # Safety
/// `link` must always return the same cell of `self`, and nobody but the holder of the reference in a queue may write
/// it: from `add` to `get`, that is the scheduler.
pub unsafe trait Schedulable: Sized {
    /// The cell for the next one in whatever list holds this.
    fn link(&self) -> &AtomicPtr<Self>;
    /// Larger runs earlier, where the policy looks at it.
    fn priority(&self) -> i32;
    /// The NUMA node on which most of its data was written last, if known.
    fn place(&self) -> Option<u16>;
    /// What can run it; an ordinary processor unless the implementation says otherwise.
    #[inline]
    fn kind(&self) -> Kind {
        Kind::CPU
    }
    /// What is to run one whose [`kind`](Schedulable::kind) is none yet, now that it is ready. `None`: it is somebody else's now, who adds it once more.
    ///
    /// # Safety
    /// `task` is alive, in no list, and not touched any more after `None`.
    unsafe fn decide(_task: NonNull<Self>) -> Option<Kind> {
        unreachable!("its kind is one of {}", Kind::COUNT)
    }

    /// In how many others its creation is nested: in recursion, what is nested less has more work below it.
    #[inline]
    fn nesting(&self) -> u32 {
        0
    }

    /// Whether this was created, directly or not, by `ancestor`.
    fn descends_from(&self, ancestor: &Self) -> bool;

    /// Whether a thread may run it on a stack where somebody waits for what `waiter` waits for, or for `waiter` itself: if it is
    /// that or descends from it, and is among those that are waited for, as far as that is known.
    #[inline]
    fn may_run_above(&self, waiter: &Self) -> bool {
        self.descends_from(waiter)
    }
}

/// What runs a task that has become ready; see [`Schedulable::decide`].
///
/// # Safety
/// As there.
#[inline]
pub(super) unsafe fn kind_of<T: Schedulable>(task: NonNull<T>) -> Option<Kind> {
    // SAFETY: the caller's promise.
    let kind = unsafe { task.as_ref() }.kind();
    // SAFETY: as above.
    if kind.index() < Kind::COUNT { Some(kind) } else { unsafe { T::decide(task) } }
}

/// A list of ready tasks through their links: what completing a task made ready, oldest first.
pub struct ReadyList<T: Schedulable> {
    first: *mut T,
    last: *mut T,
    length: usize,
}

impl<T: Schedulable> ReadyList<T> {
    /// Nothing.
    #[inline]
    pub const fn new() -> Self {
        ReadyList { first: std::ptr::null_mut(), last: std::ptr::null_mut(), length: 0 }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Adds one behind the others.
    ///
    /// # Safety
    /// `task` is alive, in no other list, and stays so until it is popped.
    #[inline]
    pub unsafe fn push(&mut self, task: NonNull<T>) {
        // SAFETY: alive, and its link is ours while it is in our list.
        unsafe { task.as_ref() }.link().store(std::ptr::null_mut(), Ordering::Relaxed);
        if self.last.is_null() {
            self.first = task.as_ptr();
        } else {
            // SAFETY: what was pushed stays alive until it is popped.
            unsafe { &*self.last }.link().store(task.as_ptr(), Ordering::Relaxed);
        }
        self.last = task.as_ptr();
        self.length += 1;
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<NonNull<T>> {
        let first = NonNull::new(self.first)?;
        // SAFETY: what was pushed stays alive until it is popped.
        self.first = unsafe { first.as_ref() }.link().load(Ordering::Relaxed);
        if self.first.is_null() {
            self.last = std::ptr::null_mut();
        }
        self.length -= 1;
        Some(first)
    }
}

impl<T: Schedulable> Default for ReadyList<T> {
    fn default() -> Self {
        ReadyList::new()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Something to queue.
    pub(crate) struct Item {
        pub(crate) link: AtomicPtr<Item>,
        pub(crate) number: u64,
        pub(crate) priority: i32,
        pub(crate) kind: Kind,
        pub(crate) place: Option<u16>,
        pub(crate) parent: Option<u64>,
        pub(crate) nesting: u32,
        /// How often somebody asked for its nesting.
        pub(crate) asked: AtomicU32,
    }

    impl Item {
        pub(crate) fn new(number: u64) -> Item {
            let link = AtomicPtr::new(std::ptr::null_mut());
            Item {
                link,
                number,
                priority: 0,
                kind: Kind::CPU,
                place: None,
                parent: None,
                nesting: 0,
                asked: AtomicU32::new(0),
            }
        }
    }

    // SAFETY: the link is the field of that name.
    unsafe impl Schedulable for Item {
        fn link(&self) -> &AtomicPtr<Item> {
            &self.link
        }

        fn priority(&self) -> i32 {
            self.priority
        }

        fn place(&self) -> Option<u16> {
            self.place
        }

        fn kind(&self) -> Kind {
            self.kind
        }

        fn nesting(&self) -> u32 {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.nesting
        }

        fn descends_from(&self, ancestor: &Item) -> bool {
            self.parent == Some(ancestor.number)
        }
    }
}
