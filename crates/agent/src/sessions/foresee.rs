//! What is foreseen for sessions beside each other, for the scheduler and for people.

use super::{Live, Sessions};
use castell_host::descriptor::Peer;
use castell_policy::session::protocol::{Beside, HeldBack, Predicted, Wanted};
use castell_policy::session::{Event, Explanation, Foreseen, SessionId, Slowdown, State};
use std::collections::BTreeSet;

/// Programs that are looked at together; of others nothing is said.
const PROGRAMS_MAX: usize = 64;
/// Digits of a program's hash.
const HASH_DIGITS: usize = 64;

impl Sessions {
    /// Tells the scheduler what has come to be known, if anything has.
    pub(crate) fn look_ahead(&mut self) {
        let version = self.foresight.as_ref().map(|foresight| foresight.version());
        if version.is_none() || version == self.foreseen {
            return;
        }
        self.foreseen = version;
        for id in self.live.keys().copied().collect::<Vec<_>>() {
            self.recognise(id);
        }
        self.foresee(None);
    }

    /// Tells the scheduler about the programs of all sessions, and of one that is to come.
    pub(super) fn foresee(&mut self, newcomer: Option<&Wanted>) {
        let programs = self.live.values().map(|live| &live.wanted).chain(newcomer);
        let programs = programs.filter_map(|wanted| wanted.program.as_deref());
        let foreseen = self.known(programs.collect());
        self.handle_for_all(Event::Foreseen(foreseen));
    }

    /// What these programs do to each other, as far as anybody knows.
    pub(super) fn known(&self, programs: BTreeSet<&str>) -> Foreseen {
        let mut foreseen = Foreseen::new();
        let Some(foresight) = &self.foresight else { return foreseen };
        let programs: Vec<&str> = programs.into_iter().take(PROGRAMS_MAX).collect();
        for program in &programs {
            for neighbour in &programs {
                let slowdown = foresight.slowdown(program, neighbour);
                let slowdown = slowdown.filter(|slowdown| *slowdown > Slowdown::NONE);
                slowdown.into_iter().for_each(|slowdown| foreseen.set(program, neighbour, slowdown));
            }
        }
        foreseen
    }

    /// A session may run something else than its runner could know.
    fn recognise(&mut self, id: SessionId) {
        let (Some(foresight), Some(live)) = (&self.foresight, self.live.get_mut(&id)) else { return };
        let seen = foresight.program(&live.wanted.mark);
        if seen.is_some() && seen != live.wanted.program {
            live.wanted.program.clone_from(&seen);
            self.handle_for_all(Event::Program(id, seen));
        }
    }

    fn handle_for_all(&mut self, event: Event) {
        // Whoever has ended meanwhile runs nothing.
        let decisions = self.scheduler.handle(self.now(), event).unwrap_or_default();
        self.orders.add(decisions);
    }

    /// The class of what a session runs.
    pub(super) fn class(&self, id: SessionId) -> Option<String> {
        self.foresight.as_ref()?.class(self.live.get(&id)?.wanted.program.as_deref()?)
    }

    /// How much a session that runs is slowed down by those beside it.
    pub(super) fn slowed(&self, id: SessionId) -> Option<Predicted> {
        if self.scheduler.state(id) != Some(State::Running) {
            return None;
        }
        let program = self.live.get(&id)?.wanted.program.as_deref()?;
        let beside = self.scheduler.beside(id);
        let neighbours: Vec<Option<&str>> = beside
            .iter()
            .filter_map(|other| self.live.get(other))
            .filter(|live| !live.suspended && !live.paused)
            .map(|live| live.wanted.program.as_deref())
            .collect();
        self.foresight.as_ref()?.predict(program, &neighbours)
    }

    /// Those beside a session, or beside whom it does not start.
    pub(super) fn beside(&self, id: SessionId, explanation: &Explanation, peer: Peer) -> Vec<Beside> {
        let mut others: BTreeSet<SessionId> = explanation.beside.iter().copied().collect();
        others.extend(explanation.hindrances.iter().map(|hindrance| hindrance.beside));
        let own = self.live.get(&id).and_then(|live| live.wanted.program.as_deref());
        let pair = |program: Option<&str>, neighbour: Option<&str>| {
            self.foresight.as_ref()?.predict(program?, &[neighbour])
        };
        let one = |(other, live): (SessionId, &Live)| Beside {
            session: other.0,
            command: live.command_for(peer),
            slows: pair(own, live.wanted.program.as_deref()),
            slowed: pair(live.wanted.program.as_deref(), own),
        };
        others.into_iter().filter_map(|other| Some(one((other, self.live.get(&other)?)))).collect()
    }
}

/// Why it does not start now, for whoever has asked.
pub(super) fn held_back(explanation: &Explanation) -> Vec<HeldBack> {
    let one = |hindrance: &castell_policy::session::Hindrance| HeldBack {
        beside: hindrance.beside.0,
        slowed: hindrance.slowed.0,
        slowdown: hindrance.slowdown,
        slowdown_max: hindrance.most,
    };
    explanation.hindrances.iter().map(one).collect()
}

/// Whether a text can be what a program is known by.
pub(super) fn is_hash(text: &str) -> bool {
    text.len() == HASH_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
