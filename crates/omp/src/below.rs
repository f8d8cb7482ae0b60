//! The functions of libgomp and libomp, by the names under which this library catches them.

use crate::{Body, Copy, Microtask};
use castell_host::symbols;
use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next definition of a symbol behind this library's. A program that calls the function has libgomp, so it is there.
fn find(name: &'static str, known: &AtomicPtr<c_void>) -> *mut c_void {
    let at = known.load(Ordering::Relaxed);
    if !at.is_null() {
        return at;
    }
    let Some(found) = symbols::next(name) else {
        eprintln!(
            "castell: {name} is called, and no OpenMP library behind libcastell_omp.so has it: load castell's library \
             before libgomp.so.1 or libomp.so.5, with `castell omp PROGRAM` or LD_PRELOAD"
        );
        std::process::abort();
    };
    known.store(found.as_ptr(), Ordering::Relaxed);
    found.as_ptr()
}

macro_rules! below {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        pub(crate) unsafe fn $name($($argument: $type),*) $(-> $result)? {
            static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let at = find(stringify!($name), &KNOWN);
            // SAFETY: GCC's interface fixes the types of what has this name; the caller passes such arguments.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) $(-> $result)? = std::mem::transmute(at);
                function($($argument),*)
            }
        }
    )*};
}

/// `__kmpc_fork_call` with one shared variable.
///
/// # Safety
/// The microtask takes its address.
pub(crate) unsafe fn fork_call(location: *mut c_void, microtask: Microtask, variable: *const c_void) {
    static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let at = find("__kmpc_fork_call", &KNOWN);
    // SAFETY: LLVM's interface fixes the types; the rest is the caller's promise.
    unsafe {
        let function: unsafe extern "C" fn(*mut c_void, c_int, Microtask, ...) = std::mem::transmute(at);
        function(location, 1, microtask, variable);
    }
}

