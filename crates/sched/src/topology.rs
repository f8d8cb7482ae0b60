//! The shape of the machine that a scheduler's tree mirrors: NUMA nodes and what runs tasks in them.

use crate::SchedError;
use std::fmt;
use std::str::FromStr;

/// A place that runs one task at a time, numbered `0 … leaves - 1`, NUMA node after NUMA node, processors first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(pub u32);

impl LeafId {
    /// The leaf as an index into a table with one entry a leaf.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for LeafId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a leaf can run: a task states the kind it needs, a leaf has exactly one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// An ordinary processor.
    pub const CPU: Kind = Kind(0);
    /// An accelerator with a worker of its own.
    pub const ACCELERATOR: Kind = Kind(1);
    /// How many kinds there can be.
    pub const COUNT: usize = 8;

    /// The kind as an index into a table with one entry a kind.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// NUMA nodes and their leaves.
///
/// ```
/// use castell_sched::Topology;
/// let marenostrum: Topology = "numa:2 cpu:24".parse().unwrap();
/// assert_eq!((marenostrum.numa_nodes(), marenostrum.leaves()), (2, 48));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Of each leaf: its NUMA node and its kind.
    leaves: Vec<(u32, Kind)>,
    numa_nodes: u32,
}

/// More leaves than any host has; bounds what a description can ask for.
pub const LEAVES_MAX: usize = 8192;

impl Topology {
    /// The same number of processors and of accelerators on every NUMA node.
    pub fn uniform(numa_nodes: u32, cpus: u32, accelerators: u32) -> Result<Topology, SchedError> {
        let node = [(Kind::CPU, cpus), (Kind::ACCELERATOR, accelerators)];
        let total = u64::from(numa_nodes) * (u64::from(cpus) + u64::from(accelerators));
        if total == 0 || total > LEAVES_MAX as u64 || cpus == 0 {
            let description = format!("numa:{numa_nodes} cpu:{cpus} accelerator:{accelerators}");
            return Err(SchedError::Topology { description, reason: "it has no processor, or too many" });
        }
        let leaves = (0..numa_nodes).flat_map(|numa| {
            node.iter().flat_map(move |&(kind, count)| (0..count).map(move |_| (numa, kind)))
        });
        Ok(Topology { leaves: leaves.collect(), numa_nodes })
    }

    /// The leaves one by one: NUMA node (counted from 0, none empty) and kind of each.
    pub fn from_leaves(leaves: Vec<(u32, Kind)>) -> Result<Topology, SchedError> {
        let refuse =
            |reason| Err(SchedError::Topology { description: format!("{} leaves", leaves.len()), reason });
        if leaves.is_empty() || leaves.len() > LEAVES_MAX {
            return refuse("it has no processor, or too many");
        }
        if leaves.iter().any(|&(_, kind)| kind.index() >= Kind::COUNT) {
            return refuse("there are eight kinds of leaves, numbered from 0");
        }
        let numa_nodes = leaves.iter().map(|&(numa, _)| numa).max().unwrap_or(0) + 1;
        if (0..numa_nodes).any(|numa| leaves.iter().all(|&(of_leaf, _)| of_leaf != numa)) {
            return refuse("a NUMA node has no leaf: number those that have one");
        }
        Ok(Topology { leaves, numa_nodes })
    }

    /// How many leaves there are.
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// How many NUMA nodes there are.
    pub fn numa_nodes(&self) -> usize {
        self.numa_nodes as usize
    }

    /// The NUMA node of a leaf.
    pub fn numa_of(&self, leaf: LeafId) -> usize {
        self.leaves[leaf.index()].0 as usize
    }

    /// What a leaf runs.
    pub fn kind_of(&self, leaf: LeafId) -> Kind {
        self.leaves[leaf.index()].1
    }

    /// The leaves of a NUMA node.
    pub fn leaves_of(&self, numa: usize) -> impl Iterator<Item = LeafId> + '_ {
        self.all().filter(move |&leaf| self.numa_of(leaf) == numa)
    }

    /// All leaves.
    pub fn all(&self) -> impl Iterator<Item = LeafId> + use<> {
        (0..self.leaves.len() as u32).map(LeafId)
    }
}

impl FromStr for Topology {
    type Err = SchedError;

    /// Reads `numa:2 cpu:24` or `numa:2 cpu:24 accelerator:1`: each number counts what is in *one* of the level before.
    fn from_str(text: &str) -> Result<Topology, SchedError> {
        let refuse = |reason| SchedError::Topology { description: text.to_owned(), reason };
        let (mut numa, mut cpus, mut accelerators) = (1, None, 0);
        for part in text.split_whitespace() {
            let (level, count) = part.split_once(':').ok_or_else(|| refuse("each level is NAME:COUNT"))?;
            let count: u32 = count.parse().map_err(|_| refuse("a count is no number"))?;
            match level {
                "numa" => numa = count,
                "cpu" => cpus = Some(count),
                "accelerator" => accelerators = count,
                _ => return Err(refuse("the levels are numa, cpu and accelerator")),
            }
        }
        let cpus = cpus.ok_or_else(|| refuse("it does not say how many processors: add cpu:COUNT"))?;
        Topology::uniform(numa, cpus, accelerators)
            .map_err(|_| refuse("it has no processor, or more than 8192 leaves"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions() {
        let topology: Topology = "numa:2 cpu:3 accelerator:1".parse().unwrap();
        assert_eq!(topology.leaves(), 8);
        assert_eq!(topology.numa_of(LeafId(3)), 0);
        assert_eq!(topology.kind_of(LeafId(3)), Kind::ACCELERATOR);
        assert_eq!(topology.numa_of(LeafId(4)), 1);
        assert_eq!(topology.leaves_of(1).collect::<Vec<_>>(), [LeafId(4), LeafId(5), LeafId(6), LeafId(7)]);
        assert_eq!("numa:64 cpu:128".parse::<Topology>().unwrap().leaves(), LEAVES_MAX);
        assert_eq!("cpu:4".parse::<Topology>().unwrap().numa_nodes(), 1);
        for bad in [
            "",
            "numa:2",
            "cpu:0",
            "cpu:a",
            "cpu",
            "core:4",
            "numa:99999 cpu:99999",
            "numa:100 cpu:100",
            "numa:64 cpu:128 accelerator:1",
        ] {
            let error = bad.parse::<Topology>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")) && error.contains("numa:2 cpu:24"), "{error}");
        }
    }

    #[test]
    fn leaves_one_by_one() {
        assert!(Topology::from_leaves(vec![(0, Kind::CPU), (2, Kind::CPU)]).is_err());
        assert!(Topology::from_leaves(vec![]).is_err());
        assert!(Topology::from_leaves(vec![(0, Kind(8))]).is_err());
        let uneven = Topology::from_leaves(vec![(0, Kind::CPU), (1, Kind::CPU), (1, Kind::CPU)]).unwrap();
        assert_eq!(uneven.leaves_of(1).count(), 2);
        assert_eq!(Topology::from_leaves(vec![(0, Kind::CPU); LEAVES_MAX]).unwrap().leaves(), LEAVES_MAX);
        assert!(Topology::from_leaves(vec![(0, Kind::CPU); LEAVES_MAX + 1]).is_err());
        assert_eq!(LeafId(17).to_string(), "17");
    }
}
