//! What a thread is in the innermost parallel region, and the tasks that run on it where they were created.
//!
//! A task that its creator runs at once (`if`, `final`, or because plenty of others wait) mostly creates nothing and waits for nothing.
//! So it begins as a few words on the stack, and becomes a task of the runtime's when it does something that needs one:
//!
//! | state | what lies below it | its body |
//! |---|---|---|
//! | bare: in the list of [`Place`] | the runtime's current task, maybe with other bare tasks between | has created nothing |
//! | made: the runtime's task is there | others that are made | has created or opened something, or is below one that has |
//!
//! All bare tasks lie on top of the runtime's current task, so they are made together, from the outermost on.

use castell_tasks::task::{Attributes, flag};
use castell_tasks::{BegunTask, Member};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a thread is in the innermost region.
pub(crate) struct Place<'a> {
    member: &'a Member,
    /// Somebody wants to know what tasks do: then all of them are the runtime's.
    is_watched: bool,
    /// The only thread of its team: nobody could take a task from it.
    is_alone: bool,
    /// How many tasks lie one in the other here that run where they were created.
    depth: Cell<u32>,
    /// The innermost bare task; null if the current task is the runtime's.
    bare: Cell<*const Undeferred>,
}

/// A task that runs where it was created.
struct Undeferred {
    is_final: bool,
    outer: *const Undeferred,
    made: Cell<Option<BegunTask>>,
}

impl<'a> Place<'a> {
    /// The calling thread's, while it is that member.
    pub(crate) fn new(member: &'a Member) -> Place<'a> {
        Place {
            member,
            is_watched: member.context().is_watched(),
            is_alone: member.team_size() == 1,
            depth: Cell::new(0),
            bare: Cell::new(std::ptr::null()),
        }
    }

    /// The calling thread's; `None` outside of parallel regions.
    #[inline]
    pub(crate) fn current<'b>() -> Option<&'b Place<'b>> {
        // SAFETY: set while what it points to is on this thread's stack.
        unsafe { of_thread::get().as_ref() }
    }

    /// Makes `place` what [`Place::current`] finds, for [`Place::set`] to put back what this returns.
    pub(crate) fn replace(place: Option<&Place<'_>>) -> *const Place<'static> {
        let outer = of_thread::get();
        of_thread::set(place.map_or(std::ptr::null(), |place| std::ptr::from_ref(place).cast()));
        outer
    }

    /// See [`Place::replace`].
    pub(crate) fn set(place: *const Place<'static>) {
        of_thread::set(place);
    }

    /// The member, with all tasks of its stack made: for what creates, opens and waits.
    #[inline]
    pub(crate) fn member(&self) -> &'a Member {
        if !self.bare.get().is_null() {
            self.make(self.bare.replace(std::ptr::null()));
        }
        self.member
    }

    /// From the outermost on.
    #[cold]
    fn make(&self, bare: *const Undeferred) {
        // SAFETY: bare tasks are on this thread's stack until their bodies have returned.
        let Some(task) = (unsafe { bare.as_ref() }) else { return };
        self.make(task.outer);
        let is_final = if task.is_final { flag::FINAL } else { 0 };
        let attributes = Attributes { label: "omp task", flags: flag::APART | is_final, ..Attributes::NONE };
        // SAFETY: this thread is the member, in the task that was made last.
        task.made.set(Some(unsafe { self.member.begin_task(attributes) }));
    }

    /// Whether a task without dependences and events runs where it is created: it is to, nobody else could run it, or so many that were created
    /// here wait to be run that another is better not added, unless it `has_priority`.
    #[inline]
    pub(crate) fn runs_at_once(&self, is_deferred: bool, has_priority: bool) -> bool {
        !self.is_watched
            && (!is_deferred || self.is_final() || !has_priority && (self.runs_alone() || self.has_plenty()))
    }

    /// Not where that would need ever more of the stack, as in tasks each of which creates the next one.
    #[inline]
    fn runs_alone(&self) -> bool {
        self.is_alone && self.depth.get() < DEPTH_MAX
    }

    #[inline]
    fn has_plenty(&self) -> bool {
        let queued = self.member.queued();
        queued >= PLENTY && queued >= (PLENTY * self.member.team_size()).min(PLENTY_MAX) && throttles()
    }

    /// Runs `body` as a task, at once; not if it is cancelled.
    #[inline]
    pub(crate) fn run(&self, is_final: bool, body: impl FnOnce()) {
        if self.is_cancelled() {
            return;
        }
        let outer = self.bare.get();
        let is_final = is_final || self.is_final();
        let task = Undeferred { is_final, outer, made: Cell::new(None) };
        self.bare.set(&task);
        self.depth.set(self.depth.get() + 1);
        body();
        self.depth.set(self.depth.get() - 1);
        match task.made.take() {
            None => self.bare.set(outer),
            // SAFETY: begun on this thread, and all that ran in it has returned.
            Some(begun) => unsafe { self.member.end_task(begun) },
        }
        self.go_on(); // a task boundary like any other
    }

