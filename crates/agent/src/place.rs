//! Where an agent listens: a socket per user and allocation, in a folder that only the user may enter.

use crate::AgentError;
use castell_host::NODE_FOLDER;
use castell_host::descriptor::own_user;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The socket for all users of a node.
const NODE_NAME: &str = "sessions.sock";

/// The files of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The socket; lock and log lie beside it.
    pub socket: PathBuf,
    /// Somebody has named it; on other nodes, too, it is not the usual one.
    pub named: bool,
}

impl Place {
    /// With this socket.
    pub fn at(socket: impl Into<PathBuf>) -> Place {
        Place { socket: socket.into(), named: true }
    }

    /// The options that name it to another castell.
    pub fn options(&self) -> Vec<String> {
        match self.named {
            true => vec!["--socket".into(), self.socket.display().to_string()],
            false => Vec::new(),
        }
    }

    /// Where the daemon for all users of a node keeps their sessions.
    pub fn of_node() -> Place {
        Place::at(Path::new(NODE_FOLDER).join(NODE_NAME))
    }

    /// The usual place: of the batch job that this process is in, or else of the host, or of all users of the node.
    ///
    /// # Errors
    /// The folder cannot be made, or is not the user's own.
    pub fn usual() -> Result<Place, AgentError> {
        let job = std::env::var("SLURM_JOB_ID")
            .ok()
            .filter(|job| job.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let Some(job) = job else {
            let (socket, named) = castell_host::find_listener("sessions-host.sock", NODE_NAME)?;
            return Ok(Place { socket, named });
        };
        let socket = castell_host::runtime_folder()?.join(format!("sessions-slurm-{job}.sock"));
        Ok(Place { socket, named: false })
    }

    /// Whether this user may start an agent there: not where another user's daemon keeps sessions.
    pub(crate) fn is_own(&self) -> bool {
        let folder = self.socket.parent().and_then(|folder| folder.metadata().ok());
        folder.is_some_and(|folder| folder.uid() == own_user())
    }

    /// Held by the agent as long as it lives.
    pub(crate) fn lock(&self) -> PathBuf {
        self.socket.with_extension("lock")
    }

    /// What the next agent needs.
    pub(crate) fn books(&self) -> PathBuf {
        self.socket.with_extension("books")
    }

    /// What the agent writes.
    pub fn log(&self) -> PathBuf {
        self.socket.with_extension("log")
    }
}
