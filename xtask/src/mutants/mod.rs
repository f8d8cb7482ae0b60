//! How many small mistakes in a room its tests notice. cargo-mutants says which there are; all of them are compiled into a copy of the
//! room at once, each behind a switch, and the tests run with one after the other. A small room takes
//! minutes; of large ones, or where tests take long (sim), a sample is drawn.

mod list;
mod switches;
mod tree;
mod trial;

use crate::command;
use crate::command::succeed;
use crate::setup::find_program;
use anyhow::{Context as _, ensure};
use list::Mutant;
use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use tree::Tree;
use trial::Outcome;

/// What is to be mutated, and how much of it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask mutants sched                 all of them: some minutes
  cargo xtask mutants goal --sample 300     300 of them, spread evenly
  cargo xtask mutants goal --sample 300 --start 7
  cargo xtask mutants sched --file tree.rs  those of one file

Each mutant that no test noticed is named, with how many tests come by it. Fails below 95 %. What no test
can notice is left out by .cargo/mutants.toml, with reasons. What is not tried is counted: constants, fields
that are left out, and what does not compile behind a switch. Tests in the documentation do not run.
cargo-mutants, which lists the mutants, is installed where it is missing.")]
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
/// cargo-mutants is missing and cannot be installed, the room does not compile, or more than a few tests fail without any mutant.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    if find_program("cargo-mutants").is_none() {
        succeed(command::cargo().args(["install", "--locked", TOOL]))?;
    }
    let room = ROOMS.iter().find(|room| room.name == args.room).context("clap knows the rooms")?;
    let files = match &args.file {
        Some(name) => format!("{}/{name}", room.files),
        None => room.files.to_owned(),
    };
    let mutants = list::list(root, room.package, &files)?;
    ensure!(!mutants.is_empty(), "there is nothing to mutate there");
    let every = args.sample.map_or(1, |sample| (mutants.len() as u64).div_ceil(sample));
    let all = mutants.len();
    let is_drawn = |mutant: &Mutant| mutant.number as u64 % every == args.start % every;
    let drawn: Vec<Mutant> = mutants.into_iter().filter(is_drawn).collect();
    println!("mutants: {} of {all} in {}", drawn.len(), room.name);

    let folder = root.join(FOLDER).join(room.name);
    fs::create_dir_all(&folder)?;
    let mut tree = Tree::copy(root, &folder, room.package)?;
    let tests: Vec<&str> = room.tests.split(',').collect();
    tree.free_functions(&tests)?;
    let places = tree.switch(&drawn)?;
    let programs = tree.build(&tests, places.len())?;
    println!("mutants: {} behind switches, {} programs with tests", places.len(), programs.len());
    let tests = trial::tests(&programs, &folder.join("notes"))?;

    let mut score = Score::default();
    let progress = std::io::stderr().is_terminal();
    for (index, mutant) in drawn.iter().enumerate() {
        if progress {
            eprint!("\r{} of {} ", index + 1, drawn.len());
            std::io::stderr().flush()?;
        }
        let Some(place) = places.get(&mutant.number) else {
            score.untried += 1;
            continue;
        };
        let outcome = trial::trial(&tests, mutant.number, *place)?;
        if let Outcome::Survived(count) = outcome {
            println!("survived {count} tests: {}", mutant.name);
        }
        score.count(outcome);
    }
    println!("mutants: {}: {}", room.name, score.describe());
    Ok(if score.percent() >= WANTED { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What became of the mutants.
#[derive(Debug, Default, PartialEq)]
struct Score {
    noticed: u64,
    /// Of those, by a test that did not end.
    endless: u64,
    survived: u64,
    untried: u64,
}

impl Score {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Survived(_) => self.survived += 1,
            Outcome::Noticed => self.noticed += 1,
            Outcome::Endless => (self.noticed, self.endless) = (self.noticed + 1, self.endless + 1),
        }
    }

    fn percent(&self) -> f64 {
        100.0 * self.noticed as f64 / (self.noticed + self.survived).max(1) as f64
    }

    fn describe(&self) -> String {
        let Score { noticed, endless, survived, untried } = self;
        format!(
            "{:.1} % noticed ({noticed} of {}, {endless} by tests that did not end); {untried} were not tried",
            self.percent(),
            noticed + survived
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_tried_does_not_count() {
        let mut score = Score { untried: 1, ..Score::default() };
        for outcome in [Outcome::Noticed, Outcome::Endless, Outcome::Survived(3), Outcome::Noticed] {
            score.count(outcome);
        }
        assert_eq!(score, Score { noticed: 3, endless: 1, survived: 1, untried: 1 });
        assert_eq!(
            score.describe(),
            "75.0 % noticed (3 of 4, 1 by tests that did not end); 1 were not tried"
        );
    }
}
