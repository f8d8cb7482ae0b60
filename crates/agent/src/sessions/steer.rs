//! What people ask about sessions and do to them. Whoever gives an order hears when it is carried out.

use super::foresee::held_back;
use super::{Live, Sessions};
use crate::guard::groups_in;
use castell_host::control_group::CpuSet;
use castell_host::descriptor::Peer;
use castell_host::users::name_of;
use castell_policy::session::protocol::{
    Explained, FromAgent, Holder, Memory, Named, Order, PinnedBy, Shown, StoppedBy,
};
use castell_policy::session::{
    Decision, Event, Explanation, Holding, Needs, Refused, Request, Rules, SessionId, Slowdown, State,
};
use std::collections::BTreeSet;

/// An answer that has to wait.
pub(super) struct Promised {
    client: u64,
    until: Until,
}

/// For what.
enum Until {
    /// All that was decided is carried out; then a session is shown, or the policy is told.
    CarriedOut(Option<SessionId>),
    /// The session has ended.
    Ended(SessionId),
}

impl Sessions {
    /// Does to a session what somebody wants.
    pub(crate) fn order(&mut self, client: u64, session: u64, order: Order) {
        let id = SessionId(session);
        let peer = self.clients.get_mut(client).expect("it asked").peer;
        let outcome = match order {
            _ if self.has_promise(client) => Err("one order at a time".into()),
            _ if self.live.get(&id).is_some_and(|live| !live.is_of(peer)) => {
                Err(format!("session {session} is another user's"))
            }
            Order::Stop {} => self.steer(id, Event::Stop(id)),
            Order::Resume {} => self.resume(id),
            Order::End {} => self.end(id),
            Order::Priority { priority } => self.steer(id, Event::Priority(id, priority)),
            Order::Estimate { estimate_ms } => self.steer(id, Event::Estimate(id, estimate_ms)),
            Order::Needs { slots, cpus, memory_bytes } => self.need(id, slots, cpus, memory_bytes),
            Order::SlowdownMax { slowdown_max } => self.steer(id, Event::SlowdownMax(Some(id), slowdown_max)),
        };
        self.promise(client, outcome);
    }

    /// Has as many workers of a session's programs run as it has processors, of those that nobody has taken away by hand.
    pub(crate) fn count(&mut self, client: u64, mark: &str) {
        let peer = self.clients.get_mut(client).expect("it asked").peer;
        let of_it = |(_, live): &(&SessionId, &Live)| live.wanted.mark == mark && live.is_of(peer);
        let outcome = match self.live.iter().find(of_it).map(|(id, _)| *id) {
            _ if self.has_promise(client) => Err("one order at a time".into()),
            None => Err("there is no session of this mark".into()),
            Some(id) => match self.scheduler.pinned(id).cloned() {
                None => Err(format!("session {} has no processors as yet", id.0)),
                Some(there) => {
                    self.orders.add(vec![Decision::Repin(id, there)]);
                    Ok(Until::CarriedOut(Some(id)))
                }
            },
        };
        self.promise(client, outcome);
    }

    /// Another policy takes over.
    pub(crate) fn govern(&mut self, client: u64, policy: &str) {
        let outcome = match policy.parse::<Rules>() {
            _ if self.has_promise(client) => Err("one order at a time".into()),
            Err(error) => Err(error.to_string()),
            Ok(rules) => match self.scheduler.handle(self.now(), Event::Rules(self.as_here(rules))) {
                Err(refused) => Err(refused.to_string()),
                Ok(decisions) => {
                    self.orders.add(decisions);
                    Ok(Until::CarriedOut(None))
                }
            },
        };
        self.promise(client, outcome);
    }

