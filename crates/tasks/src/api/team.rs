//! Teams: tasks on threads that somebody else has started and lends for a while, as an OpenMP library lends those of a parallel
//! region.
//!
//! Each thread becomes a [`Member`]: what it does then is its implicit task, and what that creates are tasks of the team. Members wait
//! in [`Member::barrier`] for each other and for all tasks, and run tasks meanwhile, as they do where a task waits. No thread is started, and none takes
//! another's place: one that waits inside a task runs only what it may on its stack, and leaves the rest to the others.

use crate::api::builder::Builder;
use crate::api::context::Context;
use crate::error::TaskError;
use crate::lifecycle::assembly::Assembly;
use crate::lifecycle::current::Thread;
use crate::lifecycle::execute::{InPlace, begin_in_place, create_sized, end_in_place};
use crate::lifecycle::group::Group;
use crate::lifecycle::shared::Shared;
use crate::lifecycle::task::{Attributes, Task, Verb, flag};
use crate::workers::{Habits, WorkerId, Workers, serve};
use castell_base::sync::{AtomicPtr, spin_hint};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;

/// Looks of a thread that comes to a barrier before it runs tasks, or sleeps: some microseconds.
const MEETING_LOOKS: u32 = 300;

/// Places for lent threads, and the tasks that these run. It can be used for one region after the other.
pub struct Team {
    members: Box<[Member]>,
}

// SAFETY: a member is used by one thread at a time, which its functions demand; what members share is made for several threads.
unsafe impl Send for Team {}
// SAFETY: as above.
unsafe impl Sync for Team {}

/// A lent thread's place in its team.
pub struct Member {
    thread: Thread,
    worker: WorkerId,
    habits: RefCell<Habits>,
    /// It has come to a barrier that is not over.
    has_arrived: Cell<bool>,
    /// How often all had come to a barrier when it came to its last.
    round: Cell<u32>,
    /// Its implicit task's number, if somebody records.
    recorded: Cell<Option<u32>>,
    /// All have come to the end of a region that was cancelled.
    is_finished: Cell<bool>,
}

/// A task whose body runs where it was created: see [`Member::begin_task`].
pub struct BegunTask(InPlace);

impl Builder {
    /// A team of so many lent threads in place of a runtime with threads of its own.
    ///
    /// # Errors
    /// A description that cannot be read.
    pub fn team(self, size: usize) -> Result<Team, TaskError> {
        let shared = self.workers(size).shared(true, None)?;
        let member = |worker| Member {
            thread: Thread::new(&shared, Some(WorkerId(worker))),
            worker: WorkerId(worker),
            habits: RefCell::new(Habits::new(&shared)),
            has_arrived: Cell::new(false),
            round: Cell::new(0),
            recorded: Cell::new(None),
            is_finished: Cell::new(false),
        };
        Ok(Team { members: (0..size as u32).map(member).collect() })
    }
}

impl Team {
    /// How many threads it is for.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Whether the thread with this number takes tasks where it could. If not, it stands aside from its next task boundary on: it sleeps in
    /// barriers, and leaves what it has created to the threads that wait there. Its implicit task goes on, and where no other thread could run what
    /// it waits for, it does. Any thread may call this, at any time, also while the team is in no region.
    ///
    /// # Errors
    /// There is no such thread, or all others stand aside.
    pub fn set_enabled(&self, number: usize, enabled: bool) -> Result<(), TaskError> {
        let shared = &self.members[0].thread.shared;
        let worker = WorkerId(u32::try_from(number).unwrap_or(u32::MAX));
        if enabled { Workers::enable(shared, worker) } else { Workers::disable(shared, worker) }
    }

    /// The place of the thread with this number, from 0.
    ///
    /// # Panics
    /// There is no such number.
    pub fn member(&self, number: usize) -> &Member {
        &self.members[number]
    }

    /// How many tasks were recorded, if the environment asks for that.
    pub fn recorded(&self) -> u32 {
        self.members[0].thread.shared.recorder.as_ref().map_or(0, |recorder| recorder.count())
    }

