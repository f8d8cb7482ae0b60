//! Communicators.

use super::castell_comm;
use crate::error::{Error, Result, number, status};
use crate::objects::{COMMUNICATORS, Group, WORLD, lock, too_many, unknown};
use crate::process::{group, require_running};
use crate::registry::Kind;
use crate::types::Code;
use ::castell_comm::Communicator;
use ::castell_comm::communicator::SplitError;
use castell_base::Rank;
use std::ffi::c_int;
use std::sync::Arc;

/// The header's `CASTELL_WORLD`.
const WORLD_ID: usize = 1;

/// Works with a communicator that nobody else uses meanwhile: others that want it wait.
#[inline(always)]
pub(super) fn with<T>(comm: castell_comm, work: impl FnOnce(&Communicator) -> Result<T>) -> Result<T> {
    if comm as usize == WORLD_ID {
        match &*lock(&WORLD) {
            Some(world) => work(world),
            None => Err(not_running()),
        }
    } else {
        work(&lock(&find(comm)?.communicator))
    }
}

/// Looks a communicator up, which may be in use.
fn find(comm: castell_comm) -> Result<Arc<Group>> {
    require_running()?;
    COMMUNICATORS.with(comm as u64, |group| Arc::clone(group)).map_err(|why| unknown(Kind::Communicator, why))
}

#[cold]
fn not_running() -> Error {
    let finalized = || Error::new(Code::Finalized, "another thread called GOAL_Finalize");
    require_running().err().unwrap_or_else(finalized)
}

/// Rank and size, also while another thread uses the communicator.
fn place(comm: castell_comm) -> Result<(u32, u32)> {
    if comm as usize == WORLD_ID {
        let (rank, size) = require_running().map(|()| group())?;
        return Ok((rank.0, size));
    }
    find(comm).map(|group| (group.rank, group.size))
}

/// The rank in the communicator.
#[unsafe(no_mangle)]
pub extern "C" fn castell_comm_rank(comm: castell_comm) -> c_int {
    number("castell_comm_rank", || place(comm).map(|(rank, _)| rank as c_int))
}

/// The ranks of the communicator.
#[unsafe(no_mangle)]
pub extern "C" fn castell_comm_size(comm: castell_comm) -> c_int {
    number("castell_comm_size", || place(comm).map(|(_, size)| size as c_int))
}

/// The rank in another communicator.
#[unsafe(no_mangle)]
pub extern "C" fn castell_comm_translate(comm: castell_comm, rank: c_int, other: castell_comm) -> c_int {
    number("castell_comm_translate", || {
        let world = with(comm, |comm| {
            let found = u32::try_from(rank).ok().and_then(|rank| comm.world_rank(Rank(rank)));
            let size = comm.size();
            found.ok_or_else(|| Error::new(Code::Rank, format!("{rank} is not one of the {size} ranks")))
        })?;
        with(other, |other| Ok(other.rank_of(world).map_or(-1, |rank| rank.0 as c_int)))
    })
}

/// Parts by colour.
///
/// # Safety
/// `part` is NULL or has room for a communicator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_comm_split(
    comm: castell_comm,
    colour: c_int,
    key: c_int,
    part: *mut castell_comm,
) -> c_int {
    status("castell_comm_split", || {
        if colour < -1 {
            let text = format!("the colour is {colour}; 0 and up, or CASTELL_NO_COLOUR");
            return Err(Error::new(Code::Count, text));
        }
        let made = with(comm, |comm| comm.split(u32::try_from(colour).ok(), key.into()).map_err(failed))?;
        // SAFETY: the caller's promise.
        unsafe { keep(made, part) }
    })
}

/// The ranks that share memory.
///
/// # Safety
/// As for [`castell_comm_split`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_comm_split_shared(
    comm: castell_comm,
    key: c_int,
    part: *mut castell_comm,
) -> c_int {
    status("castell_comm_split_shared", || {
        let made = with(comm, |comm| comm.split_shared(key.into()).map_err(failed))?;
        // SAFETY: the caller's promise.
        unsafe { keep(Some(made), part) }
    })
}

/// The same ranks.
///
/// # Safety
/// As for [`castell_comm_split`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_comm_dup(comm: castell_comm, copy: *mut castell_comm) -> c_int {
    status("castell_comm_dup", || {
        let made = with(comm, |comm| comm.dup().map_err(failed))?;
        // SAFETY: the caller's promise.
        unsafe { keep(Some(made), copy) }
    })
}

/// Forgets a communicator.
///
/// # Safety
/// `comm` is NULL or points to a communicator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_comm_free(comm: *mut castell_comm) -> c_int {
    status("castell_comm_free", || {
        require_running()?;
        // SAFETY: the caller's promise.
        let Some(comm) = (unsafe { comm.as_mut() }) else {
            return Err(Error::new(Code::Buffer, "the place of the communicator is NULL"));
        };
        if *comm as usize == WORLD_ID {
            return Err(Error::new(Code::Handle, "the world cannot be freed"));
        }
        COMMUNICATORS.remove(*comm as u64).map_err(|why| unknown(Kind::Communicator, why))?;
        *comm = std::ptr::null_mut();
        Ok(())
    })
}

pub(super) fn failed(error: SplitError) -> Error {
    match error {
        SplitError::Call(error) => error.into(),
        SplitError::Contexts | SplitError::Exchange(_) => Error::new(Code::Limit, error.to_string()),
    }
}

/// # Safety
/// `place` is NULL or has room for a communicator.
pub(super) unsafe fn keep(made: Option<Communicator>, place: *mut castell_comm) -> Result<()> {
    if place.is_null() {
        return Err(Error::new(Code::Buffer, "the place for the communicator is NULL"));
    }
    let id = match made {
        Some(made) => COMMUNICATORS.insert(Arc::new(Group::new(made))).map_err(too_many("communicators"))?,
        None => 0,
    };
    // SAFETY: the caller's promise; it was looked at for NULL.
    unsafe { place.write(id as usize as castell_comm) };
    Ok(())
}
