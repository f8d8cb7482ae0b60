//! Trials at full size: tests that repeat what may go wrong at any moment, thousands of times, and how much they leave behind.

use crate::programs::{self, Program};
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Arguments of `cargo xtask trials`.
#[derive(clap::Args)]
pub struct Args {
    /// Of what
    #[arg(value_name = "WHAT", value_parser = ["daemon", "hosts"])]
    what: String,
    /// How much of them, in per cent
    #[arg(long, default_value_t = 100, value_name = "PERCENT")]
    part: u64,
}

/// A test, and how many times as often as usual it tries what it tries.
struct Trial {
    /// Crate and file.
    program: &'static str,
    test: &'static str,
    times: u64,
}

const fn trial(program: &'static str, test: &'static str, times: u64) -> Trial {
    Trial { program, test, times }
}

/// Those that take longest first.
const DAEMON: [Trial; 12] = [
    trial("cli tests/daemon_sessions.rs", "sessions_outlive_a_daemon_that_is_killed", 334),
    trial("cli tests/daemon.rs", "strategies_are_exchanged_under_load", 100),
    trial("cli tests/daemon.rs", "applications_may_die_in_any_state", 313),
    trial("cli tests/daemon.rs", "a_daemon_that_is_killed_is_followed_by_another", 40),
    trial("agent tests/sessions.rs", "agents killed at", 34),
    trial("cli tests/daemon.rs", "stopped::applications_may_be_stopped_in_any_state", 9),
    trial("agent tests/sessions.rs", "clients that do", 20),
    trial("cli tests/daemon.rs", "many::applications_leave_no_memory_behind", 10),
    trial("agent tests/sessions.rs", "killed agents leave", 10),
    trial("cli tests/daemon.rs", "strangers_and_liars_are_sent_away", 50),
    trial("cli tests/daemon_own.rs", "one_that_fails_harms_nobody_else", 1),
    trial("luau tests/hostile.rs", "", 1),
];

/// Of each, many ranks on few processors.
const HOSTS: [Trial; 2] = [
    trial("cli tests/hosts_stress.rs", "faults_in_the_middle_of_calls", 84),
    trial("cli tests/hosts_stress.rs", "nobody_is_given_up_who_stands_still_for_three_seconds", 1100),
];

/// Builds and runs them, two at a time; prints a table.
///
/// # Errors
/// One failed: what it printed stands above.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let packages = ["castell-cli", "castell-agent", "castell-luau"].map(|name| ["--package", name]);
    let files = ["daemon", "daemon_own", "daemon_sessions", "hosts_stress", "sessions", "hostile"]
        .map(|name| ["--test", name]);
    let all: &[Trial] = if args.what == "hosts" { &HOSTS } else { &DAEMON };
    let built = programs::built(root, &[packages.as_flattened(), files.as_flattened()].concat())?;
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let run_some = || {
        let trials = std::iter::from_fn(|| all.get(next.fetch_add(1, Ordering::Relaxed)));
        trials.map(|trial| trial.run(&built, args.part)).filter(|is_well| !is_well).count()
    };
    println!("seconds      count  what; what is left of it");
    let failed = std::thread::scope(|scope| {
        let other = scope.spawn(run_some);
        run_some() + other.join().expect("a panic is one of ours")
    });
    println!("{:7.1}  all {}", begun.elapsed().as_secs_f64(), args.what);
    if failed > 0 {
        bail!("{failed} of {} trials failed", all.len());
    }
    Ok(ExitCode::SUCCESS)
}

impl Trial {
    /// Runs it and prints its line; whether it went well.
    fn run(&self, built: &[Program], part: u64) -> bool {
        let begun = Instant::now();
        let times = (self.times * part / 100).max(1);
        let output = built.iter().find(|program| program.is(self.program)).context("it was not built");
        let output = output.and_then(|program| {
            let mut test = program.tests();
            test.args([self.test, "--nocapture"]).env("CASTELL_TEST_TRIALS", times.to_string());
            Ok(test.stdin(Stdio::null()).output()?)
        });
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                println!("{} cannot be started: {error:#}", self.test);
                return false;
            }
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let seconds = begun.elapsed().as_secs_f64();
        match output.status.success() {
            true => println!("{seconds:7.1}  {}", told(self, &said).join("\n         ")),
            false => {
                let errors = String::from_utf8_lossy(&output.stderr);
                println!("{seconds:7.1}  {} FAILED:\n{said}\n{errors}", self.test);
            }
        }
        output.status.success()
    }
}

/// The lines in which it says how often something was tried, and what is left.
fn told(trial: &Trial, said: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        said.lines().filter_map(|line| Some(line.split_once("trial: ")?.1.to_owned())).collect();
    if lines.is_empty() {
        let passed = said.lines().find_map(|line| line.strip_prefix("test result: ok. "));
        lines.push(format!("{} tests of {} {}", words(passed), trial.program, trial.test));
    }
    let in_columns = |line: String| {
        let (count, what) = line.split_once(' ').unwrap_or(("", &line));
        format!("{count:>9}  {what}")
    };
    lines.into_iter().map(in_columns).collect()
}

/// The first of them.
fn words(line: Option<&str>) -> &str {
    line.and_then(|line| line.split(' ').next()).unwrap_or("all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_told_in_a_line() {
        let said = "seed 7\ntest x ... trial: 25 kills; descriptors +0\nok\n";
        assert_eq!(told(&DAEMON[0], said), ["       25  kills; descriptors +0"]);
        let said = "trial: 3 cuts\ntrial: 4 stops\n";
        assert_eq!(told(&HOSTS[0], said), ["        3  cuts", "        4  stops"]);
        let said = "running 9 tests\ntest result: ok. 9 passed; 0 failed\n";
        assert_eq!(told(&DAEMON[11], said), ["        9  tests of luau tests/hostile.rs "]);
    }
}
