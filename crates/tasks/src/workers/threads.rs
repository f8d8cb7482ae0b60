//! The threads behind the workers.

use super::appetite::{Appetite, Progress};
use super::aside::Aside;
use super::mailbox::Listener;
use super::roster::{Heir, Roster, Seat};
use super::share::Share;
use super::{Plan, WorkerId};
use crate::error::TaskError;
use crate::lifecycle::current::Thread;
use crate::lifecycle::execute::execute;
use crate::lifecycle::shared::Shared;
use crate::lifecycle::task::TaskRef;
use crate::scheduler;
use castell_sched::{Design, Kind, LeafId, Topology};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Looks at its polling slot before an idle worker sleeps: some tens of microseconds.
const LOOKS: u32 = 1500;

/// So often in a row suspended bodies are called again before the worker sleeps for a moment.
const POLLS: u32 = 64;
/// For how long.
const POLL_PAUSE: Duration = Duration::from_micros(50);

/// The workers of a runtime and their threads.
pub struct Workers {
    pub(super) topology: Topology,
    pub(super) cpus: Vec<Vec<u32>>,
    looks: u32,
    /// Their threads are somebody else's, who lends them for a while: none is started, and nobody takes another's place.
    are_lent: bool,
    stack_bytes: usize,
    roster: Mutex<Roster>,
    /// By worker: whether its thread has to look at the roster, or, if it is lent, at its barrier.
    flags: Box<[Flag]>,
    /// By worker, if threads are lent: which of them stand aside.
    aside: Aside,
    /// The processors that they have, if they share them with other programs.
    share: Option<Share>,
    /// By kind: threads in the middle of a task that have no worker.
    wanting: [AtomicU32; Kind::COUNT],
    /// Hears what other processes want, if it is to.
    listener: Mutex<Option<Listener>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    started: AtomicUsize,
}

#[repr(align(128))]
struct Flag {
    up: AtomicBool,
    kind: Kind,
}

/// So long a worker sleeps before it looks again whether it still lets others alone.
const NAP: Duration = Duration::from_micros(50);
/// It does so while a task ends in less than this, wherever.
const FLOW: Duration = Duration::from_micros(2);

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerStatus {
    /// Which one.
    pub worker: WorkerId,
    /// What it runs: ordinary tasks, or those for devices of a kind.
    pub kind: Kind,
    /// Whether it is given tasks.
    pub enabled: bool,
    /// Whether a thread holds it: it may do so for some time after it was disabled.
    pub held: bool,
}

impl Workers {
    /// Workers without threads yet.
    pub(crate) fn new(plan: &Plan, stack_bytes: usize, are_lent: bool, share: Option<Share>) -> Self {
        let kinds: Vec<Kind> = plan.topology.all().map(|leaf| plan.topology.kind_of(leaf)).collect();
        let flag = |&kind: &Kind| Flag { up: AtomicBool::new(false), kind };
        Workers {
            topology: plan.topology.clone(),
            cpus: plan.cpus.clone(),
            looks: if plan.crowded { 0 } else { LOOKS },
            are_lent,
            stack_bytes,
            flags: kinds.iter().map(flag).collect(),
            aside: Aside::new(kinds.len()),
            roster: Mutex::new(Roster::new(kinds)),
            share,
            wanting: Default::default(),
            listener: Mutex::default(),
            threads: Mutex::default(),
            started: AtomicUsize::new(0),
        }
    }

