//! Reads counters while a program runs.

use super::recording::Sample;
use super::{Plan, Recording};
use castell_host::descriptor::wait_readable;
use castell_host::perf::{Counter, Target};
use castell_host::process::{Pid, Process};
use castell_host::signal::{Signals, restore_defaults_in};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// What is watched.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A command, from its start to its end.
    Command(&'a [OsString]),
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

/// Watches until the end, or for so long; an interrupt ends a command, or the watching of a process.
///
/// # Errors
/// See [`WatchError`].
pub fn watch(
    subject: Subject<'_>,
    plan: &Plan,
    every: Duration,
    limit: Option<Duration>,
) -> Result<(Recording, Ended), WatchError> {
    let signals = Signals::take_over(&[libc::SIGINT, libc::SIGTERM])?;
    let mut reading = Reading::new(plan);
    let mut running = match subject {
        Subject::Command(words) => {
            // The counters count what this thread starts: they are there before the command is.
            reading
                .open(Target::Started)
                .map_err(|error| WatchError::System { what: "open counters", error })?;
            reading.sample(Instant::now(), 0.0);
            Running::Command(start(words)?)
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
        Subject::Command(words) => {
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        }
        Subject::Process(pid) => format!("process {pid}"),
    };
    Ok((reading.into_recording(plan, program), ended))
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

fn start(words: &[OsString]) -> Result<Child, WatchError> {
    let (word, arguments) = words.split_first().ok_or_else(|| WatchError::NotFound(String::new()))?;
    let mut command = Command::new(word);
    command.args(arguments);
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
    /// A set of counters a thread that is watched; of a command there is one.
    sets: Vec<Vec<Counter>>,
    samples: Vec<Sample>,
    /// Readings are made this many times further apart than at the beginning.
    every_nth: u32,
}

impl<'a> Reading<'a> {
    fn new(plan: &'a Plan) -> Reading<'a> {
        Reading { plan, sets: Vec::new(), samples: Vec::new(), every_nth: 1 }
    }

    fn open(&mut self, target: Target) -> io::Result<()> {
        let mut set: Vec<Counter> = Vec::new();
        for group in &self.plan.groups {
            let leader = set.len();
            for (_, event) in group {
                let counter = Counter::open(*event, target, set.get(leader))?;
                set.push(counter);
            }
        }
        self.sets.push(set);
        Ok(())
    }

    /// Opens counters for each thread of a process and of its children. Those that they start meanwhile are found by looking again.
    fn attach(&mut self, pid: Pid) -> Result<(), WatchError> {
        castell_host::process::raise_open_files_limit();
        let mut known = BTreeSet::new();
        for _ in 0..LOOKS {
            let mut is_new = false;
            for thread in threads_of(pid) {
                if !known.insert(thread) {
                    continue;
                }
                is_new = true;
                let target = Pid::from_raw(thread).ok_or(WatchError::NoProcess(pid))?;
                match self.open(Target::Thread(target)) {
                    Ok(()) => {}
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => {
                        let processor = &self.plan.processor;
                        let root = std::path::Path::new("/");
                        let why =
                            super::Unavailable::explain("task-clock", &error, processor, root).to_string();
                        return Err(WatchError::NotAllowed { pid, why });
                    }
                }
            }
            if !is_new {
                break;
            }
        }
        if self.sets.is_empty() { Err(WatchError::NoProcess(pid)) } else { Ok(()) }
    }

    fn sample(&mut self, _begin: Instant, seconds: f64) {
        let events = self.plan.groups.iter().map(Vec::len).sum();
        let mut counts = vec![[0u64; 3]; events];
        for set in &self.sets {
            for (sum, counter) in counts.iter_mut().zip(set) {
                // A counter that cannot be read counts as one that never ran.
                let count = counter.read().unwrap_or_default();
                for (sum, more) in sum.iter_mut().zip([count.value, count.enabled_ns, count.running_ns]) {
                    *sum += more;
                }
            }
        }
        self.samples.push(Sample { seconds, counts });
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
        let table = plan.hardware.as_ref().ok();
        Recording {
            version: 1,
            program,
            processor: plan.processor.to_string(),
            table: table.map_or_else(String::new, |table| table.name.clone()),
            notes: plan.notes(),
            links: table.map(|table| table.links.clone()),
            bytes: table.map_or([64.0, 8.0], |table| [table.line_bytes, table.load_bytes]),
            events: plan.events(),
            samples: self.samples,
        }
    }
}

/// How often new threads are looked for before watching begins.
const LOOKS: usize = 10;

/// The threads of a process and of all processes below it, as far as they are there.
fn threads_of(pid: Pid) -> Vec<i32> {
    let mut threads = Vec::new();
    let mut processes = vec![pid.raw()];
    while let Some(process) = processes.pop() {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/task")) else { continue };
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for thread in numbers {
            threads.push(thread);
            let children = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/children"));
            processes.extend(
                children
                    .unwrap_or_default()
                    .split_ascii_whitespace()
                    .filter_map(|text| text.parse::<i32>().ok()),
            );
        }
    }
    threads
}
