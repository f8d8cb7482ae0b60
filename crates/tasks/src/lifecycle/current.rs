//! The calling thread, as the runtime sees it.

use crate::lifecycle::children::{Left, Sleeper};
use crate::lifecycle::counts::Counters;
use crate::lifecycle::execute::finish_for_last;
use crate::lifecycle::grants::Place;
use crate::lifecycle::group::Group;
use crate::lifecycle::shared::Shared;
use crate::lifecycle::task::Task;
use crate::memory::Stacks;
use crate::scheduler::Leaf;
use crate::workers::share::NOTHING;
use crate::workers::{Taken, WorkerId};
use castell_base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    static CURRENT: Cell<*const Thread> = const { Cell::new(std::ptr::null()) };
}

/// For threads that are no workers.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A thread that runs or creates tasks.
pub struct Thread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: Cell<Option<WorkerId>>,
    /// The task whose body is on top of the stack; null on a worker between tasks.
    pub(crate) task: Cell<*const Task>,
    /// The innermost group that is open on top of the stack, or in which that task was created.
    pub(crate) group: Cell<*const Group>,
    /// What a worker's thread counts; others share one.
    pub(crate) counters: Option<Arc<Counters>>,
    /// See [`Thread::has_grown`].
    fewest: Cell<i64>,
    /// Its worker's own queue; null if it is none, or if the scheduler has no such queues.
    leaf: Cell<*const Leaf<Task>>,
    /// Whether its worker is taken away; what never says so if it is none.
    taken_away: Cell<*const AtomicBool>,
    /// What holds `turn` as long as the thread may go on: of its worker's processor, if workers need one of the node's board.
    processor: Cell<*const AtomicU64>,
    turn: Cell<u64>,
    /// Its worker's free chunks; null if it is none, or if they come from the system.
    stacks: Cell<*mut Stacks>,
    /// Of which task children have ended on this thread without its having heard of them, and how many: see
    /// [`Thread::child_ended`].
    ended_of: Cell<*const Task>,
    ended: Cell<i64>,
    /// The body of that task is awake on another thread, or was when the first of them ended.
    ended_abroad: Cell<bool>,
    /// How many accesses these children had.
    ended_accesses: Cell<u64>,
    /// How many children of bodies that were awake on other threads have ended here.
    foreign: Cell<Taken>,
    /// In the debug mode: what the body on top of the stack did without having declared it.
    pub(crate) undeclared: Cell<Option<Undeclared>>,
    /// The word on which this thread sleeps while its task waits.
    bell: AtomicU32,
    outer: Cell<*const Thread>,
    /// What the node's daemon has granted to tasks on this thread's stack.
    places: RefCell<Vec<Arc<Place>>>,
}

/// What a body did without having declared it: where, and whether it wrote.
#[derive(Clone, Copy)]
pub(crate) struct Undeclared {
    pub(crate) address: usize,
    pub(crate) writes: bool,
}

impl Thread {
    /// A thread of `shared`; `worker` if it is one of its workers.
    pub(crate) fn new(shared: &Arc<Shared>, worker: Option<WorkerId>) -> Thread {
        let thread = Thread {
            shared: Arc::clone(shared),
            worker: Cell::new(None),
            task: Cell::new(std::ptr::null()),
            group: Cell::new(std::ptr::null()),
            counters: worker.map(|_| shared.counts.register()),
            fewest: Cell::new(0),
            leaf: Cell::new(std::ptr::null()),
            taken_away: Cell::new(&raw const NEVER),
            processor: Cell::new(&raw const NOTHING),
            turn: Cell::new(0),
            stacks: Cell::new(std::ptr::null_mut()),
            ended_of: Cell::new(std::ptr::null()),
            ended: Cell::new(0),
            ended_abroad: Cell::new(false),
            ended_accesses: Cell::new(0),
            foreign: Cell::new(Taken::default()),
            undeclared: Cell::new(None),
            bell: AtomicU32::new(0),
            outer: Cell::new(std::ptr::null()),
            places: RefCell::default(),
        };
        thread.set_worker(worker);
        thread
    }

