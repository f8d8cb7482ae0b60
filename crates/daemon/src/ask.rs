//! Asks a daemon, and tells it what to do.

use crate::DaemonError;
use castell_kernels::protocol::{FromDaemon, ToDaemon, VERSION};
use castell_kernels::stopped_daemon;
use castell_policy::session::protocol::{Lines, decode, encode};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A daemon that has not answered by then is none.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked meanwhile whether it is stopped.
const LOOK: Duration = Duration::from_secs(2);

/// Sends one message to the daemon at this socket: its answer.
///
/// # Errors
/// No daemon listens there, it says no, or it does not answer.
pub fn ask(socket: &Path, message: &ToDaemon) -> Result<FromDaemon, DaemonError> {
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => DaemonError::None { path: socket.into() },
        _ => DaemonError::system(format!("ask the daemon at {}", socket.display()))(error),
    })?;
    let silent = |found: String| DaemonError::Silent { path: socket.into(), found };
    let mut bytes = encode(&ToDaemon::Hello { version: VERSION });
    bytes.extend(encode(message));
    let asked = stream.set_read_timeout(Some(LOOK)).and_then(|()| stream.write_all(&bytes));
    // One that has closed the connection may have said why.
    asked.or_else(|error| match error.kind() {
        ErrorKind::BrokenPipe => Ok(()),
        _ => Err(silent(error.to_string())),
    })?;
    let mut lines = Lines::default();
    let (mut greeted, begun) = (false, Instant::now());
    loop {
        while let Some(line) = lines.next_line() {
            match decode(&line)? {
                FromDaemon::Hello { version: VERSION } if !greeted => greeted = true,
                FromDaemon::Refused { reason } | FromDaemon::Done { refused: Some(reason) } => {
                    return Err(DaemonError::Refused(reason));
                }
                answer if greeted => return Ok(answer),
                other => return Err(silent(format!("it said {other:?}"))),
            }
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) => return Err(silent("it closed the connection".into())),
            Ok(count) => lines.push(&bytes[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < PATIENCE => {
                if let Some(pid) = stopped_daemon(socket) {
                    return Err(silent(format!("it stands still (kill -CONT {pid} has it go on)")));
                }
            }
            Err(error) => return Err(silent(error.to_string())),
        }
    }
}
