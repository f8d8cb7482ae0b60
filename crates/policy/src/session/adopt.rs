//! Sessions that run although nobody decides about them: whoever has lost what was decided takes them over as they are.

use super::occupancy::per_process;
use super::record::{Session, State};
use super::request::{Decision, Refused, Request, SessionId};
use super::resources::{Placement, Slot};
use super::rules::Policy;
use super::saved::is_home;
use super::scheduler::Scheduler;
use super::sidestep;

/// A session as its runner has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// What it needs; whom it is with has to be there.
    pub request: Request,
    /// Where it was started, process by process.
    pub home: Vec<Slot>,
    /// It stands still: by the policy, or where that suspends nobody, by its user.
    pub stands: bool,
}

impl Scheduler {
    /// Takes a session over, as if it had been started now; [`settled`](Scheduler::settled) is called when all are.
    ///
    /// # Errors
    /// It cannot have those slots beside those that are there already; nothing has changed.
    pub fn adopt(&mut self, now: u64, id: SessionId, adopted: Adopted) -> Result<(), Refused> {
        let Adopted { request, home, stands } = adopted;
        if self.sessions.contains_key(&id) {
            return Err(Refused::Exists { session: id });
        }
        self.check(&request)?;
        let mut placement = Placement::new(per_process(&request, self.cluster()));
        home.into_iter().for_each(|slot| placement.push(slot));
        if !is_home(&placement, &request, self.cluster()) {
            return Err(Refused::NotItsSlots { session: id });
        }
        if !self.occupancy.remembers(&placement, request.memory_bytes, 0) {
            return Err(Refused::NoMemory { session: id });
        }
        self.check_mate(&request)?;
        let group = self.join(id, request.with)?;
        let (user, priority, suspends) = (request.user, request.priority, self.rules.policy.suspends());
        let mut session = Session::new(request, self.arrivals, now, group, &self.rules);
        session.home = Some(placement.clone());
        session.started = self.starts;
        session.state = if stands && suspends { State::Suspended } else { State::Running };
        session.stopped = stands && !suspends;
        session.stops = session.stopped.into();
        self.sessions.insert(id, session);
        if let Err(refused) = self.check_successor(&self.rules) {
            self.sessions.remove(&id);
            self.part(id, group);
            return Err(refused);
        }
        (self.arrivals, self.starts) = (self.arrivals + 1, self.starts + 1);
        self.note_priority(priority);
        self.note_user(user);
        self.reservation = None;
        self.settle(now, id, &mut Vec::new());
        if self.sessions[&id].state == State::Running {
            self.company.came(id, &placement, &self.occupancy.cluster);
        }
        Ok(())
    }

    /// All that there were are taken over: what has to be done now.
    pub fn settled(&mut self, now: u64) -> Vec<Decision> {
        let mut decisions = Vec::new();
        self.give_turns(now, &mut decisions);
        if self.rules.policy == Policy::Sidestep {
            sidestep::repin(self, &mut decisions);
        }
        decisions
    }
}
