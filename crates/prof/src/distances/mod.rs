//! Stack reuse distances of an unmodified program (Weidendorfer and Breitbart, COSH 2016: PinDist).
//!
//! The program runs under the observer (`observer`), which says what blocks it touches (`stream`); what their distances are is
//! counted here, in another process, while it runs. Start at [`observe`].

mod observer;
mod program;
pub mod stream;
mod trace;

pub use trace::of_trace;

pub use observer::VARIABLE;

use crate::prints::Prints;
use castell_cachesim::sampled::{Groups, RateError};
use castell_cachesim::trace::TraceError;
use castell_cachesim::{Histogram, Sampled, StackDistances};
use castell_host::descriptor::wait_readable;
use castell_host::signal::Signals;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use stream::{Content, MESSAGE_BYTES_MAX, Record};
use trace::Trace;

/// How often the state of processes is looked at. Milliseconds.
const LOOK_MS: i32 = 200;
/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// What is observed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a block; a power of two up to 1 MiB.
    pub block_bytes: u64,
    /// Leave out accesses to the stack of the thread that makes them.
    pub ignore_stack: bool,
    /// Count by function, too.
    pub functions: bool,
    /// Count by thread, too.
    pub threads: bool,
    /// The part of the blocks to look at; `None`: all, exactly.
    pub sample: Option<f64>,
    /// Keep how the histogram grew, for phases.
    pub growth: bool,
    /// Keep all accesses in this file (see `castell_cachesim::trace`).
    pub trace: Option<PathBuf>,
    /// Where what the program prints goes.
    pub prints: Prints,
}

impl Options {
    fn sampling(&self) -> Result<Option<Sampled>, ObserveError> {
        Ok(self.sample.map(Sampled::new).transpose()?)
    }
}

/// Why a program was not observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// No such program.
    #[error("{}: there is no program of this name, or it may not be executed", .0.display())]
    NotFound(PathBuf),
    /// It cannot be observed.
    #[error("{}: {why}", program.display())]
    Refused {
        /// The program.
        program: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// The observer was not built.
    #[error(
        "the observer of memory accesses is not there: `cargo xtask observer` builds it (it is a program of its own, under \
         the GPL); {VARIABLE} names it where it lies elsewhere"
    )]
    NoObserver,
    /// Valgrind is not there.
    #[error("Valgrind, under which programs are observed, is not installed: `apt install valgrind`")]
    NoValgrind,
    /// A block of another size.
    #[error("blocks of {0} bytes: ask for a power of two up to 1,048,576")]
    BlockBytes(u64),
    /// Blocks of a trace are as they are, or larger.
    #[error(
        "this trace has blocks of {kept} bytes, and what lies in them apart cannot be told: ask for {kept} or more, or observe the \
         program once more with --block {asked} --trace"
    )]
    BlockOfTrace {
        /// Bytes of the trace's blocks.
        kept: u64,
        /// Bytes asked for.
        asked: u64,
    },
    /// No trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The file for the trace.
    #[error("{}: {error}", path.display())]
    TraceFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The temporary folder.
    #[error("the folder for the observer's files: {0}")]
    Folder(std::io::Error),
    /// The system refused something.
    #[error("the program could not be started: {0}")]
    Start(std::io::Error),
    /// The system refused something else.
    #[error(transparent)]
    Host(#[from] castell_host::HostError),
    /// The observer sent nonsense.
    #[error(transparent)]
    Broken(#[from] stream::Broken),
    /// The observer could not begin.
    #[error("the program could not be observed: {0}")]
    Unobserved(String),
}

fn check_block(bytes: u64) -> Result<(), ObserveError> {
    let is_fine = bytes.is_power_of_two() && bytes <= 1 << 20;
    is_fine.then_some(()).ok_or(ObserveError::BlockBytes(bytes))
}

/// What was seen of a program that a process executed.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The process.
    pub pid: u32,
    /// The process that started it.
    pub parent: u32,
    /// The program's name.
    pub name: String,
    /// Accesses to memory.
    pub accesses: u64,
    /// Distinct blocks; of a sample, an estimate.
    pub blocks: u64,
    /// Distances of all accesses, in their order over all threads.
    pub together: Histogram,
    /// Of a sample, the standard error of the miss ratios.
    pub error: Option<f64>,
    /// Of a sample, what its groups say: how far off the miss ratio of a cache is.
    pub groups: Option<Groups>,
    /// Distances of each thread among its own accesses, if that was asked for.
    pub threads: BTreeMap<u64, Histogram>,
    /// Distances by the function that makes the access, if that was asked for. Repeated accesses to one block, which have
    /// the distance 0, are not counted here.
    pub functions: BTreeMap<String, Histogram>,
    /// How many accesses there were when, and their distances: from the first to the last at about equal distances, if that was asked
    /// for.
    pub growth: Vec<(u64, Histogram)>,
    /// It ended in order: nothing is missing.
    pub is_complete: bool,
}

