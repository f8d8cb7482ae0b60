//! ALPI 1.2, the low-level tasking interface of the BSC: what libraries such as TAMPI want of a task runtime. Names, numbers and
//! meanings are the interface's; `include/alpi.h` describes them.
//!
//! In a task it is about that task's runtime, elsewhere about the first that the process has started.

use super::runtime::with_first;
use castell_tasks::foreign::{Callback, Function, fulfil_events, wake, with_context};
use castell_tasks::task::Attributes;
use castell_tasks::{Context, Suspension};
use std::collections::{BTreeSet, HashSet};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SUCCESS: c_int = 0;
const VERSION: c_int = 1;
const NOT_INITIALIZED: c_int = 2;
const PARAMETER: c_int = 3;
const OUTSIDE_TASK: c_int = 5;
const UNKNOWN: c_int = 6;
const FEATURE_UNKNOWN: c_int = 7;

/// What is implemented.
const MAJOR: c_int = 1;
const MINOR: c_int = 2;
/// Blocking, events, resources, suspending.
const FEATURES: c_int = 0b1111;
/// Of one event count.
const EVENTS_MAX: u64 = 1 << 30;
/// Labels are kept for ever, so that they are kept once; with more different ones than this, further ones are not kept.
const LABELS_MAX: usize = 4096;

/// Runs the body of an exported function; an error is its code, a panic a bug.
fn code(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}

/// As [`code`], for what the calling task does to itself: `task` has to be that one.
fn by_itself(task: *mut c_void, body: impl FnOnce(&Context<'_>) -> Result<(), c_int>) -> c_int {
    let checked = |context: &Context<'_>| {
        let is_own = std::ptr::eq(context.address().as_ptr(), task);
        if is_own { body(context) } else { Err(PARAMETER) }
    };
    code(|| with_context(checked).unwrap_or(Err(OUTSIDE_TASK)))
}

/// Writes a result.
///
/// # Safety
/// NULL or writable.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), c_int> {
    if place.is_null() {
        return Err(PARAMETER);
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// What an error code means.
#[unsafe(no_mangle)]
pub extern "C" fn alpi_error_string(error: c_int) -> *const c_char {
    let text = match error {
        SUCCESS => c"no error",
        VERSION => c"this version of ALPI is not provided",
        NOT_INITIALIZED => c"no task runtime runs: castell_start comes first",
        PARAMETER => c"an argument that cannot be",
        4 => c"there is no memory left",
        OUTSIDE_TASK => c"called outside of tasks",
        UNKNOWN => c"an internal error",
        FEATURE_UNKNOWN => c"this feature is not provided",
        _ => c"no such error code",
    };
    text.as_ptr()
}

/// Texts about the runtime.
///
/// # Safety
/// `buffer` has room for so many bytes; `length` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_info_get(
    query: c_int,
    buffer: *mut c_char,
    max_length: usize,
    length: *mut c_int,
) -> c_int {
    code(|| {
        let text = match query {
            0 => "castell",
            1 => "the castell authors",
            2 => concat!("castell ", env!("CARGO_PKG_VERSION"), ", ALPI 1.2"),
            _ => return Err(PARAMETER),
        };
        if buffer.is_null() || max_length == 0 {
            return Err(PARAMETER);
        }
        let kept = text.len().min(max_length - 1);
        // SAFETY: the caller's promise.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), kept);
            buffer.add(kept).write(0);
            if let Some(length) = length.as_mut() {
                *length = kept as c_int;
            }
        }
        Ok(())
    })
}

/// Whether all features of a mask are there.
#[unsafe(no_mangle)]
pub extern "C" fn alpi_feature_check(mask: c_int) -> c_int {
    if mask & !FEATURES == 0 { SUCCESS } else { FEATURE_UNKNOWN }
}

/// Whether a program that was made for this version can run.
#[unsafe(no_mangle)]
pub extern "C" fn alpi_version_check(major: c_int, minor: c_int) -> c_int {
    if major == MAJOR && minor <= MINOR { SUCCESS } else { VERSION }
}

/// The version.
///
/// # Safety
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_version_get(major: *mut c_int, minor: *mut c_int) -> c_int {
    if major.is_null() || minor.is_null() {
        return PARAMETER;
    }
    // SAFETY: the caller's promise.
    code(|| unsafe { put(major, MAJOR).and_then(|()| put(minor, MINOR)) })
}

