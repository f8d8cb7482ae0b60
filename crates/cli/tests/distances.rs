//! `castell distances` on a real program. `cargo xtask setup` builds the observer and installs Valgrind.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const CODE: &str = "#include <signal.h>\n#include <stdio.h>\nstatic volatile char memory[1 << 20];\n\
    int main(int count, char **words) { for (int r = 0; r < 4; r++) for (int i = 0; i < 1 << 20; i += 64) memory[i] = 1;\n\
    puts(\"its own output\"); if (count > 1) raise(SIGTERM); return 5; }";

fn program(folder: &Path) -> String {
    let (source, program) = (folder.join("rounds.c"), folder.join("rounds"));
    std::fs::write(&source, CODE).expect("a file");
    let status = Command::new("gcc").args(["-O1", "-o"]).arg(&program).arg(&source).status();
    assert!(status.expect("gcc is there").success());
    program.display().to_string()
}

fn distances(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.arg("distances").args(arguments).output().expect("castell can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_is_measured_and_drawn_and_ends_as_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, drawing) = (program(folder.path()), folder.path().join("curve.svg"));
    let svg = drawing.display().to_string();
    let output = distances(&["--exact", "--ignore-stack", "--svg", &svg, "--", &program]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains("its own output") && printed.contains("accesses to 1."), "{printed}");
    let drawn = std::fs::read_to_string(drawing).expect("a drawing");
    assert!(drawn.starts_with("<svg") && drawn.contains("Reuse distances of") && drawn.ends_with("</svg>\n"));
}

#[test]
fn with_json_nothing_else_is_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let profile = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        let words = ["profile", "--by", "distances"].iter().chain(arguments);
        command.args(words).args(["--", &program]).output().expect("castell can be started")
    };
    for output in [distances(&["--json", "--", &program]), profile(&["--json"])] {
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let json: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
        assert!(json["exit_code"] == 5 && err.contains("its own output"), "{json} {err}");
    }
    // So small a program is not judged by a hundredth of its blocks.
    let seen = text(&profile(&[]).stdout);
    let note = seen
        .lines()
        .find_map(|line| line.trim().strip_prefix("note: ")?.split_once(" % of the blocks were looked at"));
    let percent: f64 = note.and_then(|(percent, _)| percent.parse().ok()).unwrap_or_else(|| panic!("{seen}"));
    assert!(percent > 5.0 && seen.contains("its own output"), "{seen}");
    let seen = text(&profile(&["--sample", "0.02"]).stdout);
    assert!(seen.contains("2.000 % of the blocks were looked at"), "{seen}");
}

#[test]
fn json_has_histograms_of_threads_and_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let words = ["--json", "--threads", "--functions", "--block", "128", "--", &program, "killed"];
    let output = distances(&words);
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("SIGTERM"));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let seen = &json["programs"][0];
    assert_eq!((&json["block_bytes"], &json["signal"]), (&128.into(), &libc::SIGTERM.into()));
    // A round of 1 MiB in blocks of 128 bytes.
    let far = seen["distances_blocks"]
        .as_array()
        .expect("buckets")
        .iter()
        .filter(|bucket| (7_500.0..9_000.0).contains(&bucket[0].as_f64().expect("a number")));
    let far: f64 = far.filter_map(|bucket| bucket[2].as_f64()).sum();
    assert!((3.0 * 8192.0..3.0 * 8192.0 + 500.0).contains(&far), "{far}");
    assert!(seen["functions"]["main"]["accesses"].as_f64().is_some_and(|count| count >= 4.0 * 8192.0));
    assert_eq!(seen["threads"]["1"]["accesses"], seen["accesses"]);
}

#[test]
fn kept_accesses_have_the_same_distances() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, trace) = (program(folder.path()), folder.path().join("rounds.trace").display().to_string());
    let measured = distances(&["--json", "--trace", &trace, "--", &program]);
    let out = text(&measured.stdout);
    let measured: Value = serde_json::from_str(&out.replacen("its own output\n", "", 1)).expect("JSON");
    let kept = distances(&["--json", "--from-trace", &trace]);
    let kept: Value = serde_json::from_slice(&kept.stdout).expect("JSON");
    for part in ["accesses", "blocks", "distances_blocks", "miss_ratios", "process"] {
        assert_eq!(kept["programs"][0][part], measured["programs"][0][part], "{part}");
    }
    // Another block: the trace has the addresses.
    let larger = distances(&["--json", "--block", "128", "--from-trace", &trace]);
    let larger: Value = serde_json::from_slice(&larger.stdout).expect("JSON");
    let blocks = |json: &Value| json["programs"][0]["blocks"].as_u64().expect("a number");
    assert!((blocks(&kept) / 2..blocks(&kept)).contains(&blocks(&larger)), "{larger}");
}

#[test]
fn a_sample_says_its_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = distances(&["--sample", "0.2", "--", &program(folder.path())]);
    assert!(text(&output.stdout).contains("standard error"), "{}", text(&output.stdout));
}

#[test]
fn what_cannot_be_done_is_said() {
    for (words, what) in [
        (&["--", "no-such-program"][..], "there is no program"),
        (&["--block", "100", "--", "true"], "power of two"),
        (&["--sample", "2", "--", "true"], "above 0 and up to 1"),
        (&["--svg", "/nowhere/curve.svg", "--", "true"], "/nowhere"),
    ] {
        let output = distances(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(text(&output.stderr).contains(what), "{words:?}: {}", text(&output.stderr));
    }
    assert_eq!(distances(&["--exact", "--sample", "0.1", "--", "true"]).status.code(), Some(2));
}