/// How it went.
#[derive(Debug)]
pub struct Observed {
    /// How the command ended.
    pub status: ExitStatus,
    /// Each program that a process executed, in the order of starting.
    pub programs: Vec<Seen>,
    /// What the observer could not do, a sentence each.
    pub complaints: Vec<String>,
    /// Why the trace ends before the program does.
    pub trace_error: Option<std::io::Error>,
}

/// Runs a command to its end and counts the distances of it and of the processes that it starts. `snapshot` gets what was seen so
/// far whenever this process is sent SIGUSR1. An interrupt ends the command, not the observing.
///
/// # Errors
/// See [`ObserveError`].
pub fn observe(
    command: &[OsString],
    options: &Options,
    mut snapshot: impl FnMut(Vec<Seen>),
) -> Result<Observed, ObserveError> {
    check_block(options.block_bytes)?;
    let (word, arguments) = command.split_first().ok_or_else(|| ObserveError::NotFound(PathBuf::new()))?;
    let program = program::find(Path::new(word))?;
    let folder =
        tempfile::Builder::new().prefix("castell-distances-").tempdir().map_err(ObserveError::Folder)?;
    let pipe = folder.path().join("pipe");
    let (mut receiver, _keeps_open) = make_pipe(&pipe).map_err(ObserveError::Folder)?;
    let signals = Signals::take_over(&[libc::SIGINT, libc::SIGTERM, libc::SIGUSR1])?;
    let mut watch = Watch::new(options)?;
    let mut child = observer::start(&program, arguments, options, folder.path(), &pipe)?;
    let ended = descriptor_of(&child)?;
    let (mut status, mut is_drained) = (None, false);
    loop {
        match status {
            None => wait_readable(&[receiver.as_fd(), signals.as_fd(), ended.as_fd()], LOOK_MS)?,
            // What it started runs on.
            Some(_) if is_drained => wait_readable(&[receiver.as_fd(), signals.as_fd()], LOOK_MS)?,
            Some(_) => Vec::new(),
        };
        while let Some(arrived) = signals.next() {
            match arrived.signal {
                libc::SIGUSR1 => snapshot(watch.seen()),
                // The terminal has told the whole group; others have told this process alone.
                signal if !arrived.from_kernel => pass_on(signal, child.id()),
                _ => {}
            }
        }
        is_drained = !watch.take(&mut receiver)?;
        if status.is_none() {
            status = child.try_wait().map_err(ObserveError::Start)?;
            // It may have written more before it ended.
            is_drained &= status.is_none();
        } else if is_drained && !watch.anybody_runs() {
            break;
        }
    }
    let (programs, complaints) = (watch.seen(), observer::complaints(folder.path()));
    let Some(status) = status else { unreachable!("the loop ends once there is a status") };
    if programs.iter().all(|seen| seen.accesses == 0) && !status.success() {
        let why = complaints.into_iter().next().unwrap_or_else(|| {
            format!(
                "Valgrind ended ({status}) before it began; is there room in {}?",
                std::env::temp_dir().display()
            )
        });
        return Err(ObserveError::Unobserved(why));
    }
    let trace_error = watch.trace.and_then(Trace::finish);
    Ok(Observed { status, programs, complaints, trace_error })
}

/// The reading end, which never blocks, and a writing end that keeps it open while no process writes.
fn make_pipe(path: &Path) -> std::io::Result<(File, File)> {
    use rustix::fs::{Mode, OFlags, open};
    rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR)?;
    let receiver = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let keeps_open = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    // More room for the program while this process counts; as much as there is by default will do, too.
    let _ = rustix::pipe::fcntl_setpipe_size(&receiver, READ_BYTES);
    Ok((File::from(receiver), File::from(keeps_open)))
}

