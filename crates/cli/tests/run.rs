//! `castell run`: programs as processes, over every queue, with every option, and what happens to those that wait
//! for ever.

use castell_host::process::{Pid, Process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn castell(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.arg("run").args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    castell(arguments).output().expect("castell runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/goal").join(name);
    path.to_str().expect("a path").to_string()
}

/// A program in a file that is gone with the directory.
fn program(directory: &tempfile::TempDir, text: &str) -> String {
    let path: PathBuf = directory.path().join("program.goal");
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path").to_string()
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// The JSON object that a run which has to go well prints.
fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Ranks 0 and 1 exchange `count` messages of `bytes` bytes through the scratchpad, and add up what comes.
fn summing(count: u32, bytes: u64) -> String {
    let mut program = "num_ranks 2\n".to_string();
    for rank in 0..2 {
        let peer = 1 - rank;
        program.push_str(&format!("rank {rank} {{\nscratchpad {}b\n", 3 * bytes));
        for i in 0..count {
            program.push_str(&format!("s{i}: send {bytes}b to {peer} tag {i} at @0\n"));
            program.push_str(&format!("r{i}: recv {bytes}b from {peer} tag {i} at @{bytes}\n"));
            program.push_str(&format!(
                "a{i}: local add u64 {} @{bytes} @{} into @{}\n",
                bytes / 8,
                2 * bytes,
                2 * bytes
            ));
            program.push_str(&format!("a{i} requires r{i}\n"));
            if i > 0 {
                let before = i - 1;
                program.push_str(&format!("r{i} requires a{before}\ns{i} requires s{before}\n"));
            }
        }
        program.push_str("}\n");
    }
    program
}

#[test]
fn the_model_that_was_tuned_here_is_taken_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let tuned = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        command
            .args(["run", &example("pingpong.goal"), "--model", "tuned"])
            .env("XDG_CONFIG_HOME", folder.path());
        command.output().expect("castell can be started")
    };
    let nothing = tuned();
    assert_eq!(nothing.status.code(), Some(2));
    assert!(
        text(&nothing.stderr).contains("was not tuned yet: `castell tune` writes"),
        "{}",
        text(&nothing.stderr)
    );
    let said = text(&nothing.stderr);
    let file = said.split("writes ").nth(1).and_then(|rest| rest.split(".toml").next()).expect("its name");
    let file = std::path::PathBuf::from(format!("{file}.toml"));
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let machine =
        "[machine]\nhost = \"h\"\nprocessor = \"p\"\nprocessors = 2\ntransport = \"shared-memory\"\n";
    std::fs::write(&file, format!("format = 1\ncastell = \"0.1.0\"\n{machine}")).expect("a file");
    let none = tuned();
    assert!(text(&none.stderr).contains("has no model"), "{}", text(&none.stderr));
    let model = "model = \"plb:alpha_p=1us,alpha_r=1us,beta=0ns,gamma=1ps\"\n";
    std::fs::write(&file, format!("format = 1\ncastell = \"0.1.0\"\n{model}{machine}")).expect("a file");
    let predicted = tuned();
    assert!(text(&predicted.stdout).contains("predicted "), "{}", text(&predicted.stderr));
}

#[test]
fn one_json_object_says_what_happened() {
    let directory = directory();
    let file = program(&directory, &summing(5, 800));
    let object = json(&[&file]);
    let mut keys: Vec<&String> = object.as_object().expect("an object").keys().collect();
    keys.sort();
    assert_eq!(keys, ["bytes", "doubts", "end_ns", "messages", "ranks", "wall_ns"]);
    assert_eq!(
        (&object["ranks"], &object["messages"], &object["bytes"]),
        (&2.into(), &10.into(), &8000.into())
    );
    let ends: Vec<u64> = object["end_ns"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|end| end.as_u64().expect("a time"))
        .collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(ends.iter().max().copied(), object["wall_ns"].as_u64());
    let table = text(&run(&[&file]).stdout);
    assert!(table.lines().any(|line| line.trim_start().starts_with("all ")), "{table}");
}

#[test]
fn data_moves_in_every_way() {
    let directory = directory();
    for bytes in [8, 8000, 80_000] {
        let file = program(&directory, &summing(6, bytes));
        assert_eq!(json(&[&file, "--queue-slots", "256"])["bytes"], 12 * bytes);
        for eager in ["64", "100000"] {
            assert_eq!(json(&[&file, "--eager", eager])["messages"], 12, "eager up to {eager}");
        }
    }
}

