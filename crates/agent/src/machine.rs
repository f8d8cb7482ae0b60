//! The processors of all nodes as slots.

use castell_host::topology::{Processors, print_list};
use castell_policy::session::protocol::{Named, Part};
use castell_policy::session::{Cluster, NodeId, Placement, Shape, Slot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Processors, core by core.
    pub(crate) cores: Vec<Vec<u32>>,
    /// `u64::MAX` where nobody tells.
    pub(crate) memory_bytes: u64,
}

impl Node {
    /// This host, as far as this process may use it.
    pub(crate) fn here() -> Node {
        let cores = Processors::usable().cores(Path::new("/"));
        Node { name: crate::allocation::here(), cores, memory_bytes: memory_bytes() }
    }

    /// Its hierarchy; flat where its cores have different numbers of threads.
    fn shape(&self) -> Shape {
        let threads = self.cores.first().map_or(0, Vec::len);
        let shape = match self.cores.iter().all(|core| core.len() == threads) {
            true => Shape { threads: threads as u32, ..Shape::flat(self.cores.len() as u32) },
            false => Shape::flat(self.cores.iter().map(Vec::len).sum::<usize>() as u32),
        };
        Shape { memory_bytes: self.memory_bytes, ..shape }
    }
}

/// A cluster, and which processor each slot is.
pub(crate) struct Machine {
    pub(crate) cluster: Cluster,
    pub(crate) nodes: Vec<Node>,
    /// By slot.
    cpus: Vec<u32>,
    /// Those that were taken away since.
    gone: BTreeSet<u32>,
}

impl Machine {
    /// Nodes of which each has a processor.
    pub(crate) fn new(nodes: Vec<Node>) -> Option<Machine> {
        let cluster = Cluster::new(nodes.iter().map(Node::shape).collect()).ok()?;
        let cpus = nodes.iter().flat_map(|node| node.cores.concat()).collect();
        Some(Machine { cluster, nodes, cpus, gone: BTreeSet::new() })
    }

    /// Only these of one node's processors are there now. Gives the slots that are offline, if they are others than before. Without any
    /// of them nothing changes: somebody has to run somewhere.
    pub(crate) fn only(&mut self, usable: &[u32]) -> Option<BTreeSet<Slot>> {
        let gone: BTreeSet<u32> = self.cpus.iter().copied().filter(|cpu| !usable.contains(cpu)).collect();
        if gone == self.gone || gone.len() == self.cpus.len() {
            return None;
        }
        self.gone = gone;
        let is_gone = |(_, cpu): &(usize, &u32)| self.gone.contains(cpu);
        Some(self.cpus.iter().enumerate().filter(is_gone).map(|(slot, _)| Slot(slot as u32)).collect())
    }

    /// The slots of all of these, in order; none where there are no such processors, or not as many as the parts say.
    pub(crate) fn slots(&self, parts: &[Part]) -> Option<Vec<u32>> {
        let mut slots = Vec::new();
        for Part { node, cpus, slots: count } in parts {
            let named = Named { node: Some(node.clone()), cpus: cpus.clone() };
            let some = self.named(&named).ok().filter(|some| some.len() == *count as usize)?;
            slots.extend(some);
        }
        slots.sort_unstable();
        Some(slots)
    }

    /// The slots of processors that somebody names.
    ///
    /// # Errors
    /// There are none such; a sentence.
    pub(crate) fn named(&self, named: &Named) -> Result<Vec<u32>, String> {
        let names = || self.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>().join(", ");
        let node = match (&named.node, &self.nodes[..]) {
            (None, [_]) => 0,
            (None, _) => {
                return Err(format!(
                    "of which node? processors are named as in {}:0-1 (nodes: {})",
                    self.nodes[0].name,
                    names()
                ));
            }
            (Some(name), nodes) => {
                let at = nodes.iter().position(|node| node.name == *name);
                at.ok_or_else(|| format!("there is no node {name}: these are {}", names()))?
            }
        };
        let slots = self.cluster.slots(NodeId(node as u32));
        let there = &self.cpus[slots.clone()];
        let slot = |cpu: &u32| {
            let at = there.iter().position(|known| known == cpu);
            let at = at.ok_or_else(|| {
                let mut sorted = there.to_vec();
                sorted.sort_unstable();
                let name = &self.nodes[node].name;
                format!("there is no processor {cpu} here: {} are those of {name}", print_list(&sorted))
            })?;
            Ok((slots.start + at) as u32)
        };
        let slots: Result<BTreeSet<u32>, String> = named.cpus.iter().map(slot).collect();
        Ok(slots?.into_iter().collect())
    }

