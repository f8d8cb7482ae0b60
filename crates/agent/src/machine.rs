//! This host's processors as slots.

use castell_host::topology::Processors;
use castell_policy::session::{Cluster, Placement, Shape};
use std::path::Path;

/// A cluster of one node, and which processor each slot is.
pub(crate) struct Machine {
    pub(crate) cluster: Cluster,
    cpus: Vec<u32>,
}

impl Machine {
    /// The processors that this process may use.
    pub(crate) fn here() -> Machine {
        let processors = Processors::usable();
        let cores = processors.cores(Path::new("/"));
        let threads = cores[0].len();
        let even = cores.iter().all(|core| core.len() == threads);
        let shape = match even {
            true => Shape {
                threads: threads as u32,
                memory_bytes: memory_bytes(),
                ..Shape::flat(cores.len() as u32)
            },
            false => Shape { memory_bytes: memory_bytes(), ..Shape::flat(processors.cpus.len() as u32) },
        };
        let cpus = if even { cores.concat() } else { processors.cpus };
        Machine { cluster: Cluster::new(vec![shape]).expect("a process has a processor"), cpus }
    }

    /// The processors of a placement, each once.
    pub(crate) fn cpus(&self, placement: &Placement) -> Vec<u32> {
        let mut cpus: Vec<u32> = placement.slots().map(|slot| self.cpus[slot.0 as usize]).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

/// The host's memory; not counted where nobody tells.
fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kb = total.and_then(|total| total.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kb.map_or(u64::MAX, |kb| kb * 1024)
}
