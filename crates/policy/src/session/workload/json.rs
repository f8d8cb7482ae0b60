//! Workloads in JSON: `{"sessions": [{"submit_s": 0, "run_s": 10, "processes": 4}]}`, with all that a session may ask for.

use super::{Job, Role, Workload, WorkloadError, milliseconds};
use crate::session::foreseen::{Foreseen, Slowdown};
use crate::session::request::{Request, SessionId};
use crate::session::resources::Level;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sessions: Vec<Entry>,
    /// By program and neighbour.
    #[serde(default)]
    slowdowns: BTreeMap<String, BTreeMap<String, Slowdown>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Option<u64>,
    #[serde(default)]
    submit_s: f64,
    run_s: f64,
    processes: Option<u32>,
    /// Instead of how many processes: a process on each of these.
    #[serde(default)]
    slots: Vec<u32>,
    #[serde(default = "one")]
    threads: u32,
    #[serde(default)]
    whole: Whole,
    #[serde(default)]
    memory_bytes: u64,
    per_node_max: Option<u32>,
    #[serde(default)]
    priority: i32,
    estimate_s: Option<f64>,
    with: Option<u64>,
    program: Option<String>,
    slowdown_max: Option<Slowdown>,
    /// Whose it is, by any number.
    #[serde(default)]
    user: u32,
    #[serde(default)]
    role: Part,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Whole {
    #[default]
    Thread,
    Core,
    Socket,
    Node,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    #[default]
    Other,
    Simulation,
    Analysis,
}

pub(super) fn read(bytes: &[u8], name: &str) -> Result<Workload, WorkloadError> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| WorkloadError::Json(error.to_string()))?;
    let mut jobs = Vec::new();
    for (index, entry) in file.sessions.into_iter().enumerate() {
        let refuse = |found: String| WorkloadError::Json(format!("session {index}: {found}"));
        let time = |what: &str, seconds: f64| {
            milliseconds(seconds).ok_or_else(|| refuse(format!("{what}: {seconds} is no time in seconds")))
        };
        let whole = match entry.whole {
            Whole::Thread => Level::Thread,
            Whole::Core => Level::Core,
            Whole::Socket => Level::Socket,
            Whole::Node => Level::Node,
        };
        let role = match entry.role {
            Part::Other => Role::Other,
            Part::Simulation => Role::Simulation,
            Part::Analysis => Role::Analysis,
        };
        let named = Request::exactly(entry.slots);
        let processes = match (entry.processes, &named.slots[..]) {
            (Some(processes), []) => processes,
            (None, [_, ..]) => named.processes,
            (None, []) => return Err(refuse("it has neither `processes` nor `slots`".into())),
            (Some(_), _) => return Err(refuse("`slots` say how many `processes` it has".into())),
        };
        let request = Request {
            processes,
            slots: named.slots,
            threads: entry.threads,
            whole,
            memory_bytes: entry.memory_bytes,
            per_node_max: entry.per_node_max,
            priority: entry.priority,
            estimate: entry.estimate_s.map(|seconds| time("estimate_s", seconds)).transpose()?,
            with: entry.with.map(SessionId),
            program: entry.program,
            slowdown_max: entry.slowdown_max,
            user: entry.user,
        };
        let (submit_ms, run_ms) = (time("submit_s", entry.submit_s)?, time("run_s", entry.run_s)?.max(1));
        jobs.push(Job { number: entry.id.unwrap_or(index as u64), submit_ms, run_ms, request, role });
    }
    let mut foreseen = Foreseen::new();
    for (program, neighbours) in &file.slowdowns {
        neighbours.iter().for_each(|(neighbour, slowdown)| foreseen.set(program, neighbour, *slowdown));
    }
    let mut workload = Workload { name: name.to_owned(), jobs, foreseen, ..Workload::default() }.finish()?;
    join(&mut workload.jobs)?;
    Ok(workload)
}

/// Turns the numbers of the file in `with` into indices.
fn join(jobs: &mut [Job]) -> Result<(), WorkloadError> {
    let mut known: HashMap<u64, u64> = HashMap::new();
    for (index, job) in jobs.iter_mut().enumerate() {
        if let Some(with) = job.request.with {
            let found = known.get(&with.0).copied().map(SessionId);
            let missing = || {
                WorkloadError::Json(format!(
                    "session {} is with {}, which does not come before it",
                    job.number, with.0
                ))
            };
            job.request.with = Some(found.ok_or_else(missing)?);
        }
        known.insert(job.number, index as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_all_that_can_be_asked_for() {
        let text = br#"{"sessions": [
            {"id": 7, "submit_s": 1.5, "run_s": 2, "processes": 3, "with": 4, "whole": "core", "role": "analysis"},
            {"id": 5, "submit_s": 3, "run_s": 1, "slots": [7, 2]},
            {"id": 4, "run_s": 10, "processes": 8, "threads": 2, "estimate_s": 12, "priority": -1}]}"#;
        let workload = Workload::read(text, "test").expect("it is right");
        let [first, second, third] = &workload.jobs[..] else { panic!("three sessions") };
        assert_eq!((&third.request.slots[..], third.request.processes), (&[2, 7][..], 2));
        assert_eq!((first.number, first.request.estimate, first.request.threads), (4, Some(12_000), 2));
        assert_eq!((second.submit_ms, second.request.with), (1_500, Some(SessionId(0))));
        assert_eq!((second.request.whole, second.role), (Level::Core, Role::Analysis));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| Workload::read(text.as_bytes(), "test").unwrap_err().to_string();
        assert!(error(r#"{"sessions": [{"run_s": 1}]}"#).contains("neither `processes` nor `slots`"));
        assert!(error(r#"{"sessions": [{"run_s": -1, "processes": 1}]}"#).contains("run_s: -1 is no time"));
        assert!(
            error(r#"{"sessions": [{"run_s": 1, "processes": 1, "with": 3}]}"#)
                .contains("does not come before")
        );
        assert!(
            error(r#"{"sessions": [{"run_s": 1, "processes": 1, "prio": 3}]}"#)
                .contains("unknown field `prio`")
        );
    }
}
