//! `castell session`: policies in one table, charts, and a session on this host from its start to the end of its agent.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn castell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_castell"))
        .arg("session")
        .args(arguments)
        .output()
        .expect("castell starts")
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn policies_are_compared() {
    let output = castell(&["simulate", "djsb", "--nodes", "4", "--cores", "40", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let policies = json["policies"].as_array().expect("a list");
    assert_eq!((json["slots"].as_u64(), policies.len()), (Some(160), 7));
    for row in policies {
        // Under give-way the last analysis is not much shorter than what is left of the simulation.
        let waits = row["policy"] == "wait" || row["policy"] == "give-way";
        assert_eq!(row["w"].as_f64().expect("a number") < 1.0, waits, "{row}");
    }
    let (table, _) = text(&castell(&["simulate", "lublin:jobs=200", "--policy", "surpass"]));
    assert!(table.contains("fairness") && table.contains("surpass"), "{table}");
}

#[test]
fn charts_and_workloads_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (svg, swf) = (path("gantt.svg"), path("djsb.swf"));
    let chart = [
        "simulate",
        "djsb",
        "--nodes",
        "4",
        "--cores",
        "40",
        "--policy",
        "sidestep",
        "--timeline",
        &svg,
        "--write",
        &swf,
    ];
    let output = castell(&chart);
    assert!(output.status.success(), "{:?}", text(&output));
    assert!(fs::read_to_string(&svg).expect("a drawing").contains("simulation 0: 40 slots, shares"));
    assert!(castell(&["simulate", &swf, "--nodes", "4", "--cores", "40"]).status.success());
}

#[test]
fn what_is_wrong_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.swf");
    fs::write(&trace, "; MaxProcs: 4\n1 2 3\n").expect("a file");
    let trace = trace.to_string_lossy();
    for (arguments, expected) in [
        (vec!["simulate", "lublin:jobs=x"], "expected a number from 1"),
        (vec!["simulate", "nothing.swf"], "cannot read `nothing.swf`"),
        (vec!["simulate", &*trace], "line 2: there are 3 numbers"),
        (vec!["simulate", "djsb", "--timeline", "x.svg"], "say which"),
        (vec!["simulate", "djsb", "--policy", "polite"], "`polite` is no policy"),
    ] {
        let output = castell(&arguments);
        let (_, said) = text(&output);
        assert!(!output.status.success() && said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_session_on_this_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let output = castell(&[
        "run",
        "-n",
        "1",
        "--policy",
        "surpass",
        "--socket",
        &socket,
        "--",
        "sh",
        "-c",
        "echo here; exit 5",
    ]);
    assert_eq!((output.status.code(), text(&output).0.as_str()), (Some(5), "here\n"), "{:?}", text(&output));
    let (list, _) = text(&castell(&["list", "--socket", &socket, "--json"]));
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(
        (list["policy"].as_str(), list["sessions"].as_array().map(Vec::len)),
        (Some("surpass"), Some(0))
    );
    let output = castell(&["run", "-n", "100000", "--socket", &socket, "--", "true"]);
    assert!(
        !output.status.success() && text(&output).1.contains("slots are more than there are"),
        "{:?}",
        text(&output)
    );
    let begun = Instant::now();
    while fs::exists(&*socket).expect("a folder") {
        assert!(begun.elapsed() < Duration::from_secs(60), "the agent stays");
        std::thread::sleep(Duration::from_millis(100));
    }
}
