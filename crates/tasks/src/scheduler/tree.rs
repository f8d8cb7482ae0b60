//! The tree, concurrently: a leaf a worker, a node a NUMA node, one root (paper, chapter 4).
//!
//! A leaf's queue is its worker's own ([`Biased`]): adding and taking touch nobody else's cache lines. What the paper does
//! on every overflow is done here when it helps: a leaf that finds workers idle shares its queue with them at the next
//! task boundary, as far as that is nested alike; while nobody is idle it keeps up to [`KEEP`] tasks, or the threshold if that is larger. A worker whose
//! neighbours are all inside long tasks visits their leaves itself before it sleeps. With `pull=off` the paper's rules
//! hold to the letter.

use super::biased::Biased;
use super::fences::{self, Rarely};
use super::line::Line;
use super::stations::{SLOT_TASKS, Stations};
use super::{LOOKS_FOR_DESCENDANT, Mark};
use crate::scheduler::schedulable::{Schedulable, kind_of};
use crate::workers::WorkerId;
use castell_base::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use castell_sched::tree::KEEP;
use castell_sched::{
    Kind, LeafId, Options, QueuePolicy, ReadyQueue, ThresholdPolicy, Topology, doubled, grant_count, halved,
    overflow_count,
};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// After so many tasks of its own a worker looks at what waits above it first, so that nothing waits there for ever.
const LOOK_ABOVE: u32 = 64;
/// What a leaf counts begins here; in tests, where it soon begins again.
const TAKEN_BEFORE: u32 = if cfg!(test) { u32::MAX - 2 } else { 0 };

/// A worker that looks for something asks so many others at most, before it does something else.
const ASKED_AT_ONCE: usize = 3;
/// A task that waits is given one of so many of the oldest that another worker has: they have the most work below them.
const LOOKS_AMONG_OLDEST: usize = 16;

/// A queued task, by address.
pub(super) struct Queued<T>(pub(super) NonNull<T>);

// SAFETY: a queued task belongs to its queue, wherever its thread is.
unsafe impl<T> Send for Queued<T> {}

pub(super) struct Tree<T> {
    options: Options,
    topology: Topology,
    leaves: Box<[Leaf<T>]>,
    numa: Box<[Node<T>]>,
    root: Node<T>,
    threshold: AtomicU32,
    /// What a leaf keeps while nobody is idle: derived from the threshold.
    limit: AtomicU32,
    /// When somebody may force its way into another's leaf.
    force: Rarely,
}

/// A worker's queue, and what others look at before they visit it.
#[repr(align(128))]
pub(crate) struct Leaf<T> {
    worker: WorkerId,
    policy: QueuePolicy,
    own: Biased<Own<T>>,
    /// Tasks in the queue, for others to see; not exact while it is in use.
    length: AtomicUsize,
    enabled: AtomicBool,
    numa: usize,
    kind: Kind,
    /// How many tasks were created here, alone, while others were idle; only its worker writes it.
    lone: AtomicU64,
    /// As many when somebody who watches looked last.
    seen: AtomicU64,
    /// The worker that this one asks next when it looks for something; only its worker writes it.
    next_asked: AtomicU32,
}

struct Own<T> {
    queue: Line<T>,
    taken: u32,
    /// From this number on, all tasks in the queue were created by what ran on top of this worker's stack.
    known: u64,
}

impl<T: Schedulable> Own<T> {
    /// The number that the next task gets.
    #[inline]
    fn end(&self) -> u64 {
        self.queue.end()
    }

    /// Adds a task that a task on this worker's stack has created; returns how many there are.
    #[inline]
    fn add_created(&mut self, task: NonNull<T>) -> usize {
        self.known = self.known.min(self.end());
        self.queue.add(task)
    }

    /// Adds a task that came from anywhere; returns how many there are.
    fn add_unknown(&mut self, task: NonNull<T>) -> usize {
        let length = self.queue.add(task);
        self.known = self.end();
        length
    }