    /// Says which worker it is from now on.
    #[inline]
    pub(crate) fn set_worker(&self, worker: Option<WorkerId>) {
        self.worker.set(worker);
        // Nobody takes a lent thread's worker away: its flag says something else.
        self.taken_away.set(worker.map_or(&raw const NEVER, |worker| self.shared.workers.flag_of(worker)));
        self.leaf.set(worker.map_or(std::ptr::null(), |worker| self.shared.scheduler.leaf(worker)));
        self.stacks.set(worker.map_or(std::ptr::null_mut(), |worker| self.shared.memory.stacks(worker)));
        self.see_processor();
    }

    /// Its worker has another processor, or none.
    fn see_processor(&self) {
        let sign = self.worker.get().and_then(|worker| self.shared.workers.processor_sign(worker));
        let (processor, turn) = sign.unwrap_or((&raw const NOTHING, 0));
        self.processor.set(processor);
        self.turn.set(turn);
    }

    /// Whether it has to see to it that its worker has a processor before it goes on: it has none, or that is wanted back.
    #[inline]
    pub(crate) fn lacks_processor(&self) -> bool {
        // SAFETY: a word of the board, which is mapped as long as what threads share lives, or `NOTHING`.
        unsafe { &*self.processor.get() }.load(Ordering::Relaxed) != self.turn.get()
    }

    /// Gets its worker a processor; false if there is none.
    #[cold]
    pub(crate) fn try_get_processor(&self) -> bool {
        let (Some(worker), Some(share)) = (self.worker.get(), self.shared.workers.share()) else {
            return true;
        };
        let has_one = share.try_take(worker);
        self.see_processor();
        has_one
    }

    /// Gets its worker a processor, and sleeps until there is one; false if the thread `is_elsewhere` meanwhile.
    #[cold]
    #[inline(never)]
    pub(crate) fn get_processor(&self, is_elsewhere: impl Fn() -> bool) -> bool {
        let (Some(worker), Some(share)) = (self.worker.get(), self.shared.workers.share()) else {
            return true;
        };
        self.tell_ended();
        self.shared.scheduler.leave(worker); // it is not to be handed what others could run
        let has_one = share.take(worker, is_elsewhere);
        self.see_processor();
        has_one
    }

    /// As [`Thread::get_processor`], if it has none and is in the middle of a task.
    #[inline]
    pub(crate) fn ensure_processor(&self) {
        if self.lacks_processor() {
            self.get_processor(|| false);
        }
    }

    /// The calling thread was `other` until now, and is this one with the processor that it had.
    pub(crate) fn take_over_processor(&self, other: &Thread) {
        if let (Some(worker), Some(share)) = (self.worker.get(), self.shared.workers.share())
            && let (Some(as_worker), Some(before)) = (other.worker.get(), other.shared.workers.share())
        {
            share.take_over(worker, before, as_worker);
            other.see_processor();
        }
        self.see_processor();
    }

    /// Gives up its worker's processor, if it has one.
    pub(crate) fn give_processor(&self) {
        if let (Some(worker), Some(share)) = (self.worker.get(), self.shared.workers.share()) {
            share.give(worker);
            self.see_processor();
        }
    }

    /// Its worker's own queue, if the scheduler has such queues.
    #[inline]
    pub(crate) fn leaf(&self) -> Option<&Leaf<Task>> {
        // SAFETY: leaves live as long as the scheduler.
        unsafe { self.leaf.get().as_ref() }
    }

    /// Whether its worker is taken away from it, or the runtime ends.
    #[inline]
    pub(crate) fn is_taken_away(&self) -> bool {
        // SAFETY: workers' flags live as long as the runtime, and `NEVER` for ever.
        unsafe { &*self.taken_away.get() }.load(Ordering::Relaxed)
    }