    /// All sessions that say nothing of their own are allowed so much from now on.
    pub(crate) fn limit(&mut self, client: u64, slowdown_max: Option<Slowdown>) {
        let outcome = match self.has_promise(client) {
            true => Err("one order at a time".into()),
            false => match self.scheduler.handle(self.now(), Event::SlowdownMax(None, slowdown_max)) {
                Err(refused) => Err(refused.to_string()),
                Ok(decisions) => {
                    self.orders.add(decisions);
                    Ok(Until::CarriedOut(None))
                }
            },
        };
        self.promise(client, outcome);
    }

    fn steer(&mut self, id: SessionId, event: Event) -> Result<Until, String> {
        self.there(id)?;
        let handled = self.scheduler.handle(self.now(), event.clone());
        self.orders.add(handled.map_err(|refused| refused.to_string())?);
        let wanted = &mut self.live.get_mut(&id).expect("it is there").wanted;
        match event {
            Event::Priority(_, priority) => wanted.priority = priority,
            Event::Estimate(_, estimate_ms) => wanted.estimate_ms = estimate_ms,
            Event::SlowdownMax(_, slowdown_max) => wanted.slowdown_max = slowdown_max,
            _ => {}
        }
        Ok(Until::CarriedOut(Some(id)))
    }

    /// It needs other processors, or more or less memory, than it has said.
    fn need(
        &mut self,
        id: SessionId,
        slots: Option<u32>,
        cpus: Option<Named>,
        memory_bytes: Option<u64>,
    ) -> Result<Until, String> {
        let live = self.there(id)?;
        let (mut wanted, user) = (live.wanted.clone(), live.user);
        if wanted.spawned_by.is_some() {
            return Err(format!("session {} was spawned by a program, which has said what it needs", id.0));
        }
        match (slots, cpus) {
            (Some(_), Some(_)) => return Err("so many processors, or exactly these: not both".into()),
            (Some(slots), None) => (wanted.slots, wanted.cpus) = (slots, None),
            (None, Some(named)) => (wanted.slots, wanted.cpus) = (named.cpus.len() as u32, Some(named)),
            (None, None) => {}
        }
        wanted.memory_bytes = memory_bytes.unwrap_or(wanted.memory_bytes);
        let Request { processes, slots, memory_bytes, .. } = self.request(&wanted, user)?;
        let before = self.there(id)?.wanted.memory_bytes;
        self.limit_memory(id, wanted.memory_bytes)?;
        let until = self.steer(id, Event::Needs(id, Needs { processes, slots, memory_bytes }));
        match &until {
            Ok(_) => self.live.get_mut(&id).expect("it is there").wanted = wanted,
            // It had no more than that before.
            Err(_) => drop(self.limit_memory(id, before)),
        }
        until
    }

    /// What a session's processes may have, where there is a control group for that.
    fn limit_memory(&self, id: SessionId, bytes: u64) -> Result<(), String> {
        let live = self.there(id)?;
        let Some(memory) = groups_in(&live.wanted.mark, &live.groups()).memory else { return Ok(()) };
        let limit = Some(bytes).filter(|bytes| *bytes > 0);
        if memory.bytes_max() == limit {
            return Ok(());
        }
        memory.limit(limit).map_err(|error| {
            format!("session {} has more memory than that, or cannot be limited: {error}", id.0)
        })
    }

    fn resume(&mut self, id: SessionId) -> Result<Until, String> {
        if self.scheduler.is_stopped(id) {
            return self.steer(id, Event::Resume(id));
        }
        self.runs_freely(id)?;
        let what_else = match self.scheduler.state(id) {
            Some(State::Waiting) => "it waits for its turn",
            Some(State::Suspended) => {
                "it is suspended by the policy, and goes on when its processors are free"
            }
            _ => "it runs",
        };
        Err(format!("{}: {what_else}", Refused::NotStopped { session: id }))
    }

    fn end(&mut self, id: SessionId) -> Result<Until, String> {
        self.runs_freely(id)?;
        let live = self.there(id)?;
        match live.wanted.spawned_by {
            Some(_) => self.leave(id, true),
            None => match live.client {
                Some(client) => self.clients.tell(client, &FromAgent::End {}),
                None => {
                    return Err(format!(
                        "the runner of session {session} has not come back after its agent had gone: ask again in a moment",
                        session = id.0
                    ));
                }
            },
        }
        Ok(Until::Ended(id))
    }

