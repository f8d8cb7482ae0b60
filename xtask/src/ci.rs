//! Everything that has to hold, step by step. A failing step does not stop the others; the last line counts.

use crate::{instructions, readme, setup, tidy};
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Arguments of `cargo xtask ci`.
#[derive(clap::Args)]
pub struct Args {
    /// First install what is missing, as `cargo xtask setup` does
    #[arg(long)]
    setup: bool,
    /// Only these steps (default: all)
    #[arg(value_name = "STEP", value_parser = STEPS.map(|(name, _)| name))]
    steps: Vec<String>,
}

/// How a step ended, if it did not fail.
enum Outcome {
    Passed,
    /// Nothing to do here, and why.
    Skipped(String),
}

type Step = (&'static str, fn(&Path) -> anyhow::Result<Outcome>);

const STEPS: [Step; 10] = [
    ("format", |root| cargo(root, &["fmt", "--all", "--check"], &[])),
    ("tidy", run_tidy),
    ("clippy", |root| {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])
    }),
    ("rustdoc", |root| {
        cargo(root, &["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])
    }),
    ("test", |root| cargo(root, &["test", "--workspace", "--locked", "--no-fail-fast"], &[])),
    ("loom", run_loom),
    ("instructions", count_instructions),
    ("readme", run_readme),
    ("fuzz", run_fuzz),
    ("book", build_book),
];

/// Runs the steps and lists what failed.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let mut failures = Vec::new();
    let mut passed = 0;
    let mut note = |name: &'static str, outcome: anyhow::Result<Outcome>, seconds: f64| match outcome {
        Ok(Outcome::Passed) => {
            println!("== {name}: passed in {seconds:.0} s");
            passed += 1;
        }
        Ok(Outcome::Skipped(why)) => println!("== {name}: skipped: {why}"),
        Err(error) => {
            println!("== {name}: FAILED after {seconds:.0} s: {error:#}");
            failures.push(format!("{name}: {error:#}"));
        }
    };
    if args.setup {
        println!("== setup");
        let start = Instant::now();
        note("setup", setup::run(&setup::FOR_TESTS).map(|()| Outcome::Passed), start.elapsed().as_secs_f64());
    }
    for (name, step) in STEPS {
        if args.steps.is_empty() || args.steps.iter().any(|wanted| wanted == name) {
            println!("== {name}");
            let start = Instant::now();
            note(name, step(root), start.elapsed().as_secs_f64());
        }
    }
    for failure in &failures {
        println!("failed: {failure}");
    }
    println!("{passed} passed, {} failed", failures.len());
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Outcome> {
    let mut command = Command::new("cargo");
    command.args(arguments).envs(environment.iter().copied());
    finish(root, command)
}

/// Runs a command without input, its output going where ours goes.
fn finish(root: &Path, mut command: Command) -> anyhow::Result<Outcome> {
    let program = command.get_program().to_string_lossy().into_owned();
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    let line = std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ");
    println!("   {line}");
    let status = command.current_dir(root).stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("could not start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(Outcome::Passed)
}

fn run_tidy(root: &Path) -> anyhow::Result<Outcome> {
    if tidy::report(root)? != ExitCode::SUCCESS {
        bail!("see the places above");
    }
    Ok(Outcome::Passed)
}

/// The lock-free types under loom's exhaustive scheduler: another `cfg`, so another target folder.
fn run_loom(root: &Path) -> anyhow::Result<Outcome> {
    let arguments = [
        "test",
        "--release",
        "--locked",
        "--lib",
        "-p",
        "castell-comm",
        "-p",
        "castell-tasks",
        "-p",
        "castell-host",
        "--target-dir",
        "target/loom",
    ];
    // What makes the shipped binary fast to run makes this one slow to build.
    let environment = [
        ("RUSTFLAGS", "--cfg loom"),
        ("CARGO_PROFILE_RELEASE_LTO", "off"),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ];
    cargo(root, &arguments, &environment)
}

fn count_instructions(root: &Path) -> anyhow::Result<Outcome> {
    Ok(match instructions::check(root, false)? {
        instructions::Outcome::Kept => Outcome::Passed,
        instructions::Outcome::NoValgrind => {
            Outcome::Skipped("valgrind is not installed (cargo xtask setup)".to_owned())
        }
    })
}

/// The README's main job, as the README has it.
fn run_readme(root: &Path) -> anyhow::Result<Outcome> {
    let mut command = Command::new("bash");
    command.args(["-euc", &readme::command(root, 1)?]);
    // What is tuned while other tests run is not worth keeping for the user.
    command.env("XDG_CONFIG_HOME", root.join("target/readme"));
    finish(root, command)
}

/// A short run of every fuzz target; the crates' own tests try hostile bytes in any case.
fn run_fuzz(root: &Path) -> anyhow::Result<Outcome> {
    if !root.join("fuzz").exists() {
        return Ok(Outcome::Skipped("no fuzz targets yet".to_owned()));
    }
    if setup::find_program("cargo-fuzz").is_none() {
        return Ok(Outcome::Skipped("cargo-fuzz is not installed (cargo install cargo-fuzz)".to_owned()));
    }
    let list = Command::new("cargo").args(["+nightly", "fuzz", "list"]).current_dir(root).output()?;
    if !list.status.success() {
        bail!("cargo fuzz list: {}", String::from_utf8_lossy(&list.stderr));
    }
    for target in String::from_utf8_lossy(&list.stdout).lines() {
        cargo(root, &["+nightly", "fuzz", "run", target, "--", "-max_total_time=20"], &[])?;
    }
    Ok(Outcome::Passed)
}

fn build_book(root: &Path) -> anyhow::Result<Outcome> {
    if setup::find_program("mdbook").is_none() {
        return Ok(Outcome::Skipped("mdbook is not installed (cargo install mdbook)".to_owned()));
    }
    let mut command = Command::new("mdbook");
    command.args(["build", "docs", "--dest-dir", "../target/book"]);
    finish(root, command)
}