    /// The youngest of the highest priority, if it descends from `ancestor`.
    #[cold]
    fn get_descendant_sorted(&mut self, ancestor: &T, length: &AtomicUsize) -> Option<NonNull<T>> {
        let youngest = self.queue.youngest()?;
        // SAFETY: queued tasks are alive.
        if !unsafe { youngest.as_ref() }.may_run_above(ancestor) {
            return None;
        }
        self.queue.take_youngest();
        length.store(self.queue.len(), Ordering::Relaxed);
        Some(youngest)
    }

    /// Takes a set for others.
    fn take_set(&mut self, count: usize) -> Vec<Queued<T>> {
        let mut set = Vec::with_capacity(count.min(self.queue.len()));
        self.queue.move_set(count, |task| set.push(task));
        set
    }
}

/// An inner node: by kind, a queue.
#[repr(align(128))]
struct Node<T> {
    queues: Box<[Queue<T>]>,
}

struct Queue<T> {
    tasks: Mutex<ReadyQueue<Queued<T>>>,
    length: AtomicUsize,
}

impl<T: Schedulable> Queue<T> {
    fn with<R>(&self, action: impl FnOnce(&mut ReadyQueue<Queued<T>>) -> R) -> R {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let result = action(&mut tasks);
        self.length.store(tasks.len(), Ordering::Release);
        result
    }

    fn len(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }
}

impl<T: Schedulable> Node<T> {
    fn new(options: &Options) -> Self {
        let queue =
            |_| Queue { tasks: Mutex::new(ReadyQueue::new(options.policy)), length: AtomicUsize::new(0) };
        Node { queues: (0..Kind::COUNT).map(queue).collect() }
    }

    fn of(&self, kind: Kind) -> &Queue<T> {
        &self.queues[kind.index()]
    }
}

/// Has a record that will be run soon come into the cache: another worker may have written it.
#[inline]
fn prefetch<T>(task: NonNull<T>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = task.as_ptr().cast::<i8>();
        for line in 0..size_of::<T>().div_ceil(64) {
            // SAFETY: a prefetch reads nothing that the program could see, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * 64)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = task;
}

#[inline]
pub(super) fn priority<T: Schedulable>(task: NonNull<T>) -> i32 {
    // SAFETY: a task in the scheduler is alive.
    unsafe { task.as_ref() }.priority()
}

impl<T: Schedulable> Leaf<T> {
    /// Where the queue ends now, for a task that begins to wait on the worker's stack: see [`Mark`]. Called by the thread that is the
    /// worker.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        // SAFETY: the calling thread is this worker.
        Mark { worker: Some(self.worker), number: unsafe { self.own.own(|own| own.end()) } }
    }

    /// The youngest task of the worker's own queue, if it descends from `ancestor`; see [`Mark`]. Called by the thread that is the
    /// worker.
    #[inline]
    pub(crate) fn get_descendant(&self, ancestor: &T, mark: Mark) -> Option<NonNull<T>> {
        // SAFETY: the calling thread is this worker; queued tasks are alive.
        unsafe {
            self.own.own(|own| {
                if self.policy == QueuePolicy::Priority {
                    return own.get_descendant_sorted(ancestor, &self.length);
                }
                let known = own.known;
                let is_wanted = |end: u64, youngest: NonNull<T>| {
                    end > known && end > mark.of(self.worker) || youngest.as_ref().may_run_above(ancestor)
                };
                let (youngest, next) = own.queue.take_youngest_if(is_wanted)?;
                next.into_iter().for_each(prefetch);
                self.length.store(own.queue.len(), Ordering::Relaxed);
                Some(youngest)
            })
        }
    }

    /// How many tasks it has. To be called by the thread that is this leaf's worker.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// A task that waits for the oldest of several that it has created finds it below the others; if it took none, another thread
    /// would have to take its place. To be called by the thread that is this leaf's worker.
    #[cold]
    fn find_descendant(&self, ancestor: &T, most: usize) -> Option<NonNull<T>> {
        // SAFETY: the calling thread is this worker; queued tasks are alive.
        unsafe {
            self.own.own(|own| {
                let fits = |task: NonNull<T>| task.as_ref().may_run_above(ancestor);
                let found = own.queue.take_youngest_where(most, fits)?;
                self.length.store(own.queue.len(), Ordering::Relaxed);
                Some(found)
            })
        }
    }
}

