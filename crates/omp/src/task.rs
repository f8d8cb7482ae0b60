//! Tasks: creating them, waiting for them, their groups, events and cancellation.

use crate::depend::{self, Declarations};
use crate::own::{self, Carried};
use crate::place::Place;
use crate::serial::{self, Event};
use crate::{Body, Copy, below, region, target};
use castell_tasks::Context;
use castell_tasks::dependences::Declaration;
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
    #[inline]
    pub(crate) unsafe fn with_block(&self, always: bool, action: impl FnOnce(*mut c_void)) {
        if self.copy.is_none() && !always {
            return action(self.data);
        }
        // SAFETY: the caller's promise.
        unsafe { self.with_copy(action) };
    }

    /// # Safety
    /// As above. Apart, since room for a copy on the stack is not to be had by tasks that need none.
    #[inline(never)]
    unsafe fn with_copy(&self, action: impl FnOnce(*mut c_void)) {
        const FEW: usize = 1024;
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
    pub(crate) fn attributes(&self) -> Attributes {
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
    let place = Place::current();
    // Tasks that run at once lie one in the other, in some programs as deep as data are: what creates tasks is not to be on the stack between them.
    if let Some(place) = place
        && copy.is_none()
        && runs_at_once(place, flags, is_deferred)
    {
        // SAFETY: the caller's promise.
        return place.run(flags & with::FINAL != 0, || unsafe { own::call(body, data) });
    }
    let argument = Argument::new(body, data, copy, bytes, align);
    // SAFETY: the caller's promise.
    unsafe { submit(place, &argument, is_deferred, flags, depend, wanted_priority, detach) };
}

#[inline]
fn runs_at_once(place: &Place<'_>, flags: c_uint, is_deferred: bool) -> bool {
    flags & (with::DEPEND | with::DETACH) == 0 && place.runs_at_once(is_deferred, flags & with::PRIORITY != 0)
}

/// `GOMP_task` but for the usual task that runs at once.
///
/// # Safety
/// As the compiler made it.
#[inline(never)]
unsafe fn submit(
    place: Option<&Place<'_>>,
    argument: &Argument,
    is_deferred: bool,
    flags: c_uint,
    depend: *mut *mut c_void,
    wanted_priority: c_int,
    detach: *mut *mut c_void,
) {
    let is_final = flags & with::FINAL != 0;
    let has_event = flags & with::DETACH != 0;
    let Some(place) = place.or_else(|| has_event.then(region::alone).flatten()) else {
        // SAFETY: the caller's promise. What it depends on has run.
        return unsafe { run_at_once(argument, is_final, has_event.then_some(detach)) };
    };
    const MORE: u32 = with::DEPEND | with::DETACH | with::PRIORITY;
    // SAFETY: the caller's promise: what the flags speak of was passed.
    unsafe {
        if argument.copy.is_some() && runs_at_once(place, flags, is_deferred) {
            run(place, argument, is_final, |_| ());
        } else if flags & MORE == 0 {
            create(place, argument, &Clauses { is_final, is_deferred, priority: 0 }, &[], None, |_| ());
        } else {
            create_with_more(place, argument, flags, is_deferred, depend, wanted_priority, detach);
        }
    }
}

/// Creates a task with clauses that few have.
///
/// # Safety
/// As the compiler made it.
#[inline(never)]
unsafe fn create_with_more(
    place: &Place<'_>,
    argument: &Argument,
    flags: u32,
    is_deferred: bool,
    depend: *mut *mut c_void,
    wanted_priority: c_int,
    detach: *mut *mut c_void,
) {
    let clauses = Clauses {
        is_final: flags & with::FINAL != 0,
        is_deferred,
        priority: if flags & with::PRIORITY != 0 { priority(wanted_priority) } else { 0 },
    };
    let detach = (flags & with::DETACH != 0).then_some(detach);
    let mut declared = Declarations::new();
    // SAFETY: the caller's promise.
    unsafe {
        if flags & with::DEPEND != 0 {
            declared = depend::read(place, depend);
        }
        create(place, argument, &clauses, &declared, detach, |_| ());
    }
}

/// Runs a task in a region at once. `last` changes its block when that is filled.
///
/// # Safety
/// As the compiler made it.
#[inline]
pub(crate) unsafe fn run(
    place: &Place<'_>,
    argument: &Argument,
    is_final: bool,
    last: impl FnOnce(*mut c_void),
) {
    place.run(is_final, || {
        // SAFETY: the caller's promise.
        unsafe {
            argument.with_block(false, |block| {
                last(block);
                own::call(argument.body, block);
            });
        }
    });
}

/// Creates a task in a region. `last` changes its block when that is filled.
///
/// # Safety
/// As the compiler made it; `detach` points to where the event's handle goes.
pub(crate) unsafe fn create(
    place: &Place<'_>,
    argument: &Argument,
    clauses: &Clauses,
    declared: &[Declaration],
    detach: Option<*mut *mut c_void>,
    last: impl FnOnce(*mut c_void),
) {
    if place.is_region_cancelled() {
        return;
    }
    // Who creates for long is at no other boundary.
    place.go_on();
    let block = Block {
        body: argument.body,
        // GCC's code ends in the body what it has copied there: libgomp runs such bodies, too.
        skipped: argument.copy.map(|_| argument.body),
        bytes: argument.bytes,
        align: argument.align,
        events: u32::from(detach.is_some()),
    };
    let context = place.member().context();
    // SAFETY: the caller's promise.
    let fill = |task: NonNull<c_void>, block| unsafe {
        if let Some(detach) = detach {
            pass_handle(argument, detach, task.as_ptr());
        }
        argument.copy_to(block);
        last(block);
    };
    // SAFETY: the caller's promise.
    unsafe {
        match Carried::wanted(argument) {
            None => foreign::submit_block(&context, clauses.attributes(), declared, &block, fill),
            Some(carried) => create_carrying(&context, clauses, declared, &carried, block, fill),
        }
    }
}

/// # Safety
/// As for [`create`].
#[cold]
#[inline(never)]
unsafe fn create_carrying(
    context: &Context<'_>,
    clauses: &Clauses,
    declared: &[Declaration],
    carried: &Carried,
    block: Block,
    fill: impl FnOnce(NonNull<c_void>, *mut c_void),
) {
    let block = carried.block(block);
    // SAFETY: the caller's promise.
    unsafe {
        foreign::submit_block(context, clauses.attributes(), declared, &block, |task, block| {
            fill(task, carried.write(block));
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
        serial::run(is_final, || argument.with_block(false, |block| own::call(argument.body, block)));
    }
    if detach.is_some() {
        event.wait();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskwait() {
    if let Some(place) = Place::current().filter(|place| place.has_children()) {
        // What fails is skipped in other interfaces; OpenMP's tasks cannot fail.
        let _ = place.member().context().taskwait();
    }
    if target::has_been_started() {
        // SAFETY: passed on.
        unsafe { below::GOMP_taskwait() };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskwait_depend(depend: *mut *mut c_void) {
    if let Some(place) = Place::current() {
        // SAFETY: the compiler's clause. Siblings' accesses are all that counts.
        let _ = unsafe { place.member().context().wait_for(&depend::read(place, depend)) };
    }
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskwait_depend_nowait(depend: *mut *mut c_void) {
    if let Some(place) = Place::current() {
        // SAFETY: the compiler's clause.
        unsafe { order(place, &depend::read(place, depend)) };
    }
}

/// Creates a task that does nothing, in its order.
///
/// # Safety
/// As for [`create`].
pub(crate) unsafe fn order(place: &Place<'_>, declared: &[Declaration]) {
    let argument = Argument::new(nothing, std::ptr::dangling_mut(), None, 0, 1);
    let clauses = Clauses { is_final: false, is_deferred: true, priority: 0 };
    // SAFETY: the caller's promise.
    unsafe { create(place, &argument, &clauses, declared, None, |_| ()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskyield() {}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GOMP_taskgroup_start() {
    match Place::current() {
        // SAFETY: the thread is this member; the compiler closes what it opens.
        Some(place) => unsafe { place.member().open_group() },
        None => serial::open_group(),
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GOMP_taskgroup_end() {
    match Place::current() {
        // SAFETY: as above.
        Some(place) => unsafe { place.member().close_group() },
        None => serial::close_group(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_cancel(which: c_int, do_cancel: bool) -> bool {
    // SAFETY: a query without arguments.
    let is_allowed = || unsafe { below::omp_get_cancellation() } != 0;
    match Place::current() {
        Some(place) if which & TASKGROUP != 0 && is_allowed() => {
            if do_cancel {
                place.cancel_group();
            }
            do_cancel || place.is_cancelled()
        }
        place => {
            // SAFETY: passed on.
            let cancels = unsafe { below::GOMP_cancel(which, do_cancel) };
            if let Some(place) = place.filter(|_| cancels && do_cancel) {
                if which & PARALLEL != 0 {
                    place.cancel_region();
                } else {
                    place.want_below();
                }
            }
            cancels
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_cancellation_point(which: c_int) -> bool {
    match Place::current() {
        Some(place) if which & TASKGROUP != 0 => place.is_cancelled(),
        // SAFETY: passed on.
        _ => unsafe { below::GOMP_cancellation_point(which) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn omp_fulfill_event(event: *mut c_void) {
    // SAFETY: the program's promise: a handle that was not fulfilled yet.
    unsafe {
        if !Event::fulfil(event)
            && !crate::kmpc::fulfil(event)
            && let Some(task) = NonNull::new(event)
        {
            foreign::fulfil_events(task, 1);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn omp_fulfill_event_(event: *mut c_void) {
    // SAFETY: the program's promise; Fortran, too, passes the handle itself.
    unsafe { omp_fulfill_event(event) };
}

#[unsafe(no_mangle)]
extern "C" fn omp_in_final() -> c_int {
    Place::current().map_or_else(serial::is_final, |place| place.is_final()).into()
}

#[unsafe(no_mangle)]
extern "C" fn omp_in_final_() -> c_int {
    omp_in_final()
}

#[unsafe(no_mangle)]
extern "C" fn omp_in_explicit_task() -> c_int {
    Place::current().map_or_else(serial::is_in_task, |place| place.is_in_explicit_task()).into()
}

#[unsafe(no_mangle)]
extern "C" fn omp_in_explicit_task_() -> c_int {
    omp_in_explicit_task()
}

/// Whether tasks are created no more where the calling thread is.
pub(crate) fn creates_no_more(place: &Place<'_>) -> bool {
    place.is_cancelled()
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
                own::call(argument.body, block);
            });
        });
    }
}
