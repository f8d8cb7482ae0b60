//! A transport between the ranks of one process: deterministic, bounded, and able to do all that the interface has.
//!
//! For tests of whatever stands on a transport: many ranks in one thread, or a thread each. It loses, doubles and reorders
//! nothing; wrapped by [`crate::faults`], it does.

mod fabric;
mod stream;

use crate::seam::{Armed, Connector, Down, Endpoint, Events, Refused, Sleeper, Transport, Urgency};
use crate::{AccessError, Address, Cost, Delivery, Header, Limits, RemoteKey, Token, Unreachable};
use castell_base::sync::{AtomicU32, Ordering};
use castell_base::{Lent, PerByte, Rank, Time};
use fabric::{Fabric, Found, Operation};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use stream::Stream;

/// How a loopback behaves.
#[derive(Clone, Copy, Debug)]
pub struct LoopbackOptions {
    /// See [`Limits::message_bytes_max`].
    pub message_bytes_max: usize,
    /// Bytes that may be on their way from one rank to another, headers of 32 bytes included; holds a longest message at least.
    pub stream_bytes: usize,
    /// What the loopback says may happen to messages, for a fault injector to let it happen.
    pub delivery: Delivery,
    /// One-sided operations end in a later poll instead of at once.
    pub defers: bool,
    /// Wakes whoever sleeps on the word as a futex. (This room makes no system calls.)
    pub wake: fn(&AtomicU32),
}

impl Default for LoopbackOptions {
    fn default() -> LoopbackOptions {
        LoopbackOptions {
            message_bytes_max: 4096,
            stream_bytes: 64 * 1024,
            delivery: Delivery::default(),
            defers: false,
            wake: |_| {},
        }
    }
}

/// Keys that a rank may have out at a time.
const EXPORTS_MAX: usize = 4096;
/// One-sided operations that a rank may have under way.
const OUTSTANDING_MAX: usize = 16;

/// One rank's end. Dropping it is leaving; see also [`Loopback::end`].
pub struct Loopback {
    shared: Arc<Shared>,
    me: Rank,
    payload: Box<[u8]>,
    /// Whose turn it is to be asked first.
    turn: usize,
    is_over: bool,
}

struct Shared {
    options: LoopbackOptions,
    limits: Limits,
    fabric: Mutex<Fabric>,
    /// One word a rank, which changes when it is to wake up.
    wakes: Box<[AtomicU32]>,
}

impl Shared {
    fn fabric(&self) -> MutexGuard<'_, Fabric> {
        self.fabric.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, rank: Rank) {
        let word = &self.wakes[rank.index()];
        word.fetch_add(1, Ordering::Release);
        (self.options.wake)(word);
    }

    fn wake_all(&self) {
        (0..self.wakes.len() as u32).for_each(|rank| self.wake(Rank(rank)));
    }
}

impl Loopback {
    /// The ends of a group of ranks.
    ///
    /// # Panics
    /// If a stream does not hold a longest message.
    pub fn group(ranks: u32, options: LoopbackOptions) -> Vec<Loopback> {
        let room = options.message_bytes_max + crate::HEADER_BYTES;
        assert!(options.stream_bytes >= room, "a stream of a loopback holds a longest message: {room} bytes");
        let limits = Limits {
            name: "loopback",
            message_bytes_max: options.message_bytes_max,
            delivery: options.delivery,
            tells_room: true,
            get_bytes_max: u64::MAX,
            put_bytes_max: u64::MAX,
            atomics: true,
            outstanding_max: OUTSTANDING_MAX,
        };
        let shared = Arc::new(Shared {
            options,
            limits,
            fabric: Mutex::new(Fabric::new(ranks, OUTSTANDING_MAX)),
            wakes: (0..ranks).map(|_| AtomicU32::new(0)).collect(),
        });
        let end = |rank| Loopback {
            shared: Arc::clone(&shared),
            me: Rank(rank),
            payload: vec![0; options.message_bytes_max].into(),
            turn: 0,
            is_over: false,
        };
        (0..ranks).map(end).collect()
    }

