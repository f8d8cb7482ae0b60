//! Another policy takes over: all sessions stay as they are, as far as it allows that.

use super::record::{Session, State};
use super::request::{Decision, Refused, SessionId};
use super::resources::Slot;
use super::rules::{Policy, Rules};
use super::scheduler::Scheduler;
use std::collections::BTreeSet;

impl Scheduler {
    /// Decides by other rules from now on. Where nobody is suspended under them, those that were go on; how often those that wait were
    /// overtaken is counted anew.
    pub(super) fn take_over(
        &mut self,
        now: u64,
        rules: Rules,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        if rules == self.rules {
            return Ok(());
        }
        self.check_successor(&rules)?;
        self.begin_anew(now, rules, self.offline.clone(), decisions);
        Ok(())
    }

    /// These slots are offline from now on, and no others.
    pub(super) fn withdraw(
        &mut self,
        now: u64,
        offline: BTreeSet<Slot>,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        if let Some(slot) = offline.last().filter(|slot| slot.0 as usize >= self.cluster().num_slots()) {
            return Err(Refused::NoSlot { slot: slot.0, there: self.cluster().num_slots() as u64 });
        }
        if offline != self.offline {
            self.begin_anew(now, self.rules, offline, decisions);
        }
        Ok(())
    }

    /// All sessions under another scheduler, as they are.
    fn begin_anew(&mut self, now: u64, rules: Rules, offline: BTreeSet<Slot>, decisions: &mut Vec<Decision>) {
        let mut next = Scheduler::without(self.cluster().clone(), rules, offline);
        (next.arrivals, next.starts) = (self.arrivals, self.starts);
        (next.priorities, next.users) = (self.priorities, self.users);
        next.groups = std::mem::take(&mut self.groups);
        next.sessions = std::mem::take(&mut self.sessions);
        next.sessions.values_mut().for_each(|session| session.due = session.due_under(&rules));
        for id in self.aside.pinned() {
            let home = next.sessions[&id].home.clone().expect("it was started");
            decisions.push(Decision::Repin(id, home));
        }
        next.settle_all(now, decisions);
        let company = std::mem::take(&mut self.company);
        *self = next;
        self.know(company.into_foreseen());
        self.give_turns(now, decisions);
    }

    /// Notes all sessions, as they are, wherever else sessions are noted.
    pub(super) fn settle_all(&mut self, now: u64, decisions: &mut Vec<Decision>) {
        let mut all: Vec<SessionId> = self.sessions.keys().copied().collect();
        // Who has stepped aside for whom depends on who was started first.
        all.sort_unstable_by_key(|id| (self.sessions[id].started, *id));
        for id in all {
            match self.sessions[&id].state {
                State::Waiting => self.wait_again(id),
                State::Running | State::Suspended => self.settle(now, id, decisions),
            }
        }
    }

    /// Whether the sessions could be as they are under these rules.
    pub(super) fn check_successor(&self, rules: &Rules) -> Result<(), Refused> {
        let policy = rules.policy;
        let stays = |session: &Session| match session.state {
            State::Waiting => false,
            // Whoever is suspended goes on where nobody is.
            State::Suspended => !policy.suspends(),
            State::Running => !(policy.suspends() && session.stopped),
        };
        let mut crowds: Vec<Vec<SessionId>> = vec![Vec::new(); self.cluster().num_slots()];
        let mut all: Vec<SessionId> = self.sessions.keys().copied().collect();
        all.sort_unstable();
        for id in all {
            let session = &self.sessions[&id];
            let home = session.home.iter().filter(|_| stays(session));
            home.flat_map(|home| home.runs().flatten()).for_each(|slot| crowds[slot].push(id));
        }
        for crowd in crowds {
            let Some(one) = crowd.first().copied() else { continue };
            let stranger = crowd.iter().find(|other| self.sessions[other].group != self.sessions[&one].group);
            match stranger {
                Some(other) if !policy.shares() => {
                    return Err(Refused::Shared { one, other: *other, policy });
                }
                _ if policy.shares() && crowd.len() > usize::from(rules.sharing_max) => {
                    let (crowd, most) = (crowd.len(), rules.sharing_max);
                    return Err(Refused::Crowded { session: one, crowd, most, policy });
                }
                _ => {}
            }
            self.check_users(rules, &crowd)?;
        }
        self.groups.values().try_for_each(|mates| self.check_users(rules, mates))
    }

    fn wait_again(&mut self, id: SessionId) {
        let session = self.sessions.get_mut(&id).expect("it is there");
        session.promise = None;
        if !session.stopped {
            self.await_turn(id);
        }
    }

    /// Notes a session that has slots, which were another scheduler's.
    pub(super) fn settle(&mut self, now: u64, id: SessionId, decisions: &mut Vec<Decision>) {
        let suspends = self.rules.policy.suspends();
        let session = self.sessions.get_mut(&id).expect("it is there");
        let home = session.home.clone().expect("it was started");
        let (before, stopped) = (session.state, session.stopped);
        if before == State::Suspended && !suspends {
            session.state = State::Running;
            session.since = now;
            if !stopped {
                decisions.push(Decision::Continue(id));
            }
        }
        // First as if it ran.
        let stands = suspends && (before == State::Suspended || stopped);
        if stands {
            session.state = State::Running;
        }
        let (arrival, memory_bytes) = (session.arrival, session.request.memory_bytes);
        let claim = session.claim(id);
        let end = session.expected_end().filter(|_| !stands);
        self.running.insert(arrival, id);
        self.ends.extend(end.map(|end| (end, id)));
        self.occupancy.run(&home);
        self.occupancy.remember(&home, memory_bytes, true);
        if let Some(holders) = &mut self.holders {
            holders.came(claim, &home);
        }
        if self.rules.policy == Policy::Sidestep {
            self.aside.came(id, &home, &self.occupancy.cluster);
        }
        if stands {
            self.stand_by(id);
        }
        if !stopped {
            self.protect(id, true);
        }
    }

    /// It is suspended already.
    fn stand_by(&mut self, id: SessionId) {
        let session = self.sessions.get_mut(&id).expect("it is there");
        session.state = State::Suspended;
        let (arrival, claim) = (session.arrival, session.claim(id));
        let home = session.home.as_ref().expect("it was started");
        self.running.remove(&arrival);
        self.suspended.insert(arrival, id);
        self.occupancy.stop(home);
        self.occupancy.hold(home, true);
        self.holders.as_mut().expect("it suspends").suspended(claim, home);
    }
}