impl<T: Schedulable> Leaf<T> {
    /// For another worker, on which `ancestor` waits: a task that it may run. Called where `own` may be used.
    fn give_descendant(&self, own: &mut Own<T>, ancestor: &T) -> Option<NonNull<T>> {
        // SAFETY: queued tasks are alive.
        let fits = |task: NonNull<T>| unsafe { task.as_ref() }.may_run_above(ancestor);
        let found = own.queue.take_oldest_where(LOOKS_AMONG_OLDEST, fits)?;
        self.length.store(own.queue.len(), Ordering::Relaxed);
        Some(found)
    }
}

impl<T: Schedulable> Tree<T> {
    pub(super) fn new(options: Options, topology: &Topology) -> Self {
        let leaf = |leaf: LeafId| Leaf {
            worker: WorkerId(leaf.0),
            policy: options.policy,
            own: Biased::new(Own { queue: Line::new(options.policy), taken: TAKEN_BEFORE, known: 0 }),
            length: AtomicUsize::new(0),
            enabled: AtomicBool::new(true),
            numa: topology.numa_of(leaf),
            kind: topology.kind_of(leaf),
            lone: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            next_asked: AtomicU32::new(leaf.0 + 1),
        };
        let threshold = match options.threshold {
            ThresholdPolicy::Static(threshold) => threshold,
            ThresholdPolicy::Dynamic => 0,
        };
        // On one node every place is near.
        let options = Options { locality: options.locality && topology.numa_nodes() > 1, ..options };
        let tree = Tree {
            options,
            leaves: topology.all().map(leaf).collect(),
            numa: (0..topology.numa_nodes()).map(|_| Node::new(&options)).collect(),
            root: Node::new(&options),
            threshold: AtomicU32::new(threshold),
            limit: AtomicU32::new(0),
            force: Rarely::new(),
            topology: topology.clone(),
        };
        tree.set_threshold(threshold);
        tree
    }

