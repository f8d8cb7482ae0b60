//! Starting others while the first of those that wait does not fit.
//!
//! Where estimates tell when it will fit, that moment is a promise: whoever has ended by then, or leaves enough slots free
//! then, delays nobody. A promise is only ever made earlier. Others may overtake it a bounded number of times.

use super::record::{Session, State};
use super::request::{Decision, SessionId};
use super::rules::Policy;
use super::scheduler::Scheduler;
use super::turns::Turn;
use std::collections::BTreeSet;

/// What the first of those that wait was promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    first: SessionId,
    /// Whether it may be promised anything: under give-way only who is due.
    binding: bool,
    /// When it starts, if estimates hold.
    pub(super) promise: Option<u64>,
    /// Slots that stay free when it has started then.
    extra: u64,
}

impl Scheduler {
    /// Starts a session before the first of those that wait, if that does no harm, or not too often.
    pub(super) fn out_of_turn(&mut self, now: u64, first: Turn, turn: Turn, decisions: &mut Vec<Decision>) {
        let reservation = self.reserve(now, first.4);
        let session = &self.sessions[&turn.4];
        let wanted = self.slots_of(&session.request);
        let ends = session.request.estimate.map(|estimate| now.saturating_add(estimate));
        let in_time = reservation.promise.zip(ends).is_some_and(|(promise, end)| end <= promise);
        let beside = reservation.promise.is_some_and(|promise| promise >= now) && wanted <= reservation.extra;
        let harmless = in_time || beside;
        let mates = self.sessions[&first.4].group == session.group;
        let promised = reservation.promise.is_some_and(|promise| promise >= now);
        let may_wait = !promised && !self.sessions[&first.4].overdue;
        if !harmless && !mates && !may_wait {
            return;
        }
        if !self.start(now, turn, decisions) {
            return;
        }
        if !harmless {
            self.count_overtaken(now, turn);
        }
    }

    /// A session started whose turn was this one: counts for those before it.
    fn count_overtaken(&mut self, now: u64, turn: Turn) {
        let (differ, most) = (self.priorities_differ(), self.rules.overtaken_max);
        let overdue = match self.rules.policy {
            // Under give-way, who is not due yet has time.
            Policy::GiveWay if differ => self.waiting.overtake(most, |other| *other < turn && other.2 < now),
            Policy::GiveWay => {
                let due = (true, turn.1, now, 0, SessionId(0));
                self.waiting.overtake_before(&turn.min(due), most)
            }
            _ => self.waiting.overtake_before(&turn, most),
        };
        self.are_overdue(overdue);
    }

    /// When the first of those that wait will fit, and what stays free then.
    pub(super) fn reserve(&mut self, now: u64, first: SessionId) -> Reservation {
        let session = &self.sessions[&first];
        let binding = match self.rules.policy {
            Policy::Wait => true,
            Policy::GiveWay => session.due <= now || session.overdue,
            Policy::Surpass | Policy::Overbook | Policy::Sidestep => false,
        };
        if let Some(known) = self.reservation.filter(|known| known.first == first && known.binding == binding)
        {
            return known;
        }
        let wanted = self.slots_of(&session.request);
        let is_exact = !session.request.slots.is_empty();
        let mut free = self.occupancy.vacant_total();
        let mut found = None;
        // Nobody knows when it may stand beside others.
        if binding && is_exact && !self.is_hindered(first) {
            // What others leave free may be slots that it has named.
            (found, free) = (self.all_end(now, first), wanted);
        } else if binding && !self.is_hindered(first) {
            // Who has overrun its estimate may run for ever.
            for (end, id) in self.ends.range((now, SessionId(0))..) {
                if free >= wanted {
                    break;
                }
                let home = self.sessions[id].home.as_ref().expect("it runs");
                free += home.runs().map(|run| run.len() as u64).sum::<u64>();
                found = Some(*end);
            }
            found = found.filter(|_| free >= wanted);
        }
        let session = self.sessions.get_mut(&first).expect("it waits");
        let extra = match (found, session.promise) {
            (Some(found), Some(promise)) if found > promise => 0,
            (Some(_), _) => free - wanted,
            (None, _) => 0,
        };
        session.promise = [session.promise, found].into_iter().flatten().min();
        let reservation = Reservation { first, binding, promise: session.promise, extra };
        self.reservation = Some(reservation);
        reservation
    }
    /// When all will have ended that have one of the slots which a session has named; none where nobody has, or that is not known.
    fn all_end(&self, now: u64, id: SessionId) -> Option<u64> {
        let named: BTreeSet<usize> =
            self.sessions[&id].request.slots.iter().map(|slot| *slot as usize).collect();
        let has_one = |session: &&Session| {
            let home = session.home.as_ref();
            home.is_some_and(|home| home.runs().flatten().any(|slot| named.contains(&slot)))
        };
        let holders: Vec<&Session> = self.sessions.values().filter(has_one).collect();
        // Who has overrun its estimate may run for ever, and who is suspended waits for others.
        let end = |session: &&Session| {
            let end = session.expected_end().filter(|end| *end > now);
            end.filter(|_| session.state == State::Running)
        };
        let ends: Option<Vec<u64>> = holders.iter().map(end).collect();
        ends?.into_iter().max()
    }
}
