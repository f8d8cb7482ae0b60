//! The GOAL programs below `examples/` are what their generator writes, pass the check, and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/goal")
}

fn programs() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(examples()).expect("the examples are there");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut programs: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "goal")).collect();
    programs.sort();
    assert!(!programs.is_empty());
    programs
}

fn castell(program: &Path, before: &[&str], after: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    let output = command.args(before).arg(program).args(after).output().expect("castell starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "castell {before:?} {} {after:?}: {said}", program.display());
    output
}

#[test]
fn examples_are_what_their_generator_writes() {
    let generator = examples().join("generate.py");
    let output = Command::new("python3").arg(generator).arg("--check").output().expect("python3 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn examples_pass_the_check() {
    for program in programs() {
        let output = castell(&program, &["goal", "check"], &["--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report in JSON");
        assert_eq!(report["ok"], true, "{}: {report}", program.display());
        assert_eq!(report["problems"].as_array().map(Vec::len), Some(0), "{}: {report}", program.display());
    }
}

#[test]
fn examples_run() {
    for program in programs() {
        let text = std::fs::read_to_string(&program).expect("the example can be read");
        let sends = text.lines().filter(|line| line.contains(": send ")).count();
        let output = castell(&program, &["run"], &["--calc-scale", "0.001", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report in JSON");
        assert_eq!(report["messages"].as_u64(), Some(sends as u64), "{}: {report}", program.display());
        let ranks = report["ranks"].as_u64().map(|ranks| ranks as usize);
        assert_eq!(report["end_ns"].as_array().map(Vec::len), ranks, "{}: {report}", program.display());
    }
}
