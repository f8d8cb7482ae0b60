//! The transport with faults: holds back what the wrapped one tells until it is due.

use super::Faults;
use crate::seam::{Armed, Connector, Down, Endpoint, Events, Refused, Sleeper, Transport, Urgency};
use crate::{AccessError, Address, Cost, Delivery, Header, Limits, RemoteKey, Token, Unreachable};
use castell_base::{Lent, Rank};
use rand_core::RngCore;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// How much of the wrapped transport one poll takes over.
const TAKEN_AT_ONCE: usize = 64;

/// A transport with faults, see [`Faults`].
pub struct Faulty<T: Transport> {
    faults: Faults,
    me: Rank,
    inner: T,
    held: Held,
    under_way: UnderWay,
}

/// One-sided operations that have not ended, and whose they are; endpoints add to it.
type UnderWay = Arc<Mutex<BTreeMap<Token, Rank>>>;

fn lock(under_way: &UnderWay) -> MutexGuard<'_, BTreeMap<Token, Rank>> {
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a rank is told later, by the peer that it is about.
#[derive(Default)]
struct Held {
    peers: BTreeMap<Rank, OfPeer>,
    count: usize,
}

#[derive(Default)]
struct OfPeer {
    queue: VecDeque<(u64, Told)>,
    /// Where a long message of it is coming to.
    place: Option<(Header, Box<[u8]>)>,
    /// Messages that the wrapped transport has handed over.
    taken: u32,
    delivered: u32,
    /// The wrapped transport has said that its path is down.
    inner_down: Option<Down>,
    is_down: bool,
}

enum Told {
    Message(Header, Box<[u8]>),
    Room,
    Completed(Token, Result<u64, AccessError>),
    Notified(u32),
}

impl Held {
    fn of(&mut self, peer: Rank) -> &mut OfPeer {
        self.peers.entry(peer).or_default()
    }

    fn hold(&mut self, peer: Rank, due: u64, told: Told) {
        self.count += 1;
        self.of(peer).queue.push_back((due, told));
    }
}

impl<T: Transport> Faulty<T> {
    pub(super) fn new(faults: Faults, me: Rank, inner: T) -> Faulty<T> {
        Faulty { faults, me, inner, held: Held::default(), under_way: UnderWay::default() }
    }

    /// The transport inside.
    pub fn inner(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Tells the next thing that is due about `peer`; false: there is none.
    fn tell_next(&mut self, peer: Rank, now: u64, events: &mut impl Events) -> bool {
        let delivery = self.inner.limits().delivery;
        let ended = self.faults.lock().ended(peer, self.me);
        let of = self.held.of(peer);
        if of.is_down {
            return false;
        }
        if of.queue.front().is_some_and(|(due, _)| *due <= now) {
            let (_, told) = of.queue.pop_front().expect("looked at");
            self.held.count -= 1;
            return self.tell(peer, told, delivery, events);
        }
        let has_all = ended.is_some_and(|(_, sent)| of.taken >= sent) || of.inner_down.is_some();
        if !of.queue.is_empty() || !has_all {
            return false;
        }
        let mut under_way = lock(&self.under_way);
        let of_peer = under_way.iter().find(|(_, whose)| **whose == peer).map(|(token, _)| *token);
        if let Some(token) = of_peer {
            under_way.remove(&token);
            drop(under_way);
            events.completed(token, Err(AccessError::Down));
            return true;
        }
        drop(under_way);
        of.is_down = true;
        self.faults.lock().told.insert((self.me, peer));
        let why = of.inner_down.or(ended.map(|(why, _)| why)).expect("one of the two");
        events.down(peer, of.delivered, why);
        true
    }

    fn tell(&mut self, peer: Rank, told: Told, delivery: Delivery, events: &mut impl Events) -> bool {
        let mut state = self.faults.lock();
        let profile = state.profile;
        match told {
            Told::Message(header, payload) => {
                if delivery.loses && state.happens(profile.drops) {
                    return false;
                }
                if delivery.duplicates && state.happens(profile.doubles) {
                    let due = state.now + state.delay();
                    self.held.hold(peer, due, Told::Message(header, payload.clone()));
                }
                drop(state);
                self.held.of(peer).delivered += 1;
                events.message(&header, &payload);
            }
            Told::Room => {
                drop(state);
                events.room(peer);
            }
            Told::Completed(token, outcome) => {
                drop(state);
                lock(&self.under_way).remove(&token);
                events.completed(token, outcome);
            }
            Told::Notified(notice) => {
                drop(state);
                events.notified(peer, notice);
            }
        }
        true
    }
}

/// Takes over what the wrapped transport tells.
struct Taker<'a> {
    faults: &'a Faults,
    me: Rank,
    held: &'a mut Held,
    under_way: &'a UnderWay,
    delivery: Delivery,
}

