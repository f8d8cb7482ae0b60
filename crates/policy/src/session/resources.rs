//! What there is: nodes of sockets of cores of hardware threads, each hardware thread a slot.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A hardware thread: slots of all nodes are numbered through, and within a node by socket, core and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// More slots than any cluster has.
pub const SLOTS_MAX: u64 = 1 << 26;

/// What one node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sockets.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores: u32,
    /// Hardware threads of a core.
    pub threads: u32,
    /// Memory for programs, in bytes; `u64::MAX` where nobody counts it.
    pub memory_bytes: u64,
}

impl Shape {
    /// A node of `slots` cores with a hardware thread each, whose memory is not counted.
    pub fn flat(slots: u32) -> Shape {
        Shape { sockets: 1, cores: slots, threads: 1, memory_bytes: u64::MAX }
    }

    /// How many slots that is.
    pub fn slots(self) -> u64 {
        u64::from(self.sockets) * u64::from(self.cores) * u64::from(self.threads)
    }

    /// How many slots a part of this size has.
    pub fn slots_of(self, level: Level) -> u32 {
        match level {
            Level::Thread => 1,
            Level::Core => self.threads,
            Level::Socket => self.threads * self.cores,
            Level::Node => self.threads * self.cores * self.sockets,
        }
    }
}

/// A level of the hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A hardware thread.
    #[default]
    Thread,
    /// A core with its hardware threads.
    Core,
    /// A socket with its cores.
    Socket,
    /// A whole node.
    Node,
}

/// Why a cluster cannot be described so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// Nothing to run on.
    #[error("a cluster needs at least one node, and a node at least one socket, core and hardware thread")]
    Empty,
    /// Too large to be one.
    #[error("{slots} slots are more than a cluster may have here ({SLOTS_MAX})")]
    TooLarge {
        /// How many there were.
        slots: u64,
    },
}

/// All nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    shapes: Vec<Shape>,
    /// Where each node's slots begin, and the end of the last.
    starts: Vec<u32>,
    /// Slots of each node where all have as many: finding a slot's node is a division then.
    per_node: Option<u32>,
}

impl Cluster {
    /// Describes a cluster node by node.
    ///
    /// # Errors
    /// No slot at all, a node without one, or more than [`SLOTS_MAX`].
    pub fn new(shapes: Vec<Shape>) -> Result<Cluster, ClusterError> {
        if shapes.is_empty() || shapes.iter().any(|shape| shape.slots() == 0) {
            return Err(ClusterError::Empty);
        }
        let slots = shapes.iter().fold(0u64, |sum, shape| sum.saturating_add(shape.slots()));
        if slots > SLOTS_MAX {
            return Err(ClusterError::TooLarge { slots });
        }
        let mut starts = vec![0];
        for shape in &shapes {
            starts.push(starts[starts.len() - 1] + shape.slots() as u32);
        }
        let first = shapes[0].slots();
        let per_node = shapes.iter().all(|shape| shape.slots() == first).then_some(first as u32);
        Ok(Cluster { shapes, starts, per_node })
    }

    /// `nodes` nodes of one shape.
    ///
    /// # Errors
    /// As [`Cluster::new`].
    pub fn uniform(nodes: u32, shape: Shape) -> Result<Cluster, ClusterError> {
        let slots = shape.slots().saturating_mul(nodes.into());
        if slots > SLOTS_MAX {
            return Err(ClusterError::TooLarge { slots });
        }
        Cluster::new(vec![shape; nodes as usize])
    }

    /// How many nodes.
    pub fn num_nodes(&self) -> usize {
        self.shapes.len()
    }

    /// How many slots all nodes have together.
    pub fn num_slots(&self) -> usize {
        self.starts[self.shapes.len()] as usize
    }

    /// What a node has.
    pub fn shape(&self, node: NodeId) -> Shape {
        self.shapes[node.0 as usize]
    }

    /// The numbers of a node's slots.
    pub fn slots(&self, node: NodeId) -> Range<usize> {
        self.starts[node.0 as usize] as usize..self.starts[node.0 as usize + 1] as usize
    }

    /// All nodes, by number.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.shapes.len() as u32).map(NodeId)
    }

    /// The node of a slot.
    pub fn node_of(&self, slot: Slot) -> NodeId {
        match self.per_node {
            Some(per_node) => NodeId(slot.0 / per_node),
            None => NodeId(self.starts.partition_point(|start| *start <= slot.0) as u32 - 1),
        }
    }
}

/// Which slots a session's processes have: process by process, each as many.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// In runs of neighbours: first slot, how many.
    runs: Vec<(u32, u32)>,
    /// Slots of each process.
    per_process: u32,
}

impl Placement {
    /// An empty one for processes of `per_process` slots.
    pub(crate) fn new(per_process: u32) -> Placement {
        Placement { runs: Vec::new(), per_process }
    }

    /// Adds a slot to the last process, or begins another where that has all.
    pub(crate) fn push(&mut self, slot: Slot) {
        match self.runs.last_mut() {
            Some((first, length)) if *first + *length == slot.0 => *length += 1,
            _ => self.runs.push((slot.0, 1)),
        }
    }

    /// Slots of each process.
    pub fn per_process(&self) -> u32 {
        self.per_process
    }

    /// Number of processes.
    pub fn processes(&self) -> u32 {
        let slots: u32 = self.runs.iter().map(|(_, length)| length).sum();
        slots / self.per_process.max(1)
    }

    /// Each slot, in order of the processes; one that several processes share comes several times.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.runs.iter().flat_map(|(first, length)| (*first..*first + *length).map(Slot))
    }

    /// Runs of neighbouring slots.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.runs.iter().map(|(first, length)| *first as usize..*first as usize + *length as usize)
    }

    /// The nodes in it, each once, where processes of a node stand together.
    pub fn nodes(&self, cluster: &Cluster) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        for (first, length) in &self.runs {
            let (from, to) = (cluster.node_of(Slot(*first)), cluster.node_of(Slot(*first + *length - 1)));
            nodes.extend((from.0..=to.0).map(NodeId));
        }
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_know_their_nodes() {
        let mixed =
            Cluster::new(vec![Shape::flat(3), Shape { threads: 2, ..Shape::flat(2) }]).expect("a cluster");
        assert_eq!((mixed.num_slots(), mixed.slots(NodeId(1))), (7, 3..7));
        let nodes: Vec<u32> = (0..7).map(|slot| mixed.node_of(Slot(slot)).0).collect();
        assert_eq!(nodes, [0, 0, 0, 1, 1, 1, 1]);
        let even = Cluster::uniform(3, Shape::flat(2)).expect("a cluster");
        assert_eq!(even.node_of(Slot(5)), NodeId(2));
        assert_eq!(Cluster::new(Vec::new()), Err(ClusterError::Empty));
        assert_eq!(Cluster::uniform(1, Shape::flat(0)), Err(ClusterError::Empty));
        assert!(matches!(
            Cluster::uniform(u32::MAX, Shape::flat(u32::MAX)),
            Err(ClusterError::TooLarge { .. })
        ));
    }

    #[test]
    fn placements_are_runs() {
        let mut placement = Placement::new(2);
        [4, 5, 6, 7, 1, 2].map(Slot).into_iter().for_each(|slot| placement.push(slot));
        assert_eq!(placement.processes(), 3);
        assert_eq!(placement.runs().collect::<Vec<_>>(), [4..8, 1..3]);
        let cluster = Cluster::uniform(4, Shape::flat(2)).expect("a cluster");
        assert_eq!(placement.nodes(&cluster), [0, 1, 2, 3].map(NodeId));
    }
}
