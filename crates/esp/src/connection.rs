//! One connection: how it begins and ends, and which of its frames goes out next. README.md has the states.

use crate::Settings;
use crate::event::{Counters, Event, Handle, What, Why};
use crate::frame::{self, Address, Communicator, Flags, Head, Key, Range};
use crate::pace::Pace;
use crate::receiving::{Arrival, Receiving};
use crate::round_trip::RoundTrip;
use crate::sending::Sending;
use std::collections::VecDeque;

/// What all connections of an endpoint have in common.
pub(crate) struct Shared {
    pub(crate) me: Address,
    pub(crate) key: Key,
    pub(crate) settings: Settings,
    pub(crate) pace: Pace,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// SYN has gone out.
    SynSent,
    /// A SYN has come, and was answered by SYN+ACK.
    SynReceived,
    Established,
    /// Both sides have closed; the last word may have to be repeated until then.
    Closed {
        until: u64,
    },
    /// It has failed.
    Down,
}

pub(crate) struct Connection {
    pub(crate) handle: Handle,
    pub(crate) peer: Address,
    pub(crate) communicator: Communicator,
    pub(crate) state: State,
    /// What each side calls it, and where its numbers begin.
    pub(crate) session: u32,
    pub(crate) peer_session: u32,
    /// The caller knows of it.
    pub(crate) is_known: bool,
    /// The caller needs it no more.
    pub(crate) is_released: bool,
    pub(crate) sending: Sending,
    pub(crate) receiving: Receiving,
    trip: RoundTrip,
    heard_at: u64,
    asked_at: u64,
    /// When the handshake's frame goes out again, and how often it did.
    repeat_due: Option<u64>,
    repeats: u32,
    sends_syn: bool,
    sends_question: bool,
    /// And nobody has fetched that.
    pub(crate) has_told_readable: bool,
    has_told_finished: bool,
    /// What the peer's clock said, and when that came.
    stamp: (u32, u64),
    /// Waits in a queue of the endpoint.
    pub(crate) is_queued: [bool; 2],
}

