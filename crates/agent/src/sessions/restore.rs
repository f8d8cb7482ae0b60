//! What one agent leaves to the next: who there is and what was decided about them stands in the books; how they are is what their runners
//! say when they come back.

use super::{Live, Sessions, Spawned};
use crate::Tree;
use crate::machine::{Machine, Node};
use castell_host::say;
use castell_policy::session::protocol::{FromAgent, Known, Part, Wanted};
use castell_policy::session::{Decision, Event, Rules, Saved, Scheduler, SessionId, Slot, State};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long nothing is done until all runners are back: some may be stopped themselves.
pub(super) const BACK_WITHIN: Duration = Duration::from_secs(3);
/// A runner on another node of which nothing was heard for so long is taken to be dead.
const HEARD_WITHIN: Duration = Duration::from_secs(60);

/// All that has to outlive an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Books {
    /// Of this system since it was started: nothing of before is left.
    boot: String,
    next: u64,
    nodes: Vec<Node>,
    scheduler: Saved,
    sessions: BTreeMap<u64, Entry>,
}

/// A session beside what the scheduler knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    wanted: Wanted,
    user: u32,
    /// Without a runner.
    spawned: bool,
    /// It has ended, but something of it may be left.
    leaving: bool,
    /// The folder of a cpuset that the last agent has made for it.
    #[serde(default)]
    kept: Option<String>,
}

impl Books {
    /// Whether the system was not started anew since.
    pub(crate) fn is_of_now(&self) -> bool {
        self.boot == boot()
    }

    /// The marks of all sessions.
    pub(crate) fn marks(&self) -> Vec<String> {
        self.sessions.values().map(|entry| entry.wanted.mark.clone()).collect()
    }
}

/// Which start of the system this is; empty where it does not tell.
fn boot() -> String {
    static BOOT: OnceLock<String> = OnceLock::new();
    let read = || fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    BOOT.get_or_init(|| read().trim().to_owned()).clone()
}

/// How a session is, as its runner says when it comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reported {
    pub(crate) started: bool,
    pub(crate) suspended: bool,
    pub(crate) parts: Vec<Part>,
}

impl Reported {
    /// A session that was told nothing so far.
    fn new() -> Reported {
        Reported { started: false, suspended: false, parts: Vec::new() }
    }
}

/// Runners that come back to an agent which has no books.
pub(super) struct Adopting {
    /// All are waited for so long; none when that is over, and who comes later is taken at once.
    pub(super) until: Option<Instant>,
    /// Who is expected.
    pub(super) expected: BTreeSet<String>,
    pub(super) back: Vec<Claim>,
}

/// What a runner says.
pub(super) struct Claim {
    pub(super) client: u64,
    pub(super) mark: String,
    pub(super) paused: bool,
    pub(super) reported: Reported,
    pub(super) known: Known,
}

impl Sessions {
    /// What another agent needs to go on from here; none where there is nothing.
    pub(crate) fn books(&self) -> Option<Books> {
        if self.live.is_empty() {
            return None;
        }
        let entry = |live: &Live| Entry {
            wanted: live.wanted.clone(),
            user: live.user,
            spawned: live.wanted.spawned_by.is_some() && live.spawned.is_some(),
            leaving: live.leaving.is_some(),
            kept: live.kept.clone(),
        };
        let sessions = self.live.iter().map(|(id, live)| (id.0, entry(live))).collect();
        Some(Books {
            boot: boot(),
            next: self.next,
            nodes: self.machine.nodes.clone(),
            scheduler: self.scheduler.saved(),
            sessions,
        })
    }

