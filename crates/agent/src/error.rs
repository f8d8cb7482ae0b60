//! What can go wrong between runners and agents.

use castell_host::HostError;
use castell_policy::session::protocol::ProtocolError;
use std::io;
use std::path::PathBuf;

/// A session that cannot be run, or an agent that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nobody listens, and nobody who was started does.
    #[error("no agent answers at {path}: {source}; see {log} for what it said", path = path.display(), log = log.display())]
    NoAgent {
        /// The socket.
        path: PathBuf,
        /// What agents write.
        log: PathBuf,
        /// The last attempt.
        source: io::Error,
    },
    /// Nobody listens, and there is nothing to steer.
    #[error("there are no sessions here: no agent listens at {path} (`castell session run` starts one; --socket names another)", path = path.display())]
    NoSessions {
        /// The socket.
        path: PathBuf,
    },
    /// Nobody listens, and those that there are wait for somebody.
    #[error("no agent listens at {path}, and the sessions that there are look for one: {sessions} (each goes on by itself meanwhile, and belongs to the next one that comes: `castell session run` starts one)", path = path.display())]
    Between {
        /// The socket.
        path: PathBuf,
        /// How many.
        sessions: usize,
    },
    /// Somebody else's.
    #[error("the agent at {path} is another user's: only its user steers its sessions, or sees them", path = path.display())]
    NotYours {
        /// The socket.
        path: PathBuf,
    },
    /// The agent will not have it.
    #[error("{0}")]
    Refused(String),
    /// The agent went away while the session waited.
    #[error("the agent went away while the session waited: start it again")]
    Gone,
    /// A node of the allocation.
    #[error("node {node}: {why}; what it said is in the agent's log")]
    Node {
        /// Its name.
        node: String,
        /// As it continues the name.
        why: String,
    },
    /// The node of the agent, from another one.
    #[error(
        "no agent answers on node {node}: `{command}` did not start castell there, or castell found none (what they say stands above)"
    )]
    Unreached {
        /// Its name.
        node: String,
        /// What was to start castell on it.
        command: String,
    },
    /// Keepers that found nothing.
    #[error("there is a node without a processor for sessions")]
    NoProcessors,
    /// Other words than the protocol's.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The system refused something.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The same, with what it was for.
    #[error("cannot {what}: {source}")]
    System {
        /// As it continues "cannot …".
        what: String,
        /// The answer.
        source: io::Error,
    },
}

impl AgentError {
    /// Wraps an answer of the system.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> AgentError {
        let what = what.into();
        move |source| AgentError::System { what, source }
    }
}
