//! How many small mistakes in a room its tests notice: cargo-mutants makes them, one at a time, and runs the tests.
//!
//! A whole room takes hours. A sample is spread evenly over it; another `--start` draws another one.

use crate::command::succeed;
use crate::setup::find_program;
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, ExitCode};

/// What is to be mutated, and how much of it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask mutants sched                 all of them: an hour and more
  cargo xtask mutants goal --sample 50      50 of them
  cargo xtask mutants deps --sample 50 --start 7
  cargo xtask mutants sched --file tree.rs  those of one file

Fails below 95 % of the mutants that compile. A test that does not end notices, too; on a busy machine look
whether it only took longer (target/mutants/ROOM/mutants.out/timeout.txt). What no test can notice is left out
by .cargo/mutants.toml, with reasons. cargo-mutants is installed where it is missing.")]
pub struct Args {
    /// The room
    #[arg(value_name = "ROOM", value_parser = ROOMS.map(|room| room.name))]
    room: String,
    /// About so many mutants (default: all)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Which sample of that size
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "sample")]
    start: u64,
    /// Only in files of this name
    #[arg(long, value_name = "NAME")]
    file: Option<String>,
}

struct Room {
    name: &'static str,
    package: &'static str,
    /// What of the package is meant, as cargo-mutants' `--file`.
    files: &'static str,
    /// Whose tests are to notice: the package's own, and those of rooms above that use these files most.
    tests: &'static str,
}

const fn whole(name: &'static str, package: &'static str) -> Room {
    Room { name, package, files: "**", tests: package }
}

const ROOMS: [Room; 9] = [
    whole("goal", "castell-goal"),
    whole("deps", "castell-deps"),
    whole("sched", "castell-sched"),
    whole("model", "castell-model"),
    whole("collectives", "castell-collectives"),
    whole("sim", "castell-sim"),
    whole("matching", "castell-matching"),
    Room {
        name: "queue",
        package: "castell-shm",
        files: "crates/shm/src/queue/**",
        tests: "castell-shm,castell-queues,castell-engine",
    },
    Room {
        name: "slot",
        package: "castell-shm",
        files: "crates/shm/src/slot/**",
        tests: "castell-shm,castell-engine,castell-coll,castell-comm",
    },
];

/// As `cargo install` wants it.
const TOOL: &str = "cargo-mutants@27.1.0";
const FOLDER: &str = "target/mutants";
/// Of the mutants that compile, in per cent.
const WANTED: f64 = 95.0;

/// Makes the mutants, tests them, prints those that survived and the score.
///
/// # Errors
/// cargo-mutants is missing and cannot be installed, or the tests fail without any mutant.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    if find_program("cargo-mutants").is_none() {
        succeed(Command::new("cargo").args(["install", "--locked", TOOL]))?;
    }
    let room = ROOMS.iter().find(|room| room.name == args.room).context("clap knows the rooms")?;
    let output = root.join(FOLDER).join(room.name);
    std::fs::create_dir_all(&output)?;
    let count = list(root, room, args)?;
    ensure!(count > 0, "there is nothing to mutate there");
    let shards = args.sample.map_or(1, |sample| count.div_ceil(sample));
    println!("mutants: about {} of {count} in {}", count.div_ceil(shards), room.name);
    let mut mutants = select(root, room, args);
    mutants.args([
        "--test-package",
        room.tests,
        "--jobs",
        "1",
        "--no-shuffle",
        "--build-timeout",
        "900",
        "--minimum-test-timeout",
        "60",
    ]);
    mutants.args(["--sharding", "round-robin", "--shard", &format!("{}/{shards}", args.start % shards)]);
    // Where mutants that are tried next find what was built: only the room itself is built again.
    mutants.arg("--output").arg(&output).env("CARGO_TARGET_DIR", root.join(FOLDER).join("build"));
    // It ends with an error where mutants survive, too: what counts is what it wrote.
    let _ = std::fs::remove_dir_all(output.join("mutants.out"));
    let ended = succeed(&mut mutants);
    let outcomes = std::fs::read_to_string(output.join("mutants.out/outcomes.json"));
    let outcomes = outcomes.map_err(|error| ended.err().unwrap_or(error.into()))?;
    let score = Score::read(&serde_json::from_str(&outcomes)?)?;
    println!("mutants: {}: {}", room.name, score.describe());
    Ok(if score.percent() >= WANTED { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// cargo-mutants with the room's package and files.
fn select(root: &Path, room: &Room, args: &Args) -> Command {
    let mut mutants = Command::new("cargo");
    let files = match &args.file {
        Some(name) => format!("{}/{name}", room.files),
        None => room.files.to_owned(),
    };
    mutants.args(["mutants", "--package", room.package, "--file", &files]).current_dir(root);
    mutants
}

/// How many there are.
fn list(root: &Path, room: &Room, args: &Args) -> anyhow::Result<u64> {
    let output =
        select(root, room, args).arg("--list").output().context("cargo-mutants cannot be started")?;
    if !output.status.success() {
        bail!("cargo mutants --list: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() as u64)
}

/// What became of the mutants.
#[derive(Debug, Default, PartialEq)]
struct Score {
    noticed: u64,
    /// Of those, by a test that did not end.
    endless: u64,
    survived: u64,
    unviable: u64,
}

impl Score {
    fn read(outcomes: &Value) -> anyhow::Result<Score> {
        let mut score = Score::default();
        for outcome in outcomes["outcomes"].as_array().context("outcomes.json has no outcomes")? {
            if outcome["scenario"] == "Baseline" {
                ensure!(outcome["summary"] == "Success", "the tests fail without any mutant");
                continue;
            }
            match outcome["summary"].as_str() {
                Some("CaughtMutant") => score.noticed += 1,
                Some("Timeout") => {
                    score.noticed += 1;
                    score.endless += 1;
                }
                Some("MissedMutant") => score.survived += 1,
                Some("Unviable") => score.unviable += 1,
                other => bail!("unknown outcome {other:?}"),
            }
        }
        Ok(score)
    }

    fn percent(&self) -> f64 {
        100.0 * self.noticed as f64 / (self.noticed + self.survived).max(1) as f64
    }

    fn describe(&self) -> String {
        let Score { noticed, endless, survived, unviable } = self;
        format!(
            "{:.1} % noticed ({noticed} of {}, {endless} by tests that did not end); {unviable} did not compile",
            self.percent(),
            noticed + survived
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_compile_does_not_count() {
        let outcome = |scenario: &str, summary: &str| json!({"scenario": scenario, "summary": summary});
        let mutants = ["CaughtMutant", "Timeout", "MissedMutant", "Unviable", "CaughtMutant"];
        let mut outcomes = vec![outcome("Baseline", "Success")];
        outcomes.extend(mutants.map(|summary| json!({"scenario": {"Mutant": {}}, "summary": summary})));
        let score = Score::read(&json!({ "outcomes": outcomes })).expect("outcomes");
        assert_eq!(score, Score { noticed: 3, endless: 1, survived: 1, unviable: 1 });
        assert_eq!(
            score.describe(),
            "75.0 % noticed (3 of 4, 1 by tests that did not end); 1 did not compile"
        );
        outcomes[0] = outcome("Baseline", "Failure");
        assert!(Score::read(&json!({ "outcomes": outcomes })).is_err());
    }
}
