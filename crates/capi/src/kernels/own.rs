//! Strategies that applications bring for their own collections.

use super::{text, wrong};
use crate::tasks::failure::{Failure, status};
use castell_kernels::protocol::OwnStrategy;
use castell_kernels::{Application, OwnState};
use std::ffi::{c_char, c_int};
use std::path::Path;

/// Brings one as a text, or one that comes with castell, or gives it up.
///
/// # Safety
/// NULL or an application that is open; the others NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_application_strategy(
    application: *mut Application,
    name: *const c_char,
    script: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let application = unsafe { open(application) }?;
        if name.is_null() && script.is_null() {
            application.give_up_strategy();
            return Ok(0);
        }
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) }.ok_or_else(|| wrong("a strategy needs a name in UTF-8"))?;
        let strategy = match script.is_null() {
            true => OwnStrategy::shipped(&name)?,
            false => {
                // SAFETY: the caller's promise.
                let script =
                    unsafe { text(script) }.ok_or_else(|| wrong("the script is no text in UTF-8"))?;
                OwnStrategy { name, script: Some(script), parameters: Vec::new() }
            }
        };
        application.bring_strategy(strategy)?;
        Ok(0)
    })
}

/// Brings one that stands in a file.
///
/// # Safety
/// NULL or an application that is open; NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_application_strategy_file(
    application: *mut Application,
    path: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let application = unsafe { open(application) }?;
        // SAFETY: the caller's promise.
        let path = unsafe { text(path) }.ok_or_else(|| wrong("the script needs a path in UTF-8"))?;
        application.bring_strategy(OwnStrategy::file(Path::new(&path))?)?;
        Ok(0)
    })
}

/// What became of it.
///
/// # Safety
/// NULL or an application that is open; NULL or so many bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_application_strategy_state(
    application: *const Application,
    why: *mut c_char,
    size: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let state = unsafe { open(application) }?.own_strategy();
        let reason = if let OwnState::Stopped(reason) = &state { reason.as_str() } else { "" };
        if !why.is_null() && size > 0 {
            let whole = |at: &usize| reason.is_char_boundary(*at);
            let most = (0..size.min(reason.len() + 1)).rev().find(whole).unwrap_or(0);
            // SAFETY: the caller's promise; one byte is left for the 0.
            unsafe {
                why.copy_from_nonoverlapping(reason.as_ptr().cast(), most);
                why.add(most).write(0);
            }
        }
        Ok(match state {
            OwnState::None => 0,
            OwnState::Alone => 1,
            OwnState::Tried => 2,
            OwnState::Decides => 3,
            OwnState::Stopped(_) => 4,
        })
    })
}

/// # Safety
/// NULL or an application that is open.
unsafe fn open<'a>(application: *const Application) -> Result<&'a Application, Failure> {
    // SAFETY: the caller's promise.
    unsafe { application.as_ref() }.ok_or_else(|| wrong("the application is NULL"))
}
