//! Functions of the user as operations. They run while this process's engine is locked, so they must not want it.

use super::runs::RunRef;
use castell_goal::schedule::OpId;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Where an operation ends that has put off its end.
pub(super) trait Home: Send + Sync {
    /// The operation is over.
    fn settle_deferred(self: Arc<Self>, run: RunRef, op: OpId, failure: Option<Box<str>>);
}

/// Whether any function was ever called: programs without such operations never look for the thread's own word.
static IS_EVER_INSIDE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The operation whose function is on top of the stack, unless its end was put off.
    static CALLED: Cell<Option<Called>> = const { Cell::new(None) };
}

/// An operation whose function is being called.
#[derive(Clone, Copy)]
struct Called {
    /// Its engine's, which stays where it is during the call.
    home: *const Weak<dyn Home>,
    run: RunRef,
    op: OpId,
}

/// Whether this thread is inside a function that a `call` operation called. Such a function can neither start runs
/// nor wait for them: the run that called it would wait for itself.
#[inline]
pub fn inside_call() -> bool {
    IS_EVER_INSIDE.load(Ordering::Relaxed) && is_inside()
}

#[cold]
fn is_inside() -> bool {
    INSIDE.get()
}

/// Calls `function` as one that [`inside_call`] tells of.
pub(super) fn as_inside<R>(function: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    // What a thread has written itself it sees.
    IS_EVER_INSIDE.store(true, Ordering::Relaxed);
    let _restore = Restore(INSIDE.replace(true));
    function()
}

/// The operation whose function this thread is in; from then on it ends elsewhere.
pub(super) fn take_called() -> Option<(Arc<dyn Home>, RunRef, OpId)> {
    let Called { home, run, op } = CALLED.take()?;
    // SAFETY: the function is still running, so the engine that called it is there.
    let home = unsafe { &*home }.upgrade();
    home.map(|home| (home, run, op))
}

/// Calls the function at that address for an operation that is over when it returns: its end cannot be put off.
///
/// # Safety
/// It is the address of an `extern "C" fn(*mut c_void)` that may be called with `context` from this thread.
#[inline(never)]
pub(super) unsafe fn call_at_once(function: u64, context: u64) {
    // SAFETY: the caller's promise.
    let function: extern "C" fn(*mut c_void) = unsafe { std::mem::transmute(function as *const ()) };
    let around = CALLED.replace(None);
    as_inside(|| function(context as *mut c_void));
    CALLED.set(around);
}

/// Calls the function at that address for an operation; whether that is over when it returns.
///
/// # Safety
/// It is the address of an `extern "C" fn(*mut c_void)` that may be called with `context` from this thread.
pub(super) unsafe fn call(function: u64, context: u64, home: &Weak<dyn Home>, run: RunRef, op: OpId) -> bool {
    // SAFETY: the caller's promise.
    let function: extern "C" fn(*mut c_void) = unsafe { std::mem::transmute(function as *const ()) };
    CALLED.set(Some(Called { home, run, op }));
    as_inside(|| function(context as *mut c_void));
    CALLED.take().is_some()
}
