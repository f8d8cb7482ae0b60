//! Where an agent listens: a socket per user and allocation, in a folder that only the user may enter.

use crate::AgentError;
use std::path::PathBuf;

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

    /// The usual place: of the batch job that this process is in, or else of the host.
    ///
    /// # Errors
    /// The folder cannot be made, or is not the user's own.
    pub fn usual() -> Result<Place, AgentError> {
        let folder = castell_host::runtime_folder()?;
        let job = std::env::var("SLURM_JOB_ID")
            .ok()
            .filter(|job| job.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let name = job.map_or("host".to_owned(), |job| format!("slurm-{job}"));
        Ok(Place { socket: folder.join(format!("sessions-{name}.sock")), named: false })
    }

    /// Held by the agent as long as it lives.
    pub(crate) fn lock(&self) -> PathBuf {
        self.socket.with_extension("lock")
    }

    /// What the agent writes.
    pub fn log(&self) -> PathBuf {
        self.socket.with_extension("log")
    }
}
