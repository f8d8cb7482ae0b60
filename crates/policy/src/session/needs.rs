//! A session needs something else than it has said: more or fewer slots, others, or another amount of memory.
//!
//! One that waits, waits for that from now on, in its turn. One that runs keeps its nodes: it gives slots up from the end, is given free
//! ones of its nodes, or is moved to those that it names, if they are free or its own. Nobody is suspended for it, and nobody shares with it who did
//! not before.

use super::record::State;
use super::request::{Decision, Needs, Refused, Request, SessionId};
use super::resources::{NodeId, Placement, Slot};
use super::rules::Policy;
use super::scheduler::Scheduler;
use std::collections::BTreeSet;

impl Scheduler {
    /// A session needs this from now on.
    pub(super) fn need(
        &mut self,
        now: u64,
        id: SessionId,
        needs: Needs,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        let session = self.sessions.get(&id).ok_or(Refused::Unknown { session: id })?;
        let Needs { processes, slots, memory_bytes } = needs;
        let request = Request { processes, slots, memory_bytes, ..session.request.clone() };
        if request == session.request {
            return Ok(());
        }
        self.check(&request)?;
        match session.state {
            State::Waiting => self.wait_for(id, request),
            State::Running if !session.stopped => self.have(id, request, decisions)?,
            State::Running | State::Suspended => return Err(Refused::StandsStill { session: id }),
        }
        self.reservation = None;
        self.give_turns(now, decisions);
        Ok(())
    }

    fn wait_for(&mut self, id: SessionId, request: Request) {
        let session = self.sessions.get_mut(&id).expect("it waits");
        self.waiting.remove(&session.turn(id));
        session.request = request;
        session.promise = None;
        if !session.stopped {
            self.await_turn(id);
        }
    }

    fn have(
        &mut self,
        id: SessionId,
        request: Request,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Refused> {
        let session = &self.sessions[&id];
        let before = session.home.clone().expect("it runs");
        let moves =
            (request.processes, &request.slots) != (session.request.processes, &session.request.slots);
        let home = if moves { self.other_home(id, &before, &request)? } else { before.clone() };
        let had = session.request.memory_bytes;
        self.occupancy.remember(&before, had, false);
        if !self.occupancy.remembers(&home, request.memory_bytes, 0) {
            self.occupancy.remember(&before, had, true);
            return Err(Refused::NoMemory { session: id });
        }
        self.occupancy.remember(&home, request.memory_bytes, true);
        self.sessions.get_mut(&id).expect("it runs").request = request;
        if home != before {
            self.move_to(id, &before, &home);
            decisions.push(Decision::Repin(id, home));
        }
        Ok(())
    }

    /// Where a session that runs would be then.
    fn other_home(&self, id: SessionId, before: &Placement, request: &Request) -> Result<Placement, Refused> {
        let is_plain = |request: &Request| {
            let bare = Request { memory_bytes: 0, slots: Vec::new(), ..request.clone() };
            bare.is_plain()
        };
        if !is_plain(request) {
            return Err(Refused::NotPlain { session: id });
        }
        let own: BTreeSet<u32> = before.slots().map(|slot| slot.0).collect();
        let nodes: BTreeSet<NodeId> = before.nodes(self.cluster()).into_iter().collect();
        let is_free = |slot: u32| {
            nodes.contains(&self.cluster().node_of(Slot(slot))) && self.occupancy.holders(slot as usize) == 0
        };
        let wanted = request.processes as usize;
        let slots: Vec<u32> = match &request.slots[..] {
            [] => {
                let all = nodes.iter().flat_map(|node| self.cluster().slots(*node));
                let free = all.map(|slot| slot as u32).filter(|slot| is_free(*slot));
                before.slots().map(|slot| slot.0).chain(free).take(wanted).collect()
            }
            named => named.iter().copied().filter(|slot| own.contains(slot) || is_free(*slot)).collect(),
        };
        if slots.len() < wanted {
            let where_ = if request.slots.is_empty() { "on its nodes" } else { "among those that are named" };
            return Err(Refused::NotFree { session: id, wanted: wanted as u64, where_ });
        }
        let mut home = Placement::new(1);
        slots.into_iter().for_each(|slot| home.push(Slot(slot)));
        Ok(home)
    }

    /// Has a session that runs on other slots from now on.
    fn move_to(&mut self, id: SessionId, before: &Placement, home: &Placement) {
        self.protect(id, false);
        let session = &self.sessions[&id];
        let (claim, group) = (session.claim(id), session.group);
        self.occupancy.stop(before);
        self.occupancy.run(home);
        if let Some(holders) = &mut self.holders {
            holders.left(id, group, before);
            holders.came(claim, home);
        }
        self.company.left(id, before, &self.occupancy.cluster);
        self.company.came(id, home, &self.occupancy.cluster);
        if self.rules.policy == Policy::Sidestep {
            self.aside.left(id, &before.nodes(&self.occupancy.cluster));
            self.aside.came(id, home, &self.occupancy.cluster);
        }
        self.sessions.get_mut(&id).expect("it runs").home = Some(home.clone());
        self.protect(id, true);
    }
}
