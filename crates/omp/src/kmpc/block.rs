//! A task's memory: made before the task is known to castell, filled by the compiler's code, and given back when the task is over.
//!
//! | bytes | what |
//! |---|---|
//! | 64 | [`Head`], ours |
//! | what the compiler says | its part: where the shared variables' addresses lie, the function, where an untied task goes on, two words, private variables |
//! | what the compiler says | addresses of shared variables |

use castell_host::futex;
use castell_tasks::BegunTask;
use castell_tasks::foreign;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The function of a task: libomp's number of the calling thread, and the compiler's part of its memory.
pub(super) type Routine = unsafe extern "C" fn(c_int, *mut Part) -> c_int;

/// What compilers say of a task when they make it.
pub(super) mod with {
    pub(crate) const FINAL: i32 = 1 << 1;
    pub(crate) const DESTRUCTORS: i32 = 1 << 3;
    pub(crate) const PROXY: i32 = 1 << 4;
    pub(crate) const PRIORITY: i32 = 1 << 5;
    pub(crate) const DETACHABLE: i32 = 1 << 6;
}

/// The beginning of the compiler's part.
#[repr(C)]
pub(super) struct Part {
    shared: *mut c_void,
    routine: Routine,
    /// Where an untied task goes on.
    step: c_int,
    /// What ends its private objects.
    destructors: Option<Routine>,
    pub(super) priority: c_int,
}

/// Ours, before the compiler's part.
#[repr(C, align(64))]
pub(super) struct Head {
    pub(super) flags: i32,
    /// Who has still to do with it: the task itself, and whoever fulfils its event.
    holders: AtomicU32,
    /// Bytes of the compiler's part, and of the addresses behind.
    bytes: u32,
    shared_bytes: u32,
    /// The task of castell's that waits for the event; [`fulfilled`] once that has happened.
    waits: AtomicPtr<c_void>,
    /// Whether the event has happened, for a thread that sleeps until it has.
    event: AtomicU32,
    /// Its function is running,
    runs: Cell<bool>,
    /// and wants to be called once more.
    again: Cell<bool>,
    /// What its creator was doing, while that runs it in place.
    pub(super) begun: Cell<Option<BegunTask>>,
}

const _: () = assert!(size_of::<Head>() == 64);

/// In an address, this bit tells an event of such a task.
const MARK: usize = 2;

fn fulfilled() -> *mut c_void {
    std::ptr::without_provenance_mut(1)
}

impl Head {
    /// Makes room for a task. One without a function only keeps its place in the order that its dependences make: `taskwait nowait`.
    pub(super) fn create(
        flags: i32,
        bytes: usize,
        shared_bytes: usize,
        routine: Option<Routine>,
    ) -> NonNull<Part> {
        let routine = routine.unwrap_or(nothing);
        let bytes = bytes.max(size_of::<Part>()).next_multiple_of(8);
        let layout = layout(bytes, shared_bytes);
        // SAFETY: the layout has a size; everything is written before it is read.
        unsafe {
            let head = alloc(layout).cast::<Head>();
            if head.is_null() {
                handle_alloc_error(layout);
            }
            let has_event = flags & (with::PROXY | with::DETACHABLE) != 0;
            head.write(Head {
                flags,
                holders: AtomicU32::new(1 + u32::from(has_event)),
                bytes: u32::try_from(bytes).expect("a task of less than 4 GiB"),
                shared_bytes: u32::try_from(shared_bytes).expect("a task of less than 4 GiB"),
                waits: AtomicPtr::new(std::ptr::null_mut()),
                event: AtomicU32::new(0),
                runs: Cell::new(false),
                again: Cell::new(false),
                begun: Cell::new(None),
            });
            let part = head.add(1).cast::<Part>();
            let behind = part.cast::<u8>().add(bytes).cast();
            let shared = if shared_bytes > 0 { behind } else { std::ptr::null_mut() };
            part.write(Part { shared, routine, step: 0, destructors: None, priority: 0 });
            NonNull::new_unchecked(part)
        }
    }

    /// Ours to a compiler's part.
    ///
    /// # Safety
    /// [`Head::create`] made it, and it lives.
    pub(super) unsafe fn of<'a>(part: NonNull<Part>) -> &'a Head {
        // SAFETY: the caller's promise.
        unsafe { &*part.cast::<Head>().as_ptr().sub(1) }
    }

    /// A copy of a task that has not run, with everything in it.
    ///
    /// # Safety
    /// As for [`Head::of`].
    pub(super) unsafe fn duplicate(part: NonNull<Part>) -> NonNull<Part> {
        // SAFETY: the caller's promise; both have as many bytes.
        unsafe {
            let head = Head::of(part);
            let (bytes, shared_bytes) = (head.bytes as usize, head.shared_bytes as usize);
            let copy = Head::create(head.flags, bytes, shared_bytes, Some(part.as_ref().routine));
            let shared = copy.as_ref().shared;
            copy.cast::<u8>().copy_from_nonoverlapping(part.cast(), bytes + shared_bytes);
            (*copy.as_ptr()).shared = shared;
            copy
        }
    }