    /// Whether the current task is final.
    #[inline]
    pub(crate) fn is_final(&self) -> bool {
        // SAFETY: bare tasks are on this thread's stack until their bodies have returned.
        let bare = unsafe { self.bare.get().as_ref() };
        bare.map_or_else(|| self.member.context().is_final(), |task| task.is_final)
    }

    /// Whether the current task may have children.
    #[inline]
    pub(crate) fn has_children(&self) -> bool {
        self.bare.get().is_null()
    }

    /// Whether the current task is another than the thread's implicit one.
    pub(crate) fn is_in_explicit_task(&self) -> bool {
        !self.bare.get().is_null() || self.member.is_in_explicit_task()
    }

    /// Whether a task ends at a cancellation point here.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_region_cancelled() || self.member.is_group_cancelled()
    }

    /// Whether the region is cancelled.
    pub(crate) fn is_region_cancelled(&self) -> bool {
        self.member.is_cancelled()
    }

    /// Cancels the innermost group of tasks that the program has opened.
    pub(crate) fn cancel_group(&self) {
        let is_ours = |companion: &&AtomicPtr<c_void>| companion.load(Ordering::Acquire).addr() & OURS != 0;
        self.member.cancel_group(self.companions().take_while(is_ours).count());
    }

    /// Cancels the region.
    pub(crate) fn cancel_region(&self) {
        self.member.cancel();
    }

    /// The library below has something to do at the region's next barrier: it runs tasks of its own, or forgets that a loop was cancelled.
    pub(crate) fn want_below(&self) {
        self.member.note();
    }

    /// Whether that was so at the barrier that the thread has just passed: the same for all threads.
    pub(crate) fn is_wanted_below(&self) -> bool {
        self.member.was_noted()
    }

    /// The thread goes on with what the program wants: it sleeps until it has a processor, if programs share them.
    #[inline]
    pub(crate) fn go_on(&self) {
        self.member.go_on();
    }

    /// The thread is about to wait in the library below, until it [goes on](Place::go_on).
    pub(crate) fn stand_back(&self) {
        self.member.stand_back();
    }

    /// The threads of the team.
    pub(crate) fn team_size(&self) -> usize {
        self.member.team_size()
    }

    /// The thread's number in its team.
    pub(crate) fn number(&self) -> usize {
        self.member.number()
    }

    /// What is kept with the innermost group of tasks.
    pub(crate) fn companion(&self) -> Option<&AtomicPtr<c_void>> {
        self.companions().next()
    }

    /// What is kept with the groups of tasks around this point, from the innermost outward.
    pub(crate) fn companions(&self) -> impl Iterator<Item = &AtomicPtr<c_void>> {
        self.member.companions()
    }
}

/// Whether there may be too many tasks: not if the user has said so to libomp, since tasks may wait for the one that creates them.
#[cold]
pub(crate) fn throttles() -> bool {
    static THROTTLES: OnceLock<bool> = OnceLock::new();
    *THROTTLES.get_or_init(|| {
        let said = std::env::var("KMP_ENABLE_TASK_THROTTLING").unwrap_or_default().trim().to_lowercase();
        !["0", "false", "f", ".false.", ".f.", "off", "no", "n", "disabled"].contains(&said.as_str())
    })
}

/// In what is kept with a group: the program knows nothing of it, see `shared_work`.
pub(crate) const OURS: usize = 1;
/// So many tasks one in the other run where they were created because their thread is alone.
const DEPTH_MAX: u32 = 64;
/// Queued tasks a thread of the team, from which on a thread runs what it creates.
const PLENTY: usize = 64;
/// A queue that is longer than that passes tasks on.
const PLENTY_MAX: usize = 192;

/// A thread's [`Place`], which each call of the interface asks for. What a compiler makes of a thread's variable in a library that may come late
/// is a call, which takes a third as long as all else that a task costs which runs at once; this one lies where threads have theirs from the
/// start, as those of libgomp do.
#[cfg(target_arch = "x86_64")]
mod of_thread {
    use super::Place;
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.castell_omp_place,\"awT\",@nobits",
        ".p2align 3",
        ".globl castell_omp_place",
        ".hidden castell_omp_place",
        ".type castell_omp_place,@object",
        ".size castell_omp_place,8",
        "castell_omp_place:",
        ".zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub(super) fn get() -> *const Place<'static> {
        let place;
        // SAFETY: a word of this thread's, null at first.
        unsafe {
            asm!(
                "mov {0}, qword ptr [rip + castell_omp_place@GOTTPOFF]",
                "mov {0}, qword ptr fs:[{0}]",
                out(reg) place,
                options(readonly, nostack, preserves_flags),
            );
        }
        place
    }

    pub(super) fn set(place: *const Place<'static>) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "mov {1}, qword ptr [rip + castell_omp_place@GOTTPOFF]",
                "mov qword ptr fs:[{1}], {0}",
                in(reg) place,
                out(reg) _,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod of_thread {
    use super::Place;
    use std::cell::Cell;

    thread_local! {
        static PLACE: Cell<*const Place<'static>> = const { Cell::new(std::ptr::null()) };
    }

    pub(super) fn get() -> *const Place<'static> {
        PLACE.get()
    }

    pub(super) fn set(place: *const Place<'static>) {
        PLACE.set(place);
    }
}
