//! Programs on the hosts of a laboratory, for tests of several files.

use crate::skipped::skip;
use std::process::{Command, Output, Stdio};

pub const CASTELL: &str = env!("CARGO_BIN_EXE_castell");
/// What the processes of a job do, where they are a test's own program once more.
pub const ROLE: &str = "CASTELL_TEST_ROLE";

/// Whether labs can be made here; else the test counts as skipped.
pub fn are_possible() -> bool {
    let output = Command::new(CASTELL).args(["lab", "1", "--", "true"]).output().expect("castell runs");
    if !output.status.success() {
        skip("lab", &text(&output.stderr));
    }
    output.status.success()
}

/// A command on the first host of a lab.
pub fn on_first(hosts: u32, words: &[&str]) -> Command {
    let mut command = Command::new(CASTELL);
    command.args(["lab", &hosts.to_string(), "--"]).args(words).stdin(Stdio::null()).env("CASTELL", CASTELL);
    command
}

/// The words that start the test's own program as a rank.
pub fn myself() -> [String; 5] {
    let me = std::env::current_exe().expect("a program knows its path");
    let me = me.to_str().expect("a path").to_owned();
    [me, "as_a_rank".into(), "--exact".into(), "--nocapture".into(), "--test-threads=1".into()]
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What roles say: lines that begin with a star, sorted.
#[track_caller]
pub fn said(output: &Output) -> Vec<String> {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    starred(&output.stdout)
}

/// Lines that begin with a star, sorted, whether or not all went well.
pub fn starred(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> =
        text(bytes).lines().filter_map(|line| Some(line.split_once("* ")?.1.to_owned())).collect();
    lines.sort();
    lines
}

/// What people call this host.
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().to_owned()
}
