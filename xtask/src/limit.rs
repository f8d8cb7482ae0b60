//! A time limit for each test program: one that hangs is described and killed, and the others still run.

use crate::failures::{self, Listener};
use crate::setup;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::io::{stderr, stdout};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Several times what the longest takes on a busy machine.
pub const SECONDS: u64 = 900;

/// Arguments of `cargo xtask limit`.
#[derive(clap::Args)]
pub struct Args {
    /// What it may take at most
    seconds: u64,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// Runs it, and ends as it ended; 124 if that took too long, as `timeout` does.
///
/// # Errors
/// It cannot be started.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let program = &args.command[0];
    let mut command = Command::new(program);
    command.args(&args.command[1..]);
    let folder = std::env::var_os(failures::VARIABLE).map(PathBuf::from);
    let Some(folder) = folder else {
        let mut child = command.spawn().with_context(|| format!("start {program}"))?;
        return Ok(ExitCode::from(wait(&mut child, program, args.seconds)?));
    };
    // What it starts in turn is its own affair.
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove(failures::VARIABLE);
    let mut child = command.spawn().with_context(|| format!("start {program}"))?;
    let mut listener = Listener::new();
    child.stdout.take().into_iter().for_each(|from| listener.hear(from, stdout()));
    child.stderr.take().into_iter().for_each(|from| listener.hear(from, stderr()));
    let code = wait(&mut child, program, args.seconds)?;
    let said = listener.last_words();
    if code != 0 {
        failures::keep(&folder, program, &said)?;
    }
    Ok(ExitCode::from(code))
}

/// How it ended; what takes too long is described and killed.
fn wait(child: &mut Child, program: &str, seconds: u64) -> anyhow::Result<u8> {
    let (began, limit) = (Instant::now(), Duration::from_secs(seconds));
    while began.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            use std::os::unix::process::ExitStatusExt as _;
            let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
            return Ok(u8::try_from(code).unwrap_or(1));
        }
        thread::sleep(Duration::from_millis(5));
    }
    println!("{program} has not ended after {seconds} s; it and what it started, with where each thread is:");
    let family = descendants(child.id());
    family.iter().for_each(|process| describe(*process));
    for process in family.iter().rev() {
        // One that has ended by now needs no more.
        let _ = Command::new("kill").args(["-KILL", &process.to_string()]).stderr(Stdio::null()).status();
    }
    child.wait()?;
    Ok(124)
}

/// The process and all that descend from it, parents first.
fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // Behind the name, which may hold anything: state, parent.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        parent.into_iter().for_each(|parent| children.entry(parent).or_default().push(process));
    }
    let mut family = vec![root];
    let mut next = 0;
    while let Some(process) = family.get(next) {
        family.extend(children.get(process).into_iter().flatten());
        next += 1;
    }
    family
}

/// Where its threads are: by the debugger, or what the kernel says.
fn describe(process: u32) {
    let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    println!("-- process {process}: {}", String::from_utf8_lossy(&arguments).replace('\0', " "));
    if setup::find_program("gdb").is_some() {
        let arguments = ["-p", &process.to_string(), "-batch", "-ex", "thread apply all backtrace 30"];
        let _ = Command::new("gdb").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).status();
        return;
    }
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        println!("   {} waits in {}", read("comm").trim(), read("wchan"));
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, descendants, run};
    use std::process::{Command, ExitCode};
    use std::time::Instant;

    fn outcome(seconds: u64, script: &str) -> ExitCode {
        run(&Args { seconds, command: ["sh", "-c", script].map(str::to_owned).to_vec() }).expect("sh starts")
    }

    #[test]
    fn codes_are_handed_on() {
        assert_eq!(outcome(60, "exit 7"), ExitCode::from(7));
        assert_eq!(outcome(60, "kill -TERM $$"), ExitCode::from(143));
    }

    #[test]
    fn what_hangs_is_killed_with_all_that_it_started() {
        let began = Instant::now();
        assert_eq!(outcome(1, "sleep 601 & wait"), ExitCode::from(124));
        assert!(began.elapsed().as_secs() < 600);
        let left = Command::new("pgrep").args(["-f", "^sleep 601$"]).output().expect("pgrep");
        assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    }

    #[test]
    fn children_are_found() {
        let mut child = Command::new("sh").args(["-c", "sleep 602 & wait"]).spawn().expect("sh");
        while descendants(child.id()).len() < 2 {
            std::thread::yield_now();
        }
        for process in descendants(child.id()).into_iter().rev() {
            Command::new("kill").arg(process.to_string()).status().expect("kill");
        }
        child.wait().expect("ends");
    }
}
