//! The commands of whoever tunes: each in a process group of its own, with the knobs in its environment, and killed when its time is up.

use anyhow::Context as _;
use castell_host::descriptor::wait_readable;
use castell_host::process::{Pid, Process, ends_with_this};
use castell_host::signal::{Signals, restore_defaults_in};
use rustix::process::{Signal, kill_process_group};
use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What measures, and what sets.
pub struct Commands {
    pub measure: String,
    pub set: Option<String>,
    /// Where in the JSON that is printed.
    pub pointer: Option<String>,
    /// The time that it takes counts.
    pub seconds: bool,
    pub timeout: Duration,
    pub signals: Signals,
}

/// Why a command came to nothing.
pub enum Failed {
    /// This signal has arrived.
    Signal(i32),
    /// It failed, as it continues "`CMD` ...".
    Command(String),
}

impl Commands {
    /// One measurement, with these variables.
    pub fn measure(&self, variables: &[(String, String)]) -> Result<f64, Failed> {
        if let Some(set) = &self.set {
            run(set, variables, self.timeout, Some(&self.signals))?;
        }
        self.measure_unset(variables)
    }

    /// The same without setting anything.
    pub fn measure_unset(&self, variables: &[(String, String)]) -> Result<f64, Failed> {
        let since = Instant::now();
        let said = run(&self.measure, variables, self.timeout, Some(&self.signals))?;
        if self.seconds {
            return Ok(since.elapsed().as_secs_f64());
        }
        self.number(&said).map_err(Failed::Command)
    }

    /// The number in what a measurement has printed.
    fn number(&self, said: &str) -> Result<f64, String> {
        let found = match &self.pointer {
            Some(pointer) => {
                let value: serde_json::Value = serde_json::from_str(said.trim())
                    .map_err(|error| format!("`{}` prints no JSON: {error}", self.measure))?;
                let found = value.pointer(pointer).and_then(serde_json::Value::as_f64);
                found.ok_or_else(|| format!("what `{}` prints has no number at {pointer}", self.measure))?
            }
            None => {
                let mut numbers = said.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
                numbers.next_back().ok_or_else(|| format!("`{}` prints no number", self.measure))?
            }
        };
        if found.is_finite() { Ok(found) } else { Err(format!("`{}` prints {found}", self.measure)) }
    }
}

/// Runs a command for sh and gives what it has printed; with `signals`, one that arrives ends it.
pub fn run(
    command: &str,
    variables: &[(String, String)],
    timeout: Duration,
    signals: Option<&Signals>,
) -> Result<String, Failed> {
    started(command, variables, timeout, signals)
        .unwrap_or_else(|error| Err(Failed::Command(format!("{error:#}"))))
}

fn started(
    command: &str,
    variables: &[(String, String)],
    timeout: Duration,
    signals: Option<&Signals>,
) -> anyhow::Result<Result<String, Failed>> {
    // Files, so that nobody waits for somebody to read.
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).envs(variables.iter().cloned()).process_group(0);
    shell.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    restore_defaults_in(&mut shell);
    ends_with_this(&mut shell);
    let mut child = shell.spawn().context("/bin/sh cannot be started")?;
    let pid = child.id() as i32;
    let process = Process::open(Pid::from_raw(pid).context("no process")?)?;
    let ended = watched(&process, timeout, signals)?;
    if ended != Ended::Itself {
        // What it has started ends with it.
        let group = rustix::process::Pid::from_raw(pid).context("no process")?;
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    let text = |file: &mut std::fs::File| -> std::io::Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (said, complained) = (text(&mut out)?, text(&mut err)?);
    Ok(match ended {
        Ended::Signal(signal) => Err(Failed::Signal(signal)),
        Ended::Late => {
            Err(Failed::Command(format!("`{command}` took more than {} s (--timeout)", timeout.as_secs())))
        }
        Ended::Itself if status.success() => Ok(said),
        Ended::Itself => {
            let last = complained.trim().lines().last().map(|line| format!(": {}", crate::say::plain(line)));
            Err(Failed::Command(format!("`{command}` failed ({status}){}", last.unwrap_or_default())))
        }
    })
}

#[derive(PartialEq, Eq)]
enum Ended {
    Itself,
    Late,
    Signal(i32),
}

/// Waits until it ends, its time is up, or a signal arrives.
fn watched(process: &Process, timeout: Duration, signals: Option<&Signals>) -> anyhow::Result<Ended> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(arrived) = signals.and_then(Signals::next) {
            return Ok(Ended::Signal(arrived.signal));
        }
        if process.has_ended() {
            return Ok(Ended::Itself);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Ended::Late);
        }
        let descriptors: Vec<_> =
            [process.as_fd()].into_iter().chain(signals.map(|signals| signals.as_fd())).collect();
        wait_readable(&descriptors, left.as_millis().clamp(1, 1000) as i32)?;
    }
}
