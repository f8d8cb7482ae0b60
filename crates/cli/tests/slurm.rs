//! `castell place --slurm`, with the plug-in of `packaging/slurm` in a real Slurm of ten nodes of two slots.

mod json_page;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
#[path = "../../comm/tests/slurm/mod.rs"]
mod slurm;

use json_page::stands_on_the_page;
use serde_json::Value;
use skipped::skip;
use slurm::{Layout, Slurm};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const PLUGIN: &str = include_str!("../../../packaging/slurm/job_submit.lua");
const SCRIPT: &str = include_str!("../../../packaging/slurm/castell-place");

/// A Slurm with the plug-in, whose script is at `place`, and a grace of `grace` seconds.
fn start(nodes: u16, place: &Path, grace: u32) -> Option<Slurm> {
    let edited = |text: &str, from: &str, to: String| {
        assert!(text.contains(from), "{from} is not in the plug-in any more");
        text.replace(from, &to)
    };
    let plugin = edited(PLUGIN, "/etc/slurm/castell-place", place.display().to_string());
    let plugin = edited(&plugin, "grace = 60", format!("grace = {grace}"));
    let settings = format!(
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSchedulerType=sched/backfill\nSchedulerParameters=bf_interval=1\n\
         JobSubmitPlugins=lua\nEpilogSlurmctld={}",
        place.display()
    );
    let layout = Layout {
        nodes,
        processors: 2,
        settings: &settings,
        partition: "OverSubscribe=FORCE:1",
        files: &[("job_submit.lua", &plugin)],
        lab: None,
    };
    match Slurm::start_with(&layout) {
        Ok(slurm) => Some(slurm),
        Err(why) => {
            skip("slurm-place", &why);
            None
        }
    }
}

/// The script that ships, with this castell and these options.
fn script(folder: &Path, options: &str) -> PathBuf {
    let castell = Path::new(env!("CARGO_BIN_EXE_castell"));
    let path = folder.join("castell-place");
    let folder = folder.display();
    let text = SCRIPT.replace("OPTIONS=\"\"", &format!("OPTIONS=\"{options}\"")).replace(
        "PATH=/usr/local/bin",
        &format!(
            "XDG_RUNTIME_DIR={folder}; XDG_DATA_HOME={folder}; export XDG_RUNTIME_DIR XDG_DATA_HOME\nPATH={}:/usr/local/bin",
            castell.parent().expect("a folder").display()
        ),
    );
    fs::write(&path, text).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    path
}

fn submit(slurm: &Slurm, name: &str, more: &[&str]) {
    submit_command(slurm, name, more, "sleep");
}

fn submit_command(slurm: &Slurm, name: &str, more: &[&str], program: &str) {
    let job = ["-n1", "-J", name, "--output=/dev/null"];
    // exec: proctrack/linuxproc loses children of a script that ends before them.
    let command = format!("exec {program} 1000");
    let said = slurm.ask("sbatch", &[&job[..], more, &["--wrap", &command]].concat()).expect("sbatch");
    assert!(said.contains("Submitted"), "{said}");
}

/// Profiles of simulated programs, of which some are said to be those of binaries in `folder`: each does the same and has a content of its
/// own. Returns the folder of profiles.
fn profiled(folder: &Path, programs: &[&str]) -> PathBuf {
    let store = folder.join("profiles");
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(["predict", "--simulate", "kernels", "--scale", "64", "--json", "--keep"]).arg(&store);
    assert!(command.output().expect("castell can be started").status.success());
    for program in programs {
        let file = binary(folder, program, program);
        let said = Command::new("sha256sum").arg(&file).output().expect("sha256sum").stdout;
        let profile = store.join(format!("{program}.json"));
        let mut value: Value = serde_json::from_slice(&fs::read(&profile).expect("a profile")).expect("JSON");
        value["binary"] = serde_json::json!({
            "path": file, "bytes": fs::metadata(&file).expect("a file").len(), "sha256": String::from_utf8_lossy(&said[..64]),
        });
        fs::write(&profile, value.to_string()).expect("a profile");
    }
    store
}

