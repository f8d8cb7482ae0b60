//! A rank's end: what comes in.

use crate::address::{self, CARDS_MAX, CardAt, Reach};
use crate::card::Card;
use crate::endpoint::EspConnector;
use crate::links::{Dropped, Links, Next, PATIENCE_NS, Report};
use castell_base::{Lent, Rank};
use castell_esp::frame::{ETHERNET_BYTES, ETHERTYPE};
use castell_esp::{Address as Place, Communicator, Endpoint, Key, Mac, Search, Settings};
use castell_host::clock::Clock;
use castell_host::epoll;
use castell_host::interfaces;
use castell_host::packet::{Frames, PacketSocket};
use castell_host::random::random_bytes;
use castell_transport::{AccessError, Address, Armed, Down, Events, Limits, RemoteKey, Sleeper, Transport};
use hmac::{Hmac, KeyInit, Mac as _};
use rustix::fd::{AsFd, OwnedFd, RawFd};
use sha2::Sha256;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The descriptors that a rank has inherited, with commas: see [`EspOptions::sockets`].
pub const SOCKETS_VARIABLE: &str = "CASTELL_ESP_FD";

const TIMER: u64 = 0;
/// Of the first card; the others follow.
const SOCKET: u64 = 1;

/// Where the port of the receiver stands in a frame.
const TO_PORT_AT: u32 = ETHERNET_BYTES as u32 + 12;
/// Where the communicator stands.
const COMMUNICATOR_AT: u32 = ETHERNET_BYTES as u32 + 4;

/// How a rank takes part.
#[derive(Clone, Debug)]
pub struct EspOptions {
    /// The interfaces, in this process's network namespace, of which those are taken that there are; none: all of Ethernet that are up.
    pub interfaces: Vec<String>,
    /// Descriptors that this process has inherited: what [`sockets`] gave to another process, which may open them.
    pub sockets: Vec<RawFd>,
    /// The longest payload of a message, bytes.
    pub message_bytes_max: usize,
    /// Where times come from.
    pub clock: Clock,
}

impl Default for EspOptions {
    fn default() -> EspOptions {
        let (interfaces, sockets) = (Vec::new(), Vec::new());
        EspOptions { interfaces, sockets, message_bytes_max: 64 * 1024, clock: Clock::default() }
    }
}

impl EspOptions {
    /// At this interface, all else as usual.
    pub fn at(interface: &str) -> EspOptions {
        EspOptions { interfaces: vec![interface.into()], ..EspOptions::default() }
    }
}

/// Why a rank cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum EspError {
    /// The process may not.
    #[error(
        "castell may not send raw frames at `{interface}`: that needs CAP_NET_RAW. Run as root, or give it to castell on each host, \
         `sudo setcap cap_net_raw+ep $(which castell)`, or to the container, `--cap-add NET_RAW`; or choose `--net tcp`"
    )]
    Forbidden {
        /// The interface.
        interface: String,
    },
    /// None is named, and there is none.
    #[error("no Ethernet interface is up on this host; `ip -br link` shows what there is")]
    NoEthernet,
    /// Too many to try all.
    #[error(
        "raw frames are tried at up to {CARDS_MAX} Ethernet interfaces of a host, and this one has {found}: name those that reach the others, as in \
         `--net esp=eth0,eth1`"
    )]
    TooMany {
        /// Their names, with commas.
        found: String,
    },
    /// There is no interface of any of these names.
    #[error("there is no network interface `{interface}` on this host; `ip -br link` shows which there are")]
    NoInterface {
        /// The names.
        interface: String,
    },
    /// More ranks than ports.
    #[error("rank {0} has no port: frames carry ranks up to 65535")]
    Rank(Rank),
    /// Something of the system's.
    #[error("castell cannot use raw frames at `{interface}`: {what}: {error}")]
    System {
        /// The interface.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
}

/// One rank's end of ESP.
pub struct Esp {
    shared: Arc<Mutex<Links>>,
    limits: Limits,
    reach: Reach,
    clock: Clock,
    epoll: Arc<OwnedFd>,
    timer: OwnedFd,
    timer_at: u64,
    reports: VecDeque<(Rank, Report)>,
    /// The payload that is handed over.
    payload: Vec<u8>,
}

pub(crate) fn lock(shared: &Mutex<Links>) -> MutexGuard<'_, Links> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What only the ranks of a job know, for one purpose.
fn derive(secret: &[u8; 32], purpose: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length will do");
    mac.update(purpose);
    mac.finalize().into_bytes().into()
}

fn settings(mtu_bytes: u16, ranks: u32, message_bytes_max: usize) -> Settings {
    let usual = Settings::default();
    let burst_bytes = usual.initial_burst as usize * usize::from(mtu_bytes);
    let window_bytes = (4 * message_bytes_max).max(2 * burst_bytes).max(512 * 1024);
    Settings {
        mtu_bytes: mtu_bytes.into(),
        send_bytes: window_bytes,
        receive_bytes: window_bytes,
        connections_max: 2 * ranks as usize + 16,
        handshake_ns: PATIENCE_NS,
        // What a socket keeps if its owner does not look for a moment (`net.core.rmem_max` is 208 KiB where nobody has changed it).
        pace_frames_max: 128,
        ..usual
    }
}

