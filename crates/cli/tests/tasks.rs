//! A program's tasks recorded, checked as a graph, simulated on other machines, drawn as timelines.

use std::path::Path;
use std::process::{Command, Output};

fn castell(arguments: &[&str], environment: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    let output = command.args(arguments).envs(environment.iter().copied()).output().expect("castell starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn recorded_tasks_are_a_graph_that_other_machines_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let [goal, trace, prv] = ["g.goal", "t.json", "t.prv"].map(|name| folder.path().join(name));
    let bench = ["bench", "tasks", "fib:number=6", "--no-peers", "--rounds", "1", "--samples", "1"];
    let output = castell(
        &bench,
        &[
            ("CASTELL_TASKS_RECORD", &goal),
            ("CASTELL_TASKS_TRACE", &trace),
            ("CASTELL_TASKS_SUMMARY", Path::new("1")),
        ],
    );
    // A warm-up and a sample, each of a root and 24 tasks.
    let summary = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(summary.contains("castell: 50 tasks in "), "{summary}");
    castell(&bench, &[("CASTELL_TASKS_TRACE", &prv)]);
    for name in ["t.prv", "t.pcf", "t.row"] {
        assert!(folder.path().join(name).metadata().is_ok_and(|file| file.len() > 0), "{name}");
    }
    let json = std::fs::read(&trace).expect("written");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let events = json["traceEvents"].as_array().expect("a list");
    assert_eq!(events.iter().filter(|event| event["ph"] == "X" && event["cat"] == "compute").count(), 50);
    assert!(events.iter().any(|event| event["ph"] == "C" && event["name"] == "ready"));

    let goal = goal.to_str().expect("a plain name");
    castell(&["goal", "check", goal], &[]);
    castell(&["simulate", goal], &[]);
    let simulate =
        ["tasks", "simulate", goal, "--free", "--json", "--machine", "cpu:1", "--machine", "cpu:64"];
    let rows: Vec<serde_json::Value> =
        serde_json::from_slice(&castell(&simulate, &[]).stdout).expect("an array of rows");
    let number = |row: usize, key: &str| rows[row][key].as_u64().expect("a number");
    assert_eq!(number(0, "time_ns"), number(0, "work_ns"), "one processor does everything");
    assert!(number(1, "longest_ns") <= number(1, "time_ns"));
    assert!(number(1, "time_ns") <= number(0, "time_ns"));
}

/// Ranks that are given one name write files of their own; what cannot be written or understood is said, and the program runs.
#[test]
fn variables_mean_what_people_expect() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = ["bench", "tasks", "fib:number=6", "--no-peers", "--rounds", "1", "--samples", "1"];
    let trace = folder.path().join("t.prv");
    let ranks = [&["launch", "-n", "2", env!("CARGO_BIN_EXE_castell")], &bench[..]].concat();
    castell(&ranks, &[("CASTELL_TASKS_TRACE", &trace)]);
    for name in ["t.0.prv", "t.1.prv", "t.0.pcf", "t.1.row"] {
        assert!(folder.path().join(name).metadata().is_ok_and(|file| file.len() > 0), "{name}");
    }
    assert!(!trace.exists());

    let lost = folder.path().join("nowhere/t.json");
    let output = castell(
        &bench,
        &[
            ("CASTELL_TASKS_TRACE", &lost),
            ("CASTELL_TASKS_SUMMARY", Path::new("Yes")),
            ("CASTELL_TASKS_DEBUG", Path::new("perhaps")),
            ("CASTELL_TASKS_SCHEDULER", Path::new("")),
        ],
    );
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("nowhere/t.json cannot be written: No such file or directory"), "{told}");
    assert!(told.contains("CASTELL_TASKS_DEBUG=perhaps is taken as off; write 1, on"), "{told}");
    assert!(told.contains("castell: 50 tasks in "), "{told}");
}

/// A processor that waits for another's task is drawn with both, and the line goes from one to the other.
#[test]
fn simulated_tasks_are_drawn_on_their_processors() {
    let folder = tempfile::tempdir().expect("a folder");
    let [goal, svg, html] = ["g.goal", "t.svg", "t.html"].map(|name| folder.path().join(name));
    let text = "num_ranks 1\nrank 0 {\n potrf_0_0: calc 3000000\n trsm_1_0: calc 2000000\n trsm_2_0: calc 5000000\n \
                gemm_3_0: calc 4000000\n trsm_1_0 requires potrf_0_0\n trsm_2_0 requires potrf_0_0\n gemm_3_0 requires trsm_1_0\n \
                gemm_3_0 requires trsm_2_0\n}\n";
    std::fs::write(&goal, text).expect("written");
    let [goal, file, page] = [&goal, &svg, &html].map(|path| path.to_str().expect("a plain name"));
    let simulate = ["tasks", "simulate", goal, "--free", "--machine", "cpu:2", "--width", "700"];
    castell(&[&simulate[..], &["--timeline", file, "--title", "Four tasks"]].concat(), &[]);
    let drawn = std::fs::read_to_string(&svg).expect("written");
    for text in
        [">worker 1<", ">potrf<", ">trsm<", ">gemm<", ">Four tasks<", "Critical path: computing 100 %."]
    {
        assert!(drawn.contains(text), "{text}: {drawn}");
    }
    // The longest first: trsm, gemm, potrf.
    for (class, count) in [("bar kind-0", 2), ("bar kind-1", 1), ("bar kind-2", 1)] {
        assert_eq!(drawn.matches(&format!("class=\"{class}\"")).count(), count, "{class}");
    }
    castell(&[&simulate[..], &["--timeline", page]].concat(), &[]);
    let page = std::fs::read_to_string(&html).expect("written");
    assert!(page.contains(
        r#""row":"worker","ranks":2,"kinds":["send","recv","compute","other","wait","trsm","gemm","potrf""#
    ));
    let mut several = Command::new(env!("CARGO_BIN_EXE_castell"));
    several.args(simulate).args(["--machine", "cpu:1", "--timeline", html.to_str().expect("a plain name")]);
    let refused = several.output().expect("castell starts");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("give --machine and --scheduler once"));
}

/// What a real program's tasks did is drawn by itself, each in the colour of its label.
#[test]
fn a_program_draws_its_tasks() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("t.svg");
    let bench = ["bench", "tasks", "fib:number=6", "--no-peers", "--rounds", "1", "--samples", "1"];
    castell(&bench, &[("CASTELL_TASKS_TRACE", &svg)]);
    let drawn = std::fs::read_to_string(&svg).expect("written");
    for text in [">worker 0<", "bar kind-0", "Critical path: ", "class=\"critical\""] {
        assert!(drawn.contains(text), "{text}: {drawn}");
    }
    // What says nothing, or something else, is not lost.
    let gif = folder.path().join("t.gif");
    let output = castell(&bench, &[("CASTELL_TASKS_TRACE", &gif)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("t.gif: a trace ends in .svg, .html, .json or .prv") && !gif.exists(), "{said}");
    let trace = std::fs::read_to_string(folder.path().join("t.gif.json")).expect("written");
    assert!(trace.contains("traceEvents"), "{trace}");
}
