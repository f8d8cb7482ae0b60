//! Who slows whom: programs and processes that can be stopped and go on, and what their pace is measured by.

use super::{Patience, SlowdownError};
use crate::descendants::children;
use crate::probe::Probe;
use castell_host::descriptor::wait_readable;
use castell_host::perf::{Counter, Event, Target};
use castell_host::process::{Birth, Ended, Pid, Process, spawn};
use castell_host::signal::Signals;
use rustix::process::{Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Somebody whose pace is measured.
pub(super) trait Victim {
    /// Its pace, in a unit of its own; over the interval, or over a whole run.
    fn pace(&mut self, interval: Duration, signals: &Signals) -> Result<f64, SlowdownError>;
    /// Gets it going.
    fn begin(&mut self) -> Result<(), SlowdownError> {
        Ok(())
    }
    /// Stops it.
    fn rest(&mut self) {}
}

/// Somebody who may slow others.
pub(super) trait Neighbour {
    /// Lets it go on.
    fn go(&mut self) -> Result<(), SlowdownError>;
    /// Stops it.
    fn rest(&mut self) -> Result<(), SlowdownError>;
    /// Whether it has been going since it was told to.
    fn has_gone_on(&self) -> bool {
        true
    }
}

impl Victim for &Probe {
    fn pace(&mut self, interval: Duration, signals: &Signals) -> Result<f64, SlowdownError> {
        let (start, before) = (Instant::now(), self.bytes());
        sleep(interval, signals)?;
        Ok((self.bytes() - before) as f64 / start.elapsed().as_secs_f64())
    }

    fn begin(&mut self) -> Result<(), SlowdownError> {
        Probe::go(self);
        Ok(())
    }

    fn rest(&mut self) {
        self.pause();
    }
}

impl Neighbour for &Probe {
    fn go(&mut self) -> Result<(), SlowdownError> {
        Probe::go(self);
        Ok(())
    }

    fn rest(&mut self) -> Result<(), SlowdownError> {
        self.pause();
        Ok(())
    }
}

/// Waits, unless somebody interrupts.
pub(super) fn sleep(time: Duration, signals: &Signals) -> Result<(), SlowdownError> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let wait = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        if wait == 0 {
            std::thread::sleep(left);
        } else {
            wait_readable(&[signals.as_fd()], wait)?;
        }
        if signals.next().is_some() {
            return Err(SlowdownError::Interrupted);
        }
    }
}

/// A command, started again whenever it has ended. What it prints is not shown.
pub(super) struct Program<'a> {
    words: &'a [OsString],
    cpus: Vec<u32>,
    /// The way into the group that it lives in.
    group: Option<File>,
    process: Option<Process>,
    /// Its instructions, where they can be counted: over all its runs.
    instructions: Option<Counter>,
}

