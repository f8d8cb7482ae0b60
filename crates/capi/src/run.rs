//! Runs: starting, testing, waiting (ESPGOAL 2.2.7), and why they failed.

use crate::error::{Error, Result, call, number, status};
use crate::graph::{too_many, unknown};
use crate::process::{comm, require_running};
use crate::registry::{Full, Kind, Table, Unknown};
use crate::schedule::shared;
use crate::types::*;
use castell_comm::{Cause, Failure, Handle};
use std::ffi::{c_char, c_int};

/// What a handle stands for. A run that ended well needs no entry: its handle is over and stays so.
enum Entry {
    Going(Handle),
    Failed(Failure),
}

static HANDLES: Table<Entry> = Table::new(Kind::Handle);

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
    call("GOAL_Test", 1, || {
        require_running()?;
        let outcome = HANDLES.with(handle as u64, |entry| match entry {
            Entry::Going(run) if !run.is_done() => None,
            Entry::Going(run) => run.test(),
            Entry::Failed(failure) => Some(Err(failure.clone())),
        });
        match outcome {
            Ok(None) => return Ok(0),
            Ok(Some(outcome)) => settle(handle, outcome),
            Err(Unknown::Gone) => {}
            Err(why) => return Err(unknown(why, "handle")),
        }
        Ok(1)
    })
}

/// Blocks until the run is over.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Wait(handle: GOAL_Handle) -> c_int {
    status("GOAL_Wait", || {
        if let Some(run) = going(handle)? {
            if !run.is_done() {
                refuse_inside_call()?;
            }
            settle(handle, run.wait());
        }
        match HANDLES.with(handle as u64, |entry| failure(entry)) {
            Ok(Some(failure)) => Err(Error::new(code_of(&failure.cause), failure.to_string())),
            Ok(None) | Err(_) => Ok(()),
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
        if let Some(outcome) = going(handle)?.and_then(|run| run.test()) {
            settle(handle, outcome);
        }
        let failed = HANDLES.with(handle as u64, |entry| failure(entry)).ok().flatten();
        let reason = failed.map(|failure| failure.to_string().replace('\0', " ")).unwrap_or_default();
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
        match HANDLES.remove(handle as u64) {
            Ok(_) | Err(Unknown::Gone) => Ok(()),
            Err(why) => Err(unknown(why, "handle")),
        }
    })
}

/// Forgets all runs.
pub(crate) fn free_all() {
    for id in HANDLES.ids() {
        // Another thread may have been faster.
        let _ = HANDLES.remove(id);
    }
}

fn start(name: &str, sched: GOAL_Schedule, open: bool) -> GOAL_Handle {
    call(name, std::ptr::null_mut(), || {
        let schedule = shared(sched)?;
        let comm = comm()?;
        // SAFETY: the program answers for the memory and the functions that it named in the graph, until the run is
        // over (the documentation says so).
        let run = unsafe { if open { comm.run_open(&schedule) } else { comm.run(&schedule) } };
        let run = run.map_err(|error| Error::new(Code::Run, error.to_string()))?;
        let id = HANDLES.insert(Entry::Going(run)).map_err(|Full| too_many("runs"))?;
        Ok(id as usize as GOAL_Handle)
    })
}

/// The run of a handle, unless it is over.
fn going(handle: GOAL_Handle) -> Result<Option<Handle>> {
    require_running()?;
    let run = HANDLES.with(handle as u64, |entry| match entry {
        Entry::Going(run) => Some(run.clone()),
        Entry::Failed(_) => None,
    });
    match run {
        Ok(run) => Ok(run),
        Err(Unknown::Gone) => Ok(None),
        Err(why) => Err(unknown(why, "handle")),
    }
}

/// Notes how a run ended. Whoever comes first does it; for the others there is nothing left to note.
fn settle(handle: GOAL_Handle, outcome: std::result::Result<(), Failure>) {
    match outcome {
        Ok(()) => drop(HANDLES.remove(handle as u64)),
        Err(failure) => drop(HANDLES.with(handle as u64, |entry| *entry = Entry::Failed(failure))),
    }
}

/// A function that a run calls would wait for itself.
pub(crate) fn refuse_inside_call() -> Result<()> {
    if castell_comm::inside_call() {
        let message = "called from a function of GOAL_Call, whose run would wait for itself";
        return Err(Error::new(Code::Run, message));
    }
    Ok(())
}

fn failure(entry: &Entry) -> Option<Failure> {
    match entry {
        Entry::Going(_) => None,
        Entry::Failed(failure) => Some(failure.clone()),
    }
}

fn code_of(cause: &Cause) -> Code {
    match cause {
        Cause::PeerDied { .. } | Cause::PeerLeft { .. } | Cause::PeerFailed { .. } => Code::Peer,
        Cause::SizeMismatch { .. } => Code::Size,
        Cause::BadAddress { .. } | Cause::BadTarget { .. } => Code::Buffer,
        Cause::ShutDown => Code::Failed,
    }
}
