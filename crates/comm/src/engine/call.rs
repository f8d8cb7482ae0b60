//! Functions of the user as operations. They run while this process's engine is locked, so they must not want it.

use std::cell::Cell;
use std::ffi::c_void;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a function that a `call` operation called. Such a function can neither start runs
/// nor wait for them: the run that called it would wait for itself.
pub fn inside_call() -> bool {
    INSIDE.get()
}

/// Calls the function at that address.
///
/// # Safety
/// It is the address of an `extern "C" fn(*mut c_void)` that may be called with `context` from this thread.
pub(super) unsafe fn call(function: u64, context: u64) {
    // SAFETY: the caller's promise.
    let function: extern "C" fn(*mut c_void) = unsafe { std::mem::transmute(function as *const ()) };
    INSIDE.set(true);
    function(context as *mut c_void);
    INSIDE.set(false);
}
