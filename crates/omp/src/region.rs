//! Parallel regions. libgomp starts the threads and numbers them; each passes through [`run`] on its way into the program's function,
//! and becomes a member of a team of castell's there. Before it returns, all have met, and no task is left.

use crate::Body;
use crate::below;
use crate::cpus;
use crate::place::{Place, throttles};
use crate::serial;
use castell_tasks::{Limits, Runtime, Team};
use std::cell::{Cell, RefCell};
use std::ffi::{c_long, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};

/// A parallel region, on the stack of the thread that came to it.
struct Region {
    body: Body,
    data: *mut c_void,
    crew: Crew,
}

/// The threads of a region, whoever started them.
pub(crate) struct Crew {
    /// One of the size that the last region of the thread that came to this one had: nobody waits for it.
    expected: Option<Arc<Team>>,
    /// Found by the first of them, if there are more or fewer: only inside is that known. `None`: there could be no team.
    team: OnceLock<Option<Arc<Team>>>,
}

thread_local! {
    /// The places that were left for regions of which this library sees only beginning and end.
    static LEFT: RefCell<Vec<*const Place<'static>>> = const { RefCell::new(Vec::new()) };
    /// The place of a thread that is a team of its own outside of regions.
    static ALONE: Cell<*const Place<'static>> = const { Cell::new(std::ptr::null()) };
    /// How many threads the last region had that this thread came to.
    static LAST_SIZE: Cell<usize> = const { Cell::new(0) };
}

/// What a thread of the region does instead of the program's function.
unsafe extern "C" fn run(region: *mut c_void) {
    // SAFETY: `enter` passes the region, which outlives its threads' part in it.
    let region = unsafe { &*region.cast::<Region>() };
    // SAFETY: the thread is in a parallel region.
    let (threads, number) = unsafe { (below::omp_get_num_threads(), below::omp_get_thread_num()) };
    // SAFETY: libgomp numbers the threads of a team, all of which come here; the body is called as libgomp would have called it.
    unsafe {
        region.crew.run(threads.max(1) as usize, number as usize, || (region.body)(region.data));
    }
}

impl Crew {
    pub(crate) fn new() -> Crew {
        Crew { expected: take_kept(LAST_SIZE.get()), team: OnceLock::new() }
    }

    /// One of `threads` threads, the one with this number, does its part of the region.
    ///
    /// # Safety
    /// All come, each with a number of its own.
    pub(crate) unsafe fn run(&self, threads: usize, number: usize, body: impl FnOnce()) {
        let expected = self.expected.as_ref().filter(|team| team.size() == threads);
        let Some(team) = expected.or_else(|| self.team.get_or_init(|| take_team(threads)).as_ref()) else {
            return body();
        };
        let member = team.member(number);
        let place = Place::new(member);
        let outer = Place::replace(Some(&place));
        // SAFETY: the caller's promise; no other region uses this team now.
        unsafe {
            member.enter();
            body();
            member.last_barrier();
            member.leave();
        }
        Place::set(outer);
    }

    /// The region is over: its team is free for another.
    pub(crate) fn end(self) {
        let found = self.team.into_inner().flatten();
        if let Some(team) = found.as_ref().or(self.expected.as_ref()) {
            LAST_SIZE.set(team.size());
        }
        found.into_iter().chain(self.expected).for_each(give_back);
    }
}

/// The calling thread goes into a region of which this library sees only beginning and end.
pub(crate) fn step_out() {
    LEFT.with_borrow_mut(|left| left.push(Place::replace(None)));
}

/// It comes back from there.
pub(crate) fn step_back() {
    LEFT.with_borrow_mut(|left| left.pop().into_iter().for_each(Place::set));
}

