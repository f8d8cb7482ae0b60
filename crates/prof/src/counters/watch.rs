//! Reads counters while a program runs.

use super::recording::Sample;
use super::{Counted, Plan, Recording};
use crate::descendants::{memory_bytes, ran_and_waited_ns};
use crate::prints::Prints;
use castell_host::descriptor::wait_readable;
use castell_host::perf::Target;
use castell_host::process::{Pid, Process};
use castell_host::signal::{Signals, restore_defaults_in};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// What is watched.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A command, from its start to its end, and where what it prints goes.
    Command(&'a [OsString], Prints),
    /// A process and its children, from now on.
    Process(Pid),
}

/// How watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command ended.
    Command(ExitStatus),
    /// The process is gone.
    Gone,
    /// The time is over, or somebody interrupted.
    Stopped,
}

/// Why something was not watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No such program.
    #[error("{0}: there is no program of this name, or it may not be executed")]
    NotFound(String),
    /// No such process.
    #[error("there is no process {0}")]
    NoProcess(Pid),
    /// It may not be counted.
    #[error("process {pid} may not be counted: {why}")]
    NotAllowed {
        /// The process.
        pid: Pid,
        /// Why.
        why: String,
    },
    /// The system refused something.
    #[error("cannot {what}: {error}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// Its answer.
        error: io::Error,
    },
    /// The system refused something else.
    #[error(transparent)]
    Host(#[from] castell_host::HostError),
}

/// The most readings that are kept: of two neighbouring ones the first is dropped when there are more.
const SAMPLES_MAX: usize = 4096;

/// What came of watching.
#[derive(Clone, Debug)]
pub struct Watched {
    /// What was read.
    pub recording: Recording,
    /// How it ended.
    pub ended: Ended,
    /// The most memory that a command and what it started had at a time, as far as it was seen: not of what ends within moments. Bytes.
    pub memory_bytes: Option<u64>,
    /// Of the time in which a command and what it started could have run, the part in which they waited for a processor that others had, as far
    /// as it was seen.
    pub waited: Option<f64>,
}

/// Watches until the end, or for so long; an interrupt ends a command, or the watching of a process.
///
/// # Errors
/// See [`WatchError`].
pub fn watch(
    subject: Subject<'_>,
    plan: &Plan,
    every: Duration,
    limit: Option<Duration>,
) -> Result<Watched, WatchError> {
    let signals = Signals::take_over(&[libc::SIGINT, libc::SIGTERM])?;
    let mut reading = Reading::new(plan);
    let mut running = match subject {
        Subject::Command(words, prints) => {
            // The counters count what this thread starts: they are there before the command is.
            reading
                .counted
                .open(Target::Started)
                .map_err(|error| WatchError::System { what: "open counters", error })?;
            reading.sample(Instant::now(), 0.0);
            Running::Command(start(words, prints)?)
        }
        Subject::Process(pid) => {
            let process = Process::open(pid).map_err(|_| WatchError::NoProcess(pid))?;
            reading.attach(pid)?;
            Running::Process(process)
        }
    };
    let begin = Instant::now();
    if matches!(running, Running::Process(_)) {
        reading.sample(begin, 0.0);
    }
    let mut due = begin + every;
    let mut looked = Looked::default();
    let ended = loop {
        let now = Instant::now();
        let until = limit.map_or(due, |limit| due.min(begin + limit));
        let wait = until.saturating_duration_since(now).as_millis() as i32;
        let descriptors = match &running {
            Running::Command(_) => vec![signals.as_fd()],
            Running::Process(process) => vec![signals.as_fd(), process.as_fd()],
        };
        // A command's end is looked for often: it is told by no descriptor.
        let wait = if matches!(running, Running::Command(_)) { wait.min(LOOK_MS) } else { wait };
        wait_readable(&descriptors, wait.max(1))?;
        if let Some(ended) = running.ended()? {
            break ended;
        }
        if let Running::Command(child) = &running {
            looked.look(child.id(), begin.elapsed());
        }
        let mut is_stopped = false;
        while let Some(arrived) = signals.next() {
            is_stopped |= running.take_signal(arrived.signal, arrived.from_kernel);
        }
        if is_stopped || limit.is_some_and(|limit| begin.elapsed() >= limit) {
            if let Running::Command(child) = &mut running {
                pass_on(libc::SIGTERM, child.id());
                let status = child
                    .wait()
                    .map_err(|error| WatchError::System { what: "wait for the program", error })?;
                break Ended::Command(status);
            }
            break Ended::Stopped;
        }
        if Instant::now() >= due {
            reading.sample(begin, begin.elapsed().as_secs_f64());
            due += every * reading.every_nth;
        }
    };
    reading.sample(begin, begin.elapsed().as_secs_f64());
    let program = match subject {
        Subject::Command(words, _) => {
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        }
        Subject::Process(pid) => format!("process {pid}"),
    };
    Ok(Watched {
        recording: reading.into_recording(plan, program),
        ended,
        memory_bytes: looked.most_bytes,
        waited: looked.waited,
    })
}