/// A program that sleeps, with something in it that others have not.
fn binary(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    let sleep = fs::read("/bin/sleep").expect("a program");
    fs::write(&path, [&sleep[..], content.as_bytes()].concat()).expect("a program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    path
}

/// Nodes with the names of the jobs that run there.
fn running(slurm: &Slurm) -> BTreeMap<String, Vec<String>> {
    let said = slurm.ask("squeue", &["-h", "-t", "running", "-o", "%N %j"]).expect("squeue");
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (node, job) in said.lines().filter_map(|line| line.trim().split_once(' ')) {
        nodes.entry(node.to_owned()).or_default().push(job.to_owned());
    }
    nodes
}

#[track_caller]
fn wait_for(slurm: &Slurm, what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        let queue = || {
            let plan = String::from_utf8_lossy(&place(slurm, &[]).stdout).into_owned();
            plan + &slurm.ask("squeue", &["-o", "%i %j %T %S %N %n %r"]).unwrap_or_default()
        };
        assert!(start.elapsed() < Duration::from_secs(60), "waiting for {what}:\n{}", queue());
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn place(slurm: &Slurm, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(["place", "--slurm"]).args(arguments).env("SLURM_CONF", slurm.configuration());
    command.output().expect("castell can be started")
}

#[test]
fn twins_are_kept_apart_and_partners_are_chosen_when_jobs_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(slurm) = start(10, &script(folder.path(), ""), 600) else { return };
    let programs = ["bt", "cg", "dc", "ep", "ft", "is", "lu", "mg", "sp", "ua"];
    for _ in 0..2 {
        programs.iter().for_each(|program| submit(&slurm, program, &[]));
    }
    wait_for(&slurm, "twenty jobs that run", || running(&slurm).values().map(Vec::len).sum::<usize>() == 20);
    let nodes = running(&slurm);
    assert!(
        nodes.len() == 10 && nodes.values().all(|jobs| jobs.len() == 2 && jobs[0] != jobs[1]),
        "{nodes:?}"
    );

    // One more of each of two: nothing is decided before a slot is free; then the right one takes it.
    submit(&slurm, "bt", &[]);
    wait_for(&slurm, "it to be told to wait", || {
        let output = place(&slurm, &["--json"]);
        let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        plan["jobs"].as_array().is_some_and(|jobs| jobs.len() == 1 && jobs[0]["choice"] == "full")
    });
    let required = slurm.ask("squeue", &["-h", "-t", "pending", "-o", "%n|%j"]).expect("squeue");
    assert_eq!(required.trim(), "|bt", "it has no node yet");
    let (node, jobs) = nodes.iter().find(|(_, jobs)| jobs.contains(&"bt".to_owned())).expect("bt runs");
    let other = jobs.iter().find(|job| *job != "bt").expect("a partner");
    // Beside bt a slot gets free: it is not for this one.
    let cancel = |node: &str, job: &str| {
        slurm.ask("scancel", &["-w", node, "-n", job]).expect("scancel");
    };
    cancel(node, other);
    wait_for(&slurm, "the slot to be free", || running(&slurm)[node].len() == 1);
    // The one that ends holds its slot for a moment.
    wait_for(&slurm, "the plan to say why it waits", || {
        let shown = place(&slurm, &[]);
        String::from_utf8_lossy(&shown.stdout).contains("free slots are only beside what it is kept from")
    });
    let (elsewhere, jobs) =
        nodes.iter().find(|(_, jobs)| !jobs.contains(&"bt".to_owned())).expect("a node without bt");
    cancel(elsewhere, &jobs[0]);
    wait_for(&slurm, "it to start there", || {
        running(&slurm).get(elsewhere).is_some_and(|jobs| jobs.contains(&"bt".to_owned()))
    });
}

#[test]
fn what_castell_does_not_place_or_does_not_see_slurm_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    // The script fails; what the plug-in has marked begins by itself.
    let Some(slurm) = start(2, &folder.path().join("is-not-there"), 2) else { return };
    submit(&slurm, "cg", &[]);
    submit(&slurm, "cg", &[]);
    submit(&slurm, "whole", &["--exclusive"]);
    let all = || running(&slurm).values().map(Vec::len).sum::<usize>() >= 2;
    wait_for(&slurm, "jobs that run without castell", all);
    let marks = slurm.ask("scontrol", &["show", "job", "-o"]).expect("scontrol");
    let lines: Vec<&str> = marks.lines().filter(|line| line.starts_with("JobId=")).collect();
    assert_eq!(lines.len(), 3, "{marks}");
    for line in lines {
        assert_eq!(line.contains("JobName=cg"), line.contains("AdminComment=castell"), "{marks}");
    }
}

