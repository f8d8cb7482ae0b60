//! The tree as plain data: what one thread at a time would do to it (paper, sections 4.1 and 4.2).
//!
//! With [`Options::pull`] what the paper does on every overflow is done when it helps: while nobody is idle a leaf keeps
//! [`KEEP`] tasks, or the threshold if that is larger; one that finds a leaf idle hands it half of what it has; and a
//! leaf for which nothing waits above visits the others, nearest first.
//!
//! Every operation notes in a log which nodes it touched and whom it woke, so that whoever drives it in virtual time
//! can charge for that.

use crate::ready::{Effect, Node, Ready};
use crate::{Kind, LeafId, Options, Probability, ReadyQueue, Threshold, Topology, grant_count};
use castell_base::Rank;
use castell_base::random::Philox;
use rand_core::RngCore;
use std::collections::VecDeque;

/// How many tasks a leaf keeps with [`Options::pull`] while nobody is idle, unless the threshold says more.
pub const KEEP: u32 = 256;
/// How many tasks an idle leaf is handed at once at most. One that fetches takes up to twice as many.
pub const HANDED: usize = 64;

/// The scheduler's tree.
#[derive(Debug)]
pub struct Tree<T> {
    options: Options,
    topology: Topology,
    threshold: Threshold,
    leaves: Vec<Leaf<T>>,
    numa: Vec<Inner<T, LeafId>>,
    root: Inner<T, usize>,
    random: Philox,
    log: Vec<Effect>,
    /// Leaves that have been given tasks and may hold too many.
    unsettled: VecDeque<LeafId>,
}

#[derive(Debug)]
struct Leaf<T> {
    queue: ReadyQueue<Ready<T>>,
    slot: Option<Ready<T>>,
    successor: Option<Ready<T>>,
    waits: bool,
    enabled: bool,
}

/// A NUMA node or the root: by kind, a queue and the children that have nothing.
#[derive(Debug)]
struct Inner<T, Child> {
    kinds: Vec<(ReadyQueue<Ready<T>>, VecDeque<Child>)>,
}

impl<T, Child: PartialEq> Inner<T, Child> {
    fn new(options: &Options) -> Self {
        let kind = |_| (ReadyQueue::new(options.policy), VecDeque::new());
        Inner { kinds: (0..Kind::COUNT).map(kind).collect() }
    }

    fn queue(&mut self, kind: Kind) -> &mut ReadyQueue<Ready<T>> {
        &mut self.kinds[kind.index()].0
    }

    fn idle(&mut self, kind: Kind) -> &mut VecDeque<Child> {
        &mut self.kinds[kind.index()].1
    }

    fn note_idle(&mut self, kind: Kind, child: Child) {
        if !self.idle(kind).contains(&child) {
            self.idle(kind).push_back(child);
        }
    }

    fn add(&mut self, kind: Kind, set: Vec<Ready<T>>) {
        set.into_iter().for_each(|ready| self.queue(kind).add(ready.priority, ready));
    }
}

impl<T> Tree<T> {
    /// An empty tree over `topology`, all leaves enabled; `seed` decides where tasks from outside go and which
    /// successors run at once.
    pub fn new(topology: Topology, options: Options, seed: u64) -> Tree<T> {
        let leaf = |_| Leaf {
            queue: ReadyQueue::new(options.policy),
            slot: None,
            successor: None,
            waits: false,
            enabled: true,
        };
        Tree {
            threshold: Threshold::new(options.threshold),
            leaves: topology.all().map(leaf).collect(),
            numa: (0..topology.numa_nodes()).map(|_| Inner::new(&options)).collect(),
            root: Inner::new(&options),
            random: Philox::new(seed, Rank(0), 0, 0),
            log: Vec::new(),
            unsettled: VecDeque::new(),
            options,
            topology,
        }
    }

    /// How many tasks a node may keep at present.
    pub fn threshold(&self) -> u32 {
        self.threshold.value()
    }

    /// How many a node keeps before it gives to its parent.
    fn limit(&self) -> usize {
        let threshold = self.threshold.value();
        (if self.options.pull { threshold.max(KEEP) } else { threshold }) as usize
    }

    /// How many tasks wait in a leaf's queue.
    pub fn queued_at(&self, leaf: LeafId) -> usize {
        self.leaves[leaf.index()].queue.len()
    }

