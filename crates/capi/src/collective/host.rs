//! A group that the program has already, told by functions of its own.

use crate::error::{Error, Result, status};
use crate::process::enter;
use crate::types::Code;
use ::castell_comm::Comm;
use ::castell_comm::bootstrap::HostFunctions;
use castell_base::Rank;
use std::ffi::{c_int, c_void};

/// The header's `castell_host_functions`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct castell_host_functions {
    rank: c_int,
    size: c_int,
    allgather: Option<unsafe extern "C" fn(*const c_void, usize, *mut c_void, *mut c_void) -> c_int>,
    host: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    context: *mut c_void,
}

/// Joins the group that the functions tell.
///
/// # Safety
/// `functions` is NULL or points to functions that do what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_init_by(functions: *const castell_host_functions) -> c_int {
    // SAFETY: the caller's promise.
    status("castell_init_by", || unsafe { init_by(functions, true) })
}

/// Joins the group that the functions tell; `asks_environment`: `CASTELL_NET` says what carries messages.
///
/// # Safety
/// As for [`castell_init_by`].
pub(super) unsafe fn init_by(functions: *const castell_host_functions, asks_environment: bool) -> Result<()> {
    // SAFETY: the caller's promise.
    let functions = unsafe { functions.as_ref() };
    let mut functions = Functions::of(functions, asks_environment)?;
    enter(|| Comm::init_by(&mut functions))
}

/// Functions of which rank and size have been looked at.
struct Functions {
    rank: u32,
    ranks: u32,
    allgather: unsafe extern "C" fn(*const c_void, usize, *mut c_void, *mut c_void) -> c_int,
    host: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    context: *mut c_void,
    asks_environment: bool,
}

impl Functions {
    fn of(functions: Option<&castell_host_functions>, asks_environment: bool) -> Result<Functions> {
        let given = *functions.ok_or_else(|| Error::new(Code::Buffer, "`functions` is NULL"))?;
        let allgather =
            given.allgather.ok_or_else(|| Error::new(Code::Buffer, "`allgather`, the exchange, is NULL"))?;
        let (rank, ranks) = match (u32::try_from(given.rank), u32::try_from(given.size)) {
            (Ok(rank), Ok(ranks)) if rank < ranks => (rank, ranks),
            _ => {
                let text =
                    format!("rank {} of {} ranks: ranks go from 0 to size - 1", given.rank, given.size);
                return Err(Error::new(Code::Rank, text));
            }
        };
        let (host, context) = (given.host, given.context);
        Ok(Functions { rank, ranks, allgather, host, context, asks_environment })
    }
}

impl HostFunctions for Functions {
    fn rank(&self) -> Rank {
        Rank(self.rank)
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn allgather(&mut self, mine: &[u8], all: &mut [u8]) -> std::result::Result<(), String> {
        // SAFETY: castell_init_by was promised so; `all` has room for as many bytes of each rank.
        let code = unsafe {
            (self.allgather)(mine.as_ptr().cast(), mine.len(), all.as_mut_ptr().cast(), self.context)
        };
        if code == 0 { Ok(()) } else { Err(format!("it returned {code}")) }
    }

    fn host(&mut self) -> std::result::Result<Option<u64>, String> {
        let Some(host) = self.host else { return Ok(None) };
        // SAFETY: castell_init_by was promised so.
        let number = unsafe { host(self.context) };
        u64::try_from(number).map(Some).map_err(|_| format!("`host` returned {number}"))
    }

    fn asks_environment(&self) -> bool {
        self.asks_environment
    }
}
