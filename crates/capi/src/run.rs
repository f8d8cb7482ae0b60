//! Runs: starting, testing, waiting (ESPGOAL 2.2.7), and why they failed.

use crate::error::{Error, Result, call, number, status};
use crate::objects::{RUNS, Run, too_many, unknown};
use crate::process::{refuse_inside_call, require_running, with_comm};
use crate::registry::{Fate, Kind, Unknown};
use crate::schedule::shared;
use crate::types::*;
use castell_comm::{Failure, Handle};
use std::ffi::{c_char, c_int};

/// What a handle's run is doing.
enum State<R> {
    Going(R),
    EndedWell,
    Failed(Failure),
}

/// Starts a run.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Run(sched: GOAL_Schedule) -> GOAL_Handle {
    start("GOAL_Run", sched, false)
}

/// Starts a run whose messages match those of all open runs.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_RunOpen(sched: GOAL_Schedule) -> GOAL_Handle {
    start("GOAL_RunOpen", sched, true)
}

/// Whether the run is over.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Test(handle: GOAL_Handle) -> c_int {
    // Whatever is not going on is over: a caller who waits for 1 always gets there.
    call("GOAL_Test", 1, || Ok((!matches!(look(handle, |_| ())?, State::Going(()))).into()))
}

/// Blocks until the run is over.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Wait(handle: GOAL_Handle) -> c_int {
    status("GOAL_Wait", || {
        loop {
            match look(handle, Handle::clone)? {
                State::EndedWell => return Ok(()),
                State::Failed(failure) => return Err((&failure).into()),
                State::Going(run) => {
                    refuse_inside_call()?;
                    // The next look sees how it ended.
                    let _ = run.wait();
                }
            }
        }
    })
}

/// Why a run failed.
///
/// # Safety
/// `text` has room for `size` bytes, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOAL_HandleError(handle: GOAL_Handle, text: *mut c_char, size: usize) -> c_int {
    number("GOAL_HandleError", || {
        let reason = match look(handle, |_| ())? {
            State::Failed(failure) => failure.to_string().replace('\0', " "),
            State::Going(()) | State::EndedWell => String::new(),
        };
        if !text.is_null() && size > 0 {
            let mut copied = reason.len().min(size - 1);
            while !reason.is_char_boundary(copied) {
                copied -= 1;
            }
            // SAFETY: the caller promised room for `size` bytes; `copied` and the zero are no more than that.
            unsafe {
                std::ptr::copy_nonoverlapping(reason.as_ptr(), text.cast(), copied);
                text.add(copied).write(0);
            }
        }
        Ok(c_int::try_from(reason.len()).unwrap_or(c_int::MAX))
    })
}

/// Forgets a handle.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_FreeHandle(handle: GOAL_Handle) -> c_int {
    status("GOAL_FreeHandle", || {
        require_running()?;
        match RUNS.remove(handle as u64) {
            Ok(_) | Err(Unknown::Gone) => Ok(()),
            Err(why) => Err(unknown(Kind::Handle, why)),
        }
    })
}

fn start(name: &str, sched: GOAL_Schedule, open: bool) -> GOAL_Handle {
    call(name, std::ptr::null_mut(), || {
        let schedule = shared(sched)?;
        refuse_inside_call()?;
        let run = with_comm(|comm| {
            // SAFETY: the program answers for the memory and the functions that it named in the graph, until the run
            // is over (the documentation says so).
            let run = unsafe { if open { comm.run_open(&schedule) } else { comm.run(&schedule) } };
            run.map_err(|error| Error::new(Code::Run, error.to_string()))
        })?;
        let id = RUNS.insert(Run::Going(run)).map_err(too_many("runs"))?;
        Ok(id as usize as GOAL_Handle)
    })
}

/// As `GOAL_Run`, for a task: `then` hears of the end.
pub(crate) fn start_telling(
    name: &str,
    sched: GOAL_Schedule,
    in_task: bool,
    then: impl FnOnce(std::result::Result<(), Failure>) + Send + 'static,
) -> GOAL_Handle {
    call(name, std::ptr::null_mut(), || {
        if !in_task {
            let message = "called outside of tasks: the run would hold nothing; GOAL_Run starts it";
            return Err(Error::new(Code::Run, message));
        }
        let schedule = shared(sched)?;
        refuse_inside_call()?;
        let run = with_comm(|comm| {
            // SAFETY: as in `start`.
            let run = unsafe { comm.run_then(&schedule, then) };
            run.map_err(|error| Error::new(Code::Run, error.to_string()))
        })?;
        let id = RUNS.insert(Run::Going(run)).map_err(too_many("runs"))?;
        Ok(id as usize as GOAL_Handle)
    })
}

/// What the handle's run is doing; `going` is told about it if it goes on. A run that is seen to have ended well is
/// forgotten, one that failed is kept.
fn look<R>(handle: GOAL_Handle, going: impl FnOnce(&Handle) -> R) -> Result<State<R>> {
    require_running()?;
    let seen = RUNS.with_or_remove(handle as u64, |entry| {
        let outcome = match entry {
            Run::Going(run) if !run.is_done() => return (Fate::Stays, State::Going(going(run))),
            Run::Going(run) => run.test().unwrap_or(Ok(())),
            Run::Failed(failure) => Err(failure.clone()),
        };
        match outcome {
            Ok(()) => (Fate::Goes, State::EndedWell),
            Err(failure) => {
                *entry = Run::Failed(failure.clone());
                (Fate::Stays, State::Failed(failure))
            }
        }
    });
    match seen {
        Ok(state) => Ok(state),
        Err(Unknown::Gone) => Ok(State::EndedWell),
        Err(why) => Err(unknown(Kind::Handle, why)),
    }
}
