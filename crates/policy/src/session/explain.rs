//! Why a session waits, or where it runs, and when that should change.

use super::company::Hindrance;
use super::foreseen::Foreseen;
use super::record::State;
use super::request::{Event, SessionId};
use super::resources::Placement;
use super::scheduler::Scheduler;
use std::collections::BTreeSet;

/// What there is to say about a session. Times are in the unit of `now`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Where it is in its life.
    pub state: State,
    /// Whether its user has stopped it.
    pub stopped: bool,
    /// Since when it is so: when it came, started, went on or came to stand still.
    pub since: u64,
    /// How long it has run in all.
    pub ran: u64,
    /// How many slots it wants, or has.
    pub slots: u64,
    /// Slots on which nothing runs.
    pub free: u64,
    /// Slots whose processors were taken away.
    pub offline: u64,
    /// Slots that it could share if those who run there were not other users' sessions.
    pub of_other_users: u64,
    /// Whose turn comes before its own, if it waits, in this order.
    pub before: Vec<SessionId>,
    /// Who has slots, if it waits; else who has some of its slots as well. By number.
    pub holders: Vec<Holding>,
    /// Who runs on the same nodes, on whatever slots. By number.
    pub beside: Vec<SessionId>,
    /// Why it does not start although there would be slots: who would be slowed down too much.
    pub hindrances: Vec<Hindrance>,
    /// When it starts or goes on, if all take as long as they have said and nobody comes; none where that follows from nothing.
    pub begins: Option<u64>,
    /// How often others have suspended it.
    pub suspensions: u32,
    /// The last sixteen of those, the last one last.
    pub suspended_by: Vec<SessionId>,
    /// How often its user has stopped it.
    pub stops: u32,
}

/// A session that has slots which another one would like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Which.
    pub session: SessionId,
    /// Whether it runs there.
    pub state: State,
    /// How many of them.
    pub slots: u64,
    /// How long it needs at most by its estimate; none if it has none, has overrun it, or is stopped by its user.
    pub left: Option<u64>,
}

impl Scheduler {
    /// What there is to say about a session now; none if there is no such session.
    pub fn explain(&self, now: u64, id: SessionId) -> Option<Explanation> {
        let session = self.sessions.get(&id)?;
        let state = self.state(id)?;
        let runs = session.state == State::Running && !session.stopped;
        let before = match session.state {
            State::Waiting if !session.stopped => {
                let others = self.waiting.iter().map(|(turn, _)| turn);
                others.take_while(|turn| *turn < session.turn(id)).map(|turn| turn.4).collect()
            }
            _ => Vec::new(),
        };
        let begins = if runs || session.stopped { None } else { self.forecast(now, id) };
        Some(Explanation {
            state,
            stopped: session.stopped,
            since: session.since,
            ran: session.ran + if runs { now.saturating_sub(session.since) } else { 0 },
            slots: self.slots_of(&session.request),
            free: self.occupancy.free_total(),
            offline: self.offline.len() as u64,
            of_other_users: match session.state {
                State::Waiting => self.slots_of_other_users(id).len() as u64,
                _ => 0,
            },
            before,
            holders: self.holders_beside(now, id),
            beside: if session.state == State::Running { self.beside(id) } else { Vec::new() },
            hindrances: self.held_back(now, id),
            begins,
            suspensions: session.suspensions,
            suspended_by: session.suspended_by.iter().copied().collect(),
            stops: session.stops,
        })
    }

    /// What keeps a session waiting that would start otherwise.
    fn held_back(&self, now: u64, id: SessionId) -> Vec<Hindrance> {
        let session = &self.sessions[&id];
        let hindrances = match session.state {
            State::Waiting if !session.stopped => self.hindrances(id),
            _ => Vec::new(),
        };
        if hindrances.is_empty() {
            return hindrances;
        }
        let mut blind = self.clone();
        blind.know(Foreseen::new());
        if blind.find(now, id).is_some() { hindrances } else { Vec::new() }
    }

    fn holders_beside(&self, now: u64, id: SessionId) -> Vec<Holding> {
        let slots = |home: &Placement| home.runs().flatten().collect::<BTreeSet<usize>>();
        let mine = self.sessions[&id].home.as_ref().map(slots);
        let holding = |other: &SessionId| {
            let home = self.sessions[other].home.as_ref()?;
            let common =
                slots(home).into_iter().filter(|slot| mine.as_ref().is_none_or(|mine| mine.contains(slot)));
            let count = common.count() as u64;
            let left = self.sessions[other].remaining(now).filter(|left| *left > 0);
            (count > 0).then_some(Holding { session: *other, state: self.state(*other)?, slots: count, left })
        };
        let others: BTreeSet<SessionId> =
            self.sessions.keys().copied().filter(|other| *other != id).collect();
        others.iter().filter_map(holding).collect()
    }

    /// When a session runs, if all take as long as they have said and nobody comes: what the policy decides then is found by letting it.
    fn forecast(&self, now: u64, id: SessionId) -> Option<u64> {
        let mut future = self.clone();
        let mut then = now;
        // Each round ends a session.
        loop {
            // Who has overrun its estimate may run for ever.
            let (end, ended) = *future.ends.range((then, SessionId(0))..).next()?;
            then = end;
            future.handle(then, Event::End(ended)).ok()?;
            if future.state(id) == Some(State::Running) {
                return Some(then);
            }
        }
    }
}
