//! What explicit tasks have of their own in the library below, which knows nothing of castell's tasks.
//!
//! * *Internal control variables*: a task begins with those of its creator, and what it sets ends with it (`omp_set_num_threads` and its
//!   kin). The library below has one set a thread. So a task that sets one first notes the values that it found, for its end to put back;
//!   and from the first time on that somebody sets one inside of a region, deferred tasks carry their creators' values with them.
//! * *Nest locks*: a task owns them, in libgomp by the address of what it knows as the current task. So from the first such lock on,
//!   bodies run inside of an undeferred task of libgomp's. In libomp threads own them.
//!
//! Programs that do neither pay for one look at a flag a task.

use crate::place::Place;
use crate::task::Argument;
use crate::{Body, below, serial};
use castell_tasks::foreign::Block;
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicU8, Ordering};

/// What tasks need: bits.
static NEEDED: AtomicU8 = AtomicU8::new(0);
const VALUES: u8 = 1;
const IDENTITY: u8 = 2;

/// Relaxed: a flag that is seen late concerns tasks which nothing orders after what set it.
#[inline]
fn needed() -> u8 {
    NEEDED.load(Ordering::Relaxed)
}

/// Internal control variables that a task can set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Values {
    threads: c_int,
    is_dynamic: c_int,
    levels: c_int,
    schedule: (c_int, c_int),
    device: c_int,
}

impl Values {
    /// Those of the calling thread.
    fn get() -> Values {
        let mut schedule = (0, 0);
        // SAFETY: queries; the last one writes to where it is told.
        unsafe {
            below::omp_get_schedule(&raw mut schedule.0, &raw mut schedule.1);
            Values {
                threads: below::omp_get_max_threads(),
                is_dynamic: below::omp_get_dynamic(),
                levels: below::omp_get_max_active_levels(),
                schedule,
                device: below::omp_get_default_device(),
            }
        }
    }

    /// Makes them the calling thread's. Only what differs is set: some libraries complain about some settings.
    pub(crate) fn set(self) {
        let now = Values::get();
        // SAFETY: values that were set before.
        unsafe {
            if now.threads != self.threads {
                below::omp_set_num_threads(self.threads);
            }
            if now.is_dynamic != self.is_dynamic {
                below::omp_set_dynamic(self.is_dynamic);
            }
            if now.levels != self.levels {
                below::omp_set_max_active_levels(self.levels);
            }
            if now.schedule != self.schedule {
                below::omp_set_schedule(self.schedule.0, self.schedule.1);
            }
            if now.device != self.device {
                below::omp_set_default_device(self.device);
            }
        }
    }
}

/// The current task is about to set a variable.
fn note_setting() {
    let Some(place) = Place::current() else {
        return serial::keep(Values::get);
    };
    NEEDED.fetch_or(VALUES, Ordering::Relaxed);
    if place.is_in_explicit_task() {
        keep(place);
    }
}

/// The end of the current task puts back what is set now, or what an earlier call of this found.
fn keep(place: &Place<'_>) {
    place.member().context().at_end_of_body(|| {
        let found = Values::get();
        Box::new(move || found.set())
    });
}

/// Calls a task's body in the thread that runs it.
///
/// # Safety
/// As the compiler made it.
#[inline]
pub(crate) unsafe fn call(body: Body, block: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { if needed() & IDENTITY == 0 { body(block) } else { call_as_own(body, block) } }
}

struct Call {
    body: Body,
    block: *mut c_void,
    was_called: bool,
}

unsafe extern "C" fn call_inside(call: *mut c_void) {
    // SAFETY: `call_as_own` passes it.
    let call = unsafe { &mut *call.cast::<Call>() };
    call.was_called = true;
    // SAFETY: its caller's promise.
    unsafe { (call.body)(call.block) };
}

/// # Safety
/// As for [`call`].
#[cold]
unsafe fn call_as_own(body: Body, block: *mut c_void) {
    let mut call = Call { body, block, was_called: false };
    let (bytes, align) = (size_of::<Call>() as c_long, align_of::<Call>() as c_long);
    let (argument, none) = ((&raw mut call).cast(), std::ptr::null_mut());
    // SAFETY: an undeferred task without clauses has returned when this returns.
    unsafe {
        below::GOMP_task(call_inside, argument, None, bytes, align, false, 0, none, 0, none);
        if !call.was_called {
            // In a cancelled region it is not run; but castell began it, and its objects have to end.
            (call.body)(call.block);
        }
    }
}

