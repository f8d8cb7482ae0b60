//! Schedules: compiling, freeing (ESPGOAL 2.2.6), saving and loading.

use crate::error::{Error, Result, call, number, remember, status};
use crate::graph::with_graph;
use crate::objects::{SCHEDULES, too_many, unknown};
use crate::process::{group, require_running};
use crate::registry::{Kind, Unknown};
use crate::types::*;
use castell_goal::compile::CompileError;
use castell_goal::op::{Buffer, Memory, Op, Place};
use castell_goal::schedule::Schedule;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Compiles a graph.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Compile(graph: GOAL_Graph) -> GOAL_Schedule {
    call("GOAL_Compile", std::ptr::null_mut(), || {
        let schedule = with_graph(graph, |entry| match &entry.broken {
            Some(error) => {
                let message = format!("the graph lacks what could not be added: {}", error.message);
                Err(Error::new(Code::Incomplete, message))
            }
            None => Ok(entry.graph.compile()?),
        })?;
        let (rank, size) = group();
        keep(schedule.for_group(rank, size)?)
    })
}

/// Frees a schedule.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_FreeSchedule(sched: GOAL_Schedule) -> c_int {
    status("GOAL_FreeSchedule", || {
        require_running()?;
        SCHEDULES.remove(sched as u64).map(drop).map_err(no_schedule)
    })
}

/// 1 if `GOAL_Run` would take it.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_IsScheduleValid(sched: GOAL_Schedule) -> c_int {
    (require_running().is_ok() && SCHEDULES.with(sched as u64, |_| ()).is_ok()).into()
}

/// Nothing to do: every schedule of ours can be run again.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_MakeScheduleReusable(sched: GOAL_Schedule) {
    if let Err(error) = shared(sched) {
        remember("GOAL_MakeScheduleReusable", &error);
    }
}

/// The bytes of a schedule without pointers.
///
/// # Safety
/// `bytes` has room for `size` bytes, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOAL_SaveSchedule(sched: GOAL_Schedule, bytes: *mut c_void, size: usize) -> i64 {
    number("GOAL_SaveSchedule", || {
        let schedule = shared(sched)?;
        if let Some(operation) = schedule.operations().find(|&id| names_address(schedule.op(id))) {
            let name = schedule.label(operation).unwrap_or("an operation without a label");
            let message = format!(
                "`{name}` names memory or a function of this process, which mean nothing elsewhere; use the scratchpad"
            );
            return Err(Error::new(Code::Buffer, message));
        }
        let block = schedule.to_bytes();
        if !bytes.is_null() && size >= block.len() {
            // SAFETY: the caller promised room for `size` bytes, which is enough.
            unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), bytes.cast(), block.len()) };
        }
        Ok(block.len() as i64)
    })
}

/// The schedule of such bytes.
///
/// # Safety
/// `bytes` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOAL_LoadSchedule(bytes: *const c_void, size: usize) -> GOAL_Schedule {
    call("GOAL_LoadSchedule", std::ptr::null_mut(), || {
        require_running()?;
        if bytes.is_null() {
            return Err(Error::new(Code::Buffer, "bytes is NULL; pass what GOAL_SaveSchedule wrote"));
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), size) };
        let schedule = Schedule::from_bytes(bytes)
            .map_err(|error| Error::new(Code::Format, format!("not a saved schedule: {error}")))?;
        let (rank, ranks) = group();
        keep(schedule.for_group(rank, ranks)?)
    })
}

/// The schedule of an id.
pub(crate) fn shared(sched: GOAL_Schedule) -> Result<Arc<Schedule>> {
    require_running()?;
    SCHEDULES.with(sched as u64, |schedule| Arc::clone(schedule)).map_err(no_schedule)
}

fn no_schedule(why: Unknown) -> Error {
    unknown(Kind::Schedule, why)
}

fn keep(schedule: Schedule) -> Result<GOAL_Schedule> {
    let id = SCHEDULES.insert(Arc::new(schedule)).map_err(too_many("schedules"))?;
    Ok(id as usize as GOAL_Schedule)
}

fn names_address(op: Op<'_>) -> bool {
    let place = |place: Place| place.memory == Memory::User;
    let buffer = |buffer: Buffer<'_>| match buffer {
        Buffer::Plain(at) => place(at),
        Buffer::Vector(memory, _) => memory == Memory::User,
    };
    match op {
        Op::Send { buffer: b, .. } | Op::Recv { buffer: b, .. } => buffer(b),
        Op::Local { b1, b2, b3, .. } => buffer(b1) || buffer(b2) || buffer(b3),
        Op::Wtime { b3 } => place(b3),
        Op::Put { local, .. } | Op::Get { local, .. } => place(local),
        Op::Call { .. } => true,
        Op::Proxy | Op::Calc { .. } | Op::Sleep { .. } => false,
    }
}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Error {
        let code = match error {
            CompileError::Cycle { .. } => Code::Cycle,
            CompileError::AnyTooLarge { .. } => Code::Count,
            CompileError::OutsideScratchpad { .. } => Code::Buffer,
            CompileError::TooLarge { .. } => Code::Limit,
            CompileError::OutsideGroup { .. } => Code::Rank,
        };
        Error::new(code, error.to_string())
    }
}
