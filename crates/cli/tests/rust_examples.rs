//! The Rust examples under `castell launch`.

#[path = "../../capi/tests/installed/mod.rs"]
mod installed;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn rust_examples_check_themselves_in_groups_of_any_size() {
    for example in
        examples(&["hello_graph", "barrier_dissemination", "collectives", "allreduce_recursive_doubling"])
    {
        for ranks in ["1", "2", "3", "4", "8"] {
            let mut launcher = Command::new(env!("CARGO_BIN_EXE_castell"));
            launcher.args(["launch", "--timeout", "60s", "-n", ranks, "--"]).arg(&example);
            let run = launcher.output().expect("castell can be started");
            let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
            let what = format!("{} as a group of {ranks}", example.display());
            assert!(run.status.success(), "{what} ended with {}:\n{out}{err}", run.status);
            assert!(!out.is_empty(), "{what} said nothing");
        }
    }
}

#[test]
fn task_examples_check_themselves() {
    let names = ["cholesky", "heat", "multiaxpy", "multisort", "nqueens", "sparselu"];
    for example in examples(&names.map(|name| format!("tasks_{name}"))) {
        let run = Command::new(&example).output().expect("the example can be started");
        let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success(), "{} ended with {}:\n{out}{err}", example.display(), run.status);
    }
}

fn timeline(ranks: &str, options: &[&str], program: &Path) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.json");
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_castell"));
    launcher.args(["launch", "--timeout", "60s", "-n", ranks, "--timeline"]).arg(&file).args(options);
    let run = launcher.arg("--").arg(program).output().expect("castell can be started");
    let err = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{}: {}: {err}", program.display(), run.status);
    let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}: {err}", program.display()));
    (serde_json::from_slice(&text).expect("JSON"), err)
}

fn events<'a>(timeline: &'a Value, phase: &str) -> Vec<&'a Value> {
    let events = timeline["traceEvents"].as_array().expect("a list");
    events.iter().filter(|event| event["ph"] == phase).collect()
}

#[test]
fn timelines_of_programs_have_every_ranks_calls_graphs_messages_and_tasks() {
    let programs = examples(&["collectives", "allreduce_recursive_doubling", "tasks_cholesky"]);
    let (calls, _) = timeline("3", &[], &programs[0]);
    let names = |timeline: &Value, of: &str| -> Vec<u64> {
        let spans = events(timeline, "X").into_iter();
        let named = spans.filter(|span| span["name"].as_str().is_some_and(|name| name.contains(of)));
        let mut ranks: Vec<u64> = named.filter_map(|span| span["pid"].as_u64()).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    };
    assert_eq!(names(&calls, "allreduce of "), [0, 1, 2]);
    assert_eq!(names(&calls, "the program"), [0, 1, 2]);
    // Each message leaves before it is received.
    let (left, received) = (events(&calls, "s"), events(&calls, "f"));
    assert!(!left.is_empty() && left.len() == received.len(), "{} and {}", left.len(), received.len());
    for (left, received) in left.iter().zip(received) {
        assert!(left["ts"].as_f64() <= received["ts"].as_f64(), "{left} {received}");
    }
    let (graphs, _) = timeline("4", &[], &programs[1]);
    assert_eq!(names(&graphs, "recv "), [0, 1, 2, 3]);
    let (tasks, _) = timeline("1", &[], &programs[2]);
    assert_eq!(names(&tasks, "potrf (worker "), [0]);
    // What finds no room is told of.
    let (few, err) = timeline("2", &["--timeline-events", "5"], &programs[0]);
    assert!(err.contains("the timeline lacks "), "{err}");
    assert!(!events(&few, "X").is_empty());
}

#[test]
fn what_was_recorded_is_simulated_too() {
    let programs = examples(&["collectives", "allreduce_recursive_doubling", "tasks_cholesky"]);
    let folder = tempfile::tempdir().expect("a folder");
    let goal = folder.path().join("out.goal");
    let goal = goal.to_str().expect("a plain name");
    for (ranks, program) in ["3", "4", "2"].iter().zip(&programs) {
        let (measured, err) =
            timeline(ranks, &["--model", "loggps:L=1us,o=300ns,g=400ns,G=0.1ns", "--goal", goal], program);
        assert!(err.contains("predicted ") && err.contains("critical path"), "{err}");
        assert!(err.contains(&format!("program: {goal}")) && !err.contains("are in no simulation"), "{err}");
        // All messages are in the program, which runs to its end, and computes no less than the slowest rank did.
        let simulate = Command::new(env!("CARGO_BIN_EXE_castell"))
            .args(["simulate", goal, "--model", "logp:L=0ns,o=0ns,g=0ns", "--json"])
            .output();
        let simulate = simulate.expect("castell can be started");
        let simulated: Value = serde_json::from_slice(&simulate.stdout).expect("JSON");
        let text = std::fs::read_to_string(goal).expect("a program");
        let sends = text.lines().filter(|line| line.contains("send ")).count();
        assert_eq!(sends, events(&measured, "s").len(), "{text}");
        let own = events(&measured, "X").into_iter().filter(|span| span["name"] == "the program");
        let mut by_rank = std::collections::BTreeMap::new();
        for span in own {
            *by_rank.entry(span["pid"].as_u64()).or_insert(0.0) +=
                span["dur"].as_f64().expect("microseconds");
        }
        let longest = by_rank.values().fold(0.0, |longest: f64, us| longest.max(*us));
        let end_us = simulated["makespan_ps"].as_f64().expect("a number") * 1e-6;
        assert!(end_us >= longest * 0.999, "{end_us} us, {longest} us computed: {simulated}");
    }
    // Both are drawn, one beneath the other.
    let drawing = folder.path().join("both.svg");
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_castell"));
    launcher.args(["launch", "--timeout", "60s", "-n", "2", "--model", "loggps", "--timeline"]).arg(&drawing);
    assert!(launcher.arg("--").arg(&programs[0]).status().expect("castell can be started").success());
    let drawing = std::fs::read_to_string(&drawing).expect("a drawing");
    assert!(drawing.contains(">collectives<") && drawing.contains(">collectives, predicted<"));
}

/// Builds the examples of the crate `castell` beside this test, which lies in `<target>/<profile>/deps`.
fn examples(names: &[impl AsRef<str>]) -> Vec<PathBuf> {
    let test = std::env::current_exe().expect("a program knows its path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("tests lie in deps");
    let mut build = installed::cargo();
    // As `cargo test --workspace` has built them already: the crate alone has other features, and would be built again.
    build.args(["build", "--quiet", "--locked", "--workspace", "--examples"]);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let target = folder.parent().expect("profiles lie in the target folder");
    let status = build.env("CARGO_TARGET_DIR", target).current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(status.expect("cargo can be started").success(), "the examples cannot be built");
    names.iter().map(|name| folder.join("examples").join(name.as_ref())).collect()
}
