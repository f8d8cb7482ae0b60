//! When a process takes leave of its launcher's service.
//!
//! At once, so that the launcher learns of a rank's end from the process alone. But not where the program has an MPI beside
//! castell: such a service takes leave of a process once, and whoever came second would speak to nobody. There it is done when
//! the process ends, unless MPI does it: some do when they end, some behind this, and would be killed by writing to who is gone.

use std::ffi::c_int;
use std::process;
use std::sync::{Mutex, PoisonError};

/// What is still to be done, and the process that has to.
type Pending = (u32, Box<dyn FnOnce() + Send>);

static PENDING: Mutex<Option<Pending>> = Mutex::new(None);

/// Has `end` called with `thing` when this process ends, if there is an MPI; gives the thing back if there is none.
pub(super) fn put_off<T: Send + 'static>(thing: T, end: fn(T)) -> Result<(), T> {
    // SAFETY: `finish` is a function without arguments that does not unwind.
    if !has_mpi() || unsafe { libc::atexit(finish) } != 0 {
        return Err(thing);
    }
    let finish = Box::new(move || end(thing));
    *PENDING.lock().unwrap_or_else(PoisonError::into_inner) = Some((process::id(), finish));
    Ok(())
}

/// Whether the program was linked with an MPI, or has loaded one for all to see.
fn has_mpi() -> bool {
    // SAFETY: a C string; what it finds is not called.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"MPI_Init".as_ptr()) };
    !found.is_null()
}

/// Whether that MPI has been begun, if by now it has ended again or not: it takes leave for the process.
pub(super) fn is_left_to_mpi() -> bool {
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"MPI_Initialized".as_ptr()) };
    if found.is_null() {
        return false;
    }
    // SAFETY: the type that all MPIs have for this function, which may be called at any time.
    let initialized: extern "C" fn(*mut c_int) -> c_int = unsafe { std::mem::transmute(found) };
    let mut is_begun = 0;
    initialized(&mut is_begun) == 0 && is_begun != 0
}

extern "C" fn finish() {
    match PENDING.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some((owner, finish)) if owner == process::id() => finish(),
        // A child that was forked: the connection is its parent's.
        other => std::mem::forget(other),
    }
}
