//! Creating tasks and waiting for them.

use super::failure::{ARGUMENT, Failure, in_task};
use super::iterate;
use super::reduction::{Reductions, castell_reduction};
use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::foreign::{Function, check_declarations, submit_bytes};
use castell_tasks::task::{Attributes, flag};
use castell_tasks::versions::Versions;
use castell_tasks::{Context, LeafKind, TaskError};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The header's `castell_access`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct castell_access {
    kind: c_int,
    pub(super) start: *mut c_void,
    pub(super) bytes: usize,
    stride: usize,
    rows: usize,
    pub(super) reduction: *const castell_reduction,
}

impl castell_access {
    /// Whether the task accumulates into a copy.
    pub(super) fn needs_copy(&self) -> bool {
        self.kind & !ORDERED == REDUCTION
    }

    /// Whether the copies are combined in the order in which the tasks were created.
    pub(super) fn is_ordered(&self) -> bool {
        self.kind & ORDERED != 0
    }
}

/// The header's `castell_task`.
#[repr(C)]
pub struct castell_task {
    label: *const c_char,
    priority: c_int,
    cost: c_uint,
    pub(super) flags: c_uint,
    destroy: Option<Function>,
    device: c_uint,
}

/// The body of a loop.
type LoopBody = unsafe extern "C" fn(*mut c_void, usize, usize);

const WEAK: c_int = 16;
const ORDERED: c_int = 32;
const REDUCTION: c_int = 5;
const FINAL: c_uint = 1;
const WAIT: c_uint = 2;
const UNDEFERRED: c_uint = 4;
const BY_REFERENCE: c_uint = 8;

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_submit(
    body: Option<Function>,
    argument: *const c_void,
    argument_bytes: usize,
    accesses: *const castell_access,
    access_count: usize,
    task: *const castell_task,
) -> c_int {
    in_task(|context| {
        let body = body.ok_or_else(|| Failure::new(ARGUMENT, "the body is NULL"))?;
        // SAFETY: the caller's promise.
        unsafe {
            let given = Given::new(argument, argument_bytes, accesses, access_count, task)?;
            if iterate::is_describing() {
                return given.describe(None, |argument| move |_| body(argument.start()));
            }
            let Given { attributes, destroy, bytes, accesses, .. } = given;
            with_task_declarations(accesses, |declared| {
                if given.by_reference || accesses.iter().any(castell_access::needs_copy) {
                    let argument = given.argument();
                    submit_boxed(context, attributes, accesses, declared, move || body(argument.start()));
                } else {
                    submit_bytes(context, attributes, declared, body, destroy, bytes);
                }
            })?;
        }
        Ok(0)
    })
}

/// A task as `castell_submit` and `castell_submit_versions` are given it.
pub(super) struct Given<'a> {
    pub(super) attributes: Attributes,
    destroy: Option<Function>,
    start: *const c_void,
    by_reference: bool,
    /// What is copied.
    bytes: &'a [u8],
    pub(super) accesses: &'a [castell_access],
}

impl<'a> Given<'a> {
    /// # Safety
    /// As the header says.
    #[inline]
    pub(super) unsafe fn new(
        argument: *const c_void,
        argument_bytes: usize,
        accesses: *const castell_access,
        access_count: usize,
        task: *const castell_task,
    ) -> Result<Given<'a>, Failure> {
        // SAFETY: the caller's promise.
        unsafe {
            let (attributes, destroy, by_reference) = described(task.as_ref())?;
            let accesses = list(accesses, access_count, "accesses")?;
            let bytes = if by_reference { &[] } else { bytes(argument, argument_bytes)? };
            Ok(Given { attributes, destroy, start: argument, by_reference, bytes, accesses })
        }
    }

    /// The argument on its way to the body. To be called only when nothing can be refused any more: until then the argument, and
    /// `destroy`, are the caller's.
    pub(super) fn argument(&self) -> Argument {
        Argument::new(self.start, self.bytes, self.by_reference, self.destroy)
    }

    /// Adds the task to what the calling thread describes.
    ///
    /// # Safety
    /// As for [`castell_submit`], for every call of the body.
    pub(super) unsafe fn describe<B: Fn(LeafKind) + Send + Sync + 'static>(
        &self,
        versions: Option<Versions>,
        body: impl FnOnce(Argument) -> B,
    ) -> Result<c_int, Failure> {
        iterate::check_flags(&self.attributes, flag::FINAL | flag::UNDEFERRED)?;
        // SAFETY: the caller's promise.
        unsafe {
            with_task_declarations(self.accesses, |declared| {
                iterate::describe(self.attributes, versions, declared, || body(self.argument()))
            })??;
        }
        Ok(0)
    }
}

