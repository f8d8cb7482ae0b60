//! Who holds which slots and how much memory, and where another session would fit.

use super::request::Request;
use super::resources::{Cluster, Level, NodeId, Placement, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// A slot that cannot be had.
pub(crate) const NOT_USABLE: u16 = u16::MAX;
/// Crowds that are counted apart.
const CROWDS: usize = 16;

/// Counts per slot and node.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    pub(crate) cluster: Cluster,
    /// Sessions that run there, by the slots that they were given.
    running: Vec<u16>,
    /// Suspended sessions whose slot it is.
    suspended: Vec<u16>,
    /// Whether nobody may be given it for now: it counts nowhere below.
    offline: Vec<bool>,
    /// Slots of each node on which nothing runs.
    free: Vec<u32>,
    free_total: u64,
    /// Slots that nobody has, suspended sessions neither.
    vacant_total: u64,
    /// How many slots so many sessions run on; the last stands for more.
    crowds: [u64; CROWDS],
    memory_left: Vec<u64>,
    /// Nodes that the session that is being placed may not have; none most of the time.
    shut: BTreeSet<NodeId>,
}

/// How many processes of a request go on a node, and how a node's slots are cut for them.
#[derive(Clone, Copy)]
struct Cut {
    /// Slots that are given out together.
    unit: u32,
    /// Units of a process.
    units: u32,
}

impl Cut {
    /// Cuts nodes as the request says.
    fn of(request: &Request, cluster: &Cluster, node: NodeId) -> Cut {
        let unit = cluster.shape(node).slots_of(request.whole);
        Cut { unit, units: request.threads.div_ceil(unit) }
    }

    fn per_process(self) -> u32 {
        self.unit.saturating_mul(self.units)
    }
}

/// Slots that each process of the request takes: as on the first node.
pub(crate) fn per_process(request: &Request, cluster: &Cluster) -> u32 {
    Cut::of(request, cluster, NodeId(0)).per_process()
}

impl Occupancy {
    pub(crate) fn new(cluster: Cluster) -> Occupancy {
        let free: Vec<u32> = cluster.nodes().map(|node| cluster.slots(node).len() as u32).collect();
        let memory_left = cluster.nodes().map(|node| cluster.shape(node).memory_bytes).collect();
        let slots = cluster.num_slots();
        Occupancy {
            running: vec![0; slots],
            suspended: vec![0; slots],
            offline: vec![false; slots],
            free_total: slots as u64,
            vacant_total: slots as u64,
            crowds: std::array::from_fn(|crowd| if crowd == 0 { slots as u64 } else { 0 }),
            free,
            shut: BTreeSet::new(),
            memory_left,
            cluster,
        }
    }

    /// The same without some slots.
    ///
    /// # Panics
    /// Somebody is there already.
    pub(crate) fn without(mut self, offline: &BTreeSet<Slot>) -> Occupancy {
        for slot in offline {
            let at = slot.0 as usize;
            assert!(self.holders(at) == 0, "slots go offline before sessions are noted");
            self.offline[at] = true;
            self.crowds[0] -= 1;
            self.free[self.cluster.node_of(*slot).0 as usize] -= 1;
            self.free_total -= 1;
            self.vacant_total -= 1;
        }
        self
    }

    /// Whether the session that is being placed may be given a slot.
    pub(crate) fn is_open(&self, slot: usize) -> bool {
        !self.offline[slot]
            && (self.shut.is_empty() || !self.shut.contains(&self.cluster.node_of(Slot(slot as u32))))
    }

    /// The session that is being placed from now on may not have these nodes, or may again.
    pub(crate) fn shut(&mut self, nodes: &BTreeSet<NodeId>, begins: bool) {
        match begins {
            true => self.shut.clone_from(nodes),
            false => self.shut.clear(),
        }
    }

    /// Slots that are not offline.
    pub(crate) fn online_total(&self) -> u64 {
        self.offline.iter().filter(|offline| !**offline).count() as u64
    }

    /// Slots on which nothing runs.
    pub(crate) fn free_total(&self) -> u64 {
        self.free_total
    }

    /// Slots that nobody has, suspended sessions neither.
    pub(crate) fn vacant_total(&self) -> u64 {
        self.vacant_total
    }

