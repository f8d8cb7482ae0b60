//! What can go wrong with a daemon.

use castell_host::HostError;
use castell_policy::session::protocol::ProtocolError;
use castell_strategy::{Fault, NodeError};
use std::io;
use std::path::PathBuf;

/// A daemon that cannot serve, or that cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// There is one.
    #[error("there is a daemon at {path} already (process {pid}): castell strategy status shows what it does", path = path.display())]
    Taken {
        /// Its socket.
        path: PathBuf,
        /// Its process.
        pid: String,
    },
    /// There is none.
    #[error("no daemon listens at {path}: start one with `castell daemon`, or name its socket with --socket", path = path.display())]
    None {
        /// The socket.
        path: PathBuf,
    },
    /// The daemon says no.
    #[error("{0}")]
    Refused(String),
    /// It went away, or did not answer.
    #[error("the daemon at {path} has not answered: {found}", path = path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// What came instead.
        found: String,
    },
    /// A strategy that is none.
    #[error(transparent)]
    Strategy(#[from] Fault),
    /// Resources that are none.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Other words than the protocol's.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The system refused something.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl DaemonError {
    /// Wraps an answer of the system.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> DaemonError {
        let what = what.into();
        move |error| DaemonError::Host(HostError::System { what, source: error.into() })
    }
}
