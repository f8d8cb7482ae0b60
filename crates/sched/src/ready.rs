//! What queues hold, and what is noted when they are touched.

use crate::{Kind, LeafId};

/// A task that may run, with what a scheduler looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready<T> {
    /// The task.
    pub task: T,
    /// Larger runs earlier, under the policy that looks at it.
    pub priority: i32,
    /// What can run it.
    pub kind: Kind,
    /// The NUMA node on which most of its data was written last, if known.
    pub place: Option<usize>,
}

impl<T> Ready<T> {
    /// A task for any processor, priority 0.
    pub fn new(task: T) -> Ready<T> {
        Ready { task, priority: 0, kind: Kind::CPU, place: None }
    }
}

/// A part of a scheduler that one thread at a time can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A leaf of the tree, or a worker's polling slot.
    Leaf(LeafId),
    /// The node of a NUMA node.
    Numa(usize),
    /// The tree's root, or the central queue.
    Root,
}

/// Something that a change to a scheduler's queues did, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A node was looked into, and this many tasks were put into it.
    Touched {
        /// Which.
        node: Node,
        /// How many.
        tasks: usize,
    },
    /// A leaf that waited has been given something.
    Woken(LeafId),
}