    /// Slots on which fewer sessions run, or at least not fewer than that.
    pub(crate) fn below(&self, most: u16) -> u64 {
        let counted = if usize::from(most) < CROWDS { usize::from(most) } else { CROWDS };
        self.crowds[..counted].iter().sum()
    }

    /// How many sessions run on a slot; [`NOT_USABLE`] where it is offline.
    pub(crate) fn running(&self, slot: usize) -> u16 {
        if self.offline[slot] { NOT_USABLE } else { self.running[slot] }
    }

    /// How many sessions have a slot, suspended ones as well; [`NOT_USABLE`] where it is offline.
    pub(crate) fn holders(&self, slot: usize) -> u16 {
        if self.offline[slot] { NOT_USABLE } else { self.running[slot] + self.suspended[slot] }
    }

    /// A session runs there from now on.
    pub(crate) fn run(&mut self, placement: &Placement) {
        for slot in placement.runs().flatten() {
            if self.offline[slot] {
                self.running[slot] += 1;
                continue;
            }
            self.crowds[crowd(self.running[slot])] -= 1;
            self.running[slot] += 1;
            self.crowds[crowd(self.running[slot])] += 1;
            if self.running[slot] == 1 {
                self.vacant_total -= u64::from(self.suspended[slot] == 0);
                self.free[self.cluster.node_of(Slot(slot as u32)).0 as usize] -= 1;
                self.free_total -= 1;
            }
        }
    }

    /// It does not any more.
    pub(crate) fn stop(&mut self, placement: &Placement) {
        for slot in placement.runs().flatten() {
            if self.offline[slot] {
                self.running[slot] -= 1;
                continue;
            }
            self.crowds[crowd(self.running[slot])] -= 1;
            self.running[slot] -= 1;
            self.crowds[crowd(self.running[slot])] += 1;
            if self.running[slot] == 0 {
                self.vacant_total += u64::from(self.suspended[slot] == 0);
                self.free[self.cluster.node_of(Slot(slot as u32)).0 as usize] += 1;
                self.free_total += 1;
            }
        }
    }

    /// A suspended session keeps these slots, or no longer does.
    pub(crate) fn hold(&mut self, placement: &Placement, holds: bool) {
        for slot in placement.runs().flatten() {
            let before = self.holders(slot);
            let count = &mut self.suspended[slot];
            *count = if holds { *count + 1 } else { *count - 1 };
            if self.offline[slot] {
                continue;
            }
            self.vacant_total -= u64::from(before == 0);
            self.vacant_total += u64::from(self.holders(slot) == 0);
        }
    }

    /// Takes a session's memory on its nodes, or gives it back.
    pub(crate) fn remember(&mut self, placement: &Placement, bytes_per_process: u64, taken: bool) {
        if bytes_per_process == 0 {
            return;
        }
        let slots = placement.slots().step_by(placement.per_process().max(1) as usize);
        for slot in slots {
            let left = &mut self.memory_left[self.cluster.node_of(slot).0 as usize];
            if *left != u64::MAX {
                *left = if taken { *left - bytes_per_process } else { *left + bytes_per_process };
            }
        }
    }

    /// Finds slots, compactly: nodes by number, and on a node neighbours first. `load` says how crowded a slot is; none is
    /// taken above `load_max`, and on a node the emptiest go first.
    pub(crate) fn compact(
        &self,
        request: &Request,
        load_max: u16,
        load: impl Fn(usize) -> u16,
    ) -> Option<Placement> {
        if !request.slots.is_empty() {
            return self.exact(request, load_max, load);
        }
        let mut left = request.processes;
        let mut placement = Placement::new(per_process(request, &self.cluster));
        let mut place = |node: NodeId| {
            left -= self.on_node(request, node, left, load_max, &load, &mut placement);
            left == 0
        };
        let done = match load_max {
            // Nothing else is empty.
            0 => self.cluster.nodes().filter(|node| self.free[node.0 as usize] > 0).any(&mut place),
            _ => self.emptiest_first().into_iter().any(&mut place),
        };
        (done || left == 0).then_some(placement)
    }

    /// The slots that a request names, if it can have each of them.
    fn exact(&self, request: &Request, load_max: u16, load: impl Fn(usize) -> u16) -> Option<Placement> {
        let mut placement = Placement::new(1);
        for slot in &request.slots {
            let is_open = !self.shut.contains(&self.cluster.node_of(Slot(*slot)));
            if !is_open || load(*slot as usize) > load_max {
                return None;
            }
            placement.push(Slot(*slot));
        }
        self.remembers(&placement, request.memory_bytes, 0).then_some(placement)
    }

