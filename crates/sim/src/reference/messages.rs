//! What happens to messages: sends, puts and gets, arrivals, receives, rendezvous, the network in between.

use super::{Burst, Engine, Event, Place};
use crate::cost::{Occasion, SendCost};
use crate::error::SimError;
use crate::instrument::{Cause, Flight, Instrument as _};
use crate::machine::Ties;
use castell_base::{Rank, Tag, Time};
use castell_goal::op::Op;
use castell_goal::schedule::OpId;
use castell_matching::{Key, Pattern};
use castell_trace::{Activity, Travel};

/// A message under way or unexpected.
pub(super) struct Message {
    pub flight: Flight,
    purpose: Purpose,
    /// Processor and interface: those of the send, at both sides.
    pub(super) processor: u8,
    pub(super) interface: u8,
    /// From its arrival until all its bytes are there.
    tail: Time,
    /// What its time goes into, so far.
    travel: Travel,
    /// From the end of the network to the receiver.
    rest: Time,
    /// Links of the route that are behind it.
    hops: u32,
    /// Messages that were sent at once.
    together: u32,
    data: Vec<u8>,
}

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To be received.
    Send,
    /// To be written.
    Put,
    /// Asks for bytes.
    Ask,
    /// Brings bytes that were asked for.
    Answer,
}

/// Which messages of a rank: those from it, those to it.
const FROM: usize = 0;
const TO: usize = 1;

