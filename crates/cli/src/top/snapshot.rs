//! What is shown: processors with what runs on them, sessions, kernel collections and pressure at one moment.

use super::source::Source;
use crate::say;
use castell_agent::{Allocation, Place};
use castell_daemon::ask;
use castell_host::busy::Times;
use castell_host::pressure::{self, Pressure};
use castell_kernels::protocol::{FromDaemon, Status, ToDaemon};
use castell_policy::session::Slowdown;
use castell_policy::session::protocol::{FromAgent, Shown};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// One moment.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// When, in seconds since 1970.
    pub at_s: f64,
    /// Of this host.
    pub processors: Vec<Processor>,
    /// The policy of the sessions; none where there is no agent.
    pub policy: Option<String>,
    /// What sessions are allowed that say nothing of their own.
    pub slowdown_max: Option<Slowdown>,
    /// Where the agent listens.
    pub socket: PathBuf,
    /// By number.
    pub sessions: Vec<Shown>,
    /// Why there are none.
    pub sessions_missing: Option<String>,
    /// What the node's daemon does.
    pub daemon: Option<Status>,
    /// Why that is not known.
    pub daemon_missing: Option<String>,
    /// By the kernel's names; none where it counts none.
    pub pressure: Option<BTreeMap<&'static str, Option<Stalls>>>,
    /// Why there is none.
    pub pressure_missing: Option<String>,
}

/// A processor of this host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processor {
    /// Its number.
    pub cpu: u32,
    /// The share of the last interval in which it was busy; none where that is not known.
    pub busy: Option<f64>,
    /// Sessions that run there.
    pub sessions: Vec<u64>,
}

/// The part of the last ten seconds in which some tasks waited, or all that were not idle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stalls {
    /// Some did.
    pub some: f64,
    /// All did.
    pub full: Option<f64>,
}

impl From<pressure::Stalls> for Stalls {
    fn from(pressure::Stalls { some, full, .. }: pressure::Stalls) -> Stalls {
        Stalls { some, full }
    }
}

/// Where all of it comes from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// `/proc`.
    pub proc: PathBuf,
    pub sessions: Place,
    pub allocation: Option<Allocation>,
    /// None: there shall be no daemon.
    pub daemon: Option<PathBuf>,
}

/// Takes snapshots, one after the other.
pub struct Watch {
    proc: PathBuf,
    socket: PathBuf,
    before: Times,
    sessions: Source<Option<Listed>>,
    daemon: Source<Status>,
}

impl Watch {
    /// From now on.
    ///
    /// # Errors
    /// The system says nothing about its processors.
    pub fn begin(sources: Sources) -> anyhow::Result<Watch> {
        let Sources { proc, sessions, allocation, daemon } = sources;
        Ok(Watch {
            before: Times::read(&proc)?,
            proc,
            socket: sessions.socket.clone(),
            sessions: Source::new("the session agent", move || list(&sessions, allocation.as_ref())),
            daemon: Source::new("the daemon", move || status(daemon.as_ref())),
        })
    }

    /// How it is now; processors since the last one.
    ///
    /// # Errors
    /// The system says nothing about its processors.
    pub fn next(&mut self) -> anyhow::Result<Snapshot> {
        let (listed, sessions_missing) = match self.sessions.next() {
            Ok(Some(listed)) => (Some(listed), None),
            Ok(None) => (None, Some(format!("no session, and no agent at {}", self.socket.display()))),
            Err(reason) => (None, Some(reason)),
        };
        let (policy, slowdown_max, sessions) = match listed {
            Some(Listed { policy, slowdown_max, sessions }) => (Some(policy), slowdown_max, sessions),
            None => (None, None, Vec::new()),
        };
        let (daemon, daemon_missing) = apart(self.daemon.next());
        let now = Times::read(&self.proc)?;
        let busy = now.busy_since(&self.before);
        self.before = now;
        let here = castell_agent::here();
        let processors =
            busy.into_iter().map(|(cpu, busy)| Processor { cpu, busy, sessions: on(&here, cpu, &sessions) });
        let (pressure, pressure_missing) = apart(Pressure::read(&self.proc));
        let parts = |pressure: Pressure| {
            pressure.parts().map(|(name, stalls)| (name, stalls.map(Stalls::from))).into()
        };
        Ok(Snapshot {
            at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            processors: processors.collect(),
            policy,
            slowdown_max,
            socket: self.socket.clone(),
            sessions,
            sessions_missing,
            daemon,
            daemon_missing,
            pressure: pressure.map(parts),
            pressure_missing,
        })
    }
}

fn apart<T>(result: Result<T, String>) -> (Option<T>, Option<String>) {
    match result {
        Ok(value) => (Some(value), None),
        Err(reason) => (None, Some(reason)),
    }
}

/// All sessions, and what holds for them.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) policy: String,
    pub(crate) slowdown_max: Option<Slowdown>,
    pub(crate) sessions: Vec<Shown>,
}

/// All sessions with their policy; none where there is no agent.
pub(crate) fn list(place: &Place, allocation: Option<&Allocation>) -> Result<Option<Listed>, String> {
    match castell_agent::list(place, allocation) {
        Ok(Some(FromAgent::Sessions { policy, slowdown_max, sessions })) => {
            Ok(Some(Listed { policy, slowdown_max, sessions }))
        }
        Ok(None) => Ok(None),
        Ok(Some(_)) => {
            Err(format!("the agent at {} gave another answer than a list", place.socket.display()))
        }
        Err(error) => Err(say::describe(&error.into())),
    }
}

/// What the daemon does.
pub(crate) fn status(socket: Option<&PathBuf>) -> Result<Status, String> {
    let Some(socket) = socket else {
        return Err(format!("{} says that there is no daemon", castell_kernels::VARIABLE));
    };
    match ask(socket, &ToDaemon::Status {}) {
        Ok(FromDaemon::Status(status)) => Ok(status),
        Ok(_) => Err(format!("the daemon at {} has answered something else", socket.display())),
        Err(castell_daemon::DaemonError::None { path }) => {
            Err(format!("no daemon listens at {}", path.display()))
        }
        Err(error) => Err(say::describe(&error.into())),
    }
}

/// The sessions that run on a processor of this host.
fn on(here: &str, cpu: u32, sessions: &[Shown]) -> Vec<u64> {
    let is_there = |session: &&Shown| {
        let parts = session.parts.iter().filter(|part| part.node == here);
        session.state == "running"
            && !session.paused
            && parts.flat_map(|part| &part.cpus).any(|other| *other == cpu)
    };
    sessions.iter().filter(is_there).map(|session| session.session).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_policy::session::protocol::{Part, PinnedBy, StoppedBy};

    #[test]
    fn only_what_runs_here_is_on_a_processor() {
        let session = |number, state: &str, node: &str, paused| Shown {
            session: number,
            state: state.into(),
            stopped: false,
            paused,
            awaited: false,
            for_ms: 0,
            slots: 2,
            cpus: None,
            priority: 0,
            parts: vec![Part { node: node.into(), cpus: vec![1, 3], slots: 2 }],
            class: None,
            slowdown: None,
            slowdown_max: None,
            pinned_by: PinnedBy::Cpuset,
            stopped_by: StoppedBy::Freezer,
            memory: None,
            pid: 1,
            user: "alice".into(),
            command: "x".into(),
        };
        let all = [
            session(1, "running", "here", false),
            session(2, "suspended", "here", false),
            session(3, "running", "there", false),
            session(4, "running", "here", true),
            session(5, "running", "here", false),
        ];
        assert_eq!((on("here", 3, &all), on("here", 2, &all)), (vec![1, 5], vec![]));
    }
}
