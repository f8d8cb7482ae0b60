//! What can go wrong when this room asks something of the system.

use std::io;
use std::path::PathBuf;

/// A request that the system refused.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was wanted, as it continues "cannot …".
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Shared memory counts as a file, and files may not be so large here.
    #[error(
        "{bytes} bytes of shared memory are more than a file may have here: raise the limit (ulimit -f), or lift it"
    )]
    FileLimit {
        /// How many were asked for.
        bytes: usize,
    },
    /// A descriptor that should be a job's memory is something else.
    #[error(
        "descriptor {descriptor} is not a sealed shared memory segment ({found}); it must come from a castell launcher"
    )]
    NotASegment {
        /// The descriptor's number.
        descriptor: i32,
        /// What is wrong with it.
        found: String,
    },
    /// A folder for sockets that others could write into.
    #[error("{path} belongs to somebody else, or others may write into it: remove it, or set XDG_RUNTIME_DIR to a folder of yours", path = path.display())]
    UnsafeFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A list of processors such as `0,2,4-7` could not be read.
    #[error("`{list}` is not a list of processors: {found}; write numbers and ranges such as 0,2,4-7")]
    BadCpuList {
        /// The text.
        list: String,
        /// What is wrong with it.
        found: String,
    },
    /// A processor was named that this process may not use.
    #[error("processor {cpu} may not be used here; usable are {usable}")]
    CpuNotUsable {
        /// The processor.
        cpu: u32,
        /// The list of those that may be used.
        usable: String,
    },
    /// The last-level cache cannot be divided.
    #[error("there is no resctrl here to divide the cache by: {why}")]
    NoResctrl {
        /// What is missing.
        why: String,
    },
    /// Ways of a cache that cannot be had together.
    #[error("these ways of the cache cannot be had: {found}; it has {ways}, from 0 on")]
    BadWays {
        /// What is wrong with them.
        found: String,
        /// How many there are.
        ways: u32,
    },
    /// A CPU mailbox that nobody reads any more.
    #[error("{path} is not a CPU mailbox that somebody reads: its process {pid} is gone", path = path.display())]
    MailboxLeftBehind {
        /// The file.
        path: PathBuf,
        /// Whose it was.
        pid: u32,
    },
    /// A file that should be a CPU mailbox is something else.
    #[error("{path} is not a CPU mailbox that somebody reads: {found}", path = path.display())]
    NotAMailbox {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// A runtime that lives has its mailbox there already.
    #[error("{path} is the CPU mailbox of process {pid}: give each runtime a path of its own", path = path.display())]
    MailboxTaken {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        pid: u32,
    },
    /// A file that should be a board of processors is something else, or has no room.
    #[error("{path} is no board of processors for this program: {found}; put another path into CASTELL_SHARE", path = path.display())]
    NotABoard {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// A worker was named that there is not.
    #[error("there is no worker {worker}: they are numbered from 0 to {}", workers.saturating_sub(1))]
    NoSuchWorker {
        /// The number.
        worker: u32,
        /// How many there are.
        workers: usize,
    },
    /// A request was not acted upon in time.
    #[error("no answer from process {pid} to what was put into {path}: it is stopped, has ended, or needs longer", path = path.display())]
    NoAnswer {
        /// The process.
        pid: u32,
        /// Its mailbox.
        path: PathBuf,
    },
}

impl HostError {
    /// The last system call's error, with what was wanted from it.
    pub(crate) fn last(what: impl Into<String>) -> HostError {
        HostError::System { what: what.into(), source: io::Error::last_os_error() }
    }

    /// Wraps a system error with what was wanted.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> HostError {
        HostError::System { what: what.into(), source: source.into() }
    }

    /// The system's error number, where there is one.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            HostError::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
