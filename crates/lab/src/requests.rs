//! How commands come to a host: through a socket of its first process in a folder that all hosts of the lab see, and nobody else does.
//!
//! A request is three descriptors (input, output, error), then a length and a text: `own group or not, folder, number of arguments,
//! arguments, environment`, each behind its length. Signals follow, a byte each; when the connection ends, whatever was started is killed.
//! The answer is a code, and a text where nothing could be started.

use crate::{HOSTS_VARIABLE, LabError, system};
use castell_host::descriptor;
use castell_host::process::Ended;
use castell_host::signal::{self, Signals};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where the sockets lie outside of the hosts.
pub(crate) const SHARED: &str = "/dev/shm";
/// Where they lie in each of them.
pub(crate) const FOLDER: &str = "/tmp/.castell-lab";

/// A request is never longer: arguments and environment of a process are limited to less.
const REQUEST_BYTES_MAX: u32 = 8 << 20;
/// How long a request may take until it is complete.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// What is to be started.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// Signals go to all that it starts, too; terminals know nothing of it.
    own_group: bool,
    folder: PathBuf,
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl Request {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.own_group)];
        let mut put = |field: &OsStr| {
            bytes.extend_from_slice(&(field.len() as u32).to_le_bytes());
            bytes.extend_from_slice(field.as_bytes());
        };
        put(self.folder.as_os_str());
        put(OsStr::new(&self.command.len().to_string()));
        self.command.iter().for_each(|word| put(word));
        for (name, value) in &self.environment {
            put(name);
            put(value);
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Request> {
        let (own_group, mut rest) = bytes.split_first()?;
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            let (field, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            fields.push(OsString::from_vec(field.to_vec()));
            rest = behind;
        }
        let mut fields = fields.into_iter();
        let folder = PathBuf::from(fields.next()?);
        let count: usize = fields.next()?.to_str()?.parse().ok()?;
        let command: Vec<OsString> = fields.by_ref().take(count).collect();
        let left: Vec<OsString> = fields.collect();
        if command.len() != count || count == 0 || !left.len().is_multiple_of(2) {
            return None;
        }
        let environment = left.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        Some(Request { own_group: *own_group != 0, folder, command, environment })
    }
}

/// Where a host hears requests.
pub(crate) struct Door {
    listener: UnixListener,
    signals: Signals,
}

impl Door {
    pub(crate) fn open(name: &str) -> io::Result<Door> {
        let signals = Signals::take_over(&[libc::SIGCHLD]).map_err(io::Error::other)?;
        Ok(Door { listener: UnixListener::bind(format!("{FOLDER}/{name}"))?, signals })
    }
}

/// Somebody whose command runs.
struct Client {
    stream: UnixStream,
    own_group: bool,
}

/// Starts what is asked for, until whoever made the lab is gone: then the host's process ends, and with it all others.
pub(crate) fn serve(door: &Door) -> i32 {
    let input = io::stdin();
    let mut clients: HashMap<i32, Client> = HashMap::new();
    loop {
        let pids: Vec<i32> = clients.keys().copied().collect();
        let mut waiting: Vec<BorrowedFd<'_>> =
            vec![input.as_fd(), door.listener.as_fd(), door.signals.as_fd()];
        waiting.extend(pids.iter().map(|pid| clients[pid].stream.as_fd()));
        let Ok(ready) = descriptor::wait_readable(&waiting, -1) else { return 1 };
        if ready[0] {
            return 0;
        }
        for (pid, _) in pids.iter().zip(&ready[3..]).filter(|(_, ready)| **ready) {
            hear(*pid, &mut clients);
        }
        if ready[2] {
            while door.signals.next().is_some() {}
            while let Some((pid, status)) = system::reap() {
                if let Some(mut client) = clients.remove(&pid) {
                    answer(&mut client.stream, Ended::from_wait_status(status).code(), "");
                }
            }
        }
        if ready[1]
            && let Ok((stream, _)) = door.listener.accept()
        {
            take(stream, &mut clients);
        }
    }
}

