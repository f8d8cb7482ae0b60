//! All test programs of the workspace, several at a time, since many wait for others more than they compute. What one says is printed when
//! it has ended, and at the end which of them took longest.

use crate::command;
use crate::failures::Failures;
use crate::limit::{self, Ended};
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// So many at a time. Each runs as many tests at once as there are processors.
const AT_ONCE: usize = 2;
/// What one may take: several times what the longest takes on a busy machine.
const SECONDS: u64 = 900;
/// So many of those that took longest are named.
const NAMED: usize = 12;

/// A program whose tests are to pass.
pub struct Program {
    /// Its crate and source.
    name: String,
    command: Command,
}

/// Builds all test programs.
///
/// # Errors
/// They cannot be built.
pub fn build(root: &Path) -> anyhow::Result<Vec<Program>> {
    let mut programs = built(root, &["--workspace"])?;
    // The examples of the documentation are built while the last of the others run.
    let mut examples = command::cargo();
    examples.args(["test", "--workspace", "--locked", "--doc", "--no-fail-fast"]).current_dir(root);
    programs.push(Program { name: "examples in the documentation".to_owned(), command: examples });
    Ok(programs)
}

/// Builds those that cargo's arguments name.
///
/// # Errors
/// They cannot be built.
pub fn built(root: &Path, which: &[&str]) -> anyhow::Result<Vec<Program>> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--locked", "--no-run", "--message-format", "json-render-diagnostics"]).args(which);
    cargo.current_dir(root).stdin(Stdio::null()).stderr(Stdio::inherit());
    println!("   {}", command::line(&cargo));
    let output = cargo.output().context("cargo cannot be started")?;
    ensure!(output.status.success(), "the tests do not build");
    let messages = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut programs = Vec::new();
    for message in messages {
        programs.extend(program(&serde_json::from_slice(message)?));
    }
    ensure!(!programs.is_empty(), "there are no tests");
    Ok(programs)
}

impl Program {
    /// Whether its tests are in this file of this crate, as in `cli tests/daemon.rs`.
    pub fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// A command that runs its tests.
    pub fn tests(&self) -> Command {
        let mut command = Command::new(self.command.get_program());
        command.current_dir(self.command.get_current_dir().unwrap_or(Path::new(".")));
        command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }
}

/// The test program that cargo speaks of, if it does, as `cargo test` starts it.
fn program(message: &Value) -> Option<Program> {
    let executable = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let source = source.strip_prefix(folder).unwrap_or(source).display();
    let name = format!("{} {source}", folder.file_name()?.to_string_lossy());
    let mut command = Command::new(executable);
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    Some(Program { name, command })
}

/// Runs them, and keeps what those said that failed.
///
/// # Errors
/// Some failed; all have run.
pub fn run(
    root: &Path,
    programs: Vec<Program>,
    failures: &Failures,
    variable: (&str, &OsStr),
) -> anyhow::Result<()> {
    let logs = root.join("target/tests");
    fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    let count = programs.len();
    let waiting = Mutex::new(VecDeque::from(programs));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let lane = |number: usize| {
        let mut ended = Vec::new();
        while let Some(Program { name, mut command }) = next() {
            let log = logs.join(number.to_string());
            ended.push(run_one(&name, command.env(variable.0, variable.1), &log, failures)?);
        }
        anyhow::Ok(ended)
    };
    let mut ended = thread::scope(|scope| {
        let lane = &lane;
        let lanes: Vec<_> = (0..AT_ONCE).map(|number| scope.spawn(move || lane(number))).collect();
        let lanes = lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|_| bail!("a lane panicked")));
        lanes.collect::<anyhow::Result<Vec<_>>>()
    })?
    .concat();
    ended.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    println!("== of {count} test programs, those that took longest (with the time of processors)");
    let line = |Outcome { name, took, computed, .. }: &Outcome| {
        format!("   {:6.1} s ({:6.1} s) {name}\n", took.as_secs_f64(), computed.as_secs_f64())
    };
    print!("{}", ended.iter().take(NAMED).map(line).collect::<String>());
    let times = logs.join("times");
    fs::write(&times, ended.iter().map(line).collect::<String>())
        .with_context(|| times.display().to_string())?;
    let [took, computed] = [|outcome: &Outcome| outcome.took, |outcome: &Outcome| outcome.computed]
        .map(|which| ended.iter().map(which).sum::<Duration>().as_secs_f64());
    println!("   {took:6.1} s ({computed:6.1} s) all of them");
    match ended.iter().filter(|outcome| !outcome.passed).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {count} test programs failed"),
    }
}

