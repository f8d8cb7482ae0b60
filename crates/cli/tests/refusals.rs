//! What cannot be done is refused before it is tried, with a sentence that says why; nothing panics, and nothing ends without a word.

use serde_json::Value;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn castell(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output and error of a command that has to end with `code`.
#[track_caller]
fn ends(code: i32, command: &mut Command) -> (String, String) {
    let output: Output = command.output().expect("it starts");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{command:?}: {out}{err}");
    assert!(!err.contains("panicked"), "{command:?}: {err}");
    (out, err)
}

fn program(folder: &Path, text: &str) -> String {
    let path = folder.join("program.goal");
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path").to_owned()
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let (_, err) =
        ends(1, castell(&["simulate", "barrier:linear", "--ranks", "4"]).stdout(Stdio::from(full)));
    assert!(err.contains("castell: cannot write to the standard output: No space left on device"), "{err}");
}

#[test]
fn what_does_not_fit_into_memory_is_refused_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = program(folder.path(), "num_ranks 4000000000\n");
    let (_, err) = ends(1, &mut castell(&["simulate", &empty]));
    assert!(err.contains("4000000000 ranks would take at least 256.0 GB, "), "{err}");
    let (_, err) = ends(1, &mut castell(&["simulate", "pingpong:1000000000", "--ranks", "2"]));
    assert!(err.contains("4000000000 operations of 2 ranks would take at least"), "{err}");
    for network in ["torus:dims=922337203", "hypercube:dims=26", "butterfly:arity=2,stages=27"] {
        // So that no machine has as much as they take.
        let command = format!("exec {} simulate barrier:linear --ranks 4", env!("CARGO_BIN_EXE_castell"));
        let script = format!("ulimit -v 8000000; {command} --network {network}");
        let (_, err) = ends(1, Command::new("sh").args(["-c", &script]));
        assert!(
            err.contains("links would take at least") && err.contains("half of the 8.2 GB that are free"),
            "{err}"
        );
    }
    let large = program(
        folder.path(),
        "num_ranks 2\nrank 0 {\nsend 1000000000000000b to 1\n}\nrank 1 {\nrecv 1000000000000000b from 0\n}\n",
    );
    let (out, err) = ends(1, &mut castell(&["run", &large, "--json"]));
    assert!(err.contains("what the ranks keep and send would take at least 2000.0 TB"), "{err}");
    // For programs that read the output, the error is an object.
    let object: Value = serde_json::from_str(&out).expect("one JSON object");
    assert!(object["error"].as_str().is_some_and(|error| error.contains("2000.0 TB")), "{object}");
}

#[test]
fn a_limit_on_files_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let good =
        program(folder.path(), "num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n");
    let script = format!("ulimit -f 10; exec {} run {good}", env!("CARGO_BIN_EXE_castell"));
    let (_, err) = ends(1, Command::new("sh").args(["-c", &script]));
    assert!(
        err.contains("shared memory are more than a file may have here") && err.contains("ulimit -f"),
        "{err}"
    );
    let bench = "bench pingpong --no-peers --samples 1 --rounds 1 --bytes 8";
    let script = format!("ulimit -f 10; exec {} {bench}", env!("CARGO_BIN_EXE_castell"));
    let (_, err) = ends(1, Command::new("sh").args(["-c", &script]));
    assert!(err.contains("shared memory are more than a file may have here"), "{err}");
    let launch = "launch -n 2 -- true";
    let script = format!("ulimit -f 10; exec {} {launch}", env!("CARGO_BIN_EXE_castell"));
    let (_, err) = ends(1, Command::new("sh").args(["-c", &script]));
    assert!(err.contains("shared memory are more than a file may have here"), "{err}");
    // Programs that are launched meet the limit in the usual way.
    let script = "grep SigIgn /proc/self/status";
    let (out, _) = ends(0, &mut castell(&["launch", "-n", "1", "--", "sh", "-c", script]));
    let ignored = u64::from_str_radix(out.split_whitespace().last().expect("a mask"), 16).expect("a number");
    assert_eq!(ignored & (1 << (25 - 1)), 0, "SIGXFSZ is ignored: {out}");
}

#[test]
fn a_key_press_ends_a_run_without_a_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let waiting =
        program(folder.path(), "num_ranks 2\nrank 0 {\nrecv 8b from 1\n}\nrank 1 {\nrecv 8b from 0\n}\n");
    for json in [false, true] {
        let mut command = castell(&["run", "--no-check", &waiting]);
        if json {
            command.arg("--json");
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // It handles signals from its start on; a rank is there once it has children.
        let pid = child.id();
        let children = PathBuf::from(format!("/proc/{pid}/task/{pid}/children"));
        while std::fs::read_to_string(&children).is_ok_and(|list| list.trim().is_empty()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = Command::new("kill").args(["-INT", &pid.to_string()]).status().expect("kill");
        assert!(status.success());
        let output = child.wait_with_output().expect("it ends");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(130), "{out}{err}");
        assert!(err.contains("castell: interrupted by SIGINT"), "{err}");
        match json {
            false => assert_eq!(out, ""),
            true => assert_eq!(out, "{\"error\":\"interrupted by SIGINT\"}\n"),
        }
    }
}