/// An argument on its way to a body, and what is called with it at the end.
pub(super) struct Argument {
    by_reference: *mut c_void,
    copy: Option<Box<[u128]>>,
    destroy: Option<Function>,
}

// SAFETY: as the header says, bodies and `destroy` are called on other threads.
unsafe impl Send for Argument {}
// SAFETY: as above: only its address is passed on.
unsafe impl Sync for Argument {}

impl Argument {
    pub(super) fn new(
        start: *const c_void,
        bytes: &[u8],
        by_reference: bool,
        destroy: Option<Function>,
    ) -> Argument {
        if by_reference {
            return Argument { by_reference: start.cast_mut(), copy: None, destroy };
        }
        let mut copy = vec![0_u128; bytes.len().div_ceil(16).max(1)].into_boxed_slice();
        // SAFETY: the copy is at least as long, and nobody else's.
        unsafe { copy.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Argument { by_reference: std::ptr::null_mut(), copy: Some(copy), destroy }
    }

    pub(super) fn start(&self) -> *mut c_void {
        self.copy.as_ref().map_or(self.by_reference, |copy| copy.as_ptr().cast_mut().cast())
    }
}

impl Drop for Argument {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: as the header says, called once, when the task is over.
            unsafe { destroy(self.start()) };
        }
    }
}

