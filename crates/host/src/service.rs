//! What a service manager hands over, and what it wants to hear (sd_listen_fds(3), sd_notify(3)), without a library of its.

use crate::HostError;
use crate::descriptor::duplicate_inherited;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::env;
use std::fs;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

const PROCESS: &str = "LISTEN_PID";
const COUNT: &str = "LISTEN_FDS";
const NAMES: &str = "LISTEN_FDNAMES";
const NOTIFY: &str = "NOTIFY_SOCKET";
/// The number of the first descriptor that is handed over.
const FIRST: RawFd = 3;
/// More than one could mean.
const COUNT_MAX: i32 = 64;

/// The Unix sockets on which this process is to listen, as whoever started it has opened them; none if nobody did. The variables that said so are
/// taken out of the environment, so that programs which this one starts do not believe them to be theirs. To be called before there is
/// another thread.
///
/// # Errors
/// What was handed over is no Unix socket that listens, or there are other threads.
pub fn take_listeners() -> Result<Vec<UnixListener>, HostError> {
    let said = |name: &str| env::var(name).ok();
    let is_ours = said(PROCESS).and_then(|pid| pid.parse().ok()) == Some(std::process::id());
    let count = said(COUNT).and_then(|count| count.parse::<i32>().ok());
    let there_is = [PROCESS, COUNT, NAMES].into_iter().any(|name| env::var_os(name).is_some());
    if there_is {
        forget()?;
    }
    let Some(count) = count.filter(|count| is_ours && (1..=COUNT_MAX).contains(count)) else {
        return Ok(Vec::new());
    };
    (FIRST..FIRST + count).map(listener).collect()
}

fn forget() -> Result<(), HostError> {
    let what = || "take the sockets that a service manager has opened";
    let threads = fs::read_dir("/proc/self/task").map_err(|error| HostError::system(what(), error))?.count();
    if threads != 1 {
        return Err(HostError::system(what(), io::Error::other("there are other threads already")));
    }
    for name in [PROCESS, COUNT, NAMES] {
        // SAFETY: nobody reads the environment meanwhile: there is no other thread, and this one starts none here.
        unsafe { env::remove_var(name) };
    }
    Ok(())
}

fn listener(number: RawFd) -> Result<UnixListener, HostError> {
    let what = || format!("listen on descriptor {number}, which was handed over (LISTEN_FDS)");
    let socket: OwnedFd = duplicate_inherited(number).map_err(|error| HostError::system(what(), error))?;
    let is_right = sockopt::socket_domain(&socket) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(&socket) == Ok(SocketType::STREAM)
        && sockopt::socket_acceptconn(&socket) == Ok(true);
    if !is_right {
        let reason = "it is no Unix socket that listens: ListenStream= has to be a path";
        return Err(HostError::system(what(), io::Error::other(reason)));
    }
    Ok(socket.into())
}

/// Tells the service manager how it is, as `READY=1`; whether there is one that wants to know.
///
/// # Errors
/// It cannot be told.
pub fn notify(state: &str) -> Result<bool, HostError> {
    let Some(place) = env::var_os(NOTIFY).filter(|place| !place.is_empty()) else { return Ok(false) };
    let tell = || {
        let address = match place.as_encoded_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&place)?,
        };
        let sent = UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
        if sent == state.len() { Ok(true) } else { Err(io::Error::from(io::ErrorKind::WriteZero)) }
    };
    tell()
        .map_err(|error| HostError::system(format!("tell the service manager at {}", place.display()), error))
}
