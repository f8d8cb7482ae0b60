//! Groups of ranks, each on a host of its own, in one thread. The clock is the test's, so that nothing depends on how busy the machine is;
//! whoever finds nothing while something is under way gives the system a moment.

use super::Hosts;
use castell_base::{Lent, Rank};
use castell_frames::{Esp, EspConnector, EspEndpoint, EspOptions};
use castell_host::clock::Clock;
use castell_transport::conformance::Group;
use castell_transport::{
    AccessError, Address, Armed, Connector, Cost, Down, Endpoint, Events, Header, Limits, Refused, RemoteKey,
    Sleeper, Transport, Unreachable, Urgency,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a sleeper waits for what is under way. Loaded machines are normal.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much time each look takes, and how much once a rank has ended: that is believed 50 ms after it was told.
const TICK_NS: u64 = 2_000;
const QUICK_TICK_NS: u64 = 50_000;

/// What is under way between the ranks of a group, by sender and receiver.
#[derive(Default)]
struct World {
    sent: BTreeMap<(u32, u32), u64>,
    flushed: BTreeMap<(u32, u32), u64>,
    came: BTreeMap<(u32, u32), u64>,
    refused: BTreeSet<(u32, u32)>,
}

type Shared = Arc<Mutex<World>>;

fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    fn has_come(&self, pair: (u32, u32), sent: u64) -> bool {
        self.came.get(&pair).is_some_and(|came| *came >= sent) || sent == 0
    }

    fn is_under_way(&self) -> bool {
        !self.refused.is_empty() || self.sent.iter().any(|(pair, sent)| !self.has_come(*pair, *sent))
    }

    fn is_coming_to(&self, to: u32) -> bool {
        self.flushed.iter().any(|(pair, sent)| pair.1 == to && !self.has_come(*pair, *sent))
    }
}

pub struct Ranks {
    world: Shared,
    clock: Arc<AtomicU64>,
    tick_ns: u64,
    ends: Vec<Patient>,
    make: Box<dyn Fn(u32) -> Patient>,
}

impl Ranks {
    /// `secret`: another one for each group, so that none hears another.
    pub fn new(hosts: &Rc<Hosts>, ranks: u32, secret: u8, message_bytes_max: usize) -> Ranks {
        let clock = Arc::new(AtomicU64::new(1_000_000_000));
        let world = Shared::default();
        let options = EspOptions {
            message_bytes_max,
            clock: Clock::Virtual(Arc::clone(&clock)),
            ..EspOptions::at("e0")
        };
        let (hosts, shared) = (Rc::clone(hosts), Arc::clone(&world));
        let make = move |rank: u32| {
            let made = hosts.on(rank as usize, || Esp::new(Rank(rank), ranks, &[secret; 32], &options));
            Patient {
                inner: made.unwrap_or_else(|error| panic!("{error}")),
                me: rank,
                world: Arc::clone(&shared),
            }
        };
        Ranks { world, clock, tick_ns: TICK_NS, ends: (0..ranks).map(&make).collect(), make: Box::new(make) }
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
        self.clock.fetch_add(self.tick_ns, Ordering::Relaxed);
        &mut self.ends[rank.index()]
    }

    fn end(&mut self, rank: Rank, why: Down) -> bool {
        self.tick_ns = QUICK_TICK_NS;
        match why {
            Down::Died => {
                self.forget(rank.0);
                // Another process is in its place; the launcher tells the others.
                self.ends[rank.index()] = (self.make)(rank.0);
                for end in self.ends.iter_mut().filter(|end| end.me != rank.0) {
                    end.inner.is_gone(rank, Down::Died);
                }
            }
            Down::Left => self.ends[rank.index()].inner.leave(),
            // The segment loses nobody alone.
            Down::PathLost => return false,
        }
        true
    }

    fn patience(&self) -> usize {
        let is_waited_for = lock(&self.world).is_under_way();
        if is_waited_for { 2_000_000 } else { 3000 }
    }
}

/// An end that gives the system a moment.
pub struct Patient {
    inner: Esp,
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
            std::thread::sleep(Duration::from_micros(1));
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
            waited += Duration::from_millis(1);
        }
        self.inner.arm(sleeper)
    }

    fn disarm(&mut self, sleeper: Sleeper) {
        self.inner.disarm(sleeper);
    }
}

pub struct PatientConnector {
    inner: EspConnector,
    me: u32,
    world: Shared,
}

impl Connector for PatientConnector {
    type Endpoint = PatientEndpoint;

    fn route(&self, to: &Address) -> Option<Cost> {
        self.inner.route(to)
    }

    fn connect(&mut self, to: Rank, at: &Address) -> Result<PatientEndpoint, Unreachable> {
        let inner = self.inner.connect(to, at)?;
        Ok(PatientEndpoint { inner, pair: (self.me, to.0), world: Arc::clone(&self.world) })
    }
}

pub struct PatientEndpoint {
    inner: EspEndpoint,
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