    /// Ends this rank's part: the others are told that it died, or left.
    pub fn end(&mut self, why: Down) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.shared.fabric().end(self.me, why);
            self.shared.wake_all();
        }
    }

    /// Cuts the path to `peer`: both are told that it is lost, and what is under way is.
    pub fn sever(&mut self, peer: Rank) {
        self.shared.fabric().sever(self.me, peer);
        self.shared.wake_all();
    }

    /// Ends one operation that was put off; `of`: only one with this peer. False: none is left.
    fn end_deferred(
        &self,
        fabric: &mut Fabric,
        of: Option<Rank>,
    ) -> Option<(Token, Result<u64, AccessError>)> {
        let deferred = &fabric.stations[self.me.index()].deferred;
        let at = deferred.iter().position(|(_, operation)| of.is_none_or(|peer| operation.peer() == peer))?;
        let (token, operation) = deferred[at];
        let outcome = fabric.perform(self.me, &operation);
        // A notice that finds no room waits for some.
        if outcome == Err(AccessError::Full) {
            return None;
        }
        fabric.stations[self.me.index()].deferred.remove(at);
        self.shared.wake(operation.peer());
        Some((token, outcome))
    }

    /// Tells the next thing about `peer`; false: there is none.
    fn tell_next(&mut self, peer: Rank, events: &mut impl Events) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut fabric = shared.fabric();
        let path = fabric.path(self.me, peer);
        if path.is_told {
            return false;
        }
        if std::mem::take(&mut path.has_room) && path.down.is_none() {
            drop(fabric);
            events.room(peer);
            return true;
        }
        if let Some((found, room_for)) = fabric.take(self.me, peer, &mut self.payload) {
            drop(fabric);
            if let Some(sender) = room_for {
                shared.wake(sender);
            }
            match found {
                Found::Message(header) => events.message(&header, &self.payload[..header.bytes as usize]),
                Found::Notice(notice) => events.notified(peer, notice),
            }
            return true;
        }
        let path = fabric.path(self.me, peer);
        let Some(why) = path.down else { return false };
        let delivered = path.delivered;
        if let Some((token, outcome)) = self.end_deferred(&mut fabric, Some(peer)) {
            drop(fabric);
            events.completed(token, outcome);
            return true;
        }
        fabric.path(self.me, peer).is_told = true;
        drop(fabric);
        events.down(peer, delivered, why);
        true
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.end(Down::Left);
    }
}

impl Transport for Loopback {
    type Endpoint = LoopbackEndpoint;
    type Connector = LoopbackConnector;

    fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    fn address(&self) -> Address {
        Address(Box::new(self.me.0.to_le_bytes()))
    }

    fn connector(&mut self) -> LoopbackConnector {
        LoopbackConnector { shared: Arc::clone(&self.shared), me: self.me }
    }

    fn export(&mut self, memory: Lent) -> Result<RemoteKey, AccessError> {
        self.shared.fabric().export(self.me, memory, EXPORTS_MAX).ok_or(AccessError::Full)
    }

    fn withdraw(&mut self, key: &RemoteKey) {
        if key.owner == self.me {
            self.shared.fabric().withdraw(key);
        }
    }

    fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let ranks = self.shared.wakes.len();
        let (mut told, mut silent) = (0, 0);
        while told < budget && silent <= ranks && !self.is_over {
            self.turn = (self.turn + 1) % (ranks + 1);
            let has_told = if self.turn < ranks {
                self.tell_next(Rank(self.turn as u32), events)
            } else {
                let ended = self.end_deferred(&mut self.shared.fabric(), None);
                ended.is_some_and(|(token, outcome)| {
                    events.completed(token, outcome);
                    true
                })
            };
            silent = if has_told { 0 } else { silent + 1 };
            told += usize::from(has_told);
        }
        told
    }

    fn has_news(&self) -> bool {
        let fabric = self.shared.fabric();
        let station = &fabric.stations[self.me.index()];
        !station.deferred.is_empty() || station.paths.iter().any(fabric::Path::has_news)
    }

    fn arm(&mut self, _sleeper: Sleeper) -> Armed<'_> {
        let word = &self.shared.wakes[self.me.index()];
        let expected = word.load(Ordering::Acquire);
        if self.has_news() { Armed::Busy } else { Armed::Futex { word, expected } }
    }

    fn disarm(&mut self, _sleeper: Sleeper) {}
}

