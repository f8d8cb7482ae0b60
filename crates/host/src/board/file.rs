//! Boards as files.

use super::words::{Header, MAGIC, MEMBERS_MAX, Member, SLOTS_MAX, Slot, VERSION, Words, holder, is_wanted};
use crate::HostError;
use crate::clock::now_ns;
use crate::descriptor::own_user;
use crate::mailbox::FOLDER;
use crate::process::{Pid, Process};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// For how long somebody waits for the board's lock, which is held for microseconds: a program may be stopped just then.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Where this user's programs find each other's board, unless somebody says otherwise.
pub fn default_path() -> PathBuf {
    Path::new(FOLDER).join(format!("castell-board.{}", own_user()))
}

/// A board, mapped.
#[derive(Debug)]
pub struct Board {
    map: MmapRaw,
    slots: usize,
    path: PathBuf,
}

/// A processor as the board shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lending {
    /// Its number.
    pub cpu: u32,
    /// The process that has the right to it.
    pub right: Option<u32>,
    /// The process that has it: one of its workers runs there, or is about to.
    pub holder: Option<u32>,
    /// For how long, in nanoseconds.
    pub held_ns: u64,
    /// Whether who has the right wants it back.
    pub is_wanted: bool,
    /// How often others took it than the one that had the right.
    pub lent: u64,
    /// How often it was given back since it was wanted.
    pub returned: u64,
    /// How often it was taken from a thread in the middle of a task: it slept or was stopped, or a rank has it back at once.
    pub seized: u64,
}

/// A program as the board shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its process.
    pub pid: u32,
    /// How many workers it has.
    pub workers: u32,
    /// How many processors it has the right to.
    pub rights: usize,
    /// How many it has.
    pub held: usize,
    /// Whether it has work for more.
    pub is_hungry: bool,
}

fn bytes(slots: usize) -> usize {
    size_of::<Header>() + MEMBERS_MAX * size_of::<Member>() + slots * size_of::<Slot>()
}

