//! Barriers: castell's, in which threads run the team's tasks until all have come and none is left. Where the library below does more at this
//! place than to let all meet, or castell's is none, its own follows, through which all pass at once. Where programs share
//! processors, nobody waits for one between the two.

use crate::below;
use crate::place::Place;
use std::ffi::c_void;

/// All threads of the region meet, and no task is left; at once if it was cancelled and `yields` to that. False if they have not, or the region
/// does not go on behind.
pub(crate) fn meet(yields: bool) -> bool {
    let Some(place) = Place::current() else { return false };
    if yields && place.is_region_cancelled() {
        return false;
    }
    // SAFETY: a barrier is met by the threads of the team in their implicit tasks.
    unsafe { place.member().barrier(yields) }
}

/// A barrier and nothing else: by `below`, that of the library below, only if castell's is none, or that library has something to do there.
pub(crate) fn only_meet(below: impl FnOnce()) {
    let has_met = meet(false);
    let place = Place::current();
    if !has_met || place.is_some_and(Place::is_wanted_below) {
        below();
    }
    place.inspect(|place| place.go_on());
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_barrier() {
    // SAFETY: passed on.
    only_meet(|| unsafe { below::GOMP_barrier() });
}

/// The calling thread waits by `wait` in the library below, for others that may need its processor.
pub(crate) fn wait_below<R>(wait: impl FnOnce() -> R) -> R {
    let place = Place::current();
    place.inspect(|place| place.stand_back());
    let result = wait();
    place.inspect(|place| place.go_on());
    result
}

macro_rules! barriers {
    ($($name:ident($($argument:ident: $type:ty)?) $(-> $result:ty)?, $yields:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type)?) $(-> $result)? {
            meet($yields);
            // SAFETY: passed on.
            let result = unsafe { below::$name($($argument)?) };
            Place::current().inspect(|place| place.go_on());
            result
        }
    )*};
}

barriers! {
    GOMP_barrier_cancel() -> bool, true;
    GOMP_loop_end(), false;
    GOMP_loop_end_cancel() -> bool, true;
    GOMP_sections_end(), false;
    GOMP_sections_end_cancel() -> bool, true;
}

macro_rules! waits {
    ($($name:ident($($argument:ident: $type:ty)?) $(-> $result:ty)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type)?) $(-> $result)? {
            // SAFETY: passed on.
            wait_below(|| unsafe { below::$name($($argument)?) })
        }
    )*};
}

waits! {
    GOMP_single_copy_start() -> *mut c_void;
    GOMP_single_copy_end(data: *mut c_void);
    GOMP_ordered_start();
}
