//! Tasks: creating them, waiting for them, their groups, events and cancellation.

use super::block::{self, Head, Part, Routine, with};
use super::depend::{self, Dependence, Lists};
use super::{Location, fork, reduction};
use crate::below;
use crate::depend::Declarations;
use crate::own::{self, Values};
use crate::place::Place;
use crate::region;
use crate::serial;
use crate::task::{Clauses, order, priority};
use castell_tasks::dependences::Kind;
use castell_tasks::foreign::{self, Block};
use castell_tasks::task::{Attributes, flag};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// Kinds of what is cancelled.
const TASKGROUP: c_int = 4;

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_task_alloc(
    _location: Location,
    _thread: c_int,
    flags: c_int,
    bytes: usize,
    shared_bytes: usize,
    routine: Option<Routine>,
) -> *mut Part {
    Head::create(flags, bytes, shared_bytes, routine).as_ptr()
}

/// Those of `target nowait`: the body starts the target region and waits for it.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_target_task_alloc(
    _location: Location,
    _thread: c_int,
    flags: c_int,
    bytes: usize,
    shared_bytes: usize,
    routine: Option<Routine>,
    _device: i64,
) -> *mut Part {
    Head::create(flags, bytes, shared_bytes, routine).as_ptr()
}

/// Which data a task is near to: not looked at.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_reg_task_with_affinity(
    _location: Location,
    _thread: c_int,
    _task: *mut Part,
    _count: c_int,
    _list: *mut c_void,
) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_task(_location: Location, _thread: c_int, task: NonNull<Part>) -> c_int {
    // SAFETY: a task that the compiler's code has made and filled; or an untied one that is in the middle of its function.
    unsafe {
        let head = Head::of(task);
        if head.calls_again() {
            return 0;
        }
        // As in GCC's interface, what creates tasks is not to be on the stack between tasks that run at once.
        match Place::current() {
            Some(place)
                if !head.has_event()
                    && head.flags & with::PRIORITY == 0
                    && place.runs_at_once(true, false) =>
            {
                run_here(place, task);
            }
            _ => submit(task, None, true),
        }
    }
    0
}

