//! `castell simulate`: what it prints, what it refuses, and what it writes.

use castell_host::process::{Pid, Process};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.arg("simulate").args(arguments).stdin(Stdio::null());
    command.output().expect("castell starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The JSON object of a simulation that has to go well.
fn json(arguments: &[&str]) -> Value {
    let output = simulate(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// What a simulation that has to fail says.
fn refusal(arguments: &[&str]) -> String {
    let output = simulate(arguments);
    assert_ne!(output.status.code(), Some(0), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    text(&output.stderr)
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/goal").join(name);
    path.to_str().expect("a path").to_string()
}

fn program(directory: &tempfile::TempDir, text: &str) -> String {
    let path: PathBuf = directory.path().join("program.goal");
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path").to_string()
}

#[test]
fn json_tells_each_ranks_end() {
    let model = "loggops:L=2500ns,o=1500ns,g=1000ns,G=6ns,O=0,S=65535";
    let result = json(&["pingpong", "--ranks", "2", "--model", model]);
    assert_eq!((&result["ranks"], &result["events"]), (&2.into(), &6.into()));
    // A message of 8 bytes: o + L, then o + 7 G at its receiver.
    assert_eq!(result["makespan_ps"], 2 * (1500 + 2500 + 1500 + 42) * 1000);
    assert_eq!(result["end_ps"].as_array().map(Vec::len), Some(2));
    assert_eq!(result["skew_ps"], 11_084_000 - 7_042_000);
    assert!(result["wall_ns"].as_u64().is_some());
    let short = json(&["pingpong", "--ranks", "2", "--model", model, "--summary"]);
    assert!(short.get("end_ps").is_none() && short["makespan_ps"] == result["makespan_ps"]);
}

#[test]
fn every_rank_has_a_line_where_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = |more: &[&str]| {
        let file = folder.path().join("ranks.svg");
        let words = ["barrier:dissemination", "--ranks", "60", "--timeline", file.to_str().expect("a path")];
        let output = simulate(&[&words[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let drawn = std::fs::read_to_string(&file).expect("a drawing");
        std::fs::remove_file(&file).expect("it is there");
        (0..60).filter(|rank| drawn.contains(&format!(">rank {rank}<"))).count()
    };
    assert_eq!((lines(&["--every-rank"]), lines(&[])), (60, 0));
}

#[test]
fn a_sweep_says_which_pattern_ends_first_where() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("growth.svg");
    let drawing = file.to_str().expect("a path");
    let two = ["barrier:dissemination", "barrier:linear", "--sweep", "ranks=2..64"];
    let output = simulate(&[&two[..], &["--svg", drawing]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let last = lines.lines().last().expect("a line");
    assert!(last.starts_with("        64 ") && last.matches('*').count() == 1, "{lines}");
    let drawn = std::fs::read_to_string(&file).expect("a drawing");
    assert!(drawn.contains("Makespan over ranks, 8 bytes") && drawn.contains(">barrier:linear</text>"));
    // Each point is what the pattern comes to by itself.
    let swept = json(&two);
    let points = swept["points"].as_array().expect("points");
    assert_eq!(points.len(), 12);
    for point in points {
        let ranks = point["value"].to_string();
        let alone = json(&[point["program"].as_str().expect("a name"), "--ranks", &ranks]);
        assert_eq!(point["makespan_ps"], alone["makespan_ps"], "{point}");
    }
    let noisy = ["--model", "loggops:o=normal(1500ns,300ns)", "--repeat", "9"];
    let sizes = ["bcast:binomial", "--ranks", "8", "--sweep", "bytes=1K..64K:*8", "--svg", drawing];
    let swept = json(&[&sizes[..], &noisy].concat());
    let spread = |point: &Value| point["min_ps"].as_u64() < point["max_ps"].as_u64();
    assert!(swept["points"].as_array().is_some_and(|points| points.iter().all(spread)), "{swept}");
    assert!(std::fs::read_to_string(&file).expect("a drawing").contains("class=\"band-0\""));
    // What cannot be for one value is said, and the others stand.
    let output = simulate(&["allreduce:halving-doubling", "--sweep", "ranks=6..8:+1"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stderr).contains("allreduce:halving-doubling with ranks 6"),
        "{}",
        text(&output.stderr)
    );
    let halo = example("halo.goal");
    assert!(refusal(&[&halo, "--sweep", "ranks=2..4"]).contains("has its own ranks"));
    assert!(refusal(&["bcast:chain", "--ranks", "4", "--sweep", "ranks=2..4"]).contains("leave --ranks out"));
    assert!(refusal(&["barrier:linear", "bcast:chain", "--ranks", "4"]).contains("--sweep"));
    assert!(refusal(&["bcast:chain", "--sweep", "rank=2..4"]).contains("there are ranks, bytes"));
}

#[test]
fn repeated_runs_do_not_depend_on_the_threads() {
    let results = ["1", "2", "5"].map(|threads| {
        let arguments = ["barrier:dissemination", "--ranks", "16", "--repeat", "20", "--seed", "3"];
        let model = ["--model", "loggops:o=normal(1500ns,300ns)", "--threads", threads];
        let mut result = json(&[&arguments[..], &model].concat());
        result["wall_ns"] = Value::Null;
        result
    });
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}

#[test]
fn one_run_does_not_depend_on_the_threads() {
    let noisy = "loggops:o=normal(1500ns,300ns)";
    for (program, ranks, model) in [("bcast:binomial", "4000", noisy), ("bcast:binomial", "3000", "plb")] {
        let results = ["1", "3", "8"].map(|threads| {
            let arguments = [program, "--ranks", ranks, "--model", model, "--threads", threads];
            let mut result = json(&arguments);
            result["wall_ns"] = Value::Null;
            result
        });
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], results[2]);
    }
}

#[test]
fn a_paraver_trace_is_simulated_as_the_program_that_it_holds() {
    let vector = |name| format!("{}/../../vectors/paraver/{name}", env!("CARGO_MANIFEST_DIR"));
    let [trace, program] = ["halo.prv", "halo.goal"].map(|name| json(&[&vector(name)]));
    assert_eq!(trace["end_ps"], program["end_ps"]);
    assert_eq!((&trace["ranks"], &trace["events"]), (&4.into(), &program["events"]));
}

#[test]
fn a_timeline_for_paraver_is_a_program_that_ends_when_it_did() {
    let directory = tempfile::tempdir().expect("a directory");
    let timeline = directory.path().join("wavefront.prv");
    let timeline = timeline.to_str().expect("a path");
    let first = json(&[&example("wavefront.goal"), "--timeline", timeline]);
    assert_eq!(json(&[timeline])["end_ps"], first["end_ps"]);
    // Every call has its message.
    assert_eq!(text(&simulate(&[timeline]).stderr), "");
}

#[test]
fn people_get_a_table() {
    let drawn = "plb:alpha_p=500ns,alpha_r=100ns,beta=0.4ns";
    let output =
        simulate(&["allreduce:m1g2a3,n1g3a2", "--ranks", "7", "--compute", "10ns", "--model", drawn]);
    let out = text(&output.stdout);
    for line in ["makespan  1.4264us (rank 0)", "skew      100ns", "rank 3    1.3264us", "7 ranks, 82 events"]
    {
        assert!(out.contains(line), "{line}:\n{out}");
    }
}

#[test]
fn every_example_runs_under_every_model() {
    let directory = std::fs::read_dir(example("")).expect("the examples");
    let files = directory.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some());
    let files: Vec<PathBuf> = files.filter(|path| path.extension().unwrap() == "goal").collect();
    assert!(!files.is_empty());
    for file in files {
        for model in ["bsp", "lb", "logp", "loggp", "loggps", "loggops", "lop", "logfp", "plb"] {
            let result = json(&[file.to_str().unwrap(), "--model", model, "--measure", "--critical-path"]);
            assert!(result["makespan_ps"].as_u64() > Some(0), "{} {model}", file.display());
            let steps = result["critical_path"].as_array().unwrap();
            let last = steps.last().unwrap()["finished_ps"].as_u64();
            assert!(last <= result["makespan_ps"].as_u64(), "{} {model}", file.display());
        }
    }
}

#[test]
fn the_critical_path_tells_latency_from_bandwidth() {
    let ring = ["allreduce:ring", "--ranks", "4", "--bytes", "4000", "--critical-path"];
    let model = ["--model", "loggp:L=2us,o=1us,g=1us,G=2ns"];
    let result = json(&[&ring[..], &model].concat());
    // Six messages of 1000 bytes, one after the other.
    let expected = serde_json::json!([
        {"name": "message", "ps": 23_988_000, "parts": [{"name": "latency", "ps": 12_000_000}, {"name": "bandwidth", "ps": 11_988_000}]},
        {"name": "receiving", "ps": 6_000_000},
        {"name": "sending", "ps": 6_000_000},
    ]);
    assert_eq!(result["critical_path_parts"], expected);
    assert_eq!(result["makespan_ps"], 35_988_000);
    let last = result["critical_path"].as_array().and_then(|steps| steps.last()).expect("steps");
    assert_eq!((&last["part"], &last["latency_ps"]), (&"message".into(), &2_000_000.into()));
    let told = text(&simulate(&[&ring[..], &model].concat()).stdout);
    assert!(told.contains("    bandwidth            11.988us  33.3 %\n"), "{told}");
}

#[test]
fn loads_of_links_are_told_and_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let drawn = |network: &str, file: &str| {
        let file = directory.path().join(file);
        let told = ["alltoall:pairwise", "--ranks", "16", "--bytes", "1000", "--network", network];
        let result = json(&[&told[..], &["--links", file.to_str().unwrap()]].concat());
        (result, std::fs::read_to_string(file).unwrap())
    };
    let (result, svg) = drawn("torus:dims=4x4,link=10ns,G=1ns", "torus.svg");
    let links = result["links"].as_array().unwrap();
    assert_eq!(links.len(), 64);
    // From each rank to each other one, two links on average: 16 x 32 links of 1000 bytes.
    assert_eq!(links.iter().filter_map(|link| link["bytes"].as_u64()).sum::<u64>(), 16 * 32 * 1000);
    assert_eq!(links.iter().filter_map(|link| link["busy_ps"].as_u64()).sum::<u64>(), 16 * 32 * 1_000_000);
    let busiest = &links[0];
    assert_eq!((&busiest["from"], &busiest["to"]), (&"rank 0".into(), &"rank 1".into()));
    assert!(svg.contains("64 of 64 links used") && svg.contains(">rank 0 to rank 1<"), "{svg}");
    assert_eq!(svg.matches("class=\"node\"").count(), 16);
    // Networks without a layout have the bars.
    let (_, svg) = drawn("torus:dims=2x2x2x2", "bars.svg");
    assert!(svg.contains("the busiest links") && !svg.contains("class=\"node\""), "{svg}");
    let output = simulate(&["pingpong", "--links", "x.svg"]);
    assert!(text(&output.stderr).contains("--network"), "{}", text(&output.stderr));
}

#[test]
fn measures_count_messages() {
    let result = json(&["alltoall:linear", "--ranks", "5", "--bytes", "100", "--measure"]);
    let measures = &result["measures"];
    assert_eq!((&measures["messages"], &measures["bytes"]), (&20.into(), &2000.into()));
    assert_eq!(measures["waiting_ps"].as_array().map(Vec::len), Some(5));
    assert!(measures["bytes_under_way_max"].as_u64() > Some(0));
}

#[test]
fn timelines_are_written() {
    let directory = tempfile::tempdir().unwrap();
    for (file, part) in [("run.svg", "</svg>"), ("run.json", "\"traceEvents\"")] {
        let path = directory.path().join(file);
        let output = simulate(&[
            "bcast:binomial",
            "--ranks",
            "8",
            "--model",
            "plb",
            "--timeline",
            path.to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains(file));
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written.contains(part) && written.contains("bcast:binomial"), "{file}");
    }
}

/// What looks like a graph of tasks has workers elsewhere.
#[test]
fn one_row_says_where_the_workers_are() {
    let directory = tempfile::tempdir().unwrap();
    let drawing = directory.path().join("tasks.svg");
    let drawing = drawing.to_str().unwrap();
    let said = |file: &str| text(&simulate(&[file, "--timeline", drawing]).stdout);
    let tasks = program(&directory, "num_ranks 1\nrank 0 { a: calc 1000\n b: calc 1000\n }\n");
    assert!(said(&tasks).contains(&format!("castell tasks simulate {tasks} --timeline FILE")));
    let messages = program(&directory, "num_ranks 2\nrank 0 { send 8b to 1 }\nrank 1 { recv 8b from 0 }\n");
    assert!(!said(&messages).contains("tasks simulate"));
}

#[test]
fn a_deadlock_is_told_as_a_circle() {
    let directory = tempfile::tempdir().unwrap();
    let file = program(
        &directory,
        "num_ranks 3\n\
         rank 0 { hear: recv 8b from 2 tag 0\n tell: send 8b to 1 tag 0\n tell requires hear }\n\
         rank 1 { hear: recv 8b from 0 tag 0\n tell: send 8b to 2 tag 0\n tell requires hear }\n\
         rank 2 { hear: recv 8b from 1 tag 0\n tell: send 8b to 0 tag 0\n tell requires hear }\n",
    );
    let said = refusal(&[&file]);
    assert!(said.contains("deadlock: 6 operations of 3 ranks never finish"), "{said}");
    assert!(said.contains("rank 0: `hear` (recv of 8 bytes from rank 2, tag 0) waits for rank 2"), "{said}");
    assert!(said.contains("a circle"), "{said}");
}

#[test]
fn refusals_say_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    for (text, part) in [
        (
            "num_ranks 2\nrank 0 { s: send 8b to 1 tag 0 }\nrank 1 { r: recv 9b from 0 tag 0 }",
            "8 bytes met a receive of 9",
        ),
        (
            "num_ranks 2\nrank 0 { s: send 8b to 7 tag 0 }\nrank 1 { }",
            "there is no rank 7 in a program of 2 ranks",
        ),
        (
            "num_ranks 1\nrank 0 { c: calc 18446744073709551 \n d: calc 18446744073709551\n d requires c }",
            "213 days",
        ),
        (
            "num_ranks 2\nrank 0 { s: send 100000b to 1 tag 0 }\nrank 1 { r: recv 100000b from 0 tag 1 }",
            "rank 0: `s`",
        ),
    ] {
        let said = refusal(&[&program(&directory, text)]);
        assert!(said.contains(part), "{text}: {said}");
    }
    for (arguments, part) in [
        (&["nothing.goal"][..], "neither a file that there is nor a pattern"),
        (&["magic"], "castell simulate --list"),
        (&["pingpong"], "give --ranks"),
        (&["pingpong", "--ranks", "2", "--model", "loggop"], "unknown model"),
        (&["allreduce:a4,a3", "--ranks", "8"], "does not fit 8 ranks"),
        (&["pingpong", "--ranks", "2", "--compute", "-5ns"], "negative"),
        (&[], "required"),
    ] {
        let said = refusal(arguments);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}

#[test]
fn help_has_examples_and_patterns_are_listed() {
    let help = text(&simulate(&["--help"]).stdout);
    assert!(help.contains("castell simulate bcast:binomial --ranks 1024"), "{help}");
    let list = text(&simulate(&["--list"]).stdout);
    assert!(list.contains("barrier:dissemination") && list.contains("allreduce:WORD"), "{list}");
}

#[test]
fn repeated_runs_have_statistics_and_repeat() {
    let arguments = [
        "barrier:dissemination",
        "--ranks",
        "16",
        "--repeat",
        "25",
        "--seed",
        "7",
        "--model",
        "loggops:o=normal(1500ns,100ns)",
    ];
    let result = json(&arguments);
    let makespan = &result["makespan"];
    assert_eq!((&result["repeat"], &result["seed"]), (&25.into(), &7.into()));
    let times = ["min_ps", "median_ps", "max_ps"].map(|key| makespan[key].as_u64().unwrap());
    assert!(times.is_sorted() && times[0] < times[2], "{makespan}");
    let interval = makespan["median_95_ps"].as_array().unwrap();
    assert!(interval[0].as_u64() <= Some(times[1]) && Some(times[1]) <= interval[1].as_u64());
    assert_eq!(json(&arguments)["makespan"], *makespan);
    let said = refusal(&["pingpong", "--ranks", "2", "--repeat", "3"]);
    assert!(said.contains("all 3 runs would be the same"), "{said}");
}

#[test]
fn messages_meet_on_links() {
    let ends = |network: &[&str]| {
        let all =
            [&["alltoall:linear", "--ranks", "8", "--bytes", "100000", "--model", "plb"], network].concat();
        json(&all)["makespan_ps"].as_u64().unwrap()
    };
    let (free, fast) = (ends(&[]), ends(&["--network", "star:ranks=8,link=0,G=0"]));
    let slow = ends(&["--network", "torus:dims=8,link=10ns,G=1ns"]);
    assert_eq!(free, fast);
    // The middle of the ring carries more than the 7 messages of a rank, 100 us each.
    assert!(slow > free + 700_000_000, "{slow} {free}");
    let said = refusal(&["pingpong", "--ranks", "65", "--network", "star:ranks=64"]);
    assert!(said.contains("places for 64 ranks"), "{said}");
}

#[test]
fn an_operating_system_takes_time() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("detours");
    std::fs::write(&file, "# start duration\n1000 50\n2000 100\n3000 50\n").unwrap();
    let run = |more: &[&str]| {
        let all = [&["barrier:dissemination", "--ranks", "32"], more].concat();
        json(&all)["makespan_ps"].as_u64().unwrap()
    };
    let detours = ["--detours", file.to_str().unwrap()];
    let (without, with) = (run(&[]), run(&detours));
    assert!(with > without, "{with} {without}");
    assert_eq!(run(&detours), with);
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_castell"))
        .args(["simulate", "barrier:dissemination", "--ranks", "20000", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

/// Two levels from the command line and from a file come to the same, and cost between one and the other.
#[test]
fn two_levels_are_simulated() {
    let (within, between) =
        ("plb:alpha_p=400ns,alpha_r=200ns,beta=0.1ns", "plb:alpha_p=20us,alpha_r=2us,beta=1ns");
    let makespan = |options: &[&str]| {
        let options = [&["simulate", "allreduce:two-level", "--ranks", "8", "--json"], options].concat();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_castell")).args(options).output();
        let output = output.expect("castell runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
        told["makespan_ps"].as_u64().expect("a time")
    };
    let on = |hosts: &str| makespan(&["--hosts", hosts, "--within", within, "--model", between]);
    let (one, two, eight) = (on("1"), on("2"), on("8"));
    assert!(one < two && two < eight, "{one} {two} {eight}");
    assert_eq!(two, on("a:4,b:4"));
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
    let table = |name: &str, p: &str, r: &str, b: &str| {
        format!("[{name}]\nmodel = \"plb\"\nalpha_p = \"{p}\"\nalpha_r = \"{r}\"\nbeta = \"{b}\"\n")
    };
    let tables = table("within", "400ns", "200ns", "0.1ns") + &table("between", "20us", "2us", "1ns");
    std::fs::write(file.path(), format!("hosts = \"a:4,b:4\"\n{tables}")).expect("written");
    let name = file.path().display().to_string();
    assert_eq!(makespan(&["--levels", &name]), two);
    assert_eq!(makespan(&["--levels", &name, "--hosts", "8"]), eight);
}

/// One simulation that would take very long, not a repeated one: Ctrl-C ends it with the shell's code, and nothing is printed or left.
#[test]
fn a_key_press_ends_a_long_simulation_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let drawing = folder.path().join("drawing.svg");
    // Background jobs of shells ignore the signal, and so does what they start.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_castell"), "simulate", "alltoall:linear"]);
    command.args(["--ranks", "20000", "--timeline"]).arg(&drawing);
    let mut simulation = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    // In the middle of it: it has computed for three tenths of a second.
    let computed = |pid: u32| -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(11)?.parse().ok()
    };
    while computed(simulation.id()).expect("it is there") < 30 {
        assert!(simulation.try_wait().expect("a child").is_none(), "it has ended by itself");
        assert!(begun.elapsed() < Duration::from_secs(120), "it does not compute");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = Pid::from_raw(simulation.id() as i32).expect("a number");
    Process::open(pid).and_then(|process| process.signal(libc::SIGINT)).expect("a signal");
    while simulation.try_wait().expect("a child").is_none() {
        if begun.elapsed() > Duration::from_secs(240) {
            simulation.kill().expect("it runs");
            panic!("it goes on");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = simulation.wait_with_output().expect("it has ended");
    let (code, signal) = (output.status.code(), output.status.signal());
    // As shells count it.
    assert_eq!(code.or(signal.map(|signal| 128 + signal)), Some(130), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "", "no table");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}