impl Connection {
    pub(crate) fn new(
        (handle, session): (Handle, u32),
        (peer, communicator): (Address, Communicator),
        peer_session: Option<u32>,
        now: u64,
        settings: &Settings,
    ) -> Connection {
        let state = if peer_session.is_some() { State::SynReceived } else { State::SynSent };
        Connection {
            handle,
            peer,
            communicator,
            state,
            session,
            peer_session: peer_session.unwrap_or(0),
            is_known: peer_session.is_none(),
            is_released: false,
            sending: Sending::new(session),
            receiving: Receiving::new(peer_session.unwrap_or(0), settings),
            trip: RoundTrip::default(),
            heard_at: now,
            asked_at: now,
            repeat_due: Some(now),
            repeats: 0,
            sends_syn: false,
            sends_question: false,
            has_told_readable: false,
            has_told_finished: false,
            stamp: (0, 0),
            is_queued: [false; 2],
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Closed { .. } | State::Down)
    }

    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived)
    }

    fn tell(&self, what: What, shared: &mut Shared) {
        if self.is_known {
            shared.events.push_back(Event { connection: self.handle, what });
        }
    }

    /// A SYN has come while this side is opening, too; or once more.
    pub(crate) fn meet(&mut self, peer_session: u32, credit: u32, now: u64, settings: &Settings) {
        if self.peer_session != peer_session || self.state == State::SynSent {
            self.peer_session = peer_session;
            self.receiving = Receiving::new(peer_session, settings);
        }
        self.state = State::SynReceived;
        self.heard_at = now;
        let edge = self.session.wrapping_add(credit);
        self.sending.acknowledge(self.session, edge, now, (settings, settings.timeout_first_ns));
        self.sends_syn = true;
    }

    /// The peer waits for its own program to want this.
    pub(crate) fn is_held(&mut self, now: u64) {
        (self.heard_at, self.repeats) = (now, self.repeats.max(6));
    }

    /// The peer has called this side by its session: it is there, and is the one.
    pub(crate) fn establish(&mut self, peer_session: u32, shared: &mut Shared) {
        if self.peer_session != peer_session || self.state == State::SynSent {
            self.peer_session = peer_session;
            self.receiving = Receiving::new(peer_session, &shared.settings);
        }
        self.state = State::Established;
        (self.repeat_due, self.sends_syn) = (None, false);
        let what = match std::mem::replace(&mut self.is_known, true) {
            true => What::Connected,
            false => What::Accepted { from: self.peer, communicator: self.communicator },
        };
        self.tell(what, shared);
    }

    pub(crate) fn fail(&mut self, why: Why, shared: &mut Shared) {
        if self.is_over() {
            return;
        }
        self.state = State::Down;
        self.sending.stop();
        self.receiving.stop(&mut shared.pace);
        (self.repeat_due, self.sends_syn, self.sends_question) = (None, false, false);
        self.tell(What::Down(why), shared);
    }

    /// A frame of this connection, by both sessions.
    pub(crate) fn hear(&mut self, head: &Head, payload: &[u8], now: u64, shared: &mut Shared) {
        if self.state == State::Down {
            return;
        }
        (self.heard_at, self.asked_at) = (now, now);
        self.stamp = (head.stamp, now);
        if head.echo != 0 {
            let took_us = stamp(now).wrapping_sub(head.echo);
            self.trip.sample(u64::from(took_us) * 1000);
        }
        let flags = head.flags;
        if flags.has(Flags::RST) {
            let was_last = self.receiving.is_finished && self.sending.lacks_only_the_end();
            return if was_last { self.close_finally(now, shared) } else { self.fail(Why::Reset, shared) };
        }
        if flags.has(Flags::SYN) {
            return self.hear_syn(head, now, shared);
        }
        if self.state == State::SynReceived {
            self.establish(self.peer_session, shared);
        }
        let timeout_ns = self.sending.timeout_ns(&shared.settings, &self.trip);
        let edge = (&shared.settings, timeout_ns);
        if self.sending.acknowledge(head.acknowledged, head.edge, now, edge) {
            self.tell(What::Room, shared);
        }
        if flags.has(Flags::RRQ) {
            for range in Range::all(payload) {
                self.sending.resend(range, now, &shared.settings, &self.trip);
            }
        } else if !payload.is_empty() || flags.has(Flags::FIN) {
            let frame = (head.sequence, flags, payload);
            match self.receiving.take(frame, now, (&shared.settings, &self.trip), &mut shared.pace) {
                Arrival::New => {}
                Arrival::Again => shared.counters.repeated += 1,
                Arrival::Beyond => shared.counters.beyond += 1,
            }
        } else {
            self.receiving.hears_of(head.sequence, now, (&shared.settings, &self.trip));
            if flags.has(Flags::TXS) {
                self.receiving.is_asked(now);
            }
        }
        self.tell_news(now, shared);
    }

    fn hear_syn(&mut self, head: &Head, now: u64, shared: &mut Shared) {
        if self.is_opening() {
            self.establish(head.from_session, shared);
            let edge = self.session.wrapping_add(head.edge);
            let first = (&shared.settings, shared.settings.timeout_first_ns);
            self.sending.acknowledge(self.session, edge, now, first);
        }
        // Whatever came before: the peer has not heard that this side has.
        self.receiving.tell_due = Some(now);
    }

    fn tell_news(&mut self, now: u64, shared: &mut Shared) {
        // Whoever has not fetched the last word yet finds this, too, when it reads.
        if self.receiving.take_fresh() && !std::mem::replace(&mut self.has_told_readable, true) {
            self.tell(What::Readable, shared);
        }
        if self.receiving.is_finished && !self.has_told_finished {
            self.has_told_finished = true;
            self.tell(What::Finished, shared);
        }
        if self.state == State::Established && self.receiving.is_finished && self.sending.is_done() {
            self.close_finally(now, shared);
        }
    }

    fn close_finally(&mut self, now: u64, shared: &mut Shared) {
        if self.is_over() {
            return;
        }
        self.sending.stop();
        self.state = State::Closed { until: now + shared.settings.linger_ns };
        self.tell(What::Closed, shared);
    }

    pub(crate) fn write(&mut self, parts: [&[u8]; 2], now: u64, settings: &Settings) -> usize {
        let taken: usize = parts.iter().map(|part| self.sending.write(part, settings)).sum();
        if taken == parts[0].len() + parts[1].len() {
            self.sending.end_write();
        }
        self.sending.was_changed(now, settings, &self.trip);
        taken
    }

    pub(crate) fn close(&mut self, now: u64, settings: &Settings) {
        self.sending.close();
        self.sending.was_changed(now, settings, &self.trip);
    }

    pub(crate) fn consume(&mut self, bytes: usize, now: u64, shared: &mut Shared) {
        self.receiving.consume(bytes, now, (&shared.settings, &self.trip), &shared.pace);
        self.tell_news(now, shared);
    }

    /// Nothing was looked at for so long: that is not the peer's silence.
    pub(crate) fn was_away(&mut self, for_ns: u64) {
        self.heard_at += for_ns;
        self.asked_at += for_ns;
    }

    /// When [`Connection::tick`] has something to do.
    pub(crate) fn due(&self, settings: &Settings) -> Option<u64> {
        match self.state {
            State::Down => None,
            State::Closed { until } => Some(self.receiving.tell_due.map_or(until, |due| due.min(until))),
            State::SynSent | State::SynReceived => {
                let last = self.heard_at + settings.handshake_ns;
                Some(self.repeat_due.map_or(last, |due| due.min(last)))
            }
            State::Established => {
                let dues = [self.sending.due(), self.receiving.due(), self.receiving.tell_due];
                let heartbeat =
                    (self.asked_at + settings.heartbeat_ns).min(self.heard_at + settings.silence_ns);
                Some(dues.into_iter().flatten().fold(heartbeat, u64::min))
            }
        }
    }

    pub(crate) fn tick(&mut self, now: u64, shared: &mut Shared) {
        let settings = shared.settings;
        match self.state {
            State::SynSent | State::SynReceived if now >= self.heard_at + settings.handshake_ns => {
                self.fail(Why::NoAnswer, shared);
            }
            State::SynSent | State::SynReceived => {
                if self.repeat_due.is_some_and(|due| due <= now) {
                    self.sends_syn = true;
                }
            }
            State::Established if now >= self.heard_at + settings.silence_ns => {
                self.fail(Why::Silent, shared)
            }
            State::Established => {
                if now >= self.asked_at + settings.heartbeat_ns {
                    self.asked_at = now;
                    self.sends_question = true;
                }
                self.sends_question |= self.sending.tick(now, &settings, &self.trip);
                self.receiving.tick(now, (&settings, &self.trip), &mut shared.pace);
            }
            State::Closed { .. } | State::Down => {}
        }
    }

    /// A frame about the connection's state waits: these always go out.
    pub(crate) fn has_state(&self, now: u64) -> bool {
        match self.state {
            State::Down => false,
            State::SynSent | State::SynReceived => self.sends_syn,
            _ => {
                self.sends_question
                    || self.receiving.asks_now()
                    || self.receiving.tell_due.is_some_and(|due| due <= now)
            }
        }
    }

    /// Data waits, and is allowed.
    pub(crate) fn has_data(&self, settings: &Settings) -> bool {
        self.state == State::Established && self.sending.is_ready(settings)
    }

    /// Writes the next frame.
    pub(crate) fn transmit(&mut self, out: &mut [u8], now: u64, shared: &mut Shared) -> Option<usize> {
        if self.is_opening() {
            return self.transmit_syn(out, now, shared);
        }
        if self.state == State::Down {
            return None;
        }
        if self.receiving.asks_now() {
            let ranges = self.receiving.request(now, &shared.settings, &self.trip);
            if !ranges.is_empty() {
                return Some(self.put(
                    out,
                    Flags::ACK | Flags::RRQ,
                    self.sending.next,
                    [&ranges, &[]],
                    now,
                    shared,
                ));
            }
        }
        if std::mem::take(&mut self.sends_question) {
            return Some(self.put(out, Flags::ACK | Flags::TXS, self.sending.next, [&[]; 2], now, shared));
        }
        let is_overdue = self.receiving.tell_due.is_some_and(|due| due <= now);
        if !self.has_data(&shared.settings) && !is_overdue {
            return None;
        }
        let timeout_ns = self.sending.timeout_ns(&shared.settings, &self.trip);
        let before = self.sending.next;
        let outgoing = match self.state {
            State::Established => self.sending.take(now, &shared.settings, timeout_ns),
            _ => None,
        };
        let Some(outgoing) = outgoing else {
            return is_overdue.then(|| self.put(out, Flags::ACK, self.sending.next, [&[]; 2], now, shared));
        };
        shared.counters.resent += u64::from(before == self.sending.next);
        let (acknowledged, edge) = self.receiving.tell();
        let head = self.head(outgoing.flags, outgoing.sequence, (acknowledged, edge), now, shared);
        let length = frame::write(out, &shared.key, &head, self.sending.payload(&outgoing));
        shared.counters.sent += 1;
        Some(length)
    }

    fn transmit_syn(&mut self, out: &mut [u8], now: u64, shared: &mut Shared) -> Option<usize> {
        if !std::mem::take(&mut self.sends_syn) {
            return None;
        }
        let in_ns = self.trip.timeout_ns(&shared.settings, self.repeats);
        self.repeats = (self.repeats + 1).min(16);
        self.repeat_due = Some(now + in_ns);
        let flags = if self.state == State::SynSent { Flags::SYN } else { Flags::SYN | Flags::ACK };
        let told = (self.peer_session, shared.settings.initial_burst);
        let head = self.head(flags, self.session, told, now, shared);
        shared.counters.sent += 1;
        Some(frame::write(out, &shared.key, &head, [&[]; 2]))
    }

    fn put(
        &mut self,
        out: &mut [u8],
        flags: Flags,
        sequence: u32,
        payload: [&[u8]; 2],
        now: u64,
        shared: &mut Shared,
    ) -> usize {
        let told = self.receiving.tell();
        let head = self.head(flags, sequence, told, now, shared);
        shared.counters.sent += 1;
        frame::write(out, &shared.key, &head, payload)
    }

    fn head(
        &mut self,
        flags: Flags,
        sequence: u32,
        (acknowledged, edge): (u32, u32),
        now: u64,
        shared: &Shared,
    ) -> Head {
        let (echo, came_at) = std::mem::take(&mut self.stamp);
        // An answer that waited for something to say tells nothing about the network.
        let is_fresh = now.saturating_sub(came_at) <= 2 * shared.settings.acknowledge_ns;
        Head {
            to: self.peer,
            from: shared.me,
            communicator: self.communicator,
            flags,
            to_session: self.peer_session,
            from_session: self.session,
            sequence,
            acknowledged,
            edge,
            stamp: stamp(now),
            echo: if is_fresh { echo } else { 0 },
        }
    }
}

/// A time as it travels: never 0.
fn stamp(now: u64) -> u32 {
    ((now / 1000) as u32).max(1)
}