    /// Starts a thread for each worker.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<(), TaskError> {
        let workers = &shared.workers;
        (0..workers.flags.len()).try_for_each(|worker| workers.start_thread(shared, WorkerId(worker as u32)))
    }

    /// Lets other processes take workers away and give them back, through a mailbox at `path`.
    pub(crate) fn listen(shared: &Arc<Shared>, path: &Path) -> Result<(), TaskError> {
        let listener = Listener::of_runtime(shared, path)?;
        *shared.workers.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        Ok(())
    }

    /// The program itself has decided: the mailbox shows it.
    pub(crate) fn note(&self, worker: WorkerId, enabled: bool) {
        if let Some(listener) = &*self.listener.lock().unwrap_or_else(PoisonError::into_inner) {
            listener.note(worker.index(), enabled);
        }
    }

    fn start_thread(&self, shared: &Arc<Shared>, worker: WorkerId) -> Result<(), TaskError> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let inside = Arc::downgrade(shared);
        let thread = std::thread::Builder::new()
            .name(format!("castell-{number}"))
            .stack_size(self.stack_bytes)
            .spawn(move || work(&inside, worker))
            .map_err(|error| TaskError::NoThread { worker: worker.index(), reason: error.to_string() })?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// How many workers there are, those that are taken away included.
    pub fn count(&self) -> usize {
        self.flags.len()
    }

    /// What each worker is doing.
    pub fn status(&self) -> Vec<WorkerStatus> {
        let roster = self.roster();
        let status = |leaf: LeafId| {
            let worker = WorkerId(leaf.0);
            let (kind, enabled) = (self.flags[leaf.index()].kind, roster.enabled[leaf.index()]);
            WorkerStatus { worker, kind, enabled, held: roster.is_held(worker) }
        };
        self.topology.all().map(status).collect()
    }

    /// Whether the thread of `worker` has to look at the roster before it goes on.
    #[inline]
    pub(crate) fn is_wanted(&self, worker: WorkerId) -> bool {
        let flag = &self.flags[worker.index()];
        let is_lent_and_taken = || self.are_lent && self.aside.is_taken(worker);
        self.wanting[flag.kind.index()].load(Ordering::Relaxed) != 0
            || flag.up.load(Ordering::Relaxed)
            || is_lent_and_taken()
    }

    /// Whether `worker` is taken away, or the runtime ends.
    #[inline]
    pub(crate) fn is_taken_away(&self, worker: WorkerId) -> bool {
        self.flags[worker.index()].up.load(Ordering::Relaxed)
    }

    /// Whether the threads behind them are lent by somebody else.
    #[inline]
    pub(crate) fn are_lent(&self) -> bool {
        self.are_lent
    }

    /// Whether a thread that waits in a task may look for long: its place is nobody else's, and there are as many processors as threads.
    pub(crate) fn may_spin_long(&self) -> bool {
        self.are_lent && self.looks > 0
    }

    /// Which of the lent threads stand aside.
    pub(crate) fn aside(&self) -> &Aside {
        &self.aside
    }

    /// The processors that workers have, if they share them with other programs.
    #[inline]
    pub(crate) fn share(&self) -> Option<&Share> {
        self.share.as_ref()
    }

    /// What the thread of `worker` looks at to learn that it lacks a processor, if it may.
    pub(crate) fn processor_sign(&self, worker: WorkerId) -> Option<(*const AtomicU64, u64)> {
        // A device's worker mostly waits for its device.
        let share = self.share.as_ref().filter(|_| self.flags[worker.index()].kind == Kind::CPU)?;
        Some(share.sign(worker))
    }

    /// Workers that sleep for want of a processor look at something else.
    fn rouse(&self) {
        self.share.iter().for_each(Share::rouse);
    }

    /// Has the lent thread that is `worker`, or will be, look at something else than tasks.
    pub(crate) fn beckon(&self, worker: WorkerId) {
        // In one order with what a thread looks at before it sleeps aside.
        self.flags[worker.index()].up.store(true, Ordering::SeqCst);
        self.aside.wake_if_taken(worker);
        self.rouse();
    }

    /// The lent thread sleeps while its worker is taken away, until it is beckoned to.
    pub(crate) fn stand_aside(&self, worker: WorkerId) {
        self.aside.sleep(worker, || self.flags[worker.index()].up.load(Ordering::SeqCst));
    }

    /// Whether somebody has [beckoned](Workers::beckon) to `worker` since it last asked.
    pub(crate) fn was_beckoned(&self, worker: WorkerId) -> bool {
        let up = &self.flags[worker.index()].up;
        up.load(Ordering::Acquire) && up.swap(false, Ordering::Acquire)
    }

    /// What says that `worker` is taken away, for its thread to have at hand.
    pub(crate) fn flag_of(&self, worker: WorkerId) -> &AtomicBool {
        if self.are_lent { self.aside.flag_of(worker) } else { &self.flags[worker.index()].up }
    }

    /// Takes a worker away: its thread stops at the next task boundary, what it holds goes to others.
    pub(crate) fn disable(shared: &Shared, worker: WorkerId) -> Result<(), TaskError> {
        let workers = &shared.workers;
        workers.check(worker)?;
        let mut roster = workers.roster();
        if !roster.disable(worker) {
            return Err(TaskError::LastWorker { worker: worker.index() });
        }
        shared.versions.set_workers(roster.enabled_of_kinds());
        shared.scheduler.set_enabled(worker, false);
        if workers.are_lent {
            workers.aside.take(worker);
        } else {
            workers.flags[worker.index()].up.store(true, Ordering::Release);
        }
        drop(roster);
        shared.scheduler.call(worker);
        workers.rouse();
        Ok(())
    }

    /// Gives a worker back.
    pub(crate) fn enable(shared: &Arc<Shared>, worker: WorkerId) -> Result<(), TaskError> {
        let workers = &shared.workers;
        workers.check(worker)?;
        let mut roster = workers.roster();
        if roster.stopping {
            return Ok(());
        }
        shared.scheduler.set_enabled(worker, true);
        if workers.are_lent {
            workers.aside.give(worker);
        } else {
            workers.flags[worker.index()].up.store(false, Ordering::Release);
        }
        let heir = roster.enable(worker);
        workers.note_wanting(&roster);
        shared.versions.set_workers(roster.enabled_of_kinds());
        let started = match heir {
            Some(Heir::Nobody) => workers.start_thread(shared, worker),
            Some(Heir::Thread(seat)) => {
                seat.give(worker);
                Ok(())
            }
            Some(Heir::TakenAway) | None => Ok(()),
        };
        if started.is_err() {
            roster.leave_free(worker);
        }
        started
    }

    fn check(&self, worker: WorkerId) -> Result<(), TaskError> {
        let workers = self.count();
        if worker.index() < workers {
            Ok(())
        } else {
            Err(TaskError::NoSuchWorker { worker: worker.index(), workers })
        }
    }

    /// The calling thread, which holds `worker`, is about to block: another thread gets it. False if there is none and none
    /// can be started: then the worker stays with the thread.
    pub(crate) fn hand_over(&self, shared: &Arc<Shared>, worker: WorkerId) -> bool {
        shared.scheduler.leave(worker);
        if self.are_lent {
            shared.scheduler.clear(worker); // others run it meanwhile
            return false;
        }
        if self.is_taken_away(worker) {
            shared.scheduler.clear(worker);
            self.give_processor(worker);
        }
        let mut roster = self.roster();
        let heir = roster.give_up(worker);
        self.note_wanting(&roster);
        match heir {
            Heir::Thread(seat) => seat.give(worker),
            Heir::Nobody => return self.start_thread(shared, worker).is_ok(),
            // Between the look and the lock it may have been given something. Until the lock goes nobody else can get it.
            Heir::TakenAway => {
                shared.scheduler.clear(worker);
                self.give_processor(worker);
            }
        }
        true
    }

    /// Nobody is this worker for a while.
    fn give_processor(&self, worker: WorkerId) {
        if let Some(share) = self.share.as_ref().filter(|_| self.flags[worker.index()].kind == Kind::CPU) {
            share.give(worker);
        }
    }

    /// The calling thread, which has handed its worker of this kind over, goes on: the worker that it holds now.
    pub(crate) fn resume(&self, shared: &Shared, kind: Kind) -> WorkerId {
        let seat = Seat::new();
        let mut roster = self.roster();
        let free = roster.want(&seat, kind);
        self.note_wanting(&roster);
        drop(roster);
        let worker = free.unwrap_or_else(|| {
            shared.scheduler.call_any(kind);
            // The runtime ends only when no task is left, and this thread is in the middle of one.
            seat.sit().expect("a thread in the middle of a task gets a worker")
        });
        shared.scheduler.change_hands(worker);
        self.bind(worker);
        worker
    }

    /// A thread at a task boundary, with nothing on its stack, has to look: what it holds from now on; `None`: it ends.
    fn attend(&self, shared: &Shared, worker: WorkerId) -> Option<WorkerId> {
        shared.scheduler.leave(worker);
        let taken_away = self.is_taken_away(worker);
        if taken_away {
            shared.scheduler.clear(worker);
            self.give_processor(worker);
        }
        let seat = Seat::new();
        {
            let mut roster = self.roster();
            if roster.stopping {
                return None;
            }
            if roster.enabled[worker.index()] {
                let kind = self.flags[worker.index()].kind;
                let Some(other) = roster.next_wanting(kind) else { return Some(worker) };
                self.note_wanting(&roster);
                other.give(worker);
            } else if !taken_away {
                return Some(worker); // taken away just now: once more
            } else {
                roster.give_up(worker);
            }
            roster.rest(&seat);
        }
        let worker = seat.sit()?;
        self.bind(worker);
        Some(worker)
    }

    fn note_wanting(&self, roster: &Roster) {
        for (kind, count) in self.wanting.iter().enumerate() {
            count.store(roster.wanting(Kind(kind as u8)) as u32, Ordering::Release);
        }
    }

    /// Binds the calling thread to the worker's processors.
    fn bind(&self, worker: WorkerId) {
        let cpus = &self.cpus[worker.index()];
        if !cpus.is_empty() {
            // It was allowed when the runtime was built. If it is not any more, the system knows a better place.
            let _ = castell_host::topology::move_thread(cpus);
        }
    }

    /// Ends the threads: no task is left.
    pub(crate) fn stop(shared: &Shared) {
        let workers = &shared.workers;
        let listener = workers.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        listener.into_iter().for_each(Listener::stop);
        {
            let mut roster = workers.roster();
            roster.stop();
            workers.flags.iter().for_each(|flag| flag.up.store(true, Ordering::Release));
        }
        (0..workers.count() as u32).for_each(|worker| shared.scheduler.call(WorkerId(worker)));
        workers.rouse();
        let threads = std::mem::take(&mut *workers.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A worker catches what tasks panic with; its own panic is a broken invariant, already printed.
            let _ = thread.join();
        }
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a worker runs; threads that are none count as processors.
    #[inline]
    pub fn kind_of(&self, worker: Option<WorkerId>) -> Kind {
        worker.map_or(Kind::CPU, |worker| self.flags[worker.index()].kind)
    }

    /// Whether there are workers of a kind.
    pub fn has(&self, kind: Kind) -> bool {
        self.flags.iter().any(|flag| flag.kind == kind)
    }
}

