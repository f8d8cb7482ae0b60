//! How far each session is: speeds change when others come, go, or are moved.
//!
//! Speeds are whole numbers of [`FULL`]; a session has `run_ms * FULL` of work. A session's speed changes only with what happens on
//! its nodes, so each change looks at the sessions of the nodes that it touches.

use super::model::Speed;
use crate::session::foreseen::Slowdown;
use crate::session::resources::{Cluster, NodeId, Placement, Slot};
use crate::session::workload::Workload;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Full speed: 1 to 16 divide it.
const FULL: u64 = 720_720;

pub(super) struct Progress<'a> {
    workload: &'a Workload,
    cluster: Cluster,
    speed: Speed,
    /// Whether sessions slow each other down at all.
    interacts: bool,
    running: BTreeMap<usize, Going>,
    /// Ends to come: when, whose, and of which version; older versions are void.
    ends: BinaryHeap<Reverse<(u64, usize, u64)>>,
    version: u64,
    /// Processes pinned to each slot.
    load: Vec<u32>,
    residents: Vec<Vec<usize>>,
    touched: BTreeSet<NodeId>,
}

struct Going {
    /// Work left, when it was last looked at.
    left: u64,
    since: u64,
    speed: u64,
    version: u64,
    suspended: bool,
    pinned: Placement,
    nodes: Vec<NodeId>,
    /// Its share of memory alone, node by node as in `nodes`.
    alone: Vec<u64>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(
        workload: &'a Workload,
        cluster: &Cluster,
        speed: Speed,
        interacts: bool,
    ) -> Progress<'a> {
        Progress {
            workload,
            speed,
            interacts,
            running: BTreeMap::new(),
            ends: BinaryHeap::new(),
            version: 0,
            load: vec![0; cluster.num_slots()],
            residents: vec![Vec::new(); cluster.num_nodes()],
            touched: BTreeSet::new(),
            cluster: cluster.clone(),
        }
    }

    /// The next session to end, and when.
    pub(super) fn next_end(&mut self) -> Option<(u64, usize)> {
        while let Some(Reverse((end, job, version))) = self.ends.peek().copied() {
            if self.running.get(&job).is_some_and(|going| going.version == version) {
                return Some((end, job));
            }
            self.ends.pop();
        }
        None
    }

    pub(super) fn start(&mut self, now: u64, job: usize, run_ms: u64, pinned: Placement) {
        let nodes = if self.interacts { pinned.nodes(&self.cluster) } else { Vec::new() };
        let alone = match self.speed.bandwidth {
            Some(_) => {
                nodes.iter().map(|node| self.memory_share(self.slots(&pinned, *node) * FULL)).collect()
            }
            None => Vec::new(),
        };
        for node in &nodes {
            self.residents[node.0 as usize].push(job);
        }
        self.pin(&pinned, true);
        self.touched.extend(&nodes);
        let going = Going {
            left: run_ms * FULL,
            since: now,
            speed: FULL,
            version: 0,
            suspended: false,
            pinned,
            nodes,
            alone,
        };
        self.running.insert(job, going);
        self.plan(job);
    }

    pub(super) fn end(&mut self, job: usize) {
        let going = self.running.remove(&job).expect("it runs");
        for node in &going.nodes {
            self.residents[node.0 as usize].retain(|resident| *resident != job);
        }
        self.pin(&going.pinned, false);
        self.touched.extend(&going.nodes);
    }

    pub(super) fn suspend(&mut self, now: u64, job: usize) {
        self.advance(now, job);
        let going = self.running.get_mut(&job).expect("it runs");
        going.suspended = true;
        going.speed = 0;
        let (pinned, nodes) = (going.pinned.clone(), going.nodes.clone());
        self.pin(&pinned, false);
        self.touched.extend(nodes);
        self.plan(job);
    }

    pub(super) fn go_on(&mut self, now: u64, job: usize) {
        let going = self.running.get_mut(&job).expect("it is suspended");
        (going.suspended, going.since, going.speed) = (false, now, FULL);
        let (pinned, nodes) = (going.pinned.clone(), going.nodes.clone());
        self.pin(&pinned, true);
        self.touched.extend(nodes);
        self.plan(job);
    }

    pub(super) fn repin(&mut self, now: u64, job: usize, placement: Placement) {
        self.advance(now, job);
        let going = self.running.get_mut(&job).expect("it runs");
        let before = std::mem::replace(&mut going.pinned, placement.clone());
        self.touched.extend(&going.nodes);
        self.pin(&before, false);
        self.pin(&placement, true);
    }

    /// After all changes of a moment: gives everybody who is touched its new speed, and says whose has changed, and whether it is full.
    pub(super) fn settle(&mut self, now: u64) -> Vec<(usize, bool)> {
        let mut changed = Vec::new();
        if !self.interacts {
            return changed;
        }
        let touched = std::mem::take(&mut self.touched);
        let jobs: BTreeSet<usize> =
            touched.iter().flat_map(|node| &self.residents[node.0 as usize]).copied().collect();
        let mut active: BTreeMap<NodeId, u64> = BTreeMap::new();
        for job in jobs {
            if self.running[&job].suspended {
                continue;
            }
            let speed = self.speed_of(job, &mut active);
            if speed != self.running[&job].speed {
                self.advance(now, job);
                self.running.get_mut(&job).expect("it runs").speed = speed;
                self.plan(job);
                changed.push((job, speed == FULL));
            }
        }
        changed
    }

    fn advance(&mut self, now: u64, job: usize) {
        let going = self.running.get_mut(&job).expect("it runs");
        going.left = going.left.saturating_sub((now - going.since).saturating_mul(going.speed));
        going.since = now;
    }

    /// Foretells a session's end.
    fn plan(&mut self, job: usize) {
        self.version += 1;
        let going = self.running.get_mut(&job).expect("it runs");
        going.version = self.version;
        if going.speed > 0 {
            let end = going.since + going.left.div_ceil(going.speed);
            self.ends.push(Reverse((end, job, going.version)));
        }
    }

    fn pin(&mut self, placement: &Placement, comes: bool) {
        if !self.interacts {
            return;
        }
        for slot in placement.slots() {
            let load = &mut self.load[slot.0 as usize];
            *load = if comes { *load + 1 } else { *load - 1 };
        }
    }

    /// Each process of a placement: its node, and its share of its most crowded slot.
    fn shares<'p>(&'p self, placement: &'p Placement) -> impl Iterator<Item = (NodeId, u64)> + 'p {
        let mut slots = placement.slots();
        let per_process = placement.per_process().max(1);
        (0..placement.processes()).map(move |_| {
            let first = slots.next().unwrap_or(Slot(0));
            let others = slots.by_ref().take(per_process as usize - 1);
            let crowd =
                others.map(|slot| self.load[slot.0 as usize]).fold(self.load[first.0 as usize], u32::max);
            (self.cluster.node_of(first), FULL / u64::from(crowd.max(1)))
        })
    }

    /// How many slots of a placement are on a node.
    fn slots(&self, placement: &Placement, node: NodeId) -> u64 {
        placement.slots().filter(|slot| self.cluster.node_of(*slot) == node).count() as u64
    }

    /// What is left of full speed where so much of it goes to one node's memory.
    fn memory_share(&self, active: u64) -> u64 {
        let most = self.speed.bandwidth.map_or(u64::MAX, |processes| u64::from(processes) * FULL);
        if active <= most { FULL } else { (u128::from(most) * u128::from(FULL) / u128::from(active)) as u64 }
    }

    fn speed_of(&self, job: usize, active: &mut BTreeMap<NodeId, u64>) -> u64 {
        let going = &self.running[&job];
        let (mut slowest, mut sum, mut count) = (FULL, 0, 0);
        for (node, share) in self.shares(&going.pinned) {
            let mut speed = share;
            if self.speed.bandwidth.is_some() {
                let busy = *active.entry(node).or_insert_with(|| self.activity(node));
                let alone =
                    going.nodes.iter().position(|known| *known == node).map_or(FULL, |at| going.alone[at]);
                let relative =
                    u128::from(share) * u128::from(self.memory_share(busy)) / u128::from(alone.max(1));
                speed = (relative as u64).min(FULL);
            }
            if !self.workload.foreseen.is_empty() {
                speed = self.company_of(job, node).slowed(speed);
            }
            slowest = slowest.min(speed);
            sum += speed;
            count += 1;
        }
        if self.speed.loose { (sum / count.max(1)).max(1) } else { slowest.max(1) }
    }

    /// How much the others of a node slow a session down.
    fn company_of(&self, job: usize, node: NodeId) -> Slowdown {
        let others = self.residents[node.0 as usize].iter();
        let others = others.filter(|other| **other != job && !self.running[other].suspended);
        let program = |job: usize| self.workload.jobs[job].request.program.as_deref();
        let known = others.filter_map(|other| self.workload.foreseen.of(program(job)?, program(*other)?));
        known.fold(Slowdown::NONE, Slowdown::times)
    }

    /// How much goes on on a node, before its memory slows it down.
    fn activity(&self, node: NodeId) -> u64 {
        let residents = self.residents[node.0 as usize].iter().map(|job| &self.running[job]);
        let running = residents.filter(|going| !going.suspended);
        running
            .flat_map(|going| {
                let threads = u64::from(going.pinned.per_process());
                self.shares(&going.pinned).map(move |(there, share)| (there, share * threads))
            })
            .filter(|(there, _)| *there == node)
            .map(|(_, share)| share)
            .sum()
    }
}
