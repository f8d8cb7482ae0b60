//! Slots that others hold: of suspended ones, of those that can be suspended, of those that talk to the newcomer.

use super::occupancy::NOT_USABLE;
use super::record::{Session, State};
use super::request::{Decision, SessionId};
use super::resources::{Placement, Slot};
use super::rules::Policy;
use super::scheduler::Scheduler;
use std::cmp::Reverse;

impl Scheduler {
    /// Finds slots for a session that does not fit where nobody is: first among those of suspended sessions and of its group,
    /// then among those of sessions that it may suspend: those that came last first, under give-way those that need longest.
    pub(super) fn find_among_holders(&mut self, now: u64, id: SessionId, wanted: u64) -> Option<Placement> {
        if let Some(found) = self.find_by_rank(id, wanted).or_else(|| self.find_by_left(now, id, wanted)) {
            return found;
        }
        let newcomer = &self.sessions[&id];
        let mates = self.groups.get(&newcomer.group).cloned().unwrap_or_default();
        let mut taken: Vec<SessionId> = mates;
        let suspended = self.suspended.values();
        taken.extend(suspended.filter(|other| newcomer.may_surpass(&self.sessions[other], now, &self.rules)));
        let victims: Vec<SessionId> = match self.rules.policy.suspends() {
            true => self.victims(now, newcomer),
            false => Vec::new(),
        };
        taken.iter().for_each(|other| self.disregard(*other, true));
        let mut found = self.find_disregarding(id, wanted);
        let mut victims = victims.into_iter();
        while found.is_none() {
            let Some(victim) = victims.next() else { break };
            self.disregard(victim, true);
            taken.push(victim);
            found = self.find_disregarding(id, wanted);
        }
        taken.iter().for_each(|other| self.disregard(*other, false));
        found
    }

    /// The same by the ranks of the holders, where slots are all that counts and nobody talks to anybody; none elsewhere.
    fn find_by_rank(&mut self, id: SessionId, wanted: u64) -> Option<Option<Placement>> {
        let session = &self.sessions[&id];
        if self.rules.policy != Policy::Surpass || !self.groups.is_empty() || !session.request.is_plain() {
            return None;
        }
        let (rank, holders) = (session.rank(), self.holders.as_mut().expect("it suspends"));
        if holders.slots_below(rank) < wanted {
            return Some(None);
        }
        let mut usable: Vec<Option<u64>> = (0..self.occupancy.cluster.num_slots())
            .map(|slot| holders.runs_below(slot, rank).filter(|_| self.occupancy.is_open(slot)))
            .collect();
        // Who came last is suspended first: down to this one.
        let mut arrivals: Vec<u64> = usable.iter().flatten().copied().collect();
        if (arrivals.len() as u64) < wanted {
            return Some(None);
        }
        let (_, first, _) = arrivals.select_nth_unstable_by(wanted as usize - 1, |one, other| other.cmp(one));
        usable.iter_mut().for_each(|slot| *slot = slot.filter(|arrival| *arrival >= *first));
        let load = |slot: usize| match (usable[slot], self.occupancy.holders(slot)) {
            (Some(_), 0) => 0,
            (Some(_), _) => 1,
            (None, _) => NOT_USABLE,
        };
        Some(self.occupancy.compact(&session.request, 1, load))
    }

    /// The same by how long the holders still need, under give-way: slots where nobody is go first, then those of suspended sessions,
    /// then those of sessions that need longest; none elsewhere.
    fn find_by_left(&self, now: u64, id: SessionId, wanted: u64) -> Option<Option<Placement>> {
        let session = &self.sessions[&id];
        let plain = session.request.is_plain() && self.groups.is_empty() && !self.priorities_differ();
        let applies = plain && self.rules.policy == Policy::GiveWay;
        let holders = self.holders.as_ref().filter(|_| applies)?;
        let Some(gap) = session.gap(&self.rules) else { return Some(None) };
        let order = |slot: usize| match holders.runner_left(slot, now) {
            None => self.occupancy.holders(slot).min(1).into(),
            Some(left) => u64::MAX - left,
        };
        let slots = (0..self.occupancy.cluster.num_slots())
            .filter(|slot| self.occupancy.is_open(*slot) && holders.left_on(*slot, now) >= Some(gap));
        let mut usable: Vec<(u64, usize)> = slots.map(|slot| (order(slot), slot)).collect();
        if (usable.len() as u64) < wanted {
            return Some(None);
        }
        usable.select_nth_unstable(wanted as usize - 1);
        let mut slots: Vec<usize> = usable[..wanted as usize].iter().map(|(_, slot)| *slot).collect();
        slots.sort_unstable();
        let mut placement = Placement::new(1);
        slots.into_iter().for_each(|slot| placement.push(Slot(slot as u32)));
        Some(Some(placement))
    }

    /// Whom a session may suspend: with each, all that talk to it.
    fn victims(&self, now: u64, newcomer: &Session) -> Vec<SessionId> {
        let may = |other: &SessionId| newcomer.may_surpass(&self.sessions[other], now, &self.rules);
        let group_too = |other: &SessionId| match self.groups.get(&self.sessions[other].group) {
            Some(members) => {
                members.iter().filter(|member| self.sessions[member].state == State::Running).all(may)
            }
            None => may(other),
        };
        let mut victims: Vec<SessionId> =
            self.running.values().rev().filter(|other| group_too(other)).copied().collect();
        if self.rules.policy == Policy::GiveWay {
            let left = |other: &SessionId| self.sessions[other].remaining(now).unwrap_or(u64::MAX);
            victims.sort_by_key(|other| Reverse(left(other)));
        }
        victims
    }

