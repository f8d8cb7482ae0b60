//! Loops whose iterations are tasks. The compiler's code makes one task as a pattern; its memory has the bounds, the last one included.

use super::Location;
use super::block::{Head, Part};
use super::fork::number;
use super::task::{__kmpc_end_taskgroup, __kmpc_taskgroup, submit};
use crate::place::Place;
use crate::task::{creates_no_more, with};
use crate::taskloop::Cut;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// Makes a copy of a pattern a task of its own: copies its objects, and notes whether it has the last iteration.
type Duplicate = unsafe extern "C" fn(NonNull<Part>, NonNull<Part>, c_int);

const GRAINSIZE: c_int = 1;

/// A loop, and what its clauses say.
struct Loop {
    pattern: NonNull<Part>,
    is_deferred: bool,
    /// Where in the pattern its bounds lie.
    bounds: [*mut u64; 2],
    step: i64,
    is_grouped: bool,
    flags: u32,
    wanted: u64,
    duplicate: Option<Duplicate>,
}

impl Loop {
    /// # Safety
    /// As the compiler made it.
    unsafe fn run(&self, location: Location, thread: c_int) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.is_grouped {
                __kmpc_taskgroup(location, thread);
            }
            let place = Place::current();
            let total = self.iterations();
            if total > 0 && !place.is_some_and(creates_no_more) {
                let threads = place.map_or(1, |place| place.team_size());
                for (first, behind) in Cut::of(total, self.wanted, self.flags, threads).ranges() {
                    submit(self.piece(first, behind, behind == total), None, self.is_deferred);
                }
            }
            Head::end(self.pattern, number());
            if self.is_grouped {
                __kmpc_end_taskgroup(location, thread);
            }
        }
    }

    /// # Safety
    /// As for [`Loop::run`].
    unsafe fn iterations(&self) -> i128 {
        // SAFETY: the caller's promise.
        let [first, last] = self.bounds.map(|bound| unsafe { bound.read() });
        let span = if self.step < 0 { first.wrapping_sub(last) } else { last.wrapping_sub(first) };
        // An empty loop's last iteration is one step before its first.
        if span.cast_signed() == -1 { 0 } else { i128::from(span / self.step.unsigned_abs().max(1)) + 1 }
    }

    /// # Safety
    /// As for [`Loop::run`].
    unsafe fn piece(&self, first: i128, behind: i128, is_last: bool) -> NonNull<Part> {
        // SAFETY: the caller's promise; the bounds lie at the same places in the copy.
        unsafe {
            let piece = Head::duplicate(self.pattern);
            let start = self.bounds[0].read();
            for (bound, iteration) in self.bounds.into_iter().zip([first, behind - 1]) {
                let offset = bound.byte_offset_from(self.pattern.as_ptr());
                let value = start.wrapping_add((iteration as u64).wrapping_mul(self.step.cast_unsigned()));
                piece.as_ptr().byte_offset(offset).cast::<u64>().write(value);
            }
            if let Some(duplicate) = self.duplicate {
                duplicate(piece, self.pattern, is_last.into());
            }
            piece
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_taskloop_5(
    location: Location,
    thread: c_int,
    pattern: NonNull<Part>,
    is_deferred: c_int,
    first: *mut u64,
    last: *mut u64,
    step: i64,
    nogroup: c_int,
    schedule: c_int,
    wanted: u64,
    is_strict: c_int,
    duplicate: *mut c_void,
) {
    let size = if schedule == GRAINSIZE { with::GRAINSIZE } else { 0 };
    let strict = if is_strict != 0 { with::STRICT } else { 0 };
    // SAFETY: the compiler's function, or null.
    let duplicate = unsafe { std::mem::transmute::<*mut c_void, Option<Duplicate>>(duplicate) };
    let these = Loop {
        pattern,
        is_deferred: is_deferred != 0,
        bounds: [first, last],
        step,
        is_grouped: nogroup == 0,
        flags: size | strict,
        wanted: if schedule == 0 { 0 } else { wanted },
        duplicate,
    };
    // SAFETY: the caller's promise.
    unsafe { these.run(location, thread) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_taskloop(
    location: Location,
    thread: c_int,
    pattern: NonNull<Part>,
    is_deferred: c_int,
    first: *mut u64,
    last: *mut u64,
    step: i64,
    nogroup: c_int,
    schedule: c_int,
    wanted: u64,
    duplicate: *mut c_void,
) {
    // SAFETY: the same, and no modifier.
    unsafe {
        __kmpc_taskloop_5(
            location,
            thread,
            pattern,
            is_deferred,
            first,
            last,
            step,
            nogroup,
            schedule,
            wanted,
            0,
            duplicate,
        );
    }
}
