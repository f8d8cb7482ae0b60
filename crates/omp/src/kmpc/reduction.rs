//! Task reductions: a copy of each variable for each thread that asks for one. The compiler's functions make, combine and end copies.
//!
//! What is registered with a group is a chain, from the innermost registration outward; its first link is kept with the group. Reductions
//! over the tasks of a whole region or loop are registered by each of its threads, with the thread's own variable, and share the copies; who
//! comes last to the end combines them. They belong to no group.

use super::{Location, fork};
use crate::place::Place;
use crate::serial;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Copies of different threads lie in different cache lines.
const ALIGN: usize = 64;

/// A variable, as compilers describe it today.
#[repr(C)]
struct Variable {
    shared: *mut c_void,
    original: *mut c_void,
    bytes: usize,
    initialise: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    end: Option<unsafe extern "C" fn(*mut c_void)>,
    combine: unsafe extern "C" fn(*mut c_void, *mut c_void),
    flags: u32,
}

/// The same before LLVM 11: the initialiser gets only the copy.
#[repr(C)]
struct OldVariable {
    shared: *mut c_void,
    bytes: usize,
    initialise: Option<unsafe extern "C" fn(*mut c_void)>,
    end: Option<unsafe extern "C" fn(*mut c_void)>,
    combine: unsafe extern "C" fn(*mut c_void, *mut c_void),
    flags: u32,
}

/// How copies of a variable are made.
enum Initialise {
    Zeroes,
    Old(unsafe extern "C" fn(*mut c_void)),
    From(unsafe extern "C" fn(*mut c_void, *mut c_void), *mut c_void),
}

struct Kind {
    bytes: usize,
    initialise: Initialise,
    end: Option<unsafe extern "C" fn(*mut c_void)>,
    combine: unsafe extern "C" fn(*mut c_void, *mut c_void),
    /// By thread; null where none has asked.
    copies: Box<[AtomicPtr<c_void>]>,
}

/// The copies of several variables.
pub(super) struct Copies {
    kinds: Vec<Kind>,
    /// How many threads have come to the end of the construct, and how many do.
    ended: AtomicUsize,
    enders: usize,
}

// SAFETY: each thread makes its own copies; they are combined when all tasks are over.
unsafe impl Send for Copies {}
// SAFETY: as above.
unsafe impl Sync for Copies {}

/// A registration.
pub(super) struct Registered {
    /// The next one outward.
    outer: *const Registered,
    /// Whether that was registered with the same group.
    shares_group: bool,
    /// Where the variables are.
    shared: Vec<*mut c_void>,
    copies: Arc<Copies>,
}

/// Copies that some threads have not come for yet, and how many have.
type Come = (Arc<Copies>, usize);

/// What the threads of a region share.
#[derive(Default)]
pub(super) struct Slots {
    /// For reductions over the whole region and over loops, in this order: the copies, and how many have come for them.
    copies: [Mutex<Option<Come>>; 2],
    /// Addresses of what was registered.
    of_threads: Mutex<Vec<usize>>,
}

