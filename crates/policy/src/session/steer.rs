//! What people do to their sessions: stop and resume them, and change what was said about them.
//!
//! A session that its user has stopped is no newcomer's burden: where the policy suspends, its slots can be had as those of one that is
//! suspended, by whoever goes first; elsewhere it keeps them, as it does when its runner is stopped. It goes on where its user says so and
//! the policy lets it.

use super::record::State;
use super::request::{Decision, Refused, SessionId};
use super::rules::Policy;
use super::scheduler::Scheduler;

impl Scheduler {
    /// Whether a session's user has stopped it.
    pub fn is_stopped(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.stopped)
    }

    /// Its user stops a session: it does not run until its user resumes it.
    pub(super) fn stop(
        &mut self,
        now: u64,
        id: SessionId,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        let session = self.sessions.get(&id).ok_or(Refused::Unknown { session: id })?;
        if session.stopped {
            return Ok(());
        }
        self.reservation = None;
        match session.state {
            State::Waiting => drop(self.waiting.remove(&session.turn(id))),
            State::Running => {
                decisions.push(Decision::Suspend(id));
                match self.rules.policy.suspends() {
                    true => self.suspend(now, id),
                    false => self.stand_still(now, id),
                }
            }
            State::Suspended => {}
        }
        let session = self.sessions.get_mut(&id).expect("it is there");
        session.stopped = true;
        session.stops += 1;
        session.promise = None;
        if session.home.is_some() {
            self.protect(id, false);
        }
        self.claim_anew(id);
        self.give_turns(now, decisions);
        Ok(())
    }

    /// Its user lets it go on, which it does as soon as the policy lets it.
    pub(super) fn resume(
        &mut self,
        now: u64,
        id: SessionId,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        let session = self.sessions.get_mut(&id).ok_or(Refused::Unknown { session: id })?;
        if !session.stopped {
            return Err(Refused::NotStopped { session: id });
        }
        session.stopped = false;
        self.reservation = None;
        match session.state {
            State::Waiting => {
                let turn = session.turn(id);
                self.await_turn(id);
                if self.waiting.contains(&turn) {
                    self.arrived(now, turn, decisions);
                }
            }
            State::Running => {
                session.since = now;
                self.ends.extend(session.expected_end().map(|end| (end, id)));
                decisions.push(Decision::Continue(id));
            }
            State::Suspended => {
                self.protect(id, true);
                self.claim_anew(id);
                self.come_back(now, id, decisions);
            }
        }
        Ok(())
    }

    /// Its priority is another one from now on.
    pub(super) fn prioritise(
        &mut self,
        now: u64,
        id: SessionId,
        priority: i32,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        self.change(now, id, decisions, |scheduler| {
            let session = scheduler.sessions.get_mut(&id).expect("it is there");
            session.request.priority = priority;
            scheduler.note_priority(priority);
        })
    }

    /// It takes so long at most, counted from its start, or nobody knows how long.
    pub(super) fn estimate(
        &mut self,
        now: u64,
        id: SessionId,
        estimate: Option<u64>,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        self.change(now, id, decisions, |scheduler| {
            let rules = scheduler.rules;
            let session = scheduler.sessions.get_mut(&id).expect("it is there");
            session.request.estimate = estimate;
            session.due = session.due_under(&rules);
            session.promise = None;
        })
    }

    /// Changes what was said about a session, wherever it is noted.
    fn change(
        &mut self,
        now: u64,
        id: SessionId,
        decisions: &mut Vec<Decision>,
        what: impl FnOnce(&mut Scheduler),
    ) -> Result<(), Refused> {
        let session = self.sessions.get(&id).ok_or(Refused::Unknown { session: id })?;
        let waits = self.waiting.remove(&session.turn(id));
        self.ends.retain(|(_, other)| *other != id);
        what(self);
        self.reservation = None;
        let session = &self.sessions[&id];
        if waits {
            let wish = self.wish(session);
            self.waiting.insert(session.turn(id), wish);
        }
        if session.state == State::Running {
            self.ends.extend(session.expected_end().map(|end| (end, id)));
        }
        self.claim_anew(id);
        self.give_turns(now, decisions);
        Ok(())
    }

    /// Where stopped ones keep their slots: it stays where it is, and does not get on.
    fn stand_still(&mut self, now: u64, id: SessionId) {
        let session = self.sessions.get_mut(&id).expect("it runs");
        if let Some(end) = session.expected_end() {
            self.ends.remove(&(end, id));
        }
        session.ran += now.saturating_sub(session.since);
        session.since = now;
    }

    /// Goes on with its user's leave: in the place of those whom it may suspend, or else when its slots are free.
    fn come_back(&mut self, now: u64, id: SessionId, decisions: &mut Vec<Decision>) {
        self.go_on(now, decisions);
        if self.sessions[&id].state == State::Suspended && self.may_return(now, id) {
            let home = self.sessions[&id].home.clone().expect("it was started");
            self.make_room(now, id, &home, decisions);
            self.carry_on(now, id);
            decisions.push(Decision::Continue(id));
        }
        self.give_turns(now, decisions);
    }

    /// Whether it may suspend all who are in its way. Who is to go on together with others does not.
    fn may_return(&self, now: u64, id: SessionId) -> bool {
        let session = &self.sessions[&id];
        let mates = |group: SessionId| self.groups.get(&group).into_iter().flatten().copied();
        let is_alone = mates(session.group).filter(|mate| *mate != id).all(|mate| {
            let mate = &self.sessions[&mate];
            mate.state != State::Suspended || mate.stopped
        });
        let may = |other: SessionId| session.may_surpass(&self.sessions[&other], now, &self.rules);
        let runs = |other: &SessionId| self.sessions[other].state == State::Running;
        let home = session.home.as_ref().expect("it was started");
        let holders = self.holders.as_ref().expect("it suspends").of(home);
        let strangers = holders.into_iter().filter(|other| self.sessions[other].group != session.group);
        is_alone
            && strangers
                .into_iter()
                .all(|other| may(other) && mates(self.sessions[&other].group).filter(runs).all(may))
    }

    /// Under surpass, a session that was surpassed too often is left alone, unless its user has stopped it.
    pub(super) fn protect(&mut self, id: SessionId, begins: bool) {
        let session = &self.sessions[&id];
        if self.rules.policy == Policy::Surpass
            && session.surpassed >= self.rules.surpassed_max
            && let (Some(holders), Some(home)) = (&mut self.holders, &session.home)
        {
            holders.leave_alone(home, begins);
        }
    }

    /// Writes down anew what a session has to say about its slots.
    fn claim_anew(&mut self, id: SessionId) {
        let session = &self.sessions[&id];
        if let (Some(holders), Some(home)) = (&mut self.holders, &session.home) {
            holders.changed(session.claim(id), home);
        }
    }
}