    /// Goes on from what another agent has left. Nothing is done before all runners that live are back, or [`BACK_WITHIN`].
    ///
    /// # Errors
    /// It cannot be; nothing has changed then.
    pub(crate) fn restore(&mut self, books: Books) -> Result<(), String> {
        let (machine, offline) = self.machine_of(&books.nodes)?;
        let known: BTreeSet<SessionId> = books.scheduler.states().map(|(id, _)| id).collect();
        let cluster = machine.cluster.clone();
        let programs = books.sessions.values().filter_map(|entry| entry.wanted.program.as_deref());
        let foreseen = self.known(programs.collect());
        let restored = Scheduler::restore(cluster, books.scheduler, offline, foreseen, self.now());
        // All that has to be done is found out when it is known how the sessions are.
        let (scheduler, _) = restored.map_err(|error| error.to_string())?;
        let share_users = self.scheduler.rules().share_users;
        (self.machine, self.scheduler) = (machine, scheduler);
        let rules = Rules { share_users, ..*self.scheduler.rules() };
        if let Err(refused) = self.scheduler.handle(self.now(), Event::Rules(rules)) {
            say(&format!("{refused}; they share meanwhile"));
        }
        self.next = books.next.max(known.last().map_or(0, |last| last.0 + 1));
        for (number, Entry { wanted, user, spawned, leaving, kept }) in books.sessions {
            let id = SessionId(number);
            if !known.contains(&id) {
                continue;
            }
            let mut live = Live {
                client: None,
                reported: None,
                missing_since: Instant::now(),
                user,
                parts: self.parts(id),
                suspended: self.scheduler.state(id) == Some(State::Suspended),
                paused: false,
                spawned: spawned.then(Spawned::unjoined),
                leaving: None,
                kept,
                has_drifted: false,
                wanted,
            };
            live.find_kept();
            // Who asks for one that is spawned does not come back.
            let is_over = leaving || live.wanted.spawned_by.is_some() && !spawned;
            self.live.insert(id, live);
            if is_over {
                self.leave(id, true);
            }
        }
        // Nobody could ever end them.
        known.difference(&self.live.keys().copied().collect()).for_each(|id| {
            let _ = self.scheduler.handle(self.now(), Event::End(*id));
        });
        self.bury();
        self.orders.hold(Instant::now() + BACK_WITHIN);
        // The last keepers may have let go on what they had stopped.
        self.live.keys().copied().collect::<Vec<_>>().into_iter().for_each(|id| self.hold(id));
        Ok(())
    }

    /// The machine of the last agent, and the slots that are offline: some processors may be gone since.
    fn machine_of(&self, nodes: &[Node]) -> Result<(Machine, BTreeSet<Slot>), String> {
        let others = || "the processors or the memory of its nodes are others now".to_owned();
        let mut machine = Machine::new(nodes.to_vec()).ok_or_else(others)?;
        if nodes == self.machine.nodes {
            return Ok((machine, BTreeSet::new()));
        }
        let ([now], [then]) = (&self.machine.nodes[..], nodes) else { return Err(others()) };
        let (usable, before) = (now.cores.concat(), then.cores.concat());
        let is_it = now.name == then.name && now.memory_bytes == then.memory_bytes;
        if !is_it || !usable.iter().any(|cpu| before.contains(cpu)) {
            return Err(others());
        }
        let offline = machine.only(&usable).unwrap_or_default();
        Ok((machine, offline))
    }

    /// Where a session has to be.
    pub(super) fn parts(&self, id: SessionId) -> Vec<Part> {
        self.scheduler.pinned(id).map_or_else(Vec::new, |placement| self.machine.parts(placement))
    }