thread_local! {
    /// Outside of regions: the first link of each open group's chain, innermost last.
    static GROUPS: RefCell<Vec<*const Registered>> = const { RefCell::new(Vec::new()) };
    /// What this thread has registered together with others, innermost last.
    static TOGETHER: RefCell<Vec<*const Registered>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn open_serial() {
    serial::open_group();
    GROUPS.with_borrow_mut(|groups| groups.push(std::ptr::null()));
}

pub(super) fn close_serial() -> *const Registered {
    serial::close_group();
    GROUPS.with_borrow_mut(|groups| groups.pop().unwrap_or(std::ptr::null()))
}

/// What was registered with the innermost group; null: nothing.
pub(super) fn registered(place: &Place<'_>) -> *const Registered {
    let companion = place.companion();
    companion.map_or(std::ptr::null(), |companion| companion.load(Ordering::Acquire).cast_const().cast())
}

/// The innermost registration around this point.
fn innermost() -> *const Registered {
    match Place::current() {
        Some(place) => {
            let mut all = place.companions().map(|companion| companion.load(Ordering::Acquire));
            all.find(|first| !first.is_null()).unwrap_or(std::ptr::null_mut()).cast()
        }
        None => GROUPS.with_borrow(|groups| {
            groups.iter().rev().copied().find(|first| !first.is_null()).unwrap_or(std::ptr::null())
        }),
    }
}

/// Adds a registration to the innermost group's; what the compiler's code has of it.
fn register(shared: Vec<*mut c_void>, copies: Arc<Copies>) -> *mut c_void {
    let outer = innermost();
    let make = |shares_group| {
        Box::into_raw(Box::new(Registered { outer, shares_group, shared, copies })).cast_const()
    };
    match Place::current() {
        Some(place) => {
            let Some(companion) = place.companion() else { return std::ptr::null_mut() };
            let first = make(!companion.load(Ordering::Acquire).is_null());
            // Only the task that has opened the group registers.
            companion.store(first.cast_mut().cast(), Ordering::Release);
            first.cast_mut().cast()
        }
        None => GROUPS.with_borrow_mut(|groups| {
            let Some(last) = groups.last_mut() else { return std::ptr::null_mut() };
            *last = make(!last.is_null());
            last.cast_mut().cast()
        }),
    }
}

/// How many threads may ask for copies.
fn threads() -> usize {
    Place::current().map_or(1, |place| place.team_size())
}

impl Kind {
    /// The calling thread's copy.
    fn copy(&self, number: usize) -> *mut c_void {
        let copy = self.copies[number].load(Ordering::Acquire);
        if !copy.is_null() {
            return copy;
        }
        // SAFETY: the layout has a size; the compiler's function makes a copy of what is all zeroes.
        unsafe {
            let copy = alloc_zeroed(self.layout()).cast::<c_void>();
            if copy.is_null() {
                handle_alloc_error(self.layout());
            }
            match self.initialise {
                Initialise::Zeroes => {}
                Initialise::Old(initialise) => initialise(copy),
                Initialise::From(initialise, original) => initialise(copy, original),
            }
            self.copies[number].store(copy, Ordering::Release);
            copy
        }
    }

    fn layout(&self) -> Layout {
        Layout::from_size_align(self.bytes.max(1), ALIGN).expect("a variable of a program")
    }

    fn has(&self, address: usize) -> bool {
        let mut copies = self.copies.iter().map(|copy| copy.load(Ordering::Acquire).addr());
        copies.any(|copy| copy != 0 && (copy..copy + self.bytes.max(1)).contains(&address))
    }
}

/// Combines a closed group's copies, all its registrations.
///
/// # Safety
/// It was registered with a group that is over; null: nothing was.
pub(super) unsafe fn combine(first: *const Registered) {
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the caller's promise; `register` made it.
        let one = unsafe { Box::from_raw(next.cast_mut()) };
        if one.copies.ended.fetch_add(1, Ordering::AcqRel) + 1 == one.copies.enders {
            for (kind, &shared) in one.copies.kinds.iter().zip(&one.shared) {
                for copy in &kind.copies {
                    let copy = copy.swap(std::ptr::null_mut(), Ordering::AcqRel);
                    if copy.is_null() {
                        continue;
                    }
                    // SAFETY: the compiler's functions, on what they are for; `copy` allocated it so.
                    unsafe {
                        (kind.combine)(shared, copy);
                        if let Some(end) = kind.end {
                            end(copy);
                        }
                        dealloc(copy.cast(), kind.layout());
                    }
                }
            }
        }
        next = if one.shares_group { one.outer } else { std::ptr::null() };
    }
}

/// What compilers describe, in either way: the variables, and how their copies are made.
type Described = (Vec<*mut c_void>, Vec<Kind>);

fn copies_for(threads: usize) -> Box<[AtomicPtr<c_void>]> {
    (0..threads).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect()
}

/// # Safety
/// A compiler made the list.
unsafe fn describe(count: c_int, list: *const Variable) -> Described {
    // SAFETY: the caller's promise.
    let list = unsafe { std::slice::from_raw_parts(list, count.max(0) as usize) };
    let kind = |one: &Variable| {
        let original = if one.original.is_null() { one.shared } else { one.original };
        let initialise =
            one.initialise.map_or(Initialise::Zeroes, |function| Initialise::From(function, original));
        let copies = copies_for(threads());
        Kind { bytes: one.bytes, initialise, end: one.end, combine: one.combine, copies }
    };
    (list.iter().map(|one| one.shared).collect(), list.iter().map(kind).collect())
}

/// # Safety
/// A compiler made the list.
unsafe fn describe_old(count: c_int, list: *const OldVariable) -> Described {
    // SAFETY: the caller's promise.
    let list = unsafe { std::slice::from_raw_parts(list, count.max(0) as usize) };
    let kind = |one: &OldVariable| {
        let initialise = one.initialise.map_or(Initialise::Zeroes, Initialise::Old);
        let copies = copies_for(threads());
        Kind { bytes: one.bytes, initialise, end: one.end, combine: one.combine, copies }
    };
    (list.iter().map(|one| one.shared).collect(), list.iter().map(kind).collect())
}

fn register_alone((shared, kinds): Described) -> *mut c_void {
    register(shared, Arc::new(Copies { kinds, ended: AtomicUsize::new(0), enders: 1 }))
}

