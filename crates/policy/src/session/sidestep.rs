//! Where processes are pinned when others have stepped onto their slots.

use super::record::Session;
use super::request::{Decision, SessionId};
use super::resources::{Cluster, NodeId, Placement, Slot};
use super::scheduler::Scheduler;
use std::collections::{BTreeMap, BTreeSet};

/// Who is on which node, at home and where it is pinned, which nodes have changed, and who is pinned elsewhere than at home.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    residents: Vec<Pins>,
    pins: Vec<Pins>,
    changed: BTreeSet<NodeId>,
    pinned: BTreeMap<SessionId, Placement>,
}

/// For each session of a node, the slots of its processes there, one process after the other.
type Pins = Vec<(SessionId, Vec<Slot>)>;

impl Aside {
    pub(crate) fn new(nodes: usize) -> Aside {
        Aside {
            residents: vec![Pins::new(); nodes],
            pins: vec![Pins::new(); nodes],
            changed: BTreeSet::new(),
            pinned: BTreeMap::new(),
        }
    }

    /// A session runs there.
    pub(crate) fn came(&mut self, id: SessionId, home: &Placement, cluster: &Cluster) {
        for slot in home.slots() {
            let node = cluster.node_of(slot);
            let residents = &mut self.residents[node.0 as usize];
            match residents.last_mut() {
                Some((last, slots)) if *last == id => slots.push(slot),
                _ => {
                    residents.push((id, vec![slot]));
                    self.changed.insert(node);
                }
            }
        }
    }

    /// Who is pinned elsewhere than at home.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.pinned.keys().copied()
    }

    /// Where a session is pinned, if that is elsewhere than at home.
    pub(crate) fn pin(&self, id: SessionId) -> Option<&Placement> {
        self.pinned.get(&id)
    }

    /// It has ended.
    pub(crate) fn left(&mut self, id: SessionId, nodes: &[NodeId]) {
        for node in nodes {
            self.residents[node.0 as usize].retain(|(resident, _)| *resident != id);
            self.pins[node.0 as usize].retain(|(resident, _)| *resident != id);
            self.changed.insert(*node);
        }
        self.pinned.remove(&id);
    }
}

/// Pins anew on the nodes that have changed, and says whose processes move.
pub(super) fn repin(scheduler: &mut Scheduler, decisions: &mut Vec<Decision>) {
    let apart = scheduler.keeps_users_apart();
    let Scheduler { aside, sessions, occupancy, offline, .. } = scheduler;
    let cluster = &occupancy.cluster;
    let mut touched = BTreeSet::new();
    for node in std::mem::take(&mut aside.changed) {
        // Nobody can step aside on a node of one slot.
        if cluster.slots(node).len() == 1 {
            continue;
        }
        let residents = aside.residents[node.0 as usize].iter();
        let residents: Vec<Resident> = residents.map(|(id, home)| (*id, &sessions[id], &home[..])).collect();
        let after = pins(cluster, node, offline, apart, &residents);
        let before = &mut aside.pins[node.0 as usize];
        for ((id, _, home), (_, slots)) in residents.iter().zip(&after) {
            if find(before, *id).unwrap_or(home) != slots {
                touched.insert(*id);
            }
        }
        *before = after;
    }
    for id in touched {
        let home = sessions[&id].home.as_ref().expect("it runs");
        let placement = whole(cluster, home, id, &aside.pins);
        if aside.pinned.get(&id).unwrap_or(home) != &placement {
            decisions.push(Decision::Repin(id, placement.clone()));
            match placement == *home {
                true => aside.pinned.remove(&id),
                false => aside.pinned.insert(id, placement),
            };
        }
    }
}

/// Where all processes of a session are pinned, node by node.
fn whole(cluster: &Cluster, home: &Placement, id: SessionId, pins: &[Pins]) -> Placement {
    let per_process = home.per_process().max(1) as usize;
    let mut placement = Placement::new(home.per_process());
    let slots: Vec<Slot> = home.slots().collect();
    let mut next: BTreeMap<NodeId, usize> = BTreeMap::new();
    for process in slots.chunks(per_process) {
        let node = cluster.node_of(process[0]);
        let process = match find(&pins[node.0 as usize], id) {
            Some(pinned) => {
                let first = next.entry(node).or_default();
                *first += per_process;
                &pinned[*first - per_process..*first]
            }
            None => process,
        };
        process.iter().for_each(|slot| placement.push(*slot));
    }
    placement
}

/// A session on a node, and its slots there.
type Resident<'a> = (SessionId, &'a Session, &'a [Slot]);