    /// How many tasks wait in the inner nodes, slots included nowhere.
    pub fn queued_above(&self) -> usize {
        let numa = self.numa.iter().flat_map(|node| &node.kinds).map(|(queue, _)| queue.len());
        let root = self.root.kinds.iter().map(|(queue, _)| queue.len());
        numa.chain(root).sum()
    }

    /// How many tasks wait anywhere.
    pub fn len(&self) -> usize {
        let in_leaf = |leaf: &Leaf<T>| {
            leaf.queue.len() + usize::from(leaf.slot.is_some()) + usize::from(leaf.successor.is_some())
        };
        self.leaves.iter().map(in_leaf).sum::<usize>() + self.queued_above()
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What has happened since the last call.
    pub fn drain_log(&mut self) -> std::vec::Drain<'_, Effect> {
        self.log.drain(..)
    }

    /// Adds a ready task; `from` is the leaf whose task made it ready, `None` anybody outside.
    pub fn add(&mut self, from: Option<LeafId>, ready: Ready<T>) {
        let place = ready.place.filter(|&numa| self.options.locality && numa < self.numa.len());
        let fits = |leaf: &LeafId| {
            self.leaves[leaf.index()].enabled
                && self.topology.kind_of(*leaf) == ready.kind
                && place.is_none_or(|numa| numa == self.topology.numa_of(*leaf))
        };
        if let Some(leaf) = from.filter(fits) {
            self.push(leaf, ready);
        } else if let Some(numa) = place.or_else(|| from.map(|leaf| self.topology.numa_of(leaf)))
            && self.runs_here(numa, ready.kind)
        {
            self.give_numa(numa, ready.kind, vec![ready]);
        } else {
            self.add_anywhere(ready);
        }
        self.settle();
    }

    /// Adds what a finished task made ready, the first of it perhaps as the leaf's immediate successor.
    pub fn add_ready(&mut self, from: LeafId, ready: Vec<Ready<T>>) {
        for ready in ready {
            let random = &mut self.random;
            let numa = self.topology.numa_of(from);
            let near = !self.options.locality || ready.place.is_none_or(|place| place == numa);
            let leaf = &mut self.leaves[from.index()];
            let fits =
                near && leaf.enabled && leaf.successor.is_none() && self.topology.kind_of(from) == ready.kind;
            if fits && self.options.immediate_successor.happens(|| random.next_u32()) {
                leaf.successor = Some(ready);
            } else {
                self.add(Some(from), ready);
            }
        }
    }

    /// The next task for a leaf. If there is none, the leaf waits: the log will tell when it has been given one.
    pub fn get(&mut self, leaf: LeafId) -> Option<Ready<T>> {
        if let Some(ready) = self.take_own(leaf) {
            return Some(ready);
        }
        if !self.leaves[leaf.index()].enabled {
            return None;
        }
        self.ask(leaf);
        self.take_own(leaf)
    }

    /// Takes a leaf out: what it holds goes to its parent. False, and nothing happens, if it is the last of its kind.
    pub fn disable(&mut self, leaf: LeafId) -> bool {
        let kind = self.topology.kind_of(leaf);
        let others = self.topology.all().filter(|&other| {
            other != leaf && self.leaves[other.index()].enabled && self.topology.kind_of(other) == kind
        });
        if others.count() == 0 {
            return false;
        }
        self.stop_waiting(leaf);
        let gone = &mut self.leaves[leaf.index()];
        gone.enabled = false;
        let mut set: Vec<Ready<T>> = gone.successor.take().into_iter().chain(gone.slot.take()).collect();
        let count = gone.queue.len();
        set.extend(gone.queue.take_set(count));
        let numa = self.topology.numa_of(leaf);
        if !self.runs_here(numa, kind) {
            // Nobody is left who would ask this node.
            let queue = self.numa[numa].queue(kind);
            set.extend(queue.take_set(queue.len()));
            if !set.is_empty() {
                self.give_root(kind, set);
            }
        } else if !set.is_empty() {
            self.give_numa(numa, kind, set);
        }
        self.settle();
        true
    }

    /// Puts a leaf back; it has nothing until it asks.
    pub fn enable(&mut self, leaf: LeafId) {
        self.leaves[leaf.index()].enabled = true;
    }