/// A thread that holds `worker` at first.
fn work(shared: &Weak<Shared>, worker: WorkerId) {
    let Some(shared) = shared.upgrade() else { return };
    let workers = &shared.workers;
    workers.bind(worker);
    let thread = Thread::new(&shared, Some(worker));
    let _entered = thread.enter();
    let mut holds = Some(worker);
    let mut habits = Habits::new(&shared);
    while let Some(worker) = holds {
        if thread.worker.get() != Some(worker) {
            thread.set_worker(Some(worker));
        }
        if workers.is_wanted(worker) {
            thread.tell_ended();
            holds = workers.attend(&shared, worker);
            if holds.is_some() {
                thread.set_worker(holds); // perhaps the same, which another thread was meanwhile
            }
            continue;
        }
        serve(&thread, worker, &mut habits);
        // A task that blocked may have come back on another worker.
        holds = thread.worker.get();
    }
    thread.give_processor();
}

/// What a worker's thread keeps from one task to the next.
pub(crate) struct Habits {
    /// How often in a row it has had nothing better to do than to call suspended bodies again.
    polls: u32,
    appetite: Option<Appetite>,
}

impl Habits {
    pub(crate) fn new(shared: &Shared) -> Habits {
        Habits { polls: 0, appetite: is_choosy(shared).then(Appetite::new) }
    }
}

