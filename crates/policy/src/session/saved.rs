//! What outlives whoever decides about sessions: enough of a scheduler that another one goes on from there.

use super::foreseen::Foreseen;
use super::occupancy::per_process;
use super::record::{Session, State};
use super::request::{Decision, Refused, Request, SessionId};
use super::resources::{Cluster, Placement, Slot};
use super::rules::{Policy, Rules};
use super::scheduler::Scheduler;
use super::sidestep;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Counts that are larger are no counts.
const COUNTED_MAX: u32 = u32::MAX / 2;

/// All that does not follow from the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    rules: Rules,
    sessions: Vec<(SessionId, Session)>,
    arrivals: u64,
    starts: u64,
    priorities: Option<(i32, bool)>,
}

/// Why a scheduler cannot go on from what was saved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestored {
    /// It was another cluster, or this never was a scheduler's.
    #[error("session {} cannot have been as it was saved: {why}", session.0)]
    Session {
        /// Which.
        session: SessionId,
        /// What is wrong.
        why: &'static str,
    },
    /// Its policy would not have allowed that.
    #[error(transparent)]
    Policy(#[from] Refused),
}

impl Saved {
    /// The sessions, and where in their lives they are.
    pub fn states(&self) -> impl Iterator<Item = (SessionId, State)> + '_ {
        self.sessions.iter().map(|(id, session)| (*id, session.state))
    }
}

impl Scheduler {
    /// What another one needs to go on from here.
    pub fn saved(&self) -> Saved {
        let mut sessions: Vec<_> = self.sessions.iter().map(|(id, session)| (*id, session.clone())).collect();
        sessions.sort_unstable_by_key(|(id, _)| *id);
        let Scheduler { rules, arrivals, starts, priorities, .. } = *self;
        Saved { rules, sessions, arrivals, starts, priorities }
    }

    /// Goes on from what was saved, on the same cluster, of which these slots are offline now, where this is foreseen, and says what to do now. How often those that wait were overtaken is counted
    /// anew, and nothing is promised to them as yet; under sidestep all are told again where they are pinned.
    ///
    /// # Errors
    /// No scheduler can have saved this, or one of another cluster.
    pub fn restore(
        cluster: Cluster,
        saved: Saved,
        offline: BTreeSet<Slot>,
        foreseen: Foreseen,
        now: u64,
    ) -> Result<(Scheduler, Vec<Decision>), NotRestored> {
        check(&cluster, &saved, now)?;
        let Saved { rules, sessions, arrivals, starts, priorities } = saved;
        let mut scheduler = Scheduler::without(cluster, rules, offline);
        (scheduler.arrivals, scheduler.starts, scheduler.priorities) = (arrivals, starts, priorities);
        sessions.iter().try_for_each(|(_, session)| scheduler.check(&session.request))?;
        sessions.iter().for_each(|(_, session)| scheduler.note_user(session.request.user));
        scheduler.groups = groups(&sessions);
        scheduler.sessions = sessions.into_iter().collect();
        scheduler.check_successor(&rules)?;
        let mut decisions = Vec::new();
        scheduler.settle_all(now, &mut decisions);
        scheduler.know(foreseen);
        scheduler.give_turns(now, &mut decisions);
        if rules.policy == Policy::Sidestep {
            sidestep::repin(&mut scheduler, &mut decisions);
        }
        Ok((scheduler, decisions))
    }
}

/// Whatever is not checked here is believed elsewhere.
fn check(cluster: &Cluster, saved: &Saved, now: u64) -> Result<(), NotRestored> {
    let mut arrivals = BTreeSet::new();
    let mut memory = HashMap::new();
    let mut ids = BTreeSet::new();
    for (id, session) in &saved.sessions {
        let wrong = |why| Err(NotRestored::Session { session: *id, why });
        if !ids.insert(*id) || !arrivals.insert(session.arrival) || session.arrival >= saved.arrivals {
            return wrong("it came twice, or after the last one");
        }
        if session.started > saved.starts {
            return wrong("it was started after the last one");
        }
        if session.came.max(session.since).max(session.ran) > now {
            return wrong("that is still to come");
        }
        if session.due != session.due_under(&saved.rules) {
            return wrong("it is due at another time");
        }
        if session.stops.max(session.suspensions).max(session.surpassed) > COUNTED_MAX {
            return wrong("nothing happens so often");
        }
        let has_run = session.ran > 0 || session.suspensions > 0 || session.surpassed > 0;
        let home = match (&session.home, session.state) {
            (None, State::Waiting) if has_run => return wrong("it waits for its start, and has run"),
            (None, State::Waiting) => continue,
            (Some(home), State::Running | State::Suspended) => home,
            _ => return wrong("it has slots and waits, or has none and runs"),
        };
        if !is_home(home, &session.request, cluster) {
            return wrong("there are no such slots, or they are not what it wants");
        }
        if session.state == State::Suspended && !saved.rules.policy.suspends() {
            return wrong("its policy suspends nobody");
        }
        for slot in home.slots().step_by(home.per_process() as usize) {
            let node = cluster.node_of(slot);
            let taken = memory.entry(node).or_insert(0_u64);
            *taken = taken.saturating_add(session.request.memory_bytes);
            if *taken > cluster.shape(node).memory_bytes {
                return wrong("there is not so much memory");
            }
        }
    }
    Ok(())
}

/// Whether a session of this request can have these slots.
pub(super) fn is_home(home: &Placement, request: &Request, cluster: &Cluster) -> bool {
    let slots: u64 = home.runs().map(|run| run.len() as u64).sum();
    let per_process = per_process(request, cluster);
    if home.runs().any(|run| run.is_empty() || run.end > cluster.num_slots())
        || per_process == 0
        || home.per_process() != per_process
        || slots != u64::from(request.processes) * u64::from(per_process)
        || !request.slots.is_empty() && !home.slots().map(|slot| slot.0).eq(request.slots.iter().copied())
    {
        return false;
    }
    let all: Vec<_> = home.slots().collect();
    let is_whole = |process: &[Slot]| {
        let node = cluster.node_of(process[0]);
        process.iter().all(|slot| cluster.node_of(*slot) == node)
    };
    all.iter().collect::<BTreeSet<_>>().len() == all.len() && all.chunks(per_process as usize).all(is_whole)
}

/// Those of more than one, or of which one is left that others were with.
fn groups(sessions: &[(SessionId, Session)]) -> BTreeMap<SessionId, Vec<SessionId>> {
    let mut groups: BTreeMap<SessionId, Vec<SessionId>> = BTreeMap::new();
    let mut by_arrival: Vec<_> = sessions.iter().collect();
    by_arrival.sort_unstable_by_key(|(_, session)| session.arrival);
    by_arrival.into_iter().for_each(|(id, session)| groups.entry(session.group).or_default().push(*id));
    groups.retain(|group, members| members.len() > 1 || members[0] != *group);
    groups
}
