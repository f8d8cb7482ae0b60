//! What can go wrong between an application and its daemon.

use castell_host::HostError;

/// Why kernels cannot be registered or run.
#[derive(Debug, thiserror::Error)]
pub enum KernelsError {
    /// The system says no.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A descriptor that should be a mailbox is something else.
    #[error(
        "the memory that came is no mailbox of this version: use the same castell for the daemon and for its applications"
    )]
    NoMailbox,
    /// Kernels or rankings that are none.
    #[error("{0}")]
    Registration(String),
    /// The collection cannot run.
    #[error(
        "kernels of `{application}` cannot run: they are of no use to whoever decides here now, or there are no steps (castell strategy status shows the node's resources)"
    )]
    Refused {
        /// Whose.
        application: String,
    },
    /// The application is closed.
    #[error("the application `{0}` was closed while a collection of it waited")]
    Closed(String),
}
