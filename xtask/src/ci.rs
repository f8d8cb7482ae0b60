//! Everything that has to hold, step by step. A failing step does not stop the others, and what cannot run
//! here fails unless it may be missing; the last line counts.

use crate::ahead::Ahead;
use crate::command;
use crate::command::{forget_package, succeed};
use crate::failures::Failures;
use crate::skips::{self, Skips};
use crate::{book_links, fuzz, instructions, programs, readme, setup, tidy};
use anyhow::bail;
use std::cell::RefCell;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Arguments of `cargo xtask ci`.
#[derive(clap::Args)]
pub struct Args {
    /// First install what is missing, as `cargo xtask setup` does
    #[arg(long)]
    setup: bool,
    /// Only these steps (default: all)
    #[arg(value_name = "STEP", value_parser = STEPS.map(|step| step.name))]
    steps: Vec<String>,
}

/// What steps note while they run.
struct Notes {
    /// Whether what is missing is to be installed.
    installs: bool,
    skips: Skips,
    failures: Failures,
    /// What later steps will build.
    builds: RefCell<Vec<Command>>,
    ahead: RefCell<Option<Ahead>>,
    /// What only tests need, on its way while other steps build.
    needs: RefCell<Option<JoinHandle<anyhow::Result<()>>>>,
}

