//! `castell run` and timelines over the hosts of a lab, whose clocks differ by what the lab says.

mod json_page;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use json_page::stands_on_the_page;
use serde_json::Value;
use skipped::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");
/// Whether a process of these tests is a rank.
const ROLE: &str = "CASTELL_TEST_ROLE";
/// A host of a lab is so much ahead of the one before it.
const AHEAD_NS: i64 = 4321 * 1_000_000_000;

/// Whether labs can be made here; else the test counts as skipped.
fn labs_are_possible() -> bool {
    let output = Command::new(CASTELL).args(["lab", "1", "--", "true"]).output().expect("castell runs");
    if !output.status.success() {
        skip("lab", &text(&output.stderr));
    }
    output.status.success()
}

fn in_lab(lab: &[&str], words: &[&str]) -> Output {
    let mut command = Command::new(CASTELL);
    command.arg("lab").args(lab).arg("--").args(words).stdin(Stdio::null()).env("CASTELL", CASTELL);
    command.output().expect("castell runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one object")
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/goal").join(name).display().to_string()
}

/// A file that all hosts see, with this content.
fn shared_file(name: &str, content: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, content).expect("written");
    path
}

/// What is said of each host's clock is right within what is said of its error, on quick networks and on slow ones.
#[test]
fn clocks_of_hosts_are_known_within_the_error() {
    if !labs_are_possible() {
        return;
    }
    for lab in [&["3"][..], &["2", "--delay", "2ms"]] {
        let told = json(&in_lab(lab, &[CASTELL, "run", &example("barrier.goal"), "--json"]));
        let clocks = told["clocks"]["hosts"].as_array().expect("clocks").clone();
        assert_eq!(clocks.len().to_string(), lab[0]);
        let mut errors = Vec::new();
        for (at, clock) in (0..).zip(&clocks) {
            let ahead_ns = clock["ahead_ns"].as_i64().expect("a number");
            let error_ns = clock["error_ns"].as_f64().expect("a number");
            let off_ns = (ahead_ns - at * AHEAD_NS).abs();
            assert!(off_ns as f64 <= error_ns, "{clock}: {off_ns} ns off");
            let drift = clock["drift_ppm"].as_f64().expect("a number").abs();
            let drift_error = clock["drift_error_ppm"].as_f64().expect("a number");
            assert!(drift <= drift_error, "all hosts have the clock of one machine: {clock}");
            errors.push(error_ns);
        }
        errors.sort_by(|a, b| b.total_cmp(a));
        let whole = told["clocks"]["error_ns"].as_f64().expect("a number");
        assert!((whole - errors[0] - errors[1]).abs() <= 3.0, "{whole} {errors:?}");
    }
}

/// The same messages as on one host, and times that fit on one axis: not 4,321 s apart.
#[test]
fn a_program_runs_over_hosts_as_on_one() {
    if !labs_are_possible() {
        return;
    }
    let file = example("halo.goal");
    let words = [CASTELL, "run", &file, "--json", "--repeat", "3"];
    let here = Command::new(CASTELL).args(&words[1..]).env_remove("CASTELL_LAB_HOSTS").output();
    let (here, there) = (json(&here.expect("castell runs")), json(&in_lab(&["4"], &words)));
    for key in ["ranks", "messages", "bytes"] {
        assert_eq!(here[key], there[key], "{key}");
    }
    assert!(here["clocks"].is_null());
    let wall_ns = there["wall_ns"].as_u64().expect("a time");
    assert!(wall_ns < 1_000_000_000_000, "{there}");
    assert_eq!(there["repeat"]["times_ns"].as_array().map(Vec::len), Some(3));
    let ends = there["end_ns"].as_array().expect("ends");
    assert!(ends.iter().all(|end| (1..=wall_ns).contains(&end.as_u64().expect("a time"))), "{there}");
    // Some ranks of a host, all on one, and other ways.
    for options in
        [&["--hosts", "h2:7,h1:1"][..], &["--hosts", "h2:8"], &["--net", "tcp"], &["--net", "esp=eth0"]]
    {
        let there = json(&in_lab(&["2"], &[&words[..4], options].concat()));
        assert_eq!((&there["messages"], &there["bytes"]), (&here["messages"], &here["bytes"]), "{options:?}");
    }
}