/// What lies before the block of a deferred task that carries something.
#[derive(Clone, Copy)]
pub(crate) struct Carried {
    values: Values,
    body: Body,
    /// Of the compiler's block, from here.
    offset: usize,
}

impl Carried {
    /// What a deferred task has to carry, if anything.
    #[inline]
    pub(crate) fn wanted(argument: &Argument) -> Option<Carried> {
        (needed() != 0).then(|| Carried::new(argument))
    }

    #[cold]
    fn new(argument: &Argument) -> Carried {
        let offset = size_of::<Carried>().next_multiple_of(argument.align);
        Carried { values: Values::get(), body: argument.body, offset }
    }

    /// The task's block, with this before it.
    pub(crate) fn block(&self, block: Block) -> Block {
        Block {
            body: run,
            skipped: block.skipped.map(|_| skip as Body),
            bytes: self.offset + block.bytes,
            align: block.align.max(align_of::<Carried>()),
            events: block.events,
        }
    }

    /// Writes it; where the compiler's block begins.
    ///
    /// # Safety
    /// `block` is as [`Carried::block`] says.
    pub(crate) unsafe fn write(self, block: *mut c_void) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe {
            block.cast::<Carried>().write(self);
            block.byte_add(self.offset)
        }
    }
}

unsafe extern "C" fn run(block: *mut c_void) {
    // SAFETY: `Carried::write` has written it; the body is the compiler's.
    unsafe {
        let carried = block.cast::<Carried>().read();
        begin(carried.values);
        call(carried.body, block.byte_add(carried.offset));
    }
}

unsafe extern "C" fn skip(block: *mut c_void) {
    // SAFETY: as above; libgomp runs such bodies, too.
    unsafe {
        let carried = block.cast::<Carried>().read();
        (carried.body)(block.byte_add(carried.offset));
    }
}

/// The current task begins with these values.
pub(crate) fn begin(values: Values) {
    if values != Values::get()
        && let Some(place) = Place::current()
    {
        keep(place);
        values.set();
    }
}

/// What a deferred task is to begin with, if that may differ from what it finds.
#[inline]
pub(crate) fn values() -> Option<Values> {
    (needed() & VALUES != 0).then(Values::get)
}

macro_rules! setters {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) {
            note_setting();
            // SAFETY: passed on.
            unsafe { below::$name($($argument),*) }
        }
    )*};
}

setters! {
    omp_set_num_threads(threads: c_int);
    omp_set_num_threads_(threads: *const c_void);
    omp_set_num_threads_8_(threads: *const c_void);
    omp_set_dynamic(is_dynamic: c_int);
    omp_set_dynamic_(is_dynamic: *const c_void);
    omp_set_dynamic_8_(is_dynamic: *const c_void);
    omp_set_nested(is_nested: c_int);
    omp_set_nested_(is_nested: *const c_void);
    omp_set_nested_8_(is_nested: *const c_void);
    omp_set_max_active_levels(levels: c_int);
    omp_set_max_active_levels_(levels: *const c_void);
    omp_set_max_active_levels_8_(levels: *const c_void);
    omp_set_schedule(kind: c_int, chunk: c_int);
    omp_set_schedule_(kind: *const c_void, chunk: *const c_void);
    omp_set_schedule_8_(kind: *const c_void, chunk: *const c_void);
    omp_set_default_device(device: c_int);
    omp_set_default_device_(device: *const c_void);
    omp_set_default_device_8_(device: *const c_void);
}

macro_rules! locks {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) {
            NEEDED.fetch_or(IDENTITY, Ordering::Relaxed);
            // SAFETY: passed on.
            unsafe { below::$name($($argument),*) }
        }
    )*};
}

locks! {
    omp_init_nest_lock(lock: *mut c_void);
    omp_init_nest_lock_(lock: *mut c_void);
}
