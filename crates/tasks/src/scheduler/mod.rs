//! Where ready tasks wait for a worker, and where workers wait for tasks.
//!
//! Three designs behind one face, chosen by [`Options`]: the tree, the central queue, and the central queue with
//! delegation. They decide what `castell_sched` says; here they do so concurrently. All three share the places where idle
//! workers wait (polling slots and bells).
//!
//! Start at [`Scheduler::add`] and [`Scheduler::get`]; then at `tree` for the usual case and at `stations` for why no
//! wake-up is lost.

mod biased;
mod central;
mod delegation;
mod fences;
mod line;
pub mod schedulable;
mod stations;
mod tree;
mod watch;

use crate::scheduler::schedulable::{ReadyList, Schedulable};
use crate::workers::WorkerId;
use castell_base::sync::{AtomicBool, AtomicU64, Ordering, spin_hint};
use castell_sched::{Design, Kind, LeafId, Options, Topology};
use central::Central;
use delegation::Delegation;
use stations::Stations;
use std::ptr::NonNull;
use std::time::{Duration, Instant};
pub(crate) use tree::Leaf;
use tree::Tree;

/// How many of the youngest in a queue a waiting task looks at for one of its descendants. It has created them lately, but others
/// lie behind them: siblings of the one that it waits for, in a queue that workers share also others'. If it finds none, another
/// thread takes its place.
const LOOKS_FOR_DESCENDANT: usize = 64;

/// Looks at the polling slot before an idle worker asks others for what they have: whoever ends a task meanwhile shares without being asked.
const LOOKS_BEFORE_FETCH: u32 = if cfg!(loom) { 1 } else { 40 };

/// How long an idle worker sleeps first.
const NAP: Duration = Duration::from_millis(1);

/// Ready tasks on their way to workers.
///
/// Every function that takes a [`WorkerId`] is to be called by the thread that is that worker, but for those of which other threads have use:
///
/// ```
/// # use castell_tasks::{schedulable::Schedulable, scheduler::Scheduler, workers::WorkerId};
/// # fn any_thread<T: Schedulable>(scheduler: &Scheduler<T>, ancestor: &T) {
/// scheduler.call(WorkerId(0));
/// # let _ = ancestor;
/// # }
/// ```
///
/// The others rely on it, so they are `unsafe`, or not there for other crates:
///
/// ```compile_fail,E0624
/// # use castell_tasks::{schedulable::Schedulable, scheduler::Scheduler, workers::WorkerId};
/// # fn any_thread<T: Schedulable>(scheduler: &Scheduler<T>, ancestor: &T) {
/// scheduler.get_descendant(WorkerId(0), ancestor, unreachable!());
/// # }
/// ```
///
/// ```compile_fail,E0624
/// # use castell_tasks::{schedulable::Schedulable, scheduler::Scheduler, workers::WorkerId};
/// # fn any_thread<T: Schedulable>(scheduler: &Scheduler<T>, ancestor: &T) {
/// scheduler.wait(WorkerId(0), 0, None, || false);
/// # }
/// ```
///
/// ```compile_fail,E0624
/// # use castell_tasks::{schedulable::Schedulable, scheduler::Scheduler, workers::WorkerId};
/// # fn any_thread<T: Schedulable>(scheduler: &Scheduler<T>, ancestor: &T) {
/// scheduler.leave(WorkerId(0));
/// # }
/// ```
///
/// ```compile_fail,E0603
/// # use castell_tasks::{schedulable::Schedulable, scheduler::Scheduler, workers::WorkerId};
/// # fn any_thread<T: Schedulable>(scheduler: &Scheduler<T>, ancestor: &T) {
/// let mark = castell_tasks::scheduler::Leaf::<T>::mark;
/// # }
/// ```
pub struct Scheduler<T: Schedulable> {
    options: Options,
    design: AnyDesign<T>,
    stations: Stations<T>,
    desks: Box<[Desk]>,
    numa: Box<[usize]>,
}

enum AnyDesign<T> {
    Tree(Tree<T>),
    Central(Central<T>),
    Delegation(Delegation<T>),
}

/// A worker that waits for tasks, and what else it has to do.
pub(crate) trait Idler {
    /// Whether that is something now; asked before it sleeps.
    fn is_wanted(&self) -> bool;

    /// It is about to sleep.
    fn sleeps(&self) {}
}

impl<W: Fn() -> bool> Idler for W {
    fn is_wanted(&self) -> bool {
        self()
    }
}