impl Board {
    /// Opens the board at `path`, or makes it for as many processors as the machine may have.
    ///
    /// # Errors
    /// It cannot be made, or is somebody else's or something else.
    pub(super) fn open_or_make(path: &Path) -> Result<Board, HostError> {
        let what = || format!("open the board of processors {}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(|error| HostError::system(what(), error))?;
        let again = file.try_clone().map_err(|error| HostError::system(what(), error))?;
        let _lock = lock(again, path, true)?;
        if file.metadata().map_err(|error| HostError::system(what(), error))?.len() == 0 {
            let slots = configured_processors();
            file.set_len(bytes(slots) as u64).map_err(|error| HostError::system(what(), error))?;
            let board = Board::map(&file, path, slots)?;
            let header = board.words().header;
            header.version.store(VERSION, Ordering::Relaxed);
            header.slots.store(slots as u32, Ordering::Relaxed);
            header.magic.store(MAGIC, Ordering::Release);
            return Ok(board);
        }
        Board::of(&file, path)
    }

    /// Opens the board at `path`, if there is one.
    ///
    /// # Errors
    /// It is somebody else's or something else.
    pub fn open(path: &Path) -> Result<Option<Board>, HostError> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path);
        match file {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(HostError::system(format!("open the board of processors {}", path.display()), error))
            }
            Ok(file) => Board::of(&file, path).map(Some),
        }
    }

    fn of(file: &File, path: &Path) -> Result<Board, HostError> {
        let refuse = |found: &str| HostError::NotABoard { path: path.into(), found: found.into() };
        let about = file
            .metadata()
            .map_err(|error| HostError::system(format!("look at {}", path.display()), error))?;
        if about.uid() != own_user() || about.mode() & 0o077 != 0 || !about.is_file() {
            return Err(refuse("it is somebody else's, or others may open it"));
        }
        let slots = (about.len() as usize).saturating_sub(bytes(0)) / size_of::<Slot>();
        if slots == 0 || slots > SLOTS_MAX || bytes(slots) as u64 != about.len() {
            return Err(refuse("its size is that of no board"));
        }
        let board = Board::map(file, path, slots)?;
        let header = board.words().header;
        let is_whole = header.magic.load(Ordering::Acquire) == MAGIC
            && header.version.load(Ordering::Relaxed) == VERSION
            && header.slots.load(Ordering::Relaxed) as usize == slots;
        if is_whole { Ok(board) } else { Err(refuse("it is of another version, or no board")) }
    }

    fn map(file: &File, path: &Path, slots: usize) -> Result<Board, HostError> {
        let map = MmapOptions::new().len(bytes(slots)).map_raw(file);
        let map = map.map_err(|error| HostError::system(format!("map {}", path.display()), error))?;
        Ok(Board { map, slots, path: path.into() })
    }

    pub(super) fn words(&self) -> Words<'_> {
        let start = self.map.as_mut_ptr();
        // SAFETY: mapped for as long as `self` lives, as many bytes as `bytes` says; aligned to a page, and each part's size is a multiple of
        // its alignment. All fields are atomics, which may be shared and hold any bits.
        unsafe {
            let members = start.add(size_of::<Header>());
            let slots = members.add(MEMBERS_MAX * size_of::<Member>());
            Words {
                header: &*start.cast(),
                members: std::slice::from_raw_parts(members.cast(), MEMBERS_MAX),
                slots: std::slice::from_raw_parts(slots.cast(), self.slots),
            }
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Holds the board's lock, as long as the guard lives.
    ///
    /// # Errors
    /// Somebody else holds it, for too long if this `waits`.
    pub(super) fn lock(&self, waits: bool) -> Result<Lock, HostError> {
        // A file of its own: a child that is forked meanwhile must not hold it.
        let file = OpenOptions::new().read(true).write(true).open(&self.path);
        let file = file.map_err(|error| HostError::system(format!("open {}", self.path.display()), error))?;
        lock(file, &self.path, waits)
    }

    /// The programs on it that live, by when they came.
    pub fn programs(&self) -> Vec<Program> {
        let words = self.words();
        let pid_of = |member: usize| words.members[member].pid.load(Ordering::Acquire);
        let mut there: Vec<usize> = (0..MEMBERS_MAX).filter(|&member| self.lives(member)).collect();
        there.sort_by_key(|&member| words.members[member].number.load(Ordering::Relaxed));
        let lendings = self.lendings();
        let program = |member: usize| Program {
            pid: pid_of(member),
            workers: words.members[member].workers.load(Ordering::Relaxed),
            rights: lendings.iter().filter(|lending| lending.right == Some(pid_of(member))).count(),
            held: lendings.iter().filter(|lending| lending.holder == Some(pid_of(member))).count(),
            is_hungry: words.hungry() & 1 << member != 0,
        };
        there.into_iter().map(program).collect()
    }

    /// The processors.
    pub fn lendings(&self) -> Vec<Lending> {
        let (words, now) = (self.words(), now_ns());
        let pid_of = |member: Option<usize>| {
            member
                .filter(|&member| member < MEMBERS_MAX && self.lives(member))
                .map(|member| words.members[member].pid.load(Ordering::Acquire))
        };
        let lending = |(cpu, slot): (usize, &Slot)| {
            let state = slot.state.load(Ordering::Acquire);
            Lending {
                cpu: cpu as u32,
                right: pid_of(slot.right()),
                holder: pid_of(holder(state)),
                held_ns: now.saturating_sub(slot.since_ns.load(Ordering::Relaxed)),
                is_wanted: is_wanted(state),
                lent: slot.lent.load(Ordering::Relaxed),
                returned: slot.returned.load(Ordering::Relaxed),
                seized: slot.seized.load(Ordering::Relaxed),
            }
        };
        words.slots.iter().enumerate().map(lending).collect()
    }

    /// Whether the member's process is there and has not ended.
    pub(super) fn lives(&self, member: usize) -> bool {
        let member = &self.words().members[member];
        let pid = member.pid.load(Ordering::Acquire);
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
        // First the descriptor: it stays with the process that has the number now.
        let Ok(process) = Process::open(pid) else { return false };
        let start_time = member.start_time.load(Ordering::Relaxed);
        // Of one whose first thread has ended while others run, it is not known.
        pid.start_time().is_none_or(|started| started == start_time) && !process.has_ended()
    }
}

/// Held as long as it lives.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Explicitly: a child that was forked meanwhile has the file, too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

fn lock(file: File, path: &Path, waits: bool) -> Result<Lock, HostError> {
    let since = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lock(file)),
            Err(_) if waits && since.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(Duration::from_millis(1))
            }
            Err(error) => {
                let what = format!("lock {}, which a program holds that may be stopped", path.display());
                return Err(HostError::system(what, error));
            }
        }
    }
}

/// As many as there may ever be, those that are off included.
fn configured_processors() -> usize {
    // SAFETY: asks for a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(count).unwrap_or(1).clamp(1, SLOTS_MAX)
}
