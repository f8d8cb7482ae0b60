//! Who may stand beside whom: nobody starts where somebody would be slowed down by more than a session allows that is concerned.
//!
//! A session's limit is kept where one starts: its own slowdown beside all of a node's others (factors are multiplied) stays below it, and so
//! does what each pair of it and another one would do to each other. Nothing is known of most pairs, and such pairs keep nobody waiting. Nor is
//! anybody kept from starting beside the sessions that it talks to, or once one of these was started: they wait for each other. What runs goes on
//! running, and so does what goes on after a suspension, whatever is foreseen later.

use super::foreseen::{Foreseen, Slowdown};
use super::record::{Session, State};
use super::request::{Decision, Refused, SessionId};
use super::resources::{Cluster, NodeId, Placement};
use super::scheduler::Scheduler;
use std::collections::BTreeSet;

/// What is foreseen, and who runs on each node; nothing is noted where nothing is foreseen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Company {
    foreseen: Foreseen,
    residents: Vec<Vec<SessionId>>,
}

/// Why a session does not start beside another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hindrance {
    /// Who runs already.
    pub beside: SessionId,
    /// Which of the two would be slowed down too much.
    pub slowed: SessionId,
    /// How much, beside all of the node's others.
    pub slowdown: Slowdown,
    /// How much is allowed.
    pub most: Slowdown,
}

impl Company {
    pub(crate) fn came(&mut self, id: SessionId, home: &Placement, cluster: &Cluster) {
        if !self.foreseen.is_empty() {
            home.nodes(cluster).iter().for_each(|node| self.residents[node.0 as usize].push(id));
        }
    }

    pub(crate) fn left(&mut self, id: SessionId, home: &Placement, cluster: &Cluster) {
        if !self.foreseen.is_empty() {
            home.nodes(cluster)
                .iter()
                .for_each(|node| self.residents[node.0 as usize].retain(|other| *other != id));
        }
    }

    pub(crate) fn into_foreseen(self) -> Foreseen {
        self.foreseen
    }

    fn on(&self, node: NodeId) -> &[SessionId] {
        self.residents.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }

    fn of(&self, one: &Session, beside: &Session) -> Slowdown {
        let pair = one.request.program.as_ref().zip(beside.request.program.as_ref());
        pair.and_then(|(program, neighbour)| self.foreseen.of(program, neighbour)).unwrap_or(Slowdown::NONE)
    }
}

impl Scheduler {
    /// Something else is foreseen from now on, and who waited because of what was may start.
    pub(super) fn foresee(&mut self, now: u64, foreseen: Foreseen, decisions: &mut Vec<Decision>) {
        if self.company.foreseen == foreseen {
            return;
        }
        self.know(foreseen);
        self.reservation = None;
        self.give_turns(now, decisions);
    }

    /// Takes note of what is foreseen.
    pub(super) fn know(&mut self, foreseen: Foreseen) {
        let nodes = self.cluster().num_nodes();
        self.company = Company { foreseen, residents: vec![Vec::new(); nodes] };
        for id in self.running.values() {
            let home = self.sessions[id].home.as_ref().expect("it runs");
            self.company.came(*id, home, &self.occupancy.cluster);
        }
    }

    /// What is foreseen.
    pub fn foreseen(&self) -> &Foreseen {
        &self.company.foreseen
    }

    /// A session, or each that says nothing of its own, allows so much.
    pub(super) fn limit(
        &mut self,
        now: u64,
        whose: Option<SessionId>,
        slowdown_max: Option<Slowdown>,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        match whose {
            None => self.rules.slowdown_max = slowdown_max,
            Some(id) => {
                let session = self.sessions.get_mut(&id).ok_or(Refused::Unknown { session: id })?;
                session.request.slowdown_max = slowdown_max;
            }
        }
        self.reservation = None;
        self.give_turns(now, decisions);
        Ok(())
    }

    /// A session turns out to run another program than was said.
    pub(super) fn name(
        &mut self,
        now: u64,
        id: SessionId,
        program: Option<String>,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        let session = self.sessions.get_mut(&id).ok_or(Refused::Unknown { session: id })?;
        if session.request.program != program {
            session.request.program = program;
            self.reservation = None;
            self.give_turns(now, decisions);
        }
        Ok(())
    }

    /// By how much a session may be slowed down, and slow down others.
    pub fn slowdown_max(&self, id: SessionId) -> Option<Slowdown> {
        self.limit_of(self.sessions.get(&id)?)
    }

    fn limit_of(&self, session: &Session) -> Option<Slowdown> {
        session.request.slowdown_max.or(self.rules.slowdown_max)
    }

    /// Who runs on a node of a session, whether or not they have processors in common. By number.
    pub fn beside(&self, id: SessionId) -> Vec<SessionId> {
        let nodes = |id: &SessionId| {
            let home = self.sessions.get(id).and_then(|session| session.home.as_ref());
            home.map_or_else(Vec::new, |home| home.nodes(&self.occupancy.cluster))
        };
        let own: BTreeSet<NodeId> = nodes(&id).into_iter().collect();
        let running = self.running.values().filter(|other| **other != id);
        let mut beside: Vec<SessionId> =
            running.filter(|other| nodes(other).iter().any(|node| own.contains(node))).copied().collect();
        beside.sort_unstable();
        beside
    }