/// Creates a task whose body needs more than a function pointer.
///
/// # Safety
/// As for [`castell_submit`].
unsafe fn submit_boxed(
    context: &Context<'_>,
    attributes: Attributes,
    accesses: &[castell_access],
    declared: &[Declaration],
    body: impl FnOnce() + Send + 'static,
) {
    let reductions = Reductions::among(accesses);
    // SAFETY: the caller's promise.
    unsafe { context.submit_raw(attributes, declared, move |_| reductions.around(body)) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_taskloop(
    body: Option<LoopBody>,
    argument: *mut c_void,
    first: usize,
    end: usize,
    grain: usize,
    accesses: *const castell_access,
    access_count: usize,
    task: *const castell_task,
) -> c_int {
    in_task(|context| {
        iterate::refuse_describing("castell_taskloop")?;
        let body = body.ok_or_else(|| Failure::new(ARGUMENT, "the body is NULL"))?;
        // SAFETY: the caller's promise.
        unsafe {
            let (attributes, destroy, _) = described(task.as_ref())?;
            let accesses = list(accesses, access_count, "accesses")?;
            with_task_declarations(accesses, |declared| {
                let argument = Arc::new(Argument::new(argument, &[], true, destroy));
                for start in (first..end).step_by(grain.max(1)) {
                    let stop = end.min(start.saturating_add(grain.max(1)));
                    let argument = Arc::clone(&argument);
                    let part = move || body(argument.start(), start, stop);
                    submit_boxed(context, attributes, accesses, declared, part);
                }
            })?;
        }
        Ok(0)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_taskfor(
    body: Option<LoopBody>,
    argument: *mut c_void,
    first: usize,
    end: usize,
    chunk: usize,
    accesses: *const castell_access,
    access_count: usize,
    task: *const castell_task,
) -> c_int {
    in_task(|context| {
        iterate::refuse_describing("castell_taskfor")?;
        let body = body.ok_or_else(|| Failure::new(ARGUMENT, "the body is NULL"))?;
        // SAFETY: the caller's promise.
        unsafe {
            let (attributes, destroy, _) = described(task.as_ref())?;
            let accesses = list(accesses, access_count, "accesses")?;
            with_task_declarations(accesses, |declared| {
                let argument = Argument::new(argument, &[], true, destroy);
                let reductions = Reductions::among(accesses);
                context.submit_raw(attributes, declared, move |context| {
                    let body = |part: Range<usize>| body(argument.start(), part.start, part.end);
                    share(context, first..end, chunk, &reductions, &body);
                });
            })?;
        }
        Ok(0)
    })
}

/// Runs a worksharing loop: with reductions, each worker that comes accumulates into copies of its own; if the order matters,
/// each chunk does.
fn share(
    context: &Context<'_>,
    range: Range<usize>,
    chunk: usize,
    reductions: &Reductions,
    body: &(dyn Fn(Range<usize>) + Sync),
) {
    let plain = |_: &Context<'_>, part: Range<usize>| body(part);
    if reductions.is_empty() {
        context.share_loop(range, chunk, &plain);
    } else if reductions.are_ordered() {
        let finished = Mutex::new(BTreeMap::new());
        context.share_loop(range, chunk, &|_: &Context<'_>, part: Range<usize>| {
            let start = part.start;
            let copies = reductions.private(|| body(part));
            finished.lock().unwrap_or_else(PoisonError::into_inner).insert(start, copies);
        });
        let finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
        reductions.combine(finished.into_values().collect());
    } else {
        context.share_loop_around(range, chunk, &|run: &mut dyn FnMut()| reductions.around(run), &plain);
    }
}

/// Waits for the children.
#[unsafe(no_mangle)]
pub extern "C" fn castell_taskwait() -> c_int {
    in_task(|context| {
        iterate::refuse_describing("castell_taskwait")?;
        Ok(context.taskwait().map(|()| 0)?)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_taskwait_on(accesses: *const castell_access, access_count: usize) -> c_int {
    in_task(|context| {
        iterate::refuse_describing("castell_taskwait_on")?;
        // SAFETY: the caller's promise.
        unsafe {
            with_declarations(list(accesses, access_count, "accesses")?, |declared| {
                context.wait_for(declared)
            })
        }??;
        Ok(0)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_release(accesses: *const castell_access, access_count: usize) -> c_int {
    in_task(|context| {
        iterate::refuse_describing("castell_release")?;
        // SAFETY: the caller's promise.
        unsafe {
            with_declarations(list(accesses, access_count, "accesses")?, |declared| {
                declared.iter().for_each(|declared| context.release(*declared));
            })?;
        }
        Ok(0)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_group(body: Option<Function>, argument: *mut c_void) -> c_int {
    in_task(|context| {
        iterate::refuse_describing("castell_group")?;
        let body = body.ok_or_else(|| Failure::new(ARGUMENT, "the body is NULL"))?;
        // SAFETY: the caller's promise.
        context.group(|| unsafe { body(argument) })?;
        Ok(0)
    })
}

/// Cancels the innermost group.
#[unsafe(no_mangle)]
pub extern "C" fn castell_cancel() -> c_int {
    in_task(|context| Ok(context.cancel().into()))
}

/// Whether a group around the task was cancelled.
#[unsafe(no_mangle)]
pub extern "C" fn castell_is_cancelled() -> c_int {
    in_task(|context| Ok(context.is_cancelled().into()))
}

/// Whether the task is final.
#[unsafe(no_mangle)]
pub extern "C" fn castell_is_final() -> c_int {
    in_task(|context| Ok(context.is_final().into()))
}

/// What a task's description says: attributes, what is called at the end, whether the argument is no copy.
///
/// # Safety
/// The label is NULL or a string that stays.
pub(super) unsafe fn described(
    task: Option<&castell_task>,
) -> Result<(Attributes, Option<Function>, bool), Failure> {
    let Some(task) = task else { return Ok((Attributes::NONE, None, false)) };
    let label = if task.label.is_null() {
        ""
    } else {
        // SAFETY: the caller's promise.
        let label = unsafe { CStr::from_ptr(task.label) };
        label.to_str().map_err(|_| Failure::new(ARGUMENT, "the label is no UTF-8"))?
    };
    let mut flags = 0;
    for (bit, meaning) in [(FINAL, flag::FINAL), (WAIT, flag::WAIT), (UNDEFERRED, flag::UNDEFERRED)] {
        flags |= if task.flags & bit != 0 { meaning } else { 0 };
    }
    let kind = kind(task.device)?;
    let attributes = Attributes { label, priority: task.priority, cost: task.cost, flags, kind };
    Ok((attributes, task.destroy, task.flags & BY_REFERENCE != 0))
}

/// The kind of device with this number; 0 are the processors.
pub(super) fn kind(number: c_uint) -> Result<LeafKind, Failure> {
    let known = u8::try_from(number).ok().filter(|&kind| usize::from(kind) < LeafKind::COUNT);
    let refuse = || Failure::new(ARGUMENT, format!("kinds of devices are numbers from 1 to 7, not {number}"));
    known.map(LeafKind).ok_or_else(refuse)
}

/// # Safety
/// `count` of them can be read at `start` for as long as the result is used; `what` is what people call them.
pub(super) unsafe fn list<'a, T>(start: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    match (start.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::new(ARGUMENT, format!("{count} {what} at NULL"))),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(start, count) }),
    }
}

/// # Safety
/// As for [`list`].
pub(super) unsafe fn bytes<'a>(start: *const c_void, count: usize) -> Result<&'a [u8], Failure> {
    match (start.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::new(ARGUMENT, format!("an argument of {count} bytes at NULL"))),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(start.cast(), count) }),
    }
}

/// As [`with_declarations`], for what one task declares: contradictions are refused before anything happens.
pub(super) fn with_task_declarations<R>(
    accesses: &[castell_access],
    action: impl FnOnce(&[Declaration]) -> R,
) -> Result<R, Failure> {
    with_declarations(accesses, |declared| {
        // Only reductions can contradict something.
        if declared.iter().any(|declared| declared.kind == Kind::Reduction) {
            let refused = |error: TaskError| Failure::new(ARGUMENT, error.to_string());
            check_declarations("", declared).map_err(refused)?;
        }
        Ok(action(declared))
    })?
}

/// Calls `action` with the declarations that `accesses` stand for: on the stack where there are few.
fn with_declarations<R>(
    accesses: &[castell_access],
    action: impl FnOnce(&[Declaration]) -> R,
) -> Result<R, Failure> {
    const FEW: usize = 8;
    let nothing = Declaration { start: 0, length: 0, kind: Kind::In, weak: false, reduction: 0 };
    let mut few = [nothing; FEW];
    if accesses.len() <= FEW && accesses.iter().all(|access| access.rows <= 1) {
        for (place, access) in few.iter_mut().zip(accesses) {
            *place = declaration(access, 0)?;
        }
        return Ok(action(&few[..accesses.len()]));
    }
    let mut many = Vec::new();
    for access in accesses {
        for row in 0..access.rows.max(1) {
            many.push(declaration(access, row)?);
        }
    }
    Ok(action(&many))
}

fn declaration(access: &castell_access, row: usize) -> Result<Declaration, Failure> {
    let weak = access.kind & WEAK != 0;
    let base =
        if access.kind & !(WEAK | ORDERED) == REDUCTION { access.kind & !ORDERED } else { access.kind };
    let kind = usize::try_from(base & !WEAK).ok().and_then(|number| Kind::ALL.get(number).copied());
    let Some(kind) = kind.filter(|kind| *kind != Kind::Reduction || !access.reduction.is_null()) else {
        return Err(Failure::new(
            ARGUMENT,
            format!("no kind of access: {}; or a reduction of NULL", access.kind),
        ));
    };
    if access.bytes == 0 || access.start.is_null() {
        return Err(Failure::new(
            ARGUMENT,
            format!("an access to {} bytes at {:?}", access.bytes, access.start),
        ));
    }
    let start = access.start as usize + row * access.stride;
    // Neighbours group by the address of their reduction; half of it is enough to tell those of a program apart.
    let reduction = if kind == Kind::Reduction { access.reduction as usize as u32 } else { 0 };
    Ok(Declaration { start, length: access.bytes, kind, weak, reduction })
}