/// The calling thread, which is outside of regions and about to create a task that waits for an event, is a team of its own from here on, as the
/// standard says of it: that task is waited for where the program waits, and what depends on it comes later. `None`: inside a task or a group
/// that began before, and in a region that this library does not see, where the event is waited for at once.
pub(crate) fn alone() -> Option<&'static Place<'static>> {
    if serial::is_in_task() || serial::is_in_group() || LEFT.with_borrow(|left| !left.is_empty()) {
        return None;
    }
    static WATCHES_FORKS: Once = Once::new();
    // Without memory for the handler a child finds what its parent had begun.
    WATCHES_FORKS.call_once(|| drop(castell_host::process::after_forks(leave_in_child)));
    // Few threads do this. What they have for it lasts as long as the process.
    let team: &'static Team = Box::leak(Box::new(new_team(1, false)?));
    let place: &'static Place<'static> = Box::leak(Box::new(Place::new(team.member(0))));
    // SAFETY: no other thread has this team.
    unsafe { team.member(0).enter() };
    Place::set(place);
    ALONE.set(place);
    Some(place)
}

/// In the child of a fork others will not fulfil what its parent waited for: it is outside of regions.
extern "C" fn leave_in_child() {
    let place = ALONE.replace(std::ptr::null());
    if !place.is_null() && Place::current().is_some_and(|current| std::ptr::addr_eq(current, place)) {
        Place::set(std::ptr::null());
    }
}

/// Passes a region to libgomp by `start`, with [`run`] in place of the program's function.
fn enter<R>(body: Body, data: *mut c_void, start: impl FnOnce(Body, *mut c_void) -> R) -> R {
    let region = Region { body, data, crew: Crew::new() };
    let result = start(run, (&raw const region).cast_mut().cast());
    region.crew.end();
    go_on_outside();
    result
}

/// The calling thread is behind a region that it had come to, perhaps inside of another one.
pub(crate) fn go_on_outside() {
    Place::current().inspect(|place| place.go_on());
}

/// Teams that no region uses, and the process whose they are: in a fork their queues may be in any state.
static TEAMS: Mutex<(u32, Vec<Arc<Team>>)> = Mutex::new((0, Vec::new()));
/// How many are kept.
const TEAMS_MAX: usize = 64;

fn take_team(size: usize) -> Option<Arc<Team>> {
    take_kept(size).or_else(|| {
        // SAFETY: a query without arguments.
        let usual = || unsafe { below::omp_get_max_threads() }.max(1) as usize;
        let team = Arc::new(new_team(size, true)?);
        cpus::join(&team, usual);
        team.renew();
        Some(team)
    })
}

/// One that an earlier region had.
fn take_kept(size: usize) -> Option<Arc<Team>> {
    let mut teams = TEAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if teams.0 != process {
        // Never dropped: another process's threads may have been in the middle of them.
        std::mem::forget(std::mem::replace(&mut *teams, (process, Vec::new())));
    }
    let kept = teams.1.iter().rposition(|team| team.size() == size)?;
    let team = teams.1.swap_remove(kept);
    drop(teams);
    team.renew();
    Some(team)
}