/// Runs a task in a region at once.
///
/// # Safety
/// As for [`submit`].
#[inline]
unsafe fn run_here(place: &Place<'_>, task: NonNull<Part>) {
    // SAFETY: the caller's promise.
    unsafe {
        place.run(Head::of(task).flags & with::FINAL != 0, || Head::run(task, fork::number()));
        Head::end(task, fork::number());
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_task_parts(location: Location, thread: c_int, task: NonNull<Part>) -> c_int {
    // SAFETY: as there.
    unsafe { __kmpc_omp_task(location, thread, task) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_task_with_deps(
    _location: Location,
    _thread: c_int,
    task: NonNull<Part>,
    count: c_int,
    list: *const Dependence,
    more_count: c_int,
    more: *const Dependence,
) -> c_int {
    // SAFETY: a task that the compiler's code has made and filled, and its lists.
    unsafe { submit(task, Some(&Lists { first: (count, list), second: (more_count, more) }), true) };
    0
}

/// Hands a task to castell.
///
/// # Safety
/// The compiler's code has made and filled it, and has nothing more to do with it.
#[inline(never)]
pub(super) unsafe fn submit(task: NonNull<Part>, lists: Option<&Lists>, is_deferred: bool) {
    // SAFETY: the caller's promise.
    let head = unsafe { Head::of(task) };
    let is_final = head.flags & with::FINAL != 0;
    let alone = || head.has_event().then(region::alone).flatten();
    let Some(place) = Place::current().or_else(alone) else {
        // SAFETY: the caller's promise. What it depends on has run.
        return unsafe { run_at_once(task, is_final) };
    };
    let declared = match lists {
        // SAFETY: the caller's promise.
        Some(lists) => unsafe { depend::read(place, lists) },
        None => Declarations::new(),
    };
    // SAFETY: the caller's promise.
    let wanted = if head.flags & with::PRIORITY != 0 { unsafe { task.as_ref().priority } } else { 0 };
    let priority = if wanted > 0 { priority(wanted) } else { 0 };
    let attributes = Clauses { is_final, is_deferred, priority }.attributes();
    if declared.is_empty() && !head.has_event() && place.runs_at_once(is_deferred, priority > 0) {
        // SAFETY: the caller's promise.
        return unsafe { run_here(place, task) };
    }
    // Who creates for long is at no other boundary.
    place.go_on();
    let context = place.member().context();
    let values = own::values();
    let block = Block {
        body: if values.is_some() { run_with_values } else { run },
        skipped: Some(skip),
        bytes: if values.is_some() { size_of::<WithValues>() } else { size_of::<NonNull<Part>>() },
        align: align_of::<WithValues>(),
        events: u32::from(head.has_event()),
    };
    // It may be gone when it has been submitted.
    let mut happened = None;
    let has_event = head.has_event();
    // SAFETY: the caller's promise. A task whose event happened before is there until it hears of it here.
    unsafe {
        foreign::submit_block(&context, attributes, &declared, &block, |known, block| {
            match values {
                Some(values) => block.cast::<WithValues>().write(WithValues { task, values }),
                None => block.cast::<NonNull<Part>>().write(task),
            }
            if has_event && !Head::of(task).waits(known) {
                happened = Some(known);
            }
        });
        if let Some(known) = happened {
            foreign::fulfil_events(known, 1);
        }
    }
}

/// A block where variables of the library below are carried.
#[repr(C)]
struct WithValues {
    task: NonNull<Part>,
    values: Values,
}

unsafe extern "C" fn run_with_values(block: *mut c_void) {
    // SAFETY: `submit` put both there; the task comes first.
    unsafe {
        own::begin((*block.cast::<WithValues>()).values);
        run(block);
    }
}

unsafe extern "C" fn run(block: *mut c_void) {
    // SAFETY: `submit` put the task there.
    unsafe {
        let task = block.cast::<NonNull<Part>>().read();
        Head::run(task, fork::number());
        Head::end(task, fork::number());
    }
}

unsafe extern "C" fn skip(block: *mut c_void) {
    // SAFETY: as above.
    unsafe { Head::end(block.cast::<NonNull<Part>>().read(), fork::number()) };
}

/// Outside of regions.
///
/// # Safety
/// As for [`submit`].
unsafe fn run_at_once(task: NonNull<Part>, is_final: bool) {
    // SAFETY: the caller's promise. Its end leaves the memory to whoever has the event: so that is waited for before.
    unsafe {
        serial::run(is_final, || Head::run(task, fork::number()));
        if Head::of(task).has_event() {
            Head::of(task).sleep();
        }
        Head::end(task, fork::number());
    }
}

/// The compiler's code calls the function of a task itself, between this and the next one.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_task_begin_if0(_location: Location, _thread: c_int, task: NonNull<Part>) {
    // SAFETY: a task that the compiler's code has made and filled.
    let head = unsafe { Head::of(task) };
    head.is_called();
    let is_final = head.flags & with::FINAL != 0;
    match Place::current() {
        Some(place) => {
            let is_final = if is_final || place.is_final() { flag::FINAL } else { 0 };
            let attributes =
                Attributes { label: "omp task", flags: flag::APART | is_final, ..Attributes::NONE };
            // SAFETY: what is begun here is ended by the next function.
            head.begun.set(Some(unsafe { place.member().begin_task(attributes) }));
        }
        None => serial::begin(is_final),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_task_complete_if0(_location: Location, thread: c_int, task: NonNull<Part>) {
    // SAFETY: a task that was begun on this thread.
    unsafe {
        Head::go_on(task, thread);
        let head = Head::of(task);
        match (Place::current(), head.begun.take()) {
            (Some(place), Some(begun)) => place.member().end_task(begun),
            _ => serial::end(),
        }
        if head.has_event() {
            head.sleep();
        }
        Head::end(task, thread);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_wait_deps(
    _location: Location,
    _thread: c_int,
    count: c_int,
    list: *const Dependence,
    more_count: c_int,
    more: *const Dependence,
) {
    if let Some(place) = Place::current() {
        let lists = Lists { first: (count, list), second: (more_count, more) };
        // SAFETY: the compiler's lists.
        let mut awaited = unsafe { depend::read(place, &lists) };
        // The body of an undeferred task follows, and would keep no turn that was taken here: so it waits until nobody before it has one.
        // Nobody takes one meanwhile, for its creator runs it.
        awaited.iter_mut().filter(|one| one.kind == Kind::Commutative).for_each(|one| one.kind = Kind::InOut);
        // SAFETY: siblings' accesses are all that counts. OpenMP's tasks cannot fail.
        let _ = unsafe { place.member().context().wait_for(&awaited) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_taskwait_deps_51(
    location: Location,
    thread: c_int,
    count: c_int,
    list: *const Dependence,
    more_count: c_int,
    more: *const Dependence,
    has_no_wait: c_int,
) {
    let Some(place) = Place::current().filter(|_| has_no_wait != 0) else {
        // SAFETY: the same.
        return unsafe { __kmpc_omp_wait_deps(location, thread, count, list, more_count, more) };
    };
    let lists = Lists { first: (count, list), second: (more_count, more) };
    // SAFETY: the compiler's lists.
    unsafe { order(place, &depend::read(place, &lists)) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_taskwait(location: Location, thread: c_int) -> c_int {
    if let Some(place) = Place::current().filter(|place| place.has_children()) {
        // What fails is skipped in other interfaces; OpenMP's tasks cannot fail.
        let _ = place.member().context().taskwait();
    }
    // SAFETY: passed on, for tasks that libomp makes itself.
    unsafe { below::__kmpc_omp_taskwait(location, thread) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_omp_taskyield(_location: Location, _thread: c_int, _part: c_int) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn __kmpc_taskgroup(_location: Location, _thread: c_int) {
    match Place::current() {
        // SAFETY: the thread is this member; the compiler closes what it opens.
        Some(place) => unsafe { place.member().open_group() },
        None => reduction::open_serial(),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn __kmpc_end_taskgroup(_location: Location, _thread: c_int) {
    let registered = match Place::current() {
        Some(place) => {
            let registered = reduction::registered(place);
            // SAFETY: as above.
            unsafe { place.member().close_group() };
            registered
        }
        None => reduction::close_serial(),
    };
    // SAFETY: registered with the group that was just closed.
    unsafe { reduction::combine(registered) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_task_allow_completion_event(
    _location: Location,
    _thread: c_int,
    task: NonNull<Part>,
) -> *mut c_void {
    // SAFETY: a task that the compiler's code has made, as one with an event.
    unsafe { Head::of(task) }.handle()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_proxy_task_completed(_thread: c_int, task: NonNull<Part>) {
    // SAFETY: a proxy task, once.
    unsafe { block::happen(NonNull::from(Head::of(task))) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_proxy_task_completed_ooo(task: NonNull<Part>) {
    // SAFETY: as above.
    unsafe { block::happen(NonNull::from(Head::of(task))) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_cancel(location: Location, thread: c_int, which: c_int) -> c_int {
    match Place::current().filter(|_| which == TASKGROUP) {
        // SAFETY: a query without arguments.
        Some(place) if unsafe { below::omp_get_cancellation() } != 0 => {
            place.cancel_group();
            1
        }
        Some(_) => 0,
        // SAFETY: passed on.
        None => unsafe { below::__kmpc_cancel(location, thread, which) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_cancellationpoint(location: Location, thread: c_int, which: c_int) -> c_int {
    match Place::current().filter(|_| which == TASKGROUP) {
        Some(place) => place.is_cancelled().into(),
        // SAFETY: passed on.
        None => unsafe { below::__kmpc_cancellationpoint(location, thread, which) },
    }
}