    /// A runner comes back, with the session that another agent has told it to run.
    pub(crate) fn return_to(
        &mut self,
        client: u64,
        mark: &str,
        paused: bool,
        reported: Reported,
        known: Known,
    ) {
        let Some(peer) = self.clients.get_mut(client).map(|known| known.peer) else { return };
        let is_it = |(_, live): &(&SessionId, &mut Live)| {
            live.wanted.mark == mark && live.is_of(peer) && live.is_awaited()
        };
        let Some((id, live)) = self.live.iter_mut().find(is_it) else {
            if self.claim(client, mark, paused, &reported, known) {
                return;
            }
            self.clients.refuse(client, "this session does not stand in the books of the agent");
            return;
        };
        let id = *id;
        if reported.started && self.scheduler.state(id) == Some(State::Waiting) {
            self.clients.refuse(client, "the books of the agent say that this session waits");
            self.ended(id);
            return;
        }
        (live.client, live.paused, live.reported) = (Some(client), paused, Some(reported));
        if let Some(known) = self.clients.get_mut(client) {
            known.session = Some(id);
        }
        self.clients.tell(client, &FromAgent::Returned { session: id.0 });
        if !self.orders.is_held() {
            self.reconcile(&[id]);
        }
    }

    /// Begins to carry out what was decided, when all runners are back or it is time; sees to those that will never be.
    pub(crate) fn resume_if_all_are_back(&mut self) {
        self.bury();
        let missing = self.live.values().filter(|live| live.is_awaited()).count();
        if self.orders.is_held() && (self.orders.is_overdue() || missing == 0) {
            if missing > 0 {
                say(&format!("{missing} runners of sessions have not come back as yet"));
            }
            self.orders.begin_anew();
            self.reconcile(&self.live.keys().copied().collect::<Vec<_>>());
        }
    }

    /// Ends the sessions whose runners have died while there was no agent.
    fn bury(&mut self) {
        let is_dead = |live: &Live| {
            live.is_awaited()
                && !Tree::runner_lives(&live.wanted.mark)
                    .unwrap_or_else(|| live.missing_since.elapsed() < HEARD_WITHIN)
        };
        let dead: Vec<SessionId> =
            self.live.iter().filter(|(_, live)| is_dead(live)).map(|(id, _)| *id).collect();
        dead.into_iter().for_each(|id| self.leave(id, true));
    }

    /// Makes of how sessions are how they have to be.
    pub(super) fn reconcile(&mut self, sessions: &[SessionId]) {
        let [mut suspend, mut move_, mut go_on, mut start] = [const { Vec::new() }; 4];
        for id in sessions.iter().copied() {
            let Some(live) = self.live.get(&id).filter(|live| live.leaving.is_none()) else { continue };
            let stands = self.scheduler.state(id) == Some(State::Suspended);
            let (Some(home), Some(pinned)) = (self.scheduler.home(id), self.scheduler.pinned(id)) else {
                if let Some(client) = live.client {
                    self.clients.tell(client, &FromAgent::Waits { session: id.0 });
                }
                continue;
            };
            let parts = self.machine.parts(pinned);
            // Whoever came while all was held was not told anything.
            let reported = live.reported.clone().or(live.client.map(|_| Reported::new()));
            match reported {
                Some(reported) if !reported.started => {
                    start.push(Decision::Start(id, home.clone()));
                    if pinned != home {
                        start.push(Decision::Repin(id, pinned.clone()));
                    }
                    start.extend(stands.then_some(Decision::Suspend(id)));
                }
                Some(reported) => {
                    if reported.parts != parts {
                        move_.push(Decision::Repin(id, pinned.clone()));
                    }
                    match (reported.suspended, stands) {
                        (false, true) => suspend.push(Decision::Suspend(id)),
                        (true, false) => go_on.push(Decision::Continue(id)),
                        _ => {}
                    }
                }
                // Nobody knows how its processes are: they are told all.
                None if live.spawned.is_some() => {
                    move_.push(Decision::Repin(id, pinned.clone()));
                    match stands {
                        true => suspend.push(Decision::Suspend(id)),
                        false => go_on.push(Decision::Continue(id)),
                    }
                }
                // It is told when it comes back.
                None => {}
            }
            let live = self.live.get_mut(&id).expect("it is there");
            live.reported = None;
            self.hold(id);
        }
        self.orders.add([suspend, move_, go_on, start].concat());
    }
}
