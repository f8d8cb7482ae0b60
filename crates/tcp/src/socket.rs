//! What this room asks of the system: sockets that never block, an epoll, a timer.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::io::IoSlice;
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

/// Begins to connect; it shows as writable what became of it ([`connected`]).
pub(crate) fn dial(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = socket(to.ip())?;
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

pub(crate) fn epoll() -> Result<OwnedFd, Errno> {
    epoll::create(epoll::CreateFlags::CLOEXEC)
}

pub(crate) fn watch(epoll: &OwnedFd, what: impl AsFd, token: u64, also_writable: bool) -> Result<(), Errno> {
    epoll::add(epoll, what, EventData::new_u64(token), flags(true, also_writable))
}

pub(crate) fn watch_again(
    epoll: &OwnedFd,
    what: impl AsFd,
    token: u64,
    readable: bool,
    writable: bool,
) -> Result<(), Errno> {
    epoll::modify(epoll, what, EventData::new_u64(token), flags(readable, writable))
}

fn flags(readable: bool, writable: bool) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, readable);
    flags.set(EventFlags::OUT, writable);
    flags
}

/// What is ready now: appends the tokens.
pub(crate) fn ready(epoll: &OwnedFd, into: &mut Vec<u64>) {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
    let count = epoll::wait(epoll, &mut events[..], Some(&none)).unwrap_or(0);
    into.extend(events[..count].iter().map(|event| event.data.u64()));
}

/// Whether something is ready now.
pub(crate) fn is_ready(epoll: &OwnedFd) -> bool {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
    epoll::wait(epoll, &mut events[..], Some(&none)).is_ok_and(|count| count > 0)
}

/// Watched once: readable or not, nothing is said of it until it is watched again.
pub(crate) fn watch_once(epoll: &OwnedFd, what: impl AsFd, token: u64, is_new: bool) -> Result<(), Errno> {
    let (data, flags) = (EventData::new_u64(token), EventFlags::IN | EventFlags::ONESHOT);
    match is_new {
        true => epoll::add(epoll, what, data, flags),
        false => epoll::modify(epoll, what, data, flags),
    }
}

/// Sleeps until something is ready: its token.
pub(crate) fn next(epoll: &OwnedFd) -> Result<u64, Errno> {
    let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
    match epoll::wait(epoll, &mut events[..], None)? {
        0 => Err(Errno::INTR),
        _ => Ok(events[0].data.u64()),
    }
}

pub(crate) fn timer() -> Result<OwnedFd, Errno> {
    rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
}

/// The timer is readable from this time on, by the host's clock.
pub(crate) fn set_timer(timer: &OwnedFd, at_ns: u64) {
    let at_ns = at_ns.max(1);
    let value = Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as i64 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    rustix::time::timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)
        .expect("the time is one of the clock's");
}

/// It is not readable any more.
pub(crate) fn clear_timer(timer: &OwnedFd) {
    let _ = rustix::io::read(timer, &mut [0; 8]);
}
