//! Either design behind one face, so that a driver need not know which.

use crate::{Central, Design, Effect, LeafId, Options, Ready, Topology, Tree};

/// The scheduler that [`Options`] describe. Delegation decides as the central scheduler does; it differs in what waiting
/// for the queue costs.
#[derive(Debug)]
pub enum AnyScheduler<T> {
    /// The tree.
    Tree(Tree<T>),
    /// One queue.
    Central(Central<T>),
}

impl<T> AnyScheduler<T> {
    /// An empty one.
    pub fn new(topology: Topology, options: Options, seed: u64) -> AnyScheduler<T> {
        match options.design {
            Design::Tree => AnyScheduler::Tree(Tree::new(topology, options, seed)),
            Design::Central | Design::Delegation => {
                AnyScheduler::Central(Central::new(topology, options, seed))
            }
        }
    }

    /// Adds a ready task; `from` is the leaf whose task made it ready, `None` anybody outside.
    pub fn add(&mut self, from: Option<LeafId>, ready: Ready<T>) {
        match self {
            AnyScheduler::Tree(tree) => tree.add(from, ready),
            AnyScheduler::Central(central) => central.add(ready),
        }
    }

    /// Adds what a finished task made ready.
    pub fn add_ready(&mut self, from: LeafId, ready: Vec<Ready<T>>) {
        match self {
            AnyScheduler::Tree(tree) => tree.add_ready(from, ready),
            AnyScheduler::Central(central) => central.add_ready(from, ready),
        }
    }

    /// The next task for a leaf; without one, the leaf waits until the log says that it is woken.
    pub fn get(&mut self, leaf: LeafId) -> Option<Ready<T>> {
        match self {
            AnyScheduler::Tree(tree) => tree.get(leaf),
            AnyScheduler::Central(central) => central.get(leaf),
        }
    }

    /// Takes a leaf out; false if it is the last of its kind.
    pub fn disable(&mut self, leaf: LeafId) -> bool {
        match self {
            AnyScheduler::Tree(tree) => tree.disable(leaf),
            AnyScheduler::Central(central) => central.disable(leaf),
        }
    }

    /// Puts a leaf back.
    pub fn enable(&mut self, leaf: LeafId) {
        match self {
            AnyScheduler::Tree(tree) => tree.enable(leaf),
            AnyScheduler::Central(central) => central.enable(leaf),
        }
    }

    /// How many tasks wait.
    pub fn len(&self) -> usize {
        match self {
            AnyScheduler::Tree(tree) => tree.len(),
            AnyScheduler::Central(central) => central.len(),
        }
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        match self {
            AnyScheduler::Tree(tree) => tree.is_empty(),
            AnyScheduler::Central(central) => central.is_empty(),
        }
    }

    /// What has happened since the last call.
    pub fn drain_log(&mut self) -> std::vec::Drain<'_, Effect> {
        match self {
            AnyScheduler::Tree(tree) => tree.drain_log(),
            AnyScheduler::Central(central) => central.drain_log(),
        }
    }
}
