//! Where the node's daemon listens, and whether it stands still there.

use crate::KernelsError;
use castell_host::process::Pid;
use std::path::{Path, PathBuf};

/// The environment variable that names the daemon's socket; `none` for no daemon.
pub const VARIABLE: &str = "CASTELL_DAEMON";

/// What the socket is called in its folder.
pub const NAME: &str = "daemon.sock";

/// The daemon's socket for this user, as the environment has it or at the usual place: the user's own, or the node's; none: there shall
/// be no daemon.
///
/// # Errors
/// The usual folder cannot be made, or is not the user's own.
pub fn socket() -> Result<Option<PathBuf>, KernelsError> {
    match std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        Some(named) if named == "none" => Ok(None),
        Some(named) => Ok(Some(named.into())),
        None => Ok(Some(castell_host::find_listener(NAME, NAME)?.0)),
    }
}

/// The process of the daemon at this socket, if it is stopped: by a signal, or by whoever debugs it.
pub fn stopped_daemon(socket: &Path) -> Option<Pid> {
    // A daemon writes its number where it has the lock of its place.
    let written = std::fs::read_to_string(socket.with_extension("lock")).ok()?;
    let pid = Pid::from_raw(written.trim().parse().ok()?)?;
    pid.is_stopped().then_some(pid)
}
