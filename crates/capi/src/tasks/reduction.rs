//! The private copies of C's reductions.

use super::submit::castell_access;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// The header's `castell_reduction`.
#[repr(C)]
pub struct castell_reduction {
    element_bytes: usize,
    initialize: Option<unsafe extern "C" fn(*mut c_void)>,
    combine: Option<unsafe extern "C" fn(*mut c_void, *const c_void)>,
}

/// The copies that a task's body uses.
pub(super) struct Copies {
    copies: Vec<PrivateCopy>,
}

struct PrivateCopy {
    original: *mut c_void,
    reduction: *const castell_reduction,
    elements: usize,
    copy: Box<[u128]>,
}

// SAFETY: as the header says, bodies run on other threads.
unsafe impl Send for Copies {}

thread_local! {
    /// (original, copy) of the bodies on this thread's stack, innermost last.
    static PRIVATE: RefCell<Vec<(usize, *mut c_void)>> = const { RefCell::new(Vec::new()) };
}

/// All that are combined, one at a time.
static COMBINING: Mutex<()> = Mutex::new(());

/// The copies that the reductions among `accesses` need.
pub(super) fn copies_of(accesses: &[castell_access]) -> Copies {
    let reductions = accesses.iter().filter(|access| !access.reduction.is_null());
    let copies = reductions.map(|access| {
        // SAFETY: as the header says, it lives until the runtime is stopped.
        let element_bytes = unsafe { (*access.reduction).element_bytes }.max(1);
        let elements = access.bytes / element_bytes;
        let copy = vec![0_u128; access.bytes.div_ceil(16)].into_boxed_slice();
        PrivateCopy { original: access.start, reduction: access.reduction, elements, copy }
    });
    Copies { copies: copies.collect() }
}

impl Copies {
    /// Initializes the copies, runs `body`, which finds them, and combines them.
    pub(super) fn around(mut self, body: impl FnOnce()) {
        if self.copies.is_empty() {
            return body();
        }
        for copy in &mut self.copies {
            let start = copy.copy.as_mut_ptr().cast::<c_void>();
            copy.each(|reduction, at| {
                if let Some(initialize) = reduction.initialize {
                    // SAFETY: inside the copy, which is as long as the original.
                    unsafe { initialize(start.wrapping_byte_add(at)) };
                }
            });
            PRIVATE.with_borrow_mut(|list| list.push((copy.original as usize, start)));
        }
        body();
        PRIVATE.with_borrow_mut(|list| list.truncate(list.len() - self.copies.len()));
        let _held = COMBINING.lock().unwrap_or_else(PoisonError::into_inner);
        for copy in &self.copies {
            copy.each(|reduction, at| {
                if let Some(combine) = reduction.combine {
                    let from = copy.copy.as_ptr().cast::<c_void>().wrapping_byte_add(at);
                    // SAFETY: the access lasts until the task completes, and all who combine hold the lock.
                    unsafe { combine(copy.original.wrapping_byte_add(at), from) };
                }
            });
        }
    }
}

impl PrivateCopy {
    /// Calls `action` with each element's offset.
    fn each(&self, mut action: impl FnMut(&castell_reduction, usize)) {
        // SAFETY: as the header says, it lives until the runtime is stopped.
        let reduction = unsafe { &*self.reduction };
        (0..self.elements).for_each(|element| action(reduction, element * reduction.element_bytes));
    }
}

/// The innermost body's copy for the reduction of the original at `start`.
#[unsafe(no_mangle)]
pub extern "C" fn castell_private(start: *const c_void) -> *mut c_void {
    let wanted = start as usize;
    PRIVATE.with_borrow(|list| {
        let found = list.iter().rev().find(|(original, _)| *original == wanted);
        found.map_or(std::ptr::null_mut(), |(_, copy)| *copy)
    })
}