    /// How many slots have a processor.
    pub(crate) fn online(&self) -> u32 {
        self.cpus.iter().filter(|cpu| !self.gone.contains(cpu)).count() as u32
    }

    /// The processors that are gone.
    pub(crate) fn gone(&self) -> Vec<u32> {
        self.gone.iter().copied().collect()
    }

    /// The processors of a placement, node by node, also those that are gone.
    pub(crate) fn all_parts(&self, placement: &Placement) -> Vec<Part> {
        self.parts_without(placement, &BTreeSet::new())
    }

    /// The processors of a placement, node by node; whose processors are all gone, shares those that are left.
    pub(crate) fn parts(&self, placement: &Placement) -> Vec<Part> {
        self.parts_without(placement, &self.gone)
    }

    fn parts_without(&self, placement: &Placement, gone: &BTreeSet<u32>) -> Vec<Part> {
        let mut parts: BTreeMap<NodeId, Part> = BTreeMap::new();
        for slot in placement.slots() {
            let node = self.cluster.node_of(slot);
            let part = parts.entry(node).or_insert_with(|| Part {
                node: self.nodes[node.0 as usize].name.clone(),
                cpus: Vec::new(),
                slots: 0,
            });
            part.cpus.push(self.cpus[slot.0 as usize]);
            part.slots += 1;
        }
        let each_once = |mut part: Part| {
            part.cpus.sort_unstable();
            part.cpus.dedup();
            if !gone.is_empty() {
                part.cpus.retain(|cpu| !gone.contains(cpu));
                if part.cpus.is_empty() {
                    part.cpus = self.cpus.iter().copied().filter(|cpu| !gone.contains(cpu)).collect();
                }
            }
            part
        };
        parts.into_values().map(each_once).collect()
    }
}

/// The host's memory; not counted where nobody tells.
fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kb = total.and_then(|total| total.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kb.map_or(u64::MAX, |kb| kb * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_names_where_there_is_one_node_and_else_that_of_the_node_too() {
        let node = |name: &str| Node {
            name: name.into(),
            cores: vec![vec![2, 6], vec![3, 7]],
            memory_bytes: u64::MAX,
        };
        let named =
            |node: Option<&str>, cpus: &[u32]| Named { node: node.map(Into::into), cpus: cpus.into() };
        let one = Machine::new(vec![node("a")]).expect("a machine");
        assert_eq!(one.named(&named(None, &[7, 6])), Ok(vec![1, 3]));
        assert_eq!(
            one.named(&named(None, &[4])).unwrap_err(),
            "there is no processor 4 here: 2-3,6-7 are those of a"
        );
        let two = Machine::new(vec![node("a"), node("b")]).expect("a machine");
        assert_eq!(two.named(&named(Some("b"), &[2, 3, 2])), Ok(vec![4, 6]));
        assert!(two.named(&named(None, &[2])).unwrap_err().starts_with("of which node?"));
        assert_eq!(two.named(&named(Some("c"), &[2])).unwrap_err(), "there is no node c: these are a, b");
    }

    #[test]
    fn who_has_lost_its_processors_shares_those_that_are_left() {
        let cores = vec![vec![2, 6], vec![3, 7]];
        let node = Node { name: "here".into(), cores, memory_bytes: u64::MAX };
        let mut machine = Machine::new(vec![node]).expect("a machine");
        assert_eq!(machine.only(&[2, 3, 6, 7, 9]), None, "all are there");
        assert_eq!(machine.only(&[2, 7]), Some(BTreeSet::from([Slot(1), Slot(2)])));
        assert_eq!((machine.online(), machine.gone()), (2, vec![3, 6]));
        assert_eq!(machine.only(&[7, 2]), None, "as before");
        assert_eq!(machine.only(&[]), None, "somebody has to run somewhere");
        assert_eq!(machine.online(), 2);
        assert_eq!(machine.only(&[2, 3, 6, 7]), Some(BTreeSet::new()));
    }
}
