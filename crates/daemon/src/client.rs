//! A connection: lines in, with descriptors; lines out, as fast as the other side reads.

use castell_host::bucket::Bucket;
use castell_host::descriptor::{self, Peer};
use castell_kernels::protocol::{FromDaemon, SHAPES_MAX, ToDaemon};
use castell_policy::session::protocol::{Lines, ProtocolError, decode, encode};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Bytes that somebody may leave unread: the longest status is below that.
const UNREAD_MAX: usize = 16 << 20;
/// Descriptors that nobody has asked for.
const DESCRIPTORS_MAX: usize = 2;

/// What somebody may say at once, and a second: more is read later. Applications register all that they can when they come.
const CONTROL: Bucket = Bucket::new(64, 250);
const APPLICATION: Bucket = Bucket::new(SHAPES_MAX as u32 + 64, 1_000);
/// What is left to be read waits until so much may be.
const READ_AGAIN: u32 = 16;

/// Who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has not greeted.
    Unknown,
    /// Asks and commands.
    Control,
    /// An application; whether its mailbox counts already.
    Application { is_open: bool },
}

/// What comes next from somebody.
pub(crate) enum Next {
    Message(ToDaemon),
    /// It has said too much: not before this time, by the host's clock.
    Later {
        at_ns: u64,
    },
    /// Nothing whole has come.
    Nothing,
}

pub(crate) struct Client {
    stream: UnixStream,
    pub(crate) peer: Peer,
    lines: Lines,
    pub(crate) descriptors: Vec<OwnedFd>,
    unsent: Vec<u8>,
    role: Role,
    /// How much more it may say.
    bucket: Bucket,
    /// It has said too much, or much: what is left is read later.
    pub(crate) is_left: bool,
    /// Its bell, if it has one.
    pub(crate) bell: Option<OwnedFd>,
    pub(crate) pid: i32,
    /// Of the session that its process is in, as soon as somebody wants to know; empty if it is in none.
    pub(crate) mark: Option<String>,
    /// It is stopped, or its session stands still.
    pub(crate) is_parked: bool,
}

/// Why a connection is given up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    /// The other side has closed it.
    #[error("it has gone")]
    Gone,
    /// It does not read what it asked for.
    #[error("it does not read")]
    Unread,
    #[error("it sends descriptors that nobody asked for")]
    Descriptors,
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Client {
    pub(crate) fn new(stream: UnixStream, peer: Peer) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        Ok(Client {
            stream,
            peer,
            lines: Lines::default(),
            descriptors: Vec::new(),
            unsent: Vec::new(),
            role: Role::Unknown,
            bucket: CONTROL,
            is_left: false,
            bell: None,
            pid: 0,
            mark: None,
            is_parked: false,
        })
    }

    /// An application whose mailbox counts.
    pub(crate) fn is_open(&self) -> bool {
        self.role == Role::Application { is_open: true }
    }

    /// Reads once, unless there is something left that was read before: how much others have to say waits for the next turn.
    pub(crate) fn read(&mut self) -> Result<(), Lost> {
        if self.lines.has_line() {
            return Ok(());
        }
        let mut bytes = [0; 16 << 10];
        match descriptor::receive_with(self.stream.as_fd(), &mut bytes, &mut self.descriptors) {
            Ok(0) => Err(Lost::Gone),
            Ok(_) if self.descriptors.len() > DESCRIPTORS_MAX => Err(Lost::Descriptors),
            Ok(count) => Ok(self.lines.push(&bytes[..count])?),
            Err(error) if is_later(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn set_role(&mut self, role: Role) {
        if matches!((self.role, role), (Role::Unknown, Role::Application { .. })) {
            self.bucket = APPLICATION;
        }
        self.role = role;
    }

    /// The next message that has come whole, if it may say as much.
    pub(crate) fn next(&mut self, now_ns: u64) -> Result<Next, Lost> {
        if !self.lines.has_line() {
            return Ok(Next::Nothing);
        }
        if !self.bucket.take(now_ns) {
            return Ok(Next::Later { at_ns: self.bucket.when(READ_AGAIN) });
        }
        let line = self.lines.next_line().unwrap_or_default();
        Ok(Next::Message(decode(&line)?))
    }

    pub(crate) fn send(&mut self, message: &FromDaemon) -> Result<(), Lost> {
        self.unsent.extend(encode(message));
        self.flush()
    }

    /// Sends what it can.
    pub(crate) fn flush(&mut self) -> Result<(), Lost> {
        while !self.unsent.is_empty() {
            match rustix::net::send(&self.stream, &self.unsent, rustix::net::SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.unsent.len() <= UNREAD_MAX => return Ok(()),
                Err(Errno::AGAIN) => return Err(Lost::Unread),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    /// Whether something is left to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