/// A client has something to say: signals, or that it is gone.
fn hear(pid: i32, clients: &mut HashMap<i32, Client>) {
    let client = clients.get_mut(&pid).expect("it was waited for");
    let target = if client.own_group { -pid } else { pid };
    let mut byte = [0];
    match client.stream.read(&mut byte) {
        Ok(1) => system::kill(target, byte[0].into()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Ok(_) | Err(_) => {
            system::kill(target, libc::SIGKILL);
            clients.remove(&pid);
        }
    }
}

fn answer(stream: &mut UnixStream, code: i32, text: &str) {
    // Who is gone needs no answer.
    let _ = stream.write_all(&[&code.to_le_bytes(), text.as_bytes()].concat());
}

fn take(mut stream: UnixStream, clients: &mut HashMap<i32, Client>) {
    let Ok((request, descriptors)) = read_request(&mut stream) else { return };
    match start(&request, descriptors) {
        Ok(pid) => {
            clients.insert(pid, Client { stream, own_group: request.own_group });
        }
        Err((code, text)) => answer(&mut stream, code, &text),
    }
}

fn read_request(stream: &mut UnixStream) -> io::Result<(Request, [OwnedFd; 3])> {
    stream.set_read_timeout(Some(REQUEST_WITHIN))?;
    let descriptors = [
        descriptor::receive(stream.as_fd())?,
        descriptor::receive(stream.as_fd())?,
        descriptor::receive(stream.as_fd())?,
    ];
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > REQUEST_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    stream.set_read_timeout(None)?;
    let request = Request::from_bytes(&bytes).ok_or(io::ErrorKind::InvalidData)?;
    Ok((request, descriptors))
}

fn start(request: &Request, descriptors: [OwnedFd; 3]) -> Result<i32, (i32, String)> {
    let [input, output, error] = descriptors.map(Stdio::from);
    let program = &request.command[0];
    let shown = program.to_string_lossy();
    if !request.folder.is_dir() {
        let folder = request.folder.display();
        return Err((
            126,
            format!("the folder {folder} is not on this host: /tmp and /dev/shm are each host's own"),
        ));
    }
    let mut command = Command::new(program);
    command
        .args(&request.command[1..])
        .env_clear()
        .envs(request.environment.iter().map(|(name, value)| (name, value)));
    command.current_dir(&request.folder).stdin(input).stdout(output).stderr(error);
    signal::restore_defaults_in(&mut command);
    if request.own_group {
        command.process_group(0);
    }
    match command.spawn() {
        Ok(child) => Ok(child.id() as i32),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err((
            127,
            format!("`{shown}` was not found on this host of the lab (its /tmp and /dev/shm are its own)"),
        )),
        Err(error) => Err((126, format!("`{shown}` cannot be executed ({error})"))),
    }
}

/// Runs a command on a host of the lab that this process is in, with its input and output; gives its exit code. SIGINT, SIGTERM and SIGHUP
/// go to the command; if this process ends, so does the command.
///
/// # Errors
/// There is no such host, or it cannot start the command.
pub fn run_on(host: &str, command: &[OsString]) -> Result<i32, LabError> {
    request(FOLDER, host, command, true, std::env::vars_os().collect())
}

/// The same for a command at a terminal: keys reach it by themselves.
///
/// # Errors
/// As for [`run_on`].
pub fn run_visibly_on(host: &str, command: &[OsString]) -> Result<i32, LabError> {
    request(FOLDER, host, command, false, std::env::vars_os().collect())
}

/// The same, from outside, on the host where everything begins.
pub(crate) fn run_first(host: &str, hosts: &str, command: &[OsString]) -> Result<i32, LabError> {
    let mut environment: Vec<_> = std::env::vars_os().collect();
    environment.push((HOSTS_VARIABLE.into(), hosts.into()));
    request(SHARED, host, command, false, environment)
}

fn request(
    folder: &str,
    host: &str,
    command: &[OsString],
    own_group: bool,
    environment: Vec<(OsString, OsString)>,
) -> Result<i32, LabError> {
    let signals = Signals::take_over(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
    let failed =
        |source| LabError::NoHost { host: host.into(), source, hosts: std::env::var(HOSTS_VARIABLE).ok() };
    let name_is_one = !host.is_empty() && !host.contains('/');
    let stream = if name_is_one {
        UnixStream::connect(format!("{folder}/{host}"))
    } else {
        Err(io::ErrorKind::NotFound.into())
    };
    let mut stream = stream.map_err(failed)?;
    for end in [io::stdin().as_fd(), io::stdout().as_fd(), io::stderr().as_fd()] {
        descriptor::send(stream.as_fd(), end).map_err(failed)?;
    }
    let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let bytes = Request { own_group, folder, command: command.to_vec(), environment }.to_bytes();
    let all = [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat();
    stream.write_all(&all).map_err(failed)?;
    loop {
        let ready = descriptor::wait_readable(&[stream.as_fd(), signals.as_fd()], -1)?;
        while let Some(arrived) = signals.next() {
            if own_group || !arrived.from_kernel {
                let _ = stream.write_all(&[arrived.signal as u8]);
            }
        }
        if ready[0] {
            break;
        }
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    let Some((code, text)) = answer.split_first_chunk::<4>() else {
        return Err(failed(io::ErrorKind::ConnectionAborted.into()));
    };
    let code = i32::from_le_bytes(*code);
    if text.is_empty() {
        return Ok(code);
    }
    Err(LabError::Start { text: format!("{host}: {}", String::from_utf8_lossy(text)), code })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_travel_and_nothing_else_is_one() {
        let request = Request {
            own_group: true,
            folder: "/a b".into(),
            command: vec!["sh".into(), "-c".into(), "".into()],
            environment: vec![("A".into(), "".into()), ("B".into(), OsString::from_vec(vec![0xff, 10]))],
        };
        let bytes = request.to_bytes();
        assert_eq!(Request::from_bytes(&bytes).as_ref(), Some(&request));
        for length in 0..bytes.len() {
            // Whole pairs of variables may be missing; anything else is noticed.
            let found = Request::from_bytes(&bytes[..length]);
            assert!(found.is_none_or(|found| found.command == request.command), "{length} bytes");
        }
        assert_eq!(Request::from_bytes(&[1, 255, 255, 255, 255]), None);
    }
}