    fn take_own(&mut self, leaf: LeafId) -> Option<Ready<T>> {
        let leaf = &mut self.leaves[leaf.index()];
        leaf.successor.take().or_else(|| leaf.slot.take()).or_else(|| leaf.queue.take())
    }

    fn runs_here(&self, numa: usize, kind: Kind) -> bool {
        self.topology
            .leaves_of(numa)
            .any(|leaf| self.leaves[leaf.index()].enabled && self.topology.kind_of(leaf) == kind)
    }

    /// A random leaf that can run it, in its polling slot if that leaf waits; the root if there is none.
    fn add_anywhere(&mut self, ready: Ready<T>) {
        let fits =
            |leaf: &LeafId| self.leaves[leaf.index()].enabled && self.topology.kind_of(*leaf) == ready.kind;
        let fitting: Vec<LeafId> = self.topology.all().filter(fits).collect();
        let draw = u64::from(self.random.next_u32());
        match fitting.get(((draw * fitting.len() as u64) >> 32) as usize) {
            Some(&leaf) if self.leaves[leaf.index()].waits => self.hand(leaf, vec![ready]),
            Some(&leaf) => self.push(leaf, ready),
            None => self.root.queue(ready.kind).add(ready.priority, ready),
        }
    }

    fn push(&mut self, leaf: LeafId, ready: Ready<T>) {
        self.log.push(Effect::Touched { node: Node::Leaf(leaf), tasks: 1 });
        self.leaves[leaf.index()].queue.add(ready.priority, ready);
        self.unsettled.push_back(leaf);
    }

    /// Leaves that hold too many give half to their parents, until they fit.
    fn settle(&mut self) {
        while let Some(leaf) = self.unsettled.pop_front() {
            let length = self.leaves[leaf.index()].queue.len();
            let (numa, kind) = (self.topology.numa_of(leaf), self.topology.kind_of(leaf));
            let idle = if self.options.pull && length > 0 { self.nearest_idle(numa, kind) } else { None };
            if idle.is_none() && length <= self.limit() {
                continue;
            }
            let most = if idle.is_some() { HANDED } else { length };
            let set = self.leaves[leaf.index()].queue.take_set(length.div_ceil(2).min(most));
            self.unsettled.push_back(leaf);
            match idle {
                Some(idle) => self.hand(idle, set),
                None => self.give_numa(numa, kind, set),
            }
        }
    }

    /// A leaf that waits, of this NUMA node if there is one.
    fn nearest_idle(&mut self, numa: usize, kind: Kind) -> Option<LeafId> {
        let near = self.numa[numa].idle(kind).front().copied();
        near.or_else(|| {
            let numa = self.root.idle(kind).front().copied()?;
            self.numa[numa].idle(kind).front().copied()
        })
    }

    /// A NUMA node is given a set: it goes to an idle leaf, or is kept, and what is too much goes on to the root.
    fn give_numa(&mut self, numa: usize, kind: Kind, set: Vec<Ready<T>>) {
        self.log.push(Effect::Touched { node: Node::Numa(numa), tasks: set.len() });
        if let Some(&leaf) = self.numa[numa].idle(kind).front() {
            return self.hand(leaf, set);
        }
        self.numa[numa].add(kind, set);
        self.settle_numa(numa, kind);
    }

    fn settle_numa(&mut self, numa: usize, kind: Kind) {
        loop {
            let limit = self.limit();
            let queue = self.numa[numa].queue(kind);
            let length = queue.len();
            if length <= limit {
                return;
            }
            let set = queue.take_set(length.div_ceil(2).max(1));
            self.give_root(kind, set);
        }
    }

    fn give_root(&mut self, kind: Kind, set: Vec<Ready<T>>) {
        self.log.push(Effect::Touched { node: Node::Root, tasks: set.len() });
        self.threshold.overflowed();
        let idle = self.root.idle(kind).front().copied();
        match idle.and_then(|numa| self.numa[numa].idle(kind).front().copied()) {
            Some(leaf) => self.hand(leaf, set),
            None => self.root.add(kind, set),
        }
    }

