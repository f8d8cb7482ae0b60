//! The task runtime's hot paths, on one worker.

use super::Build;
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// The program that runs them.
pub const BUILD: Build = Build(&["-p", "castell-tasks", "--example", "hot_paths"]);

/// The paths of crates/tasks/examples/hot_paths.rs, and tasks of each for so many repeats.
pub const PATHS: [&str; 8] = ["queue", "empty", "access", "chain", "wave", "stencil", "windows", "fib"];
/// Repeats of a short and of a long run: what they differ in is not the program's start. Multiples of 64.
const REPEATS: [u64; 2] = [6400, 25_600];

/// Tells `note` of each path and its instructions a task.
pub fn count(root: &Path, valgrind: &Path, mut note: impl FnMut(&'static str, f64)) -> anyhow::Result<()> {
    BUILD.run(root)?;
    for path in PATHS {
        // Each is one thread, and counts do not depend on who else computes.
        let [short, long] = thread::scope(|scope| {
            let counts = REPEATS.map(|repeats| scope.spawn(move || count_run(root, valgrind, path, repeats)));
            counts.map(|count| count.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let ((few, few_tasks), (many, many_tasks)) = (short?, long?);
        note(path, (many - few) / (many_tasks - few_tasks));
    }
    Ok(())
}

/// Instructions and tasks of a run.
fn count_run(root: &Path, valgrind: &Path, path: &str, repeats: u64) -> anyhow::Result<(f64, f64)> {
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(format!("{}/release/examples/hot_paths", super::TARGET)).args([path, &repeats.to_string()]);
    let output =
        command.current_dir(root).stdin(Stdio::null()).output().context("could not start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind on `{path}` ended with {}:\n{said}", output.status);
    }
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let count = line.and_then(|(_, number)| number.trim().parse().ok());
    let tasks = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    let both = count.zip(tasks);
    both.with_context(|| format!("valgrind on `{path}` did not say what it collected:\n{said}"))
}