    /// Writes what the environment asks for of what was recorded (`CASTELL_TASKS_TRACE` and its kin), as a runtime does when it ends. No thread
    /// is in a region of the team.
    pub fn write_recorded(&self) {
        self.members[0].thread.shared.recorder.iter().for_each(|recorder| recorder.finish());
    }

    /// Before another region begins, whose threads are not here yet.
    pub fn renew(&self) {
        let thread = &self.members[0].thread;
        let assembly = thread.shared.assembly();
        assembly.renew();
        if let Some(recorder) = &thread.shared.recorder {
            recorder.begins_region(thread, assembly.rounds());
        }
    }
}

impl Shared {
    #[inline]
    fn assembly(&self) -> &Assembly {
        self.assembly.as_ref().expect("only threads of teams come here")
    }
}

impl Member {
    /// The calling thread becomes this member and begins its implicit task.
    ///
    /// # Safety
    /// No other thread is this member, until it has [left](Member::leave). All members of the team come, and go together, by
    /// [`Member::last_barrier`].
    pub unsafe fn enter(&self) {
        let outer = Thread::current();
        std::mem::forget(self.thread.enter());
        outer.into_iter().for_each(|outer| self.thread.take_over_processor(outer));
        self.go_on();
        self.begin_implicit_task();
    }

    /// The calling thread does what the program wants, for which it needs a processor if [programs share them](Builder::share): it sleeps until it has
    /// one. It may have none after [`Member::barrier`] and [`Member::stand_back`].
    #[inline]
    pub fn go_on(&self) {
        self.thread.ensure_processor();
    }

    /// The calling thread is about to wait for others by means that are not the runtime's: until it [goes on](Member::go_on) its processor is for
    /// others, if programs share them.
    pub fn stand_back(&self) {
        self.thread.give_processor();
    }

    /// The calling thread, which is this member, is it no more.
    ///
    /// # Safety
    /// It has passed [`Member::last_barrier`], and [left](Member::leave) what it entered later.
    pub unsafe fn leave(&self) {
        self.thread.exit();
        match Thread::current() {
            Some(outer) => outer.take_over_processor(&self.thread),
            None => self.thread.give_processor(),
        }
    }

    /// The thread's number in its team.
    pub fn number(&self) -> usize {
        self.worker.index()
    }

