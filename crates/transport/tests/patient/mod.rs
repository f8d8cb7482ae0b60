//! Ends of transports over real sockets, all in one thread: whoever finds nothing while something is under way gives the system a moment, so
//! that nothing depends on how busy the machine is. Tests of several crates include this file.

use castell_base::{Lent, Rank};
use castell_transport::{
    AccessError, Address, Armed, Connector, Cost, Down, Endpoint, Events, Header, Limits, Refused, RemoteKey,
    Sleeper, Token, Transport, Unreachable, Urgency,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// How long a sleeper waits for what is under way. Loaded machines are normal.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is under way between the ranks of a group.
#[derive(Default)]
pub struct UnderWay {
    /// By sender and receiver.
    sent: BTreeMap<(u32, u32), u64>,
    flushed: BTreeMap<(u32, u32), u64>,
    came: BTreeMap<(u32, u32), u64>,
    /// Who was refused by whom, and is to be told of room.
    refused: BTreeSet<(u32, u32)>,
    /// One-sided operations that have not ended: of whom at whom.
    operations: BTreeMap<(u32, u32), u64>,
}

impl UnderWay {
    fn is_late(&self, pair: (u32, u32), sent: u64) -> bool {
        sent > self.came.get(&pair).copied().unwrap_or(0)
    }

    pub fn is_something(&self) -> bool {
        !self.refused.is_empty()
            || self.operations.values().any(|count| *count > 0)
            || self.sent.iter().any(|(pair, sent)| self.is_late(*pair, *sent))
    }

    fn is_coming_to(&self, to: u32) -> bool {
        self.flushed.iter().any(|(pair, sent)| pair.1 == to && self.is_late(*pair, *sent))
    }

    /// Nobody waits for what goes to or comes from a rank.
    pub fn forget(&mut self, rank: u32) {
        let is_its = |(from, to): &(u32, u32)| *from == rank || *to == rank;
        self.sent.retain(|pair, _| !is_its(pair));
        self.flushed.retain(|pair, _| !is_its(pair));
        self.refused.retain(|pair| !is_its(pair));
        self.operations.retain(|pair, _| !is_its(pair));
    }
}

/// What is between the ranks of a group.
pub trait Between {
    fn under_way(&mut self) -> &mut UnderWay;

    /// Somebody waits.
    fn moves_on(&mut self) {}

    /// Whether it makes so many system calls that nobody has to sleep.
    fn is_busy(&self) -> bool {
        false
    }

    /// Where `from` finds a door to `to`, if it is not the address itself.
    fn door(&mut self, _from: u32, _to: u32, _at: &Address) -> Option<Address> {
        None
    }
}

impl Between for UnderWay {
    fn under_way(&mut self) -> &mut UnderWay {
        self
    }
}

pub type Shared<W> = Arc<Mutex<W>>;

pub fn lock<W>(world: &Shared<W>) -> MutexGuard<'_, W> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An end that gives the system a moment.
pub struct Patient<T, W> {
    pub inner: T,
    pub me: u32,
    pub world: Shared<W>,
}

struct Counting<'a, W, E: Events> {
    me: u32,
    world: &'a Shared<W>,
    events: &'a mut E,
}

impl<W: Between, E: Events> Events for Counting<'_, W, E> {
    fn message(&mut self, header: &Header, payload: &[u8]) {
        *lock(self.world).under_way().came.entry((header.source, self.me)).or_default() += 1;
        self.events.message(header, payload);
    }

    fn place(&mut self, header: &Header) -> Option<&mut [u8]> {
        self.events.place(header)
    }

    fn placed(&mut self, header: &Header) {
        *lock(self.world).under_way().came.entry((header.source, self.me)).or_default() += 1;
        self.events.placed(header);
    }

    fn room(&mut self, peer: Rank) {
        lock(self.world).under_way().refused.remove(&(self.me, peer.0));
        self.events.room(peer);
    }

    fn completed(&mut self, token: Token, outcome: Result<u64, AccessError>) {
        // The conformance suite's tokens name the peer.
        let pair = (self.me, (token.0 >> 32) as u32);
        if let Some(count) = lock(self.world).under_way().operations.get_mut(&pair) {
            *count = count.saturating_sub(1);
        }
        self.events.completed(token, outcome);
    }

    fn notified(&mut self, peer: Rank, notice: u32) {
        self.events.notified(peer, notice);
    }

    fn down(&mut self, peer: Rank, delivered: u32, why: Down) {
        self.events.down(peer, delivered, why);
    }
}