/// Unless it was started so as to ignore it, as by `&` in a script.
#[test]
fn a_key_press_ends_a_simulation() {
    let mut command = Command::new("env");
    command.args([
        "--default-signal=INT",
        env!("CARGO_BIN_EXE_castell"),
        "simulate",
        "barrier:dissemination",
    ]);
    command.args(["--ranks", "1024", "--repeat", "100000", "--model", "loggops:o=normal(1500ns,300ns)"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    // It computes: a tenth of a second by now, of minutes.
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let rest = stat.rsplit(')').next().unwrap_or_default();
        rest.split_whitespace().nth(11).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0)
    };
    while ticks() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(interrupt.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.signal(), text(&output.stdout).as_str()), (Some(libc::SIGINT), ""));
}

/// More ways than anybody reads: the first of them are priced.
#[test]
fn all_schedules_of_many_ranks_end() {
    let (out, _) = ends(0, &mut castell(&["schedule", "allreduce", "--ranks", "720720", "--all", "--json"]));
    let found: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(found["ranks"], 720_720);
}

#[test]
fn there_is_one_list_of_patterns() {
    let (listed, _) = ends(0, &mut castell(&["simulate", "--list"]));
    let (scheduled, _) = ends(0, &mut castell(&["schedule", "list"]));
    assert_eq!(listed, scheduled);
    assert!(listed.contains("pingpong:N") && listed.contains("allreduce:rabenseifner"), "{listed}");
    for list in [&["simulate", "--list", "--json"][..], &["schedule", "list", "--json"]] {
        let (out, _) = ends(0, &mut castell(list));
        let object: Value = serde_json::from_str(&out).expect("one JSON object");
        let patterns = object["patterns"].as_array().expect("a list");
        assert_eq!(patterns.len(), listed.lines().count());
        assert!(patterns.iter().all(|one| one["name"].is_string() && one["summary"].is_string()), "{out}");
    }
    let (_, err) = ends(1, &mut castell(&["simulate", "bcast:binomal", "--ranks", "8"]));
    assert!(err.contains("did you mean bcast:binomial?"), "{err}");
}

/// A heading of the help is about what stands below it.
#[test]
fn general_options_do_not_stand_below_patterns() {
    let (help, _) = ends(0, &mut castell(&["simulate", "--help"]));
    let (general, patterns) = help.split_once("\nPatterns:\n").expect("a heading");
    for option in ["--model", "--timeline", "--json", "--threads", "--repeat", "--force"] {
        let line = format!("\n      {option}");
        assert!(general.contains(&line) && !patterns.contains(&line), "{option}: {help}");
    }
    assert!(patterns.contains("--ranks <N>") && !general.contains("--ranks <N>"), "{help}");
}

#[test]
fn endings_tell_formats_and_each_line_whose_it_is() {
    for command in [
        &["schedule", "check", "a4,a2", "--ranks", "8", "--svg", "x.gif"][..],
        &["tune", "--timeline", "x.gif"],
    ] {
        let (_, err) = ends(2, &mut castell(command));
        assert!(err.contains(".svg, .png or .pdf"), "{err}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, begins) in [("x.svg", &b"<svg"[..]), ("x.png", b"\x89PNG"), ("x.pdf", b"%PDF")] {
        let path = folder.path().join(name);
        let drawn = ["schedule", "check", "a4,a2", "--ranks", "8", "--svg"];
        ends(0, castell(&drawn).arg(&path));
        let written = std::fs::read(&path).expect("it has been drawn");
        assert!(
            written.starts_with(begins) || name == "x.svg" && written.windows(4).any(|four| four == begins)
        );
    }
    let lonely = program(
        folder.path(),
        "num_ranks 2\nrank 0 {\nsend 8b to 1 tag 1\nsend 8b to 1 tag 2\n}\nrank 1 {\n}\n",
    );
    let (_, err) = ends(1, &mut castell(&["run", &lonely]));
    assert!(err.lines().count() > 2 && err.lines().all(|line| line.starts_with("castell: ")), "{err}");
    let (_, err) =
        ends(1, &mut castell(&["simulate", "barrier:linear", "--ranks", "2", "--detours", "/nowhere/x"]));
    assert_eq!(err.matches("No such file").count(), 1, "{err}");
}

#[test]
fn a_model_without_sizes_says_so() {
    let allreduce =
        |more: &[&str]| ends(0, castell(&["schedule", "allreduce", "--ranks", "48"]).args(more)).0;
    assert!(allreduce(&[]).contains("the times are those of any size"));
    let with_beta = ["--model", "plb:alpha_p=1us,alpha_r=1us,beta=1ns"];
    assert!(!allreduce(&with_beta).contains("of any size"));
}

#[test]
fn names_in_a_daemon_are_words() {
    for (option, name) in
        [("--resource", "a b"), ("--resource", ""), ("--governor", ""), ("--governor", "a\nb")]
    {
        let (_, err) = ends(2, &mut castell(&["daemon", option, name]));
        assert!(err.contains("a name of up to 64 letters, digits, and _ - ."), "{option} {name:?}: {err}");
    }
}