impl Notes {
    /// Waits for what tests need.
    fn await_needs(&self) -> anyhow::Result<()> {
        let installed = self.needs.take().map(JoinHandle::join);
        installed
            .map_or(Ok(()), |installed| installed.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

struct Step {
    name: &'static str,
    run: fn(&Path, &Notes) -> anyhow::Result<()>,
    /// What it builds, or has to have installed, first, if that can be done while tests run.
    builds: fn(&Path) -> anyhow::Result<Vec<Command>>,
}

const STEPS: [Step; 10] = [
    Step::new("format", |root, _| cargo(root, &["fmt", "--all", "--check"], &[])),
    Step::new("tidy", |root, _| run_tidy(root)),
    Step::new("clippy", |root, _| {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])
    }),
    Step::new("rustdoc", |root, _| {
        cargo(root, &["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])
    }),
    Step::new("test", run_tests),
    Step {
        builds: |root| Ok(vec![loom(root, &["--no-run"])]),
        ..Step::new("loom", |root, _| succeed(&mut loom(root, &[])))
    },
    Step { builds: |root| Ok(instructions::builds(root)), ..Step::new("instructions", count_instructions) },
    Step {
        // Before it what the next step needs: its last part is one long link, beside which others can be built.
        builds: |root| Ok(vec![build_program(root), fuzz::build(root)?]),
        ..Step::new("fuzz", |root, _| fuzz::run(root, &fuzz::Args::FOR_TESTS).map(drop))
    },
    // Behind all builds: it measures this machine.
    Step::new("readme", run_readme),
    Step { builds: |_| Ok(setup::mdbook().into_iter().collect()), ..Step::new("book", build_book) },
];

impl Step {
    const fn new(name: &'static str, run: fn(&Path, &Notes) -> anyhow::Result<()>) -> Step {
        Step { name, run, builds: |_| Ok(Vec::new()) }
    }
}

/// Runs the steps and lists what failed.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let steps: Vec<&Step> = STEPS
        .iter()
        .filter(|step| args.steps.is_empty() || args.steps.iter().any(|wanted| wanted == step.name))
        .collect();
    let ahead = steps.iter().filter(|step| args.setup || step.name != "book");
    let builds = ahead.map(|step| (step.builds)(root)).collect::<Result<Vec<_>, _>>()?;
    let notes = Notes {
        installs: args.setup,
        skips: Skips::none_yet(root)?,
        failures: Failures::none_yet(root)?,
        builds: RefCell::new(builds.into_iter().flatten().collect()),
        ahead: RefCell::default(),
        needs: RefCell::default(),
    };
    let (mut times, mut failures) = (Vec::new(), Vec::new());
    let mut step = |name: &'static str, step: &dyn Fn() -> anyhow::Result<()>| {
        println!("== {name}");
        let start = Instant::now();
        let outcome = step();
        let seconds = start.elapsed().as_secs_f64();
        let ended = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("== {name}: {ended} after {seconds:.0} s");
        times.push((name, ended, seconds));
        failures.extend(outcome.err().map(|error| format!("{name}: {error:#}")));
    };
    if args.setup {
        step("setup", &|| setup::for_builds(false));
        let root = root.to_owned();
        *notes.needs.borrow_mut() = Some(thread::spawn(move || setup::for_tests(&root)));
    }
    for Step { name, run, .. } in steps {
        step(name, &|| run(root, &notes));
    }
    if notes.needs.borrow().is_some() {
        step("needs", &|| notes.await_needs());
    }
    step("skips", &|| notes.skips.report());
    let failed_tests = notes.failures.report()?;
    for (name, ended, seconds) in &times {
        println!("{name:12} {ended} {seconds:6.0} s");
    }
    println!("{:12}        {:6.0} s", "all", times.iter().map(|(.., seconds)| seconds).sum::<f64>());
    for failure in &failures {
        println!("failed: {failure}");
    }
    for failed in &failed_tests {
        println!("failed in {failed}");
    }
    println!("{} passed, {} failed", times.len() - failures.len(), failures.len());
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    succeed(command::cargo().args(arguments).envs(environment.iter().copied()).current_dir(root))
}

fn run_tidy(root: &Path) -> anyhow::Result<()> {
    if tidy::report(root, &tidy::Args::default())? != ExitCode::SUCCESS {
        bail!("see the places above");
    }
    Ok(())
}

fn run_tests(root: &Path, notes: &Notes) -> anyhow::Result<()> {
    let built = programs::build(root)?;
    notes.await_needs()?;
    *notes.ahead.borrow_mut() = Some(Ahead::start(root, notes.builds.take()));
    programs::run(root, built, &notes.failures, (skips::VARIABLE, notes.skips.file().as_os_str()))
}

/// The lock-free types under loom's exhaustive scheduler: another `cfg`, so another target folder.
fn loom(root: &Path, arguments: &[&str]) -> Command {
    let mut tests = command::cargo();
    tests.args(["test", "--release", "--locked", "--lib", "--target-dir", "target/loom"]);
    for room in ["shm", "queues", "tasks", "host", "kernels"] {
        tests.args(["-p", &format!("castell-{room}")]);
    }
    // What makes the shipped binary fast to run makes this one slow to build.
    tests.envs([
        ("RUSTFLAGS", "--cfg loom"),
        ("CARGO_PROFILE_RELEASE_LTO", "off"),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
        ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ]);
    // What schedules the threads is where the time goes; and of what lies below hardly anything runs.
    let schedulers = ["loom", "generator"].map(|package| (package, 3));
    let rooms = ["goal", "trace", "model", "collectives", "policy"].map(|room| format!("castell-{room}"));
    let others = ["regex-automata", "regex-syntax", "rustix", "tracing-subscriber"];
    let below = rooms.iter().map(String::as_str).chain(others).map(|package| (package, 0));
    for (package, level) in schedulers.into_iter().chain(below) {
        tests.args(["--config", &format!("profile.release.package.{package}.opt-level={level}")]);
    }
    tests.args(arguments).current_dir(root);
    tests
}

fn count_instructions(root: &Path, notes: &Notes) -> anyhow::Result<()> {
    match instructions::check(root, false)? {
        instructions::Outcome::Kept => Ok(()),
        instructions::Outcome::NoValgrind => notes.skips.note("valgrind", "not installed"),
    }
}

/// The program as the README's main job has it built, upon what was built to count instructions.
fn build_program(root: &Path) -> Command {
    let mut build = command::cargo();
    build.args(["build", "--release", "--locked", "-p", "castell-cli"]).current_dir(root);
    build.envs(instructions::surroundings(root));
    build
}

/// The README's main job, as the README has it.
fn run_readme(root: &Path, notes: &Notes) -> anyhow::Result<()> {
    notes.ahead.take().into_iter().for_each(Ahead::wait);
    let mut command = Command::new("bash");
    command.args(["-euc", &readme::command(root, 1)?]);
    forget_package(&mut command);
    // What is tuned while other tests run is not worth keeping for the user.
    command.env("XDG_CONFIG_HOME", root.join("target/readme")).envs(instructions::surroundings(root));
    succeed(command.current_dir(root))
}

fn build_book(root: &Path, notes: &Notes) -> anyhow::Result<()> {
    match setup::mdbook() {
        Some(mut install) if notes.installs => succeed(&mut install)?,
        Some(_) => return notes.skips.note("mdbook", "not installed"),
        None => {}
    }
    // Whole paths: versions of mdbook differ in what others are relative to.
    let folder = root.join("target/book");
    succeed(Command::new("mdbook").arg("build").arg(root.join("docs")).arg("--dest-dir").arg(&folder))?;
    book_links::check(&folder)
}