    /// Where a session would go, with respect to who is beside it there.
    pub(super) fn find(&mut self, now: u64, id: SessionId) -> Option<Placement> {
        if !self.may_be_hindered(id) {
            return self.find_anywhere(now, id);
        }
        let suspends = self.rules.policy.suspends();
        let mut shut: BTreeSet<NodeId> = BTreeSet::new();
        if !suspends {
            let hinders = |node: &NodeId| self.hindrance(id, *node, &BTreeSet::new()).is_some();
            shut = self.cluster().nodes().filter(hinders).collect();
        }
        // Each round shuts a node.
        loop {
            self.occupancy.shut(&shut, true);
            let found = self.find_anywhere(now, id);
            self.occupancy.shut(&shut, false);
            let placement = found?;
            let leaving = if suspends { self.leaving(id, &placement) } else { return Some(placement) };
            let nodes = placement.nodes(self.cluster());
            let hinders = |node: &NodeId| self.hindrance(id, *node, &leaving).is_some();
            let more: Vec<NodeId> = nodes.into_iter().filter(hinders).collect();
            if more.is_empty() {
                return Some(placement);
            }
            shut.extend(more);
        }
    }

    /// Whether a session could have to wait because of anybody who runs now.
    pub(super) fn is_hindered(&self, id: SessionId) -> bool {
        self.may_be_hindered(id)
            && self.cluster().nodes().any(|node| self.hindrance(id, node, &BTreeSet::new()).is_some())
    }

    /// Why a session that waits would not start on some node; each reason once.
    pub(super) fn hindrances(&self, id: SessionId) -> Vec<Hindrance> {
        if !self.may_be_hindered(id) {
            return Vec::new();
        }
        let on = |node| self.hindrance(id, node, &BTreeSet::new());
        self.cluster().nodes().filter_map(on).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Not where nothing is foreseen, nor once somebody was started whom it talks to.
    fn may_be_hindered(&self, id: SessionId) -> bool {
        let started = |mate: &SessionId| self.sessions[mate].home.is_some();
        let mates = self.groups.get(&self.sessions[&id].group);
        !self.company.foreseen.is_empty() && !mates.is_some_and(|mates| mates.iter().any(started))
    }

    /// Why a session may not start on a node, once these have left it.
    fn hindrance(&self, id: SessionId, node: NodeId, leaving: &BTreeSet<SessionId>) -> Option<Hindrance> {
        let session = &self.sessions[&id];
        let is_stranger =
            |other: &&SessionId| !leaving.contains(other) && self.sessions[other].group != session.group;
        let others: Vec<SessionId> = self.company.on(node).iter().filter(is_stranger).copied().collect();
        let own_limit = self.limit_of(session);
        let exceeds = |slowdown: Slowdown, most: Option<Slowdown>| most.filter(|most| slowdown > *most);
        let factors = others.iter().map(|other| self.company.of(session, &self.sessions[other]));
        let all = factors.fold(Slowdown::NONE, Slowdown::times);
        for beside in others.iter().copied() {
            let other = &self.sessions[&beside];
            let (suffers, does) = (self.company.of(session, other), self.company.of(other, session));
            let limit = self.limit_of(other);
            let hindrance = |slowed, slowdown, most| Some(Hindrance { beside, slowed, slowdown, most });
            if let Some(most) = exceeds(suffers, limit) {
                return hindrance(id, suffers, most);
            }
            if let Some(most) = exceeds(all, own_limit).filter(|_| suffers > Slowdown::NONE) {
                return hindrance(id, all, most);
            }
            if let Some(most) = exceeds(does, own_limit) {
                return hindrance(beside, does, most);
            }
            if does > Slowdown::NONE && limit.is_some() {
                let rest = others.iter().filter(|rest| **rest != beside).map(|rest| &self.sessions[rest]);
                let slowdown = rest.map(|rest| self.company.of(other, rest)).fold(does, Slowdown::times);
                if let Some(most) = exceeds(slowdown, limit) {
                    return hindrance(beside, slowdown, most);
                }
            }
        }
        None
    }

    /// Who would be suspended if a session started there.
    fn leaving(&self, id: SessionId, placement: &Placement) -> BTreeSet<SessionId> {
        let Some(holders) = &self.holders else { return BTreeSet::new() };
        let group = self.sessions[&id].group;
        let runs = |other: &SessionId| self.sessions[other].state == State::Running;
        let strangers = holders.of(placement).into_iter();
        let strangers = strangers.filter(|other| self.sessions[other].group != group && runs(other));
        let with_mates = |other: SessionId| {
            let mates = self.groups.get(&self.sessions[&other].group).into_iter().flatten().copied();
            std::iter::once(other).chain(mates)
        };
        strangers.flat_map(with_mates).collect()
    }
}