#[test]
fn jobs_are_known_by_their_binaries_whatever_they_are_called() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = profiled(folder.path(), &["triad", "options", "chase"]);
    let options = format!("--profiles {} --max-slowdown 100%", store.display());
    let Some(slurm) = start(2, &script(folder.path(), &options), 600) else { return };
    let here = format!("--chdir={}", folder.path().display());
    let export = format!("--export=ALL,WHERE={}", folder.path().display());
    let submit = |program: &str| submit_command(&slurm, "job", &[&here, &export], program);
    let running = || running(&slurm).values().map(Vec::len).sum::<usize>();
    submit("./triad");
    submit("./options");
    wait_for(&slurm, "two that run", || running() == 2);
    // It suffers sevenfold beside a stream, and nothing beside what computes: predicted, not measured.
    submit("${WHERE}/chase");
    wait_for(&slurm, "a third one", || running() == 3);
    let shown = || {
        let shown =
            place(&slurm, &["--profiles", &store.display().to_string(), "--max-slowdown", "100%", "--json"]);
        serde_json::from_slice::<Value>(&shown.stdout).expect("JSON")
    };
    let there = shown();
    let together: Vec<&Value> =
        there["nodes"].as_array().expect("nodes").iter().map(|node| &node["programs"]).collect();
    let has =
        |names: &Value, name: &str| names.as_array().is_some_and(|names| names.iter().any(|is| is == name));
    assert!(together.iter().any(|names| has(names, "options") && has(names, "chase")), "{there:#}");
    // Compiled anew, not there, and never seen: what is known and how is told.
    let other = folder.path().join("other");
    fs::create_dir(&other).expect("a folder");
    binary(&other, "chase", "another");
    submit("other/chase");
    submit("/nowhere/chase");
    submit("./chase");
    submit("sleep");
    let how = |shown: &Value| -> Vec<(Value, Value)> {
        let jobs = shown["jobs"].as_array().cloned().unwrap_or_default();
        jobs.iter().map(|job| (job["by"].clone(), job["how"].clone())).collect()
    };
    // The last one is none that is kept from a stream.
    wait_for(&slurm, "three that wait", || running() == 4 && how(&shown()).len() == 3);
    let of_name =
        |why: &str| ("name".into(), format!("a profile of that name is kept, its binary {why}").into());
    let expected = [
        of_name("is not the one that was profiled"),
        of_name("cannot be seen from here"),
        ("binary".into(), "its binary was profiled".into()),
    ];
    let all = shown();
    assert_eq!(how(&all), expected, "{all:#}");
    stands_on_the_page("place --slurm", &all);
}