#[derive(Clone)]
struct Outcome {
    name: String,
    passed: bool,
    took: Duration,
    computed: Duration,
}

fn run_one(name: &str, command: &mut Command, log: &PathBuf, failures: &Failures) -> anyhow::Result<Outcome> {
    println!("   {name} ...");
    let open = || {
        let file = File::options().create(true).read(true).append(true).open(log);
        file.with_context(|| log.display().to_string())
    };
    // What the one before has left running writes to a file that has no name any more.
    let _ = fs::remove_file(log);
    let mut file = open()?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?);
    let Ended { status, took, computed } = limit::run(command, SECONDS, &mut file)?;
    let passed = status.is_some_and(|status| status.success());
    file.rewind()?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "\n     Running {} ({name})", command::line(command))?;
    std::io::copy(&mut file, &mut stdout)?;
    match status {
        Some(status) if !passed => writeln!(stdout, "{name} ended with {status}")?,
        _ => {}
    }
    if !passed {
        failures.keep(name, log)?;
    }
    Ok(Outcome { name: name.to_owned(), passed, took, computed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scripts(scripts: &[(&str, &str)]) -> Vec<Program> {
        let program = |(name, script): &(&str, &str)| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Program { name: (*name).to_owned(), command }
        };
        scripts.iter().map(program).collect()
    }

    #[test]
    fn all_run_whichever_fails() {
        let root = tempfile::tempdir().expect("a folder");
        let failures = Failures::none_yet(root.path()).expect("a folder");
        let file = root.path().join("seen");
        let seen =
            [("a tests/a.rs", "echo a >> $SEEN"), ("b tests/b.rs", "echo 'test x ... FAILED'; exit 3")];
        let more = [("c tests/c.rs", "kill -SEGV $$"), ("d tests/d.rs", "echo d >> $SEEN")];
        let programs = scripts(&[seen, more].concat());
        let error = run(root.path(), programs, &failures, ("SEEN", file.as_os_str())).expect_err("two fail");
        assert_eq!(error.to_string(), "2 of 4 test programs failed");
        let mut seen: Vec<String> =
            fs::read_to_string(file).expect("written").lines().map(str::to_owned).collect();
        seen.sort();
        assert_eq!(seen, ["a", "d"]);
        assert_eq!(failures.report().expect("read"), ["b tests/b.rs: x", "c tests/c.rs: no test by name"]);
    }

    #[test]
    fn cargo_tells_of_programs() {
        let message = |test: bool, executable: Value| {
            json!({"reason": "compiler-artifact", "manifest_path": "/w/crates/goal/Cargo.toml",
                "target": {"src_path": "/w/crates/goal/tests/text.rs"}, "profile": {"test": test},
                "executable": executable})
        };
        let found = program(&message(true, json!("/w/target/text-1"))).expect("a test");
        assert_eq!(found.name, "goal tests/text.rs");
        assert_eq!(found.command.get_current_dir(), Some(Path::new("/w/crates/goal")));
        assert!(program(&message(false, json!("/w/target/goal"))).is_none());
        assert!(program(&message(true, Value::Null)).is_none());
        assert!(program(&json!({"reason": "build-finished"})).is_none());
    }
}
