//! Errors on their way to C: a code that the function returns and a text that stays with the thread.

use crate::types::Code;
use castell_comm::collective::{self as call, CallError};
use castell_comm::{Cause, Failure};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a function fails. In a box: what does not fail pays for a pointer only.
#[derive(Clone, Debug)]
pub(crate) struct Error(Box<Reason>);

#[derive(Clone, Debug)]
pub(crate) struct Reason {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Error {
    #[cold]
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Error {
        Error(Box::new(Reason { code, message: message.into() }))
    }
}

impl Deref for Error {
    type Target = Reason;

    fn deref(&self) -> &Reason {
        &self.0
    }
}

impl From<CallError> for Error {
    #[cold]
    fn from(error: CallError) -> Error {
        let code = match &error.reason {
            call::Reason::Argument(_) | call::Reason::Algorithm(_) => Code::Operation,
            call::Reason::Graph(_) | call::Reason::Compile(_) => Code::Limit,
            call::Reason::Run(_) => Code::Run,
            call::Reason::Failed(failure) => code_of(&failure.cause),
        };
        Error::new(code, error.to_string())
    }
}

impl From<&Failure> for Error {
    #[cold]
    fn from(failure: &Failure) -> Error {
        Error::new(code_of(&failure.cause), failure.to_string())
    }
}

fn code_of(cause: &Cause) -> Code {
    match cause {
        Cause::PeerDied { .. } | Cause::PeerLeft { .. } | Cause::PeerFailed { .. } => Code::Peer,
        Cause::SizeMismatch { .. } => Code::Size,
        Cause::BadAddress { .. } | Cause::CopyForbidden { .. } | Cause::BadTarget { .. } => Code::Buffer,
        Cause::CallsDiffer { .. } => Code::Operation,
        _ => Code::Failed,
    }
}

/// What the functions behind the exported ones return.
pub(crate) type Result<T> = std::result::Result<T, Error>;

struct Last {
    code: c_int,
    text: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::new(Last { code: 0, text: CString::default() });
}

/// Runs the body of the exported function `name`. An error, and a panic, become the thread's last error and the value
/// `failed`.
#[inline]
pub(crate) fn call<T>(name: &str, failed: T, body: impl FnOnce() -> Result<T>) -> T {
    match caught(body) {
        Ok(value) => value,
        Err(error) => {
            remember(name, &error);
            failed
        }
    }
}

/// As [`call`], for functions that return 0 or a code.
#[inline]
pub(crate) fn status(name: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    match caught(body) {
        Ok(()) => 0,
        Err(error) => {
            remember(name, &error);
            error.code as c_int
        }
    }
}

/// As [`call`], for functions that return a number or a code.
#[inline]
pub(crate) fn number<T: From<c_int>>(name: &str, body: impl FnOnce() -> Result<T>) -> T {
    match caught(body) {
        Ok(value) => value,
        Err(error) => {
            remember(name, &error);
            T::from(error.code as c_int)
        }
    }
}

/// Notes an error for `GOAL_LastError`.
#[cold]
pub(crate) fn remember(name: &str, error: &Error) {
    let text = format!("{name}: {}", error.message).replace('\0', " ");
    let text = CString::new(text).expect("the zeros were taken out");
    LAST.with_borrow_mut(|last| *last = Last { code: error.code as c_int, text });
}

/// Address of the last error's text; it stays until the thread's next failure.
pub(crate) fn last_text() -> *const c_char {
    LAST.with_borrow(|last| last.text.as_ptr())
}

pub(crate) fn last_code() -> c_int {
    LAST.with_borrow(|last| last.code)
}

/// Nothing unwinds into C. What a panic may have left half done is behind locks that are taken over regardless: the
/// caller has been told that the call failed.
#[inline]
fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(bug(&*panic)))
}

#[cold]
fn bug(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Error::new(Code::Internal, format!("a bug of the library, please report it: {text}"))
}