below! {
    fn GOMP_parallel(body: Body, data: *mut c_void, threads: c_uint, flags: c_uint);
    fn GOMP_parallel_reductions(body: Body, data: *mut c_void, threads: c_uint, flags: c_uint) -> c_uint;
    fn GOMP_parallel_sections(body: Body, data: *mut c_void, threads: c_uint, count: c_uint, flags: c_uint);
    fn GOMP_parallel_loop_static(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    fn GOMP_parallel_loop_dynamic(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    fn GOMP_parallel_loop_guided(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    fn GOMP_parallel_loop_nonmonotonic_dynamic(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    fn GOMP_parallel_loop_nonmonotonic_guided(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    fn GOMP_parallel_loop_runtime(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
    fn GOMP_parallel_loop_nonmonotonic_runtime(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
    fn GOMP_parallel_loop_maybe_nonmonotonic_runtime(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
    fn GOMP_parallel_start(body: Body, data: *mut c_void, threads: c_uint);
    fn GOMP_parallel_sections_start(body: Body, data: *mut c_void, threads: c_uint, count: c_uint);
    fn GOMP_parallel_loop_static_start(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long);
    fn GOMP_parallel_loop_dynamic_start(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long);
    fn GOMP_parallel_loop_guided_start(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long);
    fn GOMP_parallel_loop_runtime_start(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long);
    fn GOMP_parallel_end();
    fn GOMP_barrier();
    fn GOMP_barrier_cancel() -> bool;
    fn GOMP_loop_end();
    fn GOMP_loop_end_cancel() -> bool;
    fn GOMP_sections_end();
    fn GOMP_sections_end_cancel() -> bool;
    fn GOMP_workshare_task_reduction_unregister(cancelled: bool);
    fn GOMP_loop_start(start: c_long, end: c_long, step: c_long, schedule: c_long, chunk: c_long, first: *mut c_long, behind: *mut c_long, reductions: *mut usize, memory: *mut *mut c_void) -> bool;
    fn GOMP_loop_ordered_start(start: c_long, end: c_long, step: c_long, schedule: c_long, chunk: c_long, first: *mut c_long, behind: *mut c_long, reductions: *mut usize, memory: *mut *mut c_void) -> bool;
    fn GOMP_loop_doacross_start(loops: c_uint, counts: *mut c_long, schedule: c_long, chunk: c_long, first: *mut c_long, behind: *mut c_long, reductions: *mut usize, memory: *mut *mut c_void) -> bool;
    fn GOMP_loop_ull_start(is_up: bool, start: u64, end: u64, step: u64, schedule: c_long, chunk: u64, first: *mut u64, behind: *mut u64, reductions: *mut usize, memory: *mut *mut c_void) -> bool;
    fn GOMP_loop_ull_ordered_start(is_up: bool, start: u64, end: u64, step: u64, schedule: c_long, chunk: u64, first: *mut u64, behind: *mut u64, reductions: *mut usize, memory: *mut *mut c_void) -> bool;
    fn GOMP_loop_ull_doacross_start(loops: c_uint, counts: *mut u64, schedule: c_long, chunk: u64, first: *mut u64, behind: *mut u64, reductions: *mut usize, memory: *mut *mut c_void) -> bool;
    fn GOMP_sections2_start(count: c_uint, reductions: *mut usize, memory: *mut *mut c_void) -> c_uint;
    fn GOMP_scope_start(reductions: *mut usize);
    fn GOMP_single_copy_start() -> *mut c_void;
    fn GOMP_single_copy_end(data: *mut c_void);
    fn GOMP_ordered_start();
    fn GOMP_target_ext(device: c_int, body: Body, count: usize, addresses: *mut *mut c_void, sizes: *mut usize, kinds: *mut u16, flags: c_uint, depend: *mut *mut c_void, arguments: *mut *mut c_void);
    fn GOMP_target_update_ext(device: c_int, count: usize, addresses: *mut *mut c_void, sizes: *mut usize, kinds: *mut u16, flags: c_uint, depend: *mut *mut c_void);
    fn GOMP_target_enter_exit_data(device: c_int, count: usize, addresses: *mut *mut c_void, sizes: *mut usize, kinds: *mut u16, flags: c_uint, depend: *mut *mut c_void);
    fn GOMP_cancel(which: c_int, do_cancel: bool) -> bool;
    fn GOMP_cancellation_point(which: c_int) -> bool;
    fn GOMP_taskwait();
    fn GOMP_taskgroup_reduction_unregister(data: *mut usize);
    fn GOMP_task_reduction_remap(count: c_ulong, with_original: c_ulong, addresses: *mut *mut c_void);
    fn __kmpc_global_thread_num(location: *mut c_void) -> c_int;
    fn __kmpc_bound_num_threads(location: *mut c_void) -> c_int;
    fn __kmpc_fork_call_if(location: *mut c_void, count: c_int, microtask: Microtask, condition: c_int, argument: *mut c_void);
    fn __kmpc_serialized_parallel(location: *mut c_void, thread: c_int);
    fn __kmpc_end_serialized_parallel(location: *mut c_void, thread: c_int);
    fn __kmpc_barrier(location: *mut c_void, thread: c_int);
    fn __kmpc_cancel_barrier(location: *mut c_void, thread: c_int) -> c_int;
    fn __kmpc_barrier_master(location: *mut c_void, thread: c_int) -> c_int;
    fn __kmpc_barrier_master_nowait(location: *mut c_void, thread: c_int) -> c_int;
    fn __kmpc_reduce(location: *mut c_void, thread: c_int, count: c_int, bytes: usize, data: *mut c_void, combine: *mut c_void, lock: *mut c_void) -> c_int;
    fn __kmpc_copyprivate(location: *mut c_void, thread: c_int, bytes: usize, data: *mut c_void, copy: *mut c_void, has: c_int);
    fn __kmpc_ordered(location: *mut c_void, thread: c_int);
    fn __kmpc_omp_taskwait(location: *mut c_void, thread: c_int) -> c_int;
    fn __kmpc_cancel(location: *mut c_void, thread: c_int, which: c_int) -> c_int;
    fn __kmpc_cancellationpoint(location: *mut c_void, thread: c_int, which: c_int) -> c_int;
    fn GOMP_task(body: Body, data: *mut c_void, copy: Option<Copy>, bytes: c_long, align: c_long, is_deferred: bool, flags: c_uint, depend: *mut *mut c_void, priority: c_int, detach: *mut *mut c_void);
    fn omp_get_max_threads() -> c_int;
    fn omp_get_dynamic() -> c_int;
    fn omp_get_max_active_levels() -> c_int;
    fn omp_get_schedule(kind: *mut c_int, chunk: *mut c_int);
    fn omp_get_default_device() -> c_int;
    fn omp_set_num_threads(threads: c_int);
    fn omp_set_num_threads_(threads: *const c_void);
    fn omp_set_num_threads_8_(threads: *const c_void);
    fn omp_set_dynamic(is_dynamic: c_int);
    fn omp_set_dynamic_(is_dynamic: *const c_void);
    fn omp_set_dynamic_8_(is_dynamic: *const c_void);
    fn omp_set_nested(is_nested: c_int);
    fn omp_set_nested_(is_nested: *const c_void);
    fn omp_set_nested_8_(is_nested: *const c_void);
    fn omp_set_max_active_levels(levels: c_int);
    fn omp_set_max_active_levels_(levels: *const c_void);
    fn omp_set_max_active_levels_8_(levels: *const c_void);
    fn omp_set_schedule(kind: c_int, chunk: c_int);
    fn omp_set_schedule_(kind: *const c_void, chunk: *const c_void);
    fn omp_set_schedule_8_(kind: *const c_void, chunk: *const c_void);
    fn omp_set_default_device(device: c_int);
    fn omp_set_default_device_(device: *const c_void);
    fn omp_set_default_device_8_(device: *const c_void);
    fn omp_init_nest_lock(lock: *mut c_void);
    fn omp_init_nest_lock_(lock: *mut c_void);
    fn omp_get_num_threads() -> c_int;
    fn omp_get_thread_num() -> c_int;
    fn omp_get_cancellation() -> c_int;
    fn omp_get_proc_bind() -> c_int;
    fn omp_get_max_task_priority() -> c_int;
}
