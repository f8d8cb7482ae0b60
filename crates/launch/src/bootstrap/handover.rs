//! Handing a host's segment from the rank that made it to the other ranks there.

use super::keyvalue::{quote, unquote};
use super::membership::{BootstrapError, JOB_FD_VARIABLE};
use castell_base::Rank;
use castell_host::descriptor;
use castell_host::process::Pid;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread::JoinHandle;

/// A copy of an inherited descriptor, so that it can be used once more (a program may initialise twice).
pub(super) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    descriptor::duplicate_inherited(number)
}

/// A copy of the job's inherited descriptor. The original is not passed on to programs that this process starts.
pub(super) fn duplicate_inherited(number: RawFd) -> Result<OwnedFd, BootstrapError> {
    duplicate(number).map_err(|error| BootstrapError::Inherited {
        found: format!("descriptor {number} ({JOB_FD_VARIABLE}) is not open here ({error})"),
    })
}

/// How to get a host's segment from the rank that made it: what that one tells the others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Owner {
    /// Its rank.
    pub rank: Rank,
    /// The namespace in which its process number means something.
    pub pid_namespace: String,
    /// Its process.
    pub pid: i32,
    /// The segment's descriptor in that process.
    pub descriptor: RawFd,
    /// Name of the abstract Unix socket at which it gives the descriptor to those who ask.
    pub socket: String,
}

impl Owner {
    fn of_this_process(rank: Rank, descriptor: RawFd, socket: String) -> Owner {
        let pid_namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let pid_namespace = pid_namespace.to_string_lossy().into_owned();
        Owner { rank, pid_namespace, pid: Pid::current().raw(), descriptor, socket }
    }

    /// Writes it as a value for a key-value space.
    pub fn to_text(&self) -> String {
        let numbers = [self.rank.to_string(), self.pid.to_string(), self.descriptor.to_string()];
        let [rank, pid, descriptor] = &numbers;
        let fields = [rank, &self.pid_namespace, pid, descriptor, &self.socket];
        fields.map(|field| quote(field)).join(",")
    }

    /// Reads what [`Owner::to_text`] wrote.
    pub fn from_text(text: &str) -> Result<Owner, String> {
        let fields: Vec<String> = text.split(',').map(unquote).collect();
        let unreadable =
            || format!("a rank told `{text}`, which makes no sense: is it the same version of castell?");
        let [rank, pid_namespace, pid, descriptor, socket] =
            <[String; 5]>::try_from(fields).map_err(|_| unreadable())?;
        let rank = Rank(rank.parse().map_err(|_| unreadable())?);
        let pid = pid.parse().map_err(|_| unreadable())?;
        let descriptor = descriptor.parse().map_err(|_| unreadable())?;
        Ok(Owner { rank, pid_namespace, pid, descriptor, socket })
    }

    /// Opens the segment from another process, and says whether the two see each other's process numbers.
    pub fn open(&self) -> Result<(OwnedFd, bool), String> {
        let here = Owner::of_this_process(self.rank, -1, String::new());
        let visible = here.pid_namespace == self.pid_namespace;
        let direct = match Pid::from_raw(self.pid).filter(|_| visible) {
            Some(pid) => descriptor::open_of(pid, self.descriptor).map_err(|error| error.to_string()),
            None => Err("its process is in another PID namespace".into()),
        };
        let direct = match direct {
            Ok(descriptor) => return Ok((descriptor, visible)),
            Err(why) => why,
        };
        match self.ask() {
            Ok(descriptor) => Ok((descriptor, visible)),
            Err(error) => Err(format!(
                "cannot get the shared memory from rank {} (process {}): /proc/{}/fd does not serve ({direct}), nor \
                 does the Unix socket @{} ({error}); run all ranks as one user, in one container",
                self.rank, self.pid, self.pid, self.socket
            )),
        }
    }

    fn ask(&self) -> io::Result<OwnedFd> {
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(&self.socket)?)?;
        require_same_user(&stream)?;
        descriptor::receive(stream.as_fd())
    }
}

/// The owner's side: serves the descriptor at a socket until it is dropped.
pub(super) struct Offer {
    owner: Owner,
    stop: Option<UnixStream>,
    server: Option<JoinHandle<()>>,
}

impl Offer {
    /// Starts to serve `segment`, which has to stay open until the offer is dropped.
    pub fn start(rank: Rank, segment: BorrowedFd<'_>) -> Result<Offer, String> {
        let number = segment.as_raw_fd();
        let name = format!("castell-{}-{}", Pid::current(), castell_host::clock::now_ns());
        let owner = Owner::of_this_process(rank, number, name);
        let failed = |error: io::Error| format!("cannot offer the shared memory at a Unix socket: {error}");
        let address = SocketAddr::from_abstract_name(&owner.socket).map_err(failed)?;
        let listener = UnixListener::bind_addr(&address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let segment = segment.try_clone_to_owned().map_err(failed)?;
        let serve = move || {
            while let Ok(ready) = descriptor::wait_readable(&[listener.as_fd(), stopped.as_fd()], -1) {
                if ready[1] {
                    return;
                }
                let Ok((stream, _)) = listener.accept() else { continue };
                if require_same_user(&stream).is_ok() {
                    // One who hung up meanwhile notices by itself.
                    let _ = descriptor::send(stream.as_fd(), segment.as_fd());
                }
            }
        };
        let builder = std::thread::Builder::new().name("castell-offer".into()).stack_size(64 * 1024);
        let server = builder.spawn(serve).map_err(failed)?;
        Ok(Offer { owner, stop: Some(stop), server: Some(server) })
    }

    /// What the others need to know.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // The closed end is the sign to stop.
        self.stop = None;
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Refuses a peer that another user runs; root may serve everybody.
fn require_same_user(stream: &UnixStream) -> io::Result<()> {
    let (theirs, ours) = (descriptor::peer_user(stream.as_fd())?, descriptor::own_user());
    if theirs == ours || theirs == 0 { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}