/// How much memory a command was seen to have, and whether it had to wait. It is looked at in ever longer intervals: what there was a twentieth
/// of its time ago will do.
#[derive(Default)]
struct Looked {
    most_bytes: Option<u64>,
    waited: Option<f64>,
    due: Duration,
}

impl Looked {
    fn look(&mut self, pid: u32, now: Duration) {
        if now < self.due {
            return;
        }
        self.most_bytes = self.most_bytes.max(memory_bytes(pid as i32));
        let [ran, waited] = ran_and_waited_ns(pid as i32).map(|ns| ns as f64);
        if ran + waited > 0.0 {
            self.waited = Some(waited / (ran + waited));
        }
        self.due = now + now / 20;
    }
}

/// How often a command is asked whether it has ended. Milliseconds.
const LOOK_MS: i32 = 5;

enum Running {
    Command(Child),
    Process(Process),
}

impl Running {
    fn ended(&mut self) -> Result<Option<Ended>, WatchError> {
        match self {
            Running::Command(child) => {
                let status = child.try_wait();
                let status =
                    status.map_err(|error| WatchError::System { what: "wait for the program", error })?;
                Ok(status.map(Ended::Command))
            }
            Running::Process(process) => Ok(process.has_ended().then_some(Ended::Gone)),
        }
    }

    /// Whether a signal ends the watching.
    fn take_signal(&self, signal: i32, from_kernel: bool) -> bool {
        match self {
            Running::Command(child) => {
                // The terminal has told the whole group; others have told this process alone.
                if !from_kernel {
                    pass_on(signal, child.id());
                }
                false
            }
            Running::Process(_) => true,
        }
    }
}

fn pass_on(signal: i32, pid: u32) {
    use rustix::process::{Signal, kill_process};
    let pid = rustix::process::Pid::from_raw(pid as i32);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

fn start(words: &[OsString], prints: Prints) -> Result<Child, WatchError> {
    let (word, arguments) = words.split_first().ok_or_else(|| WatchError::NotFound(String::new()))?;
    let mut command = Command::new(word);
    command.args(arguments);
    prints.set_in(&mut command).map_err(|error| WatchError::System { what: "start the program", error })?;
    restore_defaults_in(&mut command);
    command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            WatchError::NotFound(word.to_string_lossy().into_owned())
        }
        _ => WatchError::System { what: "start the program", error },
    })
}

/// Counters that are open, and what was read of them.
struct Reading<'a> {
    plan: &'a Plan,
    counted: Counted,
    samples: Vec<Sample>,
    /// Readings are made this many times further apart than at the beginning.
    every_nth: u32,
}

impl<'a> Reading<'a> {
    fn new(plan: &'a Plan) -> Reading<'a> {
        Reading { plan, counted: plan.counted(), samples: Vec::new(), every_nth: 1 }
    }

    /// Counts in a process that runs already.
    fn attach(&mut self, pid: Pid) -> Result<(), WatchError> {
        self.counted.attach(pid).map_err(|error| {
            let root = std::path::Path::new("/");
            let why =
                super::Unavailable::explain("task-clock", &error, &self.plan.processor, root).to_string();
            WatchError::NotAllowed { pid, why }
        })?;
        if self.counted.is_empty() { Err(WatchError::NoProcess(pid)) } else { Ok(()) }
    }

    fn sample(&mut self, _begin: Instant, seconds: f64) {
        self.samples.push(Sample { seconds, counts: self.counted.read() });
        if self.samples.len() > SAMPLES_MAX {
            let mut at = 0;
            self.samples.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every_nth *= 2;
        }
    }

    fn into_recording(self, plan: &Plan, program: String) -> Recording {
        Recording::of(plan, program, self.samples)
    }
}
