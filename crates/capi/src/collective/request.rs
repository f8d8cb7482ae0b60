//! Requests: calls that go on, and calls that were prepared.

use super::castell_request;
use crate::error::{Error, Result, number, status};
use crate::objects::{REQUESTS, Request, too_many, unknown};
use crate::process::{refuse_inside_call, require_running};
use crate::registry::{Fate, Kind, Unknown};
use crate::types::Code;
use castell_comm::Handle;
use castell_comm::collective::RawRequest;
use std::ffi::c_int;

/// Keeps a request at the place that the program gave.
///
/// # Safety
/// `place` has room for a request.
pub(super) unsafe fn keep(
    request: RawRequest,
    is_persistent: bool,
    place: *mut castell_request,
) -> Result<()> {
    let id = REQUESTS.insert(Request { request, is_persistent }).map_err(too_many("requests"))?;
    // SAFETY: the caller's promise.
    unsafe { place.write(id as usize as castell_request) };
    Ok(())
}

fn no_request(why: Unknown) -> Error {
    unknown(Kind::Request, why)
}

/// Waits for a call.
///
/// # Safety
/// `request` is NULL or points to a request or to NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_wait(request: *mut castell_request) -> c_int {
    // SAFETY: the caller's promise.
    status("castell_wait", || unsafe { wait(request) })
}

unsafe fn wait(place: *mut castell_request) -> Result<()> {
    require_running()?;
    // SAFETY: the caller's promise.
    let Some(place) = (unsafe { place.as_mut() }) else {
        return Err(Error::new(Code::Buffer, "the place of the request is NULL"));
    };
    if place.is_null() {
        return Ok(());
    }
    refuse_inside_call()?;
    let id = *place as u64;
    loop {
        match REQUESTS.with_or_remove(id, look).map_err(no_request)? {
            // Others may look at the request meanwhile; the next look tells how it ended.
            State::Going(run) => drop(run.wait()),
            State::Over(fate, outcome) => {
                if fate == Fate::Goes {
                    *place = std::ptr::null_mut();
                }
                return outcome;
            }
        }
    }
}

/// What became of a call.
enum State {
    Going(Handle),
    Over(Fate, Result<()>),
}

/// What has become of a call; one that is over is forgotten unless it is persistent.
fn look(entry: &mut Request) -> (Fate, State) {
    match entry.request.run() {
        Some(run) if !run.is_done() => (Fate::Stays, State::Going(run.clone())),
        _ => {
            let fate = if entry.is_persistent { Fate::Stays } else { Fate::Goes };
            (fate, State::Over(fate, entry.request.wait().map_err(Error::from)))
        }
    }
}

/// Whether a call is over.
///
/// # Safety
/// As for [`castell_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_test(request: *mut castell_request) -> c_int {
    number("castell_test", || {
        require_running()?;
        // SAFETY: the caller's promise.
        let id = unsafe { request.as_ref() }.map_or(0, |request| *request as u64);
        if id != 0 {
            let is_over = |entry: &mut Request| entry.request.run().is_none_or(Handle::is_done);
            if !REQUESTS.with(id, is_over).map_err(no_request)? {
                return Ok(0);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { wait(request) }.map(|()| 1)
    })
}

/// Waits for several calls.
///
/// # Safety
/// `requests` points to so many requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_waitall(count: c_int, requests: *mut castell_request) -> c_int {
    status("castell_waitall", || {
        let count = usize::try_from(count)
            .map_err(|_| Error::new(Code::Count, format!("{count} requests cannot be waited for")))?;
        if count > 0 && requests.is_null() {
            return Err(Error::new(Code::Buffer, "the requests are NULL"));
        }
        let mut first = Ok(());
        for at in 0..count {
            // SAFETY: the caller's promise.
            let outcome = unsafe { wait(requests.add(at)) };
            first = first.and(outcome);
        }
        first
    })
}

/// Starts a persistent call.
#[unsafe(no_mangle)]
pub extern "C" fn castell_request_start(request: castell_request) -> c_int {
    status("castell_request_start", || {
        require_running()?;
        refuse_inside_call()?;
        let started = REQUESTS.with(request as u64, |entry| {
            if !entry.is_persistent {
                return Err(Error::new(Code::Handle, "the call was started when it was made"));
            }
            // SAFETY: the program answers for its buffers until it has waited, as the header says.
            unsafe { entry.request.start() }.map_err(Error::from)
        });
        started.map_err(no_request)?
    })
}

/// Waits, and forgets a request.
///
/// # Safety
/// As for [`castell_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_request_free(request: *mut castell_request) -> c_int {
    status("castell_request_free", || {
        // SAFETY: the caller's promise.
        let outcome = unsafe { wait(request) };
        // SAFETY: as above.
        if let Some(request) = unsafe { request.as_mut() }
            && !request.is_null()
            && REQUESTS.remove(*request as u64).is_ok()
        {
            *request = std::ptr::null_mut();
        }
        outcome
    })
}