fn give_back(team: Arc<Team>) {
    let mut teams = TEAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if teams.0 == std::process::id() && teams.1.len() < TEAMS_MAX {
        teams.1.push(team);
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;

/// The process ends.
extern "C" fn finish() {
    cpus::end();
    write_recorded();
    leave_board();
}

/// What the process has on the node's board goes with its last team.
fn leave_board() {
    if let Ok(mut teams) = TEAMS.try_lock()
        && teams.0 == std::process::id()
    {
        teams.1.clear();
    }
}

/// What was recorded is written, of the team that ran most tasks.
fn write_recorded() {
    let Ok(teams) = TEAMS.try_lock() else { return };
    if teams.0 != std::process::id() {
        return; // a fork's copy
    }
    let recorded: u32 = teams.1.iter().map(|team| team.recorded()).sum();
    let Some(largest) = teams.1.iter().max_by_key(|team| team.recorded()) else { return };
    if recorded > largest.recorded() {
        castell_host::say(&format!(
            "{} of {recorded} tasks are in what is written: those of regions of {} threads",
            largest.recorded(),
            largest.size()
        ));
    }
    largest.write_recorded();
}

/// Without one, tasks run where they are created. It `shares` processors with other programs if the user wants that.
fn new_team(size: usize, shares: bool) -> Option<Team> {
    let limits = Limits { hard: u64::MAX, ..Limits::for_workers(size) };
    let limits = if throttles() { limits } else { Limits { high: u64::MAX, ..limits } };
    // SAFETY: a query without arguments.
    let is_bound = unsafe { below::omp_get_proc_bind() } != 0;
    let mut builder = Runtime::builder().limits(limits).bind(is_bound);
    if !shares {
        builder = builder.share(false);
    }
    // SAFETY: a query without arguments.
    if unsafe { below::omp_get_max_task_priority() } > 0
        && std::env::var_os("CASTELL_TASKS_SCHEDULER").is_none()
    {
        builder = builder.scheduler("tree:priority");
    }
    let team = builder.team(size);
    team.inspect_err(|error| {
        static TOLD: AtomicBool = AtomicBool::new(false);
        if !TOLD.swap(true, Ordering::Relaxed) {
            eprintln!("castell: OpenMP tasks run where they are created: {error}");
        }
    })
    .ok()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel(body: Body, data: *mut c_void, threads: c_uint, flags: c_uint) {
    // SAFETY: the caller's arguments, passed on.
    enter(body, data, |body, data| unsafe { below::GOMP_parallel(body, data, threads, flags) });
}

/// The first word of `data` is what libgomp registers; so it goes on as the region's first word, too.
#[repr(C)]
struct WithReductions {
    reductions: *mut c_void,
    region: *mut c_void,
}

unsafe extern "C" fn run_with_reductions(data: *mut c_void) {
    // SAFETY: `GOMP_parallel_reductions` passes it.
    unsafe { run((*data.cast::<WithReductions>()).region) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel_reductions(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    flags: c_uint,
) -> c_uint {
    enter(body, data, |_, region| {
        // SAFETY: the caller's arguments, passed on.
        unsafe {
            let mut both = WithReductions { reductions: *data.cast::<*mut c_void>(), region };
            below::GOMP_parallel_reductions(run_with_reductions, (&raw mut both).cast(), threads, flags)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel_sections(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    count: c_uint,
    flags: c_uint,
) {
    // SAFETY: the caller's arguments, passed on.
    enter(body, data, |body, data| unsafe {
        below::GOMP_parallel_sections(body, data, threads, count, flags)
    });
}

macro_rules! parallel_loops {
    ($($name:ident($($more:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long, $($more: $type),*) {
            // SAFETY: the caller's arguments, passed on.
            enter(body, data, |body, data| unsafe { below::$name(body, data, threads, start, end, step, $($more),*) });
        }
    )*};
}

parallel_loops! {
    GOMP_parallel_loop_static(chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_dynamic(chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_guided(chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_dynamic(chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_guided(chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_runtime(flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_runtime(flags: c_uint);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime(flags: c_uint);
}

/// Programs of compilers before GCC 4.9 call the body of a region themselves. Their threads are no members, so tasks run at once; the
/// one that came to the region is no longer a member of the region around it.
macro_rules! old_regions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(body: Body, data: *mut c_void, threads: c_uint, $($argument: $type),*) {
            step_out();
            // SAFETY: the caller's arguments, passed on.
            unsafe { below::$name(body, data, threads, $($argument),*) };
        }
    )*};
}

old_regions! {
    GOMP_parallel_start();
    GOMP_parallel_sections_start(count: c_uint);
    GOMP_parallel_loop_static_start(start: c_long, end: c_long, step: c_long, chunk: c_long);
    GOMP_parallel_loop_dynamic_start(start: c_long, end: c_long, step: c_long, chunk: c_long);
    GOMP_parallel_loop_guided_start(start: c_long, end: c_long, step: c_long, chunk: c_long);
    GOMP_parallel_loop_runtime_start(start: c_long, end: c_long, step: c_long);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel_end() {
    // SAFETY: passed on.
    unsafe { below::GOMP_parallel_end() };
    step_back();
}
