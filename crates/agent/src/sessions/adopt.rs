//! Sessions of which nothing stands in the books, since these were of no use: their runners say what they know, and are believed as far as
//! what they say fits together. What people have said of a session since it was started, other than what it has, is lost.

use super::restore::{Adopting, BACK_WITHIN, Claim, Reported};
use super::{Live, Sessions};
use crate::Tree;
use castell_host::descriptor::own_user;
use castell_host::say;
use castell_policy::session::protocol::{FromAgent, Known, Named};
use castell_policy::session::{Adopted, SessionId, Slot, State};
use std::time::Instant;

impl Sessions {
    /// The books were of no use: whose runners live comes back.
    pub(crate) fn lose_books(&mut self) {
        let is_expected = |mark: &String| Tree::runner_lives(mark) == Some(true);
        let expected = Tree::marks().into_iter().filter(is_expected).collect();
        let until = Some(Instant::now() + BACK_WITHIN);
        self.adopting = Some(Adopting { until, expected, back: Vec::new() });
    }

    /// Whether runners are waited for, so that nobody else can be given anything, or told who there is.
    pub(crate) fn is_adopting(&self) -> bool {
        self.adopting_until().is_some()
    }

    /// Until when at most.
    pub(crate) fn adopting_until(&self) -> Option<Instant> {
        self.adopting.as_ref()?.until
    }

    /// A runner has come back with a session that was started. False where it is none of these.
    pub(super) fn claim(
        &mut self,
        client: u64,
        mark: &str,
        paused: bool,
        reported: &Reported,
        known: Known,
    ) -> bool {
        let Some(adopting) = self.adopting.as_mut().filter(|_| reported.started) else { return false };
        let reported = reported.clone();
        adopting.back.push(Claim { client, mark: mark.to_owned(), paused, reported, known });
        if adopting.until.is_none() {
            self.adopt();
        }
        true
    }

    /// Takes the sessions over, when all runners are back or it is time.
    pub(crate) fn adopt_if_all_are_back(&mut self) {
        let Some(Adopting { until: Some(until), expected, back }) = &self.adopting else { return };
        let is_back = |mark: &String| {
            back.iter().any(|claim| claim.mark == *mark) || Tree::runner_lives(mark) != Some(true)
        };
        if Instant::now() >= *until || expected.iter().all(is_back) {
            self.adopt();
        }
    }

    fn adopt(&mut self) {
        let Some(adopting) = &mut self.adopting else { return };
        adopting.until = None;
        let mut claims = std::mem::take(&mut adopting.back);
        // Who was started first is there first: of two that cannot be beside each other, the later one goes on by itself.
        claims.sort_by_key(|claim| (claim.known.session.unwrap_or(u64::MAX), claim.mark.clone()));
        let of_own = |claim: &Claim, sessions: &mut Sessions| {
            let peer = sessions.clients.get_mut(claim.client)?.peer;
            claim.known.wanted.policy.clone().filter(|_| peer.user == own_user())
        };
        if self.live.is_empty()
            && let Some(policy) = claims.iter().find_map(|claim| of_own(claim, self))
            && let Err(reason) = self.expect_policy(&policy)
        {
            say(&reason);
        }
        let mut taken = Vec::new();
        for claim in claims {
            let client = claim.client;
            match self.take(claim) {
                Ok(id) => taken.push(id),
                Err(reason) => self.clients.refuse(client, reason),
            }
        }
        // What has to be done follows from how the sessions are.
        self.scheduler.settled(self.now());
        if !taken.is_empty() {
            say(&format!("sessions taken over as their runners have them: {}", taken.len()));
        }
        self.reconcile(&taken);
    }

    fn take(&mut self, claim: Claim) -> Result<SessionId, String> {
        let Claim { client, mark, paused, reported, known } = claim;
        let peer = self.clients.get_mut(client).ok_or("it has gone away")?.peer;
        let Known { session, mut wanted, home } = known;
        wanted.policy = None;
        if wanted.mark != mark
            || wanted.spawned_by.is_some()
            || self.live.values().any(|live| live.wanted.mark == mark)
        {
            return Err("this is no session that its runner could have".into());
        }
        self.check_owner(peer, &mut wanted)?;
        let slots = self.machine.slots(&home).ok_or("its processors are none of this agent's")?;
        wanted.slots = slots.len() as u32;
        // It may have been given others since it has named some.
        let has = |named: &Named| self.machine.named(named).is_ok_and(|named| named == slots);
        wanted.cpus = wanted.cpus.filter(has);
        wanted.with = wanted.with.filter(|with| self.live.contains_key(&SessionId(*with)));
        let is_free = |id: &SessionId| id.0 > 0 && id.0 < u64::MAX && !self.live.contains_key(id);
        let id = session.map(SessionId).filter(is_free).unwrap_or(SessionId(self.next));
        let request = self.request(&wanted, peer.user)?;
        let home = slots.into_iter().map(Slot).collect();
        let adopted = Adopted { request, home, stands: reported.suspended };
        let taken = self.scheduler.adopt(self.now(), id, adopted);
        taken.map_err(|refused| format!("the books of the agent are lost, and {refused}"))?;
        self.next = self.next.max(id.0 + 1);
        let mut live = Live {
            client: Some(client),
            suspended: self.scheduler.state(id) == Some(State::Suspended),
            parts: reported.parts.clone(),
            reported: Some(reported),
            missing_since: Instant::now(),
            user: peer.user,
            wanted,
            paused,
            spawned: None,
            leaving: None,
            kept: None,
            has_drifted: false,
        };
        live.find_kept();
        self.live.insert(id, live);
        if let Some(known) = self.clients.get_mut(client) {
            known.session = Some(id);
        }
        self.clients.tell(client, &FromAgent::Returned { session: id.0 });
        Ok(id)
    }
}
