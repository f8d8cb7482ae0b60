//! Target regions that have depend clauses: they wait for castell's tasks, and run at once then, since libgomp would wait for its own tasks
//! only. So `nowait` is not asked of them, nor of those in a group, of which libgomp does not know. Others are tasks of libgomp's, which are waited
//! for where it waits: in `taskwait`, and in the next barrier.

use crate::depend;
use crate::place::Place;
use crate::{Body, below};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// Flag of the functions here.
const NOWAIT: c_uint = 1;

/// Whether libgomp may have tasks of its own.
static HAS_BEEN_STARTED: AtomicBool = AtomicBool::new(false);

/// Whether libgomp was asked to run a target region beside the program: then it has tasks of its own to wait for.
#[inline]
pub(crate) fn has_been_started() -> bool {
    HAS_BEEN_STARTED.load(Ordering::Relaxed)
}

/// Waits for what the clause names; what to pass to libgomp in place of flags and clause.
///
/// # Safety
/// A compiler's clause, or null.
unsafe fn wait(flags: c_uint, depend: *mut *mut c_void) -> (c_uint, *mut *mut c_void) {
    let place = Place::current();
    if depend.is_null() {
        if flags & NOWAIT == 0 || place.is_some_and(|place| place.companion().is_some()) {
            return (flags & !NOWAIT, depend);
        }
        HAS_BEEN_STARTED.store(true, Ordering::Relaxed);
        place.inspect(|place| place.want_below());
        return (flags, depend);
    }
    // Outside of parallel regions all tasks before have run.
    if let Some(place) = place {
        // SAFETY: the caller's promise. OpenMP's tasks cannot fail.
        let _ = unsafe { place.member().context().wait_for(&depend::read(place, depend)) };
    }
    (flags & !NOWAIT, std::ptr::null_mut())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_target_ext(
    device: c_int,
    body: Body,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *mut usize,
    kinds: *mut u16,
    flags: c_uint,
    depend: *mut *mut c_void,
    arguments: *mut *mut c_void,
) {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        let (flags, depend) = wait(flags, depend);
        below::GOMP_target_ext(device, body, count, addresses, sizes, kinds, flags, depend, arguments);
    }
}

macro_rules! data {
    ($($name:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            device: c_int,
            count: usize,
            addresses: *mut *mut c_void,
            sizes: *mut usize,
            kinds: *mut u16,
            flags: c_uint,
            depend: *mut *mut c_void,
        ) {
            // SAFETY: the caller's arguments, passed on.
            unsafe {
                let (flags, depend) = wait(flags, depend);
                below::$name(device, count, addresses, sizes, kinds, flags, depend);
            }
        }
    )*};
}

data! {
    GOMP_target_update_ext;
    GOMP_target_enter_exit_data;
}
