//! Sessions that a program spawns (`MPI_Comm_spawn`): it asks for slots before, and each process joins the session when it begins.
//! Such a session has no runner; it lasts as long as one of its processes lives.

use crate::connection::Connection;
use crate::guard::leave_groups;
use crate::tree::{MARK, NO_MARK, Tree, mark_of};
use crate::{AgentError, Allocation, Place};
use castell_host::descriptor::wait_readable;
use castell_host::process::{Pid, Process};
use castell_policy::session::protocol::{FromAgent, Part, ToAgent, Wanted};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// How often an agent is looked for where it has gone away.
const LOOK_AGAIN_MS: i32 = 100;

/// A session that is spawned: what its processes have to have in their environment, and where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The value of `CASTELL_SESSION`.
    pub mark: String,
    /// Node by node.
    pub parts: Vec<Part>,
}

/// Asks for `slots` for what a program of the session with the mark `parent` spawns, and waits until it has them.
///
/// # Errors
/// There is no agent, or it refuses, since there will never be so many slots.
pub fn ask(
    place: &Place,
    allocation: Option<&Allocation>,
    parent: &str,
    slots: u32,
) -> Result<Granted, AgentError> {
    let mut connection = Connection::existing(place, allocation)?;
    let own = Tree::of(std::process::id()).expect("this process lives");
    let mark = format!("{parent}/{}", own.mark().split('@').next().unwrap_or_default());
    let wanted = Wanted {
        slots,
        pid: std::process::id(),
        mark: mark.clone(),
        spawned_by: Some(parent.to_owned()),
        command: "spawned by a program".into(),
        ..Wanted::default()
    };
    connection.send(&ToAgent::Run(Box::new(wanted)))?;
    loop {
        match connection.wait()? {
            FromAgent::Start { parts, .. } => return Ok(Granted { mark, parts }),
            FromAgent::Refused { reason } => return Err(AgentError::Refused(reason)),
            _ => {}
        }
    }
}

/// Becomes a program as a process of a spawned session: a watcher, which `castell` is, joins the session for it.
///
/// # Errors
/// It does not return otherwise.
pub fn become_member(castell: &Path, options: &[String], mark: &str, command: &[OsString]) -> io::Error {
    let mut watcher = Command::new(castell);
    watcher.args(["session", "watch"]).args(options).arg(std::process::id().to_string()).arg(mark);
    watcher.env(MARK, NO_MARK).process_group(0);
    watcher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = watcher.spawn().and_then(|_| leave_groups(mark)) {
        return error;
    }
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::from(io::ErrorKind::InvalidInput);
    };
    Command::new(program).args(arguments).env(MARK, mark).exec()
}

/// Is a process of a spawned session in the place of process `pid`, until that ends.
///
/// # Errors
/// There is no such process, or no agent.
pub fn watch(place: &Place, allocation: Option<&Allocation>, pid: u32, mark: &str) -> Result<(), AgentError> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let none = || AgentError::system("watch a process")(io::Error::from(io::ErrorKind::NotFound));
    let process = Process::open(raw.ok_or_else(none)?)?;
    // It is found by its mark, and has that when it has become its program.
    while !process.has_ended() && mark_of(raw.map_or(0, Pid::raw)).as_deref() != Some(mark) {
        thread::sleep(Duration::from_millis(2));
    }
    let join = || {
        let mut connection = Connection::existing(place, allocation)?;
        connection.send(&ToAgent::Join { mark: mark.to_owned() })?;
        Ok::<_, AgentError>(connection)
    };
    let mut agent = Some(join()?);
    loop {
        let mut watched = vec![process.as_fd()];
        watched.extend(agent.as_ref().map(Connection::as_fd));
        let ready = wait_readable(&watched, if agent.is_some() { -1 } else { LOOK_AGAIN_MS })?;
        if ready[0] {
            return Ok(());
        }
        // The agent may have gone away: the next one has to know of this, too.
        match &mut agent {
            Some(connection) if ready[1] => {
                if connection.fill().is_err() {
                    agent = None;
                }
            }
            Some(_) => {}
            None => agent = join().ok(),
        }
    }
}
