//! Starting, running in and ending runtimes.

use super::failure::{ARGUMENT, Failure, START, status};
use super::submit::kind;
use castell_tasks::{Context, LeafKind, Limits, Runtime, WatchedMemory, foreign};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The header's `castell_options`.
#[repr(C)]
pub struct castell_options {
    workers: c_uint,
    stack_bytes: usize,
    scheduler: *const c_char,
    topology: *const c_char,
    seed: u64,
    tasks_high: u64,
    tasks_low: u64,
    tasks_hard: u64,
    watchdog_ns: u64,
    debug: c_uint,
    devices: *const castell_device,
    device_count: usize,
    resource: *const c_char,
    daemon: *const c_char,
}

/// The header's `castell_device`.
#[repr(C)]
pub struct castell_device {
    kind: c_uint,
    handle: *mut c_void,
    resource: *const c_char,
}

/// What a task for a device finds: the program's own pointer.
struct DeviceHandle(Passed<*mut c_void>);

/// A C pointer that goes to a task, as C said it may.
pub(super) struct Passed<T>(pub(super) T);
// SAFETY: the header says that bodies run on other threads.
unsafe impl<T> Send for Passed<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Passed<T> {}

impl<T: Copy> Passed<T> {
    /// The pointer; a method, so that closures capture the whole.
    pub(super) fn get(&self) -> T {
        self.0
    }
}

/// Starts a runtime.
///
/// # Safety
/// `place` is writable; `options` is NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_start(place: *mut *mut Runtime, options: *const castell_options) -> c_int {
    status(|| {
        if place.is_null() {
            return Err(Failure::new(ARGUMENT, "the place for the runtime is NULL"));
        }
        // SAFETY: the caller's promise.
        let runtime = unsafe { build(options.as_ref()) }?;
        let runtime = Box::into_raw(Box::new(runtime));
        running().push(Running(runtime));
        // SAFETY: the caller's promise.
        unsafe { place.write(runtime) };
        Ok(0)
    })
}

/// A runtime that C has started and not stopped.
struct Running(*const Runtime);
// SAFETY: runtimes may be used and dropped on any thread; the pointer is taken out before that happens.
unsafe impl Send for Running {}

/// In the order in which they were started.
static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `action` with the runtime that was started first of those that run; `None` if there is none.
pub(super) fn with_first<R>(action: impl FnOnce(&Runtime) -> R) -> Option<R> {
    let running = running();
    // SAFETY: who stops it takes it out of the list first, for which it waits.
    running.first().map(|Running(runtime)| action(unsafe { &**runtime }))
}

/// The device whose worker runs the current task, as the runtime was told; NULL elsewhere.
#[unsafe(no_mangle)]
pub extern "C" fn castell_device_handle() -> *mut c_void {
    let handle = |context: &Context<'_>| context.device::<DeviceHandle>().map(|device| device.0.get());
    foreign::with_context(handle).flatten().unwrap_or(std::ptr::null_mut())
}

