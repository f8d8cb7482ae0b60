//! Memory that all ranks can read.

use crate::error::{Error, Result, status};
use crate::objects::{MEMORY, lock};
use crate::process::with_comm;
use crate::types::Code;
use ::castell_comm::pool::AllocationError;
use std::ffi::{c_int, c_void};

/// Memory that all ranks can read.
///
/// # Safety
/// `memory` is null or points to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_alloc(bytes: usize, memory: *mut *mut c_void) -> c_int {
    status("castell_alloc", || {
        if memory.is_null() {
            return Err(Error::new(Code::Buffer, "`memory` is NULL"));
        }
        let mut buffer = with_comm(|comm| comm.allocate::<u8>(bytes).map_err(refused))?;
        let at = buffer.as_mut_ptr();
        lock(&MEMORY).insert(at as usize, buffer);
        // SAFETY: the caller's promise.
        unsafe { memory.write(at.cast()) };
        Ok(())
    })
}

fn refused(why: AllocationError) -> Error {
    Error::new(Code::Limit, why.to_string())
}

/// Gives it back.
#[unsafe(no_mangle)]
pub extern "C" fn castell_free(memory: *mut c_void) -> c_int {
    status("castell_free", || free(memory as usize))
}

fn free(at: usize) -> Result<()> {
    let held = lock(&MEMORY).remove(&at);
    match held {
        None if at != 0 => {
            Err(Error::new(Code::Buffer, "this is no memory of castell_alloc, or it was given back before"))
        }
        _ => Ok(()),
    }
}
