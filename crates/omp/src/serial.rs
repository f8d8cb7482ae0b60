//! Outside of parallel regions, and in regions whose threads this library does not see come: tasks run where they are created, so there is
//! nothing to wait for, but for events that somebody else fulfils.

use castell_host::futex;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

thread_local! {
    /// The reductions that were registered, innermost last.
    static REGISTERED: RefCell<Vec<*mut usize>> = const { RefCell::new(Vec::new()) };
    /// The tasks that are running, innermost last: whether they are final.
    static FINAL: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn register(data: *mut usize) {
    REGISTERED.with_borrow_mut(|registered| registered.push(data));
}

pub(crate) fn unregister(data: *mut usize) {
    REGISTERED.with_borrow_mut(|registered| registered.retain(|&other| other != data));
}

/// Innermost first.
pub(crate) fn registered() -> impl Iterator<Item = *mut usize> {
    REGISTERED.with_borrow(|registered| registered.clone()).into_iter().rev()
}

pub(crate) fn is_final() -> bool {
    FINAL.with_borrow(|finals| finals.last() == Some(&true))
}

pub(crate) fn is_in_task() -> bool {
    FINAL.with_borrow(|finals| !finals.is_empty())
}

/// Runs `body` as a task.
pub(crate) fn run(is_final: bool, body: impl FnOnce()) {
    begin(is_final);
    body();
    end();
}

/// As [`run`], whose body is what the thread does until [`end`].
pub(crate) fn begin(is_final: bool) {
    FINAL.with_borrow_mut(|finals| finals.push(is_final || finals.last() == Some(&true)));
}

/// The task that was begun last is over.
pub(crate) fn end() {
    FINAL.with_borrow_mut(|finals| finals.pop());
}

/// What a task that runs at once is detached from: its end waits for it.
pub(crate) struct Event {
    state: AtomicU32,
}

const PENDING: u32 = 0;
const FULFILLED: u32 = 1;
const RELEASED: u32 = 2;

/// In an address, the lowest bit tells such an event from a task.
const MARK: usize = 1;

impl Event {
    pub(crate) fn new() -> Event {
        Event { state: AtomicU32::new(PENDING) }
    }

    /// What the program has of it, until [`Event::wait`] has returned.
    pub(crate) fn handle(&self) -> *mut c_void {
        std::ptr::from_ref(self).map_addr(|address| address | MARK).cast_mut().cast()
    }

    pub(crate) fn wait(&self) {
        while self.state.load(Ordering::Acquire) == PENDING {
            futex::wait(&self.state, PENDING, u32::MAX, None);
        }
        // Whoever fulfils it lets go of it in a moment.
        while self.state.load(Ordering::Acquire) != RELEASED {
            std::thread::yield_now();
        }
    }

    /// Fulfils the event that `handle` is of; false if it is a task's.
    ///
    /// # Safety
    /// The handle is of a task that waits for its event.
    pub(crate) unsafe fn fulfil(handle: *mut c_void) -> bool {
        if handle.addr() & MARK == 0 {
            return false;
        }
        // SAFETY: it is there until it is released.
        let state = unsafe { &(*handle.map_addr(|address| address & !MARK).cast::<Event>()).state };
        state.store(FULFILLED, Ordering::Release);
        futex::wake(state, 1, u32::MAX);
        state.store(RELEASED, Ordering::Release);
        true
    }
}
