//! Options that no other test needs, each on real input, with what it changes.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn castell(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(arguments).stdin(Stdio::null()).current_dir(root()).output().expect("castell starts")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command prints that has to go well.
#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = castell(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    // Behind `--` it would be the program's.
    let more: &[&str] = if arguments.contains(&"--json") { &[] } else { &["--json"] };
    let out = printed(&[arguments, more].concat());
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
}

/// What a command says that has to fail.
#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    let output = castell(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn run() {
    for progress in ["thread", "peers", "auto"] {
        let program = "examples/goal/pingpong.goal";
        for net in ["shm", "tcp"] {
            let object = json(&["run", program, "--net", net, "--progress", progress]);
            assert!(object["messages"].as_u64() > Some(0), "{progress}, {net}: {object}");
        }
    }
}

#[test]
fn stages_of_messages() {
    let object = json(&["run", "examples/goal/pingpong.goal", "--stages"]);
    let stages = &object["stages"];
    assert_eq!((&stages["messages"], &object["messages"]), (&200.into(), &200.into()), "{object}");
    let sum = |stage: &str| {
        stages[format!("{stage}_ns")]["sum"].as_u64().unwrap_or_else(|| panic!("{stage}: {object}"))
    };
    // A message leaves its sender, comes and is taken; what its sender waited for is no later than that.
    assert!(sum("call") > 0 && sum("wire") + sum("wake") > 0 && sum("completion") > 0, "{object}");
    assert!(sum("queue") + sum("match") < 200 * object["wall_ns"].as_u64().expect("a number"), "{object}");
    let table = printed(&["run", "examples/goal/pingpong.goal", "--stages"]);
    for stage in ["call", "queue", "wake", "wire", "match", "completion"] {
        assert!(table.lines().any(|line| line.starts_with(stage) && line.contains('%')), "{stage}: {table}");
    }
}

#[test]
fn schedule() {
    let model = "plb:alpha_p=1us,alpha_r=1us,beta=1ns";
    let cost = |command: &[&str], bytes: &str| {
        let common = ["--ranks", "8", "--model", model, "--bytes", bytes];
        let object = json(&[&["schedule"], command, &common].concat());
        object["best"]["cost_ps"].as_u64().or(object["cost_ps"].as_u64()).expect("a cost")
    };
    for command in [&["allreduce"][..], &["check", "a4,a2"]] {
        assert!(cost(command, "65536") > cost(command, "8"), "{command:?}");
    }
}

#[test]
fn simulate() {
    let ends = |more: &[&str]| -> Vec<u64> {
        let object = json(&[&["simulate"], more].concat());
        let ends = object["end_ps"].as_array().expect("one a rank");
        ends.iter().map(|end| end.as_u64().expect("a time")).collect()
    };
    // Whoever begins is done before all that hear from it.
    let from = |root: &str| ends(&["bcast:chain", "--ranks", "5", "--bytes", "100000", "--root", root]);
    assert!(from("3")[3] < from("3")[2] && from("0")[0] < from("0")[4]);
    // Pieces follow each other down the chain.
    let last = |segment: &str| {
        let chain = ["bcast:chain", "--ranks", "5", "--bytes", "100000", "--segment", segment];
        ends(&chain).into_iter().max()
    };
    assert!(last("10000") < last("100000"));
    // More messages a round, fewer rounds.
    let events = |ways: &str| {
        json(&["simulate", "bcast:k-nomial", "--ranks", "27", "--ways", ways])["end_ps"].to_string()
    };
    assert_ne!(events("1"), events("2"));

    let folder = tempfile::tempdir().expect("a folder");
    let detours = folder.path().join("detours.txt");
    std::fs::write(&detours, "100 5000\n9000 2000\n20000 7000\n").expect("a file");
    let detours = detours.to_str().expect("a path");
    let barrier = ["barrier:dissemination", "--ranks", "8"];
    let apart = ends(&[&barrier[..], &["--detours", detours]].concat());
    let together = ends(&[&barrier[..], &["--detours", detours, "--detours-together"]].concat());
    assert!(together != apart && together > ends(&barrier), "{together:?} {apart:?}");

    let drawing = folder.path().join("drawing.svg");
    let drawing = drawing.to_str().expect("a path");
    let drawn = |theme: &str| {
        printed(&[&["simulate"], &barrier[..], &["--timeline", drawing, "--theme", theme]].concat());
        std::fs::read_to_string(drawing).expect("a drawing")
    };
    assert_ne!(drawn("light"), drawn("dark"));
    assert!(drawn("auto").contains("prefers-color-scheme"));
}