    fn there(&self, id: SessionId) -> Result<&Live, String> {
        let live = self.live.get(&id).filter(|live| live.leaving.is_none());
        live.ok_or_else(|| {
            format!("{}: `castell session list` shows which there are", Refused::Unknown { session: id })
        })
    }

    /// Whoever has stopped a runner has to continue it: it hears nobody.
    fn runs_freely(&self, id: SessionId) -> Result<(), String> {
        let live = self.there(id)?;
        if !live.paused {
            return Ok(());
        }
        let pid = live.wanted.pid;
        Err(format!(
            "`castell session run` of session {} was stopped, as Ctrl-Z does: continue it where it was started, or with `kill -CONT {pid}`",
            id.0
        ))
    }

    fn has_promise(&self, client: u64) -> bool {
        self.promised.iter().any(|promised| promised.client == client)
    }

    fn promise(&mut self, client: u64, outcome: Result<Until, String>) {
        match outcome {
            Ok(until) => self.promised.push(Promised { client, until }),
            Err(reason) => self.clients.refuse(client, reason),
        }
    }

    /// Answers those whose orders are carried out.
    pub(super) fn keep_promises(&mut self) {
        let idle = self.orders.is_idle();
        let promised = std::mem::take(&mut self.promised);
        let (due, later): (Vec<Promised>, _) =
            promised.into_iter().partition(|promised| match promised.until {
                Until::CarriedOut(_) => idle,
                Until::Ended(id) => !self.live.contains_key(&id),
            });
        self.promised = later;
        for Promised { client, until } in due {
            let session = match until {
                Until::CarriedOut(id) => id.and_then(|id| {
                    let peer = self.clients.get_mut(client)?.peer;
                    Some(Box::new(self.shown(id, self.live.get(&id)?, peer)))
                }),
                Until::Ended(_) => None,
            };
            let rules = self.scheduler.rules();
            let (policy, slowdown_max) = (rules.to_string(), rules.slowdown_max);
            self.clients.tell(client, &FromAgent::Ordered { policy, slowdown_max, session });
        }
    }

    /// A session in a list.
    pub(super) fn shown(&self, id: SessionId, live: &Live, peer: Peer) -> Shown {
        let (pinned_by, stopped_by) = self.ways(live);
        Shown {
            session: id.0,
            state: self.scheduler.state(id).map_or("ending", name).into(),
            stopped: self.scheduler.is_stopped(id),
            paused: live.paused,
            awaited: live.is_awaited(),
            for_ms: self.scheduler.since(id).map_or(0, |since| self.now().saturating_sub(since)),
            slots: live.wanted.slots,
            cpus: live.wanted.cpus.clone(),
            priority: live.wanted.priority,
            // One that has been given slots is told as soon as those have left who had them.
            parts: if live.parts.is_empty() { self.parts(id) } else { live.parts.clone() },
            class: if live.is_of(peer) { self.class(id) } else { None },
            slowdown: if live.is_of(peer) { self.slowed(id) } else { None },
            slowdown_max: self.scheduler.slowdown_max(id),
            pinned_by,
            stopped_by,
            memory: self.memory(live),
            pid: live.wanted.pid,
            user: name_of(live.user),
            command: live.command_for(peer),
        }
    }

    /// What becomes of the memory that a session has asked for.
    fn memory(&self, live: &Live) -> Option<Memory> {
        let bytes = Some(live.wanted.memory_bytes).filter(|bytes| *bytes > 0)?;
        let limited = live.limits_memory();
        let of_node = || "no control group limits it on the nodes of a batch job".to_owned();
        let because = match self.keepers.all().is_empty() {
            _ if limited => None,
            true => live.wanted.unlimited.clone(),
            false => Some(of_node()),
        };
        Some(Memory { bytes, limited, because })
    }

