//! Tasks: creating them, waiting for them, their groups, events and cancellation.

use crate::depend::{self, Declarations};
use crate::region::Place;
use crate::serial::{self, Event};
use crate::{Body, Copy, below};
use castell_tasks::foreign::{self, Block};
use castell_tasks::task::{Attributes, flag};
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Flags of `GOMP_task` and `GOMP_taskloop`.
pub(crate) mod with {
    pub(crate) const FINAL: u32 = 1 << 1;
    pub(crate) const DEPEND: u32 = 1 << 3;
    pub(crate) const PRIORITY: u32 = 1 << 4;
    pub(crate) const UP: u32 = 1 << 8;
    pub(crate) const GRAINSIZE: u32 = 1 << 9;
    pub(crate) const IF: u32 = 1 << 10;
    pub(crate) const NOGROUP: u32 = 1 << 11;
    pub(crate) const REDUCTION: u32 = 1 << 12;
    pub(crate) const DETACH: u32 = 1 << 13;
    pub(crate) const STRICT: u32 = 1 << 14;
}

/// `GOMP_cancel`'s word for task groups.
const TASKGROUP: c_int = 8;
const PARALLEL: c_int = 1;

/// The function and the argument of a task, as its creator has them.
pub(crate) struct Argument {
    pub(crate) body: Body,
    pub(crate) data: *mut c_void,
    pub(crate) copy: Option<Copy>,
    pub(crate) bytes: usize,
    pub(crate) align: usize,
}

impl Argument {
    pub(crate) fn new(
        body: Body,
        data: *mut c_void,
        copy: Option<Copy>,
        bytes: c_long,
        align: c_long,
    ) -> Argument {
        let align = (align.max(1) as usize).next_power_of_two();
        Argument { body, data, copy, bytes: bytes.max(0) as usize, align }
    }

    /// Fills a task's block with it.
    ///
    /// # Safety
    /// As many bytes are there, so aligned.
    pub(crate) unsafe fn copy_to(&self, block: *mut c_void) {
        // SAFETY: the caller's promise, and the compiler's function.
        unsafe {
            match self.copy {
                Some(copy) => copy(block, self.data),
                None => block.cast::<u8>().copy_from_nonoverlapping(self.data.cast(), self.bytes),
            }
        }
    }

    /// Calls `action` with the argument of a task that runs before this returns: the creator's block, or, where objects have to be
    /// copied, or `always`, another.
    ///
    /// # Safety
    /// As the compiler made it.
    pub(crate) unsafe fn with_block(&self, always: bool, action: impl FnOnce(*mut c_void)) {
        const FEW: usize = 1024;
        if self.copy.is_none() && !always {
            return action(self.data);
        }
        let bytes = self.bytes + self.align;
        let mut near = MaybeUninit::<[u8; FEW]>::uninit();
        let mut far = Vec::<u8>::new();
        let start = if bytes <= FEW {
            near.as_mut_ptr().cast::<u8>()
        } else {
            far.reserve_exact(bytes);
            far.as_mut_ptr()
        };
        // SAFETY: inside of what was just made.
        unsafe {
            let block = start.add(start.align_offset(self.align)).cast();
            self.copy_to(block);
            action(block);
        }
    }
}

/// What the clauses of a task say beside its argument.
pub(crate) struct Clauses {
    pub(crate) is_final: bool,
    pub(crate) is_deferred: bool,
    pub(crate) priority: c_int,
}

impl Clauses {
    fn attributes(&self) -> Attributes {
        let is_final = if self.is_final { flag::FINAL } else { 0 };
        let undeferred = if self.is_deferred { 0 } else { flag::UNDEFERRED };
        Attributes {
            label: "omp task",
            priority: self.priority,
            flags: is_final | undeferred | flag::APART,
            ..Attributes::NONE
        }
    }
}

