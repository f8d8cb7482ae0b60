//! A runner's end of the connection.

use crate::keepers::START_WITHIN;
use crate::{AgentError, Allocation, Place};
use castell_policy::session::protocol::{FromAgent, Lines, ToAgent, VERSION, check_version, decode, encode};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long an agent that was just started may take to listen, beside what it waits for nodes.
const STARTING: Duration = Duration::from_secs(10);
/// How long one that listens may take to greet: it may be stopped.
const GREETED_WITHIN: Duration = Duration::from_secs(5);

pub(crate) struct Connection {
    stream: UnixStream,
    lines: Lines,
    /// What joins this node with the agent's.
    relay: Option<Child>,
}

impl Connection {
    /// Connects, with `start` where nobody listens.
    pub(crate) fn open(
        place: &Place,
        allocation: Option<&Allocation>,
        start: &dyn Fn() -> std::io::Result<()>,
    ) -> Result<Connection, AgentError> {
        let patience = STARTING + allocation.map_or(Duration::ZERO, |_| START_WITHIN);
        match Connection::existing(place, allocation) {
            Err(AgentError::NoAgent { .. } | AgentError::Unreached { .. }) => {}
            result => return result,
        }
        if let Some(allocation) = allocation.filter(|allocation| !allocation.begins_here()) {
            start().map_err(AgentError::system("start the agent"))?;
            return Connection::through(allocation, place, Some(patience));
        }
        start().map_err(AgentError::system("start the agent"))?;
        let begun = Instant::now();
        loop {
            match UnixStream::connect(&place.socket) {
                Ok(stream) => return Connection::greet(stream, None),
                Err(source) if begun.elapsed() > patience => {
                    return Err(AgentError::NoAgent { path: place.socket.clone(), log: place.log(), source });
                }
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Connects where an agent listens.
    pub(crate) fn existing(place: &Place, allocation: Option<&Allocation>) -> Result<Connection, AgentError> {
        match (UnixStream::connect(&place.socket), allocation) {
            (Ok(stream), _) => Connection::greet(stream, None),
            (Err(error), _) if error.kind() == ErrorKind::PermissionDenied => {
                Err(AgentError::NotYours { path: place.socket.clone() })
            }
            (Err(_), Some(allocation)) if !allocation.begins_here() => {
                Connection::through(allocation, place, None)
            }
            (Err(source), _) => {
                Err(AgentError::NoAgent { path: place.socket.clone(), log: place.log(), source })
            }
        }
    }

    /// By way of the node that has the agent, which may take so long to listen; none: it has to listen now, and if it does not,
    /// nobody hears of that.
    fn through(
        allocation: &Allocation,
        place: &Place,
        patience: Option<Duration>,
    ) -> Result<Connection, AgentError> {
        let node = &allocation.nodes[0];
        let errors = if patience.is_some() { Stdio::inherit() } else { Stdio::null() };
        let patience = format!("{}ms", patience.unwrap_or_default().as_millis());
        let options = place.options();
        let mut arguments = vec!["session", "relay", "--patience", &patience];
        arguments.extend(options.iter().map(String::as_str));
        let started = allocation.talk_to(node, &arguments, errors);
        let (relay, stream) = started.map_err(AgentError::system(format!("reach node {node}")))?;
        Connection::greet(stream, Some(relay)).map_err(|error| match error {
            AgentError::Gone => {
                AgentError::Unreached { node: node.clone(), command: allocation.remote[0].clone() }
            }
            other => other,
        })
    }

    fn greet(stream: UnixStream, relay: Option<Child>) -> Result<Connection, AgentError> {
        let mut connection = Connection { stream, lines: Lines::default(), relay };
        let within =
            |time| connection.stream.set_read_timeout(time).map_err(AgentError::system("limit a wait"));
        within(connection.relay.is_none().then_some(GREETED_WITHIN))?;
        // One that has closed the connection may have said why.
        let _ = connection.send(&ToAgent::Hello { version: VERSION });
        match connection.wait()? {
            FromAgent::Hello { version } => check_version(version)?,
            FromAgent::Refused { reason } => return Err(AgentError::Refused(reason)),
            _ => return Err(AgentError::Gone),
        }
        connection.stream.set_read_timeout(None).map_err(AgentError::system("limit a wait"))?;
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

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(relay) = &mut self.relay {
            // It ends with its input; what it has not passed on by then it still does.
            let _ = self.stream.shutdown(Shutdown::Write);
            let _ = relay.wait();
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Asks an agent for several things, one after the other, and gives its last answer: [`FromAgent::Ordered`] or
/// [`FromAgent::Explained`].
///
/// # Errors
/// There is no agent, it is another user's or of another version, or one of the things cannot be.
pub fn steer(
    place: &Place,
    allocation: Option<&Allocation>,
    messages: &[ToAgent],
) -> Result<FromAgent, AgentError> {
    let mut connection = Connection::existing(place, allocation).map_err(|error| match error {
        AgentError::NoAgent { path, .. } => AgentError::NoSessions { path },
        AgentError::Unreached { .. } => AgentError::NoSessions { path: place.socket.clone() },
        error => error,
    })?;
    let mut answer = FromAgent::Refused { reason: "nothing was asked".into() };
    for message in messages {
        connection.send(message)?;
        answer = connection.wait()?;
        if let FromAgent::Refused { reason } = answer {
            return Err(AgentError::Refused(reason));
        }
    }
    Ok(answer)
}

/// Asks the agent that keeps the sessions to leave them to whoever waits for its lock.
pub(crate) fn ask_to_hand_over(place: &Place) -> Result<(), AgentError> {
    Connection::existing(place, None)?.send(&ToAgent::HandOver {})
}

/// All sessions of an agent; none where no agent listens.
///
/// # Errors
/// An agent of another version, or one that goes away.
pub fn list(place: &Place, allocation: Option<&Allocation>) -> Result<Option<FromAgent>, AgentError> {
    let mut connection = match Connection::existing(place, allocation) {
        Ok(connection) => connection,
        Err(AgentError::NoAgent { .. } | AgentError::Unreached { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    connection.send(&ToAgent::List {})?;
    connection.wait().map(Some)
}