    /// What keeps a session's processes on their processors, and what stops them.
    fn ways(&self, live: &Live) -> (PinnedBy, StoppedBy) {
        let groups = groups_in(&live.wanted.mark, &live.groups());
        let has_what_it_should = |set: &CpuSet| match &live.parts[..] {
            [] => true,
            [part] => set.cpus() == part.cpus,
            _ => false,
        };
        let pinned_by = match &groups.cpuset {
            Some(set) if has_what_it_should(set) => PinnedBy::Cpuset,
            _ => PinnedBy::Affinity,
        };
        let stopped_by = match (&groups.freezer, &live.kept) {
            (Some(_), None) => StoppedBy::Freezer,
            _ => StoppedBy::Signals,
        };
        (pinned_by, stopped_by)
    }

    /// Why a session waits, or where it runs.
    ///
    /// # Errors
    /// There is no such session.
    pub(crate) fn explain(&self, session: u64, peer: Peer) -> Result<FromAgent, String> {
        let (id, now) = (SessionId(session), self.now());
        let live = self.there(id)?;
        if !live.is_of(peer) {
            return Err(format!("session {session} is another user's"));
        }
        let explanation = self.scheduler.explain(now, id).ok_or("it has just ended")?;
        let (beside, held_back) = (self.beside(id, &explanation, peer), held_back(&explanation));
        let holders = self.holders(live, &explanation, peer);
        let home = self.scheduler.home(id).map_or_else(Vec::new, |home| self.machine.all_parts(home));
        let Explanation {
            ran,
            free,
            offline,
            of_other_users,
            before,
            begins,
            suspensions,
            suspended_by,
            stops,
            ..
        } = explanation;
        let numbers = |ids: Vec<SessionId>| ids.into_iter().map(|id| id.0).collect();
        Ok(FromAgent::Explained(Box::new(Explained {
            shown: self.shown(id, live, peer),
            policy: self.scheduler.rules().to_string(),
            estimate_ms: live.wanted.estimate_ms,
            ran_ms: ran,
            free,
            offline,
            online: self.machine.online().into(),
            gone: self.machine.gone(),
            of_other_users,
            home,
            before: numbers(before),
            holders,
            beside,
            held_back,
            begins_in_ms: begins.map(|begins| begins.saturating_sub(now)),
            suspensions,
            suspended_by: numbers(suspended_by),
            stops,
        })))
    }

    /// Who has some of a session's slots; of one that has lost its processors, also who is on those that are left.
    fn holders(&self, live: &Live, explanation: &Explanation, peer: Peer) -> Vec<Holder> {
        let mut holders: Vec<Holder> =
            explanation.holders.iter().map(|holding| self.holder(holding, peer)).collect();
        if explanation.state != State::Running || self.machine.gone().is_empty() {
            return holders;
        }
        let cpus: BTreeSet<u32> = live.cpus().into_iter().collect();
        for id in &explanation.beside {
            let Some(other) = self.live.get(id).filter(|_| holders.iter().all(|it| it.session != id.0))
            else {
                continue;
            };
            let common = other.cpus().iter().filter(|cpu| cpus.contains(cpu)).count() as u64;
            if common > 0 {
                let state = self.scheduler.state(*id).unwrap_or(State::Running);
                holders.push(self.holder(&Holding { session: *id, state, slots: common, left: None }, peer));
            }
        }
        holders.sort_by_key(|holder| holder.session);
        holders
    }

    fn holder(&self, holding: &Holding, peer: Peer) -> Holder {
        let live = self.live.get(&holding.session);
        Holder {
            session: holding.session.0,
            state: name(holding.state).into(),
            slots: holding.slots,
            left_ms: holding.left,
            command: live.map_or_else(String::new, |live| live.command_for(peer)),
        }
    }
}

fn name(state: State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Running => "running",
        State::Suspended => "suspended",
    }
}