#[test]
fn ten_profiled_programs_twice_are_placed_by_their_binaries() {
    let folder = tempfile::tempdir().expect("a folder");
    let programs = ["triad", "copy", "sum", "chase", "mvt", "hash_s", "merge", "options", "lu", "matmul"];
    let store = profiled(folder.path(), &programs);
    let options = format!("--profiles {}", store.display());
    let Some(slurm) = start(10, &script(folder.path(), &options), 600) else { return };
    let here = format!("--chdir={}", folder.path().display());
    for _ in 0..2 {
        programs.iter().for_each(|program| submit_command(&slurm, "job", &[&here], &format!("./{program}")));
    }
    wait_for(&slurm, "twenty jobs that run", || running(&slurm).values().map(Vec::len).sum::<usize>() == 20);
    let output = place(&slurm, &["--profiles", &store.display().to_string(), "--json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let nodes: Vec<Vec<String>> = plan["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| serde_json::from_value(node["programs"].clone()).expect("names"))
        .collect();
    let mut all: Vec<&String> = nodes.iter().flatten().collect();
    all.sort();
    let mut twice: Vec<&str> = programs.iter().chain(&programs).copied().collect();
    twice.sort_unstable();
    assert!(all == twice && nodes.iter().all(|node| node.len() == 2), "{nodes:?}");
}

#[test]
fn a_castell_that_hangs_leaves_slurm_as_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    // The script that ships, but castell never answers; behind it waits whoever is told to end with slurmctld.
    let path = script(folder.path(), "");
    let text = fs::read_to_string(&path).expect("a script");
    let hangs = folder.path().join("hangs");
    fs::create_dir(&hangs).expect("a folder");
    let castell = hangs.join("castell");
    fs::write(&castell, format!("#!/bin/sh\necho >>{}/begun\nexec sleep 3000\n", folder.path().display()))
        .expect("a program");
    fs::set_permissions(&castell, fs::Permissions::from_mode(0o755)).expect("a program");
    fs::write(
        &path,
        text.replace("PATH=/", &format!("PATH={}:/", hangs.display()))
            .replace("timeout -k 10 120", "timeout -k 1 20"),
    )
    .expect("a script");
    let Some(slurm) = start(2, &path, 2) else { return };
    (0..3).for_each(|_| submit(&slurm, "cg", &[]));
    wait_for(&slurm, "three jobs that run", || running(&slurm).values().map(Vec::len).sum::<usize>() == 3);
    assert!(folder.path().join("begun").exists(), "castell was started, and hangs");
    // Jobs that end, with an epilogue that waits for nobody.
    slurm.ask("scancel", &["-n", "cg"]).expect("scancel");
    wait_for(&slurm, "nodes to be free again", || {
        slurm
            .ask("sinfo", &["-h", "-N", "-o", "%t"])
            .is_ok_and(|states| states.lines().all(|state| state.trim() == "idle"))
    });
}

#[test]
fn a_table_says_who_goes_beside_whom() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join("table.csv");
    fs::write(&table, "program,a,b,c\na,1.9,1.8,1.1\nb,1.8,1.9,1.8\nc,1.1,1.8,1.0\n").expect("a table");
    let options = format!("--slowdowns {}", table.display());
    let Some(slurm) = start(2, &script(folder.path(), &options), 600) else { return };
    submit(&slurm, "job", &["--comment=castell:b:large"]);
    submit(&slurm, "job", &["--comment=castell:a"]);
    wait_for(&slurm, "a and b on nodes of their own", || running(&slurm).len() == 2);
    submit(&slurm, "c", &[]);
    wait_for(&slurm, "c", || running(&slurm).values().any(|jobs| jobs.contains(&"c".to_owned())));
    let with_c = slurm.ask("squeue", &["-h", "-t", "running", "-o", "%N %j %k"]).expect("squeue");
    let node_of = |what: &str| {
        with_c.lines().find(|line| line.contains(what)).and_then(|line| line.split_whitespace().next())
    };
    assert!(node_of(" c ").is_some() && node_of(" c ") == node_of("castell:a"), "{with_c}");
    let output = place(
        &slurm,
        &["--partition", "main", "--patience", "30m", "--slowdowns", &table.display().to_string()],
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("2 nodes of 2 slots, 3 of 4 taken") && text.contains("no job waits"), "{text}");
}

#[test]
fn without_slurm_the_error_says_what_is_missing() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    let empty = tempfile::tempdir().expect("a folder");
    // `timeout`, and nothing else.
    std::os::unix::fs::symlink("/usr/bin/timeout", empty.path().join("timeout")).expect("a link");
    let output = command.args(["place", "--slurm"]).env("PATH", empty.path()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no `sinfo` here"), "{said}");
}
