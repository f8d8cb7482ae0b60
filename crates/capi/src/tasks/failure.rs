//! Failures on their way to C: a code, a text and perhaps a payload that stay with the thread.

use castell_tasks::{Context, Payload, TaskError, foreign};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The header's `CASTELL_ERR_ARGUMENT`.
pub(crate) const ARGUMENT: c_int = -1;
const NO_TASK: c_int = -2;
/// The header's `CASTELL_ERR_START`.
pub(crate) const START: c_int = -3;
/// The header's `CASTELL_ERR_TASK`.
pub(crate) const TASK: c_int = -4;
const INTERNAL: c_int = -99;

/// Why a call failed.
pub(crate) struct Failure {
    code: c_int,
    message: String,
    payload: Option<Arc<Foreign>>,
}

/// A payload that came from C.
pub(super) struct Foreign {
    pub(super) pointer: *mut c_void,
    pub(super) drop: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: whoever gave it said that any thread may use and drop it.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: given to us with the pointer, and called once.
            unsafe { drop(self.pointer) };
        }
    }
}

impl Failure {
    pub(crate) fn new(code: c_int, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), payload: None }
    }
}

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Failure {
        let code = match &error {
            TaskError::Forked { .. } | TaskError::NoThread { .. } => START,
            _ => TASK,
        };
        let message = error.to_string();
        let payload = match error {
            TaskError::Failed { payload: Some(Payload(any)), .. } => any.downcast::<Foreign>().ok(),
            _ => None,
        };
        Failure { code, message, payload }
    }
}

struct Last {
    text: CString,
    payload: Option<Arc<Foreign>>,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::new(Last { text: CString::default(), payload: None });
}

/// Runs the body of an exported function; a failure, and a panic, become the thread's last failure and its code.
pub(crate) fn status(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Failure::new(INTERNAL, format!("a bug of the library, please report it: {text}")))
    });
    result.unwrap_or_else(remember)
}

/// As [`status`], for functions of tasks.
pub(super) fn in_task(body: impl FnOnce(&Context<'_>) -> Result<c_int, Failure>) -> c_int {
    status(|| {
        let outside =
            || Err(Failure::new(NO_TASK, "called outside of tasks: call it in what castell_run runs"));
        foreign::with_context(body).unwrap_or_else(outside)
    })
}

fn remember(failure: Failure) -> c_int {
    let text = CString::new(failure.message.replace('\0', " ")).expect("the zeros were taken out");
    // What it replaces may call back into this library when it is dropped: outside of the borrow.
    let old = LAST.replace(Last { text, payload: failure.payload });
    drop(old);
    failure.code
}

/// Address of the last failure's text; it stays until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn castell_tasks_error() -> *const c_char {
    LAST.with_borrow(|last| last.text.as_ptr())
}

/// What came with the last failure.
#[unsafe(no_mangle)]
pub extern "C" fn castell_failure_payload() -> *mut c_void {
    LAST.with_borrow(|last| last.payload.as_ref().map_or(std::ptr::null_mut(), |payload| payload.pointer))
}

/// The current task fails.
///
/// # Safety
/// `message` is a string; `drop` may be called with `payload` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_fail(
    message: *const c_char,
    payload: *mut c_void,
    drop: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    in_task(|context| {
        let payload = (!payload.is_null()).then(|| Payload(Arc::new(Foreign { pointer: payload, drop })));
        // SAFETY: the caller's promise.
        context.fail_with(unsafe { text(message) }, payload);
        Ok(0)
    })
}

/// A C string; empty for NULL, with marks for what is no UTF-8.
///
/// # Safety
/// NULL or a string.
unsafe fn text(start: *const c_char) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned()
}
