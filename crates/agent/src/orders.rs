//! What is to be done, in which order, and whom the rest of it waits for.

use castell_policy::session::{Decision, SessionId};
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How long runners and keepers may take to stop or move processes before others start nevertheless: they may be stopped themselves.
const DONE_MAX: Duration = Duration::from_secs(10);

/// Decisions that are not carried out yet.
#[derive(Default)]
pub(crate) struct Orders {
    todo: VecDeque<Decision>,
    awaited: Option<Awaited>,
    /// Nothing is done before.
    held: Option<Instant>,
}

/// Whose stopping or moving the rest waits for.
struct Awaited {
    session: SessionId,
    runner: bool,
    turn: u64,
    keepers: BTreeSet<usize>,
    until: Instant,
}

impl Orders {
    /// After all that there are.
    pub(crate) fn add(&mut self, decisions: Vec<Decision>) {
        self.todo.extend(decisions);
    }

    /// Nothing is done before this time, or before [`begin_anew`](Orders::begin_anew).
    pub(crate) fn hold(&mut self, until: Instant) {
        self.held = Some(until);
    }

    /// Forgets what was to be done, of which nobody was told anything while it was held; what is added from now on is done.
    pub(crate) fn begin_anew(&mut self) {
        *self = Orders::default();
    }

    /// Whether all is held.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Whether it is time to begin with what is held.
    pub(crate) fn is_overdue(&self) -> bool {
        self.held.is_some_and(|until| Instant::now() >= until)
    }

    /// The next decision; none while somebody is awaited, or all is held.
    pub(crate) fn next(&mut self) -> Option<Decision> {
        if self.held.is_some() {
            return None;
        }
        let is_late = |awaited: &Awaited| Instant::now() >= awaited.until;
        if self.awaited.as_ref().is_some_and(|awaited| !awaited.is_done() && !is_late(awaited)) {
            return None;
        }
        self.awaited = None;
        self.todo.pop_front()
    }

    /// Whether all is carried out, and nobody is awaited.
    pub(crate) fn is_idle(&self) -> bool {
        self.todo.is_empty() && self.awaited.is_none() && self.held.is_none()
    }

    /// The rest waits until a session's runner, if it has one that can be told, and these keepers have done what they were told last.
    pub(crate) fn wait_for(&mut self, session: SessionId, runner: bool, turn: u64, keepers: BTreeSet<usize>) {
        let until = Instant::now() + DONE_MAX;
        self.awaited = Some(Awaited { session, runner, turn, keepers, until });
    }

    /// Until when somebody is awaited or all is held at most, if so.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.held.or(self.awaited.as_ref().map(|awaited| awaited.until))
    }

    /// A session's runner has done what it was told.
    pub(crate) fn runner_did(&mut self, session: SessionId) {
        if let Some(awaited) = self.awaited.as_mut().filter(|awaited| awaited.session == session) {
            awaited.runner = false;
        }
    }

    /// A keeper has done what it was told at this turn.
    pub(crate) fn keeper_did(&mut self, node: usize, turn: u64) {
        if let Some(awaited) = self.awaited.as_mut().filter(|awaited| awaited.turn == turn) {
            awaited.keepers.remove(&node);
        }
    }

    /// Nobody waits for a keeper that has died.
    pub(crate) fn keeper_died(&mut self, node: usize) {
        if let Some(awaited) = &mut self.awaited {
            awaited.keepers.remove(&node);
        }
    }

    /// Nobody waits for a session that has ended.
    pub(crate) fn ended(&mut self, session: SessionId) {
        self.awaited.take_if(|awaited| awaited.session == session);
    }
}

impl Awaited {
    fn is_done(&self) -> bool {
        !self.runner && self.keepers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_waits_until_all_have_done_their_part() {
        let [first, second] = [SessionId(1), SessionId(2)];
        let mut orders = Orders::default();
        orders.add(vec![Decision::Suspend(first), Decision::Continue(second), Decision::Suspend(second)]);
        assert_eq!(orders.next(), Some(Decision::Suspend(first)));
        orders.wait_for(first, true, 7, BTreeSet::from([0, 1, 2]));
        orders.runner_did(second);
        orders.keeper_did(0, 6);
        orders.runner_did(first);
        orders.keeper_did(0, 7);
        orders.keeper_did(1, 7);
        assert_eq!(orders.next(), None);
        orders.keeper_died(2);
        assert_eq!(orders.next(), Some(Decision::Continue(second)));
        assert_eq!(orders.next(), Some(Decision::Suspend(second)));
        orders.wait_for(second, true, 8, BTreeSet::new());
        orders.ended(first);
        assert!(orders.next().is_none() && orders.until().is_some());
        orders.ended(second);
        assert!(!orders.is_idle() || orders.until().is_none());
        assert!(orders.next().is_none() && orders.until().is_none() && orders.is_idle());
    }
}