impl Taker<'_> {
    fn hold(&mut self, peer: Rank, told: Told) {
        let mut state = self.faults.lock();
        let due = state.now + state.delay();
        self.held.hold(peer, due, told);
    }
}

impl Events for Taker<'_> {
    fn message(&mut self, header: &Header, payload: &[u8]) {
        let peer = Rank(header.source);
        let of = self.held.of(peer);
        of.taken += 1;
        // What was sent after the path's end went nowhere.
        let ended = self.faults.lock().ended(peer, self.me);
        if of.is_down || ended.is_some_and(|(_, sent)| of.taken > sent) {
            return;
        }
        self.hold(peer, Told::Message(*header, payload.into()));
        let mut state = self.faults.lock();
        let overtakes = state.profile.overtakes;
        let queue = &mut self.held.of(peer).queue;
        let last = queue.len() - 1;
        let both_messages = last > 0
            && matches!((&queue[last - 1].1, &queue[last].1), (Told::Message(..), Told::Message(..)));
        if self.delivery.reorders && both_messages && state.happens(overtakes) {
            queue.swap(last - 1, last);
        }
    }

    /// Every other long message has a place here, before it is held.
    fn place(&mut self, header: &Header) -> Option<&mut [u8]> {
        if header.sequence.is_multiple_of(2) {
            return None;
        }
        let place = &mut self.held.of(Rank(header.source)).place;
        if place.as_ref().is_none_or(|(of, _)| *of != *header) {
            *place = Some((*header, vec![0; header.bytes as usize].into()));
        }
        place.as_mut().map(|(_, bytes)| &mut bytes[..])
    }

    fn placed(&mut self, header: &Header) {
        let place = self.held.of(Rank(header.source)).place.take();
        let (of, bytes) = place.expect("what was placed has a place");
        assert_eq!(of, *header, "in the place of this message");
        self.message(header, &bytes);
    }

    fn room(&mut self, peer: Rank) {
        self.hold(peer, Told::Room);
    }

    fn completed(&mut self, token: Token, outcome: Result<u64, AccessError>) {
        // If it ended with its path, that has been told.
        let whose = lock(self.under_way).get(&token).copied();
        if let Some(peer) = whose {
            self.hold(peer, Told::Completed(token, outcome));
        }
    }

    fn notified(&mut self, peer: Rank, notice: u32) {
        if self.faults.lock().ended(peer, self.me).is_none() {
            self.hold(peer, Told::Notified(notice));
        }
    }

    fn down(&mut self, peer: Rank, _delivered: u32, why: Down) {
        self.held.of(peer).inner_down = Some(why);
    }
}

impl<T: Transport> Transport for Faulty<T> {
    type Endpoint = FaultyEndpoint<T::Endpoint>;
    type Connector = FaultyConnector<T::Connector>;

    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn address(&self) -> Address {
        self.inner.address()
    }

    fn connector(&mut self) -> Self::Connector {
        FaultyConnector {
            faults: self.faults.clone(),
            me: self.me,
            inner: self.inner.connector(),
            under_way: Arc::clone(&self.under_way),
        }
    }

    fn export(&mut self, memory: Lent) -> Result<RemoteKey, AccessError> {
        self.inner.export(memory)
    }

    fn withdraw(&mut self, key: &RemoteKey) {
        self.inner.withdraw(key);
    }

    fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let now = {
            let mut state = self.faults.lock();
            state.now += 1;
            if state.dead.contains(&self.me) {
                return 0;
            }
            let refused: Vec<Rank> = state
                .refused
                .range((self.me, Rank(0))..=(self.me, Rank(u32::MAX)))
                .map(|(_, by)| *by)
                .collect();
            for by in refused {
                state.refused.remove(&(self.me, by));
                let due = state.now + state.delay();
                self.held.hold(by, due, Told::Room);
            }
            for other in state.ends.keys().filter(|(low, high)| *low == self.me || *high == self.me) {
                self.held.peers.entry(if other.0 == self.me { other.1 } else { other.0 }).or_default();
            }
            state.now
        };
        // Whoever is slow is not read from without bound.
        if self.held.count < TAKEN_AT_ONCE && budget > 0 {
            let delivery = self.inner.limits().delivery;
            let (faults, held, under_way) = (&self.faults, &mut self.held, &self.under_way);
            let mut taker = Taker { faults, me: self.me, held, under_way, delivery };
            self.inner.poll(TAKEN_AT_ONCE, &mut taker);
        }
        let peers: Vec<Rank> = self.held.peers.keys().copied().collect();
        if peers.is_empty() {
            return 0;
        }
        let (mut told, mut silent) = (0, 0);
        let mut at = self.faults.lock().random.next_u32() as usize;
        while told < budget && silent < peers.len() {
            at += 1;
            let has_told = self.tell_next(peers[at % peers.len()], now, events);
            silent = if has_told { 0 } else { silent + 1 };
            told += usize::from(has_told);
        }
        told
    }

    fn has_news(&self) -> bool {
        // What faults bring is no event of the wrapped transport's.
        let is_untold = |of: &OfPeer| of.inner_down.is_some() && !of.is_down;
        self.held.count > 0
            || self.held.peers.values().any(is_untold)
            || self.faults.lock().has_news(self.me)
            || self.inner.has_news()
    }

    fn arm(&mut self, sleeper: Sleeper) -> Armed<'_> {
        if self.has_news() { Armed::Busy } else { self.inner.arm(sleeper) }
    }

    fn disarm(&mut self, sleeper: Sleeper) {
        self.inner.disarm(sleeper);
    }
}

/// Makes ways with faults.
pub struct FaultyConnector<C> {
    faults: Faults,
    me: Rank,
    inner: C,
    under_way: UnderWay,
}

impl<C: Connector> Connector for FaultyConnector<C> {
    type Endpoint = FaultyEndpoint<C::Endpoint>;

    fn route(&self, to: &Address) -> Option<Cost> {
        self.inner.route(to)
    }

    fn connect(&mut self, to: Rank, at: &Address) -> Result<Self::Endpoint, Unreachable> {
        let inner = self.inner.connect(to, at)?;
        let under_way = Arc::clone(&self.under_way);
        Ok(FaultyEndpoint { faults: self.faults.clone(), me: self.me, to, inner, under_way })
    }
}

/// The way to a peer, with faults.
pub struct FaultyEndpoint<E> {
    faults: Faults,
    me: Rank,
    to: Rank,
    inner: E,
    under_way: UnderWay,
}

impl<E: Endpoint> FaultyEndpoint<E> {
    fn access<R>(
        &mut self,
        token: Token,
        begin: impl FnOnce(&mut E) -> Result<Poll<R>, AccessError>,
    ) -> Result<Poll<R>, AccessError> {
        {
            let mut state = self.faults.lock();
            if state.is_closed(self.me, self.to) {
                return Err(AccessError::Down);
            }
            let refuses = state.profile.refuses;
            if self.inner.limits().outstanding_max > 0 && state.happens(refuses) {
                return Err(AccessError::Full);
            }
        }
        let begun = begin(&mut self.inner);
        if let Ok(Poll::Pending) = begun {
            lock(&self.under_way).insert(token, self.to);
        }
        begun
    }
}

impl<E: Endpoint> Endpoint for FaultyEndpoint<E> {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        let mut state = self.faults.lock();
        let profile = state.profile;
        if state.is_closed(self.me, self.to) {
            return Err(Refused::Down);
        }
        if state.happens(profile.refuses) {
            if self.inner.limits().tells_room {
                state.refused.insert((self.me, self.to));
            }
            return Err(Refused::Full);
        }
        if state.happens(profile.cuts) {
            // In the middle of this message: it was taken, and never comes.
            state.end(self.me, self.to, Down::PathLost);
            return Ok(());
        }
        self.inner.try_send(header, payload)?;
        *state.sent.entry((self.me, self.to)).or_default() += 1;
        Ok(())
    }

    fn flush(&mut self, urgency: Urgency) -> bool {
        self.inner.flush(urgency)
    }

    fn get(&mut self, from: &RemoteKey, at: u64, into: Lent, token: Token) -> Result<Poll<()>, AccessError> {
        self.access(token, |inner| inner.get(from, at, into, token))
    }

    fn put(
        &mut self,
        from: Lent,
        to: &RemoteKey,
        at: u64,
        notice: Option<u32>,
        token: Token,
    ) -> Result<Poll<()>, AccessError> {
        self.access(token, |inner| inner.put(from, to, at, notice, token))
    }

    fn fetch_add(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        self.access(token, |inner| inner.fetch_add(word, at, value, token))
    }

    fn swap(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        self.access(token, |inner| inner.swap(word, at, value, token))
    }

    fn map(&self, key: &RemoteKey) -> Option<Lent> {
        self.inner.map(key)
    }

    fn expect_traffic(&mut self) {
        self.inner.expect_traffic();
    }

    fn answered(&mut self) {
        self.inner.answered();
    }
}
