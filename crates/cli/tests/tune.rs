//! `castell tune` as a user meets it, and whether Open MPI and MPICH do what exported files say.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use serde_json::Value;
use skipped::skip;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn castell(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(arguments).stdin(Stdio::null());
    command
}

#[track_caller]
fn ends(code: i32, command: &mut Command) -> (String, String) {
    let output: Output = command.output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{command:?}: {out}{err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
}

#[test]
fn what_was_fastest_is_kept_and_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let short =
        ["tune", "--ops", "allreduce", "--ranks", "2", "--bytes", "64", "--rounds", "1", "--no-peers"];
    let mut tune = castell(&short);
    let (out, _) = ends(0, tune.arg("--json").env("XDG_CONFIG_HOME", folder.path()));
    let out: Value = serde_json::from_str(&out).expect("one object");
    let case = &out["cases"][0];
    assert_eq!((case["operation"].as_str(), case["ranks"].as_u64()), (Some("allreduce"), Some(2)));
    assert!(out["doubts"].is_array(), "{out}");
    let tried = case["tried"].as_array().expect("what was tried");
    assert!(tried.len() > 3 && tried[0]["algorithm"] == case["choice"], "{case}");
    assert!(tried.iter().all(|tried| tried["measured_us"].as_f64().is_some_and(|us| us > 0.0)));
    let file = PathBuf::from(out["file"].as_str().expect("a file"));
    assert!(file.starts_with(folder.path()));
    let text = fs::read_to_string(&file).expect("it was written");
    assert!(text.starts_with("# Which algorithms") && text.contains("operation = \"allreduce\""), "{text}");
    let svg = fs::read_to_string(out["timeline"].as_str().expect("a drawing")).expect("it was written");
    assert!(svg.contains("allreduce:") && svg.contains("</svg>"));

    // Whoever calls collectives finds it, and says so where it cannot be used.
    let bench =
        ["bench", "collectives", "--ops", "barrier", "--ranks", "2", "--rounds", "1", "--samples", "1"];
    let run = |value: Option<&Path>| {
        let mut command = castell(&bench);
        command.arg("--no-peers").arg("--json").env("XDG_CONFIG_HOME", folder.path());
        if let Some(value) = value {
            command.env("CASTELL_TUNING", value);
        }
        ends(0, &mut command)
    };
    let (rows, said) = run(None);
    assert!(!said.contains("not used"), "{said}");
    let rows: Value = serde_json::from_str(&rows).expect("an array");
    assert_eq!((&rows[0]["workload"], &rows[0]["subject"]), (&"barrier".into(), &"castell".into()));
    assert_eq!(rows[0]["params"], serde_json::json!({"ranks": 2, "bytes": 0}));
    let foreign = folder.path().join("foreign.toml");
    fs::write(&foreign, text.replace("processors = ", "processors = 1")).expect("a file");
    let (_, said) = run(Some(&foreign));
    assert!(said.contains("foreign.toml is not used: it is of another machine"), "{said}");
}

/// Tunes one operation on two ranks, in the folder's own configuration.
fn tune(folder: &Path, operation: &str) -> Value {
    let short = ["tune", "--ops", operation, "--ranks", "2", "--bytes", "64", "--rounds", "1", "--no-peers"];
    let (out, _) = ends(0, castell(&short).arg("--json").env("XDG_CONFIG_HOME", folder));
    serde_json::from_str(&out).expect("one object")
}

#[test]
fn what_was_tuned_before_stays_and_nothing_is_said_of_other_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = tune(folder.path(), "allreduce");
    assert_eq!(first["backup"], Value::Null);
    let file = PathBuf::from(first["file"].as_str().expect("a file"));
    let before = fs::read_to_string(&file).expect("it was written");
    let second = tune(folder.path(), "barrier");
    let after = fs::read_to_string(&file).expect("it was written");
    for operation in ["allreduce", "barrier"] {
        assert!(after.contains(&format!("operation = \"{operation}\"")), "{after}");
    }
    assert!(
        after.lines().filter(|line| line.starts_with("ranks")).all(|line| line == "ranks = 2"),
        "{after}"
    );
    let backup = fs::read_to_string(second["backup"].as_str().expect("a backup")).expect("it is there");
    assert_eq!(backup, before);
    // What is measured again replaces what was measured before.
    let third = tune(folder.path(), "barrier");
    assert_eq!(third["rules"], second["rules"]);
    assert!(third["r_squared"].is_number() || third["model"].is_null(), "{third}");
}

