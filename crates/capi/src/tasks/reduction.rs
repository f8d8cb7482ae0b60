//! The private copies of C's reductions.

use super::runtime::Passed;
use super::submit::castell_access;
use castell_tasks::data::{Turn, Turns};
use std::cell::RefCell;
use std::ffi::c_void;

/// The header's `castell_reduction`.
#[repr(C)]
pub struct castell_reduction {
    element_bytes: usize,
    initialize: Option<unsafe extern "C" fn(*mut c_void)>,
    combine: Option<unsafe extern "C" fn(*mut c_void, *const c_void)>,
}

/// The reductions among a task's accesses.
pub(super) struct Reductions {
    list: Vec<Declared>,
}

struct Declared {
    of: Place,
    bytes: usize,
    turn: Option<Turn<&'static Turns>>,
}

/// Where copies go, and how.
#[derive(Clone, Copy)]
struct Place {
    original: *mut c_void,
    reduction: *const castell_reduction,
    elements: usize,
}

// SAFETY: as the header says, bodies run on other threads, and the reduction lives until the runtime is stopped.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// A copy for each of a task's reductions.
pub(super) struct Copies(Vec<Box<[u128]>>);

thread_local! {
    /// (original, copy) of the bodies on this thread's stack, innermost last.
    static PRIVATE: RefCell<Vec<(usize, *mut c_void)>> = const { RefCell::new(Vec::new()) };
}

/// Who is on among those that asked for an order; all others combine under its lock, too.
static TURNS: Turns = Turns::new();

impl Reductions {
    /// Those among `accesses`, in the order in which their task is created.
    pub(super) fn among(accesses: &[castell_access]) -> Reductions {
        let reductions = accesses.iter().filter(|access| access.needs_copy());
        let declared = reductions.map(|access| {
            // SAFETY: as the header says, it lives until the runtime is stopped.
            let element_bytes = unsafe { (*access.reduction).element_bytes }.max(1);
            let elements = access.bytes / element_bytes;
            let of = Place { original: access.start, reduction: access.reduction, elements };
            let turn = access.is_ordered().then(|| Turn::take(access.start as usize, &TURNS));
            Declared { of, bytes: access.bytes, turn }
        });
        Reductions { list: declared.collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the result must not depend on who runs what when.
    pub(super) fn are_ordered(&self) -> bool {
        self.list.iter().any(|declared| declared.turn.is_some())
    }

    /// Runs `body`, which finds copies, and combines them.
    pub(super) fn around(&self, body: impl FnOnce()) {
        if self.is_empty() {
            return body();
        }
        let copies = self.private(body);
        self.combine(vec![copies]);
    }

    /// Runs `body`, which finds copies made and initialized for it; they come back.
    pub(super) fn private(&self, body: impl FnOnce()) -> Copies {
        let made = self.list.iter().map(|declared| {
            let mut copy = vec![0_u128; declared.bytes.div_ceil(16)].into_boxed_slice();
            let start = copy.as_mut_ptr().cast::<c_void>();
            declared.of.each(|reduction, at| {
                if let Some(initialize) = reduction.initialize {
                    // SAFETY: inside the copy, which is as long as the original.
                    unsafe { initialize(start.wrapping_byte_add(at)) };
                }
            });
            PRIVATE.with_borrow_mut(|list| list.push((declared.of.original as usize, start)));
            copy
        });
        let copies = Copies(made.collect());
        body();
        PRIVATE.with_borrow_mut(|list| list.truncate(list.len() - self.list.len()));
        copies
    }

    /// Combines the copies in this order, each task in its turn if that was asked for.
    pub(super) fn combine(&self, copies: Vec<Copies>) {
        let mut columns: Vec<Vec<Box<[u128]>>> = self.list.iter().map(|_| Vec::new()).collect();
        for Copies(row) in copies {
            row.into_iter().zip(&mut columns).for_each(|(copy, column)| column.push(copy));
        }
        for (declared, column) in self.list.iter().zip(columns) {
            let of = Passed(declared.of);
            let combine = move || column.iter().for_each(|copy| of.get().add(copy));
            match &declared.turn {
                Some(turn) => turn.pass(Box::new(combine)),
                None => TURNS.alone(combine),
            }
        }
    }
}

impl Place {
    /// Combines a copy into the original.
    fn add(self, copy: &[u128]) {
        self.each(|reduction, at| {
            if let Some(combine) = reduction.combine {
                let from = copy.as_ptr().cast::<c_void>().wrapping_byte_add(at);
                // SAFETY: the access of this task, or of a later one of its group, lasts, and all who combine are alone.
                unsafe { combine(self.original.wrapping_byte_add(at), from) };
            }
        });
    }

    /// Calls `action` with each element's offset.
    fn each(self, mut action: impl FnMut(&castell_reduction, usize)) {
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