fn communicator_of(secret: &[u8; 32]) -> Communicator {
    let named = derive(secret, b"castell esp communicator");
    Communicator(u64::from_le_bytes(named[..8].try_into().expect("eight bytes")))
}

fn port_of(rank: Rank) -> Result<u16, EspError> {
    u16::try_from(rank.0).map_err(|_| EspError::Rank(rank))
}

/// What gets the frames for rank `me` of the job with this secret, and no others, at these interfaces, as far as there are such; none: at all of Ethernet
/// that are up. Whoever may, opens them for a rank that may not.
///
/// # Errors
/// None of the interfaces can be had, or the process may not use one.
pub fn sockets(me: Rank, secret: &[u8; 32], interfaces: &[String]) -> Result<Vec<PacketSocket>, EspError> {
    let found = if interfaces.is_empty() { interfaces::ethernets() } else { interfaces.to_vec() };
    if found.is_empty() {
        return Err(EspError::NoEthernet);
    }
    if found.len() > CARDS_MAX {
        return Err(EspError::TooMany { found: found.join(", ") });
    }
    let mut sockets = Vec::new();
    for interface in &found {
        match socket(me, secret, interface) {
            Ok(socket) => sockets.push(socket),
            Err(EspError::NoInterface { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if sockets.is_empty() {
        return Err(EspError::NoInterface { interface: found.join("`, `") });
    }
    Ok(sockets)
}

fn socket(me: Rank, secret: &[u8; 32], interface: &str) -> Result<PacketSocket, EspError> {
    let mut pairs = vec![(TO_PORT_AT, port_of(me)?.to_le_bytes())];
    let halves = communicator_of(secret).0.to_le_bytes();
    for (at, half) in (COMMUNICATOR_AT..).step_by(2).zip(halves.as_chunks::<2>().0) {
        pairs.push((at, *half));
    }
    let opened = PacketSocket::open(interface, Frames::Only { ethertype: ETHERTYPE, pairs: &pairs });
    opened.map_err(|error| {
        let interface = interface.to_owned();
        match error.kind() {
            ErrorKind::PermissionDenied => EspError::Forbidden { interface },
            _ if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                EspError::NoInterface { interface }
            }
            _ => EspError::System { interface, what: "open a packet socket", error },
        }
    })
}

/// Something of the system's that did not work, at this interface.
fn because<E: Into<std::io::Error>>(
    interface: &str,
    what: &'static str,
) -> impl FnOnce(E) -> EspError + use<E> {
    let interface = interface.to_owned();
    move |error| EspError::System { interface, what, error: error.into() }
}

/// Where a socket's card is found.
fn card_at(socket: &PacketSocket) -> Result<CardAt, EspError> {
    let name = socket.interface();
    let mac = Mac(socket.mac().map_err(because(&name, "find its hardware address"))?);
    let mtu = socket.mtu_bytes().map_err(because(&name, "find its MTU"))?;
    Ok(CardAt { mac, mtu_bytes: mtu.clamp(128, 65_000) as u16, name })
}

impl Esp {
    /// The end of rank `me` of a job of so many, whose secret all its ranks know.
    ///
    /// # Errors
    /// No interface can be had, or the process may not use one.
    pub fn new(me: Rank, ranks: u32, secret: &[u8; 32], options: &EspOptions) -> Result<Esp, EspError> {
        let port = port_of(me)?;
        let mut sockets = if options.sockets.is_empty() {
            sockets(me, secret, &options.interfaces)?
        } else {
            let inherited: std::io::Result<Vec<_>> =
                options.sockets.iter().map(|number| PacketSocket::inherited(*number)).collect();
            let names = options.interfaces.join(",");
            let what = "use the packet sockets that castell's agent has opened";
            inherited.map_err(because(&names, what))?
        };
        sockets.sort_by_key(PacketSocket::interface);
        let key = || Key::new(derive(secret, b"castell esp key")[..16].try_into().expect("sixteen bytes"));
        let names = sockets.iter().map(PacketSocket::interface).collect::<Vec<_>>().join(",");
        let nonce = || random_bytes().map_err(because(&names, "draw random numbers"));
        let epoll = Arc::new(epoll::epoll().map_err(because(&names, "make an epoll"))?);
        let timer = epoll::timer().map_err(because(&names, "make a timer"))?;
        epoll::watch(&epoll, &timer, TIMER, false).map_err(because(&names, "watch a timer"))?;
        let (mut cards, mut reach) = (Vec::new(), Reach { port, cards: Vec::new() });
        for (socket, token) in sockets.into_iter().zip(SOCKET..) {
            let at = card_at(&socket)?;
            epoll::watch(&epoll, &socket, token, false).map_err(because(&at.name, "watch a socket"))?;
            let settings = settings(at.mtu_bytes, ranks, options.message_bytes_max);
            let endpoint = Endpoint::new(Place { mac: at.mac, port }, key(), &nonce()?, &settings);
            reach.cards.push(at.clone());
            cards.push(Card::new(at, endpoint, socket));
        }
        let (communicator, clock) = (communicator_of(secret), options.clock.clone());
        let macs: Vec<Mac> = cards.iter().map(Card::mac).collect();
        let search = Search::new(port, &macs, communicator, (key(), &nonce()?), PATIENCE_NS);
        let links = Links::new(
            (me, ranks),
            communicator,
            (cards.into(), search),
            options.message_bytes_max,
            clock.clone(),
        );
        Ok(Esp {
            shared: Arc::new(Mutex::new(links)),
            limits: Limits { tells_room: true, ..Limits::messages_only("esp", options.message_bytes_max) },
            reach,
            clock,
            epoll,
            timer,
            timer_at: u64::MAX,
            reports: VecDeque::new(),
            payload: Vec::new(),
        })
    }

    /// As after so many messages of that rank, before the first one. For tests.
    #[doc(hidden)]
    pub fn grow_old(&mut self, rank: Rank, delivered: u32) {
        lock(&self.shared).grow_old(rank, delivered);
    }

    /// What was dropped, and why.
    pub fn dropped(&self) -> Dropped {
        lock(&self.shared).dropped()
    }

    /// Somebody who knows says that a rank has died or left. What it sent before is still handed over; then its end is told.
    pub fn is_gone(&mut self, rank: Rank, why: Down) {
        lock(&self.shared).is_gone(rank, why);
    }

    /// Tells all that were met that nothing follows behind what was sent; then polls go on until [`Esp::has_left`].
    pub fn leave(&mut self) {
        let mut shared = lock(&self.shared);
        let now = shared.clock.now();
        shared.leave(now);
    }

    /// Whether everything that was sent was taken, by all that are still there, and they know that this rank leaves.
    pub fn has_left(&self) -> bool {
        lock(&self.shared).has_left()
    }

    /// What became of the way to a rank, told once after a poll.
    pub fn report(&mut self) -> Option<(Rank, Report)> {
        self.reports.pop_front()
    }

    /// Whether a poll would find something, as far as the system knows.
    pub fn is_ready(&self) -> bool {
        self.has_news() || epoll::is_ready(&self.epoll)
    }

    /// Becomes readable when there is something to poll.
    pub fn epoll(&self) -> &Arc<OwnedFd> {
        &self.epoll
    }

    /// While a frame waits for the socket's room, that is news, too.
    fn watch_room(&mut self) {
        for (card, token) in lock(&self.shared).cards.iter_mut().zip(SOCKET..) {
            if card.is_waiting() != card.watches_room {
                card.watches_room = card.is_waiting();
                // An epoll that forgets a socket can't happen, and would show as a silent peer.
                let _ = epoll::watch_again(&self.epoll, card.socket(), token, true, card.watches_room);
            }
        }
    }
}

/// Ends all its connections where they are; [`Esp::leave`] comes before where nothing may get lost.
impl Drop for Esp {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        let now = shared.clock.now();
        shared.close(now);
    }
}

impl Transport for Esp {
    type Endpoint = crate::EspEndpoint;
    type Connector = EspConnector;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Address {
        address::to_bytes(&self.reach)
    }

    fn connector(&mut self) -> EspConnector {
        EspConnector { shared: Arc::clone(&self.shared), limits: self.limits }
    }

    fn export(&mut self, _memory: Lent) -> Result<RemoteKey, AccessError> {
        Err(AccessError::Unsupported)
    }

    fn withdraw(&mut self, _key: &RemoteKey) {}

    fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let now = self.clock.now();
        if self.timer_at <= now {
            epoll::clear_timer(&self.timer);
            self.timer_at = u64::MAX;
        }
        lock(&self.shared).listen(now);
        let mut told = 0;
        while told < budget {
            // Not held meanwhile: who hears a message may answer it.
            let Some(next) = lock(&self.shared).next(&mut self.payload, now) else { break };
            match next {
                Next::Message(header) => events.message(&header, &self.payload),
                Next::Down(rank, delivered, why) => events.down(rank, delivered, why),
                Next::Room(rank) => events.room(rank),
            }
            told += 1;
        }
        let mut shared = lock(&self.shared);
        shared.transmit(now);
        while let Some(report) = shared.report() {
            self.reports.push_back(report);
        }
        told
    }

    fn has_news(&self) -> bool {
        lock(&self.shared).has_news()
    }

    fn arm(&mut self, _sleeper: Sleeper) -> Armed<'_> {
        let now = self.clock.now();
        lock(&self.shared).transmit(now);
        // First: a socket that is watched for room which nobody needs any more always has something to tell.
        self.watch_room();
        if self.is_ready() {
            return Armed::Busy;
        }
        let next = lock(&self.shared).sleeps_until();
        if matches!(self.clock, Clock::Host) && next < self.timer_at {
            self.timer_at = next;
            epoll::set_timer(&self.timer, next);
        }
        Armed::Fd(self.epoll.as_fd())
    }

    fn disarm(&mut self, _sleeper: Sleeper) {}
}