    /// Whether the nodes of a placement have so much memory left for each process, once what it has there is given back.
    pub(crate) fn remembers(&self, placement: &Placement, per_process: u64, has: u64) -> bool {
        let mut processes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for slot in placement.slots().step_by(placement.per_process().max(1) as usize) {
            *processes.entry(self.cluster.node_of(slot)).or_default() += 1;
        }
        processes.into_iter().all(|(node, processes)| {
            let left = self.memory_left[node.0 as usize].saturating_add(processes.saturating_mul(has));
            processes.saturating_mul(per_process) <= left
        })
    }

    /// All nodes, those with the most free slots first, else by number.
    fn emptiest_first(&self) -> Vec<NodeId> {
        let most = self.free.iter().copied().max().unwrap_or(0);
        // How many nodes have more free slots: where those with so many begin.
        let mut begins = vec![0; most as usize + 2];
        self.free.iter().for_each(|free| begins[(most - free) as usize + 1] += 1);
        for index in 1..begins.len() {
            begins[index] += begins[index - 1];
        }
        let mut order = vec![NodeId(0); self.free.len()];
        for (node, free) in self.free.iter().enumerate() {
            let place: &mut usize = &mut begins[(most - free) as usize];
            order[*place] = NodeId(node as u32);
            *place += 1;
        }
        order
    }

