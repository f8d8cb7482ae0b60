//! The process and its group (ESPGOAL 2.2.1).

use crate::error::{Error, Result, number, status};
use crate::objects::{self, WORLD, lock};
use crate::types::*;
use castell_base::Rank;
use castell_comm::Comm;
use castell_comm::bootstrap::BootstrapError;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::{PoisonError, RwLock};

const FRESH: u8 = 0;
const JOINING: u8 = 1;
const RUNNING: u8 = 2;
const LEAVING: u8 = 3;
const LEFT: u8 = 4;

/// Where the process is in its life. Written with release ordering behind `RANK`, `SIZE` and `COMM`.
static PHASE: AtomicU8 = AtomicU8::new(FRESH);
static RANK: AtomicI32 = AtomicI32::new(0);
static SIZE: AtomicI32 = AtomicI32::new(0);
static COMM: RwLock<Option<Comm>> = RwLock::new(None);

/// Joins the group.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Init() -> c_int {
    status("GOAL_Init", || {
        // Said also for programs that do not look: N processes that say nothing would each do their part in vain.
        enter(|| Comm::init().inspect_err(|error| castell_host::say(&format!("GOAL_Init: {error}"))))
    })
}

/// Joins the group that `join` finds: the process's only one.
pub(crate) fn enter(join: impl FnOnce() -> std::result::Result<Comm, BootstrapError>) -> Result<()> {
    PHASE.compare_exchange(FRESH, JOINING, Ordering::AcqRel, Ordering::Acquire).map_err(
        |phase| match phase {
            LEAVING | LEFT => {
                Error::new(Code::Finalized, "GOAL_Finalize was called; a process joins its group once")
            }
            _ => Error::new(Code::AlreadyInitialized, "called before; a process joins its group once"),
        },
    )?;
    match join() {
        Ok(comm) => {
            RANK.store(comm.rank().0 as i32, Ordering::Relaxed);
            SIZE.store(comm.size() as i32, Ordering::Relaxed);
            *lock(&WORLD) = Some(comm.world());
            *COMM.write().unwrap_or_else(PoisonError::into_inner) = Some(comm);
            PHASE.store(RUNNING, Ordering::Release);
            Ok(())
        }
        Err(error) => {
            PHASE.store(FRESH, Ordering::Release);
            Err(Error::new(Code::Launch, error.to_string()))
        }
    }
}

/// 1 once `GOAL_Init` has succeeded.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_IsInitialized() -> c_int {
    (PHASE.load(Ordering::Acquire) >= RUNNING).into()
}

/// Waits for all runs, then leaves the group.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Finalize() -> c_int {
    status("GOAL_Finalize", || leave(LEFT))
}

/// Leaves the group as if it had never been joined: another one can be.
pub(crate) fn leave_for_another() -> Result<()> {
    leave(FRESH)
}

fn leave(phase: u8) -> Result<()> {
    require_running()?;
    refuse_inside_call()?;
    let left = PHASE.compare_exchange(RUNNING, LEAVING, Ordering::AcqRel, Ordering::Acquire);
    left.map_err(|_| Error::new(Code::Finalized, "another thread called GOAL_Finalize"))?;
    if let Some(comm) = COMM.write().unwrap_or_else(PoisonError::into_inner).take() {
        comm.finalize();
    }
    objects::forget_all();
    PHASE.store(phase, Ordering::Release);
    Ok(())
}

/// 1 before `GOAL_Init` and after `GOAL_Finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_IsFinalized() -> c_int {
    (PHASE.load(Ordering::Acquire) != RUNNING).into()
}

/// Number of processes of the group.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_GroupSize() -> c_int {
    number("GOAL_GroupSize", || require_running().map(|()| SIZE.load(Ordering::Relaxed)))
}

/// Number of this process.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_MyRank() -> c_int {
    number("GOAL_MyRank", || require_running().map(|()| RANK.load(Ordering::Relaxed)))
}

/// Between `GOAL_Init` and `GOAL_Finalize`.
#[inline]
pub(crate) fn require_running() -> Result<()> {
    match PHASE.load(Ordering::Acquire) {
        RUNNING => Ok(()),
        FRESH | JOINING => Err(Error::new(Code::NotInitialized, "call GOAL_Init first")),
        _ => Err(Error::new(Code::Finalized, "GOAL_Finalize was called before")),
    }
}

/// Works with the group, which nobody leaves meanwhile.
pub(crate) fn with_comm<T>(work: impl FnOnce(&Comm) -> Result<T>) -> Result<T> {
    require_running()?;
    let comm = COMM.read().unwrap_or_else(PoisonError::into_inner);
    // Between the phase and here another thread may have left the group.
    comm.as_ref()
        .map_or_else(|| Err(Error::new(Code::Finalized, "another thread called GOAL_Finalize")), work)
}

/// A function that a run calls would wait for itself.
#[inline]
pub(crate) fn refuse_inside_call() -> Result<()> {
    if castell_comm::inside_call() {
        let message = "called from a function of GOAL_Call, whose run would wait for itself";
        return Err(Error::new(Code::Run, message));
    }
    Ok(())
}

/// Rank and size of the group.
pub(crate) fn group() -> (Rank, u32) {
    (Rank(RANK.load(Ordering::Relaxed) as u32), SIZE.load(Ordering::Relaxed) as u32)
}

/// A rank of the group.
pub(crate) fn peer(what: &str, rank: c_int) -> Result<Rank> {
    let (_, size) = group();
    match u32::try_from(rank) {
        Ok(rank) if rank < size => Ok(Rank(rank)),
        _ => Err(Error::new(
            Code::Rank,
            format!("{what} is {rank}; the group of {size} has the ranks 0 to {}", size - 1),
        )),
    }
}
