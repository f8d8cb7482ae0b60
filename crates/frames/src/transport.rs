//! A rank's end: what comes in.

use crate::address::{self, Reach};
use crate::endpoint::EspConnector;
use crate::links::{Dropped, Links, Next};
use castell_base::{Lent, Rank};
use castell_esp::frame::{ETHERNET_BYTES, ETHERTYPE};
use castell_esp::{Address as Place, Communicator, Endpoint, Key, Mac, Settings};
use castell_host::clock::Clock;
use castell_host::epoll;
use castell_host::interfaces::{self, NotOne};
use castell_host::packet::{Frames, PacketSocket};
use castell_host::random::random_bytes;
use castell_transport::{AccessError, Address, Armed, Down, Events, Limits, RemoteKey, Sleeper, Transport};
use hmac::{Hmac, KeyInit, Mac as _};
use rustix::fd::{AsFd, OwnedFd, RawFd};
use sha2::Sha256;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The descriptor that a rank has inherited: see [`EspOptions::socket`].
pub const SOCKET_VARIABLE: &str = "CASTELL_ESP_FD";

const SOCKET: u64 = 0;
const TIMER: u64 = 1;

/// Where the port of the receiver stands in a frame.
const TO_PORT_AT: u32 = ETHERNET_BYTES as u32 + 12;
/// Where the communicator stands.
const COMMUNICATOR_AT: u32 = ETHERNET_BYTES as u32 + 4;

/// How a rank takes part.
#[derive(Clone, Debug)]
pub struct EspOptions {
    /// The interface, in this process's network namespace; empty: the only one that is up.
    pub interface: String,
    /// A descriptor that this process has inherited: what [`socket`] gave to another process, which may open one.
    pub socket: Option<RawFd>,
    /// The longest payload of a message, bytes.
    pub message_bytes_max: usize,
    /// Where times come from.
    pub clock: Clock,
}

impl EspOptions {
    /// At this interface, all else as usual.
    pub fn at(interface: &str) -> EspOptions {
        EspOptions {
            interface: interface.into(),
            socket: None,
            message_bytes_max: 64 * 1024,
            clock: Clock::default(),
        }
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
    /// None is named, and there is not one only.
    #[error("{0}, as in `--net esp=eth0`")]
    NotOne(#[from] NotOne),
    /// There is no interface of this name.
    #[error("there is no network interface `{interface}` on this host; `ip -br link` shows which there are")]
    NoInterface {
        /// The interface.
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
    watches_room: bool,
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

/// What gets the frames for rank `me` of the job with this secret, and no others, at an interface; empty: the only one that is up. Whoever may, opens
/// it for a rank that may not.
///
/// # Errors
/// The interface can't be had, or the process may not use it.
pub fn socket(me: Rank, secret: &[u8; 32], interface: &str) -> Result<PacketSocket, EspError> {
    let mut pairs = vec![(TO_PORT_AT, port_of(me)?.to_le_bytes())];
    let halves = communicator_of(secret).0.to_le_bytes();
    for (at, half) in (COMMUNICATOR_AT..).step_by(2).zip(halves.as_chunks::<2>().0) {
        pairs.push((at, *half));
    }
    let interface = interfaces::ethernet(interface)?;
    let opened = PacketSocket::open(&interface, Frames::Only { ethertype: ETHERTYPE, pairs: &pairs });
    opened.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => EspError::Forbidden { interface },
        _ if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
            EspError::NoInterface { interface }
        }
        _ => EspError::System { interface, what: "open a packet socket", error },
    })
}

impl Esp {
    /// The end of rank `me` of a job of so many, whose secret all its ranks know.
    ///
    /// # Errors
    /// The interface can't be had, or the process may not use it.
    pub fn new(me: Rank, ranks: u32, secret: &[u8; 32], options: &EspOptions) -> Result<Esp, EspError> {
        let port = port_of(me)?;
        let (socket, name) = match options.socket {
            Some(number) => (PacketSocket::inherited(number), options.interface.clone()),
            None => (Ok(socket(me, secret, &options.interface)?), interfaces::ethernet(&options.interface)?),
        };
        let interface = || name.clone();
        let because = |what: &'static str| {
            move |error: std::io::Error| EspError::System { interface: interface(), what, error }
        };
        let socket = socket.map_err(because("use the packet socket that castell's agent has opened"))?;
        let key = Key::new(derive(secret, b"castell esp key")[..16].try_into().expect("sixteen bytes"));
        let mac = Mac(socket.mac().map_err(because("find its hardware address"))?);
        let mtu = socket.mtu_bytes().map_err(because("find its MTU"))?;
        let mtu_bytes = mtu.clamp(128, 65_000) as u16;
        let reach = Reach { place: Place { mac, port }, mtu_bytes };
        let system = |error: rustix::io::Errno| error.into();
        let epoll = Arc::new(epoll::epoll().map_err(system).map_err(because("make an epoll"))?);
        let timer = epoll::timer().map_err(system).map_err(because("make a timer"))?;
        epoll::watch(&epoll, &timer, TIMER, false).map_err(system).map_err(because("watch a timer"))?;
        epoll::watch(&epoll, &socket, SOCKET, false).map_err(system).map_err(because("watch a socket"))?;
        let nonce = random_bytes().map_err(because("draw random numbers"))?;
        let settings = settings(mtu_bytes, ranks, options.message_bytes_max);
        let endpoint = Endpoint::new(reach.place, key, &nonce, &settings);
        let clock = options.clock.clone();
        let links = Links::new(
            (me, ranks),
            (endpoint, communicator_of(secret)),
            (socket, mtu_bytes),
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
            watches_room: false,
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
        let shared = lock(&self.shared);
        if shared.is_waiting() != self.watches_room {
            self.watches_room = shared.is_waiting();
            // An epoll that forgets a socket can't happen, and would show as a silent peer.
            let _ = epoll::watch_again(&self.epoll, shared.socket(), SOCKET, true, self.watches_room);
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
        address::to_bytes(self.reach)
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
        lock(&self.shared).transmit(now);
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