/// A pattern of two levels goes by the hosts that its ranks are really on, and has the messages that are simulated.
#[test]
fn patterns_run_over_hosts_as_they_are_simulated() {
    if !labs_are_possible() {
        return;
    }
    for (name, hosts) in [
        ("allreduce:two-level", "h1:3,h2:1"),
        ("bcast:two-level", "h2:2,h1:3"),
        ("bcast:binomial", "h1:2,h2:2"),
    ] {
        let options = ["--hosts", hosts, "--bytes", "5000", "--root", "1", "--json"];
        let ran = json(&in_lab(&["2"], &[&[CASTELL, "run", name], &options[..]].concat()));
        let places: Vec<&str> = hosts.split([':', ',']).skip(1).step_by(2).collect();
        let ranks: u32 = places.iter().map(|place| place.parse::<u32>().expect("a number")).sum();
        let ranks = ranks.to_string();
        let simulate = [&["simulate", name, "--ranks", &ranks, "--measure"], &options[..]].concat();
        let simulated = json(&Command::new(CASTELL).args(simulate).output().expect("castell runs"));
        let key = |of: &Value, key: &str| of[key].as_u64().expect("a number");
        assert_eq!(key(&ran, "messages"), key(&simulated["measures"], "messages"), "{name} {hosts}");
        assert_eq!(key(&ran, "bytes"), key(&simulated["measures"], "bytes"), "{name} {hosts}");
    }
}

/// What `tune hosts` finds is what `simulate --levels` reads, and it has both levels: messages to another host cost more.
#[test]
fn both_levels_are_measured_and_simulated() {
    if !labs_are_possible() {
        return;
    }
    let file = shared_file("levels.toml", "");
    std::fs::remove_file(&file).expect("it was there");
    let name = file.display().to_string();
    let words = [CASTELL, "tune", "hosts", "--bytes", "8,4096", "-o", &name, "--json"];
    let told = json(&in_lab(&["2", "--delay", "2ms"], &words));
    let least = |level: &str| {
        let heard = told[level]["heard"].as_array().expect("times").iter();
        heard.map(|one| one["time_ns"].as_f64().expect("a time")).fold(f64::INFINITY, f64::min)
    };
    assert!(least("between") >= 4e6, "there and back: {}", least("between"));
    assert!(least("within") < least("between"));
    assert_eq!(told["hosts"], "h1,h2");
    stands_on_the_page("tune hosts", &told);
    let simulated = |hosts: &str| {
        let words =
            ["simulate", "bcast:binomial", "--ranks", "2", "--hosts", hosts, "--levels", &name, "--json"];
        let output = Command::new(CASTELL).args(words).output().expect("castell runs");
        json(&output)["makespan_ps"].as_u64().expect("a time")
    };
    // The way there takes 2 ms at least, and a fit is a fit.
    assert!(simulated("2") >= 1_000_000_000, "the way to the other host: {}", simulated("2"));
    // Not which is less: on a busy machine a sample of the nearer level may have taken long, too.
    assert_ne!(simulated("1"), simulated("2"), "both levels are read");
}