impl<'a> Program<'a> {
    pub fn new(words: &'a [OsString], cpus: Vec<u32>) -> Program<'a> {
        let instructions = Counter::open(Event::generic(1), Target::Started, None).ok();
        Program { words, cpus, group: None, process: None, instructions }
    }

    /// It is started in a group from now on; `entrance` is where it says so.
    pub fn live_in(&mut self, entrance: File) {
        self.group = Some(entrance);
    }

    pub fn has_counter(&self) -> bool {
        self.instructions.is_some()
    }

    fn start(&mut self) -> Result<(), SlowdownError> {
        let (word, arguments) = self.words.split_first().ok_or(SlowdownError::NoCommand)?;
        let mut command = Command::new(word);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        // A group of its own, so that all of it is stopped together.
        command.process_group(0);
        let birth = Birth {
            cpus: self.cpus.clone(),
            parent_death_signal: Some(libc::SIGKILL),
            groups: self.group.iter().map(|group| group.as_raw_fd()).collect(),
            ..Birth::default()
        };
        self.process = Some(spawn(&mut command, &birth)?);
        Ok(())
    }

    /// Starts it if it does not run.
    fn keep_going(&mut self) -> Result<(), SlowdownError> {
        if self.process.as_ref().is_none_or(Process::has_ended) {
            self.take_end()?;
            self.start()?;
        }
        Ok(())
    }

    fn signal_all(&self, signal: Signal) {
        let group =
            self.process.as_ref().and_then(|process| rustix::process::Pid::from_raw(process.pid().raw()));
        if let Some(group) = group {
            // It may have ended just now.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Takes notice of its end.
    fn take_end(&mut self) -> Result<(), SlowdownError> {
        let Some(process) = self.process.take() else { return Ok(()) };
        let ended = process.wait()?;
        if ended.is_success() { Ok(()) } else { Err(SlowdownError::Failed(ended)) }
    }

    /// Ends it, whatever it does.
    pub fn end(&mut self) {
        if self.process.is_some() {
            self.signal_all(Signal::KILL);
            // It did not end well, of course.
            let _: Result<(), SlowdownError> = self.take_end();
        }
    }

    /// One run from start to end: its seconds.
    fn whole_run(&mut self, signals: &Signals) -> Result<f64, SlowdownError> {
        self.end();
        let start = Instant::now();
        self.start()?;
        loop {
            let Some(process) = &self.process else { return Err(SlowdownError::NoCommand) };
            let ready = wait_readable(&[process.as_fd(), signals.as_fd()], 1000)?;
            if ready[0] {
                let seconds = start.elapsed().as_secs_f64();
                self.take_end()?;
                return Ok(seconds);
            }
            if signals.next().is_some() {
                return Err(SlowdownError::Interrupted);
            }
        }
    }
}

/// Runs commands at the same time, each on processors of its own and again and again until all have had so many whole runs, so that none
/// of these is without the others. Seconds of each one's runs, in any order.
///
/// # Errors
/// One of them cannot be started or does not end well, or somebody interrupts.
pub fn side_by_side(
    commands: &[(&[OsString], Vec<u32>)],
    runs: usize,
    signals: &Signals,
) -> Result<Vec<Vec<f64>>, SlowdownError> {
    let mut programs: Vec<Program> =
        commands.iter().map(|(words, cpus)| Program::new(words, cpus.clone())).collect();
    let mut seconds = vec![Vec::new(); programs.len()];
    let mut begun = Vec::new();
    for program in &mut programs {
        begun.push(Instant::now());
        program.start()?;
    }
    while seconds.iter().any(|of: &Vec<f64>| of.len() < runs) {
        let processes = programs.iter().filter_map(|program| Some(program.process.as_ref()?.as_fd()));
        let watched: Vec<_> = processes.chain([signals.as_fd()]).collect();
        let ready = wait_readable(&watched, 1000)?;
        if signals.next().is_some() {
            return Err(SlowdownError::Interrupted);
        }
        for (at, program) in programs.iter_mut().enumerate().filter(|(at, _)| ready[*at]) {
            seconds[at].push(begun[at].elapsed().as_secs_f64());
            program.take_end()?;
            begun[at] = Instant::now();
            program.start()?;
        }
    }
    Ok(seconds)
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Victim for Program<'_> {
    fn pace(&mut self, interval: Duration, signals: &Signals) -> Result<f64, SlowdownError> {
        if self.instructions.is_none() {
            return Ok(1.0 / self.whole_run(signals)?);
        }
        let mut patience = Patience::new();
        while patience.lasts() {
            self.keep_going()?;
            let count = |counter: &Option<Counter>| counter.as_ref().and_then(|counter| counter.read().ok());
            let (start, before) = (Instant::now(), count(&self.instructions).unwrap_or_default());
            sleep(interval, signals)?;
            let after = count(&self.instructions).unwrap_or_default();
            let seconds = start.elapsed().as_secs_f64();
            if self.process.as_ref().is_some_and(|process| !process.has_ended()) {
                return Ok((after.value - before.value).max(1) as f64 / seconds);
            }
        }
        Err(SlowdownError::TooShort)
    }

    fn begin(&mut self) -> Result<(), SlowdownError> {
        if self.instructions.is_some() { self.keep_going() } else { Ok(()) }
    }

    fn rest(&mut self) {
        self.end();
    }
}

impl Neighbour for Program<'_> {
    fn go(&mut self) -> Result<(), SlowdownError> {
        self.keep_going()?;
        self.signal_all(Signal::CONT);
        Ok(())
    }

    fn rest(&mut self) -> Result<(), SlowdownError> {
        self.signal_all(Signal::STOP);
        Ok(())
    }

    fn has_gone_on(&self) -> bool {
        self.process.as_ref().is_some_and(|process| !process.has_ended())
    }
}

/// A process that runs already, with its children. It goes on when this is dropped, whatever happened.
pub(super) struct Running {
    process: Process,
}

impl Running {
    pub fn new(pid: i32) -> Result<Running, SlowdownError> {
        let pid =
            Pid::from_raw(pid).filter(|pid| *pid != Pid::current()).ok_or(SlowdownError::NoProcess(pid))?;
        let process = Process::open(pid).map_err(|_| SlowdownError::NoProcess(pid.raw()))?;
        let running = Running { process };
        // Whether it may be stopped is known before anything is measured.
        running.process.signal(0).map_err(|_| SlowdownError::NotAllowed(pid.raw()))?;
        Ok(running)
    }

    /// Its name.
    pub fn name(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.process.pid())).unwrap_or_default();
        name.trim().to_owned()
    }

    fn signal_all(&self, signal: Signal) {
        let mut processes = vec![self.process.pid().raw()];
        while let Some(process) = processes.pop() {
            if let Some(pid) = rustix::process::Pid::from_raw(process) {
                let _ = kill_process(pid, signal);
            }
            processes.extend(children(process));
        }
    }
}

impl Neighbour for Running {
    fn go(&mut self) -> Result<(), SlowdownError> {
        self.signal_all(Signal::CONT);
        Ok(())
    }

    fn rest(&mut self) -> Result<(), SlowdownError> {
        self.signal_all(Signal::STOP);
        Ok(())
    }

    fn has_gone_on(&self) -> bool {
        !self.process.has_ended()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal_all(Signal::CONT);
    }
}

impl From<Ended> for SlowdownError {
    fn from(ended: Ended) -> SlowdownError {
        SlowdownError::Failed(ended)
    }
}