/// The current task; NULL outside.
///
/// # Safety
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_task_self(task: *mut *mut c_void) -> c_int {
    let current = with_context(|context| context.address().as_ptr()).unwrap_or(std::ptr::null_mut());
    // SAFETY: the caller's promise.
    code(|| unsafe { put(task, current) })
}

/// Pauses the current task until it is unblocked.
#[unsafe(no_mangle)]
pub extern "C" fn alpi_task_block(task: *mut c_void) -> c_int {
    by_itself(task, |context| {
        context.block();
        Ok(())
    })
}

/// Lets a task go on.
///
/// # Safety
/// The task has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_task_unblock(task: *mut c_void) -> c_int {
    code(|| {
        let task = NonNull::new(task).ok_or(PARAMETER)?;
        // SAFETY: the caller's promise.
        unsafe { wake(task) };
        Ok(())
    })
}

/// Lets the current task rest for a while.
///
/// # Safety
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_task_waitfor_ns(target_ns: u64, actual_ns: *mut u64) -> c_int {
    let rest = |context: &Context<'_>| {
        let begun = Instant::now();
        context.rest(Duration::from_nanos(target_ns));
        begun.elapsed().as_nanos() as u64
    };
    code(|| {
        let rested = with_context(rest).ok_or(OUTSIDE_TASK)?;
        // SAFETY: the caller's promise.
        if let Some(actual_ns) = unsafe { actual_ns.as_mut() } {
            *actual_ns = rested;
        }
        Ok(())
    })
}

/// More events before the current task completes.
#[unsafe(no_mangle)]
pub extern "C" fn alpi_task_events_increase(task: *mut c_void, increment: u64) -> c_int {
    by_itself(task, |context| {
        if increment > EVENTS_MAX.saturating_sub(context.pending_events().into()) {
            return Err(PARAMETER);
        }
        context.add_events(increment as u32);
        Ok(())
    })
}

/// Whether the current task waits for events.
///
/// # Safety
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_task_events_test(task: *mut c_void, has_events: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    by_itself(task, |context| unsafe { put(has_events, u64::from(context.pending_events() > 0)) })
}

/// Events of a task have happened.
///
/// # Safety
/// They were added and have not happened before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_task_events_decrease(task: *mut c_void, decrement: u64) -> c_int {
    code(|| {
        let task = NonNull::new(task).filter(|_| decrement <= EVENTS_MAX).ok_or(PARAMETER)?;
        if decrement > 0 {
            // SAFETY: the caller's promise.
            unsafe { fulfil_events(task, decrement as u32) };
        }
        Ok(())
    })
}

/// What a task can be told when it is created: nothing yet, but for the mark of one that was initialized.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct alpi_attr {
    mark: u64,
    reserved: [u64; 7],
}

const INITIALIZED: alpi_attr = alpi_attr { mark: 0x6361_7374_656c_6c31, reserved: [0; 7] };

/// Makes attributes.
///
/// # Safety
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_attr_create(attr: *mut *mut alpi_attr) -> c_int {
    if attr.is_null() {
        return PARAMETER;
    }
    code(|| {
        let made = Box::into_raw(Box::new(INITIALIZED));
        created().insert(made as usize);
        // SAFETY: the caller's promise.
        unsafe { put(attr, made) }
    })
}

/// Addresses of what [`alpi_attr_create`] made: programs may also have attributes in memory of their own.
fn created() -> MutexGuard<'static, BTreeSet<usize>> {
    static CREATED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    CREATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives them back.
///
/// # Safety
/// They come from [`alpi_attr_create`] and are not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_attr_destroy(attr: *mut alpi_attr) -> c_int {
    code(|| {
        if !created().remove(&(attr as usize)) {
            return Err(PARAMETER);
        }
        // SAFETY: it came from `Box::into_raw`, and nobody else finds it any more.
        drop(unsafe { Box::from_raw(attr) });
        Ok(())
    })
}

/// Makes attributes of memory.
///
/// # Safety
/// NULL or as many writable bytes as [`alpi_attr_size`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_attr_init(attr: *mut alpi_attr) -> c_int {
    if attr.is_null() {
        return PARAMETER;
    }
    // SAFETY: the caller's promise; the memory may be a program's array of bytes.
    unsafe { attr.write_unaligned(INITIALIZED) };
    SUCCESS
}

/// How much memory attributes take.
///
/// # Safety
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_attr_size(size: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    code(|| unsafe { put(size, size_of::<alpi_attr>() as u64) })
}

