//! Who has which slot, where sessions are suspended: whose slots a newcomer can have, and which suspended session can go on.

use super::request::SessionId;
use super::resources::{Placement, Slot};
use std::collections::{BTreeSet, HashMap};

/// Among sessions that suspend each other, the larger one goes first: priority, then arrival.
pub(crate) type Rank = (i32, u64);

/// What a session has to say about slots that it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) id: SessionId,
    pub(crate) group: SessionId,
    pub(crate) rank: Rank,
    /// When it is due: nobody suspends it then, under give-way.
    pub(crate) due: u64,
    pub(crate) running: bool,
    /// When it will have ended; where it is suspended, how long it still needs.
    pub(crate) until: u64,
}

impl Claim {
    fn left(&self, now: u64) -> u64 {
        if self.running { self.until.saturating_sub(now) } else { self.until }
    }
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
    slots: Vec<Vec<Claim>>,
    /// How many sessions of a slot were surpassed so often that nobody may do so again; one more where the slot is offline.
    left_alone: Vec<u32>,
    suspended: HashMap<SessionId, Suspended>,
    /// Suspended sessions that nobody of another group is in the way of, by arrival.
    ready: BTreeSet<(u64, SessionId)>,
    /// The ranks that a newcomer has to exceed, of all slots that can be had at all, sorted; until somebody comes or goes.
    thresholds: Option<Vec<Option<Rank>>>,
    /// How long the holders of each slot that can be had still need, at a time, sorted; until somebody comes, goes or stops.
    lefts: Option<(u64, Vec<u64>)>,
}

impl Holders {
    pub(crate) fn new(slots: usize) -> Holders {
        Holders {
            slots: vec![Vec::new(); slots],
            left_alone: vec![0; slots],
            suspended: HashMap::new(),
            ready: BTreeSet::new(),
            thresholds: None,
            lefts: None,
        }
    }

    /// A session gets slots, and runs there.
    pub(crate) fn came(&mut self, claim: Claim, home: &Placement) {
        (self.thresholds, self.lefts) = (None, None);
        for slot in home.runs().flatten() {
            self.slots[slot].push(claim);
        }
        self.ran(claim.group, home, true);
    }

    /// It has ended, and was running or suspended.
    pub(crate) fn left(&mut self, id: SessionId, group: SessionId, home: &Placement) {
        (self.thresholds, self.lefts) = (None, None);
        match self.suspended.remove(&id) {
            Some(suspended) => drop(self.ready.remove(&(suspended.arrival, id))),
            None => self.ran(group, home, false),
        }
        for slot in home.runs().flatten() {
            self.slots[slot].retain(|holder| holder.id != id);
        }
    }

    /// It stops running, and keeps its slots.
    pub(crate) fn suspended(&mut self, claim: Claim, home: &Placement) {
        let Claim { id, group, rank: (_, arrival), .. } = claim;
        self.replace(claim, home);
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
    pub(crate) fn went_on(&mut self, claim: Claim, home: &Placement) {
        let suspended = self.suspended.remove(&claim.id).expect("it was suspended");
        self.ready.remove(&(suspended.arrival, claim.id));
        self.replace(claim, home);
        self.ran(claim.group, home, true);
    }

    /// It says something else about its slots than before.
    pub(crate) fn changed(&mut self, claim: Claim, home: &Placement) {
        self.thresholds = None;
        self.replace(claim, home);
    }

    /// Nobody may surpass who has these slots any more; or who was left alone has ended.
    pub(crate) fn leave_alone(&mut self, home: &Placement, begins: bool) {
        self.thresholds = None;
        for slot in home.runs().flatten() {
            let count = &mut self.left_alone[slot];
            *count = if begins { *count + 1 } else { *count - 1 };
        }
    }

    /// Nobody may have these slots who does not have them already.
    pub(crate) fn withdraw(&mut self, slots: &BTreeSet<Slot>) {
        self.thresholds = None;
        slots.iter().for_each(|slot| self.left_alone[slot.0 as usize] += 1);
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

    /// How many slots a newcomer could have, if it suspended all that need at least so long still and are not due.
    pub(crate) fn slots_with_left(&mut self, now: u64, gap: u64) -> u64 {
        if self.lefts.as_ref().is_none_or(|(then, _)| *then != now) {
            let slots = 0..self.slots.len();
            let mut lefts: Vec<u64> = slots.filter_map(|slot| self.left_on(slot, now)).collect();
            lefts.sort_unstable();
            self.lefts = Some((now, lefts));
        }
        let (_, lefts) = self.lefts.as_ref().expect("it was just put there");
        (lefts.len() - lefts.partition_point(|left| *left < gap)) as u64
    }

    /// How long the holder of a slot still needs that is ready first, `u64::MAX` where there is none; none where somebody is due.
    pub(crate) fn left_on(&self, slot: usize, now: u64) -> Option<u64> {
        let mut lefts = self.slots[slot].iter().map(|holder| (holder.due > now).then(|| holder.left(now)));
        lefts.try_fold(u64::MAX, |least, left| Some(least.min(left?)))
    }

    /// How long who runs on a slot still needs, where anybody does.
    pub(crate) fn runner_left(&self, slot: usize, now: u64) -> Option<u64> {
        self.slots[slot].iter().find(|holder| holder.running).map(|holder| holder.left(now))
    }

    /// Notes on a session's slots that it runs now, or is suspended.
    fn replace(&mut self, claim: Claim, home: &Placement) {
        self.lefts = None;
        for slot in home.runs().flatten() {
            let holder = self.slots[slot].iter_mut().find(|holder| holder.id == claim.id);
            *holder.expect("it has the slot") = claim;
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
fn threshold(holders: &[Claim]) -> Option<Rank> {
    holders.iter().map(|holder| holder.rank).max()
}
