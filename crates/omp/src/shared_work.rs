//! Loops, sections and scopes in whose reductions tasks take part. libgomp makes the copies and knows of them in each thread that has come to the
//! construct; a task of it may run on one that has not, in the barrier before. So each thread opens a group there, which is around the
//! tasks that it creates and has what libgomp has registered. It is marked, for `cancel taskgroup` is about the group that the program has opened.

use crate::barrier::meet;
use crate::below;
use crate::place::{OURS, Place};
use std::ffi::{c_long, c_uint, c_void};
use std::sync::atomic::Ordering;

/// The calling thread has come to a construct with these reductions, which libgomp has registered; null: without any.
///
/// # Safety
/// [`GOMP_workshare_task_reduction_unregister`] is called at its end.
unsafe fn open(reductions: *mut usize) {
    if reductions.is_null() {
        return;
    }
    if let Some(place) = Place::current() {
        // SAFETY: the thread is this member; the construct's end closes it.
        unsafe { place.member().open_group() };
        let kept = reductions.cast::<c_void>().map_addr(|address| address | OURS);
        place.companion().inspect(|companion| companion.store(kept, Ordering::Release));
    }
}

macro_rules! constructs {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($argument: $type,)*
            reductions: *mut usize,
            memory: *mut *mut c_void,
        ) $(-> $result)? {
            // SAFETY: the caller's arguments, passed on; the compiler ends what it begins.
            unsafe {
                let result = below::$name($($argument,)* reductions, memory);
                open(reductions);
                result
            }
        }
    )*};
}

constructs! {
    GOMP_loop_start(start: c_long, end: c_long, step: c_long, schedule: c_long, chunk: c_long, first: *mut c_long, behind: *mut c_long) -> bool;
    GOMP_loop_ordered_start(start: c_long, end: c_long, step: c_long, schedule: c_long, chunk: c_long, first: *mut c_long, behind: *mut c_long) -> bool;
    GOMP_loop_doacross_start(loops: c_uint, counts: *mut c_long, schedule: c_long, chunk: c_long, first: *mut c_long, behind: *mut c_long) -> bool;
    GOMP_loop_ull_start(is_up: bool, start: u64, end: u64, step: u64, schedule: c_long, chunk: u64, first: *mut u64, behind: *mut u64) -> bool;
    GOMP_loop_ull_ordered_start(is_up: bool, start: u64, end: u64, step: u64, schedule: c_long, chunk: u64, first: *mut u64, behind: *mut u64) -> bool;
    GOMP_loop_ull_doacross_start(loops: c_uint, counts: *mut u64, schedule: c_long, chunk: u64, first: *mut u64, behind: *mut u64) -> bool;
    GOMP_sections2_start(count: c_uint) -> c_uint;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_scope_start(reductions: *mut usize) {
    // SAFETY: as above.
    unsafe {
        below::GOMP_scope_start(reductions);
        open(reductions);
    }
}

/// The end of such a construct, and a barrier.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_workshare_task_reduction_unregister(is_cancelled: bool) {
    let place = Place::current();
    // SAFETY: opened at its beginning.
    place.inspect(|place| unsafe { place.member().close_group() });
    meet(true);
    // SAFETY: passed on.
    unsafe { below::GOMP_workshare_task_reduction_unregister(is_cancelled) };
    place.inspect(|place| place.go_on());
}