/// # Safety
/// NULL or readable.
unsafe fn check(attr: *const alpi_attr) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let is_one = !attr.is_null() && unsafe { attr.read_unaligned() }.mark == INITIALIZED.mark;
    if is_one { Ok(()) } else { Err(PARAMETER) }
}

/// Creates a task that has nothing to do with the current one.
///
/// # Safety
/// The functions may be called on other threads with their arguments, and do not throw; the label is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_task_spawn(
    body: Option<Function>,
    body_args: *mut c_void,
    completion_callback: Option<Function>,
    completion_args: *mut c_void,
    label: *const c_char,
    attr: *const alpi_attr,
) -> c_int {
    code(|| {
        let body = Callback { function: body.ok_or(PARAMETER)?, argument: body_args };
        let completion =
            Callback { function: completion_callback.ok_or(PARAMETER)?, argument: completion_args };
        // SAFETY: the caller's promise.
        let label = unsafe {
            if !attr.is_null() {
                check(attr)?;
            }
            kept_label(label)
        };
        let attributes = Attributes { label, ..Attributes::NONE };
        // SAFETY: the caller's promise.
        let inside = with_context(|context| unsafe { context.spawn_function(attributes, body, completion) });
        if inside.is_some() {
            return Ok(());
        }
        // SAFETY: as above.
        let outside = with_first(|runtime| unsafe { runtime.spawn_function(attributes, body, completion) });
        // That the process was forked is the only way to fail.
        outside.and_then(Result::ok).ok_or(NOT_INITIALIZED)
    })
}

/// A label that may go when the call returns, as one that stays.
///
/// # Safety
/// NULL or a string.
pub(super) unsafe fn kept_label(label: *const c_char) -> &'static str {
    static KEPT: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    if label.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(label) }.to_string_lossy();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    if let Some(known) = kept.get(&*text) {
        return known;
    }
    if kept.len() >= LABELS_MAX {
        return "(one of many labels)";
    }
    let fresh: &'static str = Box::leak(text.into_owned().into_boxed_str());
    kept.insert(fresh);
    fresh
}

/// How many workers there are.
///
/// # Safety
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_cpu_count(count: *mut u64) -> c_int {
    if count.is_null() {
        return PARAMETER;
    }
    code(|| {
        let inside = with_context(|context| context.worker_count());
        let workers = inside.or_else(|| with_first(|runtime| runtime.worker_count()));
        // SAFETY: the caller's promise.
        unsafe { put(count, workers.ok_or(NOT_INITIALIZED)? as u64) }
    })
}

/// Which worker runs the current task.
///
/// # Safety
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_cpu_logical_id(id: *mut u64) -> c_int {
    if id.is_null() {
        return PARAMETER;
    }
    code(|| {
        let worker = with_context(|context| context.worker()).flatten().ok_or(OUTSIDE_TASK)?;
        // SAFETY: the caller's promise.
        unsafe { put(id, worker as u64) }
    })
}

/// The processor on which the current task runs, as the system counts them.
///
/// # Safety
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alpi_cpu_system_id(id: *mut u64) -> c_int {
    if id.is_null() {
        return PARAMETER;
    }
    code(|| {
        with_context(|_| ()).ok_or(OUTSIDE_TASK)?;
        let cpu = castell_host::topology::current_cpu().ok_or(UNKNOWN)?;
        // SAFETY: the caller's promise.
        unsafe { put(id, cpu.into()) }
    })
}

/// When the current task's body is called again if the task suspends itself.
#[unsafe(no_mangle)]
pub extern "C" fn alpi_task_suspend_mode_set(task: *mut c_void, mode: c_int, args: u64) -> c_int {
    by_itself(task, |context| {
        let when = match (mode, args) {
            (0, _) => Suspension::Unblocked,
            (1, 0) => Suspension::Again,
            (1, 1) => Suspension::Yield,
            (2, nanoseconds) => Suspension::After(Duration::from_nanos(nanoseconds)),
            (3, _) => Suspension::Events,
            _ => return Err(PARAMETER),
        };
        context.set_suspension(when);
        Ok(())
    })
}

/// When the body of the current task returns, the task is suspended and not over.
#[unsafe(no_mangle)]
pub extern "C" fn alpi_task_suspend(task: *mut c_void) -> c_int {
    by_itself(task, |context| if context.suspend() { Ok(()) } else { Err(FEATURE_UNKNOWN) })
}
