//! All operations, each blocking, non-blocking and persistent.

use super::arguments::{Arguments, Blocks, List};
use super::{castell_comm, castell_op, castell_request, castell_type, communicator, request};
use crate::error::{Error, status};
use crate::process::refuse_inside_call;
use crate::types::Code;
use ::castell_comm::collective::{Call, Operation};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// What `castell_use_algorithm` was told.
    static ALGORITHM: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether any thread has named one: programs that never do look for none.
static IS_NAMED: AtomicBool = AtomicBool::new(false);

/// The algorithm of this thread's next call.
///
/// # Safety
/// `algorithm` is NULL or a text that ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_use_algorithm(algorithm: *const c_char) -> c_int {
    status("castell_use_algorithm", || {
        let name = if algorithm.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            let text = unsafe { CStr::from_ptr(algorithm) }.to_str();
            let text = text.map_err(|_| Error::new(Code::Operation, "the algorithm is no UTF-8 text"))?;
            Some(text.to_owned())
        };
        IS_NAMED.store(true, Ordering::Relaxed);
        ALGORITHM.set(name);
        Ok(())
    })
}

/// The algorithm that this thread has named, which holds for one call.
#[inline]
fn named() -> Option<String> {
    if IS_NAMED.load(Ordering::Relaxed) { ALGORITHM.take() } else { None }
}

/// Makes a call and waits for it.
#[inline(never)]
pub(super) unsafe fn make(name: &str, comm: castell_comm, arguments: &Arguments<'_>) -> c_int {
    status(name, || {
        refuse_inside_call()?;
        let algorithm = named();
        communicator::with(
            comm,
            #[inline(always)]
            |comm| {
                // SAFETY: the caller's promise.
                unsafe {
                    arguments.call(
                        comm,
                        algorithm.as_deref(),
                        #[inline(always)]
                        |call| comm.call(call).map_err(Error::from),
                    )
                }
            },
        )
    })
}

/// Prepares a call, and starts it unless it `is_persistent`.
#[inline(never)]
pub(super) unsafe fn prepare(
    name: &str,
    comm: castell_comm,
    arguments: &Arguments<'_>,
    is_persistent: bool,
    request: *mut castell_request,
) -> c_int {
    status(name, || {
        refuse_inside_call()?;
        let algorithm = named();
        communicator::with(comm, |comm| {
            let work = |call: Call<'_>| {
                if request.is_null() {
                    return Err(Error::new(Code::Buffer, "the place for the request is NULL"));
                }
                // SAFETY: the program answers for its buffers until it has waited, and for the place.
                unsafe {
                    let mut prepared = comm.prepare_raw(&call)?;
                    if !is_persistent {
                        prepared.start()?;
                    }
                    request::keep(prepared, is_persistent, request)
                }
            };
            // SAFETY: the caller's promise.
            unsafe { arguments.call(comm, algorithm.as_deref(), work) }
        })
    })
}

/// The three functions of each operation: its name, those of what starts and prepares it, what they are passed, and the call
/// that this is.
macro_rules! collectives {
    ($($name:ident $start:ident $init:ident ($($argument:ident: $type:ty),*)
    $operation:ident { $($field:ident $(: $value:expr)?),* };)*) => {$(
        /// See the header.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type,)* comm: castell_comm) -> c_int {
            let arguments = &Arguments { $($field $(: $value)?,)* ..Arguments::of(Operation::$operation) };
            // SAFETY: the caller's promise.
            unsafe { make(stringify!($name), comm, arguments) }
        }

        /// See the header.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(
            $($argument: $type,)* comm: castell_comm, request: *mut castell_request,
        ) -> c_int {
            let arguments = &Arguments { $($field $(: $value)?,)* ..Arguments::of(Operation::$operation) };
            // SAFETY: the caller's promise.
            unsafe { prepare(stringify!($start), comm, arguments, false, request) }
        }

        /// See the header.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init(
            $($argument: $type,)* comm: castell_comm, request: *mut castell_request,
        ) -> c_int {
            let arguments = &Arguments { $($field $(: $value)?,)* ..Arguments::of(Operation::$operation) };
            // SAFETY: the caller's promise.
            unsafe { prepare(stringify!($init), comm, arguments, true, request) }
        }
    )*};
}

