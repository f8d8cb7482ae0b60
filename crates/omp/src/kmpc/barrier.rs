//! Barriers, and what ends in one: castell's first, as everywhere; then libomp's where that does more.

use super::Location;
use crate::barrier::{meet, only_meet, wait_below};
use crate::below;
use crate::place::Place;
use std::ffi::{c_int, c_void};

macro_rules! barriers {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // All threads of the region come here, also where it was cancelled: the compiler's code sends them.
            meet(false);
            // SAFETY: passed on.
            let result = unsafe { below::$name($($argument),*) };
            Place::current().inspect(|place| place.go_on());
            result
        }
    )*};
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_barrier(location: Location, thread: c_int) {
    // SAFETY: passed on.
    only_meet(|| unsafe { below::__kmpc_barrier(location, thread) });
}

barriers! {
    __kmpc_cancel_barrier(location: Location, thread: c_int) -> c_int;
    __kmpc_barrier_master(location: Location, thread: c_int) -> c_int;
    __kmpc_barrier_master_nowait(location: Location, thread: c_int) -> c_int;
    __kmpc_reduce(location: Location, thread: c_int, count: c_int, bytes: usize, data: *mut c_void, combine: *mut c_void, lock: *mut c_void) -> c_int;
    __kmpc_copyprivate(location: Location, thread: c_int, bytes: usize, data: *mut c_void, copy: *mut c_void, has: c_int);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_ordered(location: Location, thread: c_int) {
    // SAFETY: passed on.
    wait_below(|| unsafe { below::__kmpc_ordered(location, thread) });
}
