//! Groups of ranks over real sockets in one thread: the clock is the test's, so that nothing depends on how busy the machine is, and
//! whoever finds nothing while something is under way gives the system a moment.

pub mod relay;

use castell_base::{Lent, Rank};
use castell_tcp::{Clock, Secret, Settings, Tcp, TcpConnector, TcpEndpoint, TcpOptions};
use castell_transport::conformance::Group;
use castell_transport::faults::{Faults, Faulty, FaultyConnector, FaultyEndpoint, Profile};
use castell_transport::{
    AccessError, Address, Armed, Connector, Cost, Down, Endpoint, Events, Header, Limits, Refused, RemoteKey,
    Sleeper, Transport, Unreachable, Urgency,
};
use relay::{Relay, Weather};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// How long a sleeper waits for what is under way. Loaded machines are normal.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much time each look takes, and how much while a path's end is waited for.
const TICK_NS: u64 = 2_000;
const QUICK_TICK_NS: u64 = 50_000;

/// The relay works once in so many looks: it makes a system call for each door and connection.
const LOOKS_A_PUMP: u64 = 8;

/// What kind of group.
#[derive(Clone, Debug)]
pub struct Options {
    pub listen: Vec<IpAddr>,
    pub message_bytes_max: usize,
    pub window_bytes: usize,
    pub profile: Profile,
    /// All connections go through a relay in which this happens.
    pub weather: Option<Weather>,
    /// How many connections that relay has harmed.
    pub harmed: Arc<AtomicU64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: vec![V4],
            message_bytes_max: 5000,
            window_bytes: 1 << 16,
            profile: Profile::default(),
            weather: None,
            harmed: Arc::default(),
        }
    }
}

/// What is under way between the ranks of a group.
#[derive(Default)]
struct World {
    /// By sender and receiver.
    sent: BTreeMap<(u32, u32), u64>,
    flushed: BTreeMap<(u32, u32), u64>,
    came: BTreeMap<(u32, u32), u64>,
    /// Who was refused by whom, and is to be told of room.
    refused: BTreeSet<(u32, u32)>,
    relay: Option<Relay>,
    clock: Arc<AtomicU64>,
    tick_ns: u64,
    looks: u64,
}

type Shared = Arc<Mutex<World>>;

fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    fn moves_on(&mut self) {
        self.clock.fetch_add(self.tick_ns, Ordering::Relaxed);
        self.looks += 1;
        if let Some(relay) = self.relay.as_mut().filter(|_| self.looks.is_multiple_of(LOOKS_A_PUMP)) {
            relay.pump();
        }
    }

    fn is_under_way(&self) -> bool {
        let is_late = |(pair, sent): (&(u32, u32), &u64)| *sent > self.came.get(pair).copied().unwrap_or(0);
        self.sent.iter().any(is_late) || !self.refused.is_empty()
    }

    fn is_coming_to(&self, to: u32) -> bool {
        let mut pairs = self.flushed.iter().filter(|((_, receiver), _)| *receiver == to);
        pairs.any(|(pair, sent)| *sent > self.came.get(pair).copied().unwrap_or(0))
    }
}

pub struct Ranks {
    world: Shared,
    ends: Vec<Patient>,
    make: Box<dyn Fn(u32) -> Patient>,
}

impl Ranks {
    pub fn new(ranks: u32, seed: u64, options: &Options) -> Ranks {
        let clock = Arc::new(AtomicU64::new(1_000_000_000));
        let relay = options.weather.map(|weather| Relay::new(seed, weather, Arc::clone(&options.harmed)));
        let world = World { relay, clock: Arc::clone(&clock), tick_ns: TICK_NS, ..World::default() };
        let world: Shared = Arc::new(Mutex::new(world));
        let settings = Settings {
            message_bytes_max: options.message_bytes_max,
            window_bytes: options.window_bytes,
            acknowledge_ns: 2_000_000,
            redial_ns: 500_000,
            resume_ns: 60_000_000,
            ..Settings::default()
        };
        let tcp = TcpOptions { listen: options.listen.clone(), settings, clock: Clock::Virtual(clock) };
        let secret = Secret::new([seed as u8; 32]);
        let faults = Faults::new(seed, options.profile);
        let shared = Arc::clone(&world);
        let make = move |rank| {
            let inner = Tcp::new(Rank(rank), ranks, secret.clone(), &tcp).expect("a socket");
            Patient { inner: faults.wrap(Rank(rank), inner), me: rank, world: Arc::clone(&shared) }
        };
        Ranks { world, ends: (0..ranks).map(&make).collect(), make: Box::new(make) }
    }

    /// Nobody waits for what goes to or comes from a rank.
    fn forget(&self, rank: u32) {
        let mut world = lock(&self.world);
        let is_its = |(from, to): &(u32, u32)| *from == rank || *to == rank;
        world.sent.retain(|pair, _| !is_its(pair));
        world.flushed.retain(|pair, _| !is_its(pair));
        world.refused.retain(|pair| !is_its(pair));
    }
}

impl Group for Ranks {
    type Transport = Patient;

    fn transport(&mut self, rank: Rank) -> &mut Patient {
        lock(&self.world).moves_on();
        &mut self.ends[rank.index()]
    }