    /// Counts a session's slots as if it did not hold them, or no longer so.
    fn disregard(&mut self, other: SessionId, begins: bool) {
        let Some(home) = &self.sessions[&other].home else { return };
        for slot in home.runs().flatten() {
            let count = &mut self.disregarded[slot];
            *count = if begins { *count + 1 } else { *count - 1 };
        }
    }

    fn find_disregarding(&self, id: SessionId, wanted: u64) -> Option<Placement> {
        let (occupancy, disregarded) = (&self.occupancy, &self.disregarded);
        let usable = |slot: usize| occupancy.holders(slot) == disregarded[slot];
        let enough = (0..disregarded.len()).filter(|slot| usable(*slot)).nth(wanted as usize - 1).is_some();
        // Slots where nobody is, and only then others.
        let load = |slot: usize| match (usable(slot), occupancy.holders(slot)) {
            (true, 0) => 0,
            (true, _) => 1,
            (false, _) => NOT_USABLE,
        };
        if enough { occupancy.compact(&self.sessions[&id].request, 1, load) } else { None }
    }

    /// Suspends who runs on slots that a newcomer gets, and notes by whom suspended ones are surpassed.
    pub(super) fn make_room(
        &mut self,
        now: u64,
        newcomer: SessionId,
        placement: &Placement,
        decisions: &mut Vec<Decision>,
    ) {
        if !self.rules.policy.suspends() {
            return;
        }
        let group = self.sessions[&newcomer].group;
        let holders = self.holders.as_ref().expect("it suspends").of(placement);
        let strangers = holders.into_iter().filter(|other| self.sessions[other].group != group);
        let (mut leave, mut stopped): (Vec<SessionId>, Vec<SessionId>) =
            strangers.partition(|other| self.sessions[other].state == State::Running);
        leave.sort_by_key(|other| self.sessions[other].arrival);
        stopped.sort_by_key(|other| self.sessions[other].arrival);
        for other in leave.clone() {
            let members = self.groups.get(&self.sessions[&other].group).into_iter().flatten();
            leave.extend(members.filter(|member| self.sessions[member].state == State::Running));
        }
        leave.sort_by_key(|other| self.sessions[other].arrival);
        leave.dedup();
        for other in &leave {
            self.suspend(now, *other);
            self.sessions.get_mut(other).expect("it is there").note_suspension(newcomer);
            decisions.push(Decision::Suspend(*other));
        }
        for other in leave.iter().chain(&stopped) {
            let session = self.sessions.get_mut(other).expect("it is there");
            // Whom its user has stopped, nobody keeps from running.
            if session.stopped {
                continue;
            }
            session.surpassed += 1;
            if self.rules.policy == Policy::Surpass && session.surpassed == self.rules.surpassed_max {
                let home = session.home.as_ref().expect("it has slots");
                self.holders.as_mut().expect("it suspends").leave_alone(home, true);
            }
        }
    }

    pub(super) fn suspend(&mut self, now: u64, id: SessionId) {
        let session = self.sessions.get_mut(&id).expect("it runs");
        if let Some(end) = session.expected_end() {
            self.ends.remove(&(end, id));
        }
        session.ran += now.saturating_sub(session.since);
        session.since = now;
        session.state = State::Suspended;
        self.running.remove(&session.arrival);
        self.suspended.insert(session.arrival, id);
        let home = session.home.as_ref().expect("it ran there");
        self.occupancy.stop(home);
        self.occupancy.hold(home, true);
        self.company.left(id, home, &self.occupancy.cluster);
        let holders = self.holders.as_mut().expect("it suspends");
        holders.suspended(session.claim(id), home);
    }

    /// Lets suspended sessions go on whose slots are free again, those that came last first; who talk to each other, together.
    pub(super) fn go_on(&mut self, now: u64, decisions: &mut Vec<Decision>) {
        let mut arrival = u64::MAX;
        loop {
            // Slots that are offline are not counted, but whose they are, goes on there.
            if self.occupancy.free_total() == 0 && self.offline.is_empty() {
                return;
            }
            let holders = self.holders.as_ref().expect("it suspends");
            let Some((last, id)) = holders.ready_before(arrival) else { return };
            arrival = last;
            if self.sessions[&id].stopped {
                continue;
            }
            let members = self.groups.get(&self.sessions[&id].group);
            let suspended = |member: &SessionId| {
                let member = &self.sessions[member];
                member.state == State::Suspended && !member.stopped
            };
            let together: Vec<SessionId> = match members {
                Some(members) => members.iter().copied().filter(suspended).collect(),
                None => vec![id],
            };
            if together.iter().all(|member| holders.is_ready(*member)) {
                for member in together {
                    self.carry_on(now, member);
                    decisions.push(Decision::Continue(member));
                }
            }
        }
    }

    pub(super) fn carry_on(&mut self, now: u64, id: SessionId) {
        self.reservation = None;
        let session = self.sessions.get_mut(&id).expect("it is suspended");
        session.state = State::Running;
        session.since = now;
        if let Some(end) = session.expected_end() {
            self.ends.insert((end, id));
        }
        self.suspended.remove(&session.arrival);
        self.running.insert(session.arrival, id);
        let home = session.home.as_ref().expect("it ran there");
        self.occupancy.hold(home, false);
        self.occupancy.run(home);
        self.company.came(id, home, &self.occupancy.cluster);
        self.holders.as_mut().expect("it suspends").went_on(session.claim(id), home);
    }
}
