//! What libraries use that answer another library's calls by castell's (`doors/mpi/castell_door.h`): a collective call as one
//! struct, communicators of ranks that agree by that library's own means, and its progress while somebody waits.

use super::arguments::{Arguments, Blocks, List};
use super::calls::{make, prepare};
use super::communicator::{failed, keep};
use super::host::{castell_host_functions, init_by};
use super::{castell_comm, castell_op, castell_request, castell_type};
use crate::error::{Error, Result, number, status};
use crate::process::{leave_for_another, peer, with_comm};
use crate::types::Code;
use ::castell_comm::Communicator;
use ::castell_comm::collective::Operation;
use ::castell_comm::job::{Job, Net, OverTcp};
use castell_base::Rank;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// The header's struct of this name.
#[repr(C)]
pub struct castell_door_call {
    operation: c_int,
    root: c_int,
    element: castell_type,
    op: castell_op,
    count: usize,
    send: *const c_void,
    recv: *mut c_void,
    send_counts: *const usize,
    send_starts: *const usize,
    recv_counts: *const usize,
    recv_starts: *const usize,
    indegree: c_int,
    outdegree: c_int,
    sources: *const c_int,
    destinations: *const c_int,
}

impl castell_door_call {
    /// Hands the arguments to `work`.
    fn with<T>(&self, work: impl FnOnce(&Arguments<'_>) -> T) -> Result<T> {
        let operation = usize::try_from(self.operation).ok().and_then(|at| Operation::ALL.get(at).copied());
        let operation = operation
            .ok_or_else(|| Error::new(Code::Operation, format!("{} is no operation", self.operation)))?;
        let list = |counts: *const usize, starts| (!counts.is_null()).then_some(List(counts, starts));
        let blocks = Blocks {
            leaving: list(self.send_counts, self.send_starts),
            arriving: list(self.recv_counts, self.recv_starts),
            neighbours: operation
                .is_among_neighbours()
                .then_some([(self.indegree, self.sources), (self.outdegree, self.destinations)]),
        };
        let is_plain = blocks.leaving.is_none() && blocks.arriving.is_none() && blocks.neighbours.is_none();
        let has_root = matches!(
            operation,
            Operation::Broadcast | Operation::Gather | Operation::Scatter | Operation::Reduce
        );
        Ok(work(&Arguments {
            operation,
            element: self.element,
            op: (!self.op.is_null()).then_some(self.op),
            root: has_root.then_some(self.root),
            count: self.count,
            send: self.send,
            recv: self.recv,
            // Gathers and scatters of blocks of different sizes are told so by a list at the root only.
            blocks: (!is_plain).then_some(&blocks),
        }))
    }
}

/// Makes a call and waits for it.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_door_make(call: *const castell_door_call, comm: castell_comm) -> c_int {
    // SAFETY: the caller's promise.
    let done = unsafe { &*call }.with(|arguments| unsafe { make("castell_door_make", comm, arguments) });
    done.unwrap_or_else(|error| status("castell_door_make", || Err(error)))
}

/// Prepares a call, and starts it unless it `is_persistent`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_door_prepare(
    call: *const castell_door_call,
    comm: castell_comm,
    is_persistent: c_int,
    request: *mut castell_request,
) -> c_int {
    const NAME: &str = "castell_door_prepare";
    // SAFETY: the caller's promise.
    let done = unsafe { &*call }
        // SAFETY: as above.
        .with(|arguments| unsafe { prepare(NAME, comm, arguments, is_persistent != 0, request) });
    done.unwrap_or_else(|error| status(NAME, || Err(error)))
}

/// Joins a group that lies on one host, see [`castell_init_by`](super::host::castell_init_by); the environment has no say in what carries
/// messages there.
///
/// # Safety
/// As for `castell_init_by`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_door_init_on_host(functions: *const castell_host_functions) -> c_int {
    // SAFETY: the caller's promise.
    status("castell_door_init_on_host", || unsafe { init_by(functions, false) })
}