/// # Safety
/// The strings are NULL or strings, and there are as many devices as said.
unsafe fn build(options: Option<&castell_options>) -> Result<Runtime, Failure> {
    let mut builder = Runtime::builder();
    if let Some(options) = options {
        if options.workers > 0 {
            builder = builder.workers(options.workers as usize);
        }
        if options.stack_bytes > 0 {
            builder = builder.stack_bytes(options.stack_bytes);
        }
        if options.tasks_high | options.tasks_low | options.tasks_hard != 0 {
            let Limits { high, low, hard } = Limits::for_workers(options.workers as usize);
            let or = |value: u64, default: u64| if value == 0 { default } else { value };
            builder = builder.limits(Limits {
                high: or(options.tasks_high, high),
                low: or(options.tasks_low, low),
                hard: or(options.tasks_hard, hard),
            });
        }
        if options.debug > 0 {
            builder = builder.debug(true);
        }
        if options.watchdog_ns > 0 {
            let patience = Duration::from_nanos(options.watchdog_ns);
            builder = builder.watchdog(patience, |stall| castell_host::say::raw(&format!("{stall}\n")));
        }
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(scheduler) = text(options.scheduler, "scheduler")? {
                builder = builder.scheduler(scheduler);
            }
            if let Some(topology) = text(options.topology, "topology")? {
                builder = builder.topology(topology);
            }
            if let Some(resource) = text(options.resource, "resource of the processors")? {
                builder = builder.resource(LeafKind::CPU, resource);
            }
            if let Some(daemon) = text(options.daemon, "daemon")? {
                builder = builder.daemon((daemon != "none").then(|| PathBuf::from(daemon)));
            }
        }
        builder = builder.seed(options.seed);
        if options.devices.is_null() && options.device_count > 0 {
            return Err(Failure::new(ARGUMENT, format!("{} devices at NULL", options.device_count)));
        }
        for number in 0..options.device_count {
            // SAFETY: the caller's promise.
            let device = unsafe { &*options.devices.add(number) };
            let kind = kind(device.kind)?;
            // SAFETY: the caller's promise.
            if let Some(resource) = unsafe { text(device.resource, "resource of a device") }? {
                builder = builder.resource(kind, resource);
            }
            builder = builder.device(kind, DeviceHandle(Passed(device.handle)));
        }
    }
    builder.build().map_err(|error| Failure::new(START, error.to_string()))
}

/// # Safety
/// NULL or a string.
unsafe fn text<'a>(start: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(start) }.to_str();
    text.map(Some).map_err(|_| Failure::new(ARGUMENT, format!("the description of the {what} is no UTF-8")))
}

/// Ends a runtime.
///
/// # Safety
/// It came from [`castell_start`], or is NULL, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_stop(runtime: *mut Runtime) -> c_int {
    status(|| {
        if !runtime.is_null() {
            running().retain(|Running(other)| !std::ptr::eq(*other, runtime));
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(runtime) });
        }
        Ok(0)
    })
}

/// Runs a function as a task and waits for it.
///
/// # Safety
/// The runtime runs; `body` may be called with `argument` on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_run(
    runtime: *mut Runtime,
    body: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let runtime =
            unsafe { runtime.as_ref() }.ok_or_else(|| Failure::new(ARGUMENT, "the runtime is NULL"))?;
        let body = body.ok_or_else(|| Failure::new(ARGUMENT, "the body is NULL"))?;
        let argument = Passed(argument);
        // SAFETY: the caller's promise.
        runtime.run(|_| unsafe { body(argument.get()) })?;
        Ok(0)
    })
}

/// Writes who waited for whom to stderr.
///
/// # Safety
/// The runtime runs, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_print_waits(runtime: *mut Runtime) {
    // SAFETY: the caller's promise.
    unsafe { runtime.as_ref() }
        .map_or(Vec::new(), Runtime::waits)
        .iter()
        .for_each(|wait| castell_host::say::raw(&format!("{wait}\n")));
}

/// The watched memory that C has, by address.
static WATCHED: Mutex<BTreeMap<usize, WatchedMemory>> = Mutex::new(BTreeMap::new());

/// Memory whose users are compared with what they declared; NULL if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn castell_debug_alloc(bytes: usize) -> *mut c_void {
    let mut start = std::ptr::null_mut();
    status(|| {
        let memory = WatchedMemory::new(bytes)?;
        start = memory.start().as_ptr().cast();
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).insert(start as usize, memory);
        Ok(0)
    });
    start
}

/// Gives it back.
///
/// # Safety
/// It came from [`castell_debug_alloc`], or is NULL, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_debug_free(start: *mut c_void) {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner).remove(&(start as usize));
}

/// How many tasks were created so far.
///
/// # Safety
/// The runtime runs, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_tasks_created(runtime: *mut Runtime) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { runtime.as_ref() }.map_or(0, Runtime::tasks_created)
}