/// Readable when it has ended.
fn descriptor_of(child: &Child) -> Result<OwnedFd, ObserveError> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = Pid::from_child(child);
    pidfd_open(pid, PidfdFlags::empty()).map_err(|error| ObserveError::Start(error.into()))
}

fn pass_on(signal: i32, pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    if let (Some(pid), Some(signal)) = (Pid::from_raw(pid as i32), Signal::from_named_raw(signal)) {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

/// All that is being observed.
struct Watch<'a> {
    options: &'a Options,
    programs: Vec<Watched>,
    /// What each process executes now.
    running: BTreeMap<u32, usize>,
    /// What was read, first what is no whole message yet.
    bytes: Vec<u8>,
    filled: usize,
    trace: Option<Trace>,
}

/// One program that a process executes.
struct Watched {
    seen: Seen,
    exact: StackDistances,
    sampled: Option<Sampled>,
    thread: u64,
    of_threads: BTreeMap<u64, StackDistances>,
    function: u64,
    /// Records whose accesses have not been counted yet.
    recorded: u64,
    names: BTreeMap<u64, String>,
    by_function: BTreeMap<u64, Histogram>,
    growth: Option<Growth>,
}

/// How a histogram grew: states of it, at equal numbers of accesses from each other.
struct Growth {
    states: Vec<(u64, Histogram)>,
    step: u64,
}

/// Accesses between two states, to begin with.
const GROWTH_STEP: u64 = 1 << 16;
/// The most states: of two neighbours the first is dropped when there are more, and steps get twice as long.
const STATES_MAX: usize = 512;

impl Growth {
    fn note(&mut self, accesses: u64, histogram: impl FnOnce() -> Histogram) {
        let last = self.states.last().map_or(0, |(accesses, _)| *accesses);
        if accesses < last + self.step {
            return;
        }
        self.states.push((accesses, histogram()));
        if self.states.len() > STATES_MAX {
            let mut at = 0;
            self.states.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.step *= 2;
        }
    }
}

impl<'a> Watch<'a> {
    fn new(options: &'a Options) -> Result<Watch<'a>, ObserveError> {
        let trace =
            options.trace.as_deref().map(|path| Trace::create(path, options.block_bytes)).transpose()?;
        Ok(Watch {
            options,
            programs: Vec::new(),
            running: BTreeMap::new(),
            bytes: vec![0; READ_BYTES + MESSAGE_BYTES_MAX],
            filled: 0,
            trace,
        })
    }

    /// Takes in what has come; false: there was nothing.
    fn take(&mut self, receiver: &mut File) -> Result<bool, ObserveError> {
        let read = receiver.read(&mut self.bytes[self.filled..]).unwrap_or(0);
        let end = self.filled + read;
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut at = 0;
        while let Some((message, behind)) = stream::split(&bytes[at..end])? {
            self.note(message)?;
            at = end - behind.len();
        }
        bytes.copy_within(at..end, 0);
        (self.bytes, self.filled) = (bytes, end - at);
        Ok(read > 0)
    }

    fn note(&mut self, message: stream::Message<'_>) -> Result<(), ObserveError> {
        let pid = message.pid;
        if let Content::Start { parent, name } = message.content {
            let name = String::from_utf8_lossy(name).into_owned();
            let watched = Watched::new(Seen { pid, parent, name, ..Seen::default() }, self.options)?;
            self.running.insert(pid, self.programs.len());
            self.programs.push(watched);
            return Ok(());
        }
        let Some(at) = self.running.get(&pid) else { return Ok(()) };
        let program = &mut self.programs[*at];
        let before = std::mem::replace(&mut program.seen.accesses, message.accesses);
        match message.content {
            Content::Records(payload) => {
                let repeats = program.count(payload, message.accesses.saturating_sub(before));
                if let Some(trace) = &mut self.trace {
                    trace.note(pid, payload, repeats);
                }
            }
            Content::Function { id, name } => {
                program.names.insert(id, String::from_utf8_lossy(name).into_owned());
            }
            Content::End => {
                let repeats = program.count(&[], message.accesses.saturating_sub(before));
                if let Some(trace) = &mut self.trace {
                    trace.note(pid, &[], repeats);
                }
                program.seen.is_complete = true;
                self.running.remove(&pid);
            }
            Content::Start { .. } => unreachable!("handled above"),
        }
        Ok(())
    }

    /// Whether a process is there that has not said that it ended.
    fn anybody_runs(&mut self) -> bool {
        self.running.retain(|pid, _| Path::new(&format!("/proc/{pid}")).exists());
        !self.running.is_empty()
    }

    fn seen(&self) -> Vec<Seen> {
        self.programs.iter().map(Watched::summary).collect()
    }
}

impl Watched {
    fn new(seen: Seen, options: &Options) -> Result<Watched, ObserveError> {
        let of_threads = BTreeMap::new();
        let mut watched = Watched {
            seen,
            exact: StackDistances::new(),
            sampled: options.sampling()?,
            thread: 0,
            of_threads,
            function: 0,
            recorded: 0,
            names: BTreeMap::new(),
            by_function: BTreeMap::new(),
            growth: options.growth.then(|| Growth { states: Vec::new(), step: GROWTH_STEP }),
        };
        if options.threads {
            // Thread 0 is nobody's: its place says that threads are counted.
            watched.of_threads.insert(0, StackDistances::new());
        }
        Ok(watched)
    }

    /// Records, and accesses that were made up to the last of them; 0 where more records follow before that is told. Accesses
    /// without a record touch the block touched just before, or, of a sample, any other one; says how many.
    fn count(&mut self, payload: &[u8], accesses: u64) -> u64 {
        let mut records = stream::records(payload);
        loop {
            let mut other = None;
            self.touch_all(records.by_ref().map_while(|record| match record {
                Record::Block(block) => Some(block),
                record => {
                    other = Some(record);
                    None
                }
            }));
            match other {
                Some(Record::Thread(thread)) => self.thread = thread,
                Some(Record::Function(function)) => self.function = function,
                Some(Record::Block(_)) | None => break,
            }
        }
        if accesses == 0 {
            return 0;
        }
        let others = accesses.saturating_sub(std::mem::take(&mut self.recorded));
        self.repeat(others);
        if let Some(growth) = &mut self.growth {
            let (sampled, together) = (&self.sampled, &self.seen.together);
            growth.note(self.seen.accesses, || {
                sampled.as_ref().map_or_else(|| together.clone(), Sampled::histogram)
            });
        }
        others
    }

    fn repeat(&mut self, others: u64) {
        match &mut self.sampled {
            Some(sampled) => sampled.pass(others),
            None => {
                self.seen.together.add_weighted(Some(0), others as f64);
                if self.counts_threads() {
                    self.seen.threads.entry(self.thread).or_default().add_weighted(Some(0), others as f64);
                }
            }
        }
    }

    fn counts_threads(&self) -> bool {
        !self.of_threads.is_empty()
    }

    /// Blocks that one thread touches in one function.
    fn touch_all(&mut self, blocks: impl Iterator<Item = u64>) {
        let recorded = &mut self.recorded;
        let mut blocks = blocks.inspect(|_| *recorded += 1).peekable();
        if blocks.peek().is_none() {
            return;
        }
        if let Some(sampled) = &mut self.sampled {
            return blocks.for_each(|block| sampled.access(block));
        }
        let mut of_thread = (!self.of_threads.is_empty()).then(|| {
            let distances = self.of_threads.entry(self.thread).or_default();
            (distances, self.seen.threads.entry(self.thread).or_default())
        });
        let mut of_function = (self.function > 0).then(|| self.by_function.entry(self.function).or_default());
        let together = &mut self.seen.together;
        self.exact.access_all(
            blocks,
            #[inline(always)]
            |block, distance| {
                together.add(distance);
                if let Some((distances, own)) = &mut of_thread {
                    own.add(distances.access(block));
                }
                if let Some(own) = &mut of_function {
                    own.add(distance);
                }
            },
        );
    }

    fn summary(&self) -> Seen {
        let mut seen = self.seen.clone();
        seen.blocks = self.exact.blocks();
        if let Some(sampled) = &self.sampled {
            seen.blocks = sampled.blocks();
            seen.together = sampled.histogram();
            seen.error = Some(sampled.error());
            seen.groups = Some(sampled.groups());
        }
        seen.growth = self.growth.as_ref().map_or_else(Vec::new, |growth| growth.states.clone());
        for (id, histogram) in &self.by_function {
            let name = self.names.get(id).map_or("???", String::as_str);
            seen.functions.entry(name.to_owned()).or_default().merge(histogram);
        }
        seen
    }
}