/// Hosts of the group, and the words for what carries messages between them.
///
/// # Safety
/// `net` has room for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_door_hosts(net: *mut c_char, bytes: usize) -> c_int {
    number("castell_door_hosts", || {
        with_comm(|process| {
            let job = process.job();
            let text = if job.is_networked() { carries(job).to_string() } else { String::new() };
            let text = &text.as_bytes()[..text.len().min(bytes.saturating_sub(1))];
            if bytes > 0 {
                // SAFETY: the caller promised that there is room; the zero is behind the text.
                unsafe {
                    std::ptr::copy_nonoverlapping(text.as_ptr(), net.cast(), text.len());
                    *net.add(text.len()) = 0;
                }
            }
            Ok(process.host_leaders().len() as c_int)
        })
    })
}

/// On which of the group's hosts a rank is.
#[unsafe(no_mangle)]
pub extern "C" fn castell_door_host_of(rank: c_int) -> c_int {
    number("castell_door_host_of", || {
        let rank = peer("rank", rank)?;
        with_comm(|process| Ok(process.job().host_of(rank) as c_int))
    })
}

/// Whether hosts reach each other.
#[unsafe(no_mangle)]
pub extern "C" fn castell_door_meet() -> c_int {
    status("castell_door_meet", || {
        with_comm(|process| {
            process.meet_hosts().map_err(|failure| {
                let (job, me) = (process.job(), process.rank());
                let at = |rank: Rank| {
                    let host = job.host_name(rank).unwrap_or_else(|| "a host without a name".to_owned());
                    format!("rank {rank} (on {host})")
                };
                let (net, other) = (carries(job), at(failure.cause.culprit(me)));
                Error::new(Code::Peer, format!("{} does not reach {other} by {net}", at(me)))
            })
        })
    })
}

/// What carries messages between hosts: TCP, where nobody said more.
fn carries(job: &Job) -> Net {
    if job.net() == Net::Shm { Net::Tcp(OverTcp::default()) } else { job.net() }
}

/// Leaves the group as if it had never been joined.
#[unsafe(no_mangle)]
pub extern "C" fn castell_door_leave() -> c_int {
    status("castell_door_leave", leave_for_another)
}

type Allgather = unsafe extern "C" fn(*const c_void, usize, *mut c_void, *mut c_void) -> c_int;

/// A communicator of these ranks of the world.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_door_comm(
    ranks: *const c_int,
    count: c_int,
    allgather: Allgather,
    context: *mut c_void,
    comm: *mut castell_comm,
) -> c_int {
    status("castell_door_comm", || {
        let wrong =
            || Error::new(Code::Rank, "the members have to be ranks of the world, this one among them");
        // SAFETY: the caller promised so many ranks.
        let ranks =
            unsafe { std::slice::from_raw_parts(ranks, usize::try_from(count).map_err(|_| wrong())?) };
        let made = with_comm(|process| {
            let member = |rank: &c_int| {
                let rank = u32::try_from(*rank).ok().filter(|rank| *rank < process.size());
                rank.map(Rank).ok_or_else(wrong)
            };
            let members: Arc<[Rank]> = ranks.iter().map(member).collect::<Result<_>>()?;
            if !members.contains(&process.rank()) {
                return Err(wrong());
            }
            let mut exchange = |mine: &[u64], all: &mut [u64]| {
                // SAFETY: the caller promised such a function; `all` has room for as many words of each member.
                let code = unsafe {
                    allgather(mine.as_ptr().cast(), size_of_val(mine), all.as_mut_ptr().cast(), context)
                };
                if code == 0 { Ok(()) } else { Err(format!("it returned {code}")) }
            };
            Communicator::by_exchange(process, members, &mut exchange).map_err(failed)
        })?;
        // SAFETY: the caller's promise.
        unsafe { keep(Some(made), comm) }
    })
}

/// What threads do while they wait in vain.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_door_meanwhile(work: unsafe extern "C" fn()) -> c_int {
    status("castell_door_meanwhile", || {
        with_comm(|process| {
            // SAFETY: the caller promised that it may be called by any thread that waits.
            process.set_meanwhile(move || unsafe { work() });
            Ok(())
        })
    })
}
