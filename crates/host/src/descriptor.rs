//! Open files by their descriptors: copying them, passing them between processes, waiting for them.

use crate::HostError;
use crate::process::Pid;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::fs::OpenOptions;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A copy of a descriptor that this process inherited under a known number. Programs that this process starts get
/// neither; the number stays open here.
pub fn duplicate_inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with integers copes with any number, and gives a new descriptor or -1.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above; only the flag is set.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Opens once more, for reading and writing, the file that process `pid` has open under `number`.
pub fn open_of(pid: Pid, number: RawFd) -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/fd/{number}"))?.into())
}

/// A pipe: the end to read from and the end to write into, both closed on exec.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), HostError> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| HostError::system("make a pipe", error))
}

/// Sends a descriptor through a Unix socket.
pub fn send(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)), "there is space for one");
    rustix::net::sendmsg(socket, &[IoSlice::new(b"d")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a descriptor that [`send`] sent; closed on exec.
pub fn receive(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let slices = &mut [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket, slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let rights = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    rights.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Descriptors that can come with one part of what a stream says.
const DESCRIPTORS_MAX: usize = 4;

/// Sends all of `bytes` through a Unix stream socket, and descriptors with the first of them.
///
/// # Panics
/// With more than four descriptors.
pub fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)), "there is space for four");
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut left = &bytes[sent..];
    while !left.is_empty() {
        let sent = rustix::net::send(socket, left, SendFlags::NOSIGNAL)?;
        left = &left[sent..];
    }
    Ok(())
}

/// Receives what there is, at most as much as fits into `bytes`, and the descriptors that came with it, closed on exec; 0 at the end.
pub fn receive_with(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let slices = &mut [IoSliceMut::new(bytes)];
    let received = rustix::net::recvmsg(socket, slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok(received.bytes)
}

/// The process at the other end of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user that it ran as when it connected.
    pub user: u32,
    /// Its number; 0 in another PID namespace that this process does not see.
    pub pid: u32,
}

/// The user that the process at the other end of a Unix socket ran as when it connected.
pub fn peer_user(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(peer(socket)?.user)
}

/// Who is at the other end of a Unix socket.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    // By hand, since rustix takes the process number 0, which a peer in another PID namespace has, for a failure.
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of_val(&credentials) as libc::socklen_t;
    let target = std::ptr::from_mut(&mut credentials).cast();
    // SAFETY: `credentials` is live and `bytes` long.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, target, &mut bytes)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { user: credentials.uid, pid: credentials.pid as u32 })
}

/// The user that this process runs as.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Waits until one of `descriptors` has something to read or its other end is gone; says for each whether it has.
/// Returns early, with nothing to read, after `timeout_ms` milliseconds (never where negative) or a signal.
pub fn wait_readable(descriptors: &[BorrowedFd<'_>], timeout_ms: i32) -> Result<Vec<bool>, HostError> {
    let entry = |descriptor: &BorrowedFd<'_>| libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries: Vec<libc::pollfd> = descriptors.iter().map(entry).collect();
    // SAFETY: the list is live for the call.
    let result = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout_ms) };
    if result < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        return Err(HostError::last("wait for files, processes or signals"));
    }
    Ok(entries.iter().map(|entry| result > 0 && entry.revents != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn read_all(descriptor: OwnedFd) -> String {
        let (mut file, mut text) = (std::fs::File::from(descriptor), String::new());
        file.rewind().expect("seek");
        file.read_to_string(&mut text).expect("read");
        text
    }

    #[test]
    fn all_ways_lead_to_the_same_file() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"castell").expect("write");
        assert_eq!(read_all(duplicate_inherited(file.as_raw_fd()).expect("a copy")), "castell");
        assert_eq!(read_all(open_of(Pid::current(), file.as_raw_fd()).expect("a copy")), "castell");
        let (here, there) = UnixStream::pair().expect("sockets");
        assert_eq!(wait_readable(&[there.as_fd()], 0).expect("poll"), [false]);
        send(here.as_fd(), file.as_fd()).expect("send");
        assert_eq!(wait_readable(&[there.as_fd()], 10_000).expect("poll"), [true]);
        assert_eq!(read_all(receive(there.as_fd()).expect("receive")), "castell");
        assert_eq!(peer_user(here.as_fd()).expect("credentials"), own_user());
        drop(here);
        assert_eq!(receive(there.as_fd()).expect_err("closed").kind(), io::ErrorKind::UnexpectedEof);
        assert!(duplicate_inherited(987_654).is_err());
    }
}
