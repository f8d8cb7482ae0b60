//! What Slurm says about its nodes and jobs, in the JSON of `sinfo` and `squeue`: that of Slurm 22.05 and of later ones, which write
//! numbers and states as objects and lists.

use anyhow::{Context as _, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// So long a command of Slurm's may take.
const PATIENCE_SECONDS: &str = "20";
/// Tasks of an array that waits which are looked at one by one.
const TASKS_MAX: usize = 256;
/// What the plug-in writes into a job's `AdminComment`: its beginning.
pub const MARK: &str = "castell";
/// What begins a comment that names the job's program.
const NAMES: &str = "castell:";

#[derive(Debug, Default)]
pub struct Cluster {
    pub nodes: Vec<Node>,
    pub jobs: Vec<Job>,
}

#[derive(Debug, PartialEq)]
pub struct Node {
    pub name: String,
    pub processors: u64,
    pub partitions: Vec<String>,
    /// It takes jobs.
    pub is_up: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum State {
    /// On nodes.
    Runs,
    /// Could be started.
    #[default]
    Waits,
    /// Waits for something that is not ours to decide: held, or depending on another one.
    IsKept,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// As `scontrol` wants it: `12`, or `12_3` for a task of an array.
    pub id: String,
    pub name: String,
    /// Its program and the class of its input, as the user says.
    pub named: Option<(String, Option<String>)>,
    /// Words of its script that may name its program.
    pub words: Vec<String>,
    /// From where it was submitted.
    pub folder: PathBuf,
    pub partitions: Vec<String>,
    pub state: State,
    /// Where it runs.
    pub nodes: Vec<String>,
    /// Where it is to run.
    pub required: Option<String>,
    pub node_count: u64,
    /// Processors that it asks for on each of its nodes.
    pub processors: u64,
    /// Nobody else may be on its nodes.
    pub is_exclusive: bool,
    /// The plug-in has seen it.
    pub is_marked: bool,
    pub priority: u64,
    /// Seconds since 1970.
    pub submitted: u64,
    /// It is not to start earlier; since when it may, if that is over.
    pub start: u64,
}

impl Cluster {
    /// As it is now.
    ///
    /// # Errors
    /// Slurm does not answer; says why.
    pub fn now() -> anyhow::Result<Cluster> {
        Ok(Cluster { nodes: nodes(&ask("sinfo", &["--json"])?)?, jobs: jobs(&ask("squeue", &["--json"])?)? })
    }
}

/// What a command of Slurm's prints.
///
/// # Errors
/// It is not there, takes too long or refuses; says which.
pub fn ask(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("timeout").arg(PATIENCE_SECONDS).arg(program).args(arguments).output();
    let output = output.context("cannot start `timeout`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Some(124) => bail!("`{program}` has not answered in {PATIENCE_SECONDS} s: is slurmctld running?"),
        Some(126 | 127) => bail!("there is no `{program}` here: --slurm needs Slurm's commands in the path"),
        _ => bail!("`{program} {}`: {}", arguments.join(" "), said.trim()),
    }
}

fn nodes(text: &str) -> anyhow::Result<Vec<Node>> {
    let node = |value: &Value| {
        let states: Vec<String> =
            ["state", "state_flags"].iter().flat_map(|key| words(&value[key])).collect();
        let has = |wanted: &[&str]| states.iter().any(|state| wanted.contains(&state.as_str()));
        let partitions = match &value["partitions"] {
            Value::Array(names) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            _ => Vec::new(),
        };
        const AWAY: [&str; 10] = [
            "drain",
            "drained",
            "draining",
            "down",
            "fail",
            "not_responding",
            "reboot_requested",
            "maintenance",
            "powered_down",
            "powering_down",
        ];
        Some(Node {
            name: value["name"].as_str()?.to_owned(),
            processors: number(&value["cpus"])?,
            partitions,
            is_up: has(&["idle", "mixed", "allocated"]) && !has(&AWAY),
        })
    };
    // Newer ones list groups of alike nodes under "sinfo", and single nodes only in scontrol.
    let read = |text: &str| -> anyhow::Result<Option<Vec<Node>>> {
        let value: Value =
            serde_json::from_str(text).context("what Slurm says about its nodes is no JSON")?;
        Ok(value["nodes"].as_array().map(|nodes| nodes.iter().filter_map(node).collect()))
    };
    match read(text)? {
        Some(nodes) => Ok(nodes),
        None => read(&ask("scontrol", &["show", "nodes", "--json"])?)?.context("Slurm lists no nodes"),
    }
}

fn jobs(text: &str) -> anyhow::Result<Vec<Job>> {
    let value: Value = serde_json::from_str(text).context("what `squeue --json` prints is no JSON")?;
    let values = value["jobs"].as_array().context("`squeue --json` lists no jobs")?;
    Ok(values.iter().filter_map(job).flatten().collect())
}

/// A job, or those tasks of an array that still stand for one; nothing if it is over.
fn job(value: &Value) -> Option<Vec<Job>> {
    let state = match words(&value["job_state"]).first()?.as_str() {
        "running" | "suspended" | "completing" | "configuring" | "stopped" => State::Runs,
        "pending" if is_kept(value) => State::IsKept,
        "pending" => State::Waits,
        _ => return None,
    };
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let list = |key: &str| -> Vec<String> {
        text(key).split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let count = |key: &str| number(&value[key]).unwrap_or(0);
    let nodes = match &value["job_resources"]["allocated_nodes"] {
        Value::Array(nodes) => {
            nodes.iter().filter_map(|node| node["nodename"].as_str()).map(str::to_owned).collect()
        }
        _ => list("nodes"),
    };
    let node_count = count("node_count").max(1);
    let asked = (count("tasks") * count("cpus_per_task").max(1)).div_ceil(node_count);
    let job = Job {
        id: String::new(),
        name: text("name").to_owned(),
        named: named(text("comment")),
        words: text("admin_comment").split_whitespace().skip(1).map(str::to_owned).collect(),
        folder: PathBuf::from(text("current_working_directory")),
        partitions: list("partition"),
        state,
        nodes,
        required: Some(text("required_nodes").to_owned()).filter(|nodes| !nodes.is_empty()),
        node_count,
        processors: asked.max(count("minimum_cpus_per_node")).max(1),
        is_exclusive: words(&value["shared"]).iter().any(|word| word == "none"),
        is_marked: text("admin_comment").starts_with(MARK),
        priority: count("priority"),
        submitted: count("submit_time"),
        // When it is expected to start is in `start_time`, and for some moments nothing.
        start: count("eligible_time"),
    };
    let ids = ids(value)?;
    Some(ids.into_iter().map(|id| Job { id, ..job.clone() }).collect())
}

fn is_kept(value: &Value) -> bool {
    let reason = value["state_reason"].as_str().unwrap_or_default();
    number(&value["priority"]) == Some(0)
        || ["JobHeld", "Dependency", "Reservation", "JobArrayTaskLimit"]
            .iter()
            .any(|kept| reason.starts_with(kept))
}

/// What the job is called, for a job alone; for an array that waits, its tasks.
fn ids(value: &Value) -> Option<Vec<String>> {
    let own = number(&value["job_id"])?;
    let array = number(&value["array_job_id"]).filter(|array| *array != 0);
    let Some(array) = array else { return Some(vec![own.to_string()]) };
    let tasks = value["array_task_string"].as_str().unwrap_or_default();
    match number(&value["array_task_id"]) {
        Some(task) if tasks.is_empty() => Some(vec![format!("{array}_{task}")]),
        _ if tasks.is_empty() => Some(vec![own.to_string()]),
        _ => Some(task_numbers(tasks).map(|task| format!("{array}_{task}")).take(TASKS_MAX).collect()),
    }
}

/// `1-3,7,10-20:5%4`, as far as it can be read.
fn task_numbers(text: &str) -> impl Iterator<Item = u64> {
    let text = text.split('%').next().unwrap_or_default();
    text.split(',').filter_map(range).flatten()
}

/// `10-20:5`
fn range(text: &str) -> Option<impl Iterator<Item = u64>> {
    let (range, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let step = number(step)?.clamp(1, 1 << 30) as usize;
    Some((number(first)?..=number(last)?).step_by(step))
}

/// What a comment names: `castell:NAME` or `castell:NAME:INPUT`.
fn named(comment: &str) -> Option<(String, Option<String>)> {
    let named = comment.split_whitespace().find_map(|word| word.strip_prefix(NAMES))?;
    let (name, input) = named.split_once(':').unwrap_or((named, ""));
    let input = Some(input.to_owned()).filter(|input| !input.is_empty());
    Some((name.to_owned(), input)).filter(|(name, _)| !name.is_empty())
}

/// A number, also where it is written as `{"set": true, "number": 5}`.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Object(fields) => {
            let is_set = fields.get("set").is_none_or(|set| set.as_bool() == Some(true));
            is_set.then(|| fields.get("number").and_then(number))?
        }
        _ => value.as_u64(),
    }
}

/// A word or a list of words, in small letters.
fn words(value: &Value) -> Vec<String> {
    let small = |word: &Value| word.as_str().map(str::to_lowercase);
    match value {
        Value::Array(list) => list.iter().filter_map(small).collect(),
        _ => small(value).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_programs() {
        let bt = |input: Option<&str>| Some(("bt".to_owned(), input.map(str::to_owned)));
        assert_eq!(named(""), None);
        assert_eq!(named("castell:bt"), bt(None));
        assert_eq!(named("for the paper castell:bt:C"), bt(Some("C")));
        assert_eq!(named("castell:"), None);
    }

    #[test]
    fn tasks_of_arrays() {
        let numbers = |text| task_numbers(text).collect::<Vec<u64>>();
        assert_eq!(numbers("1-3,7,10-20:5%4"), [1, 2, 3, 7, 10, 15, 20]);
        assert_eq!(numbers("5-..."), [0u64; 0]);
        assert_eq!(numbers("3-9:0"), [3, 4, 5, 6, 7, 8, 9]);
    }

    /// Both ways in which Slurm writes numbers and states.
    #[test]
    fn jobs_of_old_and_new_slurm() {
        let old = r#"{"jobs": [{"job_id": 7, "job_state": "PENDING", "name": "cg", "state_reason": "BeginTime", "priority": 5,
            "node_count": 1, "tasks": 2, "cpus_per_task": null, "minimum_cpus_per_node": 1, "partition": "main", "shared": null,
            "admin_comment": "castell srun ./cg", "submit_time": 100, "eligible_time": 160, "required_nodes": ""}]}"#;
        let new = r#"{"jobs": [{"job_id": 7, "job_state": ["PENDING"], "name": "cg", "state_reason": "BeginTime",
            "priority": {"set": true, "infinite": false, "number": 5}, "node_count": {"set": true, "number": 1},
            "tasks": {"set": true, "number": 2}, "cpus_per_task": {"set": false, "number": 0}, "minimum_cpus_per_node": {"set": true, "number": 1},
            "partition": "main", "shared": [], "admin_comment": "castell srun ./cg", "submit_time": {"set": true, "number": 100},
            "eligible_time": {"set": true, "number": 160}, "required_nodes": "", "array_job_id": {"set": true, "number": 0}}]}"#;
        let read = jobs(old).expect("jobs");
        assert_eq!(read, jobs(new).expect("jobs"));
        let job = &read[0];
        assert_eq!((job.id.as_str(), job.state, job.processors, job.is_marked), ("7", State::Waits, 2, true));
        assert_eq!((job.submitted, job.start, &job.required), (100, 160, &None));
        assert_eq!(job.words, ["srun", "./cg"]);
        assert!(jobs("{}").is_err() && jobs("no").is_err());
    }
}
