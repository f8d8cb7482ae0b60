//! What the library tells about itself: extensions (ESPGOAL 2.3), errors, version, time.

use crate::error::{last_code, last_text};
use crate::types::*;
use std::ffi::{CStr, c_char, c_double, c_int};

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version holds no zero"),
};

/// 1 if there is such an extension.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_IsExtensionAvailable(ext: GOAL_ExtensionId) -> c_int {
    (1..=LAST_EXTENSION).contains(&ext).into()
}

/// Text of the thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_LastError() -> *const c_char {
    last_text()
}

/// Code of the thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_LastErrorCode() -> c_int {
    last_code()
}

/// The name of a code.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_ErrorName(code: c_int) -> *const c_char {
    let known = Code::ALL.iter().find(|(known, _)| *known as c_int == code);
    let name = match (code, known) {
        (0, _) => c"GOAL_SUCCESS",
        (_, Some((_, name))) => name,
        (_, None) => c"unknown",
    };
    name.as_ptr()
}

/// Seconds on the clock of `GOAL_WTIME`.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Wtime() -> c_double {
    castell_host::clock::now_seconds()
}

/// The library's version.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Version() -> *const c_char {
    VERSION.as_ptr()
}
