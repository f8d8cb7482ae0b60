//! What is found of a group, by which variables, and why none is found.

use castell_base::Rank;
use castell_shm::job::Job;
use std::fmt;
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

/// Environment variable that says what carries messages between ranks of other launchers, as `castell launch --net` does.
pub const NET_VARIABLE: &str = "CASTELL_NET";

/// A process's place in its group.
#[derive(Debug)]
pub struct Membership<'a> {
    /// This process's rank.
    pub rank: Rank,
    /// The job's segment, or that of this host.
    pub segment: OwnedFd,
    /// Whether castell's launcher watches the ranks. Else the ranks look after each other, see [`Watch`](castell_shm::watch::Watch).
    pub is_supervised: bool,
    /// Whether the ranks can see each other's processes by number (they share a PID namespace): without it, [`Watch`](castell_shm::watch::Watch)
    /// must not be used.
    pub processes_visible: bool,
    /// Where some ranks are on other hosts and nobody else tells them where this one is found.
    pub introduction: Option<Introduction<'a>>,
}

type Meet<'a> = Box<dyn FnOnce(Result<&Job, &BootstrapError>) -> Result<(), BootstrapError> + 'a>;

/// What is left to be done when a rank has joined the job of its host and listens.
pub struct Introduction<'a>(Meet<'a>);

impl<'a> Introduction<'a> {
    pub(super) fn new(
        meet: impl FnOnce(Result<&Job, &BootstrapError>) -> Result<(), BootstrapError> + 'a,
    ) -> Introduction<'a> {
        Introduction(Box::new(meet))
    }

    /// Tells the ranks of other hosts where this rank is found, as its job says, or why it did not join, and hears where they are. All ranks
    /// have to call it.
    ///
    /// # Errors
    /// Some rank did not join, which all of them are told alike; the launcher's service failed, or somebody told nonsense.
    pub fn meet(self, joined: Result<&Job, &BootstrapError>) -> Result<(), BootstrapError> {
        (self.0)(joined)
    }
}

impl fmt::Debug for Introduction<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Introduction(..)")
    }
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
    /// A function by which the program tells its group failed or said what cannot be.
    #[error("the program's own {function}, by which castell finds its group, cannot be used: {why}")]
    HostFunction {
        /// Which of its functions.
        function: &'static str,
        /// What it said.
        why: String,
    },
    /// The group was found but cannot work together.
    #[error("the group cannot be formed: {0}")]
    Group(String),
}
