//! Mailboxes as files.

use super::words::{UNBOUND, Words, count};
use crate::HostError;
use crate::futex;
use crate::process::Pid;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// Where mailboxes lie, unless somebody says otherwise.
pub const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "castell-cpus.";

/// More workers than any process has: bounds what a file's size is believed to mean.
const WORKERS_MAX: usize = 1 << 16;

/// The mailbox of process `pid` in `folder`.
pub fn default_path(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("{PREFIX}{pid}"))
}

/// Removes the mailboxes in `folder` whose processes are gone: who is killed cannot remove its own. What is no mailbox stays.
fn remove_dead(folder: &Path) {
    for path in found_in(folder).unwrap_or_default() {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        // A process of another process namespace looks as if it were gone: only its lock tells.
        let is_held = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
        if !is_held && matches!(Agent::of(&file, &path), Err(HostError::MailboxLeftBehind { .. })) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The files in `folder` that are called like mailboxes, by name.
///
/// # Errors
/// The folder cannot be read.
pub fn found_in(folder: &Path) -> Result<Vec<PathBuf>, HostError> {
    let what = || format!("look for mailboxes in {}", folder.display());
    let entries = fs::read_dir(folder).map_err(|error| HostError::system(what(), error))?;
    let named = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    let mut found: Vec<PathBuf> = entries.flatten().filter(named).map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}

/// Where a worker runs, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The processor to which it is bound, if it is.
    pub cpu: Option<u32>,
    /// 0: tasks for processors; 1 to 7: for devices of that kind.
    pub kind: u8,
}

/// A worker as its mailbox shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerState {
    /// Where it runs, and what.
    pub place: Place,
    /// Whether it may run.
    pub wanted: bool,
    /// Whether it is given tasks.
    pub enabled: bool,
    /// Whether somebody has taken it away by hand: it does not run, whatever number of workers others ask for.
    pub held: bool,
}

/// A mapped mailbox.
#[derive(Debug)]
struct Memory {
    map: MmapRaw,
}

impl Memory {
    fn map(file: &File, path: &Path) -> Result<Memory, HostError> {
        let map = MmapOptions::new().map_raw(file);
        let map = map.map_err(|error| HostError::system(format!("map {}", path.display()), error))?;
        Ok(Memory { map })
    }

    fn words(&self) -> Words<'_> {
        let count = self.map.len() / size_of::<AtomicU32>();
        // SAFETY: mapped for as long as `self` lives, aligned to a page; atomics may be shared and hold any bits.
        Words::new(unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().cast(), count) })
    }
}

/// This process's own mailbox. Dropping it closes it and removes the file.
#[derive(Debug)]
pub struct Mailbox {
    memory: Memory,
    path: PathBuf,
    /// Locked for as long as the process lives.
    _lock: File,
}