/// A priority, as far as the user allows any.
pub(crate) fn priority(wanted: c_int) -> c_int {
    // SAFETY: a query without arguments.
    wanted.clamp(0, unsafe { below::omp_get_max_task_priority() }.max(0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_task(
    body: Body,
    data: *mut c_void,
    copy: Option<Copy>,
    bytes: c_long,
    align: c_long,
    is_deferred: bool,
    flags: c_uint,
    depend: *mut *mut c_void,
    wanted_priority: c_int,
    detach: *mut *mut c_void,
) {
    let argument = Argument::new(body, data, copy, bytes, align);
    let clauses = Clauses {
        is_final: flags & with::FINAL != 0,
        is_deferred,
        priority: if flags & with::PRIORITY != 0 { priority(wanted_priority) } else { 0 },
    };
    let detach = (flags & with::DETACH != 0).then_some(detach);
    let Some(place) = Place::current() else {
        // SAFETY: the caller's promise. What it depends on has run.
        return unsafe { run_at_once(&argument, clauses.is_final, detach) };
    };
    let mut declared = Declarations::new();
    if flags & with::DEPEND != 0 {
        // SAFETY: the caller's promise: such a clause was passed.
        declared = unsafe { depend::read(place, depend) };
    }
    // SAFETY: the caller's promise.
    unsafe { create(place, &argument, &clauses, &declared, detach, |_| ()) };
}

/// Creates a task in a region. `last` changes its block when that is filled.
///
/// # Safety
/// As the compiler made it; `detach` points to where the event's handle goes.
pub(crate) unsafe fn create(
    place: &Place<'_>,
    argument: &Argument,
    clauses: &Clauses,
    declared: &[castell_tasks::dependences::Declaration],
    detach: Option<*mut *mut c_void>,
    last: impl FnOnce(*mut c_void),
) {
    let context = place.member.context();
    let attributes = clauses.attributes();
    let runs_at_once = !clauses.is_deferred || context.is_final();
    if runs_at_once && declared.is_empty() && detach.is_none() && !context.is_watched() {
        let is_final = clauses.is_final || context.is_final();
        let flags = flag::APART | if is_final { flag::FINAL } else { 0 };
        let attributes = Attributes { flags, ..attributes };
        // SAFETY: the caller's promise.
        return unsafe {
            argument.with_block(false, |block| {
                last(block);
                foreign::run_undeferred(&context, attributes, argument.body, block);
            });
        };
    }
    let block = Block {
        body: argument.body,
        bytes: argument.bytes,
        align: argument.align,
        events: u32::from(detach.is_some()),
    };
    // SAFETY: the caller's promise.
    unsafe {
        foreign::submit_block(&context, attributes, declared, &block, |task, block| {
            if let Some(detach) = detach {
                pass_handle(argument, detach, task.as_ptr());
            }
            argument.copy_to(block);
            last(block);
        });
    }
}

/// The program finds the event's handle where it asked for it, and the task in the first word of its argument.
///
/// # Safety
/// As the compiler made it.
unsafe fn pass_handle(argument: &Argument, detach: *mut *mut c_void, handle: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe {
        detach.write(handle);
        if !argument.data.is_null() {
            argument.data.cast::<*mut c_void>().write(handle);
        }
    }
}

/// Outside of regions.
///
/// # Safety
/// As the compiler made it.
unsafe fn run_at_once(argument: &Argument, is_final: bool, detach: Option<*mut *mut c_void>) {
    let event = Event::new();
    // SAFETY: the caller's promise; the event is there until it is fulfilled.
    unsafe {
        if let Some(detach) = detach {
            pass_handle(argument, detach, event.handle());
        }
        serial::run(is_final, || argument.with_block(false, |block| (argument.body)(block)));
    }
    if detach.is_some() {
        event.wait();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskwait() {
    if let Some(place) = Place::current() {
        // What fails is skipped in other interfaces; OpenMP's tasks cannot fail.
        let _ = place.member.context().taskwait();
    }
    // SAFETY: passed on, for target tasks.
    unsafe { below::GOMP_taskwait() };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskwait_depend(depend: *mut *mut c_void) {
    if let Some(place) = Place::current() {
        // SAFETY: the compiler's clause. Siblings' accesses are all that counts.
        let _ = unsafe { place.member.context().wait_for(&depend::read(place, depend)) };
    }
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskwait_depend_nowait(depend: *mut *mut c_void) {
    let Some(place) = Place::current() else { return };
    let argument = Argument::new(nothing, std::ptr::dangling_mut(), None, 0, 1);
    let clauses = Clauses { is_final: false, is_deferred: true, priority: 0 };
    // SAFETY: the compiler's clause.
    unsafe { create(place, &argument, &clauses, &depend::read(place, depend), None, |_| ()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskyield() {}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GOMP_taskgroup_start() {
    if let Some(place) = Place::current() {
        // SAFETY: the thread is this member; the compiler closes what it opens.
        unsafe { place.member.open_group() };
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GOMP_taskgroup_end() {
    if let Some(place) = Place::current() {
        // SAFETY: as above.
        unsafe { place.member.close_group() };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_cancel(which: c_int, do_cancel: bool) -> bool {
    // SAFETY: a query without arguments.
    let is_allowed = || unsafe { below::omp_get_cancellation() } != 0;
    match Place::current() {
        Some(place) if which & TASKGROUP != 0 && is_allowed() => {
            if do_cancel {
                place.member.context().cancel();
            }
            do_cancel || is_cancelled(place)
        }
        place => {
            // SAFETY: passed on.
            let cancels = unsafe { below::GOMP_cancel(which, do_cancel) };
            if let Some(place) = place.filter(|_| cancels && do_cancel && which & PARALLEL != 0) {
                place.member.cancel();
            }
            cancels
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_cancellation_point(which: c_int) -> bool {
    match Place::current() {
        Some(place) if which & TASKGROUP != 0 => is_cancelled(place),
        // SAFETY: passed on.
        _ => unsafe { below::GOMP_cancellation_point(which) },
    }
}

/// Whether a task ends at a cancellation point.
fn is_cancelled(place: &Place<'_>) -> bool {
    place.member.is_cancelled() || place.member.context().is_cancelled()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn omp_fulfill_event(event: *mut c_void) {
    // SAFETY: the program's promise: a handle that was not fulfilled yet.
    unsafe {
        if !Event::fulfil(event)
            && let Some(task) = NonNull::new(event)
        {
            foreign::fulfil_events(task, 1);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn omp_fulfill_event_(event: *const *mut c_void) {
    // SAFETY: Fortran passes the handle's address.
    unsafe { omp_fulfill_event(event.read()) };
}

#[unsafe(no_mangle)]
extern "C" fn omp_in_final() -> c_int {
    Place::current().map_or_else(serial::is_final, |place| place.member.context().is_final()).into()
}

#[unsafe(no_mangle)]
extern "C" fn omp_in_final_() -> c_int {
    omp_in_final()
}

#[unsafe(no_mangle)]
extern "C" fn omp_in_explicit_task() -> c_int {
    Place::current().map_or_else(serial::is_in_task, |place| place.member.is_in_explicit_task()).into()
}

#[unsafe(no_mangle)]
extern "C" fn omp_in_explicit_task_() -> c_int {
    omp_in_explicit_task()
}

/// Whether tasks are created no more where the calling thread is.
pub(crate) fn creates_no_more(place: &Place<'_>) -> bool {
    is_cancelled(place)
}

/// Runs a piece of a loop outside of regions.
///
/// # Safety
/// As the compiler made it.
pub(crate) unsafe fn run_piece_at_once(argument: &Argument, is_final: bool, last: impl FnOnce(*mut c_void)) {
    // SAFETY: the caller's promise.
    unsafe {
        serial::run(is_final, || {
            argument.with_block(true, |block| {
                last(block);
                (argument.body)(block);
            });
        });
    }
}