/// Messages of a timeline: as many as were sent, and none comes sooner than it left but for the error that is said.
fn check_messages(file: &Path, error_us: f64, at_least: usize) {
    let trace: Value = serde_json::from_slice(&std::fs::read(file).expect("a file")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let of = |phase: &str| -> Vec<(String, f64)> {
        let those = events.iter().filter(|event| event["ph"] == phase);
        those.map(|event| (event["id"].to_string(), event["ts"].as_f64().expect("a time"))).collect()
    };
    let (starts, ends) = (of("s"), of("f"));
    assert!(starts.len() == ends.len() && starts.len() >= at_least, "{} {}", starts.len(), ends.len());
    let ends: std::collections::HashMap<_, _> = ends.into_iter().collect();
    for (id, start) in starts {
        assert!(ends[&id] >= start - error_us, "{id}: {start} {}", ends[&id]);
        assert!(ends[&id] - start < 1e9, "{id}: on one axis");
    }
}

#[test]
fn timelines_of_programs_over_hosts() {
    if !labs_are_possible() {
        return;
    }
    let drawn = shared_file("run.json", "");
    std::fs::remove_file(&drawn).expect("it was there");
    let name = drawn.display().to_string();
    let output = in_lab(&["2"], &[CASTELL, "run", &example("pingpong.goal"), "--timeline", &name]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    check_messages(&drawn, error_us(&output), 200);
}

/// What is said of the error, in microseconds.
#[track_caller]
fn error_us(output: &Output) -> f64 {
    let said = text(&output.stderr);
    let (_, behind) = said.split_once("with an error of ").unwrap_or_else(|| panic!("{said}"));
    behind.split_once(" us at most").expect("a unit").0.parse().expect("a number")
}

#[test]
fn as_a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let comm = Comm::init().unwrap_or_else(|error| panic!("{error}"));
    for round in 0..30 {
        comm.world().barrier().expect("it ends well");
        if role == "killed" && round == 20 && comm.rank() == Rank(1) {
            std::process::abort();
        }
    }
    if role == "clock" {
        tell_the_time(&comm);
    }
    let (sent, mut got) = ([1u8; 8], [0u8; 8]);
    comm.scope(|scope| {
        let mut graph = scope.graph();
        if comm.rank() == Rank(0) {
            graph.send(scope.share(&sent), Rank(comm.size() - 1), Tag(7)).expect("legal");
        } else if comm.rank().0 == comm.size() - 1 {
            graph.recv(scope.lend(&mut got), Some(Rank(0)), Some(Tag(7))).expect("legal");
        }
        let handle = scope.run(&graph.compile().expect("it compiles")).expect("it starts");
        handle.wait().expect("it ends well");
    });
    comm.finalize();
}

/// The job's clock beside the host's, once and after asking again.
fn tell_the_time(comm: &Comm) {
    let world = comm.world();
    let mut clock = world.clock().expect("hosts answer");
    for _ in 0..2 {
        let host_ns = castell_host::clock::now_ns();
        let ahead_ns = host_ns.wrapping_sub(clock.of_host_ns(host_ns)) as i64;
        println!("* {} {} {}", comm.rank(), ahead_ns, clock.error_ns());
        std::thread::sleep(std::time::Duration::from_millis(50));
        clock.ask(&world).expect("hosts answer");
    }
}

/// All ranks of a host know rank 0's clock as exactly as they say, whoever asked for their host.
#[test]
fn programs_have_one_clock() {
    if !labs_are_possible() {
        return;
    }
    let me = std::env::current_exe().expect("a program knows its path");
    let mut command = Command::new(CASTELL);
    command.args([
        "lab",
        "3",
        "--",
        CASTELL,
        "launch",
        "--hosts",
        "h2:2,h1:2,h3:1",
        "--timeout",
        "200s",
        "--",
    ]);
    command.arg(me).args(["as_a_rank", "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.stdin(Stdio::null()).env("CASTELL", CASTELL).env(ROLE, "clock").output();
    let output = output.expect("castell runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once("* ")?.1)).collect();
    assert_eq!(lines.len(), 10, "{said}");
    for line in lines {
        let numbers: Vec<f64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [rank, ahead_ns, error_ns] = numbers[..] else { panic!("{line}") };
        // Rank 0 is on the second host.
        let expected = [0, 0, -1, -1, 1][rank as usize] as f64 * AHEAD_NS as f64;
        assert!((ahead_ns - expected).abs() <= error_ns, "{line}");
        assert_eq!(error_ns == 0.0, rank < 2.0, "only one host's clock is its own: {line}");
    }
}

/// `castell launch --timeline` of this program in a role.
fn launched(role: &str, drawn: &Path) -> Output {
    let me = std::env::current_exe().expect("a program knows its path");
    let mut command = Command::new(CASTELL);
    command
        .args(["lab", "2", "--", CASTELL, "launch", "-n", "4", "--timeout", "200s", "--timeline"])
        .arg(drawn);
    command.arg("--").arg(me).args(["as_a_rank", "--exact", "--nocapture", "--test-threads=1"]);
    command.stdin(Stdio::null()).env("CASTELL", CASTELL).env(ROLE, role).output().expect("castell runs")
}

/// Ranks of all hosts lie on one axis, also those of a host where one was killed.
#[test]
fn timelines_of_launched_programs() {
    if !labs_are_possible() {
        return;
    }
    for (role, succeeds) in [("fine", true), ("killed", false)] {
        let drawn = shared_file(&format!("{role}.json"), "");
        std::fs::remove_file(&drawn).expect("it was there");
        let output = launched(role, &drawn);
        assert_eq!(output.status.success(), succeeds, "{}", text(&output.stderr));
        check_messages(&drawn, error_us(&output), 1);
        let trace: Value = serde_json::from_slice(&std::fs::read(&drawn).expect("a file")).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events").iter();
        let mut with_bars: Vec<u64> =
            events.filter(|event| event["ph"] == "X").filter_map(|event| event["pid"].as_u64()).collect();
        with_bars.sort_unstable();
        with_bars.dedup();
        assert!(with_bars.len() >= 4, "{role}: {with_bars:?}");
    }
}

/// What fails on another host is told as what fails here.
#[test]
fn failures_over_hosts_are_told() {
    if !labs_are_possible() {
        return;
    }
    let unequal = "num_ranks 2\nrank 0 {\nsend 8b to 1 tag 3\n}\nrank 1 {\nrecv 16b from 0 tag 3\n}\n";
    let file = shared_file("unequal.goal", unequal);
    let file = file.display().to_string();
    let output = in_lab(&["2"], &[CASTELL, "run", &file, "--no-check"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("8 bytes") && said.contains("16"), "{said}");

    let script = "cp \"$0\" /tmp/it.goal && $CASTELL run /tmp/it.goal";
    let output = in_lab(&["2"], &["sh", "-c", script, &example("pingpong.goal")]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("cannot read /tmp/it.goal"), "{said}");
    assert!(said.contains("rank 1"), "{said}");

    let script = "cp \"$0\" /tmp/it.goal; $CASTELL lab --on h2 -- sh -c 'echo num_ranks 2 > /tmp/it.goal'; \
                  $CASTELL run /tmp/it.goal";
    let output = in_lab(&["2"], &["sh", "-c", script, &example("pingpong.goal")]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("is not the same file on all hosts"), "{said}");

    let output = in_lab(&["2"], &["sh", "-c", "cat \"$0\" | $CASTELL run -", &example("pingpong.goal")]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("do not see standard input"), "{said}");
}
