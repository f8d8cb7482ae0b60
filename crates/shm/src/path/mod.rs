//! Shared memory as a transport: receive queue and rings carry messages, the doorbell wakes.
//!
//! A message takes a ring if the pair has one with room, else the queue; so messages of one sender overtake each other, and
//! say so ([`Delivery::reorders`]). Nobody says when there is room again. A rank's end shows in the job's segment.

mod departure;

use crate::doorbell::Doorbell;
use crate::job::Job;
use crate::queue::{Consumer, Header, Producer};
use crate::ring::{RING_PAYLOAD_MAX, RingReceiver, RingSender};
use castell_base::{Lent, PerByte, Rank, Time};
use castell_transport::{
    AccessError, Address, Armed, Connector, Cost, Delivery, Endpoint, Events, Limits, Refused, RemoteKey,
    Sleeper, Transport, Unreachable, Urgency,
};
use departure::Departures;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Polls in a row that only hand over what the rings bring: who waits for an answer gets it before anything else is looked at.
const QUICK_POLLS_MAX: u32 = 16;

/// What a message takes, roughly: until it is measured, enough to tell shared memory from networks.
const COST: Cost = Cost { latency: Time(250_000), per_byte: PerByte::new(100, 1) };

/// Where a rank is found in its job.
pub fn address_of(rank: Rank) -> Address {
    Address(Box::new(rank.0.to_le_bytes()))
}

/// A rank's end: where its messages land.
pub struct Shm {
    job: Arc<Job>,
    me: Rank,
    consumer: Consumer,
    rings: RingReceiver,
    limits: Limits,
    quick_polls: u32,
    /// By sender: messages that were handed over.
    delivered: Box<[u32]>,
    departures: Departures,
    /// By rank: whether the way there was made.
    connected: Arc<[AtomicBool]>,
}

impl Shm {
    /// The end of rank `me`.
    ///
    /// # Safety
    /// The rank is this process's, and there is one end a rank in the job's life. Endpoints and end are used by one thread at a
    /// time.
    pub unsafe fn attach(job: Arc<Job>, me: Rank) -> Shm {
        // SAFETY: both lie in the job's segment, which `job` keeps mapped; the rest is the caller's promise.
        let (consumer, rings) = unsafe {
            (
                Consumer::attach(job.queue(me), job.geometry(), job.intents(), me),
                RingReceiver::attach(job.ring_pool(me)),
            )
        };
        let ranks = job.ranks() as usize;
        let limits = Limits {
            delivery: Delivery { reorders: true, ..Delivery::default() },
            ..Limits::messages_only("shm", job.geometry().message_bytes_max())
        };
        Shm {
            consumer,
            rings,
            limits,
            quick_polls: 0,
            delivered: vec![0; ranks].into(),
            departures: Departures::new(ranks),
            connected: (0..ranks).map(|_| AtomicBool::new(false)).collect(),
            me,
            job,
        }
    }
}

impl Transport for Shm {
    type Endpoint = ShmEndpoint;
    type Connector = ShmConnector;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Address {
        address_of(self.me)
    }

    fn connector(&mut self) -> ShmConnector {
        let (job, met) = (Arc::clone(&self.job), Arc::clone(&self.connected));
        ShmConnector { job, me: self.me, limits: self.limits, connected: met }
    }

    fn export(&mut self, _memory: Lent) -> Result<RemoteKey, AccessError> {
        Err(AccessError::Unsupported)
    }

    fn withdraw(&mut self, _key: &RemoteKey) {}

    #[inline]
    fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let Shm { rings, consumer, delivered, .. } = self;
        let mut deliver = |header: &Header, payload: &[u8]| {
            let count = &mut delivered[header.source as usize];
            *count = count.wrapping_add(1);
            events.message(header, payload);
        };
        let mut told = rings.poll(budget, &mut deliver);
        if told > 0 && self.quick_polls < QUICK_POLLS_MAX {
            self.quick_polls += 1;
            return told;
        }
        self.quick_polls = 0;
        told += consumer.poll(budget - told, &mut deliver);
        if self.departures.has_news(&self.job) || self.departures.is_unsettled() {
            told += self.tell_departures(budget - told, events);
        }
        told
    }

    #[inline]
    fn has_news(&self) -> bool {
        !self.rings.is_empty() || !self.consumer.is_empty() || self.departures.has_news(&self.job)
    }

    fn arm(&mut self, sleeper: Sleeper) -> Armed<'_> {
        let bell = &self.job.control(self.me).doorbell;
        let ticket = bell.prepare(sleeper);
        if self.has_news() {
            bell.cancel(ticket);
            return Armed::Busy;
        }
        let (word, expected) = bell.word(ticket);
        Armed::Futex { word, expected }
    }

    fn disarm(&mut self, sleeper: Sleeper) {
        self.job.control(self.me).doorbell.leave(sleeper);
    }
}

/// Makes a rank's ways to the others, each once.
pub struct ShmConnector {
    job: Arc<Job>,
    me: Rank,
    limits: Limits,
    connected: Arc<[AtomicBool]>,
}

