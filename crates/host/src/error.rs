//! What can go wrong when this room asks something of the system.

use std::io;

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