collectives! {
    castell_barrier castell_ibarrier castell_barrier_init
        ()
        Barrier {};
    castell_bcast castell_ibcast castell_bcast_init
        (data: *mut c_void, count: usize, r#type: castell_type, root: c_int)
        Broadcast { element: r#type, recv: data, count, root: Some(root) };
    castell_gather castell_igather castell_gather_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void, root: c_int)
        Gather { element: r#type, send, recv, count, root: Some(root) };
    castell_gatherv castell_igatherv castell_gatherv_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void, counts: *const usize,
            displacements: *const usize, root: c_int)
        Gather { element: r#type, send, recv, count, root: Some(root), blocks: Some(&Blocks { arriving:
            Some(List(counts, displacements)), ..Blocks::default() }) };
    castell_scatter castell_iscatter castell_scatter_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void, root: c_int)
        Scatter { element: r#type, send, recv, count, root: Some(root) };
    castell_scatterv castell_iscatterv castell_scatterv_init
        (send: *const c_void, counts: *const usize, displacements: *const usize, r#type: castell_type, recv:
            *mut c_void, count: usize, root: c_int)
        Scatter { element: r#type, send, recv, count, root: Some(root), blocks: Some(&Blocks { leaving:
            Some(List(counts, displacements)), ..Blocks::default() }) };
    castell_allgather castell_iallgather castell_allgather_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void)
        Allgather { element: r#type, send, recv, count };
    castell_allgatherv castell_iallgatherv castell_allgatherv_init
        (send: *const c_void, r#type: castell_type, recv: *mut c_void, counts: *const usize, displacements:
            *const usize)
        Allgather { element: r#type, send, recv, blocks: Some(&Blocks { arriving: Some(List(counts,
            displacements)), ..Blocks::default() }) };
    castell_reduce castell_ireduce castell_reduce_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op, root:
            c_int)
        Reduce { element: r#type, send, recv, count, root: Some(root), op: Some(op) };
    castell_allreduce castell_iallreduce castell_allreduce_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op)
        Allreduce { element: r#type, send, recv, count, op: Some(op) };
    castell_reduce_scatter castell_ireduce_scatter castell_reduce_scatter_init
        (send: *const c_void, recv: *mut c_void, counts: *const usize, r#type: castell_type, op: castell_op)
        ReduceScatter { element: r#type, send, recv, op: Some(op), blocks: Some(&Blocks { leaving:
            Some(List(counts, std::ptr::null())), ..Blocks::default() }) };
    castell_reduce_scatter_block castell_ireduce_scatter_block castell_reduce_scatter_block_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op)
        ReduceScatter { element: r#type, send, recv, count, op: Some(op) };
    castell_alltoall castell_ialltoall castell_alltoall_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void)
        Alltoall { element: r#type, send, recv, count };
    castell_alltoallv castell_ialltoallv castell_alltoallv_init
        (send: *const c_void, counts: *const usize, displacements: *const usize, r#type: castell_type, recv:
            *mut c_void, recv_counts: *const usize, recv_displacements: *const usize)
        Alltoall { element: r#type, send, recv, blocks: Some(&Blocks { leaving: Some(List(counts,
            displacements)), arriving: Some(List(recv_counts, recv_displacements)), ..Blocks::default() }) };
    castell_alltoallw castell_ialltoallw castell_alltoallw_init
        (send: *const c_void, bytes: *const usize, byte_displacements: *const usize, recv: *mut c_void,
            recv_bytes: *const usize, recv_byte_displacements: *const usize)
        Alltoall { send, recv, blocks: Some(&Blocks { leaving: Some(List(bytes, byte_displacements)),
            arriving: Some(List(recv_bytes, recv_byte_displacements)), ..Blocks::default() }) };
    castell_scan castell_iscan castell_scan_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op)
        Scan { element: r#type, send, recv, count, op: Some(op) };
    castell_exscan castell_iexscan castell_exscan_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op)
        Exscan { element: r#type, send, recv, count, op: Some(op) };
    castell_neighbour_allgather castell_ineighbour_allgather castell_neighbour_allgather_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
            c_void, count: usize, r#type: castell_type, recv: *mut c_void)
        NeighbourAllgather { element: r#type, send, recv, count, blocks: Some(&Blocks { neighbours:
            Some([(indegree, sources), (outdegree, destinations)]), ..Blocks::default() }) };
    castell_neighbour_allgatherv castell_ineighbour_allgatherv castell_neighbour_allgatherv_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
            c_void, count: usize, r#type: castell_type, recv: *mut c_void, recv_counts: *const usize,
            recv_displacements: *const usize)
        NeighbourAllgather { element: r#type, send, recv, count, blocks: Some(&Blocks { arriving:
            Some(List(recv_counts, recv_displacements)), neighbours: Some([(indegree, sources), (outdegree,
            destinations)]), ..Blocks::default() }) };
    castell_neighbour_alltoall castell_ineighbour_alltoall castell_neighbour_alltoall_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
            c_void, count: usize, r#type: castell_type, recv: *mut c_void)
        NeighbourAlltoall { element: r#type, send, recv, count, blocks: Some(&Blocks { neighbours:
            Some([(indegree, sources), (outdegree, destinations)]), ..Blocks::default() }) };
    castell_neighbour_alltoallv castell_ineighbour_alltoallv castell_neighbour_alltoallv_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
            c_void, counts: *const usize, displacements: *const usize, r#type: castell_type, recv: *mut
            c_void, recv_counts: *const usize, recv_displacements: *const usize)
        NeighbourAlltoall { element: r#type, send, recv, blocks: Some(&Blocks { leaving: Some(List(counts,
            displacements)), arriving: Some(List(recv_counts, recv_displacements)), neighbours:
            Some([(indegree, sources), (outdegree, destinations)]) }) };
    castell_neighbour_alltoallw castell_ineighbour_alltoallw castell_neighbour_alltoallw_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
            c_void, bytes: *const usize, byte_displacements: *const usize, recv: *mut c_void, recv_bytes:
            *const usize, recv_byte_displacements: *const usize)
        NeighbourAlltoall { send, recv, blocks: Some(&Blocks { leaving: Some(List(bytes,
            byte_displacements)), arriving: Some(List(recv_bytes, recv_byte_displacements)), neighbours:
            Some([(indegree, sources), (outdegree, destinations)]) }) };
}
