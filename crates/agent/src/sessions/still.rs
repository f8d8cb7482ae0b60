//! A session that stands still for a moment, so that something is measured without it.
//!
//! The scheduler hears nothing of that: it is no decision about who runs. The runner lets its session go on by itself, so that nothing has to be known of
//! it by whoever keeps sessions next.

use super::Sessions;
use crate::news::Answer;
use castell_policy::session::SessionId;
use castell_policy::session::protocol::{FromAgent, Stood};
use std::time::Duration;

impl Sessions {
    /// Has a session stand still, if it may be stopped: it is this user's, the only one that runs here, by itself, and has not refused.
    pub(crate) fn stand_still(&mut self, mark: &str, longest: Duration, answer: Answer) {
        let running = self.marks().running;
        let is_alone = running.len() == 1 && running.contains(mark) && self.orders.is_idle();
        let Some((id, live)) = self.live.iter().find(|(_, live)| live.wanted.mark == mark) else { return };
        let may_be = is_alone && !live.is_unprobed() && self.keepers.all().is_empty();
        let Some(client) = live.client.filter(|_| may_be) else { return };
        self.stills.insert(*id, answer);
        self.clients.tell(client, &FromAgent::StandStill { longest_us: longest.as_micros() as u64 });
    }

    /// It goes on.
    pub(crate) fn has_stood(&mut self, id: SessionId, stood: Option<Stood>) {
        if let Some((answer, stood)) = self.stills.remove(&id).zip(stood) {
            answer(stood);
        }
    }
}
