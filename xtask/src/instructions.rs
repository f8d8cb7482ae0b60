//! Instructions of the task runtime's hot paths, counted by valgrind and compared with those that are stored: times on a
//! busy machine say little, these repeat.

use crate::setup::find_program;
use anyhow::{Context as _, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Arguments of `cargo xtask instructions`.
#[derive(clap::Args)]
pub struct Args {
    /// Store what is counted now
    #[arg(long)]
    update: bool,
}

/// Where the counts are stored.
const FILE: &str = "benches/instructions.toml";
/// The paths of crates/tasks/examples/hot_paths.rs, and tasks of each for so many repeats.
const PATHS: [&str; 8] = ["queue", "empty", "access", "chain", "wave", "stencil", "windows", "fib"];
/// Repeats of a short and of a long run: what they differ in is not the program's start. Multiples of 64.
const REPEATS: [u64; 2] = [6400, 25_600];
/// Above what is stored.
const TOLERANCE: f64 = 0.05;

/// What came out.
pub enum Outcome {
    /// All paths are as short as they were.
    Kept,
    /// Nothing to count with.
    NoValgrind,
}

/// Counts, prints and compares or stores.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    match check(root, args.update)? {
        Outcome::Kept => Ok(ExitCode::SUCCESS),
        Outcome::NoValgrind => bail!("valgrind is not installed: `cargo xtask setup` installs it"),
    }
}

/// Counts and prints; compares with the file, or writes it.
///
/// # Errors
/// A path has become longer, or something could not be run.
pub fn check(root: &Path, update: bool) -> anyhow::Result<Outcome> {
    let Some(valgrind) = find_program("valgrind") else { return Ok(Outcome::NoValgrind) };
    build(root)?;
    let text = std::fs::read_to_string(root.join(FILE)).with_context(|| format!("{FILE} cannot be read"))?;
    let stored = parse(&text);
    let mut counted = BTreeMap::new();
    let mut longer = Vec::new();
    for path in PATHS {
        let count = count(root, &valgrind, path)?;
        let before = stored.get(path).copied();
        let change =
            before.map_or(String::new(), |before| format!(" ({:+.1} %)", 100.0 * (count / before - 1.0)));
        println!("{path:8} {count:8.1} instructions a task{change}");
        match before {
            Some(before) if count > before * (1.0 + TOLERANCE) => longer.push(format!("{path}{change}")),
            None => longer.push(format!("{path} (not stored)")),
            Some(_) => (),
        }
        counted.insert(path, count);
    }
    if update {
        let mut text: String =
            text.lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        for path in PATHS {
            writeln!(text, "{path} = {:.1}", counted[path])?;
        }
        std::fs::write(root.join(FILE), text)?;
        return Ok(Outcome::Kept);
    }
    if !longer.is_empty() {
        bail!(
            "longer than {FILE} says: {}; shorten them, or accept it with `cargo xtask instructions --update`",
            longer.join(", ")
        );
    }
    Ok(Outcome::Kept)
}

/// With a profile of its own, so that nobody's settings change the counts.
fn build(root: &Path) -> anyhow::Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "-p", "castell-tasks", "--example", "hot_paths"]);
    cargo.args(["--target-dir", "target/instructions"]).current_dir(root).stdin(Stdio::null());
    cargo.envs([
        ("CARGO_PROFILE_RELEASE_LTO", "off"),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
        ("CARGO_PROFILE_RELEASE_INCREMENTAL", "false"),
    ]);
    let status = cargo.status().context("could not start cargo")?;
    if !status.success() {
        bail!("the paths could not be built");
    }
    Ok(())
}

/// Instructions a task: the long run's more than the short run's.
fn count(root: &Path, valgrind: &Path, path: &str) -> anyhow::Result<f64> {
    let [short, long] = REPEATS.map(|repeats| count_run(root, valgrind, path, repeats));
    let ((few, few_tasks), (many, many_tasks)) = (short?, long?);
    Ok((many - few) / (many_tasks - few_tasks))
}

/// Instructions and tasks of a run.
fn count_run(root: &Path, valgrind: &Path, path: &str, repeats: u64) -> anyhow::Result<(f64, f64)> {
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.args(["target/instructions/release/examples/hot_paths", path, &repeats.to_string()]);
    let output =
        command.current_dir(root).stdin(Stdio::null()).output().context("could not start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!(
            "valgrind on `{path}` ended with {}:
{said}",
            output.status
        );
    }
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let count = line.and_then(|(_, number)| number.trim().parse().ok());
    let tasks = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    let both = count.zip(tasks);
    both.with_context(|| {
        format!(
            "valgrind on `{path}` did not say what it collected:
{said}"
        )
    })
}

/// Lines `path = number`.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    lines.filter_map(|(path, count)| Some((path.trim().to_owned(), count.trim().parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_counts_are_read() {
        let stored = parse("# queue = 1\nqueue = 20.5\nempty=3\n");
        assert_eq!(stored, [("queue".to_owned(), 20.5), ("empty".to_owned(), 3.0)].into());
    }
}
