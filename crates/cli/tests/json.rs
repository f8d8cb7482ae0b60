//! The page about JSON in the book names every key that commands print.

mod json_page;

use castell_host::board::Membership;
use castell_host::mailbox::{Mailbox, Place, default_path};
use json_page::stands_on_the_page;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What commands print; `FOLDER` is one with a graph of tasks and a mailbox in it.
const COMMANDS: [&str; 52] = [
    "predict --simulate kernels --scale 64 chase triad",
    "goal check examples/goal/halo.goal",
    "goal check vectors/goal/check/deadlock.goal",
    "goal dump examples/goal/barrier.goal",
    "goal dump --schedule examples/goal/barrier.goal",
    "run examples/goal/pingpong.goal",
    "run /nowhere/x.goal",
    "run examples/goal/pingpong.goal --repeat 3",
    "info",
    "simulate bcast:binomial --ranks 8 --measure --critical-path",
    "simulate bcast:binomial --ranks 8 --repeat 3 --model loggops:o=normal(1500ns,100ns)",
    "simulate barrier:linear --ranks 8 --network torus:dims=2x4",
    "simulate barrier:linear allreduce:halving-doubling --sweep ranks=6..8:+1",
    "simulate alltoall:pairwise --ranks 8 --network torus:dims=2x4 --links FOLDER/links.svg",
    "simulate alltoall:pairwise --ranks 8 --network torus:dims=2x4 --measure",
    "simulate /nowhere/x.goal",
    "simulate nothing:linear --ranks 8",
    "simulate --list",
    "schedule list",
    "schedule allreduce --ranks 7 --all",
    "schedule check a4,a2 --ranks 8",
    "fit --model plb vectors/model/plb-xc30.csv",
    "profile --replay crates/prof/tests/recordings/made-up.json",
    "probe --distance 64K --rounds 3",
    "slowdown --who 2147483647",
    "strategy list",
    "strategy check banking --nodes 3",
    "strategy diff banking constraint --apps vectors/strategy/kernel-times.csv",
    "strategy simulate --apps vectors/strategy/kernel-times.csv",
    "bench collectives --ops barrier --ranks 2 --rounds 1 --samples 1 --no-peers",
    "bench sim --ranks 8 --threads 1 --rounds 1 --samples 1 --no-peers",
    "bench tasks empty:tasks=100 --rounds 1 --samples 1 --no-peers",
    "bench metg --workers 1 --rounds 1 --samples 1 --no-peers",
    "tune --ops allreduce --ranks 2 --bytes 64 --rounds 1 --no-peers",
    "cpus --folder FOLDER",
    "cpus PID --folder FOLDER",
    "cpus --node --board FOLDER/processors",
    "tasks simulate FOLDER/graph.goal --machine cpu:2",
    "top",
    "simulate barrier:linear allreduce:halving-doubling --sweep ranks=6..8:+2 --repeat 3 --model loggops:o=normal(1500ns,100ns)",
    "run examples/goal/pingpong.goal --stages",
    "run examples/goal/pingpong.goal --model loggp:L=1us,o=300ns,g=400ns,G=0.1ns",
    "session simulate djsb --nodes 2 --cores 8",
    "session list",
    "place 4x2 --rule twins",
    "place 4x2 --all",
    "place a:2,b:2 --all --slowdowns FOLDER/table.csv",
    "place a:2,b:2 --slowdowns FOLDER/table.csv",
    "place --split search cg:50 --simulate --cores 2",
    "profiles list --profiles FOLDER/profiles",
    "tune knobs --knob A=1..9 --measure FOLDER/measure --samples 4 --budget 3",
    "distances --functions --threads -- true",
];

/// Whatever the page tells of, some test compares with it.
#[test]
fn every_row_of_the_page_is_compared() {
    let mut compared: Vec<String> = COMMANDS.iter().map(ToString::to_string).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).expect("Rust");
            let calls = text.split("stands_on_the_page(\"").skip(1);
            compared.extend(calls.filter_map(|call| Some(call.split_once('"')?.0.to_owned())));
        }
    }
    let is_compared = |row: &&str| {
        let mut words = row.split(" --");
        let command = words.next().unwrap_or_default();
        let options: Vec<String> = words.map(|option| format!(" --{option}")).collect();
        compared.iter().any(|by| by.starts_with(command) && options.iter().all(|option| by.contains(option)))
    };
    let rows = json_page::PAGE.lines().filter(|row| row.starts_with("| `"));
    let missing: Vec<&str> = rows.flat_map(json_page::names).filter(|row| !is_compared(row)).collect();
    assert!(missing.is_empty(), "no test compares what these print with docs/src/json.md: {missing:?}");
}

#[test]
fn every_key_stands_on_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("graph.goal"), "num_ranks 1\nrank 0 {\na: calc 1000\n}\n")
        .expect("a file");
    std::fs::write(folder.path().join("table.csv"), "program,a,b\na,1.3,1.1\nb,1.1,1.2\n").expect("a file");
    let measure = folder.path().join("measure");
    std::fs::write(&measure, "#!/bin/sh\necho $A\n").expect("a file");
    std::fs::set_permissions(&measure, std::fs::Permissions::from_mode(0o755)).expect("its own");
    let pid = std::process::id();
    let mailbox = Mailbox::create(&default_path(folder.path(), pid), &[Place { cpu: Some(0), kind: 0 }]);
    let _mailbox = mailbox.expect("a mailbox");
    let _shared = Membership::join(&folder.path().join("processors"), 1, &[0]).expect("a board");
    for command in COMMANDS {
        let line = command
            .replace("FOLDER", folder.path().to_str().expect("a path"))
            .replace("PID", &pid.to_string());
        let (own, others) =
            line.split_once(" -- ").map_or((&*line, None), |(own, others)| (own, Some(others)));
        let mut castell = Command::new(env!("CARGO_BIN_EXE_castell"));
        castell.args(own.split_whitespace()).arg("--json");
        castell.args(others.map(|others| ["--", others]).into_iter().flatten());
        castell.current_dir(&root).env("XDG_CONFIG_HOME", folder.path()).stdin(Stdio::null());
        let output = castell.output().expect("it starts");
        // One value, and nothing beside it.
        let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{command}: {error}: {}", String::from_utf8_lossy(&output.stdout))
        });
        stands_on_the_page(command, &value);
        if output.status.code() == Some(1) {
            assert!(value.get("error").is_some() || value["ok"] == false, "{command}: {value}");
        }
    }
}