    /// Memory for a record: see [`crate::memory::Memory::allocate`].
    #[inline]
    pub(crate) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        // SAFETY: this thread alone is its worker, and nothing below holds a reference to the stacks.
        let chunk = unsafe { self.stacks.get().as_mut() }.and_then(|stacks| stacks.take(bytes));
        chunk.unwrap_or_else(|| self.allocate_elsewhere(bytes))
    }

    #[cold]
    #[inline(never)]
    fn allocate_elsewhere(&self, bytes: usize) -> NonNull<u8> {
        // SAFETY: as in `allocate`.
        unsafe { self.shared.memory.allocate(self.worker.get(), bytes) }
    }

    /// Takes a record's memory back.
    ///
    /// # Safety
    /// It came from [`Thread::allocate`] of a thread of the same runtime, with the same `bytes`, and nobody uses it.
    #[inline]
    pub(crate) unsafe fn free(&self, chunk: NonNull<u8>, bytes: usize) {
        // Whoever frees it may know it by a reference to its header, which does not reach the rest of it.
        let chunk = NonNull::with_exposed_provenance(chunk.addr());
        // SAFETY: as in `allocate`; the rest is the caller's promise.
        unsafe {
            let has_taken = self.stacks.get().as_mut().is_some_and(|stacks| stacks.put(chunk, bytes));
            if !has_taken {
                self.free_elsewhere(chunk, bytes);
            }
        }
    }

    /// # Safety
    /// As for [`Thread::free`].
    #[cold]
    #[inline(never)]
    unsafe fn free_elsewhere(&self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: as in `allocate`; the rest is the caller's promise.
        unsafe { self.shared.memory.free(self.worker.get(), chunk, bytes) };
    }

    /// A child of `parent`, which lives, has ended on this thread, at the end of a body's call.
    ///
    /// If the parent's body is awake elsewhere, or over, it hears of several at once: when this thread is about to do anything
    /// else than to run a child of it. Whoever waits for the parent's children, waits for that child too.
    #[inline]
    pub(crate) fn child_ended(&self, parent: &Task, accesses: usize) {
        // Such a parent's body is not awake here, for else `execute` had told it; and the line that its creator writes with each
        // child is left alone.
        if std::ptr::eq(self.ended_of.get(), parent) {
            self.ended_accesses.set(self.ended_accesses.get() + accesses as u64);
            return self.ended.set(self.ended.get() + 1);
        }
        if parent.children.is_home(self) {
            return parent.children.remove_at_home();
        }
        self.begin_ended(parent, accesses);
    }

    /// The first child of another parent has ended here.
    #[cold]
    #[inline(never)]
    fn begin_ended(&self, parent: &Task, accesses: usize) {
        self.tell_ended();
        self.ended_of.set(parent);
        self.ended_abroad.set(parent.children.is_awake());
        self.ended.set(1);
        self.ended_accesses.set(accesses as u64);
    }

    /// The tasks whose creators are busy elsewhere and that have ended here, as far as their creators have heard of it.
    pub(crate) fn foreign(&self) -> Taken {
        self.foreign.get()
    }

    /// Before a child of `parent` is run: ends of others' children go to their parents.
    #[inline]
    pub(crate) fn tell_ended_but_of(&self, parent: *const Task) {
        let of = self.ended_of.get();
        if !of.is_null() && !std::ptr::eq(of, parent) {
            self.tell_parent();
        }
    }

    /// Ends of children go to their parent.
    #[inline]
    pub(crate) fn tell_ended(&self) {
        if !self.ended_of.get().is_null() {
            self.tell_parent();
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_parent(&self) {
        // SAFETY: it cannot end before it has heard of these children.
        let parent = unsafe { &*self.ended_of.replace(std::ptr::null()) };
        if self.ended_abroad.get() {
            let Taken { tasks, accesses } = self.foreign.get();
            let tasks = tasks + self.ended.get() as u64;
            self.foreign.set(Taken { tasks, accesses: accesses + self.ended_accesses.get() });
        }
        if parent.children.remove(self.ended.replace(0)) == Left::Nobody {
            finish_for_last(self, NonNull::from(parent));
        }
    }

    /// Makes this what [`Thread::current`] finds, until the guard goes.
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.outer.set(CURRENT.get());
        CURRENT.set(self);
        Entered(self)
    }

    /// Ends what [`Thread::enter`] began, if its guard was forgotten.
    pub(crate) fn exit(&self) {
        CURRENT.set(self.outer.get());
    }

    /// The innermost one that the calling thread entered.
    #[inline]
    pub(crate) fn current<'a>() -> Option<&'a Thread> {
        // SAFETY: set by `enter`, whose guard, on this thread's stack, borrows it and takes it out.
        unsafe { CURRENT.get().as_ref() }
    }

    /// Calls `action` with the calling thread as `shared` sees it.
    pub(crate) fn with<R>(shared: *const Shared, action: impl FnOnce(&Thread) -> R) -> R {
        match Thread::current() {
            Some(thread) if Arc::as_ptr(&thread.shared) == shared => action(thread),
            _ => {
                // SAFETY: whoever has a record of a runtime keeps what its threads share.
                let shared = unsafe {
                    Arc::increment_strong_count(shared);
                    Arc::from_raw(shared)
                };
                action(&Thread::new(&shared, None))
            }
        }
    }

    /// How many records this thread made.
    #[inline]
    pub(crate) fn created(&self) -> u64 {
        self.counters.as_deref().unwrap_or(&self.shared.counts.foreign).created.load(Ordering::Relaxed)
    }

    /// Whether the records that this thread made, less those that it disposed of, are `by` more than the fewest since this was so last.
    pub(crate) fn has_grown(&self, by: u64) -> bool {
        let Some(counters) = &self.counters else { return true };
        let (made, gone) = (&counters.created, &counters.disposed);
        // Below 0 for a thread that disposes of what others made.
        let rest = made.load(Ordering::Relaxed).wrapping_sub(gone.load(Ordering::Relaxed)).cast_signed();
        let fewest = self.fewest.get();
        let has_grown = rest >= fewest.saturating_add_unsigned(by);
        self.fewest.set(if has_grown { rest } else { rest.min(fewest) });
        has_grown
    }

    /// Counts a record that was made.
    #[inline]
    pub(crate) fn count_created(&self) {
        match &self.counters {
            Some(counters) => {
                counters.created.store(counters.created.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            None => {
                self.shared.counts.foreign.created.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts a record that is disposed of.
    #[inline]
    pub(crate) fn count_disposed(&self) {
        match &self.counters {
            Some(counters) => {
                counters.disposed.store(counters.disposed.load(Ordering::Relaxed) + 1, Ordering::Release);
            }
            None => {
                self.shared.counts.foreign.disposed.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Sleeps until the bell rings, or the time is up; true if it rang.
    pub(crate) fn wait_for_bell(&self, timeout: Option<Duration>) -> bool {
        while self.bell.load(Ordering::Acquire) == 0 {
            if castell_host::futex::wait(&self.bell, 0, u32::MAX, timeout)
                == castell_host::futex::Woken::TimedOut
            {
                return self.bell.load(Ordering::Acquire) != 0;
            }
        }
        true
    }

    /// Calls a body that has been granted this place, if any: it goes back at the latest where the thread sleeps.
    pub(crate) fn with_place<R>(&self, place: Option<&Arc<Place>>, body: impl FnOnce() -> R) -> R {
        let Some(place) = place else { return body() };
        self.places.borrow_mut().push(Arc::clone(place));
        let _held = PlaceHeld(self);
        body()
    }

    /// Blocks by `block` while another thread may use this one's CPU.
    pub(crate) fn without_cpu<R>(&self, block: impl FnOnce() -> R) -> R {
        // What is waited for may need them.
        self.places.borrow().iter().for_each(|place| place.give_back());
        let Some(worker) = self.worker.get() else { return block() };
        let workers = &self.shared.workers;
        if !workers.hand_over(&self.shared, worker) {
            self.give_processor();
            let result = block();
            self.ensure_processor();
            return result;
        }
        self.set_worker(None);
        let result = block();
        let kind = workers.kind_of(Some(worker));
        self.set_worker(Some(workers.resume(&self.shared, kind)));
        self.ensure_processor();
        result
    }
}

impl Sleeper for Thread {
    fn silence(&self) {
        self.bell.store(0, Ordering::Relaxed);
    }

    fn ring(&self) {
        let bell = &self.bell;
        bell.store(1, Ordering::Release);
        // The address is only a key here: a wake that comes after the thread went on is one too many, no more.
        castell_host::futex::wake(bell, 1, u32::MAX);
    }

    fn sleep(&self) {
        self.wait_for_bell(None);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.tell_ended();
    }
}

/// Takes the place out that was pushed last.
struct PlaceHeld<'a>(&'a Thread);

impl Drop for PlaceHeld<'_> {
    fn drop(&mut self) {
        self.0.places.borrow_mut().pop();
    }
}

/// Ends [`Thread::enter`].
pub(crate) struct Entered<'a>(&'a Thread);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.exit();
    }
}