/// Registers what all threads of the region share, for the calling one.
fn register_together(is_loop: bool, (shared, kinds): Described) -> *mut c_void {
    let slots = fork::slots().filter(|_| Place::current().is_some());
    let threads = if slots.is_some() { threads() } else { 1 };
    let fresh = || Arc::new(Copies { kinds, ended: AtomicUsize::new(0), enders: threads });
    let copies = match slots {
        Some(slots) => slots.take(is_loop, threads, fresh),
        None => fresh(),
    };
    let made = Registered { outer: innermost(), shares_group: false, shared, copies };
    let made = Box::into_raw(Box::new(made)).cast_const();
    if let Some(slots) = slots {
        slots.of_threads().push(made.expose_provenance());
    }
    TOGETHER.with_borrow_mut(|together| together.push(made));
    made.cast_mut().cast()
}

impl Slots {
    /// Copies that `threads` threads share: the first to come makes them.
    fn take(&self, is_loop: bool, threads: usize, fresh: impl FnOnce() -> Arc<Copies>) -> Arc<Copies> {
        let mut slot = self.copies[usize::from(is_loop)].lock().unwrap_or_else(PoisonError::into_inner);
        let (copies, come) = slot.take().unwrap_or_else(|| (fresh(), 0));
        if come + 1 < threads {
            *slot = Some((Arc::clone(&copies), come + 1));
        }
        copies
    }

    fn of_threads(&self) -> MutexGuard<'_, Vec<usize>> {
        self.of_threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread's copy of what is at `address`, if some thread has registered that for all.
    fn find(&self, address: *mut c_void) -> Option<*mut c_void> {
        let of_threads = self.of_threads();
        let mut all = of_threads.iter().map(|&one| std::ptr::with_exposed_provenance::<Registered>(one));
        // SAFETY: who registered them takes them from the list before they go.
        all.find_map(|one| unsafe { &*one }.find(address))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_taskred_init(_thread: c_int, count: c_int, list: *const Variable) -> *mut c_void {
    // SAFETY: a compiler's list.
    register_alone(unsafe { describe(count, list) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_task_reduction_init(
    _thread: c_int,
    count: c_int,
    list: *const OldVariable,
) -> *mut c_void {
    // SAFETY: a compiler's list.
    register_alone(unsafe { describe_old(count, list) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_taskred_modifier_init(
    _location: Location,
    _thread: c_int,
    is_loop: c_int,
    count: c_int,
    list: *const Variable,
) -> *mut c_void {
    // SAFETY: a compiler's list.
    register_together(is_loop != 0, unsafe { describe(count, list) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_task_reduction_modifier_init(
    _location: Location,
    _thread: c_int,
    is_loop: c_int,
    count: c_int,
    list: *const OldVariable,
) -> *mut c_void {
    // SAFETY: a compiler's list.
    register_together(is_loop != 0, unsafe { describe_old(count, list) })
}

/// The calling thread has come to the end of the region or loop. Barriers lie between, so there is no group: all tasks that it has created,
/// with all that these created, are waited for.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_task_reduction_modifier_fini(
    _location: Location,
    _thread: c_int,
    _is_loop: c_int,
) {
    if let Some(place) = Place::current().filter(|place| place.has_children()) {
        // OpenMP's tasks cannot fail.
        let _ = place.member().context().taskwait();
    }
    let Some(made) = TOGETHER.with_borrow_mut(Vec::pop) else { return };
    if let Some(slots) = fork::slots() {
        slots.of_threads().retain(|&one| one != made.addr());
    }
    // SAFETY: registered by this thread, whose tasks are over; the last to come here knows that all threads' are.
    unsafe { combine(made) };
}

impl Registered {
    /// The calling thread's copy of what is at `address`, or of what that is a copy of.
    fn find(&self, address: *mut c_void) -> Option<*mut c_void> {
        let number = Place::current().map_or(0, Place::number);
        let mut all = self.copies.kinds.iter().zip(&self.shared);
        let found = all.find(|(kind, shared)| **shared == address || kind.has(address.addr()));
        found.map(|(kind, _)| kind.copy(number))
    }
}

/// The calling thread's copy of what lies at `address`, or of what that is a copy of; `from`: the innermost registration that counts, if
/// the compiler's code knows it.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_task_reduction_get_th_data(
    _thread: c_int,
    from: *const Registered,
    address: *mut c_void,
) -> *mut c_void {
    let mut next = if from.is_null() { innermost() } else { from };
    // SAFETY: registrations that are not over.
    while let Some(one) = unsafe { next.as_ref() } {
        if let Some(copy) = one.find(address) {
            return copy;
        }
        next = one.outer;
    }
    fork::slots().and_then(|slots| slots.find(address)).unwrap_or(address)
}