/// On one processor ranks take turns, of which the formula knows nothing: the model is doubted, which is said, and it is not kept. What is chosen
/// was measured to be the fastest all the same, and rules say nothing of what was not measured.
#[test]
fn a_doubted_model_is_not_kept_and_choices_are_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let usable = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    let first = usable.trim().split([',', '-']).next().expect("one");
    let tune = |more: &[&str]| {
        // A model of an earlier run would stay.
        let _ = fs::remove_dir_all(folder.path().join("castell"));
        let mut command = Command::new("taskset");
        command.args([
            "-c",
            first,
            env!("CARGO_BIN_EXE_castell"),
            "tune",
            "--ops",
            "allreduce",
            "--ranks",
            "16",
        ]);
        command.args(["--bytes", "8,512", "--rounds", "1", "--no-peers"]).args(more).stdin(Stdio::null());
        ends(0, command.env("XDG_CONFIG_HOME", folder.path())).0
    };
    // What comes out depends on the machine: again until the model is doubted, which is what its own figures say.
    let is_doubtful = |out: &Value| {
        let tried = out["cases"].as_array().expect("cases").iter().flat_map(|case| case["tried"].as_array());
        let ratio = |tried: &Value| Some(tried["measured_us"].as_f64()? / tried["predicted_us"].as_f64()?);
        let mut factors: Vec<f64> =
            tried.flatten().filter_map(ratio).map(|ratio| ratio.max(1.0 / ratio)).collect();
        factors.sort_by(f64::total_cmp);
        let is_far_off = factors.get(factors.len() / 2).is_some_and(|median| *median > 2.0);
        out["r_squared"].as_f64().is_some_and(|r_squared| r_squared < 0.5 || is_far_off)
    };
    let warning = "warning: the model is not kept: it";
    let printed = (0..25).map(|_| tune(&[])).find(|printed| printed.contains(warning)).expect("a doubt");
    assert!(printed.contains("choices rest on measurements alone"), "{printed}");
    let outs = (0..25).map(|_| serde_json::from_str::<Value>(&tune(&["--json"])).expect("one object"));
    let checked = outs.inspect(|out| assert_eq!(is_doubtful(out), out["doubt"].is_string(), "{out}"));
    let out = { checked }.find(is_doubtful).expect("a doubt");
    let file = fs::read_to_string(out["file"].as_str().expect("a file")).expect("it was written");
    let values = |key: &str| -> Vec<String> {
        let lines = file.lines().filter_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix("= "));
        lines.map(str::to_owned).collect()
    };
    assert!(values("model").is_empty(), "{file}");
    assert!(!values("ranks").is_empty() && values("ranks").iter().all(|ranks| ranks == "16"), "{file}");
    // From a half of the smallest size to twice the largest.
    let bytes = |key: &str| values(key).into_iter().map(|bytes| bytes.parse::<u64>().expect("a number"));
    assert!(bytes("bytes_min").all(|bytes| bytes >= 4) && bytes("bytes_min").count() > 0, "{file}");
    assert!(bytes("bytes_max").all(|bytes| bytes <= 1024) && bytes("bytes_max").count() > 0, "{file}");
    // The model says nothing of other sizes than those that were sent.
    let model = out["model"].as_str().expect("one was fitted");
    let entries =
        model.split("table(").skip(1).flat_map(|rest| rest.split(')').next().unwrap_or_default().split(','));
    assert!(
        entries.map(|entry| entry.split(':').next()).all(|size| matches!(size, Some("8" | "512"))),
        "{model}"
    );
    for case in out["cases"].as_array().expect("cases") {
        let tried = case["tried"].as_array().expect("what was tried");
        let us = |tried: &Value, key: &str| tried[key].as_f64().unwrap_or(f64::INFINITY);
        let fastest = tried.iter().min_by(|a, b| us(a, "measured_us").total_cmp(&us(b, "measured_us")));
        assert_eq!(fastest.map(|fastest| &fastest["algorithm"]), Some(&case["choice"]), "{case}");
        assert_eq!(fastest.map(|fastest| &fastest["measured_us"]), Some(&case["measured_us"]), "{case}");
    }
}

