//! Descriptors that are looked at together, without waiting or asleep; and a timer among them.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::time::Duration;

/// One that watches nothing yet.
///
/// # Errors
/// The system has no file or memory left, or the descriptor is none that can be watched.
pub fn epoll() -> Result<OwnedFd, Errno> {
    epoll::create(epoll::CreateFlags::CLOEXEC)
}

/// From here on `what` is watched: whether it can be read, and perhaps written. What is ready is told by its token.
///
/// # Errors
/// The system has no file or memory left, or the descriptor is none that can be watched.
pub fn watch(epoll: &OwnedFd, what: impl AsFd, token: u64, also_writable: bool) -> Result<(), Errno> {
    epoll::add(epoll, what, EventData::new_u64(token), flags(true, also_writable))
}

/// The same for what is watched already.
///
/// # Errors
/// The system has no file or memory left, or the descriptor is none that can be watched.
pub fn watch_again(
    epoll: &OwnedFd,
    what: impl AsFd,
    token: u64,
    readable: bool,
    writable: bool,
) -> Result<(), Errno> {
    epoll::modify(epoll, what, EventData::new_u64(token), flags(readable, writable))
}

/// What is watched already is not to be read for a while: it is told, once each, that the other side has gone and, if asked for, that it can be written.
///
/// # Errors
/// The system has no memory left, or the descriptor is not watched.
pub fn leave_unread(epoll: &OwnedFd, what: impl AsFd, token: u64, writable: bool) -> Result<(), Errno> {
    epoll::modify(epoll, what, EventData::new_u64(token), flags(false, writable) | EventFlags::ET)
}

fn flags(readable: bool, writable: bool) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, readable);
    flags.set(EventFlags::OUT, writable);
    flags
}

/// What is ready now: appends the tokens.
pub fn ready(epoll: &OwnedFd, into: &mut Vec<u64>) {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
    let count = epoll::wait(epoll, &mut events[..], Some(&none)).unwrap_or(0);
    into.extend(events[..count].iter().map(|event| event.data.u64()));
}

/// Sleeps until something is ready, or so long, or a signal comes: appends the tokens, up to 64.
pub fn wait(epoll: &OwnedFd, into: &mut Vec<u64>, patience: Option<Duration>) {
    let patience = patience.map(|patience| Timespec {
        tv_sec: patience.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    });
    let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
    let count = epoll::wait(epoll, &mut events[..], patience.as_ref()).unwrap_or(0);
    into.extend(events[..count].iter().map(|event| event.data.u64()));
}

/// Watched for changes: told each time that something more can be read, whether or not what there was has been read.
///
/// # Errors
/// The system has no file or memory left, or the descriptor is none that can be watched.
pub fn watch_changes(epoll: &OwnedFd, what: impl AsFd, token: u64) -> Result<(), Errno> {
    epoll::add(epoll, what, EventData::new_u64(token), EventFlags::IN | EventFlags::ET)
}

/// Whether something is ready now.
pub fn is_ready(epoll: &OwnedFd) -> bool {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
    epoll::wait(epoll, &mut events[..], Some(&none)).is_ok_and(|count| count > 0)
}

/// Watched once: readable or not, nothing is said of it until it is watched again.
///
/// # Errors
/// The system has no file or memory left, or the descriptor is none that can be watched.
pub fn watch_once(epoll: &OwnedFd, what: impl AsFd, token: u64, is_new: bool) -> Result<(), Errno> {
    let (data, flags) = (EventData::new_u64(token), EventFlags::IN | EventFlags::ONESHOT);
    match is_new {
        true => epoll::add(epoll, what, data, flags),
        false => epoll::modify(epoll, what, data, flags),
    }
}

/// Sleeps until something is ready: its token.
///
/// # Errors
/// A signal came in between (`EINTR`).
pub fn next(epoll: &OwnedFd) -> Result<u64, Errno> {
    let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
    match epoll::wait(epoll, &mut events[..], None)? {
        0 => Err(Errno::INTR),
        _ => Ok(events[0].data.u64()),
    }
}

/// A timer that is not set.
///
/// # Errors
/// The system has no file or memory left, or the descriptor is none that can be watched.
pub fn timer() -> Result<OwnedFd, Errno> {
    rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
}

/// The timer is readable from this time on, by the host's clock.
///
/// # Panics
/// If it is no timer.
pub fn set_timer(timer: &OwnedFd, at_ns: u64) {
    let at_ns = at_ns.max(1);
    let value = Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as i64 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    rustix::time::timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)
        .expect("the time is one of the clock's");
}

/// It is not readable any more.
pub fn clear_timer(timer: &OwnedFd) {
    let _ = rustix::io::read(timer, &mut [0; 8]);
}
