//! What this room asks of the system: sockets that never block.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sockopt};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

/// Connections that the system keeps for this rank to look at.
const BACKLOG: i32 = 1024;

fn socket(ip: IpAddr) -> Result<OwnedFd, Errno> {
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

/// Listens at an address, at any free port.
pub(crate) fn listen(ip: IpAddr) -> Result<(OwnedFd, SocketAddr), Errno> {
    let socket = socket(ip)?;
    rustix::net::bind(&socket, &SocketAddr::new(ip, 0))?;
    rustix::net::listen(&socket, BACKLOG)?;
    let name = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, name))
}

pub(crate) fn accept(listener: &OwnedFd) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

/// Begins to connect, from an address if one is given; it shows as writable what became of it ([`connected`]).
pub(crate) fn dial(to: SocketAddr, from: Option<IpAddr>) -> Result<OwnedFd, Errno> {
    let socket = socket(to.ip())?;
    if let Some(from) = from {
        rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

pub(crate) fn connected(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::socket_error(socket)?
}

/// Nobody's program dies of a signal because its peer did.
pub(crate) fn send(socket: &OwnedFd, parts: [&[u8]; 3]) -> Result<usize, Errno> {
    let parts = parts.map(IoSlice::new);
    rustix::net::sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
}

pub(crate) fn receive(socket: &OwnedFd, into: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::read(socket, into)
}

/// Reads into one piece of memory, and what follows into another.
pub(crate) fn receive_parts(socket: &OwnedFd, into: [&mut [u8]; 2]) -> Result<usize, Errno> {
    rustix::io::readv(socket, &mut into.map(IoSliceMut::new))
}