#[test]
fn launch() {
    // The ranks know who carries their runs on, and after how long they tell who waits for whom.
    let script = "echo rank $CASTELL_RANK";
    for progress in ["thread", "peers"] {
        let options =
            ["launch", "-n", "2", "--progress", progress, "--stall", "10s", "--", "sh", "-c", script];
        let out = printed(&options);
        assert!(out.contains("rank 0\n") && out.contains("rank 1\n"), "{out}");
    }
}

#[test]
fn fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data.csv");
    // 1 us and 2 ns a byte, with errors that are large for long times only.
    let rows = [(8, 1.02), (1000, 3.0), (10_000, 21.5), (100_000, 190.0), (1_000_000, 2100.0)];
    let lines: String = rows.iter().map(|(bytes, us)| format!("{bytes},{us},{}\n", 2.0 * us)).collect();
    std::fs::write(&data, format!("bytes,one_us,two_us\n{lines}")).expect("a file");
    let data = data.to_str().expect("a path");
    let fitted = |more: &[&str]| {
        let common = ["fit", "--model", "loggp:o=100ns,g=0ns", data];
        json(&[&common, more].concat())["fits"][0]["parameters"].to_string()
    };
    let (one, two) = (fitted(&["--time", "one", "--relative"]), fitted(&["--time", "two", "--relative"]));
    assert_ne!(one, two);
    assert_ne!(one, fitted(&["--time", "one"]));
}

#[test]
fn tune() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tuning.toml");
    let file = file.to_str().expect("a path");
    let common = ["tune", "--ops", "barrier", "--ranks", "2", "--bytes", "8", "--rounds", "1", "--no-peers"];
    let lines = |more: &[&str]| printed(&[&common[..], &["--output", file], more].concat()).lines().count();
    assert!(lines(&["--all"]) > lines(&[]), "all that was tried");
}

#[test]
fn tasks() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = folder.path().join("graph.goal");
    let calcs: String = (0..64).map(|number| format!("c{number}: calc {}\n", 1000 + 37 * number)).collect();
    std::fs::write(&graph, format!("num_ranks 1\nrank 0 {{\n{calcs}}}\n")).expect("a file");
    let graph = graph.to_str().expect("a path");
    let seeded = |seed: &str| {
        let machine = ["--machine", "cpu:4", "--scheduler", "central", "--scheduler", "tree", "--seed", seed];
        json(&[&["tasks", "simulate", graph], &machine[..]].concat())
    };
    let rows = seeded("3");
    assert_eq!((&rows[0]["scheduler"], &rows[1]["scheduler"]), (&"central".into(), &"tree".into()));
    assert_eq!(rows, seeded("3"), "the same seed");
}

/// A benchmark at its smallest.
#[track_caller]
fn rows(arguments: &[&str]) -> Vec<Value> {
    let small = ["--rounds", "1", "--samples", "1"];
    let rows = json(&[&["bench"], arguments, &small].concat());
    rows.as_array().expect("an array").clone()
}

#[test]
fn bench_collectives() {
    let common = ["collectives", "--ops", "bcast", "--ranks", "2", "--bytes", "64", "--no-peers"];
    let subjects = |more: &[&str]| -> Vec<String> {
        let rows = rows(&[&common, more].concat());
        rows.iter().map(|row| format!("{} {}", row["subject"], row["algorithm"])).collect()
    };
    let with = subjects(&["--algorithm", "binomial", "--in-a-row"]);
    assert!(with.iter().any(|subject| subject.contains("binomial")), "{with:?}");
    assert!(!subjects(&["--started"]).is_empty());
    let folder = tempfile::tempdir().expect("a folder");
    let drawing = folder.path().join("bcast.svg").display().to_string();
    subjects(&["--svg", &drawing]);
    let drawn = std::fs::read_to_string(&drawing).expect("a drawing");
    assert!(drawn.contains("bcast, ranks 2<") && drawn.contains(">castell</text>"), "{drawn}");
}