impl Engine<'_> {
    /// A send, put or get starts, if processor and interface are free.
    pub(super) fn send(
        &mut self,
        (rank, operation): (Rank, OpId),
        together: u32,
        now: Time,
        place: Place,
    ) -> Result<(), SimError> {
        let traits = self.schedules.of(rank).traits(operation);
        let (processor, interface) = (traits.cpu as usize, traits.nic as usize);
        let (purpose, to, tag, bytes) = self.envelope(rank, operation);
        let event = Event::Operation(rank, operation, together);
        let [own, sending] = self.lanes_of(event);
        let own = own.filter(|_| !traits.concurrent);
        if self.waits([own, sending], event, now, place)? || self.stalls(rank, to, (event, place), now)? {
            return Ok(());
        }
        let on_the_way = if purpose == Purpose::Ask { 0 } else { bytes };
        let burst = self.ranks[rank.index()].sends.at(now);
        let elapsed = now - burst.since;
        let about = self.occasion(rank, operation, rank, now);
        let occasion =
            Occasion { bytes: on_the_way, peer: to, burst: burst.count, elapsed, together, ..about };
        let cost = self.costs.send(&occasion);
        let busy_until = now + cost.processor;
        let state = &mut self.ranks[rank.index()];
        let until = busy_until.max(now + cost.interface);
        state.sends = Burst { until, count: burst.count + 1, ..burst };
        if !traits.concurrent {
            state.processors[processor] = busy_until;
        }
        state.sending[interface] = now + cost.interface;
        state.in_flight[FROM] += 1;
        self.ranks[to.index()].in_flight[TO] += 1;

        self.start(rank, operation, now);
        let lane = (!traits.concurrent).then_some(traits.cpu);
        self.instrument.busy(rank, lane, Activity::Send, (rank, operation), now, busy_until);
        let number = self.departed;
        self.departed += 1;
        let flight = Flight { number, from: rank, to, tag, bytes: on_the_way, operation, started: now };
        let lanes = (traits.cpu, traits.nic);
        let data = self.outgoing(purpose, rank, operation);
        self.depart(flight, purpose, lanes, (cost, together), data)?;
        match purpose {
            Purpose::Send if !self.costs.rendezvous_between(bytes, (rank, to)) => {
                self.complete(rank, operation, now, busy_until)
            }
            _ => Ok(()),
        }
    }

    /// What the operation sends: purpose, receiver, label, bytes.
    fn envelope(&self, rank: Rank, operation: OpId) -> (Purpose, Rank, Tag, u64) {
        match self.schedules.of(rank).op(operation) {
            Op::Send { bytes, dest, tag, .. } => (Purpose::Send, dest, tag, bytes),
            Op::Put { bytes, dest, .. } => (Purpose::Put, dest, Tag(0), bytes),
            Op::Get { bytes, source, .. } => (Purpose::Ask, source, Tag(0), bytes),
            _ => unreachable!("only these send"),
        }
    }

    /// The bytes that go out, where data are carried.
    fn outgoing(&self, purpose: Purpose, rank: Rank, operation: OpId) -> Vec<u8> {
        match &self.memory {
            Some(memory) if purpose != Purpose::Ask => memory.gather(self.schedules, rank, operation),
            _ => Vec::new(),
        }
    }

    /// Puts a message on its way.
    fn depart(
        &mut self,
        flight: Flight,
        purpose: Purpose,
        (processor, interface): (u8, u8),
        (cost, together): (SendCost, u32),
        data: Vec<u8>,
    ) -> Result<(), SimError> {
        // Into the network when the processor has let go of it, as far as the model has it travel at all by then.
        let enters = cost.processor.min(cost.transit);
        let flies = cost.transit.saturating_sub(cost.wire);
        let bytes = cost.bytes.min(flies);
        let message = Message {
            flight,
            travel: Travel { latency_ps: (flies - bytes).0, bandwidth_ps: bytes.0, receiving_ps: 0 },
            purpose,
            processor,
            interface,
            tail: cost.tail,
            rest: cost.transit - enters,
            hops: 0,
            together,
            data,
        };
        let place = match self.ties {
            Ties::Insertion => {
                self.created += 1;
                (self.created, 0)
            }
            // Messages come before operations, in the order of senders, then of sending.
            Ties::Rank => {
                let sent = &mut self.ranks[flight.from.index()].sent;
                *sent += 1;
                ((u64::from(flight.to.0) << 8) | 1, (u64::from(flight.from.0) << 32) | *sent)
            }
        };
        let index = match self.free_messages.pop() {
            Some(index) => {
                self.messages[index as usize] = message;
                index
            }
            None => {
                self.messages.push(message);
                self.messages.len() as u32 - 1
            }
        };
        self.outcome.events += 1;
        let about = (flight.from, flight.operation);
        self.instrument.departed(&flight, flight.started + cost.wire);
        if self.traffic.is_some() && flight.from != flight.to {
            return self.push(flight.started + enters, place, Event::Hop(index), about);
        }
        self.push(flight.started + cost.transit, place, Event::Arrival(index), about)
    }

    /// The head of a message reaches the next link of its route, or has left the last one.
    pub(super) fn hop(&mut self, index: u32, now: Time, place: Place) -> Result<(), SimError> {
        let message = &mut self.messages[index as usize];
        let traffic = self.traffic.as_mut().expect("only networks have hops");
        let flight = message.flight;
        let about = (flight.from, flight.operation);
        match traffic.pass(flight.from, flight.to, message.hops, flight.bytes, now) {
            Some(passage) => {
                message.hops += 1;
                message.travel.latency_ps += (passage.leaves - passage.enters).0;
                self.instrument.passed(&flight, passage.link, passage.enters, passage.until);
                if passage.enters > now {
                    self.instrument.contended(&flight, passage.link, now, passage.enters);
                }
                self.push(passage.leaves, place, Event::Hop(index), about)
            }
            None => {
                // Bytes that the model has not paid for follow the head as fast as the slowest link lets them.
                let slowest = traffic.slowest(flight.from, flight.to, flight.bytes);
                let behind = slowest - self.costs.bytes_paid(flight.bytes);
                let rest = message.rest;
                message.travel.bandwidth_ps += behind.0;
                self.push(now + rest + behind, place, Event::Arrival(index), about)
            }
        }
    }

    /// A message is at its receiver.
    pub(super) fn arrival(&mut self, index: u32, now: Time, place: Place) -> Result<(), SimError> {
        let message = &self.messages[index as usize];
        let (flight, purpose, together) = (message.flight, message.purpose, message.together);
        if purpose != Purpose::Send {
            return self.one_sided_arrival(index, now);
        }
        let (processor, interface) = (message.processor as usize, message.interface as usize);
        let event = Event::Arrival(index);
        if self.costs.arrival_waits() && self.waits(self.lanes_of(event), event, now, place)? {
            return Ok(());
        }
        let about = self.occasion(flight.from, flight.operation, flight.to, now);
        let occasion = Occasion { bytes: flight.bytes, peer: flight.from, together, ..about };
        let cost = self.costs.arrival(&occasion);
        let busy_until = now + cost.processor;
        if self.costs.arrival_waits() {
            let state = &mut self.ranks[flight.to.index()];
            state.processors[processor] = busy_until;
            state.receiving[interface] = now + cost.interface;
            let by = (flight.from, flight.operation);
            self.instrument.busy(flight.to, Some(processor as u8), Activity::Recv, by, now, busy_until);
        }
        self.instrument.arrived(&flight, now, busy_until);
        let mut travel = self.messages[index as usize].travel;
        travel.receiving_ps = cost.processor.saturating_sub(cost.bytes).0;
        travel.bandwidth_ps += cost.processor.0 - travel.receiving_ps;
        self.instrument.travelled(&flight, travel);
        self.landed(&flight, now)?;
        let key = Key { context: 0, source: flight.from, tag: flight.tag };
        let state = &mut self.ranks[flight.to.index()];
        let posted = state.matcher.arrive(key, || index);
        self.instrument.queues(flight.to, now, state.matcher.posted_len(), state.matcher.unexpected_len());
        match posted {
            Some(receive) => self.meet(index, receive, (processor, interface), now, busy_until),
            None => Ok(()),
        }
    }

    /// A receive is posted.
    pub(super) fn receive(&mut self, rank: Rank, operation: OpId, now: Time) -> Result<(), SimError> {
        let schedule = self.schedules.of(rank);
        let Op::Recv { source, tag, .. } = schedule.op(operation) else { unreachable!("a receive") };
        let traits = schedule.traits(operation);
        self.start(rank, operation, now);
        let state = &mut self.ranks[rank.index()];
        let message = state.matcher.post(Pattern { context: 0, source, tag }, operation);
        self.instrument.queues(rank, now, state.matcher.posted_len(), state.matcher.unexpected_len());
        match message {
            Some(index) => self.meet(index, operation, (traits.cpu as usize, traits.nic as usize), now, now),
            None => Ok(()),
        }
    }

    /// A message and its receive have found each other; the receive is over at `done`.
    fn meet(
        &mut self,
        index: u32,
        receive: OpId,
        (processor, interface): (usize, usize),
        now: Time,
        done: Time,
    ) -> Result<(), SimError> {
        let flight = self.messages[index as usize].flight;
        let data = std::mem::take(&mut self.messages[index as usize].data);
        self.free_messages.push(index);
        self.schedules.check_sizes(&flight, receive)?;
        if let Some(memory) = &mut self.memory {
            memory.scatter(self.schedules, flight.to, receive, &data);
        }
        self.instrument.received(&flight, receive, now, done);
        if self.costs.rendezvous_between(flight.bytes, (flight.from, flight.to)) {
            // The sender goes on from here. Nothing tells it: no time passes for an answer (as in LogGOPSim, which
            // takes processor and interface of whoever completes the meeting).
            let state = &mut self.ranks[flight.from.index()];
            state.processors[processor] = state.processors[processor].max(now);
            state.sending[interface] = state.sending[interface].max(now);
            self.complete(flight.from, flight.operation, now, now)?;
            if let Some((_, cause)) = self.touched.last_mut() {
                *cause = Cause::Receive(flight.to, receive);
            }
        }
        self.complete(flight.to, receive, now, done)
    }

    /// A put, a question or an answer is at its receiver, whose processor takes no part.
    fn one_sided_arrival(&mut self, index: u32, now: Time) -> Result<(), SimError> {
        let message = &mut self.messages[index as usize];
        let (flight, purpose, tail, mut travel) =
            (message.flight, message.purpose, message.tail, message.travel);
        let lanes = (message.processor, message.interface);
        let data = std::mem::take(&mut message.data);
        self.free_messages.push(index);
        self.instrument.arrived(&flight, now, now + tail);
        travel.bandwidth_ps += tail.0;
        self.instrument.travelled(&flight, travel);
        self.landed(&flight, now)?;
        match purpose {
            Purpose::Send => unreachable!("is received"),
            Purpose::Put => {
                if let Some(memory) = &mut self.memory {
                    memory.write_put(self.schedules, &flight, &data)?;
                }
                self.complete_later(flight.from, flight.operation, now + tail)
            }
            Purpose::Answer => {
                if let Some(memory) = &mut self.memory {
                    memory.scatter(self.schedules, flight.to, flight.operation, &data);
                }
                self.complete_later(flight.to, flight.operation, now + tail)
            }
            Purpose::Ask => self.answer(flight, lanes, now),
        }
    }

    /// Sends back what a get asked for; it occupies no processor.
    fn answer(&mut self, question: Flight, lanes: (u8, u8), now: Time) -> Result<(), SimError> {
        let (_, _, _, bytes) = self.envelope(question.from, question.operation);
        let data = match &self.memory {
            Some(memory) => memory.read_get(self.schedules, &question)?,
            None => Vec::new(),
        };
        let about = self.occasion(question.from, question.operation, question.to, now);
        let cost = self.costs.send(&Occasion { bytes, peer: question.from, ..about });
        let transit = cost.transit - cost.processor;
        let cost = SendCost { processor: Time::ZERO, wire: Time::ZERO, transit, ..cost };
        let flight = Flight {
            number: self.departed,
            from: question.to,
            to: question.from,
            bytes,
            started: now,
            ..question
        };
        self.departed += 1;
        self.ranks[flight.from.index()].in_flight[FROM] += 1;
        self.ranks[flight.to.index()].in_flight[TO] += 1;
        self.depart(flight, Purpose::Answer, lanes, (cost, 1), data)
    }

    /// Whether the model lets no more messages be on their way between these ranks; the send waits then.
    fn stalls(&mut self, from: Rank, to: Rank, send: (Event, Place), now: Time) -> Result<bool, SimError> {
        let Some(capacity) = self.costs.capacity() else { return Ok(false) };
        let full = [(from, FROM), (to, TO)];
        let full = full.map(|(rank, side)| self.ranks[rank.index()].in_flight[side] >= capacity);
        match full {
            [false, false] => return Ok(false),
            [true, _] => self.ranks[from.index()].stalled[FROM].push_back(send),
            [false, true] => self.ranks[to.index()].stalled[TO].push_back(send),
        }
        // A place that this send was woken for and cannot use may be of use to the next one.
        if full == [false, true] {
            self.wake(from, FROM, now)?;
        }
        if full == [true, false] {
            self.wake(to, TO, now)?;
        }
        Ok(true)
    }

    /// A message is no longer on its way: sends that waited for that try again.
    fn landed(&mut self, flight: &Flight, now: Time) -> Result<(), SimError> {
        self.ranks[flight.from.index()].in_flight[FROM] -= 1;
        self.ranks[flight.to.index()].in_flight[TO] -= 1;
        self.wake(flight.from, FROM, now)?;
        self.wake(flight.to, TO, now)
    }

    /// Lets the first send try again that waits at this side of a rank.
    fn wake(&mut self, rank: Rank, side: usize, now: Time) -> Result<(), SimError> {
        match self.ranks[rank.index()].stalled[side].pop_front() {
            Some((event @ Event::Operation(sender, operation, _), place)) => {
                self.push(now, place, event, (sender, operation))
            }
            _ => Ok(()),
        }
    }
}