/// The drawing is a run of its own of what the table has chosen: that algorithm, its messages, and times that fit together.
#[test]
fn the_drawing_is_of_what_the_table_has_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    let drawing = folder.path().join("drawing.svg");
    let short =
        ["tune", "--ops", "allreduce,barrier", "--ranks", "2,4", "--bytes", "64,4096", "--rounds", "1"];
    let mut command = castell(&short);
    command.args(["--no-peers", "--json", "--timeline"]).arg(&drawing).env("XDG_CONFIG_HOME", folder.path());
    let out: Value = serde_json::from_str(&ends(0, &mut command).0).expect("one object");
    let is_drawn =
        |case: &&Value| case["operation"] == "allreduce" && case["ranks"] == 4 && case["bytes"] == 64;
    let case = out["cases"].as_array().expect("cases").iter().find(is_drawn).expect("it was measured");
    let choice = case["choice"].as_str().expect("a name");
    let svg = fs::read_to_string(&drawing).expect("it was written");
    let texts: Vec<&str> =
        svg.split("<text").skip(1).filter_map(|text| text.split(['>', '<']).nth(1)).collect();
    assert_eq!(texts[0], format!("{choice} of 64 bytes on 4 ranks"));
    // As many messages as the simulator counts for it.
    let ways = case["ways"].to_string();
    let simulate =
        ["simulate", choice, "--ranks", "4", "--bytes", "64", "--ways", &ways, "--measure", "--json"];
    let simulated: Value = serde_json::from_str(&ends(0, &mut castell(&simulate)).0).expect("one object");
    let messages = &simulated["measures"]["messages"];
    let counts = texts.iter().find(|text| text.contains(" messages; ")).expect("a line with counts");
    assert!(counts.starts_with(&format!("4 ranks, {messages} messages; ")), "{counts}: {simulated}");
    // A row a rank, the latest of whose ends is that of the whole.
    let end_of = |rank: u32| {
        let row = texts.iter().position(|text| *text == format!("rank {rank}")).expect("a row");
        texts[row + 1]
    };
    let last = counts.split("ends at ").nth(1).and_then(|rest| rest.split(", ").next()).expect("a time");
    assert!((0..4).any(|rank| end_of(rank) == last), "{counts}");
}

#[test]
fn misuse_is_told() {
    let (_, err) = ends(2, &mut castell(&["tune", "--ops", "allreduse"]));
    assert!(err.contains("expected one of barrier, bcast"), "{err}");
    let (_, err) = ends(2, &mut castell(&["tune", "export"]));
    assert!(err.contains("--openmpi"), "{err}");
    let (_, err) = ends(1, castell(&["tune", "export", "--mpich", "x"]).env("XDG_CONFIG_HOME", "/nowhere"));
    assert!(err.contains("`castell tune` writes it"), "{err}");
}

const HEADER: &str = "format = 1\ncastell = \"0.1.0\"\n[machine]\nhost = \"a\"\nprocessor = \"b\"\nprocessors = 2\ntransport = \"c\"\n";

/// Exports these rules (operation, algorithm, largest size if any), which are for any number of ranks.
fn export(folder: &Path, rules: &[(&str, &str, Option<u64>)]) -> (PathBuf, PathBuf, String) {
    let mut text = HEADER.to_owned();
    for (operation, algorithm, bytes_max) in rules {
        text +=
            &format!("[[rule]]\noperation = \"{operation}\"\nranks = [2, 64]\nalgorithm = \"{algorithm}\"\n");
        if let Some(bytes) = bytes_max {
            text += &format!("bytes_max = {bytes}\n");
        }
    }
    let [from, rules, selection] =
        ["tuning.toml", "rules.txt", "selection.json"].map(|name| folder.join(name));
    fs::write(&from, text).expect("a file");
    let mut command = castell(&["tune", "export", "--from"]);
    let command = command.arg(&from).arg("--openmpi").arg(&rules).arg("--mpich").arg(&selection);
    let (_, said) = ends(0, command);
    (rules, selection, said)
}