    fn end(&mut self, rank: Rank, why: Down) -> bool {
        match why {
            Down::Died => {
                self.forget(rank.0);
                // The system closes its sockets; the launcher tells the others.
                self.ends[rank.index()] = (self.make)(rank.0);
                for end in self.ends.iter_mut().filter(|end| end.me != rank.0) {
                    end.inner.inner().is_gone(rank, Down::Died);
                }
            }
            Down::Left => self.ends[rank.index()].inner.inner().leave(),
            Down::PathLost => {
                self.forget(rank.0);
                let mut world = lock(&self.world);
                world.tick_ns = QUICK_TICK_NS;
                let Some(relay) = &mut world.relay else { return false };
                relay.sever(0, rank.0);
            }
        }
        true
    }

    /// Through a relay that cuts, what is under way may need many attempts.
    fn patience(&self) -> usize {
        let world = lock(&self.world);
        if world.relay.is_some() && world.is_under_way() { 100_000 } else { 3000 }
    }

    fn memory(&mut self, _rank: Rank, bytes: usize) -> Lent {
        Lent::leak(bytes)
    }
}

/// An end that gives the system a moment.
pub struct Patient {
    inner: Faulty<Tcp>,
    me: u32,
    world: Shared,
}

struct Counting<'a, E: Events> {
    me: u32,
    world: &'a Shared,
    events: &'a mut E,
}

impl<E: Events> Events for Counting<'_, E> {
    fn message(&mut self, header: &Header, payload: &[u8]) {
        *lock(self.world).came.entry((header.source, self.me)).or_default() += 1;
        self.events.message(header, payload);
    }

    fn room(&mut self, peer: Rank) {
        lock(self.world).refused.remove(&(self.me, peer.0));
        self.events.room(peer);
    }

    fn down(&mut self, peer: Rank, delivered: u32, why: Down) {
        self.events.down(peer, delivered, why);
    }
}

impl Transport for Patient {
    type Endpoint = PatientEndpoint;
    type Connector = PatientConnector;

    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn address(&self) -> Address {
        self.inner.address()
    }

    fn connector(&mut self) -> PatientConnector {
        PatientConnector { inner: self.inner.connector(), me: self.me, world: Arc::clone(&self.world) }
    }

    fn export(&mut self, memory: Lent) -> Result<RemoteKey, AccessError> {
        self.inner.export(memory)
    }

    fn withdraw(&mut self, key: &RemoteKey) {
        self.inner.withdraw(key);
    }

    fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let told = self.inner.poll(budget, &mut Counting { me: self.me, world: &self.world, events });
        if told == 0 && budget > 0 && lock(&self.world).is_under_way() {
            match lock(&self.world).relay {
                // It makes system calls enough.
                Some(_) => std::thread::yield_now(),
                None => std::thread::sleep(Duration::from_micros(1)),
            }
        }
        told
    }

    fn has_news(&self) -> bool {
        self.inner.has_news()
    }

    fn arm(&mut self, sleeper: Sleeper) -> Armed<'_> {
        let mut waited = Duration::ZERO;
        while lock(&self.world).is_coming_to(self.me) && waited < PATIENCE {
            match self.inner.arm(sleeper) {
                Armed::Fd(epoll) => {
                    let step = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                    let _ = poll(&mut [PollFd::new(&epoll, PollFlags::IN)], Some(&step));
                }
                _ => return Armed::Busy,
            }
            lock(&self.world).moves_on();
            waited += Duration::from_millis(1);
        }
        self.inner.arm(sleeper)
    }

    fn disarm(&mut self, sleeper: Sleeper) {
        self.inner.disarm(sleeper);
    }
}

pub struct PatientConnector {
    inner: FaultyConnector<TcpConnector>,
    me: u32,
    world: Shared,
}

impl Connector for PatientConnector {
    type Endpoint = PatientEndpoint;

    fn route(&self, to: &Address) -> Option<Cost> {
        self.inner.route(to)
    }

    fn connect(&mut self, to: Rank, at: &Address) -> Result<PatientEndpoint, Unreachable> {
        let by_relay = lock(&self.world).relay.as_mut().map(|relay| relay.stand_before(self.me, to.0, at));
        let inner = self.inner.connect(to, by_relay.as_ref().unwrap_or(at))?;
        Ok(PatientEndpoint { inner, pair: (self.me, to.0), world: Arc::clone(&self.world) })
    }
}

pub struct PatientEndpoint {
    inner: FaultyEndpoint<TcpEndpoint>,
    pair: (u32, u32),
    world: Shared,
}

impl Endpoint for PatientEndpoint {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        if let Err(refused) = self.inner.try_send(header, payload) {
            if refused == Refused::Full {
                lock(&self.world).refused.insert(self.pair);
            }
            return Err(refused);
        }
        *lock(&self.world).sent.entry(self.pair).or_default() += 1;
        Ok(())
    }

    fn flush(&mut self, urgency: Urgency) -> bool {
        let mut world = lock(&self.world);
        let sent = world.sent.get(&self.pair).copied().unwrap_or(0);
        world.flushed.insert(self.pair, sent);
        drop(world);
        self.inner.flush(urgency)
    }
}
