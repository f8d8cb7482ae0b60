//! A rank's end: what comes in.

use crate::address::{self, ADDRESSES_MAX};
use crate::connections::{Connections, Counters, TIMER};
use crate::endpoint::{TcpConnector, TcpEndpoint};
use crate::frame::FRAME_BYTES;
use crate::handshake::Secret;
use crate::link::{Begun, Body, News, Settings, Step};
use crate::socket;
use castell_base::{Lent, Rank};
use castell_host::clock::Clock;
use castell_host::epoll;
use castell_transport::{
    AccessError, Address, Armed, Down, Events, HEADER_BYTES, Header, Limits, RemoteKey, Sleeper, Transport,
};
use rustix::fd::{AsFd, OwnedFd};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is read at a time, from whichever peer: a rank's memory for what comes does not grow with the number of its peers.
const SCRATCH_BYTES: usize = 256 * 1024;
/// What is read behind a message that comes to its place: enough for the next one to begin.
const BEHIND_BYTES: usize = FRAME_BYTES + HEADER_BYTES;

/// How a rank takes part.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// Addresses of this host at which the rank listens, the best first: at most eight.
    pub listen: Vec<IpAddr>,
    /// Sizes and times.
    pub settings: Settings,
    /// Where times come from.
    pub clock: Clock,
    /// Whether it connects from these addresses, too; else from whichever the system chooses.
    pub dials_from_there: bool,
    /// Whether all that follows the proofs is encrypted (TLS 1.3). The same on both sides.
    pub encrypts: bool,
}

impl TcpOptions {
    /// Listening at these addresses, all else as usual: nothing is encrypted.
    pub fn at(listen: &[IpAddr]) -> TcpOptions {
        let (settings, clock) = (Settings::default(), Clock::default());
        TcpOptions { listen: listen.to_vec(), settings, clock, dials_from_there: false, encrypts: false }
    }
}

