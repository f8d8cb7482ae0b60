//! Where processes are pinned when others have stepped onto their slots.

use super::record::Session;
use super::request::{Decision, SessionId};
use super::resources::{Cluster, NodeId, Placement, Slot};
use super::scheduler::Scheduler;
use std::collections::{BTreeMap, BTreeSet};

/// Who is on which node, which nodes have changed, and who is pinned elsewhere than at home.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    residents: Vec<Vec<SessionId>>,
    changed: BTreeSet<NodeId>,
    pinned: BTreeMap<SessionId, Placement>,
}

impl Aside {
    pub(crate) fn new(nodes: usize) -> Aside {
        Aside { residents: vec![Vec::new(); nodes], changed: BTreeSet::new(), pinned: BTreeMap::new() }
    }

    /// A session runs on these nodes.
    pub(crate) fn came(&mut self, id: SessionId, nodes: &[NodeId]) {
        for node in nodes {
            self.residents[node.0 as usize].push(id);
            self.changed.insert(*node);
        }
    }

    /// It has ended.
    pub(crate) fn left(&mut self, id: SessionId, nodes: &[NodeId]) {
        for node in nodes {
            self.residents[node.0 as usize].retain(|resident| *resident != id);
            self.changed.insert(*node);
        }
        self.pinned.remove(&id);
    }
}

/// Pins anew on the nodes that have changed, and says whose processes move.
pub(super) fn repin(scheduler: &mut Scheduler, decisions: &mut Vec<Decision>) {
    let changed = std::mem::take(&mut scheduler.aside.changed);
    let residents = &scheduler.aside.residents;
    let touched: BTreeSet<SessionId> =
        changed.iter().flat_map(|node| &residents[node.0 as usize]).copied().collect();
    let mut on_nodes: BTreeMap<NodeId, Pins> = BTreeMap::new();
    for id in touched {
        let home = scheduler.sessions[&id].home.as_ref().expect("it runs");
        let cluster = &scheduler.occupancy.cluster;
        let per_process = home.per_process().max(1) as usize;
        let mut placement = Placement::new(home.per_process());
        let slots: Vec<Slot> = home.slots().collect();
        let mut next: BTreeMap<NodeId, usize> = BTreeMap::new();
        for process in slots.chunks(per_process) {
            let node = cluster.node_of(process[0]);
            let pins = on_nodes.entry(node).or_insert_with(|| {
                let sessions = residents[node.0 as usize].iter().map(|id| (*id, &scheduler.sessions[id]));
                pins(cluster, node, &sessions.collect::<Vec<_>>())
            });
            let index = next.entry(node).or_default();
            pins[&id][*index].iter().for_each(|slot| placement.push(*slot));
            *index += 1;
        }
        let before = scheduler.aside.pinned.get(&id).unwrap_or(home);
        if *before != placement {
            let at_home = placement == *home;
            decisions.push(Decision::Repin(id, placement.clone()));
            match at_home {
                true => scheduler.aside.pinned.remove(&id),
                false => scheduler.aside.pinned.insert(id, placement),
            };
        }
    }
}

/// For each session of a node, the slots of each of its processes there.
type Pins = BTreeMap<SessionId, Vec<Vec<Slot>>>;

/// A slot belongs to the session that was started last. Processes of others that were there go to slots of the node that belong to
/// nobody, to their own session or to one that was started before it, the least crowded first; where there is no such slot, to those of
/// the first that was started after it.
fn pins(cluster: &Cluster, node: NodeId, sessions: &[(SessionId, &Session)]) -> Pins {
    let range = cluster.slots(node);
    let at = |slot: Slot| slot.0 as usize - range.start;
    let mut newest: Vec<Option<usize>> = vec![None; range.len()];
    let mut order: Vec<usize> = (0..sessions.len()).collect();
    order.sort_by_key(|index| sessions[*index].1.started);
    let processes = |index: usize| -> Vec<Vec<Slot>> {
        let home = sessions[index].1.home.as_ref().expect("it runs");
        let slots: Vec<Slot> = home.slots().collect();
        let here = slots.chunks(home.per_process().max(1) as usize);
        here.filter(|slots| cluster.node_of(slots[0]) == node).map(<[Slot]>::to_vec).collect()
    };
    let homes: Vec<Vec<Vec<Slot>>> = (0..sessions.len()).map(processes).collect();
    for &index in &order {
        homes[index].iter().flatten().for_each(|slot| newest[at(*slot)] = Some(index));
    }
    let group = |index: usize| sessions[index].1.group;
    let displaced = |index: usize, slots: &[Slot]| {
        slots.iter().any(|slot| newest[at(*slot)].is_some_and(|owner| group(owner) != group(index)))
    };
    let mut crowd = vec![0u32; range.len()];
    for (index, home) in homes.iter().enumerate() {
        let staying = home.iter().filter(|slots| !displaced(index, slots));
        staying.flatten().for_each(|slot| crowd[at(*slot)] += 1);
    }
    let mut pins = Pins::new();
    for &index in &order {
        let started = sessions[index].1.started;
        let open = |slot: &usize| {
            newest[*slot]
                .is_none_or(|owner| group(owner) == group(index) || sessions[owner].1.started < started)
        };
        let mut candidates: Vec<usize> = (0..range.len()).filter(open).collect();
        if candidates.is_empty() {
            // All slots belong to sessions that were started later: the first of those shares.
            let age = |slot: &usize| newest[*slot].map(|owner| sessions[owner].1.started);
            let oldest = (0..range.len()).map(|slot| age(&slot)).min();
            candidates = (0..range.len()).filter(|slot| Some(age(slot)) == oldest).collect();
        }
        let moved = homes[index].iter().map(|slots| {
            if !displaced(index, slots) {
                return slots.clone();
            }
            let mut by_crowd = candidates.clone();
            by_crowd.sort_by_key(|slot| crowd[*slot]);
            let chosen = (0..slots.len()).map(|which| by_crowd[which % by_crowd.len()]);
            let chosen: Vec<usize> = chosen.collect();
            chosen.iter().for_each(|slot| crowd[*slot] += 1);
            chosen.into_iter().map(|slot| Slot((slot + range.start) as u32)).collect()
        });
        pins.insert(sessions[index].0, moved.collect());
    }
    pins
}
