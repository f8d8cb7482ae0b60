//! All operations, each blocking, non-blocking and persistent.

use super::arguments::Arguments;
use super::{castell_comm, castell_op, castell_request, castell_type, communicator, request};
use crate::error::{Error, Result, status};
use crate::types::Code;
use ::castell_comm::collective::{Call, CallError, Operation, Reason};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};

thread_local! {
    /// What `castell_use_algorithm` was told.
    static ALGORITHM: RefCell<Option<String>> = const { RefCell::new(None) };
}

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
        ALGORITHM.set(name);
        Ok(())
    })
}

/// How a call's failure is told to C.
pub(super) fn failed(error: CallError) -> Error {
    let code = match &error.reason {
        Reason::Argument(_) | Reason::Algorithm(_) => Code::Operation,
        Reason::Graph(_) | Reason::Compile(_) => Code::Limit,
        Reason::Run(_) => Code::Run,
        Reason::Failed(failure) => crate::run::code_of(&failure.cause),
    };
    Error::new(code, error.to_string())
}

/// What is done with a call.
#[derive(Clone, Copy)]
enum Verb {
    Make,
    Start(*mut castell_request),
    Prepare(*mut castell_request),
}

unsafe fn perform(comm: castell_comm, arguments: Arguments, verb: Verb) -> Result<()> {
    crate::run::refuse_inside_call()?;
    let algorithm = ALGORITHM.take();
    communicator::with(comm, |comm| {
        let work = |call: &Call<'_>| {
            let (place, is_persistent) = match verb {
                Verb::Make => return comm.call(call.clone()).map_err(failed),
                Verb::Start(place) => (place, false),
                Verb::Prepare(place) => (place, true),
            };
            if place.is_null() {
                return Err(Error::new(Code::Buffer, "the place for the request is NULL"));
            }
            // SAFETY: the program answers for its buffers until it has waited, and for the place.
            unsafe {
                let mut prepared = comm.prepare_raw(call).map_err(failed)?;
                if !is_persistent {
                    prepared.start().map_err(failed)?;
                }
                request::keep(prepared, is_persistent, place)
            }
        };
        // SAFETY: the caller's promise.
        unsafe { arguments.call(comm.rank(), comm.size(), algorithm.as_deref(), work) }
    })
}

/// The three functions of each operation.
macro_rules! collectives {
    ($($name:ident $start:ident $init:ident ($($argument:ident: $type:ty),*) $make:expr;)*) => {$(
        /// See the header.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type,)* comm: castell_comm) -> c_int {
            // SAFETY: the caller's promise.
            status(stringify!($name), || unsafe { perform(comm, $make, Verb::Make) })
        }

        /// See the header.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(
            $($argument: $type,)* comm: castell_comm, request: *mut castell_request,
        ) -> c_int {
            // SAFETY: the caller's promise.
            status(stringify!($start), || unsafe { perform(comm, $make, Verb::Start(request)) })
        }

        /// See the header.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init(
            $($argument: $type,)* comm: castell_comm, request: *mut castell_request,
        ) -> c_int {
            // SAFETY: the caller's promise.
            status(stringify!($init), || unsafe { perform(comm, $make, Verb::Prepare(request)) })
        }
    )*};
}