impl<T: Transport, W: Between + Send + 'static> Transport for Patient<T, W> {
    type Endpoint = PatientEndpoint<T::Endpoint, W>;
    type Connector = PatientConnector<T::Connector, W>;

    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn address(&self) -> Address {
        self.inner.address()
    }

    fn connector(&mut self) -> Self::Connector {
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
        if told == 0 && budget > 0 && lock(&self.world).under_way().is_something() {
            if lock(&self.world).is_busy() {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(1));
            }
        }
        told
    }

    fn has_news(&self) -> bool {
        self.inner.has_news()
    }

    fn arm(&mut self, sleeper: Sleeper) -> Armed<'_> {
        let mut waited = Duration::ZERO;
        while lock(&self.world).under_way().is_coming_to(self.me) && waited < PATIENCE {
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

pub struct PatientConnector<C, W> {
    inner: C,
    me: u32,
    world: Shared<W>,
}

impl<C: Connector, W: Between + Send + 'static> Connector for PatientConnector<C, W> {
    type Endpoint = PatientEndpoint<C::Endpoint, W>;

    fn route(&self, to: &Address) -> Option<Cost> {
        self.inner.route(to)
    }

    fn connect(&mut self, to: Rank, at: &Address) -> Result<Self::Endpoint, Unreachable> {
        let door = lock(&self.world).door(self.me, to.0, at);
        let inner = self.inner.connect(to, door.as_ref().unwrap_or(at))?;
        Ok(PatientEndpoint { inner, pair: (self.me, to.0), world: Arc::clone(&self.world) })
    }
}

pub struct PatientEndpoint<E, W> {
    inner: E,
    pair: (u32, u32),
    world: Shared<W>,
}

impl<E: Endpoint, W: Between + Send> Endpoint for PatientEndpoint<E, W> {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        let sent = self.inner.try_send(header, payload);
        let mut world = lock(&self.world);
        match sent {
            Ok(()) => *world.under_way().sent.entry(self.pair).or_default() += 1,
            Err(Refused::Full) => _ = world.under_way().refused.insert(self.pair),
            Err(_) => {}
        }
        sent
    }

    fn flush(&mut self, urgency: Urgency) -> bool {
        let mut world = lock(&self.world);
        let under_way = world.under_way();
        let sent = under_way.sent.get(&self.pair).copied().unwrap_or(0);
        under_way.flushed.insert(self.pair, sent);
        drop(world);
        self.inner.flush(urgency)
    }

    fn get(&mut self, from: &RemoteKey, at: u64, into: Lent, token: Token) -> Result<Poll<()>, AccessError> {
        let begun = self.inner.get(from, at, into, token);
        self.has_begun(begun)
    }

    fn put(
        &mut self,
        from: Lent,
        to: &RemoteKey,
        at: u64,
        notice: Option<u32>,
        token: Token,
    ) -> Result<Poll<()>, AccessError> {
        let begun = self.inner.put(from, to, at, notice, token);
        self.has_begun(begun)
    }

    fn fetch_add(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        let begun = self.inner.fetch_add(word, at, value, token);
        self.has_begun(begun)
    }

    fn swap(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        let begun = self.inner.swap(word, at, value, token);
        self.has_begun(begun)
    }

    fn map(&self, key: &RemoteKey) -> Option<Lent> {
        self.inner.map(key)
    }
}

impl<E, W: Between> PatientEndpoint<E, W> {
    fn has_begun<R>(&self, begun: Result<Poll<R>, AccessError>) -> Result<Poll<R>, AccessError> {
        match begun {
            Ok(Poll::Pending) => {
                *lock(&self.world).under_way().operations.entry(self.pair).or_default() += 1;
            }
            // Nobody tells when there is room: whoever asks again gives the system a moment.
            Err(AccessError::Full) => std::thread::sleep(Duration::from_micros(100)),
            _ => {}
        }
        begun
    }
}