impl Mailbox {
    /// Makes a mailbox for `workers`, all of which run. Those that processes left behind in the same folder are removed.
    ///
    /// # Errors
    /// The file cannot be made, or another runtime that lives has one there.
    pub fn create(path: &Path, workers: &[Place]) -> Result<Mailbox, HostError> {
        let what = || format!("make the CPU mailbox {}", path.display());
        let create = || OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = match create() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if let Ok(agent) = Agent::open(path) {
                    return Err(HostError::MailboxTaken { path: path.into(), pid: agent.owner() });
                }
                // Left behind by a process that is gone, or no mailbox of this version at all.
                fs::remove_file(path).and_then(|()| create())
            }
            made => made,
        };
        let file = file.map_err(|error| HostError::system(what(), error))?;
        // Fails only while another process looks at it, which finds it empty and lets it be.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        path.parent().into_iter().for_each(remove_dead);
        let bytes = count(workers.len()) * size_of::<AtomicU32>();
        file.set_len(bytes as u64).map_err(|error| HostError::system(what(), error))?;
        let mailbox = Mailbox { memory: Memory::map(&file, path)?, path: path.into(), _lock: file };
        let me = std::process::id();
        let table: Vec<(u32, u32)> =
            workers.iter().map(|place| (place.cpu.unwrap_or(UNBOUND), u32::from(place.kind))).collect();
        mailbox.memory.words().begin(me, start_time_of(me).unwrap_or(0), &table);
        Ok(mailbox)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Acts upon everything that others have asked for since the last call: `set` takes a worker away or gives it back and
    /// says whether it did. Returns what [`Mailbox::sleep`] wants.
    pub fn attend(&self, set: impl FnMut(usize, bool) -> bool) -> u32 {
        self.memory.words().attend(set)
    }

    /// Sleeps until somebody asks for something after `attended`, or the mailbox is closed; may return early.
    pub fn sleep(&self, attended: u32) {
        futex::wait(self.memory.words().requests(), attended, u32::MAX, None);
    }

    /// The program itself has taken a worker away or given it back.
    pub fn note(&self, worker: usize, enabled: bool) {
        self.memory.words().note(worker, enabled);
    }

    /// Nobody will answer any more; whoever sleeps in [`Mailbox::sleep`] wakes.
    pub fn close(&self) {
        self.memory.words().close();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.memory.words().is_closed()
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // In a fork's copy it belongs to the parent.
        if self.memory.words().owner().0 == std::process::id() {
            self.close();
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn start_time_of(pid: u32) -> Option<u64> {
    Pid::from_raw(i32::try_from(pid).ok()?)?.start_time()
}

/// Another process's mailbox.
#[derive(Debug)]
pub struct Agent {
    memory: Memory,
    path: PathBuf,
}

impl Agent {
    /// Opens the mailbox at `path`.
    ///
    /// # Errors
    /// There is none, it is not whole, or its process has ended.
    pub fn open(path: &Path) -> Result<Agent, HostError> {
        let what = || format!("open the CPU mailbox {}", path.display());
        let file = OpenOptions::new().read(true).write(true).open(path);
        Agent::of(&file.map_err(|error| HostError::system(what(), error))?, path)
    }

    fn of(file: &File, path: &Path) -> Result<Agent, HostError> {
        let what = || format!("open the CPU mailbox {}", path.display());
        let refuse = |found: String| HostError::NotAMailbox { path: path.into(), found };
        let bytes = file.metadata().map_err(|error| HostError::system(what(), error))?.len();
        if bytes == 0 || bytes > (count(WORKERS_MAX) * size_of::<AtomicU32>()) as u64 {
            return Err(refuse(format!("it has {bytes} bytes")));
        }
        let agent = Agent { memory: Memory::map(file, path)?, path: path.into() };
        if let Some(fault) = agent.memory.words().fault() {
            return Err(refuse(fault));
        }
        let (pid, start_time) = agent.memory.words().owner();
        if start_time_of(pid) != Some(start_time) {
            return Err(HostError::MailboxLeftBehind { path: path.into(), pid });
        }
        Ok(agent)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of its process.
    pub fn owner(&self) -> u32 {
        self.memory.words().owner().0
    }

    /// Its workers.
    pub fn workers(&self) -> Vec<WorkerState> {
        let words = self.memory.words();
        let state = |worker| {
            let (cpu, kind) = words.place(worker);
            WorkerState {
                place: Place { cpu: (cpu != UNBOUND).then_some(cpu), kind: kind as u8 },
                wanted: words.is_wanted(worker),
                enabled: words.is_enabled(worker),
                held: words.is_held(worker),
            }
        };
        (0..words.workers()).map(state).collect()
    }

    /// How often a worker could not be taken away because it was the last of its kind.
    pub fn refusals(&self) -> u32 {
        self.memory.words().refusals()
    }

    /// Asks that `take` be taken away and `give` given back; returns the request's number for [`Agent::wait`].
    ///
    /// # Errors
    /// There is no such worker.
    pub fn ask(&self, take: &[u32], give: &[u32]) -> Result<u32, HostError> {
        self.check(take.iter().chain(give))?;
        let words = self.memory.words();
        // First what is given: so that what is taken need not be refused.
        give.iter().for_each(|&worker| words.want(worker as usize, true));
        take.iter().for_each(|&worker| words.want(worker as usize, false));
        Ok(words.post())
    }

    /// Notes that `take` are taken away by hand and `give` are not any more. Whoever says how many workers may run goes by that
    /// from then on; the program itself is not told.
    ///
    /// # Errors
    /// There is no such worker.
    pub fn hold(&self, take: &[u32], give: &[u32]) -> Result<(), HostError> {
        self.check(take.iter().chain(give))?;
        let words = self.memory.words();
        give.iter().for_each(|&worker| words.hold(worker as usize, false));
        take.iter().for_each(|&worker| words.hold(worker as usize, true));
        Ok(())
    }

    fn check<'n>(&self, mut numbers: impl Iterator<Item = &'n u32>) -> Result<(), HostError> {
        let workers = self.memory.words().workers();
        match numbers.find(|&&worker| worker as usize >= workers) {
            Some(&worker) => Err(HostError::NoSuchWorker { worker, workers }),
            None => Ok(()),
        }
    }

    /// Waits until a request was acted upon.
    ///
    /// # Errors
    /// It was not within `timeout`, or the process has ended.
    pub fn wait(&self, request: u32, timeout: Duration) -> Result<(), HostError> {
        let words = self.memory.words();
        let deadline = Instant::now() + timeout;
        loop {
            let answered = words.answers().load(std::sync::atomic::Ordering::Relaxed);
            if words.is_answered(request) {
                return Ok(());
            }
            let (pid, start_time) = words.owner();
            let left = deadline.saturating_duration_since(Instant::now());
            if words.is_closed() || start_time_of(pid) != Some(start_time) || left.is_zero() {
                return Err(HostError::NoAnswer { pid, path: self.path.clone() });
            }
            // Not for ever: a process that is killed wakes nobody.
            futex::wait(words.answers(), answered, u32::MAX, Some(left.min(Duration::from_millis(100))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: u32) -> Vec<Place> {
        (0..count).map(|cpu| Place { cpu: (cpu > 0).then_some(cpu), kind: u8::from(cpu == 2) }).collect()
    }

    /// Ends who reads it, also when a test fails.
    struct Closes<'a>(&'a Mailbox);

    impl Drop for Closes<'_> {
        fn drop(&mut self) {
            self.0.close();
        }
    }

    #[test]
    fn an_agent_asks_and_is_answered() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = default_path(folder.path(), std::process::id());
        let mailbox = Mailbox::create(&path, &places(3)).expect("a mailbox");
        let agent = Agent::open(&path).expect("opens");
        assert_eq!(agent.workers().iter().map(|state| state.place).collect::<Vec<_>>(), places(3));
        std::thread::scope(|scope| {
            let _closes = Closes(&mailbox);
            scope.spawn(|| {
                while !mailbox.is_closed() {
                    let attended = mailbox.attend(|worker, wanted| wanted || worker != 0);
                    mailbox.sleep(attended);
                }
            });
            let request = agent.ask(&[0, 1], &[2]).expect("there are such workers");
            agent.wait(request, Duration::from_secs(60)).expect("an answer");
            let enabled: Vec<bool> = agent.workers().iter().map(|state| state.enabled).collect();
            assert_eq!((enabled, agent.refusals()), (vec![true, false, true], 1));
            assert!(agent.workers()[0].wanted, "refused");
            let error = agent.ask(&[3], &[]).expect_err("three workers").to_string();
            assert!(error.contains("0 to 2"), "{error}");
            agent.hold(&[2], &[1]).expect("there are such workers");
            let held: Vec<bool> = agent.workers().iter().map(|state| state.held).collect();
            assert_eq!(
                (held, agent.workers()[2].enabled),
                (vec![false, false, true], true),
                "noted, no more"
            );
            assert!(agent.hold(&[0], &[3]).is_err() && !agent.workers()[0].held, "all or nothing");
        });
        let request = agent.ask(&[1], &[]).expect("there is such a worker");
        let error = agent.wait(request, Duration::from_secs(60)).expect_err("closed").to_string();
        assert!(error.contains("no answer"), "{error}");
        drop(mailbox);
        assert!(!path.exists() && Agent::open(&path).is_err());
    }

    #[test]
    fn mailboxes_of_processes_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [killed, elsewhere, torn, mine] = [1, 2, 3, 4].map(|pid| default_path(folder.path(), pid));
        let left_behind = |path: &Path| {
            let mailbox = Mailbox::create(path, &places(1)).expect("a mailbox");
            mailbox.memory.words().begin(1 << 30, 5, &[(0, 0)]);
            mailbox
        };
        drop(left_behind(&killed));
        let lives = left_behind(&elsewhere);
        fs::write(&torn, b"no mailbox").expect("a file");
        let own = Mailbox::create(&mine, &places(1)).expect("a mailbox");
        assert_eq!(
            found_in(folder.path()).expect("a folder"),
            [elsewhere, torn, mine.clone()],
            "locked, or no mailbox"
        );
        assert!(Agent::open(&mine).is_ok());
        drop((lives, own));
    }

    #[test]
    fn one_mailbox_a_path_and_what_is_stale_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = default_path(folder.path(), 1);
        fs::write(&path, b"left behind").expect("a file");
        assert!(Agent::open(&path).expect_err("no mailbox").to_string().contains("not a CPU mailbox"));
        let first = Mailbox::create(&path, &places(1)).expect("replaces it");
        let error = Mailbox::create(&path, &places(1)).expect_err("taken").to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        assert_eq!(found_in(folder.path()).expect("a folder"), std::slice::from_ref(&path));
        // As after a crash of another process.
        let words = first.memory.words();
        words.begin(1 << 30, 5, &[(0, 0)]);
        assert!(Agent::open(&path).expect_err("stale").to_string().contains("is gone"));
        let second = Mailbox::create(&path, &places(1)).expect("replaces it");
        drop(first); // not its own any more: it stays
        assert!(Agent::open(second.path()).is_ok());
    }
}