    /// What the task on top of this thread's stack can ask for.
    #[inline]
    pub fn context(&self) -> Context<'_> {
        Context::of(&self.thread)
    }

    /// Waits until all members have come and all tasks are done, and runs tasks meanwhile. Then another implicit task begins.
    ///
    /// If the region is [cancelled](Member::cancel), it returns false, early if it `yields` to that: the member goes to the region's end then, and
    /// creates no tasks on the way.
    ///
    /// # Safety
    /// The calling thread is this member, and in its implicit task.
    pub unsafe fn barrier(&self, yields: bool) -> bool {
        let groups = self.thread.group.get();
        let goes_on = self.assemble(yields) && !self.is_finished.get();
        if goes_on {
            self.begin_implicit_task();
            // SAFETY: they are this member's, and all tasks are done.
            unsafe { Group::begin_again(groups) };
            self.thread.group.set(groups);
        }
        goes_on
    }

    /// As [`Member::barrier`], at the end of a region: no other implicit task begins.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn last_barrier(&self) {
        if !self.is_finished.get() {
            self.assemble(false);
        }
        self.is_finished.set(false);
    }

    /// The region is cancelled: who waits in a barrier that yields to that goes on, and this member goes to the region's end.
    pub fn cancel(&self) {
        let shared = &self.thread.shared;
        shared.assembly().cancel();
        shared.beckon_all();
    }

    /// Whether it is.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.thread.shared.assembly().is_cancelled()
    }

    /// Notes something that all members are to know when they have met next: what, the caller knows.
    pub fn note(&self) {
        self.thread.shared.assembly().note();
    }

    /// Whether something was [noted](Member::note) between the last barrier that this member has passed and the one before: all members hear the same.
    pub fn was_noted(&self) -> bool {
        self.thread.shared.assembly().was_noted(self.round.get())
    }

    /// False if the region was cancelled before all had come.
    fn assemble(&self, yields: bool) -> bool {
        let shared = &self.thread.shared;
        let assembly = shared.assembly();
        if !self.has_arrived.replace(true) {
            self.round.set(assembly.rounds()); // it cannot change before this one has come
            if let (Some(recorder), Some(task)) = (&self.thread.shared.recorder, self.recorded.take()) {
                recorder.ended(&self.thread, task);
            }
            end_in_place(&self.thread);
        }
        self.thread.tell_ended();
        match self.meets_soon(assembly, yields) {
            Some(true) => {}
            Some(false) => return false,
            None if assembly.goes_away(self.round.get()) => {
                let have_met = self.serve_until_met(assembly, yields);
                assembly.comes_back();
                if !have_met {
                    return false;
                }
            }
            None => {}
        }
        self.has_arrived.set(false);
        self.is_finished.set(assembly.was_last(self.round.get()));
        true
    }

    /// Usually all come soon, and nobody has a task: then nobody need say that it has nothing to do, or be told that all have come. `None` if it
    /// is not so; false if the region was cancelled before, and this member `yields` to that.
    fn meets_soon(&self, assembly: &Assembly, yields: bool) -> Option<bool> {
        let Shared { workers, scheduler, .. } = &*self.thread.shared;
        let have_met = || assembly.rounds() != self.round.get();
        let looks = if workers.may_spin_long() && !self.thread.lacks_processor() { MEETING_LOOKS } else { 0 };
        for _ in 0..looks {
            if have_met() {
                return Some(true);
            }
            // Often it hears so late of the barrier before, from which it came back by itself.
            if workers.was_beckoned(self.worker) && yields && assembly.is_cancelled() {
                return Some(false);
            }
            if workers.is_wanted(self.worker) || scheduler.has_work(self.worker) {
                break;
            }
            spin_hint();
        }
        have_met().then_some(true)
    }

    /// Runs tasks until all have come; false if the region was cancelled before, and this member `yields` to that.
    fn serve_until_met(&self, assembly: &Assembly, yields: bool) -> bool {
        let shared = &self.thread.shared;
        let mut free = None;
        while assembly.rounds() == self.round.get() {
            if shared.workers.was_beckoned(self.worker) {
                if yields && assembly.is_cancelled() {
                    shared.scheduler.leave(self.worker);
                    return false;
                }
            } else if self.thread.is_taken_away() {
                // What it holds is for others; it comes back when it is given back, and to leave the barrier.
                free = None;
                self.thread.tell_ended();
                shared.scheduler.clear(self.worker);
                self.thread.give_processor();
                shared.workers.stand_aside(self.worker);
            } else {
                free.get_or_insert_with(|| shared.workers.aside().free());
                serve(&self.thread, self.worker, &mut self.habits.borrow_mut());
            }
        }
        self.thread.tell_ended();
        shared.scheduler.leave(self.worker);
        true
    }

    fn begin_implicit_task(&self) {
        let attributes = Attributes { label: "implicit", flags: flag::ROOT, ..Attributes::NONE };
        // SAFETY: a root without accesses, and nothing behind its header, is begun here.
        unsafe {
            let task = create_sized(&self.thread, std::ptr::null(), attributes, 0, 0, 1, nothing);
            begin_in_place(&self.thread, task);
            if let Some(recorder) = &self.thread.shared.recorder {
                recorder.created(&self.thread, task.as_ref(), &[]);
                self.recorded.set(recorder.began(&self.thread, task.as_ref()));
            }
        }
    }

    /// Begins a task without accesses, as a child of the current one: the calling thread goes on in its body, until [`Member::end_task`].
    ///
    /// # Safety
    /// The calling thread is this member, and in a task.
    pub unsafe fn begin_task(&self, attributes: Attributes) -> BegunTask {
        let thread = &self.thread;
        // SAFETY: nothing lies behind its header, and nobody else sees it.
        unsafe {
            let task = create_sized(thread, thread.task.get(), attributes, 0, 0, 1, nothing);
            if let Some(recorder) = &thread.shared.recorder {
                recorder.created(thread, task.as_ref(), &[]);
                recorder.waits_for(thread, task.as_ref());
                recorder.began(thread, task.as_ref());
            }
            BegunTask(InPlace::begin(thread, task))
        }
    }

    /// The body of a task that this member has begun is over; what it has created may outlast it.
    ///
    /// # Safety
    /// The calling thread is this member, and has ended what it began later.
    pub unsafe fn end_task(&self, begun: BegunTask) {
        let recorder = self.thread.shared.recorder.as_ref();
        recorder.inspect(|recorder| recorder.ended_in_place(&self.thread, begun.0.task()));
        // SAFETY: the caller's promise.
        unsafe { begun.0.end(&self.thread) };
        recorder.inspect(|recorder| recorder.goes_on(&self.thread));
    }

    /// How many tasks lie in this member's own queue; 0 where members have none.
    #[inline]
    pub fn queued(&self) -> usize {
        self.thread.leaf().map_or(0, |leaf| leaf.len())
    }

    /// Whether a group around this point was cancelled.
    #[inline]
    pub fn is_group_cancelled(&self) -> bool {
        // SAFETY: a group outlives the tasks in it, and the body that opened it.
        unsafe { self.thread.group.get().as_ref() }.is_some_and(Group::is_cancelled)
    }

    /// Opens a group: what the current task creates until [`Member::close_group`] is waited for there.
    ///
    /// # Safety
    /// The calling thread is this member; the task that opens a group closes it.
    pub unsafe fn open_group(&self) {
        if !self.thread.task.get().is_null() {
            Group::open(&self.thread);
        }
    }

    /// Waits for the tasks of the group that was opened last, and closes it. On the way to the end of a cancelled region there are no
    /// groups.
    ///
    /// # Safety
    /// As for [`Member::open_group`].
    pub unsafe fn close_group(&self) {
        if !self.thread.group.get().is_null() {
            // SAFETY: the caller's promise.
            unsafe { Group::close(&self.thread) };
        }
    }

    /// Cancels the group around this point inside of which `inner` others are open, as [`Context::cancel`] does the innermost.
    pub fn cancel_group(&self, inner: usize) {
        self.groups().nth(inner).inspect(|group| group.cancel());
    }

    /// What is kept with the innermost group, for all tasks in it; `None`: no group is open.
    pub fn companion(&self) -> Option<&AtomicPtr<c_void>> {
        self.companions().next()
    }

    /// What is kept with the groups around this point, from the innermost outward.
    pub fn companions(&self) -> impl Iterator<Item = &AtomicPtr<c_void>> {
        self.groups().map(|group| &group.companion)
    }

    /// From the innermost outward.
    fn groups(&self) -> impl Iterator<Item = &Group> {
        // SAFETY: a group outlives the tasks in it and the groups inside it.
        let first = unsafe { self.thread.group.get().as_ref() };
        // SAFETY: as above.
        std::iter::successors(first, |group| unsafe { group.outer.as_ref() })
    }

    /// Whether the task on top of this thread's stack is another than its implicit one.
    pub fn is_in_explicit_task(&self) -> bool {
        // SAFETY: a body is running, so its task is alive.
        unsafe { self.thread.task.get().as_ref() }.is_some_and(|task| task.parent().is_some())
    }

    /// The threads of the team.
    pub fn team_size(&self) -> usize {
        self.thread.shared.workers.count()
    }
}

unsafe fn nothing(_: &Thread, _: &Task, _: Verb) {}
