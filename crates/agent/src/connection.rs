//! A runner's end of the connection.

use crate::{AgentError, Place};
use castell_policy::session::protocol::{FromAgent, Lines, ToAgent, VERSION, check_version, decode, encode};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// How long an agent that was just started may take to listen.
const STARTING: Duration = Duration::from_secs(10);

pub(crate) struct Connection {
    stream: UnixStream,
    lines: Lines,
}

impl Connection {
    /// Connects, with `start` where nobody listens.
    pub(crate) fn open(
        place: &Place,
        start: &dyn Fn() -> std::io::Result<()>,
    ) -> Result<Connection, AgentError> {
        let begun = Instant::now();
        let mut asked = false;
        let stream = loop {
            match UnixStream::connect(&place.socket) {
                Ok(stream) => break stream,
                Err(source) if begun.elapsed() > STARTING => {
                    return Err(AgentError::NoAgent { path: place.socket.clone(), log: place.log(), source });
                }
                Err(_) if !asked => {
                    start().map_err(AgentError::system("start the agent"))?;
                    asked = true;
                }
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        };
        Connection::greet(stream)
    }

    fn greet(stream: UnixStream) -> Result<Connection, AgentError> {
        let mut connection = Connection { stream, lines: Lines::default() };
        connection.send(&ToAgent::Hello { version: VERSION })?;
        match connection.wait()? {
            FromAgent::Hello { version } => check_version(version)?,
            FromAgent::Refused { reason } => return Err(AgentError::Refused(reason)),
            _ => return Err(AgentError::Gone),
        }
        Ok(connection)
    }

    pub(crate) fn send(&mut self, message: &ToAgent) -> Result<(), AgentError> {
        self.stream.write_all(&encode(message)).map_err(|_| AgentError::Gone)
    }

    /// The next message, however long that takes.
    pub(crate) fn wait(&mut self) -> Result<FromAgent, AgentError> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(decode(&line)?);
            }
            self.fill()?;
        }
    }

    /// The next message that has come whole, after there was something to read.
    pub(crate) fn next(&mut self) -> Result<Option<FromAgent>, AgentError> {
        Ok(self.lines.next_line().map(|line| decode(&line)).transpose()?)
    }

    /// Reads once.
    pub(crate) fn fill(&mut self) -> Result<(), AgentError> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(AgentError::Gone),
            Ok(count) => Ok(self.lines.push(&bytes[..count])?),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(AgentError::Gone),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// All sessions of an agent; none where no agent listens.
///
/// # Errors
/// An agent of another version, or one that goes away.
pub fn list(place: &Place) -> Result<Option<FromAgent>, AgentError> {
    let Ok(stream) = UnixStream::connect(&place.socket) else { return Ok(None) };
    let mut connection = Connection::greet(stream)?;
    connection.send(&ToAgent::List {})?;
    connection.wait().map(Some)
}
