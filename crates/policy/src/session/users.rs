//! Whose sessions share slots: those of one user do where the policy has it so, those of two only where the rules let them.

use super::request::{Refused, Request, SessionId};
use super::rules::Rules;
use super::scheduler::Scheduler;
use std::collections::BTreeSet;

impl Scheduler {
    /// There is a session of this user.
    pub(super) fn note_user(&mut self, user: u32) {
        let (first, _) = *self.users.get_or_insert((user, false));
        if first != user {
            self.users = Some((first, true));
        }
    }

    /// Whether there are users who have to be kept apart where sessions share slots.
    pub(super) fn keeps_users_apart(&self) -> bool {
        let differ = self.users.is_some_and(|(_, differ)| differ);
        differ && self.rules.policy.shares() && !self.rules.share_users
    }

    /// The slots that sessions of other users were given, and that a session may therefore not have.
    pub(super) fn slots_of_other_users(&self, id: SessionId) -> BTreeSet<usize> {
        if !self.keeps_users_apart() {
            return BTreeSet::new();
        }
        let user = self.sessions[&id].request.user;
        let others = self.running.values().map(|other| &self.sessions[other]);
        let others = others.filter(|other| other.request.user != user);
        others.filter_map(|other| other.home.as_ref()).flat_map(|home| home.runs().flatten()).collect()
    }

    /// Whether these may share slots under other rules.
    pub(super) fn check_users(&self, rules: &Rules, sessions: &[SessionId]) -> Result<(), Refused> {
        let user = |id: &SessionId| self.sessions[id].request.user;
        let Some(one) = sessions.first().copied().filter(|_| !rules.share_users) else { return Ok(()) };
        match sessions.iter().find(|other| user(other) != user(&one)) {
            Some(other) => Err(Refused::Users { one, other: *other }),
            None => Ok(()),
        }
    }

    /// Who talk to each other use each other's slots.
    pub(super) fn check_mate(&self, request: &Request) -> Result<(), Refused> {
        let mate = request.with.and_then(|with| Some((with, self.sessions.get(&with)?)));
        match mate.filter(|(_, mate)| mate.request.user != request.user && !self.rules.share_users) {
            Some((session, _)) => Err(Refused::OtherUser { session }),
            None => Ok(()),
        }
    }
}
