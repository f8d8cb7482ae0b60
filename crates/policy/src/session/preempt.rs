//! Slots that others hold: of suspended ones, of those that can be suspended, of those that talk to the newcomer.

use super::occupancy::NOT_USABLE;
use super::record::{Session, State};
use super::request::{Decision, SessionId};
use super::resources::Placement;
use super::scheduler::Scheduler;
use std::ops::Range;

impl Scheduler {
    /// Finds slots for a session that does not fit where nobody is: first among those of suspended sessions and of its group,
    /// then among those of sessions that it may suspend, those that came last first.
    pub(super) fn find_among_holders(&mut self, now: u64, id: SessionId, wanted: u64) -> Option<Placement> {
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

    /// Whom a session may suspend: with each, all that talk to it.
    fn victims(&self, now: u64, newcomer: &Session) -> Vec<SessionId> {
        let may = |other: &SessionId| newcomer.may_surpass(&self.sessions[other], now, &self.rules);
        let group_too = |other: &SessionId| match self.groups.get(&self.sessions[other].group) {
            Some(members) => {
                members.iter().filter(|member| self.sessions[member].state == State::Running).all(may)
            }
            None => may(other),
        };
        self.running.values().rev().filter(|other| group_too(other)).copied().collect()
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
        let in_the_way = |other: &&SessionId| {
            let session = &self.sessions[other];
            session.group != group && session.home.as_ref().is_some_and(|home| overlap(home, placement))
        };
        let mut leave: Vec<SessionId> = self.running.values().filter(in_the_way).copied().collect();
        let stopped: Vec<SessionId> = self.suspended.values().filter(in_the_way).copied().collect();
        for other in leave.clone() {
            let members = self.groups.get(&self.sessions[&other].group).into_iter().flatten();
            leave.extend(members.filter(|member| self.sessions[member].state == State::Running));
        }
        leave.sort_by_key(|other| self.sessions[other].arrival);
        leave.dedup();
        for other in &leave {
            self.suspend(now, *other);
            decisions.push(Decision::Suspend(*other));
        }
        for other in leave.iter().chain(&stopped) {
            self.sessions.get_mut(other).expect("it is there").surpassed += 1;
        }
    }

    fn suspend(&mut self, now: u64, id: SessionId) {
        let session = self.sessions.get_mut(&id).expect("it runs");
        if let Some(end) = session.expected_end() {
            self.ends.remove(&(end, id));
        }
        session.ran += now.saturating_sub(session.since);
        session.state = State::Suspended;
        self.running.remove(&session.arrival);
        self.suspended.insert(session.arrival, id);
        let home = session.home.as_ref().expect("it ran there");
        self.occupancy.stop(home);
        self.occupancy.hold(home, true);
    }

    /// Lets suspended sessions go on whose slots are free again, those that came last first; who talk to each other, together.
    pub(super) fn go_on(&mut self, now: u64, decisions: &mut Vec<Decision>) {
        let suspended: Vec<SessionId> = self.suspended.values().rev().copied().collect();
        for id in suspended {
            if self.occupancy.free_total() == 0 {
                return;
            }
            let session = &self.sessions[&id];
            if session.state != State::Suspended {
                continue;
            }
            let together = match self.groups.get(&session.group) {
                Some(members) => members.clone(),
                None => vec![id],
            };
            let together: Vec<SessionId> = together
                .into_iter()
                .filter(|member| self.sessions[member].state == State::Suspended)
                .collect();
            let is_free = |member: &SessionId| {
                let home = self.sessions[member].home.as_ref().expect("it ran there");
                home.runs().flatten().all(|slot| self.occupancy.running(slot) == self.running_mates(id, slot))
            };
            if together.iter().all(is_free) {
                for member in together {
                    self.carry_on(now, member);
                    decisions.push(Decision::Continue(member));
                }
            }
        }
    }

    /// How many of a session's group run on a slot.
    fn running_mates(&self, id: SessionId, slot: usize) -> u16 {
        let Some(members) = self.groups.get(&self.sessions[&id].group) else { return 0 };
        let runs_there = |member: &&SessionId| {
            let session = &self.sessions[*member];
            let there = |home: &Placement| home.runs().any(|run| run.contains(&slot));
            session.state == State::Running && session.home.as_ref().is_some_and(there)
        };
        members.iter().filter(runs_there).count() as u16
    }

    fn carry_on(&mut self, now: u64, id: SessionId) {
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
    }
}

/// Whether two placements have a slot in common.
fn overlap(one: &Placement, other: &Placement) -> bool {
    let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
    one.runs().any(|run| other.runs().any(|there| meet(&run, &there)))
}
