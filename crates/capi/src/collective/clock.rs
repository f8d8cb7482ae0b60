//! One clock for the ranks of all hosts.

use super::castell_comm;
use super::communicator::{failed, with};
use crate::error::{Error, Result, status};
use crate::objects::lock;
use crate::process::require_running;
use crate::types::Code;
use ::castell_comm::communicator::JobClock;
use std::ffi::c_int;
use std::sync::Mutex;

/// The clock that was asked for last, and the communicator whose ranks have it.
static CLOCK: Mutex<Option<(usize, JobClock)>> = Mutex::new(None);

/// Asks the hosts of a communicator's ranks for their time.
#[unsafe(no_mangle)]
pub extern "C" fn castell_clock_ask(comm: castell_comm) -> c_int {
    status("castell_clock_ask", || {
        let known = lock(&CLOCK).take().filter(|(of, _)| *of == comm as usize);
        let clock = with(comm, |comm| match known {
            None => comm.clock().map_err(failed),
            Some((_, mut clock)) => clock.ask(comm).map(|()| clock).map_err(failed),
        })?;
        *lock(&CLOCK) = Some((comm as usize, clock));
        Ok(())
    })
}

/// What the clock says.
///
/// # Safety
/// Each is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_clock_now(seconds: *mut f64, error: *mut f64) -> c_int {
    status("castell_clock_now", || {
        require_running()?;
        let (now, off) = told()?;
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(seconds) = seconds.as_mut() {
                *seconds = now;
            }
            if let Some(error) = error.as_mut() {
                *error = off;
            }
        }
        Ok(())
    })
}

fn told() -> Result<(f64, f64)> {
    match &*lock(&CLOCK) {
        Some((_, clock)) => Ok((clock.now_ns() as f64 * 1e-9, clock.error_ns() * 1e-9)),
        None => {
            let text = "no clock is known yet: all ranks call castell_clock_ask first";
            Err(Error::new(Code::Operation, text.to_owned()))
        }
    }
}
