//! Who has which slot, where sessions are suspended: whose slots a newcomer can have, and which suspended session can go on.

use super::request::SessionId;
use super::resources::Placement;
use std::collections::{BTreeSet, HashMap};

/// Among sessions that suspend each other, the larger one goes first: priority, then arrival.
pub(crate) type Rank = (i32, u64);

#[derive(Clone, Copy, Debug)]
struct Holder {
    id: SessionId,
    group: SessionId,
    rank: Rank,
    running: bool,
}

/// What is known of a suspended session.
#[derive(Clone, Copy, Debug)]
struct Suspended {
    arrival: u64,
    /// Pairs of a slot of its and a session of another group that runs there.
    in_the_way: u64,
}

/// The holders of every slot, kept only under policies that suspend.
#[derive(Clone, Debug)]
pub(crate) struct Holders {
    slots: Vec<Vec<Holder>>,
    /// How many sessions of a slot were surpassed so often that nobody may do so again.
    left_alone: Vec<u32>,
    suspended: HashMap<SessionId, Suspended>,
    /// Suspended sessions that nobody of another group is in the way of, by arrival.
    ready: BTreeSet<(u64, SessionId)>,
    /// The ranks that a newcomer has to exceed, of all slots that can be had at all, sorted; until somebody comes or goes.
    thresholds: Option<Vec<Option<Rank>>>,
}

impl Holders {
    pub(crate) fn new(slots: usize) -> Holders {
        Holders {
            slots: vec![Vec::new(); slots],
            left_alone: vec![0; slots],
            suspended: HashMap::new(),
            ready: BTreeSet::new(),
            thresholds: None,
        }
    }

    /// A session gets slots, and runs there.
    pub(crate) fn came(&mut self, id: SessionId, group: SessionId, rank: Rank, home: &Placement) {
        self.thresholds = None;
        for slot in home.runs().flatten() {
            self.slots[slot].push(Holder { id, group, rank, running: true });
        }
        self.ran(group, home, true);
    }

    /// It has ended, and was running or suspended.
    pub(crate) fn left(&mut self, id: SessionId, group: SessionId, home: &Placement) {
        self.thresholds = None;
        match self.suspended.remove(&id) {
            Some(suspended) => drop(self.ready.remove(&(suspended.arrival, id))),
            None => self.ran(group, home, false),
        }
        for slot in home.runs().flatten() {
            self.slots[slot].retain(|holder| holder.id != id);
        }
    }

    /// It stops running, and keeps its slots.
    pub(crate) fn suspended(&mut self, id: SessionId, group: SessionId, arrival: u64, home: &Placement) {
        self.mark(id, home, false);
        self.ran(group, home, false);
        let strangers = |slot: usize| {
            self.slots[slot].iter().filter(|holder| holder.running && holder.group != group).count() as u64
        };
        let in_the_way = home.runs().flatten().map(strangers).sum();
        self.suspended.insert(id, Suspended { arrival, in_the_way });
        if in_the_way == 0 {
            self.ready.insert((arrival, id));
        }
    }

    /// It runs again.
    pub(crate) fn went_on(&mut self, id: SessionId, group: SessionId, home: &Placement) {
        let suspended = self.suspended.remove(&id).expect("it was suspended");
        self.ready.remove(&(suspended.arrival, id));
        self.mark(id, home, true);
        self.ran(group, home, true);
    }

    /// Nobody may surpass who has these slots any more; or who was left alone has ended.
    pub(crate) fn leave_alone(&mut self, home: &Placement, begins: bool) {
        self.thresholds = None;
        for slot in home.runs().flatten() {
            let count = &mut self.left_alone[slot];
            *count = if begins { *count + 1 } else { *count - 1 };
        }
    }

    /// The suspended session that came last before this arrival, of those that could go on.
    pub(crate) fn ready_before(&self, arrival: u64) -> Option<(u64, SessionId)> {
        self.ready.range(..(arrival, SessionId(0))).next_back().copied()
    }

    /// Whether a suspended session could go on.
    pub(crate) fn is_ready(&self, id: SessionId) -> bool {
        self.suspended.get(&id).is_some_and(|suspended| suspended.in_the_way == 0)
    }

    /// Who has one of these slots, each once.
    pub(crate) fn of(&self, placement: &Placement) -> BTreeSet<SessionId> {
        placement.runs().flatten().flat_map(|slot| &self.slots[slot]).map(|holder| holder.id).collect()
    }

    /// How many slots a newcomer of this rank could have, if it suspended all whom it may; nobody has a group.
    pub(crate) fn slots_below(&mut self, rank: Rank) -> u64 {
        let Holders { thresholds, slots, left_alone, .. } = self;
        let sorted = thresholds.get_or_insert_with(|| {
            let open = slots.iter().zip(left_alone).filter(|(_, left_alone)| **left_alone == 0);
            let mut ranks: Vec<Option<Rank>> = open.map(|(holders, _)| threshold(holders)).collect();
            ranks.sort_unstable();
            ranks
        });
        sorted.partition_point(|threshold| *threshold < Some(rank)) as u64
    }

    /// When who runs on a slot had come, if a newcomer of this rank can have the slot; `u64::MAX` where nobody runs.
    pub(crate) fn runs_below(&self, slot: usize, rank: Rank) -> Option<u64> {
        if self.left_alone[slot] > 0 || threshold(&self.slots[slot]) >= Some(rank) {
            return None;
        }
        let runs = self.slots[slot].iter().find(|holder| holder.running);
        Some(runs.map_or(u64::MAX, |holder| holder.rank.1))
    }

    /// Notes on a session's slots whether it runs.
    fn mark(&mut self, id: SessionId, home: &Placement, running: bool) {
        for slot in home.runs().flatten() {
            let holder = self.slots[slot].iter_mut().find(|holder| holder.id == id);
            holder.expect("it has the slot").running = running;
        }
    }

    /// One of a group runs on these slots now, or no longer: who is suspended there waits for one more, or one less.
    fn ran(&mut self, group: SessionId, home: &Placement, begins: bool) {
        for slot in home.runs().flatten() {
            for holder in self.slots[slot].iter().filter(|holder| !holder.running && holder.group != group) {
                let suspended = self.suspended.get_mut(&holder.id).expect("it is suspended");
                let before = suspended.in_the_way;
                suspended.in_the_way = if begins { before + 1 } else { before - 1 };
                let place = (suspended.arrival, holder.id);
                match (before, suspended.in_the_way) {
                    (0, _) => drop(self.ready.remove(&place)),
                    (_, 0) => drop(self.ready.insert(place)),
                    _ => {}
                }
            }
        }
    }
}

/// What a newcomer's rank has to exceed, where anybody is.
fn threshold(holders: &[Holder]) -> Option<Rank> {
    holders.iter().map(|holder| holder.rank).max()
}