#[test]
fn the_examples_run_with_more_ranks_than_processors() {
    for name in ["barrier.goal", "halo.goal", "pingpong.goal", "wavefront.goal"] {
        let object = json(&[&example(name), "--calc-scale", "0.001"]);
        assert!(object["messages"].as_u64() > Some(0), "{name}");
    }
    // Each of 16 ranks with each other.
    let mut all = "num_ranks 16\n".to_string();
    for rank in 0..16 {
        all.push_str(&format!("rank {rank} {{\n"));
        for peer in (0..16).filter(|peer| *peer != rank) {
            all.push_str(&format!(
                "s{peer}: send 3000b to {peer} tag 1\nr{peer}: recv 3000b from {peer} tag 1\n"
            ));
        }
        all.push_str("}\n");
    }
    let directory = directory();
    let file = program(&directory, &all);
    assert_eq!(json(&[&file])["messages"], 240);
}

#[test]
fn computing_takes_its_time_unless_it_is_scaled() {
    let directory = directory();
    let file =
        program(&directory, "num_ranks 1\nrank 0 {\na: calc 20000000\nb: sleep 20000000\nb requires a\n}\n");
    let wall = |scale: &str| json(&[&file, "--calc-scale", scale])["wall_ns"].as_u64().expect("a time");
    assert!(wall("1") >= 40_000_000);
    assert!(wall("2") >= 80_000_000);
    // Eleven days, of which nothing is left.
    let long = program(&directory, "num_ranks 1\nrank 0 {\na: calc 1000000000000000\n}\n");
    assert!(json(&[&long, "--calc-scale", "0"])["wall_ns"].is_u64());
}

