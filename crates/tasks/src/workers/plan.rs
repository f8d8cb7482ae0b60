//! How many workers there are, on which processors, in which NUMA nodes.

use castell_host::topology::Processors;
use castell_sched::{Kind, Topology};
use std::path::Path;

/// Slurm's word for how many processors a task of a job step has.
const SLURM_CPUS: &str = "SLURM_CPUS_PER_TASK";

/// Where workers go.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The tree's shape; worker n is its leaf n.
    pub topology: Topology,
    /// The processors to which each worker's thread is bound; empty: to those of the process.
    pub cpus: Vec<Vec<u32>>,
    /// Whether there are more workers than processors: then waiting workers sleep at once.
    pub crowded: bool,
}

impl Plan {
    /// `workers` workers, or as many as there is room for: processors that the affinity mask leaves, but not more than the
    /// control groups' quota and Slurm's `SLURM_CPUS_PER_TASK` say. With `bind`, each gets a processor of its own (one
    /// after the other, NUMA node by NUMA node), and the tree has the machine's NUMA nodes.
    pub fn new(workers: Option<usize>, bind: bool) -> Plan {
        let slurm = std::env::var(SLURM_CPUS).ok();
        Plan::of(workers, bind, &Processors::usable(), slurm.as_deref(), Path::new("/"))
    }

    fn of(
        workers: Option<usize>,
        bind: bool,
        processors: &Processors,
        slurm: Option<&str>,
        root: &Path,
    ) -> Plan {
        let granted = slurm.and_then(|count| count.trim().parse::<usize>().ok()).unwrap_or(usize::MAX).max(1);
        let room = processors.count().min(granted);
        let count = workers.unwrap_or(room).clamp(1, castell_sched::LEAVES_MAX);
        let crowded = count > room;
        // Fewer than there are processors: any may be used, so that the system can choose.
        if !bind || crowded {
            return Plan { topology: flat(count), cpus: vec![Vec::new(); count], crowded };
        }
        let nodes = processors.numa_nodes(root);
        let mut placed: Vec<(usize, u32)> = nodes
            .iter()
            .enumerate()
            .flat_map(|(numa, cpus)| cpus.iter().map(move |&cpu| (numa, cpu)))
            .collect();
        placed.truncate(count);
        let leaves = placed.iter().map(|&(numa, _)| (numa as u32, Kind::CPU)).collect();
        let topology = Topology::from_leaves(leaves).unwrap_or_else(|_| flat(count));
        Plan { topology, cpus: placed.into_iter().map(|(_, cpu)| vec![cpu]).collect(), crowded }
    }

    /// A described machine instead: its workers are not bound.
    pub fn described(topology: Topology) -> Plan {
        let count = topology.leaves();
        Plan { topology, cpus: vec![Vec::new(); count], crowded: count > Processors::usable().count() }
    }

    /// One more worker for each device, behind the others and not bound.
    pub fn with_devices(mut self, kinds: &[Kind]) -> Plan {
        if kinds.is_empty() {
            return self;
        }
        let place = |leaf| (self.topology.numa_of(leaf) as u32, self.topology.kind_of(leaf));
        let leaves = self.topology.all().map(place).chain(kinds.iter().map(|&kind| (0, kind))).collect();
        if let Ok(topology) = Topology::from_leaves(leaves) {
            self.topology = topology;
            self.cpus.resize(self.topology.leaves(), Vec::new());
        }
        self
    }

    /// How many workers run ordinary tasks.
    pub fn cpu_workers(&self) -> usize {
        self.topology.all().filter(|&leaf| self.topology.kind_of(leaf) == Kind::CPU).count()
    }

    /// What each worker runs.
    pub fn kinds(&self) -> Vec<Kind> {
        self.topology.all().map(|leaf| self.topology.kind_of(leaf)).collect()
    }

    /// How many workers there are of each kind.
    pub fn of_kinds(&self) -> [u64; Kind::COUNT] {
        let mut counts = [0; Kind::COUNT];
        self.kinds().iter().for_each(|kind| counts[kind.index()] += 1);
        counts
    }

    /// How many workers.
    pub fn workers(&self) -> usize {
        self.topology.leaves()
    }

    /// The NUMA node of each worker.
    pub fn numa(&self) -> Vec<usize> {
        self.topology.all().map(|leaf| self.topology.numa_of(leaf)).collect()
    }
}

fn flat(count: usize) -> Topology {
    Topology::uniform(1, count as u32, 0).expect("from one to the most leaves that there can be")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eight() -> Processors {
        Processors { cpus: (0..8).collect(), quota: None }
    }

    fn count(processors: &Processors, slurm: Option<&str>) -> usize {
        Plan::of(None, false, processors, slurm, Path::new("/nowhere")).workers()
    }

    #[test]
    fn the_tightest_grant_counts() {
        assert_eq!(count(&eight(), None), 8);
        assert_eq!(count(&eight(), Some("3")), 3);
        assert_eq!(count(&eight(), Some("what")), 8);
        assert_eq!(count(&eight(), Some("0")), 1);
        assert_eq!(count(&Processors { quota: Some(1.5), ..eight() }, Some("3")), 2);
    }

    #[test]
    fn more_workers_than_processors_sleep_at_once() {
        let plan = Plan::of(Some(9), true, &eight(), None, Path::new("/nowhere"));
        assert!(plan.crowded && plan.cpus.iter().all(Vec::is_empty));
        assert!(!Plan::of(Some(8), true, &eight(), None, Path::new("/nowhere")).crowded);
    }

    #[test]
    fn bound_workers_have_a_processor_each() {
        let root = tempfile::tempdir().expect("a folder");
        for (node, list) in [(0, "0-3"), (1, "4-7"), (2, "")] {
            let folder = root.path().join(format!("sys/devices/system/node/node{node}"));
            std::fs::create_dir_all(&folder).expect("folders");
            std::fs::write(folder.join("cpulist"), list).expect("a file");
        }
        let plan = Plan::of(None, true, &Processors { cpus: vec![1, 2, 5], quota: None }, None, root.path());
        assert_eq!(plan.cpus, [[1], [2], [5]]);
        assert_eq!(plan.numa(), [0, 0, 1]);
        let plan = Plan::of(Some(1), true, &Processors { cpus: vec![6], quota: None }, None, root.path());
        assert_eq!((plan.cpus, plan.topology.numa_nodes()), (vec![vec![6]], 1));
    }
}