#[test]
fn bench_overlap_and_peers() {
    let overlap = ["overlap", "--matrix", "64", "--ranks", "2", "--bytes", "64", "--no-peers"];
    let of_64 = rows(&overlap);
    assert!(of_64.iter().all(|row| row["params"]["matrix"] == 64), "{of_64:?}");
    // The last of the two counts.
    let with = rows(&["localops", "--bytes", "64", "--no-peers", "--peers"]);
    assert!(with.len() > 1, "{with:?}");
}

#[test]
fn bench_sim() {
    let trace = ["sim", "--ranks", "8", "--threads", "1", "--trace", "examples/goal/wavefront.goal"];
    let limits = ["--simgrid-max", "1", "--loggopsim-max", "1"];
    let rows = rows(&[&trace[..], &limits].concat());
    assert!(rows.iter().any(|row| row["params"]["program"] == "examples/goal/wavefront.goal"), "{rows:?}");
    // It is a program of its own, which nobody has to have.
    let missing = [
        "bench",
        "sim",
        "--ranks",
        "8",
        "--loggopsim",
        "/nowhere/LogGOPSim",
        "--txt2bin",
        "/nowhere/txt2bin",
    ];
    let said = refusal(&missing);
    assert!(said.contains("/nowhere/LogGOPSim"), "{said}");
}

#[test]
fn bench_tasks() {
    let folder = tempfile::tempdir().expect("a folder");
    let nothing = folder.path().to_str().expect("a path");
    let rows = rows(&[
        "tasks",
        "empty:tasks=100",
        "--workers",
        "1",
        "--scheduler",
        "central:fifo",
        // Where these lie nowhere, they are left out.
        "--taskflow",
        nothing,
        "--tbb",
        nothing,
        "--nanos6",
        nothing,
    ]);
    assert_eq!(rows[0]["subject"], "castell, central:fifo");
    assert!(rows.iter().all(|row| row["params"]["workers"] == 1), "{rows:?}");
    let said =
        |name: &str| rows.iter().any(|row| row["subject"].as_str().is_some_and(|one| one.contains(name)));
    assert!(!said("Taskflow") && !said("Nanos6") && !said("TBB"), "{rows:?}");
}

#[test]
fn probe_profile_and_slowdown() {
    let probed = |more: &[&str]| {
        let common = ["probe", "--distance", "64K", "--rounds", "3"];
        json(&[&common[..], more].concat())["dependence"].clone()
    };
    assert_eq!((probed(&["--independent"]), probed(&["--list"])), ("independent".into(), "list".into()));

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("readings.json");
    let file = file.to_str().expect("a path");
    let watched = json(&["profile", "--every", "20", "--record", file, "--json", "--", "sleep", "0.1"]);
    assert!(watched["program"].as_str().is_some_and(|program| program.contains("sleep")), "{watched}");
    // Counters are kept where there are some; without, a process that runs already cannot be watched.
    let me = std::process::id().to_string();
    let output = castell(&["profile", "--pid", &me, "--seconds", "0.1"]);
    let has_counters = output.status.code() == Some(0);
    assert!(
        has_counters || text(&output.stderr).contains("no hardware counters"),
        "{}",
        text(&output.stderr)
    );
    assert!(!has_counters || json(&["profile", "--replay", file])["program"].is_string());

    let mut other = Command::new("sleep").arg("60").spawn().expect("sleep is there");
    let who = other.id().to_string();
    let few = ["slowdown", "--sizes", "64K", "--pairs", "6", "--interval", "5", "--seed", "7"];
    let cost = castell(&[&few[..], &["--who", &who]].concat());
    other.kill().and_then(|()| other.wait().map(drop)).expect("it ends");
    let said = text(&cost.stdout) + &text(&cost.stderr);
    assert!(cost.status.code() == Some(0) && said.contains(&who), "{said}");
}

#[test]
fn options_that_there_are_not_are_told_from_programs() {
    for command in ["launch", "omp", "mpi"] {
        for program in [&["--", "true"][..], &["true"]] {
            let output = castell(&[&[command, "--tiemline", "out.svg"], program].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command}: {said}");
            assert!(said.contains("--tiemline") && said.contains("'--timeline"), "{command}: {said}");
        }
    }
    for words in [
        &["launch", "-n", "1", "echo", "-n", "--tiemline"][..],
        &["launch", "-n", "1", "--", "echo", "-n", "--tiemline"],
    ] {
        assert!(printed(words).contains("--tiemline"), "an option of the program");
    }
}