#[test]
fn a_timeline_has_every_operation_and_every_message() {
    let directory = directory();
    let file = program(&directory, &summing(4, 80));
    let out = directory.path().join("timeline.json");
    let output = run(&[&file, "--timeline", out.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("timeline.json"));
    let timeline: Value = serde_json::from_slice(&std::fs::read(&out).expect("written")).expect("valid JSON");
    let events = timeline["traceEvents"].as_array().or(timeline.as_array()).expect("events");
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let is_wait = |event: &&Value| event["cat"] == "wait" || event["cat"] == "critical path";
    let spans: Vec<&Value> = of("X").into_iter().filter(|event| !is_wait(event)).collect();
    assert_eq!(spans.len(), 2 * 4 * 3, "two ranks of four sends, receives and additions");
    assert!(
        spans
            .iter()
            .any(|span| span["name"].as_str().is_some_and(|name| name.starts_with("s0: send 80b to 1")))
    );
    assert_eq!((of("s").len(), of("f").len()), (8, 8), "arrows start and end");
    let nowhere = run(&[&file, "--timeline", "/no/such/directory/timeline.json"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(text(&nowhere.stderr).contains("cannot write /no/such/directory/timeline.json"));
    assert!(nowhere.stdout.is_empty(), "refused before anything ran: {}", text(&nowhere.stdout));
}

#[test]
fn the_name_of_a_timeline_tells_its_format() {
    let directory = directory();
    let file = program(&directory, &summing(4, 80));
    let out = directory.path().join("timeline.svg");
    let output = run(&[&file, "--timeline", out.to_str().expect("a path"), "--theme", "dark"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("timeline.svg (open it in a browser)"));
    let drawing = std::fs::read_to_string(&out).expect("written");
    assert!(
        drawing.starts_with("<svg ")
            && drawing.contains(">rank 1</text>")
            && drawing.contains("s0: send 80b to 1")
    );
    let out = directory.path().join("timeline.prv");
    let output = run(&[&file, "--timeline", out.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(std::fs::read_to_string(&out).expect("written").starts_with("#Paraver ("));
    assert!(out.with_extension("pcf").exists() && out.with_extension("row").exists());
    let again = run(&[out.to_str().expect("a path"), "--calc-scale", "0", "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).expect("valid JSON");
    assert_eq!((&again["ranks"], &again["messages"]), (&2.into(), &8.into()), "a timeline can be run again");
    let unknown = run(&[&file, "--timeline", "timeline.gif"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains(".svg"), "{}", text(&unknown.stderr));
}

#[test]
fn what_cannot_run_is_refused_with_the_reason() {
    let directory = directory();
    let good = example("pingpong.goal");
    let in_file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a path").to_string()
    };
    let addresses = in_file(
        "addresses.goal",
        "num_ranks 1\nrank 0 {\nx: send 8b to 0 tag 0 at 0x7f00\ny: recv 8b from 0 tag 0\n}\n",
    );
    let call = in_file("call.goal", "num_ranks 1\nrank 0 {\nx: call 0xF(0xC)\n}\n");
    let cycle =
        in_file("cycle.goal", "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n");
    let lonely = in_file("lonely.goal", "num_ranks 2\nrank 0 {\nx: send 8b to 1 tag 4\n}\nrank 1 {\n}\n");
    let broken = in_file("broken.goal", "num_ranks 2\nrank 0 {\nx: sned 8b to 1\n}\n");
    let cases: [(&[&str], i32, &str); 12] = [
        (&[], 2, "<FILE>"),
        (&["/no/such/file.goal"], 1, "/no/such/file.goal"),
        (&[&good, "-n", "3"], 1, "program of 2 ranks and cannot be run with 3"),
        (&[&good, "--queue-slots", "100"], 1, "power of two"),
        (&[&good, "--calc-scale=-1"], 2, "a number from 0 on"),
        (&[&good, "--stall", "soon"], 2, "soon"),
        (&[&good, "--bind", "8000"], 1, "processor 8000 may not be used here"),
        (&["--no-check", &addresses], 1, "names an address"),
        (&["--no-check", &call], 1, "names an address"),
        (&[&cycle], 1, "cycle"),
        (&[&lonely], 1, "--no-check"),
        (&[&broken], 1, "broken.goal:3"),
    ];
    for (arguments, code, message) in cases {
        let output = run(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: no `{message}` in {errors}");
    }
    assert_eq!(run(&["--no-check", &cycle]).status.code(), Some(1), "a cycle cannot be compiled");
    // The right number is no reason to complain.
    assert_eq!(run(&[&good, "-n", "2"]).status.code(), Some(0));
}

#[test]
fn ranks_that_fail_are_named() {
    let directory = directory();
    let file = program(
        &directory,
        "num_ranks 2\nrank 0 {\nx: send 8b to 1 tag 4\n}\nrank 1 {\nwrong: recv 9b from 0 tag 4\n}\n",
    );
    let output = run(&["--no-check", "--json", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("rank 1: `wrong: recv 9b from 0 tag 4`: the sizes do not match"));
    let object: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(object["failures"].as_array().map(|failures| !failures.is_empty()), Some(true), "{object}");
}

/// The others fail, too, since a rank that failed has left: what it failed of is always told.
#[test]
fn the_cause_is_told_whoever_fails_with_it() {
    let directory = directory();
    let file = program(
        &directory,
        "num_ranks 3\nrank 0 {\ns: send 8b to 1 tag 0\nr: recv 8b from 2 tag 3\n}\n\
         rank 1 {\na: recv 16b from 0 tag 0\n}\nrank 2 {\ns: send 8b to 1 tag 1\n}\n",
    );
    for _ in 0..10 {
        let output = run(&["--no-check", &file]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("rank 1: `a: recv 16b from 0 tag 0`: the sizes do not match"), "{said}");
    }
}

#[test]
fn a_rank_that_is_killed_is_named() {
    let directory = directory();
    let file = program(&directory, WAITING);
    for (signal, name) in [(libc::SIGKILL, "SIGKILL"), (libc::SIGABRT, "SIGABRT")] {
        let waiting = Waiting::start("0", &file);
        wait_for_ranks(waiting.child.id(), 2);
        let castell = waiting.child.id();
        let children = std::fs::read_to_string(format!("/proc/{castell}/task/{castell}/children"));
        let children: Vec<i32> = children
            .expect("it lives")
            .split_whitespace()
            .map(|pid| pid.parse().expect("a number"))
            .collect();
        let rank = Pid::from_raw(children[1])
            .map(Process::open)
            .expect("a number")
            .expect("it lives, as its parent");
        rank.signal(signal).expect("a signal");
        let mut waiting = waiting;
        // Ranks start in their order.
        waiting.read_until(&format!("rank 1 (process {}) was killed by {name}", children[1]));
        assert_eq!(waiting.child.wait().expect("it ends").code(), Some(1));
    }
}

/// Rank 0 waits for one message that comes, and for one that never comes; rank 1 for the latter all the time.
const WAITING: &str = "num_ranks 2
rank 0 {
first: recv 8b from 1 tag 3
never: recv 16b from 1 tag 5
never requires first
}
rank 1 {
pause: sleep 1200000000
answer: send 8b to 0 tag 3
answer requires pause
lost: recv 24b from -1 tag 6
}
";

/// A `castell run` whose messages are read line by line. It is killed when the test is through, or fails.
struct Waiting {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Waiting {
    fn start(stall: &str, file: &str) -> Waiting {
        let mut command = castell(&["--no-check", "--stall", stall, file]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("castell runs");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        Waiting { child, lines }
    }

    /// Reads until a line has `part`; gives all lines up to it.
    fn read_until(&mut self, part: &str) -> Vec<String> {
        let mut read = Vec::new();
        for line in self.lines.by_ref() {
            read.push(line.expect("text"));
            if read.last().is_some_and(|line| line.contains(part)) {
                return read;
            }
        }
        panic!("no `{part}` in {read:?}");
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // The kernel kills the ranks with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_stall_is_reported_once_and_again_after_progress() {
    let directory = directory();
    let mut waiting = Waiting::start("300ms", &program(&directory, WAITING));
    let lines = waiting.read_until("`never: recv 16b from 1 tag 5` waits for rank 1");
    let with = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!(with("castell: rank 0:   `first: recv 8b from 1 tag 3` waits for rank 1"), 1, "{lines:?}");
    // Rank 1 has sent something meanwhile, and its second report may be there first.
    let lost = with("castell: rank 1:   `lost: recv 24b from any tag 6` waits for any rank");
    assert!((1..=2).contains(&lost), "{lines:?}");
    assert_eq!(with("castell: rank 0: nothing moved for "), 2, "{lines:?}");
    assert!(waiting.child.try_wait().expect("a child").is_none(), "it goes on waiting");
}

#[test]
fn who_waits_for_whom_is_told_at_once_to_those_who_ask() {
    let directory = directory();
    let file = program(
        &directory,
        "num_ranks 2\nrank 0 {\na: recv 8b from 1 tag 3\n}\nrank 1 {\nb: recv 70000b from 0 tag 4\n}\n",
    );
    let mut waiting = Waiting::start("0", &file);
    let process =
        Pid::from_raw(waiting.child.id() as i32).map(Process::open).expect("a number").expect("alive");
    wait_for_ranks(waiting.child.id(), 2);
    for _ in 0..2 {
        process.signal(libc::SIGUSR1).expect("a signal");
        let (mut first, mut second) = (false, false);
        while !(first && second) {
            let line = waiting.read_until("waits for rank").pop().expect("a line");
            first |= line == "castell: rank 0:   `a: recv 8b from 1 tag 3` waits for rank 1";
            second |= line == "castell: rank 1:   `b: recv 70000b from 0 tag 4` waits for rank 0";
        }
    }
}

/// Waits until castell handles signals and its ranks sleep.
fn wait_for_ranks(castell: u32, ranks: usize) {
    let begin = Instant::now();
    let sleeping = || {
        let children = format!("/proc/{castell}/task/{castell}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let asleep = |pid: &&str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
        };
        children.split_whitespace().filter(asleep).count()
    };
    while sleeping() < ranks {
        assert!(begin.elapsed() < Duration::from_secs(20), "the ranks do not wait");
        std::thread::sleep(Duration::from_millis(5));
    }
    // A rank may sleep at the start before it waits for messages.
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn interrupts_end_a_run_that_waits() {
    let directory = directory();
    let mut waiting = Waiting::start("0", &program(&directory, WAITING));
    wait_for_ranks(waiting.child.id(), 2);
    let process =
        Pid::from_raw(waiting.child.id() as i32).map(Process::open).expect("a number").expect("alive");
    process.signal(libc::SIGTERM).expect("a signal");
    let mut rest = String::new();
    for line in waiting.lines.by_ref() {
        rest.push_str(&line.expect("text"));
    }
    assert!(rest.contains("castell: interrupted by SIGTERM"), "{rest}");
    assert_eq!(waiting.child.wait().expect("castell ends").code(), Some(143));
}

#[test]
fn programs_come_from_standard_input_too() {
    let mut command = castell(&["-", "--json"]);
    let file = std::fs::File::open(example("pingpong.goal")).expect("the example");
    let mut child = command.stdin(file).stdout(Stdio::piped()).spawn().expect("castell runs");
    let mut printed = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut printed).expect("text");
    assert_eq!(child.wait().expect("castell ends").code(), Some(0));
    assert_eq!(serde_json::from_str::<Value>(&printed).expect("JSON")["ranks"], 2);
}

/// Rank 1 computes for long while its receive is posted: that is no waiting. Then it waits for rank 0, which computes longer.
#[test]
fn true_waiting_stands_apart_from_receives_that_were_posted_early() {
    let directory = directory();
    let file = program(
        &directory,
        "num_ranks 2\nrank 0 {\nlong: calc 400000000\nout: send 8b to 1 tag 3\nout requires long\n}\n\
         rank 1 {\nshort: calc 50000000\nin: recv 8b from 0 tag 3\n}\n",
    );
    let out = directory.path().join("timeline.json");
    let output = run(&[&file, "--timeline", out.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace: Value = serde_json::from_slice(&std::fs::read(&out).expect("written")).expect("valid JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let end_us =
        |event: &Value| event["ts"].as_f64().expect("a time") + event["dur"].as_f64().expect("a time");
    let of = |name: &str| {
        let found = events.iter().find(|event| {
            event["ph"] == "X" && event["name"].as_str().is_some_and(|text| text.starts_with(name))
        });
        found.unwrap_or_else(|| panic!("no {name}: {events:?}"))
    };
    let (short, received, waited) = (of("short"), of("in: recv"), of("waits for in: recv"));
    assert!(waited["ts"].as_f64().expect("a time") >= end_us(short) - 0.001, "{waited} {short}");
    assert!(received["ts"].as_f64().expect("a time") >= end_us(waited) - 0.001, "{waited} {received}");
    // The same as a page.
    let page = directory.path().join("timeline.html");
    let output = run(&[&file, "--timeline", page.to_str().expect("a path")]);
    assert!(
        text(&output.stdout).contains("timeline.html (open it in a browser)"),
        "{}",
        text(&output.stdout)
    );
    assert!(std::fs::read_to_string(&page).expect("a page").contains("waits for in, line "));
}

/// What castell wrote is replaced; what somebody else wrote is not, unless that is asked for.
#[test]
fn files_of_others_are_not_overwritten_silently() {
    let directory = directory();
    let file = program(&directory, &summing(4, 80));
    let out = directory.path().join("letter.svg");
    let name = out.to_str().expect("a path");
    std::fs::write(&out, "Dear all").expect("written");
    let output = run(&[&file, "--timeline", name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("letter.svg is there already"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&out).expect("read"), "Dear all");
    for options in [&[&*file, "--force", "--timeline", name][..], &[&file, "--timeline", name]] {
        let output = run(options);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(std::fs::read_to_string(&out).expect("read").starts_with("<svg "));
    }
}

#[test]
fn a_drawing_has_the_title_width_font_and_part_that_are_asked_for() {
    let directory = directory();
    let file = program(&directory, &summing(4, 80));
    let out = directory.path().join("figure.svg");
    let name = out.to_str().expect("a path");
    let options = ["--timeline", name, "--width", "640", "--font", "Libertinus Serif", "--title", "Figure 3"];
    let output = run(&[&[&*file][..], &options, &["--time", "0s..1s"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let drawing = std::fs::read_to_string(&out).expect("written");
    for wanted in [
        "width=\"640\"",
        "font-family:'Libertinus Serif'",
        ">Figure 3</text>",
        "0.000000 to ",
        "critical path",
    ] {
        assert!(drawing.contains(wanted), "{wanted}");
    }
    // As a picture, only one rank of the two, and what a model says beneath.
    let picture = directory.path().join("figure.png");
    let options = ["--only", "1..3", "--model", "loggp:L=1us,o=300ns,g=400ns,G=0.1ns"];
    let output = run(&[&[&*file, "--timeline", picture.to_str().expect("a path")], &options[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(std::fs::read(&picture).expect("written").starts_with(b"\x89PNG"));
    let printed = text(&output.stdout);
    assert!(printed.contains("predicted 0.0") && printed.contains("times as long"), "{printed}");
    let output = run(&[&[&*file, "--timeline", name], &options[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let drawing = std::fs::read_to_string(&out).expect("written");
    assert!(drawing.matches("<svg ").count() == 3 && drawing.contains(", predicted</text>"), "{drawing}");
    assert!(
        drawing.matches(">rank 1</text>").count() == 2 && !drawing.contains(">rank 0</text>"),
        "{drawing}"
    );
    for wrong in ["3us..2us", "soon", "1..2"] {
        let output = run(&[&file, "--timeline", name, "--time", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", text(&output.stderr));
    }
}

/// Whether libfabric is there, and lacks this provider, or is not.
#[test]
fn a_network_that_cannot_be_had_is_told_of_without_a_table() {
    let output = run(&["barrier:dissemination", "-n", "2", "--net", "fabric=nosuch"]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{said}");
    assert!(said.contains("libfabric") && !said.contains("panicked"), "{said}");
}
