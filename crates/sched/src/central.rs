//! One queue for all workers, as plain data: the paper's baseline (chapter 3).

use crate::ready::{Effect, Node, Ready};
use crate::{Kind, LeafId, Options, ReadyQueue, Topology};
use castell_base::Rank;
use castell_base::random::Philox;
use rand_core::RngCore;
use std::collections::VecDeque;

/// The central scheduler.
#[derive(Debug)]
pub struct Central<T> {
    options: Options,
    topology: Topology,
    queues: Vec<ReadyQueue<Ready<T>>>,
    /// By leaf: what it was handed while it waited, what its last task made ready, whether it takes part.
    slots: Vec<Option<Ready<T>>>,
    successors: Vec<Option<Ready<T>>>,
    enabled: Vec<bool>,
    waiting: VecDeque<LeafId>,
    random: Philox,
    log: Vec<Effect>,
}

impl<T> Central<T> {
    /// An empty queue for the leaves of `topology`; `seed` decides which successors run at once.
    pub fn new(topology: Topology, options: Options, seed: u64) -> Central<T> {
        let leaves = topology.leaves();
        Central {
            queues: (0..Kind::COUNT).map(|_| ReadyQueue::new(options.policy)).collect(),
            slots: (0..leaves).map(|_| None).collect(),
            successors: (0..leaves).map(|_| None).collect(),
            enabled: vec![true; leaves],
            waiting: VecDeque::new(),
            random: Philox::new(seed, Rank(0), 0, 0),
            log: Vec::new(),
            options,
            topology,
        }
    }

    /// How many tasks wait.
    pub fn len(&self) -> usize {
        let held = self.slots.iter().chain(&self.successors).flatten().count();
        held + self.queues.iter().map(ReadyQueue::len).sum::<usize>()
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What has happened since the last call.
    pub fn drain_log(&mut self) -> std::vec::Drain<'_, Effect> {
        self.log.drain(..)
    }

    /// Adds a ready task: into the polling slot of a worker that waits, or into the queue.
    pub fn add(&mut self, ready: Ready<T>) {
        self.log.push(Effect::Touched { node: Node::Root, tasks: 1 });
        let able = self.waiting.iter().position(|&leaf| self.topology.kind_of(leaf) == ready.kind);
        let Some(leaf) = able.and_then(|at| self.waiting.remove(at)) else {
            return self.queues[ready.kind.index()].add(ready.priority, ready);
        };
        if self.options.polling_slots {
            self.slots[leaf.index()] = Some(ready);
        } else {
            self.queues[ready.kind.index()].add(ready.priority, ready);
        }
        self.log.push(Effect::Woken(leaf));
    }

    /// Adds what a finished task made ready, the first of it perhaps as the worker's immediate successor.
    pub fn add_ready(&mut self, from: LeafId, ready: Vec<Ready<T>>) {
        for ready in ready {
            let (random, successor) = (&mut self.random, &mut self.successors[from.index()]);
            let fits = self.enabled[from.index()]
                && successor.is_none()
                && self.topology.kind_of(from) == ready.kind;
            if fits && self.options.immediate_successor.happens(|| random.next_u32()) {
                *successor = Some(ready);
            } else {
                self.add(ready);
            }
        }
    }

    /// The next task for a leaf. If there is none, the leaf waits: the log will tell when it should look again.
    pub fn get(&mut self, leaf: LeafId) -> Option<Ready<T>> {
        let own = self.successors[leaf.index()].take().or_else(|| self.slots[leaf.index()].take());
        if own.is_some() || !self.enabled[leaf.index()] {
            return own;
        }
        self.log.push(Effect::Touched { node: Node::Root, tasks: 0 });
        let task = self.queues[self.topology.kind_of(leaf).index()].take();
        if task.is_none() && !self.waiting.contains(&leaf) {
            self.waiting.push_back(leaf);
        }
        task
    }

    /// Takes a leaf out. False, and nothing happens, if it is the last of its kind.
    pub fn disable(&mut self, leaf: LeafId) -> bool {
        let kind = self.topology.kind_of(leaf);
        let able = |other: LeafId| self.enabled[other.index()] && self.topology.kind_of(other) == kind;
        if !self.topology.all().any(|other| other != leaf && able(other)) {
            return false;
        }
        self.enabled[leaf.index()] = false;
        self.waiting.retain(|&other| other != leaf);
        let held = [self.successors[leaf.index()].take(), self.slots[leaf.index()].take()];
        held.into_iter().flatten().for_each(|ready| self.add(ready));
        true
    }

    /// Puts a leaf back.
    pub fn enable(&mut self, leaf: LeafId) {
        self.enabled[leaf.index()] = true;
    }
}