/// Where a session is pinned.
fn find(pins: &Pins, id: SessionId) -> Option<&[Slot]> {
    pins.iter().find(|(known, _)| *known == id).map(|(_, slots)| &slots[..])
}

/// A slot belongs to the session that was started last. Processes of others that were there go to slots of the node that belong to
/// nobody, to their own session or to one that was started before it, the least crowded first; where there is no such slot, to those of
/// the first that was started after it. Slots that are offline are nobody's, and nobody goes there. Where users are kept `apart`, that holds
/// for slots where nobody else's processes are; only who has lost all of those, since they are offline, goes anywhere.
fn pins(
    cluster: &Cluster,
    node: NodeId,
    offline: &BTreeSet<Slot>,
    apart: bool,
    sessions: &[Resident],
) -> Pins {
    let range = cluster.slots(node);
    let at = |slot: Slot| slot.0 as usize - range.start;
    let online: Vec<usize> =
        (0..range.len()).filter(|slot| !offline.contains(&Slot((slot + range.start) as u32))).collect();
    if online.is_empty() {
        return sessions.iter().map(|(id, _, home)| (*id, home.to_vec())).collect();
    }
    let mut newest: Vec<Option<usize>> = vec![None; range.len()];
    let mut order: Vec<usize> = (0..sessions.len()).collect();
    order.sort_by_key(|index| sessions[*index].1.started);
    let processes = |index: usize| {
        let (_, session, home) = &sessions[index];
        home.chunks(session.home.as_ref().expect("it runs").per_process().max(1) as usize)
    };
    for &index in &order {
        sessions[index].2.iter().for_each(|slot| newest[at(*slot)] = Some(index));
    }
    let group = |index: usize| sessions[index].1.group;
    let displaced = |index: usize, slots: &[Slot]| {
        let taken = |slot: &Slot| newest[at(*slot)].is_some_and(|owner| group(owner) != group(index));
        slots.iter().any(|slot| offline.contains(slot) || taken(slot))
    };
    let mut crowd = vec![0u32; range.len()];
    for index in 0..sessions.len() {
        let staying = processes(index).filter(|slots| !displaced(index, slots));
        staying.flatten().for_each(|slot| crowd[at(*slot)] += 1);
    }
    let user = |index: usize| sessions[index].1.request.user;
    // Who has stepped aside onto slots that belong to nobody.
    let mut guests: Vec<Option<u32>> = vec![None; range.len()];
    let mut pins: Pins = sessions.iter().map(|(id, ..)| (*id, Vec::new())).collect();
    for &index in &order {
        let started = sessions[index].1.started;
        let open = |slot: &usize| {
            newest[*slot]
                .is_none_or(|owner| group(owner) == group(index) || sessions[owner].1.started < started)
        };
        let whose = |slot: &usize| newest[*slot].map_or(guests[*slot], |owner| Some(user(owner)));
        let is_allowed = |slot: &usize| !apart || whose(slot).is_none_or(|whose| whose == user(index));
        let mut allowed: Vec<usize> = online.iter().copied().filter(is_allowed).collect();
        if allowed.is_empty() {
            allowed.clone_from(&online);
        }
        let mut candidates: Vec<usize> = allowed.iter().copied().filter(open).collect();
        if candidates.is_empty() {
            // All slots belong to sessions that were started later: the first of those shares.
            let age = |slot: &usize| newest[*slot].map(|owner| sessions[owner].1.started);
            let oldest = allowed.iter().map(age).min();
            candidates = allowed.iter().copied().filter(|slot| Some(age(slot)) == oldest).collect();
        }
        let pinned = &mut pins[index].1;
        for slots in processes(index) {
            if displaced(index, slots) {
                let chosen = least_crowded(&candidates, &crowd, slots.len());
                chosen
                    .iter()
                    .for_each(|slot| (crowd[*slot], guests[*slot]) = (crowd[*slot] + 1, Some(user(index))));
                pinned.extend(chosen.into_iter().map(|slot| Slot((slot + range.start) as u32)));
            } else {
                pinned.extend_from_slice(slots);
            }
        }
    }
    pins
}

/// So many of the candidates, the least crowded first; some several times where there are fewer.
fn least_crowded(candidates: &[usize], crowd: &[u32], count: usize) -> Vec<usize> {
    if count == 1 {
        return candidates.iter().copied().min_by_key(|slot| crowd[*slot]).into_iter().collect();
    }
    let mut by_crowd = candidates.to_vec();
    by_crowd.sort_by_key(|slot| crowd[*slot]);
    (0..count).map(|which| by_crowd[which % by_crowd.len()]).collect()
}
