//! How a process finds the group that it was started in, and the memory that the group shares.
//!
//! | started by | found through |
//! |---|---|
//! | `castell launch`, `castell run` | the job's descriptor, inherited, and `CASTELL_RANK` |
//! | MPICH's `mpiexec` and other PMI-1 launchers | the wire protocol over `PMI_FD` |
//! | `srun --mpi=pmi2` | the PMI-2 wire protocol over `PMI_FD` |
//! | Open MPI's `mpirun`, `srun --mpi=pmix` | `libpmix.so.2`, loaded when it is needed |
//! | nobody | a group of one |
//!
//! Where a launcher left signs of a group that cannot be found, [`join`] fails: a program never falls apart into many
//! groups of one. With a launcher other than ours, rank 0 makes the segment and the others open it; `README.md` has
//! the steps. All ranks have to be on one host.

mod exchange;
mod handover;
mod keyvalue;
mod pmi1;
mod pmi2;
mod pmix;
mod signs;
mod watch;
mod wire;

pub use watch::Watch;

use castell_base::Rank;
use signs::Plan;
use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;

/// Environment variable with the number of the job segment's descriptor, set by castell's launcher.
pub const JOB_FD_VARIABLE: &str = "CASTELL_JOB_FD";
/// Environment variable with the process's rank, set by castell's launcher.
pub const RANK_VARIABLE: &str = "CASTELL_RANK";
/// Environment variable that makes a process a group of one, whatever launcher it sees.
pub const ALONE_VARIABLE: &str = "CASTELL_ALONE";
/// Environment variable with the PMIx library's path, where the loader does not find it.
pub const LIBPMIX_VARIABLE: &str = "CASTELL_LIBPMIX";

/// A process's place in its group.
#[derive(Debug)]
pub struct Membership {
    /// This process's rank.
    pub rank: Rank,
    /// The job's segment.
    pub segment: OwnedFd,
    /// Whether castell's launcher watches the ranks. Else the ranks look after each other, see [`Watch`].
    pub is_supervised: bool,
    /// Whether the ranks can see each other's processes by number (they share a PID namespace): without it, [`Watch`]
    /// must not be used.
    pub processes_visible: bool,
}

/// Why a process did not find its group.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// There are signs of a launcher, but no way to reach the group.
    #[error(
        "this process was started as one of a group ({sign}), but cannot find the group: {why}; {advice}"
    )]
    Lost {
        /// What gave the launcher away.
        sign: String,
        /// What is missing.
        why: String,
        /// What to do.
        advice: String,
    },
    /// What castell's own launcher left in the environment is unusable.
    #[error(
        "{JOB_FD_VARIABLE} and {RANK_VARIABLE} are set, but {found}; programs get them from `castell launch`, and one \
         that is started by a rank does not belong to the job: unset both for it"
    )]
    Inherited {
        /// What is wrong.
        found: String,
    },
    /// The launcher's side of a protocol ended or failed.
    #[error("the launcher's {protocol} connection failed at `{request}`: {source}")]
    Connection {
        /// Which protocol.
        protocol: &'static str,
        /// What was asked.
        request: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The launcher answered something else than the protocol says.
    #[error("the launcher's {protocol} service refused or misunderstood `{request}`: it said `{answer}`")]
    Protocol {
        /// Which protocol.
        protocol: &'static str,
        /// What was asked.
        request: String,
        /// The answer.
        answer: String,
    },
    /// A value does not fit into the launcher's key-value space.
    #[error("the launcher's key-value space takes values of {limit} bytes, and {bytes} are needed")]
    TooLong {
        /// What is needed.
        bytes: usize,
        /// What it takes.
        limit: usize,
    },
    /// The group was found but cannot work together.
    #[error("the group cannot be formed: {0}")]
    Group(String),
}

/// Finds this process's group and the segment that it shares.
///
/// `create` makes the segment for that many ranks; it is called in rank 0 only, and only where castell's launcher has
/// not made it already. With a launcher other than castell's, all ranks have to call this, and either all of them
/// succeed or all fail.
///
/// # Errors
/// See [`BootstrapError`]: each names what to do.
pub fn join<E: Display>(
    create: impl FnOnce(u32) -> Result<OwnedFd, E>,
) -> Result<Membership, BootstrapError> {
    let create = |ranks| create(ranks).map_err(|error| error.to_string());
    let lookup = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match signs::plan(&lookup)? {
        Plan::Alone => alone(create),
        Plan::Launcher { descriptor, rank } => {
            let segment = handover::duplicate_inherited(descriptor)?;
            Ok(Membership { rank, segment, is_supervised: true, processes_visible: true })
        }
        Plan::Pmi1(place) => exchange::form(pmi1::Pmi1::open(place)?, create),
        Plan::Pmi2(place) => exchange::form(pmi2::Pmi2::open(place)?, create),
        Plan::Pmix => exchange::form(pmix::Pmix::open(lookup(LIBPMIX_VARIABLE))?, create),
    }
}

fn alone(create: impl FnOnce(u32) -> Result<OwnedFd, String>) -> Result<Membership, BootstrapError> {
    let segment = create(1).map_err(BootstrapError::Group)?;
    Ok(Membership { rank: Rank(0), segment, is_supervised: false, processes_visible: true })
}