/// Compiles a C file of `tests/c`; `None`, and a skip, where there is no such compiler.
fn compile(compiler: &str, name: &str, flags: &[&str], folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name);
    let target = folder.join(name.replace(".c", ".out"));
    let status =
        Command::new(compiler).args(flags).arg("-w").arg(source).arg("-o").arg(&target).arg("-ldl").status();
    match status {
        Ok(status) => assert!(status.success(), "{compiler} {name}"),
        Err(error) => {
            skip(compiler, &error.to_string());
            return None;
        }
    }
    Some(target)
}

/// The lines that start with `mark`, each once.
fn marked(text: &str, mark: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| line.strip_prefix(mark)).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn open_mpi_takes_the_algorithms_of_an_exported_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = ["-shared", "-fPIC"];
    let Some(program) = compile("mpicc.openmpi", "calls.c", &[], folder.path()) else { return };
    let Some(watch) = compile("gcc", "watch_open_mpi.c", &shared, folder.path()) else { return };
    let (rules, _, said) = export(
        folder.path(),
        &[
            ("barrier", "tree", None),
            ("allreduce", "ring", Some(1000)),
            ("allreduce", "rabenseifner", None),
            ("bcast", "chain", None),
            ("reduce", "binomial-in-order", None),
            ("allgather", "ring", Some(64)),
            ("allgather", "bruck", None),
        ],
    );
    assert!(said.contains("Open MPI has no reduce:binomial-in-order: it gets in-order_binary"), "{said}");
    let preload = format!("LD_PRELOAD={}", watch.display());
    let run = |more: &[&str]| {
        let mut command = Command::new("mpirun.openmpi");
        command.args(["--allow-run-as-root", "--oversubscribe", "-x", &preload, "-n", "4"]).args(more);
        let (_, said) = ends(0, command.arg(&program).stdin(Stdio::null()));
        marked(&said, "algorithm ")
    };
    let rules = rules.to_str().expect("a path");
    let dynamic =
        ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_dynamic_rules_filename", rules];
    let taken = run(&dynamic);
    let expected = [
        "allgather 2048: bruck",
        "allgather 64: ring",
        "allreduce 8: ring",
        "allreduce 65536: redscat_allgather",
        "barrier: tree",
        "bcast 65536: pipeline",
        "reduce 8: in_order_binary",
    ];
    for expected in expected {
        assert!(taken.contains(expected), "{expected}: {taken:?}");
    }
    assert!(!run(&[]).contains("allgather 64: ring"), "without the file it would do so, too");
}

#[test]
fn mpich_takes_the_algorithms_of_an_exported_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compile("mpicc.mpich", "calls.c", &[], folder.path()) else { return };
    let Some(watch) = compile("gcc", "watch_mpich.c", &["-shared", "-fPIC"], folder.path()) else { return };
    let (_, selection, said) = export(
        folder.path(),
        &[
            ("allreduce", "recursive-doubling", None),
            ("bcast", "scatter-allgather", None),
            ("allgather", "ring", None),
        ],
    );
    assert!(!said.contains("MPICH has no allreduce"), "{said}");
    let text = fs::read_to_string(&selection).expect("it was written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json.as_object().map(|all| all.len()), Some(44), "every collective of MPICH 4.0");
    let run = |file: Option<&Path>| {
        let mut command = Command::new("mpiexec.mpich");
        command.args(["-n", "4"]).arg(&program).stdin(Stdio::null()).env("LD_PRELOAD", &watch);
        // Through UCX, where sends can be seen, also between ranks of one host.
        command.env("MPIR_CVAR_NOLOCAL", "1");
        if let Some(file) = file {
            command.env("MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE", file);
        }
        marked(&ends(0, &mut command).1, "sent ")
    };
    let (with, without) = (run(Some(&selection)), run(None));
    if with.is_empty() {
        return skip("mpich-ucx", "this MPICH does not send through UCX");
    }
    // Sends of rank 0, by their bytes: halves and quarters where vectors are split, whole vectors where not.
    assert!(with.contains("allreduce 65536: 65536 65536"), "{with:?}");
    assert!(with.contains("allgather 64: 64 64 64"), "{with:?}");
    assert!(with.contains("bcast 65536: 32768 16384 16384 16384 16384"), "{with:?}");
    assert_eq!(with.intersection(&without).count(), 1, "{with:?}, {without:?}");
}