/// Why a rank cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum TcpError {
    /// No address can be listened at.
    #[error(
        "castell cannot listen at {at}: {error}; choose an address of this host (`ip address` shows them)"
    )]
    Listen {
        /// The address.
        at: IpAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// No address, or too many.
    #[error("{0} addresses to listen at: 1 to {ADDRESSES_MAX} are possible")]
    Addresses(usize),
    /// The system has no more of what is needed.
    #[error("castell cannot use the network: {0}; `ulimit -n` shows how many files a process may have open")]
    System(#[from] std::io::Error),
}

/// One rank's end of TCP.
pub struct Tcp {
    shared: Arc<Mutex<Connections>>,
    limits: Limits,
    addresses: Vec<SocketAddr>,
    epoll: Arc<OwnedFd>,
    timer: OwnedFd,
    /// For when the timer is set.
    timer_at: u64,
    clock: Clock,
    /// What was read last, of whom, and how much of it has been looked at.
    scratch: Box<[u8]>,
    read: Option<Read>,
    /// What is ready, of the last look.
    ready: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Read {
    from: Rank,
    at: usize,
    end: usize,
}

pub(crate) fn lock(shared: &Mutex<Connections>) -> MutexGuard<'_, Connections> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tcp {
    /// The end of rank `me` of a job of so many, whose secret all its ranks know.
    ///
    /// # Errors
    /// It cannot listen, or the system has nothing to give.
    pub fn new(me: Rank, ranks: u32, secret: Secret, options: &TcpOptions) -> Result<Tcp, TcpError> {
        if !(1..=ADDRESSES_MAX).contains(&options.listen.len()) {
            return Err(TcpError::Addresses(options.listen.len()));
        }
        let system = |error: rustix::io::Errno| TcpError::System(error.into());
        let epoll = Arc::new(epoll::epoll().map_err(system)?);
        let timer = epoll::timer().map_err(system)?;
        epoll::watch(&epoll, &timer, TIMER, false).map_err(system)?;
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for &at in &options.listen {
            let (listener, address) =
                socket::listen(at).map_err(|error| TcpError::Listen { at, error: error.into() })?;
            listeners.push(listener);
            addresses.push(address);
        }
        let limits =
            Limits { tells_room: true, ..Limits::messages_only("tcp", options.settings.message_bytes_max) };
        let clock = options.clock.clone();
        let from = if options.dials_from_there { &options.listen[..] } else { &[] };
        let shared = Connections::new(
            (me, ranks),
            (secret, options.encrypts.then(|| vec![0; SCRATCH_BYTES].into())),
            Settings {
                has_checksums: options.settings.has_checksums && !options.encrypts,
                ..options.settings
            },
            clock.clone(),
            (Arc::clone(&epoll), listeners, from),
        )?;
        Ok(Tcp {
            shared: Arc::new(Mutex::new(shared)),
            limits,
            addresses,
            epoll,
            timer,
            timer_at: u64::MAX,
            clock,
            scratch: vec![0; SCRATCH_BYTES].into(),
            read: None,
            ready: Vec::with_capacity(64),
        })
    }

    /// What has happened on the network.
    pub fn counters(&self) -> Counters {
        lock(&self.shared).counters
    }

    /// What the last attempt to reach a rank ended with, if it failed: for messages to people.
    pub fn trouble(&self, rank: Rank) -> Option<String> {
        lock(&self.shared).why(rank)
    }

    /// Somebody who knows says that a rank has died or left. What it sent before is still handed over, if a connection brings it; then
    /// its end is told.
    pub fn is_gone(&mut self, rank: Rank, why: Down) {
        let mut shared = lock(&self.shared);
        let now = shared.clock.now();
        shared.peer(rank).link.is_gone(why);
        shared.see_to(rank, now);
    }

    /// Tells all that were met that nothing follows behind what was sent; then polls go on until [`Tcp::has_left`].
    pub fn leave(&mut self) {
        let mut shared = lock(&self.shared);
        let now = shared.clock.now();
        shared.for_each(|link| link.leave(), now);
    }

    /// Whether everything that was sent was taken, by all that are still there, and they know that this rank leaves.
    pub fn has_left(&self) -> bool {
        lock(&self.shared).have_all_left()
    }

    /// Whether the system has taken all that was sent: it goes out, whether or not this rank looks.
    pub fn has_sent_all(&self) -> bool {
        lock(&self.shared).has_sent_all()
    }

    /// Whether a poll would find something, as far as the system knows.
    pub fn is_ready(&self) -> bool {
        self.has_news() || epoll::is_ready(&self.epoll)
    }

    /// Becomes readable when there is something to poll.
    pub fn epoll(&self) -> &Arc<OwnedFd> {
        &self.epoll
    }

    /// Hands over what was read, message by message.
    fn hand_over(&mut self, budget: usize, now: u64, events: &mut impl Events) -> usize {
        let mut told = 0;
        while told < budget
            && let Some(Read { from, at, end }) = self.read
        {
            let bytes = &self.scratch[at..end];
            let mut shared = lock(&self.shared);
            let begun = shared.peer(from).link.begun().map(|begun| (begun.header, begun.came, begun.left()));
            if let Some((header, came, left)) = begun {
                let part = &bytes[..left.min(bytes.len())];
                drop(shared);
                if let Some(place) = events.place(&header) {
                    place[came..came + part.len()].copy_from_slice(part);
                }
                let rest = Read { from, at: at + part.len(), end };
                self.read = (rest.at < end).then_some(rest);
                let placed = lock(&self.shared).placed(from, part, now);
                match placed {
                    Ok(whole) => told += self.tell_placed(from, whole, now, events),
                    Err(_) => self.read = None,
                }
                continue;
            }
            match shared.peer(from).link.input(bytes, now) {
                Ok((used, Step::Begun(header))) => {
                    drop(shared);
                    let rest = Read { from, at: at + used, end };
                    self.read = (rest.at < end).then_some(rest);
                    if events.place(&header).is_none() {
                        lock(&self.shared).peer(from).link.keep_begun();
                    }
                }
                Ok((used, Step::Message(header, body))) => {
                    drop(shared);
                    let is_last = at + used == end;
                    self.read = (!is_last).then_some(Read { from, at: at + used, end });
                    events.message(&header, body.payload(bytes));
                    told += 1;
                    if is_last || matches!(body, Body::Kept(_)) {
                        let mut shared = lock(&self.shared);
                        shared.peer(from).link.reuse(body);
                        shared.see_to(from, now);
                    }
                }
                Ok((_, Step::More)) => {
                    shared.see_to(from, now);
                    self.read = None;
                }
                Err(_) => {
                    shared.garbled(from, now);
                    self.read = None;
                }
            }
        }
        told
    }

    /// Hands over a message whose payload has come to its place.
    fn tell_placed(&self, from: Rank, whole: Option<Header>, now: u64, events: &mut impl Events) -> usize {
        let Some(header) = whole else { return 0 };
        events.placed(&header);
        lock(&self.shared).see_to(from, now);
        1
    }

    /// Tells what links have to tell.
    fn tell_news(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let mut told = 0;
        while told < budget {
            let mut shared = lock(&self.shared);
            let Some((rank, news)) = shared.news.pop_front() else { break };
            let link = &shared.peer(rank).link;
            let (delivered, is_over) = (link.delivered(), link.is_over());
            drop(shared);
            match news {
                News::Down(why) => events.down(rank, delivered, why),
                News::Room if is_over => continue,
                News::Room => events.room(rank),
            }
            told += 1;
        }
        told
    }

    /// Looks at what is ready until something was read that is to be handed over, or was handed over; says how many messages were. None: nothing is left.
    fn read_next(&mut self, now: u64, events: &mut impl Events) -> Option<usize> {
        while let Some(token) = self.ready.pop() {
            if token == TIMER {
                epoll::clear_timer(&self.timer);
                self.timer_at = u64::MAX;
                continue;
            }
            let begun = lock(&self.shared).begun(token).cloned();
            if let Some(begun) = begun {
                let told = self.read_in_place(token, &begun, now, events);
                if told > 0 || self.read.is_some() {
                    return Some(told);
                }
                continue;
            }
            if let Some((from, end)) = lock(&self.shared).handle(token, [&mut self.scratch, &mut []], now) {
                self.read = Some(Read { from, at: 0, end });
                return Some(0);
            }
        }
        None
    }

    /// Reads more of a message to where it is to lie; says whether that was the last of it.
    fn read_in_place(&mut self, token: u64, begun: &Begun, now: u64, events: &mut impl Events) -> usize {
        let left = begun.left();
        // Behind it the beginning of the next message.
        let (behind, spare) = self.scratch.split_at_mut(BEHIND_BYTES);
        let into = match events.place(&begun.header) {
            Some(place) => &mut place[begun.came..],
            None => &mut spare[..left],
        };
        let mut shared = lock(&self.shared);
        let Some((from, bytes)) = shared.handle(token, [&mut *into, behind], now) else { return 0 };
        if bytes == left + BEHIND_BYTES {
            // There is more, which waits until others had their turn.
            self.ready.insert(0, token);
        }
        let end = bytes.saturating_sub(left);
        let Ok(whole) = shared.placed(from, &into[..bytes.min(left)], now) else { return 0 };
        drop(shared);
        self.read = (end > 0).then_some(Read { from, at: 0, end });
        self.tell_placed(from, whole, now, events)
    }
}

/// Ends all its links where they are; [`Tcp::leave`] comes before where nothing may get lost.
impl Drop for Tcp {
    fn drop(&mut self) {
        lock(&self.shared).close_all();
    }
}

impl Transport for Tcp {
    type Endpoint = TcpEndpoint;
    type Connector = TcpConnector;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Address {
        address::to_bytes(&self.addresses)
    }

    fn connector(&mut self) -> TcpConnector {
        TcpConnector { shared: Arc::clone(&self.shared), limits: self.limits }
    }

    fn export(&mut self, _memory: Lent) -> Result<RemoteKey, AccessError> {
        Err(AccessError::Unsupported)
    }

    fn withdraw(&mut self, _key: &RemoteKey) {}

    fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let now = self.clock.now();
        lock(&self.shared).begin_look(now);
        let mut told = self.hand_over(budget, now, events);
        if self.read.is_none() {
            self.ready.clear();
            epoll::ready(&self.epoll, &mut self.ready);
        }
        while self.read.is_none()
            && told < budget
            && let Some(placed) = self.read_next(now, events)
        {
            told += placed;
            told += self.hand_over(budget - told, now, events);
        }
        if self.read.is_none() && self.ready.is_empty() {
            // Only now: who has not been read yet is not silent.
            lock(&self.shared).tick(now);
            told += self.tell_news(budget - told, events);
        }
        told
    }

    fn has_news(&self) -> bool {
        self.read.is_some() || !lock(&self.shared).news.is_empty()
    }

    fn arm(&mut self, _sleeper: Sleeper) -> Armed<'_> {
        if self.has_news() {
            return Armed::Busy;
        }
        if epoll::is_ready(&self.epoll) {
            return Armed::Busy;
        }
        let mut shared = lock(&self.shared);
        shared.is_armed = true;
        let next = shared.next_time();
        drop(shared);
        if matches!(self.clock, Clock::Host) && next < self.timer_at {
            self.timer_at = next;
            epoll::set_timer(&self.timer, next);
        }
        Armed::Fd(self.epoll.as_fd())
    }

    fn disarm(&mut self, _sleeper: Sleeper) {}
}
