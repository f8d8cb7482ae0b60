//! Instructions of hot paths, counted by valgrind and compared with those that are stored: times on a busy machine say little,
//! these repeat.

mod calls;
mod locals;
mod tasks;

pub use tasks::PATHS as TASK_PATHS;

use crate::setup::find_program;
use anyhow::{Context as _, bail};
use std::collections::BTreeMap;
use std::ffi::OsString;
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
/// Where what is counted is built.
const TARGET: &str = "target/instructions";
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
/// A path has become longer, the compiler has lost a value, or something could not be run.
pub fn check(root: &Path, update: bool) -> anyhow::Result<Outcome> {
    let Some(valgrind) = find_program("valgrind") else { return Ok(Outcome::NoValgrind) };
    let text = std::fs::read_to_string(root.join(FILE)).with_context(|| format!("{FILE} cannot be read"))?;
    let stored = parse(&text);
    let mut counted = Vec::new();
    let mut longer = Vec::new();
    let mut note = |path: &'static str, count: f64, of: &str| {
        let before = stored.get(path).copied();
        let change =
            before.map_or(String::new(), |before| format!(" ({:+.1} %)", 100.0 * (count / before - 1.0)));
        println!("{path:16} {count:8.1} instructions a {of}{change}");
        match before {
            None => longer.push(format!("{path} (not stored)")),
            Some(_) if is_longer(before, count) => longer.push(format!("{path}{change}")),
            Some(_) => (),
        }
        counted.push((path, count));
    };
    tasks::count(root, &valgrind, |path, count| note(path, count, "task"))?;
    let is_longer = |path: &str, count: f64| is_longer(stored.get(path).copied(), count);
    calls::count(root, &valgrind, is_longer, |path, count| note(path, count, "call"))?;
    if update {
        let mut text: String =
            text.lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        for (path, count) in counted {
            writeln!(text, "{path} = {count:.1}")?;
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

/// Whether a path has become longer than what is stored of it.
fn is_longer(stored: Option<f64>, count: f64) -> bool {
    stored.is_some_and(|stored| count > stored * (1.0 + TOLERANCE))
}

/// Builds what is counted as it is shipped.
pub fn builds(root: &Path) -> Vec<Command> {
    [tasks::BUILD, calls::BUILD].map(|build| build.command(root)).into()
}

/// What surrounds cargo where it builds to the folder of what is counted, for others who want what lies there already.
pub fn surroundings(root: &Path) -> [(&'static str, OsString); 2] {
    let (name, flag) = locals::FLAG;
    [("CARGO_TARGET_DIR", root.join(TARGET).into()), (name, flag.into())]
}

/// What `cargo build` is told.
struct Build(&'static [&'static str]);

impl Build {
    fn command(&self, root: &Path) -> Command {
        let mut cargo = crate::command::cargo();
        // Beside the command line, nothing of which is built here: it has all features, and finds what it needs when it is.
        cargo.args(["build", "--release", "--locked", "-p", "castell-cli"]).args(self.0);
        cargo.envs(surroundings(root)).current_dir(root);
        cargo
    }

    fn run(&self, root: &Path) -> anyhow::Result<()> {
        finish(root, self.command(root), "cargo")
    }
}

/// Runs a command without input.
fn finish(root: &Path, mut command: Command, name: &str) -> anyhow::Result<()> {
    let status = command.current_dir(root).stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("could not start {name}"))?;
    if !status.success() {
        bail!("`{name}` ended with {status}");
    }
    Ok(())
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