    /// Whether the task completes when an event has happened, not before.
    pub(super) fn has_event(&self) -> bool {
        self.flags & (with::PROXY | with::DETACHABLE) != 0
    }

    /// What the program has of the event.
    pub(super) fn handle(&self) -> *mut c_void {
        std::ptr::from_ref(self).map_addr(|address| address | MARK).cast_mut().cast()
    }

    /// `task` waits for the event; false if that has happened already.
    pub(super) fn waits(&self, task: NonNull<c_void>) -> bool {
        let none = std::ptr::null_mut();
        self.waits.compare_exchange(none, task.as_ptr(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The calling thread sleeps until the event has happened.
    pub(super) fn sleep(&self) {
        while self.event.load(Ordering::Acquire) == 0 {
            futex::wait(&self.event, 0, u32::MAX, None);
        }
    }

    /// The function that is running wants to be called once more; false if it is not running.
    pub(super) fn calls_again(&self) -> bool {
        self.runs.get() && {
            self.again.set(true);
            true
        }
    }

    /// The compiler's code calls the function itself from here on.
    pub(super) fn is_called(&self) {
        self.runs.set(true);
    }

    /// The rest of a task whose function was called.
    ///
    /// # Safety
    /// As for [`Head::of`]; by the thread that called it.
    pub(super) unsafe fn go_on(part: NonNull<Part>, thread: c_int) {
        // SAFETY: the caller's promise.
        unsafe {
            let head = Head::of(part);
            while head.again.replace(false) {
                (part.as_ref().routine)(thread, part.as_ptr());
            }
            head.runs.set(false);
        }
    }

    /// Calls the function of a task.
    ///
    /// # Safety
    /// As for [`Head::of`]; once.
    pub(super) unsafe fn run(part: NonNull<Part>, thread: c_int) {
        // SAFETY: the caller's promise.
        unsafe {
            Head::of(part).is_called();
            (part.as_ref().routine)(thread, part.as_ptr());
            Head::go_on(part, thread);
        }
    }

    /// The task is over, or was skipped: ends its objects, and its memory unless somebody still has its event.
    ///
    /// # Safety
    /// As for [`Head::of`]; once.
    pub(super) unsafe fn end(part: NonNull<Part>, thread: c_int) {
        // SAFETY: the caller's promise.
        unsafe {
            if Head::of(part).flags & with::DESTRUCTORS != 0
                && let Some(destructors) = part.as_ref().destructors
            {
                destructors(thread, part.as_ptr());
            }
            Head::release(NonNull::from(Head::of(part)));
        }
    }

    /// # Safety
    /// It lives, and the caller is one of its holders, no longer.
    unsafe fn release(head: NonNull<Head>) {
        // SAFETY: the caller's promise; the last one gives it back as it was made.
        unsafe {
            let Head { bytes, shared_bytes, holders, .. } = head.as_ref();
            let layout = layout(*bytes as usize, *shared_bytes as usize);
            // Release and acquire: what the others did with it is over.
            if holders.fetch_sub(1, Ordering::AcqRel) == 1 {
                dealloc(head.as_ptr().cast(), layout);
            }
        }
    }
}

unsafe extern "C" fn nothing(_: c_int, _: *mut Part) -> c_int {
    0
}

fn layout(bytes: usize, shared_bytes: usize) -> Layout {
    let all = size_of::<Head>() + bytes + shared_bytes;
    Layout::from_size_align(all, align_of::<Head>()).expect("a task that a compiler made")
}

/// Fulfils the event that `handle` is of; false if it is another kind of event.
///
/// # Safety
/// The handle came from a task whose event has not happened yet.
pub(crate) unsafe fn fulfil(handle: *mut c_void) -> bool {
    if handle.addr() & MARK == 0 {
        return false;
    }
    // SAFETY: whoever fulfils it is a holder until here.
    unsafe { happen(NonNull::new_unchecked(handle.map_addr(|address| address & !MARK).cast::<Head>())) };
    true
}

/// The event of a task has happened.
///
/// # Safety
/// It has one, and that had not.
pub(super) unsafe fn happen(head: NonNull<Head>) {
    // SAFETY: the caller's promise: the task cannot end before, nor its memory.
    unsafe {
        let waits = head.as_ref().waits.swap(fulfilled(), Ordering::AcqRel);
        head.as_ref().event.store(1, Ordering::Release);
        futex::wake(&head.as_ref().event, 1, u32::MAX);
        if let Some(task) = NonNull::new(waits) {
            foreign::fulfil_events(task, 1);
        }
        Head::release(head);
    }
}