impl Connector for ShmConnector {
    type Endpoint = ShmEndpoint;

    fn route(&self, to: &Address) -> Option<Cost> {
        let rank = u32::from_le_bytes((*to.0).try_into().ok()?);
        (rank < self.job.ranks()).then_some(COST)
    }

    fn connect(&mut self, to: Rank, at: &Address) -> Result<ShmEndpoint, Unreachable> {
        if self.route(at).is_none() || self.connected[to.index()].swap(true, Ordering::Relaxed) {
            let reason = "no rank of this job, or a way there was made before".into();
            return Err(Unreachable { rank: to, transport: self.limits.name, reason });
        }
        let job = Arc::clone(&self.job);
        // SAFETY: the area lies in the job's segment, which the endpoint keeps mapped; `Shm::attach` was promised that this
        // process alone sends as `me`, and there is one endpoint a peer.
        let producer = unsafe { Producer::attach(job.queue(to), job.geometry(), job.intents(), self.me, to) };
        let (me, limits) = (self.me, self.limits);
        Ok(ShmEndpoint { producer, ring: None, bursting: false, ring_tried: false, job, me, to, limits })
    }
}

/// The way to one other rank.
pub struct ShmEndpoint {
    producer: Producer,
    ring: Option<RingSender>,
    /// The ring was full: until the peer answers, everything goes through its queue, which takes more at a time.
    bursting: bool,
    ring_tried: bool,
    job: Arc<Job>,
    me: Rank,
    to: Rank,
    limits: Limits,
}

impl ShmEndpoint {
    #[inline]
    fn bell(&self) -> &Doorbell {
        &self.job.control(self.to).doorbell
    }

    /// By the queue.
    #[inline(never)]
    fn try_insert(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        self.bursting = true;
        match self.producer.try_insert(header, payload) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.refusal()),
        }
    }

    /// Why the queue takes nothing.
    #[cold]
    fn refusal(&self) -> Refused {
        match departure::end_of(&self.job, self.to) {
            Some(_) => Refused::Down,
            None => Refused::Full,
        }
    }
}

impl Endpoint for ShmEndpoint {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    #[inline(always)]
    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        let by_ring = payload.len() <= RING_PAYLOAD_MAX
            && !self.bursting
            && self.ring.as_mut().is_some_and(|ring| ring.try_send(header, payload));
        if by_ring { Ok(()) } else { self.try_insert(header, payload) }
    }

    #[inline(always)]
    fn flush(&mut self, urgency: Urgency) -> bool {
        let bell = self.bell();
        match (urgency.again_soon, urgency.presses) {
            (true, true) => return !bell.ring_pressing_unless_thread(),
            (true, false) => return !bell.ring_unless_thread(),
            (false, true) => bell.ring_pressing(),
            (false, false) => bell.ring(),
        };
        true
    }

    /// Tries once to get a ring to the peer; without one, everything goes through its queue.
    fn expect_traffic(&mut self) {
        if !std::mem::replace(&mut self.ring_tried, true) && self.job.has_rings() {
            // SAFETY: the ring pool lies in the job's segment, which this endpoint keeps mapped; it is claimed once.
            self.ring = unsafe { RingSender::claim(self.job.ring_pool(self.to), self.me) };
        }
    }

    #[inline(always)]
    fn answered(&mut self) {
        self.bursting = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobOptions;
    use castell_transport::Down;

    #[derive(Default)]
    struct Inbox(Vec<u32>, Option<u32>);

    impl Events for Inbox {
        fn message(&mut self, header: &Header, _payload: &[u8]) {
            self.0.push(header.sequence);
        }

        fn down(&mut self, peer: Rank, delivered: u32, why: Down) {
            assert_eq!((peer, why), (Rank(1), Down::Left));
            self.1 = Some(delivered);
        }
    }

    #[test]
    fn how_much_came_is_known_where_its_number_begins_again() {
        for rings in [true, false] {
            let job =
                Arc::new(Job::create(&JobOptions { rings, ..JobOptions::new(2) }).expect("a small job"));
            let [mut me, mut peer] = [0, 1].map(|rank| {
                job.join(Rank(rank), 1000 + rank, 0, &[]).expect("nobody has it");
                // SAFETY: one end a rank of a job of this test's own, all in one thread.
                unsafe { Shm::attach(Arc::clone(&job), Rank(rank)) }
            });
            me.delivered[1] = u32::MAX - 1;
            let mut out = peer.connector().connect(Rank(0), &me.address()).expect("a way");
            let mut inbox = Inbox::default();
            for sequence in 0..4 {
                let header = Header { kind: 7, source: 1, sequence, ..Header::default() };
                out.try_send(&header, &[]).expect("there is room");
                me.poll(16, &mut inbox);
            }
            job.mark_finished(Rank(1), &[Rank(0)]);
            while inbox.1.is_none() {
                me.poll(16, &mut inbox);
            }
            assert_eq!((inbox.0, inbox.1), (vec![0, 1, 2, 3], Some(2)), "rings: {rings}");
        }
    }
}