    fn set_threshold(&self, threshold: u32) {
        self.threshold.store(threshold, Ordering::Relaxed);
        let limit = if self.options.pull { threshold.max(KEEP) } else { threshold };
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The worker's own.
    #[inline]
    pub(super) fn leaf(&self, worker: WorkerId) -> &Leaf<T> {
        &self.leaves[worker.index()]
    }

    /// Adds a task that the leaf's worker made ready; see the caller for what holds of both.
    #[inline]
    pub(super) fn add_own(&self, stations: &Stations<T>, leaf: &Leaf<T>, task: NonNull<T>, created: bool) {
        // SAFETY: in the scheduler from now on, so alive.
        if unsafe { self.is_for_others(leaf, task.as_ref()) } {
            return self.add_other(stations, leaf, task, created);
        }
        self.put(stations, leaf, task, created);
    }

    #[inline]
    fn is_for_others(&self, leaf: &Leaf<T>, record: &T) -> bool {
        record.kind() != leaf.kind
            || (self.options.locality && record.place().is_some_and(|numa| usize::from(numa) != leaf.numa))
            || !leaf.enabled.load(Ordering::Relaxed)
    }

    /// Puts a task for the leaf into its queue.
    #[inline]
    fn put(&self, stations: &Stations<T>, leaf: &Leaf<T>, task: NonNull<T>, created: bool) {
        // SAFETY: the calling thread is this worker.
        let length = unsafe {
            leaf.own.own(|own| {
                let length = if created { own.add_created(task) } else { own.add_unknown(task) };
                leaf.length.store(length, Ordering::Relaxed);
                length
            })
        };
        fences::light();
        if stations.any_idle(leaf.kind) || length > self.limit.load(Ordering::Relaxed) as usize {
            let kept = if created { self.keep_lone(stations, leaf, length) } else { 0 };
            self.settle(stations, leaf.worker, kept);
        }
    }

    /// [`Tree::add_own`] for a task that is not, as far as is known, for the leaf.
    #[cold]
    fn add_other(&self, stations: &Stations<T>, leaf: &Leaf<T>, task: NonNull<T>, created: bool) {
        // SAFETY: in the scheduler from now on, so alive.
        let before = unsafe { task.as_ref() }.kind();
        // SAFETY: as above, and in no list.
        let Some(kind) = (unsafe { kind_of(task) }) else { return };
        // SAFETY: as above. Without recursion, so that the usual case is inlined.
        if kind != before && !unsafe { self.is_for_others(leaf, task.as_ref()) } {
            self.put(stations, leaf, task, created);
        } else {
            self.add_elsewhere(stations, Some(leaf.numa), task);
        }
    }

    /// Somebody is idle, and the leaf's worker has created a task: how many stay here. One, if somebody watches that it does not wait
    /// for long.
    #[inline]
    fn keep_lone(&self, stations: &Stations<T>, leaf: &Leaf<T>, length: usize) -> usize {
        if !self.options.pull {
            return 0;
        }
        if length == 1 {
            leaf.lone.store(leaf.lone.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        usize::from(leaf.kind == Kind::CPU && stations.watch.is_on())
    }

    /// How many tasks have been created alone while others were idle.
    pub(super) fn lone(&self) -> u64 {
        self.leaves.iter().map(|leaf| leaf.lone.load(Ordering::Relaxed)).sum()
    }

    /// Whether somebody has a task that was there when this was asked last.
    pub(super) fn has_late(&self) -> bool {
        let is_late = |leaf: &Leaf<T>| {
            let lone = leaf.lone.load(Ordering::Relaxed);
            let was_there = leaf.seen.load(Ordering::Relaxed) == lone;
            leaf.seen.store(lone, Ordering::Relaxed);
            was_there && leaf.kind == Kind::CPU && leaf.length.load(Ordering::Relaxed) > 0
        };
        // All are looked at, however many are late.
        self.leaves.iter().filter(|leaf| is_late(leaf)).count() > 0
    }

    /// Adds a task that its adder's leaf cannot or shall not run: to an idle worker, to the node of its place, or above.
    #[cold]
    pub(super) fn add_elsewhere(&self, stations: &Stations<T>, numa: Option<usize>, task: NonNull<T>) {
        // SAFETY: in the scheduler from now on, so alive, and in no list.
        let Some(kind) = (unsafe { kind_of(task) }) else { return };
        // SAFETY: as above.
        let place = unsafe { task.as_ref() }.place();
        let place = place.map(usize::from).filter(|&numa| self.options.locality && numa < self.numa.len());
        let numa = place.or(numa);
        if self.options.polling_slots
            && let Some(claim) = stations.claim(kind, numa)
        {
            stations.fill(&claim, 0, task);
            return stations.ring(claim, 1);
        }
        let node = match numa.filter(|&numa| self.runs_here(numa, kind)) {
            Some(numa) => &self.numa[numa],
            None => &self.root,
        };
        node.of(kind).with(|tasks| tasks.add(priority(task), Queued(task)));
        fences::light();
        self.call(stations, kind, numa);
    }

    /// Has an idle worker look, if there is one.
    fn call(&self, stations: &Stations<T>, kind: Kind, numa: Option<usize>) {
        if stations.any_idle(kind)
            && let Some(claim) = stations.claim(kind, numa)
        {
            stations.ring(claim, 0);
        }
    }

    fn runs_here(&self, numa: usize, kind: Kind) -> bool {
        let able = |leaf: LeafId| {
            let leaf = &self.leaves[leaf.index()];
            leaf.kind == kind && leaf.enabled.load(Ordering::Relaxed)
        };
        self.topology.leaves_of(numa).any(able)
    }

    /// The leaf has too much, or somebody is idle: a part of it goes to an idle worker, or half of it to the leaf's parent, until it fits. So many
    /// are kept although somebody is idle.
    #[cold]
    fn settle(&self, stations: &Stations<T>, worker: WorkerId, kept: usize) {
        let leaf = &self.leaves[worker.index()];
        loop {
            let length = leaf.length.load(Ordering::Relaxed);
            let threshold = self.threshold.load(Ordering::Relaxed) as usize;
            // With `pull`, whoever is idle is handed a part of whatever there is.
            let enough = if self.options.pull { kept } else { threshold };
            if length > enough
                && let Some(claim) = stations.claim(leaf.kind, Some(leaf.numa))
            {
                let mut count = 0;
                // As much for each who is idle, the one that was claimed included, as stays here.
                let sharers = 2 + stations.idle(leaf.kind);
                // SAFETY: the calling thread is this worker.
                unsafe {
                    leaf.own.own(|own| {
                        let part = own.queue.len().div_ceil(sharers).min(SLOT_TASKS);
                        own.queue.move_level(part, |task| {
                            stations.fill(&claim, count, task.0);
                            count += 1;
                        });
                        leaf.length.store(own.queue.len(), Ordering::Relaxed);
                    });
                }
                stations.ring(claim, count);
                continue;
            }
            if length <= self.limit.load(Ordering::Relaxed) as usize {
                return;
            }
            self.overflow(stations, worker);
        }
    }

    /// Half of the leaf's queue goes to its NUMA node, and half of that to the root if it is too much there.
    fn overflow(&self, stations: &Stations<T>, worker: WorkerId) {
        let leaf = &self.leaves[worker.index()];
        // SAFETY: the calling thread is this worker.
        let set = unsafe {
            leaf.own.own(|own| {
                let half = own.queue.len().div_ceil(2);
                let set = own.take_set(half);
                leaf.length.store(own.queue.len(), Ordering::Relaxed);
                set
            })
        };
        self.give_numa(stations, leaf.numa, leaf.kind, set);
    }

    fn give_numa(&self, stations: &Stations<T>, numa: usize, kind: Kind, set: Vec<Queued<T>>) {
        let limit = self.limit.load(Ordering::Relaxed);
        let above = self.numa[numa].of(kind).with(|tasks| {
            set.into_iter().for_each(|task| tasks.add(priority(task.0), task));
            tasks.take_set(overflow_count(tasks.len(), limit))
        });
        if !above.is_empty() {
            self.root.of(kind).with(|tasks| {
                above.into_iter().for_each(|task| tasks.add(priority(task.0), task));
            });
            if self.options.threshold == ThresholdPolicy::Dynamic {
                self.set_threshold(doubled(self.threshold.load(Ordering::Relaxed)));
            }
        }
        fences::light();
        self.call(stations, kind, Some(numa));
    }

    /// The next task of the worker's own queue, or of what waits above it.
    #[inline]
    pub(super) fn get(&self, stations: &Stations<T>, worker: WorkerId) -> Option<NonNull<T>> {
        let leaf = &self.leaves[worker.index()];
        // SAFETY: the calling thread is this worker.
        let (task, length, taken) = unsafe {
            leaf.own.own(|own| {
                let task = own.queue.take();
                own.queue.next().into_iter().for_each(prefetch);
                let length = own.queue.len();
                leaf.length.store(length, Ordering::Relaxed);
                own.taken = own.taken.wrapping_add(1);
                (task, length, own.taken)
            })
        };
        let Some(task) = task else { return self.ask(worker) };
        if length > 0 && (taken.is_multiple_of(LOOK_ABOVE) || stations.any_idle(leaf.kind)) {
            self.look_around(stations, worker, taken);
        }
        Some(task)
    }

    /// The worker goes on with a successor: what it has in its queue is not forgotten if somebody is idle.
    #[inline]
    pub(super) fn share(&self, stations: &Stations<T>, worker: WorkerId) {
        let leaf = &self.leaves[worker.index()];
        if leaf.length.load(Ordering::Relaxed) > 0 && stations.any_idle(leaf.kind) {
            self.settle(stations, worker, 0);
        }
    }

    #[cold]
    fn look_around(&self, stations: &Stations<T>, worker: WorkerId, taken: u32) {
        if stations.any_idle(self.leaves[worker.index()].kind) {
            self.settle(stations, worker, 0);
        }
        if taken.is_multiple_of(LOOK_ABOVE)
            && let Some(task) = self.ask_for(worker, 1)
        {
            self.keep(worker, [task]);
        }
    }

    /// Puts tasks into the worker's own queue and leaves it at that.
    pub(super) fn keep(&self, worker: WorkerId, tasks: impl IntoIterator<Item = NonNull<T>>) {
        let leaf = &self.leaves[worker.index()];
        // SAFETY: the calling thread is this worker.
        unsafe {
            leaf.own.own(|own| {
                tasks.into_iter().for_each(|task| _ = own.add_unknown(task));
                leaf.length.store(own.queue.len(), Ordering::Relaxed);
            });
        }
    }

    /// The leaf has nothing: what its parents have.
    fn ask(&self, worker: WorkerId) -> Option<NonNull<T>> {
        self.ask_for(worker, usize::MAX)
    }

    /// Up to `most` tasks from the parents: one is returned, the others go into the leaf's queue.
    fn ask_for(&self, worker: WorkerId, most: usize) -> Option<NonNull<T>> {
        let leaf = &self.leaves[worker.index()];
        let limit = self.limit.load(Ordering::Relaxed);
        for node in [&self.numa[leaf.numa], &self.root] {
            let queue = node.of(leaf.kind);
            if queue.len() == 0 {
                continue;
            }
            let set = queue.with(|tasks| tasks.take_set(grant_count(tasks.len(), limit).min(most)));
            if let Some(task) = self.accept(worker, set) {
                return Some(task);
            }
        }
        None
    }

    /// Takes a set into the worker's queue and the first task out of it.
    fn accept(&self, worker: WorkerId, set: Vec<Queued<T>>) -> Option<NonNull<T>> {
        if set.len() == 1 {
            return set.into_iter().next().map(|task| task.0);
        }
        if set.is_empty() {
            return None;
        }
        self.keep(worker, set.into_iter().map(|task| task.0));
        let leaf = &self.leaves[worker.index()];
        // SAFETY: the calling thread is this worker.
        unsafe {
            leaf.own.own(|own| {
                let task = own.queue.take();
                own.known = own.end();
                leaf.length.store(own.queue.len(), Ordering::Relaxed);
                task
            })
        }
    }

    /// A task of the worker's own queue that descends from `ancestor`, the youngest if it does; see [`super::Mark`].
    pub(super) fn get_descendant(&self, worker: WorkerId, ancestor: &T, mark: Mark) -> Option<NonNull<T>> {
        let leaf = self.leaf(worker);
        leaf.get_descendant(ancestor, mark).or_else(|| leaf.find_descendant(ancestor, LOOKS_FOR_DESCENDANT))
    }

    /// A task that descends from `ancestor` and waits in what workers share, or with one of those that the worker asks.
    pub(super) fn ask_for_descendant(&self, worker: WorkerId, ancestor: &T) -> Option<NonNull<T>> {
        self.find_shared(worker, ancestor).or_else(|| {
            let mut asked = self.hoarders(worker, 0).take(ASKED_AT_ONCE);
            asked.find_map(|leaf| leaf.own.ask(|own| leaf.give_descendant(own, ancestor))?)
        })
    }

    /// As [`Tree::ask_for_descendant`], and if nobody who was asked has one, from another's leaf all the same, if it is time to do so.
    pub(super) fn seek_descendant(&self, worker: WorkerId, ancestor: &T) -> Option<NonNull<T>> {
        self.leaf(worker)
            .find_descendant(ancestor, usize::MAX)
            .or_else(|| self.ask_for_descendant(worker, ancestor))
            .or_else(|| {
                let leaf = self.hoarders(worker, 0).next().filter(|_| self.force.is_time())?;
                leaf.own.force(|own| leaf.give_descendant(own, ancestor))?
            })
    }

    /// A task that descends from `ancestor` in what workers share.
    fn find_shared(&self, worker: WorkerId, ancestor: &T) -> Option<NonNull<T>> {
        // SAFETY: queued tasks are alive.
        let fits = |task: &Queued<T>| unsafe { task.0.as_ref() }.may_run_above(ancestor);
        let shared = self.numa.iter().chain([&self.root]).map(|node| node.of(self.leaf(worker).kind));
        let mut shared = shared.filter(|queue| queue.len() > 0);
        shared
            .find_map(|queue| queue.with(|tasks| tasks.take_youngest_where(usize::MAX, fits)))
            .map(|task| task.0)
    }

    /// The leaves of other workers of the same kind that hold more than `allowed`: from the one that comes next on, so that not all who
    /// look for something come to the same one.
    fn hoarders(&self, worker: WorkerId, allowed: usize) -> impl Iterator<Item = &Leaf<T>> {
        let own = self.leaf(worker);
        let first = own.next_asked.load(Ordering::Relaxed) as usize;
        let all = (0..self.leaves.len()).map(move |at| &self.leaves[(first + at) % self.leaves.len()]);
        let hoards = move |leaf: &&Leaf<T>| {
            leaf.worker != worker && leaf.kind == own.kind && leaf.length.load(Ordering::Relaxed) > allowed
        };
        all.filter(hoards).inspect(move |leaf| own.next_asked.store(leaf.worker.0 + 1, Ordering::Relaxed))
    }

    /// Another thread is this worker now: what lies in the queue was not created on its stack.
    pub(super) fn change_hands(&self, worker: WorkerId) {
        // SAFETY: the calling thread is this worker.
        unsafe { self.leaves[worker.index()].own.own(|own| own.known = own.end()) }
    }

    /// Whether the own queue of some worker of this kind has something.
    pub(super) fn holds_any(&self, kind: Kind) -> bool {
        self.leaves.iter().any(|leaf| leaf.kind == kind && leaf.length.load(Ordering::Relaxed) > 0)
    }

    /// The worker asked the root in vain: the threshold shrinks, and what others have too much of is fetched.
    pub(super) fn starve(&self, worker: WorkerId) -> Option<NonNull<T>> {
        let before = self.threshold.load(Ordering::Relaxed);
        let shrinks = self.options.threshold == ThresholdPolicy::Dynamic && before > 0;
        if shrinks {
            self.set_threshold(halved(before));
        }
        if self.options.pull {
            return self.fetch(worker, 0);
        }
        (shrinks && self.options.rebalance).then(|| self.fetch(worker, halved(before)))?
    }

    /// Takes what nodes and leaves have above `allowed`, nearest first.
    fn fetch(&self, worker: WorkerId, allowed: u32) -> Option<NonNull<T>> {
        let leaf = &self.leaves[worker.index()];
        for numa in (0..self.numa.len()).filter(|&numa| numa != leaf.numa) {
            let queue = self.numa[numa].of(leaf.kind);
            if queue.len() > allowed as usize {
                let set = queue.with(|tasks| tasks.take_set(self.too_many(tasks.len(), allowed)));
                if let Some(task) = self.accept(worker, set) {
                    return Some(task);
                }
            }
        }
        let near = |other: &&Leaf<T>| other.numa == leaf.numa;
        let hoarders = || self.hoarders(worker, allowed as usize);
        let asked = hoarders().filter(near).take(ASKED_AT_ONCE);
        let asked = asked.chain(hoarders().filter(|other| !near(other)).take(ASKED_AT_ONCE));
        let mut asked = asked.filter_map(|other| other.own.ask(|own| self.give(other, own, allowed)));
        if let Some(task) = asked.find_map(|set| self.accept(worker, set)) {
            return Some(task);
        }
        let forced = hoarders().find(near).or_else(|| hoarders().next()).filter(|_| self.force.is_time())?;
        self.accept(worker, forced.own.force(|own| self.give(forced, own, allowed))?)
    }

    /// What another worker takes out of a leaf that may keep `allowed`.
    fn give(&self, leaf: &Leaf<T>, own: &mut Own<T>, allowed: u32) -> Vec<Queued<T>> {
        let count = self.too_many(own.queue.len(), allowed);
        let mut set = Vec::with_capacity(count.min(own.queue.len()));
        own.queue.move_level(count, |task| set.push(task));
        leaf.length.store(own.queue.len(), Ordering::Relaxed);
        set
    }

    /// How many of `length` tasks somebody who starves takes from a node that may keep `allowed`.
    fn too_many(&self, length: usize, allowed: u32) -> usize {
        if self.options.pull {
            length.div_ceil(2).min(SLOT_TASKS * 2)
        } else {
            overflow_count(length, allowed)
        }
    }

    /// Whether `worker` would find something: for the last look before it sleeps.
    pub(super) fn has_work(&self, worker: WorkerId) -> bool {
        let own = &self.leaves[worker.index()];
        let above = [&self.numa[own.numa], &self.root];
        if above.into_iter().any(|node| node.of(own.kind).len() > 0) {
            return true;
        }
        let of_kind = |leaf: &&Leaf<T>| leaf.kind == own.kind && leaf.length.load(Ordering::Relaxed) > 0;
        if !self.options.pull {
            return own.length.load(Ordering::Relaxed) > 0;
        }
        self.leaves.iter().any(|leaf| of_kind(&leaf))
            || self.numa.iter().any(|node| node.of(own.kind).len() > 0)
    }

    /// Takes a leaf out or puts it back. The caller sees to it that one of its kind stays.
    pub(super) fn set_enabled(&self, worker: WorkerId, enabled: bool) {
        self.leaves[worker.index()].enabled.store(enabled, Ordering::Relaxed);
    }

    /// What a leaf that was taken out holds goes to its parent, or above if nobody there would ask for it. Called by the
    /// thread that is this worker.
    pub(super) fn clear(&self, stations: &Stations<T>, worker: WorkerId) {
        let leaf = &self.leaves[worker.index()];
        // SAFETY: the calling thread is this worker.
        let mut set = unsafe {
            leaf.own.own(|own| {
                leaf.length.store(0, Ordering::Relaxed);
                own.take_set(usize::MAX)
            })
        };
        if self.runs_here(leaf.numa, leaf.kind) {
            return self.give_numa(stations, leaf.numa, leaf.kind, set);
        }
        set.extend(self.numa[leaf.numa].of(leaf.kind).with(|tasks| tasks.take_set(usize::MAX)));
        self.root.of(leaf.kind).with(|tasks| {
            set.into_iter().for_each(|task| tasks.add(priority(task.0), task));
        });
        fences::light();
        self.call(stations, leaf.kind, None);
    }

    /// How many tasks wait, about.
    pub(super) fn len(&self) -> usize {
        let leaves = self.leaves.iter().map(|leaf| leaf.length.load(Ordering::Relaxed));
        let nodes = self.numa.iter().chain([&self.root]).flat_map(|node| &node.queues).map(Queue::len);
        leaves.chain(nodes).sum()
    }

    /// How many tasks wait in each worker's queue, about, and in those above.
    pub(super) fn lengths(&self) -> (Vec<usize>, usize) {
        let leaves = self.leaves.iter().map(|leaf| leaf.length.load(Ordering::Relaxed));
        let nodes = self.numa.iter().chain([&self.root]).flat_map(|node| &node.queues).map(Queue::len);
        (leaves.collect(), nodes.sum())
    }

    /// The threshold at present.
    pub(super) fn threshold(&self) -> u32 {
        self.threshold.load(Ordering::Relaxed)
    }
}