/// Runs a task, and what that makes ready for this thread; if there is none, waits for one, or until the worker is wanted elsewhere.
/// The calling thread is `worker`, with nothing on its stack that the task could hold up.
pub(crate) fn serve(thread: &Thread, worker: WorkerId, habits: &mut Habits) {
    let shared = &thread.shared;
    let found = if thread.lacks_processor() && !gets_processor(thread, worker) {
        None
    } else {
        // SAFETY: this thread is the worker.
        unsafe { shared.scheduler.get(worker) }
    };
    if found.is_some() {
        habits.polls = 0;
    }
    let mut next = found.or_else(|| {
        thread.tell_ended();
        if let Some(appetite) = &mut habits.appetite
            && let Some(patience) = appetite.ends(thread.foreign(), || progress(shared))
        {
            thread.give_processor();
            appetite.rested(progress(shared), rest(shared, worker, patience));
        }
        let found = wait(thread, worker, &mut habits.polls);
        if let (Some(appetite), Some(_)) = (&mut habits.appetite, found) {
            appetite.begins(thread.foreign());
        }
        found
    });
    if let Some(task) = next
        && thread.lacks_processor()
        && !thread.try_get_processor()
    {
        shared.scheduler.keep(worker, task); // it waits where others find it
        return;
    }
    while let Some(task) = next {
        // SAFETY: got from the scheduler: ready, and ours to run.
        next = unsafe { execute(thread, task) };
        if (thread.is_taken_away() || thread.lacks_processor())
            && let Some(task) = next.take()
        {
            // SAFETY: made ready for this thread: alive, and in no list.
            unsafe { shared.scheduler.add(task, thread.worker.get()) };
        }
    }
}