collectives! {
    castell_barrier castell_ibarrier castell_barrier_init
        ()
        Arguments::of_bytes(Operation::Barrier).count(0);
    castell_bcast castell_ibcast castell_bcast_init
        (data: *mut c_void, count: usize, r#type: castell_type, root: c_int)
        Arguments::new(Operation::Broadcast, r#type).buffers(std::ptr::null(), data).count(count)
            .root(root);
    castell_gather castell_igather castell_gather_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void, root: c_int)
        Arguments::new(Operation::Gather, r#type).buffers(send, recv).count(count).root(root);
    castell_gatherv castell_igatherv castell_gatherv_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void, counts: *const usize,
        displacements: *const usize, root: c_int)
        Arguments::new(Operation::Gather, r#type).buffers(send, recv).own(count)
            .arriving(counts, displacements).root(root);
    castell_scatter castell_iscatter castell_scatter_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void, root: c_int)
        Arguments::new(Operation::Scatter, r#type).buffers(send, recv).count(count).root(root);
    castell_scatterv castell_iscatterv castell_scatterv_init
        (send: *const c_void, counts: *const usize, displacements: *const usize, r#type: castell_type, recv:
        *mut c_void, count: usize, root: c_int)
        Arguments::new(Operation::Scatter, r#type).buffers(send, recv).own(count)
            .leaving(counts, displacements).root(root);
    castell_allgather castell_iallgather castell_allgather_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void)
        Arguments::new(Operation::Allgather, r#type).buffers(send, recv).count(count);
    castell_allgatherv castell_iallgatherv castell_allgatherv_init
        (send: *const c_void, r#type: castell_type, recv: *mut c_void, counts: *const usize, displacements:
        *const usize)
        Arguments::new(Operation::Allgather, r#type).buffers(send, recv).arriving(counts, displacements);
    castell_reduce castell_ireduce castell_reduce_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op, root:
        c_int)
        Arguments::new(Operation::Reduce, r#type).buffers(send, recv).count(count).root(root).op(op);
    castell_allreduce castell_iallreduce castell_allreduce_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op)
        Arguments::new(Operation::Allreduce, r#type).buffers(send, recv).count(count).op(op);
    castell_reduce_scatter castell_ireduce_scatter castell_reduce_scatter_init
        (send: *const c_void, recv: *mut c_void, counts: *const usize, r#type: castell_type, op: castell_op)
        Arguments::new(Operation::ReduceScatter, r#type).buffers(send, recv)
            .leaving(counts, std::ptr::null()).op(op);
    castell_reduce_scatter_block castell_ireduce_scatter_block castell_reduce_scatter_block_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op)
        Arguments::new(Operation::ReduceScatter, r#type).buffers(send, recv).count(count).op(op);
    castell_alltoall castell_ialltoall castell_alltoall_init
        (send: *const c_void, count: usize, r#type: castell_type, recv: *mut c_void)
        Arguments::new(Operation::Alltoall, r#type).buffers(send, recv).count(count);
    castell_alltoallv castell_ialltoallv castell_alltoallv_init
        (send: *const c_void, counts: *const usize, displacements: *const usize, r#type: castell_type, recv:
        *mut c_void, recv_counts: *const usize, recv_displacements: *const usize)
        Arguments::new(Operation::Alltoall, r#type).buffers(send, recv).leaving(counts, displacements)
            .arriving(recv_counts, recv_displacements);
    castell_alltoallw castell_ialltoallw castell_alltoallw_init
        (send: *const c_void, bytes: *const usize, byte_displacements: *const usize, recv: *mut c_void,
        recv_bytes: *const usize, recv_byte_displacements: *const usize)
        Arguments::of_bytes(Operation::Alltoall).buffers(send, recv).leaving(bytes, byte_displacements)
            .arriving(recv_bytes, recv_byte_displacements);
    castell_scan castell_iscan castell_scan_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op)
        Arguments::new(Operation::Scan, r#type).buffers(send, recv).count(count).op(op);
    castell_exscan castell_iexscan castell_exscan_init
        (send: *const c_void, recv: *mut c_void, count: usize, r#type: castell_type, op: castell_op)
        Arguments::new(Operation::Exscan, r#type).buffers(send, recv).count(count).op(op);
    castell_neighbour_allgather castell_ineighbour_allgather castell_neighbour_allgather_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
        c_void, count: usize, r#type: castell_type, recv: *mut c_void)
        Arguments::new(Operation::NeighbourAllgather, r#type).buffers(send, recv).count(count)
            .neighbours((indegree, sources), (outdegree, destinations));
    castell_neighbour_allgatherv castell_ineighbour_allgatherv castell_neighbour_allgatherv_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
        c_void, count: usize, r#type: castell_type, recv: *mut c_void, recv_counts: *const usize,
        recv_displacements: *const usize)
        Arguments::new(Operation::NeighbourAllgather, r#type).buffers(send, recv).own(count)
            .arriving(recv_counts, recv_displacements)
            .neighbours((indegree, sources), (outdegree, destinations));
    castell_neighbour_alltoall castell_ineighbour_alltoall castell_neighbour_alltoall_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
        c_void, count: usize, r#type: castell_type, recv: *mut c_void)
        Arguments::new(Operation::NeighbourAlltoall, r#type).buffers(send, recv).count(count)
            .neighbours((indegree, sources), (outdegree, destinations));
    castell_neighbour_alltoallv castell_ineighbour_alltoallv castell_neighbour_alltoallv_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
        c_void, counts: *const usize, displacements: *const usize, r#type: castell_type, recv: *mut c_void,
        recv_counts: *const usize, recv_displacements: *const usize)
        Arguments::new(Operation::NeighbourAlltoall, r#type).buffers(send, recv)
            .leaving(counts, displacements).arriving(recv_counts, recv_displacements)
            .neighbours((indegree, sources), (outdegree, destinations));
    castell_neighbour_alltoallw castell_ineighbour_alltoallw castell_neighbour_alltoallw_init
        (indegree: c_int, sources: *const c_int, outdegree: c_int, destinations: *const c_int, send: *const
        c_void, bytes: *const usize, byte_displacements: *const usize, recv: *mut c_void, recv_bytes: *const
        usize, recv_byte_displacements: *const usize)
        Arguments::of_bytes(Operation::NeighbourAlltoall).buffers(send, recv)
            .leaving(bytes, byte_displacements).arriving(recv_bytes, recv_byte_displacements)
            .neighbours((indegree, sources), (outdegree, destinations));
}
