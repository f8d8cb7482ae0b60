//! Outside of parallel regions, and in regions whose threads this library does not see come: tasks run where they are created, so there is
//! nothing to wait for, but for events that somebody else fulfils. A thread in no region that is in no task and no group either becomes a team of
//! its own when it creates a task with an event: see `region`.

use crate::own::Values;
use castell_host::futex;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

thread_local! {
    /// The reductions that were registered, innermost last.
    static REGISTERED: RefCell<Vec<*mut usize>> = const { RefCell::new(Vec::new()) };
    /// The tasks that are running, innermost last.
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
    /// How many groups are open.
    static GROUPS: Cell<u32> = const { Cell::new(0) };
}

struct Running {
    is_final: bool,
    /// What its end puts back, if it has set something.
    found: Option<Values>,
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
    RUNNING.with_borrow(|running| running.last().is_some_and(|task| task.is_final))
}

pub(crate) fn is_in_task() -> bool {
    RUNNING.with_borrow(|running| !running.is_empty())
}

pub(crate) fn open_group() {
    GROUPS.set(GROUPS.get() + 1);
}

pub(crate) fn close_group() {
    GROUPS.set(GROUPS.get().saturating_sub(1));
}

pub(crate) fn is_in_group() -> bool {
    GROUPS.get() > 0
}

/// Runs `body` as a task.
pub(crate) fn run(is_final: bool, body: impl FnOnce()) {
    begin(is_final);
    body();
    end();
}

/// As [`run`], whose body is what the thread does until [`end`].
pub(crate) fn begin(is_final: bool) {
    let is_final = is_final || self::is_final();
    RUNNING.with_borrow_mut(|running| running.push(Running { is_final, found: None }));
}

/// The task that was begun last is over.
pub(crate) fn end() {
    let ended = RUNNING.with_borrow_mut(Vec::pop);
    ended.and_then(|task| task.found).into_iter().for_each(Values::set);
}

/// The current task, if there is one, is about to set something: its end puts back what it has `found`, the first time.
pub(crate) fn keep(found: impl FnOnce() -> Values) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(task) = running.last_mut() {
            task.found.get_or_insert_with(found);
        }
    });
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