/// Where the worker's queue ended when a task began to wait. What is created on top of a waiting task's stack descends
/// from it; so what was added behind the mark and is known to have been created there needs no walk to its ancestors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    worker: Option<WorkerId>,
    number: u64,
}

impl Mark {
    /// Nothing is known.
    pub const NONE: Mark = Mark { worker: None, number: u64::MAX };

    #[inline]
    fn of(self, worker: WorkerId) -> u64 {
        if self.worker == Some(worker) { self.number } else { u64::MAX }
    }
}

/// What a worker keeps to itself.
#[repr(align(128))]
struct Desk {
    /// It can be handed something: only its thread changes this.
    registered: AtomicBool,
    random: AtomicU64,
    kind: Kind,
    /// It has slept for a [`NAP`] since it was last handed something.
    has_napped: AtomicBool,
}

impl<T: Schedulable> Scheduler<T> {
    /// An empty one for the leaves of `topology`, worker n being leaf n; `seed` decides which successors run at once.
    pub fn new(options: Options, topology: &Topology, seed: u64) -> Self {
        #[cfg(not(loom))]
        castell_host::barrier::prepare();
        let desk = |leaf: LeafId| Desk {
            registered: AtomicBool::new(false),
            // Xorshift wants anything but zero.
            random: AtomicU64::new((seed ^ (u64::from(leaf.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1),
            kind: topology.kind_of(leaf),
            has_napped: AtomicBool::new(false),
        };
        let design = match options.design {
            Design::Tree => AnyDesign::Tree(Tree::new(options, topology)),
            Design::Central => AnyDesign::Central(Central::new(options, topology)),
            Design::Delegation => AnyDesign::Delegation(Delegation::new(options, topology)),
        };
        Scheduler {
            options,
            design,
            stations: Stations::new(topology),
            desks: topology.all().map(desk).collect(),
            numa: topology.all().map(|leaf| topology.numa_of(leaf)).collect(),
        }
    }

    /// Queues a task and sees to it that a worker runs it; `from` is the worker whose thread calls, `None` any other thread.
    ///
    /// # Safety
    /// `task` is alive until it is got, in no other list, and the calling thread is that worker.
    #[inline]
    pub unsafe fn add(&self, task: NonNull<T>, from: Option<WorkerId>) {
        match (&self.design, from) {
            (AnyDesign::Tree(tree), Some(worker)) => {
                tree.add_own(&self.stations, tree.leaf(worker), task, false);
            }
            (AnyDesign::Tree(tree), None) => tree.add_elsewhere(&self.stations, None, task),
            (AnyDesign::Central(central), _) => central.add(&self.stations, task),
            (AnyDesign::Delegation(delegation), from) => {
                delegation.add(&self.stations, from.map(WorkerId::index), task);
            }
        }
    }

    /// The worker's own queue, for [`Scheduler::add_created`]; null if the design has none.
    pub(crate) fn leaf(&self, worker: WorkerId) -> *const Leaf<T> {
        match &self.design {
            AnyDesign::Tree(tree) => tree.leaf(worker),
            _ => std::ptr::null(),
        }
    }

    /// [`Scheduler::add`] for a task that was just created by the one that runs on the thread's stack; `leaf` is the worker's.
    ///
    /// # Safety
    /// As for [`Scheduler::add`], and what is said of the task's creator and of the leaf is true.
    #[inline]
    pub(crate) unsafe fn add_created(
        &self,
        task: NonNull<T>,
        from: Option<WorkerId>,
        leaf: Option<&Leaf<T>>,
    ) {
        match (&self.design, leaf) {
            (AnyDesign::Tree(tree), Some(leaf)) => tree.add_own(&self.stations, leaf, task, true),
            // SAFETY: the caller's promise.
            _ => unsafe { self.add(task, from) },
        }
    }

    /// Queues what a completed task made ready; returns the one that the worker shall run at once, if any.
    ///
    /// # Safety
    /// As for [`Scheduler::add`], for all in the list.
    #[inline]
    pub unsafe fn add_ready(&self, mut ready: ReadyList<T>, from: Option<WorkerId>) -> Option<NonNull<T>> {
        let mut successor = None;
        while let Some(task) = ready.pop() {
            match from {
                Some(worker) if successor.is_none() && self.runs_next(worker, task) => successor = Some(task),
                // SAFETY: the caller's promise.
                _ => unsafe { self.add(task, from) },
            }
        }
        if let (AnyDesign::Tree(tree), Some(worker), Some(_)) = (&self.design, from, successor) {
            tree.share(&self.stations, worker);
        }
        successor
    }

    /// Whether a task that `worker` made ready runs there at once.
    #[inline]
    fn runs_next(&self, worker: WorkerId, task: NonNull<T>) -> bool {
        let desk = &self.desks[worker.index()];
        // SAFETY: the caller's promise: alive.
        let record = unsafe { task.as_ref() };
        let is_near = || record.place().is_none_or(|numa| usize::from(numa) == self.numa[worker.index()]);
        record.kind() == desk.kind
            && (!self.options.locality || is_near())
            && self.options.immediate_successor.happens(|| desk.draw())
    }

    /// The next task for `worker`, if there is one for it in its own queue or above it.
    ///
    /// ```compile_fail,E0133
    /// # use castell_tasks::{schedulable::Schedulable, scheduler::Scheduler, workers::WorkerId};
    /// fn steal<T: Schedulable>(scheduler: &Scheduler<T>) {
    ///     scheduler.get(WorkerId(0)); // perhaps at the same time as the thread that is this worker
    /// }
    /// ```
    ///
    /// # Safety
    /// The calling thread is that worker, and no other one is.
    #[inline]
    pub unsafe fn get(&self, worker: WorkerId) -> Option<NonNull<T>> {
        self.get_own(worker)
    }

    #[inline]
    fn get_own(&self, worker: WorkerId) -> Option<NonNull<T>> {
        match &self.design {
            AnyDesign::Tree(tree) => tree.get(&self.stations, worker),
            AnyDesign::Central(central) => central.get(worker.index()),
            AnyDesign::Delegation(delegation) => delegation.get(worker.index()),
        }
        .or_else(|| self.get_handed(worker))
    }

    /// The next task for `worker` among the descendants of `ancestor`, as far as it can be found quickly.
    #[inline]
    pub(crate) fn get_descendant(&self, worker: WorkerId, ancestor: &T, mark: Mark) -> Option<NonNull<T>> {
        match &self.design {
            AnyDesign::Tree(tree) => tree.get_descendant(worker, ancestor, mark),
            AnyDesign::Central(central) => central.get_descendant(worker.index(), ancestor),
            AnyDesign::Delegation(delegation) => delegation.get_descendant(worker.index(), ancestor),
        }
    }

    /// As [`Scheduler::ask_for_descendant`], looking also, now and then, into the queue of one that does not answer: for a thread that would
    /// sleep otherwise, and looks again soon.
    #[cold]
    pub(crate) fn seek_descendant(&self, worker: WorkerId, ancestor: &T) -> Option<NonNull<T>> {
        match &self.design {
            AnyDesign::Tree(tree) => tree.seek_descendant(worker, ancestor),
            AnyDesign::Central(central) => central.seek_descendant(worker.index(), ancestor, usize::MAX),
            AnyDesign::Delegation(delegation) => delegation.get_descendant(worker.index(), ancestor),
        }
    }

    /// [`Scheduler::get_descendant`] for a worker that has asked that in vain: looks at what workers share, and asks some of those that have
    /// tasks of their own.
    #[cold]
    pub(crate) fn ask_for_descendant(&self, worker: WorkerId, ancestor: &T) -> Option<NonNull<T>> {
        let AnyDesign::Tree(tree) = &self.design else { return None };
        tree.ask_for_descendant(worker, ancestor)
    }

    /// To be called by a thread that becomes this worker with tasks on its stack.
    pub(crate) fn change_hands(&self, worker: WorkerId) {
        if let AnyDesign::Tree(tree) = &self.design {
            tree.change_hands(worker);
        }
    }

    /// The worker stops asking, and keeps what it has been handed meanwhile in its queue.
    #[inline]
    pub(crate) fn leave(&self, worker: WorkerId) {
        if self.is_registered(worker) {
            self.withdraw(worker);
        }
    }

    /// The next task for `worker`, which has found none: looks for `looks` more times, then fetches what others hold, then
    /// sleeps until it is handed a task, [called](Scheduler::call), or `timeout` is over. `None`: ask again, unless
    /// there is something else to do, as the `idler` says.
    pub(crate) fn wait(
        &self,
        worker: WorkerId,
        looks: u32,
        timeout: Option<Duration>,
        idler: impl Idler,
    ) -> Option<NonNull<T>> {
        if !self.is_registered(worker) {
            self.register(worker);
        }
        for look in 0..looks {
            if let Some(handed) = self.take_handed(worker) {
                return handed.or_else(|| self.get_unless(worker, &idler));
            }
            if look == LOOKS_BEFORE_FETCH && self.has_work(worker) {
                return self.fetch(worker);
            }
            spin_hint();
        }
        let desk = &self.desks[worker.index()];
        let nap = desk.nap().or(timeout);
        if nap.is_none() {
            fences::heavy();
        }
        if idler.is_wanted() {
            self.withdraw(worker);
            return None;
        }
        if self.has_work(worker) {
            return self.fetch(worker);
        }
        if let AnyDesign::Tree(tree) = &self.design
            && let Some(task) = tree.starve(worker)
        {
            self.withdraw(worker);
            return Some(task);
        }
        if let (AnyDesign::Tree(tree), None) = (&self.design, timeout)
            && self.watches_now(tree, worker)
        {
            return self.watch(tree, worker, &idler);
        }
        idler.sleeps();
        self.stations.sleep(worker, timeout.or(nap));
        debug_assert!(self.is_registered(worker), "two threads are worker {}", worker.0);
        match self.take_handed(worker) {
            Some(Some(task)) => return Some(task),
            Some(None) => {}
            None => {
                desk.has_napped.store(timeout.is_none(), Ordering::Relaxed);
                self.withdraw(worker);
            }
        }
        self.get_unless(worker, &idler)
    }

    /// A worker that was called may have been called away: then it takes nothing.
    fn get_unless(&self, worker: WorkerId, idler: &impl Idler) -> Option<NonNull<T>> {
        if idler.is_wanted() { None } else { self.get_own(worker) }
    }

    fn watches_now(&self, tree: &Tree<T>, worker: WorkerId) -> bool {
        self.options.pull
            && self.desks[worker.index()].kind == Kind::CPU
            && self.stations.watch.begin(worker, tree.lone())
    }

    /// The worker, which is idle, watches over what others leave with its creators: see `watch`. A task, if there is one for it.
    #[cold]
    fn watch(&self, tree: &Tree<T>, worker: WorkerId, idler: &impl Idler) -> Option<NonNull<T>> {
        tree.has_late();
        idler.sleeps();
        loop {
            let (since, before) = (Instant::now(), tree.lone());
            self.stations.sleep(worker, Some(watch::MOMENT));
            if let Some(handed) = self.take_handed(worker) {
                self.end_watch(tree);
                return handed.or_else(|| self.get_unless(worker, idler));
            }
            let is_late = tree.has_late();
            let goes_on = self.stations.watch.goes_on(tree.lone() - before, since.elapsed());
            if is_late || !goes_on {
                self.withdraw(worker);
                self.end_watch(tree);
                return self.get_own(worker).or_else(|| is_late.then(|| tree.starve(worker))?);
            }
        }
    }

    /// Nobody watches any more: what was left with its creators because somebody did is another's.
    fn end_watch(&self, tree: &Tree<T>) {
        self.stations.watch.end();
        fences::heavy();
        if self.stations.any_idle(Kind::CPU) && tree.holds_any(Kind::CPU) {
            self.call_any(Kind::CPU);
        }
    }

    /// There is something somewhere: takes it.
    fn fetch(&self, worker: WorkerId) -> Option<NonNull<T>> {
        self.withdraw(worker);
        let found = self.get_own(worker);
        match &self.design {
            AnyDesign::Tree(tree) if found.is_none() => {
                let found = tree.starve(worker);
                if found.is_none() {
                    fences::give_way(); // somebody else is at it
                }
                found
            }
            _ => found,
        }
    }

    /// Wakes a worker that waits, so that it looks at what `wait` was told to ask.
    pub fn call(&self, worker: WorkerId) {
        fences::light();
        if let Some(claim) = self.stations.claim_worker(worker) {
            self.stations.ring(claim, 0);
        }
    }

    /// Wakes any worker of this kind that waits; false if there is none.
    pub fn call_any(&self, kind: Kind) -> bool {
        fences::light();
        let claim = self.stations.claim(kind, None);
        claim.map(|claim| self.stations.ring(claim, 0)).is_some()
    }

    /// Takes a worker out of what tasks are given to, or puts it back. What it holds stays until it is cleared.
    pub fn set_enabled(&self, worker: WorkerId, enabled: bool) {
        if let AnyDesign::Tree(tree) = &self.design {
            tree.set_enabled(worker, enabled);
        }
    }

    /// Gives away what a worker holds, before nobody is that worker any more.
    pub(crate) fn clear(&self, worker: WorkerId) {
        self.leave(worker);
        if let AnyDesign::Tree(tree) = &self.design {
            tree.clear(&self.stations, worker);
        }
    }

    /// How many tasks wait, about: queues that are in use while this looks may be counted as they were before.
    pub fn len(&self) -> usize {
        match &self.design {
            AnyDesign::Tree(tree) => tree.len(),
            AnyDesign::Central(central) => central.len(),
            AnyDesign::Delegation(delegation) => delegation.len(),
        }
    }

    /// How many tasks wait in the queue of each worker, about, and in those that workers share. The other designs than the tree
    /// have shared queues only.
    pub fn lengths(&self) -> (Vec<usize>, usize) {
        match &self.design {
            AnyDesign::Tree(tree) => tree.lengths(),
            _ => (Vec::new(), self.len()),
        }
    }

    /// Whether no task waits, about.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tree's threshold at present; 0 for the other designs.
    pub fn threshold(&self) -> u32 {
        match &self.design {
            AnyDesign::Tree(tree) => tree.threshold(),
            _ => 0,
        }
    }

    /// The NUMA node of a worker.
    pub fn numa_of(&self, worker: WorkerId) -> usize {
        self.numa[worker.index()]
    }

    /// What was chosen.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether there is something for `worker`, anywhere.
    pub(crate) fn has_work(&self, worker: WorkerId) -> bool {
        match &self.design {
            AnyDesign::Tree(tree) => tree.has_work(worker),
            AnyDesign::Central(central) => central.has_work(worker.index()),
            AnyDesign::Delegation(delegation) => delegation.has_work(),
        }
    }

    #[cold]
    fn get_handed(&self, worker: WorkerId) -> Option<NonNull<T>> {
        if !self.is_registered(worker) {
            return None;
        }
        self.take_handed(worker)?.or_else(|| self.get_own(worker))
    }

    fn is_registered(&self, worker: WorkerId) -> bool {
        self.desks[worker.index()].registered.load(Ordering::Relaxed)
    }

    fn set_registered(&self, worker: WorkerId, registered: bool) {
        self.desks[worker.index()].registered.store(registered, Ordering::Relaxed);
    }

    fn register(&self, worker: WorkerId) {
        self.set_registered(worker, true);
        self.stations.register(worker);
    }

    /// What the worker has been handed, all but the first of it put into its queue; `None`: nobody has rung.
    fn take_handed(&self, worker: WorkerId) -> Option<Option<NonNull<T>>> {
        let mut first = None;
        let rung = self.stations.poll(worker, |task| match first {
            None => first = Some(task),
            Some(_) => self.keep(worker, task),
        });
        if !rung {
            return None;
        }
        self.set_registered(worker, false);
        self.desks[worker.index()].has_napped.store(false, Ordering::Relaxed);
        Some(first)
    }

    fn withdraw(&self, worker: WorkerId) {
        if self.is_registered(worker) {
            self.stations.withdraw(worker, |task| self.keep(worker, task));
            self.set_registered(worker, false);
        }
    }

    /// Puts a task into the worker's own queue, if it has one, and wakes nobody.
    pub(crate) fn keep(&self, worker: WorkerId, task: NonNull<T>) {
        match &self.design {
            AnyDesign::Tree(tree) => tree.keep(worker, [task]),
            AnyDesign::Central(central) => central.keep(task),
            AnyDesign::Delegation(delegation) => delegation.add_to_ring(worker.index(), task),
        }
    }
}

impl Desk {
    /// For how long the worker sleeps without the heavy barrier, which would interrupt all that work: so long it may miss what comes between its
    /// last look and its sleep. Then it pays for the barrier, and sleeps for as long as nothing comes.
    fn nap(&self) -> Option<Duration> {
        let naps = !cfg!(loom) && !self.has_napped.load(Ordering::Relaxed);
        naps.then_some(NAP)
    }

    /// 32 random bits (xorshift64, Marsaglia 2003).
    fn draw(&self) -> u32 {
        let mut state = self.random.load(Ordering::Relaxed);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.store(state, Ordering::Relaxed);
        (state >> 32) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
