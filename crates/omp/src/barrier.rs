//! Barriers: castell's first, in which threads run the team's tasks until all have come and none is left; then that of the library below,
//! through which all pass at once.

use crate::below;
use crate::place::Place;

/// All threads of the region meet, and no task is left; at once if it was cancelled and `yields` to that.
pub(crate) fn meet(yields: bool) {
    let Some(place) = Place::current() else { return };
    if yields && place.is_region_cancelled() {
        return;
    }
    // SAFETY: a barrier is met by the threads of the team in their implicit tasks.
    unsafe { place.member().barrier(yields) };
}

macro_rules! barriers {
    ($($name:ident($($argument:ident: $type:ty)?) $(-> $result:ty)?, $yields:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type)?) $(-> $result)? {
            meet($yields);
            // SAFETY: passed on.
            unsafe { below::$name($($argument)?) }
        }
    )*};
}

barriers! {
    GOMP_barrier(), false;
    GOMP_barrier_cancel() -> bool, true;
    GOMP_loop_end(), false;
    GOMP_loop_end_cancel() -> bool, true;
    GOMP_sections_end(), false;
    GOMP_sections_end_cancel() -> bool, true;
    GOMP_workshare_task_reduction_unregister(cancelled: bool), true;
}
