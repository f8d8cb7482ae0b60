//! How many workers there are where the system grants less than the machine has: under real affinity masks, control groups
//! and Slurm steps. What cannot be had here is skipped, for CI to see.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
#[path = "../../comm/tests/slurm/mod.rs"]
mod slurm;

use castell_tasks::Runtime;
use skipped::skip;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Set for the process that builds a runtime and tells what came of it.
const INSIDE: &str = "CASTELL_TEST_INSIDE";

/// Workers, and the processors that the first worker's thread may use.
#[derive(Debug, PartialEq)]
struct Seen {
    workers: usize,
    cpus: String,
}

/// The inner part: a normal test run passes by.
#[test]
fn as_a_program() {
    let Ok(how) = std::env::var(INSIDE) else { return };
    let runtime = Runtime::builder().bind(how == "bind").build().expect("threads start");
    let cpus = runtime.run(|_| {
        let status = fs::read_to_string("/proc/thread-self/status").expect("Linux");
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.expect("the kernel says it").trim().to_owned()
    });
    println!("saw {} {}", runtime.workers().len(), cpus.expect("nothing fails"));
}

/// What a process sees that `words` start.
fn under(words: &[&str], how: &str, environment: &[(&str, &str)]) -> Option<Seen> {
    let me = std::env::current_exe().expect("a program knows its path");
    let mut command = Command::new(words.first().map_or(me.as_os_str(), |word| word.as_ref()));
    command.args(words.iter().skip(1));
    if !words.is_empty() {
        command.arg(&me);
    }
    command.args(["--exact", "as_a_program", "--nocapture", "--test-threads", "1"]);
    command.env_remove("SLURM_CPUS_PER_TASK").env(INSIDE, how).envs(environment.iter().copied());
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {text}{errors}");
    let seen = text.lines().find_map(|line| line.split_once("saw ").map(|(_, seen)| seen));
    let (workers, cpus) = seen.and_then(|seen| seen.split_once(' ')).expect("it tells");
    Some(Seen { workers: workers.parse().expect("a number"), cpus: cpus.to_owned() })
}

#[test]
fn affinity_masks_are_honoured() {
    let all = under(&[], "", &[]).expect("this program can be started");
    let first = all.cpus.split([',', '-']).next().expect("a processor");
    let last = all.cpus.split([',', '-']).next_back().expect("a processor");
    for cpu in [first, last] {
        let Some(narrow) = under(&["taskset", "-c", cpu], "bind", &[]) else {
            return skip("taskset", "not installed");
        };
        assert_eq!(narrow, Seen { workers: 1, cpus: cpu.to_owned() });
    }
    if all.workers > 1 {
        let bound = under(&[], "bind", &[]).expect("starts");
        assert_eq!(bound.workers, all.workers);
        assert!(bound.cpus.parse::<u32>().is_ok(), "bound to one processor: {bound:?}");
    }
}

/// A control group of our own, gone with the value.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A group that grants `hundredths` of a processor, of either version; `None`: not here.
fn group(hundredths: u32) -> Option<Group> {
    let name = format!("castell-test-{}-{hundredths}", std::process::id());
    let quota = (hundredths * 1000).to_string();
    for (root, settings) in [
        (
            "/sys/fs/cgroup/cpu",
            [("cpu.cfs_period_us", "100000".to_owned()), ("cpu.cfs_quota_us", quota.clone())],
        ),
        ("/sys/fs/cgroup", [("cgroup.type", "domain".to_owned()), ("cpu.max", format!("{quota} 100000"))]),
    ] {
        let folder = PathBuf::from(root).join(&name);
        if !PathBuf::from(root).join("cgroup.procs").exists() || fs::create_dir(&folder).is_err() {
            continue;
        }
        let group = Group(folder);
        let set = settings.iter().filter(|(file, _)| !file.starts_with("cgroup"));
        if set.clone().all(|(file, value)| fs::write(group.0.join(file), value).is_ok()) {
            return Some(group);
        }
    }
    None
}

#[test]
fn quotas_of_control_groups_are_honoured() {
    let all = under(&[], "", &[]).expect("this program can be started").workers;
    for (hundredths, room) in [(50, 1), (100, 1), (150, 2)] {
        let Some(group) = group(hundredths) else {
            return skip("processor-quotas", "control groups with one cannot be made here");
        };
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
        let seen = under(&["sh", "-c", &join], "", &[]).expect("a shell");
        assert_eq!(seen.workers, all.min(room), "{hundredths} hundredths of a processor");
    }
}

#[test]
fn slurm_steps_are_honoured() {
    let slurm = match slurm::Slurm::start() {
        Ok(slurm) => slurm,
        Err(why) => return skip("slurm", &why),
    };
    if !slurm.offers("none") {
        return skip("slurm-none", "this Slurm starts no plain programs");
    }
    let conf = [("SLURM_CONF", slurm.configuration())];
    let srun = |more: &[&'static str]| {
        let words = [&["srun", "--mpi=none", "--overcommit", "-n", "1"], more].concat();
        under(&words, "", &conf).expect("srun is there").workers
    };
    assert_eq!(srun(&["--cpus-per-task", "1"]), 1);
}