/// Whether workers ask if what they take from others is worth it: not under the rules of the paper.
fn is_choosy(shared: &Shared) -> bool {
    let options = shared.scheduler.options();
    options.design == Design::Tree && options.pull
}

/// What has been done by now.
fn progress(shared: &Shared) -> Progress {
    Progress { at: Instant::now(), steps: shared.counts.created() + shared.counts.disposed() }
}

/// Lets others alone for `patience`, as long as tasks end quickly without this worker, and nothing else is to be done. What had been done
/// when something was done last.
#[cold]
fn rest(shared: &Shared, worker: WorkerId, patience: Duration) -> Progress {
    let begin = progress(shared);
    let (mut seen, mut ended) = (begin, shared.counts.disposed());
    while seen.at - begin.at < patience
        && !shared.workers.is_wanted(worker)
        && !shared.suspended.has_waiting()
    {
        std::thread::sleep(NAP);
        shared.services.poll();
        let (since, before) = (seen, ended);
        (seen, ended) = (progress(shared), shared.counts.disposed());
        if seen.steps == since.steps {
            return since;
        }
        if (seen.at - since.at).as_nanos() > FLOW.as_nanos() * u128::from(ended - before) {
            return seen;
        }
    }
    seen
}

/// The worker has no processor, or that is wanted back: gets one if there is something to do. If not, it sleeps without.
#[cold]
fn gets_processor(thread: &Thread, worker: WorkerId) -> bool {
    let Shared { scheduler, suspended, workers, .. } = &*thread.shared;
    let has_work = || scheduler.has_work(worker) || suspended.has_waiting();
    if !has_work() {
        thread.give_processor();
        return false;
    }
    thread.get_processor(|| workers.is_wanted(worker) || !has_work())
}

/// A worker that waits for tasks.
struct Idler<'a, W> {
    thread: &'a Thread,
    is_wanted: W,
}

impl<W: Fn() -> bool> scheduler::Idler for Idler<'_, W> {
    fn is_wanted(&self) -> bool {
        (self.is_wanted)()
    }

    fn sleeps(&self) {
        self.thread.give_processor();
    }
}

/// `polls`: as in [`Habits`].
fn wait(thread: &Thread, worker: WorkerId, polls: &mut u32) -> Option<TaskRef> {
    let shared = &thread.shared;
    let workers = &shared.workers;
    shared.services.poll();
    if workers.kind_of(Some(worker)) != Kind::CPU {
        // A device's worker leaves the processors to those that are theirs.
        return shared.scheduler.wait(worker, 0, None, || workers.is_wanted(worker));
    }
    let suspended = &shared.suspended;
    if *polls >= POLLS {
        // They poll in vain: others may have the processor for a while.
        *polls = 0;
        let idler = Idler { thread, is_wanted: || workers.is_wanted(worker) };
        return shared.scheduler.wait(worker, 0, Some(POLL_PAUSE), idler);
    }
    if let Some(task) = suspended.take_waiting() {
        *polls += 1;
        shared.scheduler.leave(worker);
        return Some(task);
    }
    let idler = Idler { thread, is_wanted: || workers.is_wanted(worker) || suspended.has_waiting() };
    // Without a processor it does not spin.
    let looks = if thread.lacks_processor() { 0 } else { workers.looks };
    shared.scheduler.wait(worker, looks, None, idler)
}
