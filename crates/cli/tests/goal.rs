//! `castell goal` as a user meets it: output, messages, exit codes.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn castell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_castell")).arg("goal").args(arguments).output().unwrap()
}

fn vector(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/goal").join(name);
    path.to_str().unwrap().to_owned()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let output = castell(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", err(&output));
    assert_eq!(err(&output), "");
    out(&output).to_owned()
}

/// Runs something that has to fail with `code`, and returns what it says.
#[track_caller]
fn fails(code: i32, arguments: &[&str]) -> String {
    let output = castell(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}{}", out(&output), err(&output));
    assert!(!err(&output).contains("panicked"), "{}", err(&output));
    out(&output).to_owned() + err(&output)
}

fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_castell"))
        .arg("goal")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }
}

#[test]
fn check_says_that_all_is_well() {
    let file = vector("binomial-broadcast.goal");
    assert_eq!(succeeds(&["check", &file]), format!("{file}: 11 ranks, 20 operations: no problems\n"));
    let json: Value = serde_json::from_str(&succeeds(&["check", "--json", &file])).unwrap();
    assert_eq!(json, serde_json::json!({"ok": true, "ranks": 11, "operations": 20, "problems": []}));
}

#[test]
fn check_lists_problems_with_file_line_and_column() {
    let file = vector("check/deadlock.goal");
    let said = fails(1, &["check", &file]);
    assert!(
        said.starts_with(&format!("{file}:4:1: error: rank 0 `in`: deadlock: it waits for `out` of rank 1")),
        "{said}"
    );
    assert!(said.ends_with("2 ranks, 6 operations: 1 error, 0 warnings\n"), "{said}");

    let output = castell(&["check", "--json", &file]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!((&json["ok"], &json["ranks"], &json["operations"]), (&false.into(), &2.into(), &6.into()));
    let problem = &json["problems"][0];
    let place = ["severity", "rank", "label", "line", "column"].map(|key| problem[key].clone());
    assert_eq!(place, ["error".into(), 0.into(), "in".into(), 4.into(), Value::from(1)]);
    assert!(problem["message"].as_str().unwrap().contains("waits for"), "{problem}");
}

#[test]
fn warnings_do_not_fail_a_check() {
    let said = succeeds(&["check", &vector("check/overlap-started.goal")]);
    assert!(said.contains("warning") && said.contains("0 errors, 1 warning"), "{said}");
    let json: Value =
        serde_json::from_str(&succeeds(&["check", "--json", &vector("check/buffering.goal")])).unwrap();
    assert_eq!((&json["ok"], &json["problems"][0]["severity"]), (&true.into(), &"warning".into()));
}

#[test]
fn problems_beyond_the_listed_are_counted() {
    let folder = Folder::new();
    let sends: String = (0..300).map(|tag| format!("send 1b to 0 tag {tag}\n")).collect();
    let file = folder.file("many.goal", format!("num_ranks 1\nrank 0 {{\n{sends}}}"));
    let said = fails(1, &["check", &file]);
    assert!(said.contains("250 more problems of this kind (send without receive)"), "{said}");
    let output = castell(&["check", "--json", &file]);
    let json: Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!(json["problems"].as_array().unwrap().len(), 51);
}

#[test]
fn wrong_text_is_reported_with_every_error() {
    let file = vector("wrong/local.goal");
    let said = fails(1, &["check", &file]);
    assert!(
        said.contains(":3:7: expected an operator") && said.contains(":8:15: expected a number"),
        "{said}"
    );
    let output = castell(&["check", "--json", &file]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!((&json["ok"], &json["ranks"]), (&false.into(), &Value::Null));
    assert_eq!((&json["problems"][2]["label"], &json["problems"][2]["line"]), (&"x".into(), &5.into()));
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let folder = Folder::new();
    let cases = [
        (folder.path("missing.goal"), "cannot read"),
        (folder.path("missing.goal"), "No such file"),
        (folder.path(""), "directory"),
        (folder.file("empty.goal", ""), "the file is empty"),
        (folder.file("zeros", [0; 100]), "byte 0 is no text"),
        (folder.file("latin.goal", b"num_ranks 1\nrank 0 {\ncalc\xe9 1\n}"), "0xE9, which is not UTF-8"),
        (folder.file("huge.goal", "num_ranks 99999999999999999999999999"), "too large"),
        (folder.file("used.bin", 2342u64.to_le_bytes()), "used up by a simulation"),
        (folder.file("cut.bin", 4223u64.to_le_bytes()), "ends within the header"),
        (folder.file("cut.sched", "CSET"), "cut off"),
        (vector("wrong/rank-twice.goal"), "rank 0 is given twice"),
    ];
    for (file, message) in cases {
        for command in ["check", "dump"] {
            let said = fails(1, &[command, &file]);
            assert!(said.contains(message), "{command} {file}: {said}");
        }
        let said = fails(1, &["convert", &file, "-o", &folder.path("out.goal")]);
        assert!(said.contains(message), "convert {file}: {said}");
        let json: Value = serde_json::from_str(out(&castell(&["check", "--json", &file]))).unwrap();
        assert_eq!(json["ok"], false, "{file}");
        assert!(!PathBuf::from(folder.path("out.goal")).exists());
    }
}

#[test]
fn a_million_ranks_without_work_cost_nothing() {
    let folder = Folder::new();
    let file = folder.file("ranks.goal", "num_ranks 4000000000\nrank 0 { send 1b to 3999999999 }");
    let said = fails(1, &["check", &file]);
    assert!(said.contains("4000000000 ranks, 1 operation"), "{said}");
    assert!(succeeds(&["dump", "--schedule", "--rank", "3999999998", &file]).contains("0 operations"));
    assert!(fails(1, &["convert", &file, "-o", &folder.path("x.bin")]).contains("67108864 ranks"));
}

#[test]
fn usage_errors_have_code_two() {
    let file = vector("overlap.goal");
    fails(2, &[]);
    fails(2, &["check"]);
    fails(2, &["check", "--frobnicate", &file]);
    fails(2, &["dump", "--dot", "--schedule", &file]);
    assert!(fails(2, &["dump", "--rank", "2", &file]).contains("has 2 ranks"));
    assert!(fails(2, &["convert", &file, "-o", "x.unknown"]).contains("--to text"));
    assert!(fails(2, &["convert", &file, "-o", "-"]).contains("--to text"));
    fails(2, &["convert", "--to", "fortran", &file, "-o", "x"]);
}

#[test]
fn help_has_examples() {
    for command in ["check", "dump", "convert"] {
        assert!(succeeds(&[command, "--help"]).contains("Examples:"), "{command}");
    }
    assert!(succeeds(&["--help"]).contains("2 wrong usage"));
}

#[test]
fn dump_prints_text_that_reads_back() {
    let folder = Folder::new();
    let first = succeeds(&["dump", &vector("extensions.goal")]);
    let again = succeeds(&["dump", &folder.file("again.goal", &first)]);
    assert_eq!(first, again);
    let one = succeeds(&["dump", "--rank", "1", &vector("extensions.goal")]);
    assert_eq!(one, "rank 1 {\nget: calc 5\n}\n");
}

#[test]
fn dump_shows_compiled_records() {
    let said = succeeds(&["dump", "--schedule", &vector("overlap.goal"), "--rank", "1"]);
    assert!(said.starts_with("rank 1: 10 operations, 1 independent, 5 counters"), "{said}");
    assert!(said.contains("in0: recv 100b from 0  -> 44 74  started -> 26 29"), "{said}");
    assert!(said.contains("74: [6] end: calc 0"), "{said}");
    let cycle = fails(1, &["dump", "--schedule", &vector("check/cycle.goal")]);
    assert!(cycle.contains("rank 0: dependency cycle"), "{cycle}");
}

#[test]
fn dump_draws() {
    let folder = tempfile::tempdir().expect("a folder");
    let drawing = folder.path().join("overlap.svg").display().to_string();
    succeeds(&["dump", "--svg", &drawing, &vector("overlap.goal")]);
    let drawn = std::fs::read_to_string(&drawing).expect("a drawing");
    assert!(
        drawn.contains(">rank 1</text>") && drawn.contains("class=\"critical message\" d=\"M"),
        "{drawn}"
    );
    succeeds(&["dump", "--svg", &drawing, "--rank", "0", &vector("overlap.goal")]);
    assert!(!std::fs::read_to_string(&drawing).expect("a drawing").contains(">rank 1</text>"));
    fails(2, &["dump", "--svg", &drawing, "--rank", "999", &vector("overlap.goal")]);
    let said = succeeds(&["dump", "--dot", &vector("overlap.goal")]);
    assert!(said.starts_with("digraph goal {") && said.ends_with("}\n"), "{said}");
    assert!(said.contains("subgraph cluster_1") && said.contains("r0v1 -> r1v0 [arrowhead=empty"), "{said}");
    assert!(!succeeds(&["dump", "--dot", "--rank", "0", &vector("overlap.goal")]).contains("cluster_1"));
}

#[test]
fn formats_convert_into_one_another() {
    let folder = Folder::new();
    let text = vector("overlap.goal");
    let (bin, sched, goal) = (folder.path("a.bin"), folder.path("a.sched"), folder.path("a.goal"));
    assert_eq!(succeeds(&["convert", &text, "-o", &bin]), "");
    assert_eq!(fs::read(&bin).unwrap(), fs::read(vector("overlap.bin")).unwrap());
    succeeds(&["convert", &text, "-o", &sched]);
    succeeds(&["convert", &sched, "--output", &goal, "--to", "text"]);
    for file in [&bin, &sched, &goal] {
        let said = succeeds(&["check", file]);
        assert!(said.ends_with("2 ranks, 20 operations: no problems\n"), "{said}");
    }
    // What was compiled compiles to the same again, whichever way it went.
    let again = folder.path("b.sched");
    succeeds(&["convert", &goal, "-o", &again]);
    assert_eq!(fs::read(&again).unwrap(), fs::read(&sched).unwrap());
    let lacking = fails(1, &["convert", &vector("extensions.goal"), "-o", &bin]);
    assert!(
        lacking.contains("`in` of rank 0 cannot be written in LogGOPSim's format, which has no buffers"),
        "{lacking}"
    );
    assert!(fails(1, &["convert", &text, "-o", &folder.path("no/such/folder.bin")]).contains("cannot write"));
}

#[test]
fn addresses_can_be_looked_at_but_not_lost() {
    let folder = Folder::new();
    let sched = folder.path("x.sched");
    succeeds(&["convert", &vector("extensions.goal"), "-o", &sched]);
    assert!(succeeds(&["dump", &sched]).contains("users: send 24b to 1 at [0x7f00:8,0x7f10:16]"));
}

#[test]
fn a_dash_is_the_standard_input_and_output() {
    let text = fs::read(vector("overlap.goal")).unwrap();
    let output = with_input(&["check", "-"], &text);
    assert_eq!(out(&output), "standard input: 2 ranks, 20 operations: no problems\n");
    let output = with_input(&["convert", "-", "-o", "-", "--to", "loggopsim"], &text);
    assert_eq!(output.stdout, fs::read(vector("overlap.bin")).unwrap());
    let output = with_input(&["check", "-"], b"num_ranks 1\nrank 0 {\noops\n}");
    assert!(err(&output).contains("standard input:3:5: expected"), "{}", err(&output));
    assert_eq!(with_input(&["dump", "-"], b"").status.code(), Some(1));
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let folder = Folder::new();
    let lines: String = (0..50_000).map(|index| format!("calc {index}\n")).collect();
    let file = folder.file("long.goal", format!("num_ranks 1\nrank 0 {{\n{lines}}}"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_castell"))
        .args(["goal", "dump", &file])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output)), (Some(0), ""));
}
