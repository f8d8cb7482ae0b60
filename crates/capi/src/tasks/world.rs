//! Events, pauses and polling services.

use super::failure::{ARGUMENT, Failure, in_task, status};
use super::runtime::Passed;
use castell_tasks::{Next, Registration, Runtime, Wake, foreign};
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::time::Duration;

/// The current task, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn castell_self() -> *mut c_void {
    foreign::with_context(|context| context.address()).map_or(std::ptr::null_mut(), NonNull::as_ptr)
}

/// More events before the current task completes.
#[unsafe(no_mangle)]
pub extern "C" fn castell_add_events(count: c_uint) -> c_int {
    in_task(|context| {
        context.add_events(count);
        Ok(0)
    })
}

/// Events have happened.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_fulfil_events(task: *mut c_void, count: c_uint) {
    if let Some(task) = NonNull::new(task).filter(|_| count > 0) {
        // SAFETY: the caller's promise.
        unsafe { foreign::fulfil_events(task, count) };
    }
}

/// Pauses the current task.
#[unsafe(no_mangle)]
pub extern "C" fn castell_block() -> c_int {
    in_task(|context| {
        context.block();
        Ok(0)
    })
}

/// Pauses the current task for a while.
#[unsafe(no_mangle)]
pub extern "C" fn castell_block_for(timeout_ns: u64) -> c_int {
    in_task(|context| Ok(context.block_for(Duration::from_nanos(timeout_ns)).into()))
}

/// Lets a task go on.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_unblock(task: *mut c_void) {
    if let Some(task) = NonNull::new(task) {
        // SAFETY: the caller's promise.
        unsafe { foreign::wake(task) };
    }
}

/// Registers a polling service.
///
/// # Safety
/// As the header says; the runtime runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_register_service(
    runtime: *mut Runtime,
    poll: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    argument: *mut c_void,
    descriptor: c_int,
    interval_ns: u64,
) -> *mut Registration {
    let mut made = std::ptr::null_mut();
    status(|| {
        // SAFETY: the caller's promise.
        let runtime =
            unsafe { runtime.as_ref() }.ok_or_else(|| Failure::new(ARGUMENT, "the runtime is NULL"))?;
        let poll = poll.ok_or_else(|| Failure::new(ARGUMENT, "the function is NULL"))?;
        let wake = if descriptor < 0 {
            Wake::Every(Duration::from_nanos(interval_ns.max(1)))
        } else {
            // SAFETY: the caller says that it is open.
            let copy = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned();
            Wake::Readable(copy.map_err(|error| {
                Failure::new(ARGUMENT, format!("the descriptor {descriptor} cannot be copied: {error}"))
            })?)
        };
        let argument = Passed(argument);
        // SAFETY: the caller's promise.
        let call = move || if unsafe { poll(argument.get()) } == 0 { Next::Again } else { Next::End };
        made = Box::into_raw(Box::new(runtime.register_service(wake, call)?));
        Ok(0)
    });
    made
}

/// Ends a polling service.
///
/// # Safety
/// It came from [`castell_register_service`], or is NULL, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_unregister_service(service: *mut Registration) {
    if !service.is_null() {
        status(|| {
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(service) });
            Ok(0)
        });
    }
}