    /// The same, with as few processes on each node as can be.
    pub(crate) fn spread(
        &self,
        request: &Request,
        load_max: u16,
        load: impl Fn(usize) -> u16,
    ) -> Option<Placement> {
        if !request.slots.is_empty() {
            return self.exact(request, load_max, load);
        }
        let mut aside = Placement::new(per_process(request, &self.cluster));
        let room = |node| self.on_node(request, node, request.processes, load_max, &load, &mut aside);
        let room: Vec<u32> = self.cluster.nodes().map(room).collect();
        let fitting = |most: u32| room.iter().map(|room| u64::from((*room).min(most))).sum::<u64>();
        let wanted = u64::from(request.processes);
        if fitting(request.processes) < wanted {
            return None;
        }
        let (mut low, mut high) = (1, request.processes);
        while low < high {
            let middle = low + (high - low) / 2;
            if fitting(middle) >= wanted {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let mut left = request.processes;
        let mut placement = Placement::new(per_process(request, &self.cluster));
        for node in self.cluster.nodes() {
            left -= self.on_node(request, node, left.min(low), load_max, &load, &mut placement);
        }
        (left == 0).then_some(placement)
    }

    /// Places up to `most` processes on a node, and says how many.
    fn on_node(
        &self,
        request: &Request,
        node: NodeId,
        most: u32,
        load_max: u16,
        load: &impl Fn(usize) -> u16,
        out: &mut Placement,
    ) -> u32 {
        let cut = Cut::of(request, &self.cluster, node);
        if cut.per_process() != out.per_process() || self.shut.contains(&node) {
            return 0;
        }
        let by_memory = match request.memory_bytes {
            0 => u64::MAX,
            bytes => self.memory_left[node.0 as usize] / bytes,
        };
        let most =
            most.min(request.per_node_max.unwrap_or(u32::MAX)).min(by_memory.min(u32::MAX.into()) as u32);
        let slots = self.cluster.slots(node);
        if cut.unit == 1 && cut.units == 1 {
            let mut placed = 0;
            for level in 0..=load_max {
                let usable = slots.clone().filter(|slot| load(*slot) == level).take((most - placed) as usize);
                placed += usable.map(|slot| out.push(Slot(slot as u32))).count() as u32;
                if placed == most {
                    break;
                }
            }
            return placed;
        }
        let socket = self.cluster.shape(node).slots_of(Level::Socket) as usize;
        // Units that were left over in sockets, and with what load: processes across sockets are the last resort.
        let mut rest: Vec<u32> = Vec::new();
        let mut placed = 0;
        for level in 0..=load_max {
            for first in slots.clone().step_by(socket.max(cut.unit as usize)) {
                let mut together: Vec<u32> = Vec::new();
                let end = (first + socket.max(cut.unit as usize)).min(slots.end);
                for unit in (first..end).step_by(cut.unit as usize) {
                    if placed == most {
                        return placed;
                    }
                    let crowd = (unit..unit + cut.unit as usize).map(load).max().unwrap_or(NOT_USABLE);
                    if crowd != level {
                        continue;
                    }
                    together.push(unit as u32);
                    if together.len() == cut.units as usize {
                        emit(&mut together, cut, out);
                        placed += 1;
                    }
                }
                rest.append(&mut together);
            }
        }
        rest.sort_unstable();
        for units in rest.chunks_exact(cut.units as usize).take((most - placed) as usize) {
            emit(&mut units.to_vec(), cut, out);
            placed += 1;
        }
        placed
    }
}

/// The place of a count in `crowds`.
fn crowd(running: u16) -> usize {
    usize::from(running).min(CROWDS - 1)
}

/// Makes a process of these units.
fn emit(units: &mut Vec<u32>, cut: Cut, out: &mut Placement) {
    for unit in units.drain(..) {
        (unit..unit + cut.unit).for_each(|slot| out.push(Slot(slot)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::resources::Shape;
    use super::*;

    fn slots(placement: Option<Placement>) -> Vec<u32> {
        placement.expect("it fits").slots().map(|slot| slot.0).collect()
    }

    fn free(occupancy: &Occupancy) -> impl Fn(usize) -> u16 {
        |slot| if occupancy.running(slot) == 0 { 0 } else { NOT_USABLE }
    }

    /// Two nodes of two sockets of three cores of two threads.
    fn two_nodes() -> Occupancy {
        let shape = Shape { sockets: 2, cores: 3, threads: 2, memory_bytes: 100 };
        Occupancy::new(Cluster::uniform(2, shape).expect("a cluster"))
    }

    #[test]
    fn processes_stay_within_sockets_and_get_whole_cores() {
        let occupancy = two_nodes();
        let four_threads = Request { threads: 4, ..Request::new(3) };
        let found = slots(occupancy.compact(&four_threads, 0, free(&occupancy)));
        assert_eq!(found, [0, 1, 2, 3, 6, 7, 8, 9, 4, 5, 10, 11], "the third needs two sockets");
        let cores = Request { whole: Level::Core, ..Request::new(2) };
        assert_eq!(slots(occupancy.compact(&cores, 0, free(&occupancy))), [0, 1, 2, 3]);
        let sockets = Request { whole: Level::Socket, ..Request::new(5) };
        assert!(occupancy.compact(&sockets, 0, free(&occupancy)).is_none(), "there are four");
        let node = Request { whole: Level::Node, ..Request::new(2) };
        assert_eq!(slots(occupancy.compact(&node, 0, free(&occupancy))).len(), 24);
    }

    #[test]
    fn memory_and_limits_count() {
        let mut occupancy = two_nodes();
        let heavy = Request { memory_bytes: 40, ..Request::new(4) };
        let placement = occupancy.compact(&heavy, 0, free(&occupancy)).expect("two on each node");
        assert_eq!(slots(Some(placement.clone())), [0, 1, 12, 13]);
        occupancy.run(&placement);
        occupancy.remember(&placement, 40, true);
        assert!(occupancy.compact(&Request { processes: 1, ..heavy.clone() }, 0, free(&occupancy)).is_none());
        let one_each = Request { per_node_max: Some(1), ..Request::new(2) };
        assert_eq!(slots(occupancy.compact(&one_each, 0, free(&occupancy))), [2, 14]);
        occupancy.stop(&placement);
        occupancy.remember(&placement, 40, false);
        assert_eq!(slots(occupancy.compact(&heavy, 0, free(&occupancy))), [0, 1, 12, 13]);
    }

    #[test]
    fn spreading_is_even_and_crowds_come_last() {
        let mut occupancy = two_nodes();
        assert_eq!(slots(occupancy.spread(&Request::new(3), 0, free(&occupancy))), [0, 1, 12]);
        let first = occupancy.compact(&Request::new(14), 0, free(&occupancy)).expect("it fits");
        occupancy.run(&first);
        let crowd = |slot: usize| occupancy.running(slot);
        assert_eq!(
            slots(occupancy.compact(&Request::new(11), 1, crowd)),
            [14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 12]
        );
    }
}