/// Makes a rank's ways to the others.
pub struct LoopbackConnector {
    shared: Arc<Shared>,
    me: Rank,
}

impl Connector for LoopbackConnector {
    type Endpoint = LoopbackEndpoint;

    fn route(&self, to: &Address) -> Option<Cost> {
        let rank = u32::from_le_bytes((*to.0).try_into().ok()?);
        let is_known = (rank as usize) < self.shared.wakes.len();
        is_known.then_some(Cost { latency: Time(0), per_byte: PerByte::default() })
    }

    fn connect(&mut self, to: Rank, at: &Address) -> Result<LoopbackEndpoint, Unreachable> {
        if self.route(at).is_none() {
            let reason = "the address is none of this loopback's".into();
            return Err(Unreachable { rank: to, transport: self.shared.limits.name, reason });
        }
        let bytes = self.shared.options.stream_bytes;
        self.shared.fabric().path(to, self.me).stream.get_or_insert_with(|| Stream::new(bytes));
        Ok(LoopbackEndpoint { shared: Arc::clone(&self.shared), me: self.me, to, is_unflushed: false })
    }
}

/// The way from one rank of a loopback to another.
pub struct LoopbackEndpoint {
    shared: Arc<Shared>,
    me: Rank,
    to: Rank,
    /// The peer was not woken for what was sent last.
    is_unflushed: bool,
}

impl LoopbackEndpoint {
    fn access(&mut self, token: Token, operation: Operation) -> Result<Poll<u64>, AccessError> {
        if operation.peer() != self.to {
            return Err(AccessError::Stale);
        }
        let mut fabric = self.shared.fabric();
        if fabric.path(self.me, self.to).down.is_some() {
            return Err(AccessError::Down);
        }
        if !self.shared.options.defers {
            let found = fabric.perform(self.me, &operation)?;
            self.is_unflushed = true;
            return Ok(Poll::Ready(found));
        }
        let deferred = &mut fabric.stations[self.me.index()].deferred;
        if deferred.len() == OUTSTANDING_MAX {
            return Err(AccessError::Full);
        }
        deferred.push_back((token, operation));
        Ok(Poll::Pending)
    }
}

impl Endpoint for LoopbackEndpoint {
    fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        let bytes = payload.len();
        assert!(
            bytes <= self.shared.options.message_bytes_max && header.kind.wrapping_add(1) > 1,
            "a message of {bytes} bytes and kind {} cannot be sent",
            header.kind
        );
        let mut fabric = self.shared.fabric();
        if fabric.path(self.me, self.to).down.is_some() {
            return Err(Refused::Down);
        }
        let path = fabric.path(self.to, self.me);
        let stream = path.stream.as_mut().expect("who has an endpoint has a stream");
        if !stream.has_room(bytes) {
            path.refused_bytes = Some(bytes);
            return Err(Refused::Full);
        }
        stream.push(&Header { source: self.me.0, ..*header }, payload);
        self.is_unflushed = true;
        Ok(())
    }

    fn flush(&mut self, _urgency: Urgency) -> bool {
        if std::mem::take(&mut self.is_unflushed) {
            self.shared.wake(self.to);
        }
        true
    }

    fn get(&mut self, from: &RemoteKey, at: u64, into: Lent, token: Token) -> Result<Poll<()>, AccessError> {
        let ended = self.access(token, Operation::Get { from: *from, at, into })?;
        Ok(ended.map(|_| ()))
    }

    fn put(
        &mut self,
        from: Lent,
        to: &RemoteKey,
        at: u64,
        notice: Option<u32>,
        token: Token,
    ) -> Result<Poll<()>, AccessError> {
        let ended = self.access(token, Operation::Put { from, to: *to, at, notice })?;
        Ok(ended.map(|_| ()))
    }

    fn fetch_add(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        self.access(token, Operation::FetchAdd { word: *word, at, value })
    }

    fn swap(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        self.access(token, Operation::Swap { word: *word, at, value })
    }

    fn map(&self, key: &RemoteKey) -> Option<Lent> {
        self.shared.fabric().exported(key).ok()
    }
}
