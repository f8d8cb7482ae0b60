//! What `include/castell_kernels.h` declares.

mod own;

use crate::tasks::failure::{ARGUMENT, Failure, START, TASK, castell_tasks_error, status};
use castell_kernels::{Application, Collection, Kernel, KernelsError, Ranking};
use std::ffi::{CStr, c_char, c_int, c_void};

/// The header's `castell_kernel`.
#[repr(C)]
pub struct castell_kernel {
    resource: *const c_char,
    run: Option<Run>,
    step_s: f64,
}

type Run = unsafe extern "C" fn(*mut c_void, u32);

/// The header's `castell_ranking`.
#[repr(C)]
pub struct castell_ranking {
    name: *const c_char,
    order: *const *const c_char,
    count: usize,
}

/// The header's `castell_collection`.
pub struct castell_collection {
    collection: Collection,
    kernels: Vec<Run>,
}

impl From<KernelsError> for Failure {
    fn from(error: KernelsError) -> Failure {
        let code = match &error {
            KernelsError::Registration(_) => ARGUMENT,
            KernelsError::Refused { .. } | KernelsError::Closed(_) => TASK,
            KernelsError::Host(_) | KernelsError::NoMailbox => START,
        };
        Failure::new(code, error.to_string())
    }
}

fn wrong(message: &str) -> Failure {
    Failure::new(ARGUMENT, message)
}

/// Address of the last failure's text; it stays until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn castell_kernels_error() -> *const c_char {
    castell_tasks_error()
}

/// Goes to the daemon.
///
/// # Safety
/// `place` is NULL or writable, `name` NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_application_open(
    place: *mut *mut Application,
    name: *const c_char,
) -> c_int {
    status(|| {
        if place.is_null() {
            return Err(wrong("the place for the application is NULL"));
        }
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) }.ok_or_else(|| wrong("an application needs a name in UTF-8"))?;
        let application = Box::new(Application::open(&name)?);
        // SAFETY: the caller's promise.
        unsafe { place.write(Box::into_raw(application)) };
        Ok(0)
    })
}

/// Leaves it.
///
/// # Safety
/// NULL or an application that is open; nobody uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_application_close(application: *mut Application) -> c_int {
    status(|| {
        if application.is_null() {
            return Err(wrong("the application is NULL"));
        }
        // SAFETY: the caller's promise; it was made by `castell_application_open`.
        drop(unsafe { Box::from_raw(application) });
        Ok(0)
    })
}

/// Whether a daemon decides.
///
/// # Safety
/// NULL or an application that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_application_has_daemon(application: *const Application) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let application = unsafe { application.as_ref() }.ok_or_else(|| wrong("the application is NULL"))?;
        Ok(c_int::from(application.has_daemon()))
    })
}

/// Registers kernels.
///
/// # Safety
/// The places and pointers are NULL or what the header says, and there are as many kernels and rankings as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_collection_register(
    place: *mut *mut castell_collection,
    application: *const Application,
    kernels: *const castell_kernel,
    kernel_count: usize,
    rankings: *const castell_ranking,
    ranking_count: usize,
) -> c_int {
    status(|| {
        if place.is_null() {
            return Err(wrong("the place for the collection is NULL"));
        }
        // SAFETY: the caller's promise.
        let application = unsafe { application.as_ref() }.ok_or_else(|| wrong("the application is NULL"))?;
        // SAFETY: the caller's promise.
        let (kernels, rankings) = unsafe { (list(kernels, kernel_count)?, list(rankings, ranking_count)?) };
        // SAFETY: the caller's promise.
        let read = kernels.iter().map(|kernel| unsafe { read_kernel(kernel) });
        let (kernels, functions): (Vec<_>, Vec<_>) = read.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        // SAFETY: the caller's promise.
        let read = rankings.iter().map(|ranking| unsafe { read_ranking(ranking) });
        let rankings: Vec<Ranking> = read.collect::<Result<_, _>>()?;
        let collection = application.register(&kernels, &rankings)?;
        let collection = Box::new(castell_collection { collection, kernels: functions });
        // SAFETY: the caller's promise.
        unsafe { place.write(Box::into_raw(collection)) };
        Ok(0)
    })
}

/// Runs one.
///
/// # Safety
/// NULL or a collection that was not freed; its kernels may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_collection_run(
    collection: *const castell_collection,
    argument: *mut c_void,
    steps: u32,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let collection = unsafe { collection.as_ref() }.ok_or_else(|| wrong("the collection is NULL"))?;
        collection.collection.run(steps, |step| {
            // SAFETY: the caller's promise.
            unsafe { collection.kernels[step.kernel](argument, step.step) };
        })?;
        Ok(0)
    })
}

/// Frees one.
///
/// # Safety
/// NULL or a collection that was not freed and does not run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_collection_free(collection: *mut castell_collection) -> c_int {
    status(|| {
        if collection.is_null() {
            return Err(wrong("the collection is NULL"));
        }
        // SAFETY: the caller's promise; it was made by `castell_collection_register`.
        drop(unsafe { Box::from_raw(collection) });
        Ok(0)
    })
}

/// # Safety
/// The strings are NULL or strings.
unsafe fn read_kernel(kernel: &castell_kernel) -> Result<(Kernel, Run), Failure> {
    // SAFETY: the caller's promise.
    let resource = unsafe { text(kernel.resource) }
        .ok_or_else(|| wrong("a kernel needs the name of a resource in UTF-8"))?;
    let run = kernel.run.ok_or_else(|| wrong(&format!("the kernel for {resource} is NULL")))?;
    if !kernel.step_s.is_finite() || kernel.step_s < 0.0 {
        return Err(wrong(&format!("a step cannot take {} s on {resource}", kernel.step_s)));
    }
    // More than any step takes, saturating.
    let step_ns = (kernel.step_s > 0.0).then_some((kernel.step_s * 1e9) as u64);
    Ok((Kernel { resource, step_ns }, run))
}

/// # Safety
/// The strings are NULL or strings, and there are as many as said.
unsafe fn read_ranking(ranking: &castell_ranking) -> Result<Ranking, Failure> {
    // SAFETY: the caller's promise.
    let name = unsafe { text(ranking.name) }.ok_or_else(|| wrong("a ranking needs a name in UTF-8"))?;
    // SAFETY: the caller's promise.
    let order = unsafe { list(ranking.order, ranking.count) }?;
    let nameless = || wrong(&format!("the ranking `{name}` has a resource without a name in UTF-8"));
    // SAFETY: the caller's promise.
    let order = order.iter().map(|resource| unsafe { text(*resource) }.ok_or_else(nameless));
    Ok(Ranking { order: order.collect::<Result<_, _>>()?, name })
}

/// # Safety
/// There are as many as said.
unsafe fn list<'a, T>(start: *const T, count: usize) -> Result<&'a [T], Failure> {
    match (start.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(wrong("a list with something in it is NULL")),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(start, count) }),
    }
}

/// # Safety
/// NULL or a string.
unsafe fn text(start: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_str().ok().map(str::to_owned)).flatten()
}