    /// A waiting leaf is given a set: one task into its polling slot, the others into its queue.
    fn hand(&mut self, leaf: LeafId, set: Vec<Ready<T>>) {
        self.stop_waiting(leaf);
        self.log.push(Effect::Touched { node: Node::Leaf(leaf), tasks: set.len() });
        self.log.push(Effect::Woken(leaf));
        let given = &mut self.leaves[leaf.index()];
        set.into_iter().for_each(|ready| given.queue.add(ready.priority, ready));
        if given.slot.is_none() {
            given.slot = given.queue.take();
        }
        self.unsettled.push_back(leaf);
    }

    fn stop_waiting(&mut self, leaf: LeafId) {
        if !std::mem::take(&mut self.leaves[leaf.index()].waits) {
            return;
        }
        let (numa, kind) = (self.topology.numa_of(leaf), self.topology.kind_of(leaf));
        let idle = self.numa[numa].idle(kind);
        idle.retain(|&other| other != leaf);
        if idle.is_empty() {
            self.root.idle(kind).retain(|&other| other != numa);
        }
    }

    /// A leaf has nothing: its ancestors give some of what they have, or note that it is idle.
    fn ask(&mut self, leaf: LeafId) {
        let (numa, kind) = (self.topology.numa_of(leaf), self.topology.kind_of(leaf));
        let threshold = self.threshold.value();
        self.log.push(Effect::Touched { node: Node::Numa(numa), tasks: 0 });
        let mut queue = self.numa[numa].queue(kind);
        if queue.is_empty() {
            self.log.push(Effect::Touched { node: Node::Root, tasks: 0 });
            queue = self.root.queue(kind);
        }
        let set = queue.take_set(grant_count(queue.len(), threshold));
        if !set.is_empty() {
            return self.keep(leaf, set);
        }
        let shrinks = self.threshold.starved();
        if self.options.pull
            && let Some(set) = self.fetch(leaf)
        {
            return self.keep(leaf, set);
        }
        self.leaves[leaf.index()].waits = true;
        self.numa[numa].note_idle(kind, leaf);
        self.root.note_idle(kind, numa);
        if shrinks && self.options.rebalance && !self.options.pull {
            self.rebalance();
        }
    }

    /// What a leaf asked for goes into its queue.
    fn keep(&mut self, leaf: LeafId, set: Vec<Ready<T>>) {
        self.stop_waiting(leaf);
        self.log.push(Effect::Touched { node: Node::Leaf(leaf), tasks: set.len() });
        let own = &mut self.leaves[leaf.index()].queue;
        set.into_iter().for_each(|ready| own.add(ready.priority, ready));
    }

    /// Half of what the nearest other node or leaf holds.
    fn fetch(&mut self, leaf: LeafId) -> Option<Vec<Ready<T>>> {
        let (own, kind) = (self.topology.numa_of(leaf), self.topology.kind_of(leaf));
        let half = |length: usize| length.div_ceil(2).min(2 * HANDED);
        if let Some(numa) =
            (0..self.numa.len()).find(|&numa| numa != own && !self.numa[numa].queue(kind).is_empty())
        {
            self.log.push(Effect::Touched { node: Node::Numa(numa), tasks: 0 });
            let queue = self.numa[numa].queue(kind);
            return Some(queue.take_set(half(queue.len())));
        }
        let holds = |other: &LeafId| {
            self.topology.kind_of(*other) == kind && !self.leaves[other.index()].queue.is_empty()
        };
        let is_near = |other: &LeafId| self.topology.numa_of(*other) == own;
        let near = self.topology.all().filter(is_near).find(holds);
        let other = near.or_else(|| self.topology.all().find(holds))?;
        self.log.push(Effect::Touched { node: Node::Leaf(other), tasks: 0 });
        let queue = &mut self.leaves[other.index()].queue;
        Some(queue.take_set(half(queue.len())))
    }

    /// The threshold has shrunk: every node gives away what it now holds too much of.
    fn rebalance(&mut self) {
        self.unsettled.extend(self.topology.all());
        self.settle();
        for numa in 0..self.numa.len() {
            (0..Kind::COUNT as u8).for_each(|kind| self.settle_numa(numa, Kind(kind)));
        }
        self.settle();
    }

    /// How often a successor runs at once.
    pub fn immediate_successor(&self) -> Probability {
        self.options.immediate_successor
    }
}
