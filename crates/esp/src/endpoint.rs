//! One port of one card: which frame belongs to which connection, who connects, whose turn it is to send.

use crate::Settings;
use crate::connection::{Connection, Shared, State};
use crate::event::{Counters, Ended, Event, Handle, TooMany, What, Why};
use crate::frame::{self, Address, Communicator, Flags, Garbled, Head, Key};
use crate::pace::Pace;
use siphasher::sip::SipHasher24;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Answers that belong to no connection and wait to go out; of more the newest are not given.
const REPLIES_MAX: usize = 64;

type Name = (Address, Communicator);

/// The connections of one name: the one that is, and one that may take its place once it has proved to be there.
#[derive(Default)]
struct Named {
    live: Option<u32>,
    candidate: Option<u32>,
}

/// A wish to connect for which the communicator is not there yet.
struct Held {
    name: Name,
    head: Head,
    until: u64,
}

enum Slot {
    Free { generation: u32 },
    Used(Box<Connection>),
}

/// The protocol of one endpoint, without I/O: frames and times go in, frames, events and the next time come out.
pub struct Endpoint {
    shared: Shared,
    /// Of sessions that nobody can guess.
    nonce: SipHasher24,
    drawn: u64,
    /// Whether sessions, by which frames are counted, are drawn from the last ones only.
    is_old: bool,
    communicators: BTreeSet<Communicator>,
    names: BTreeMap<Name, Named>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    held: VecDeque<Held>,
    replies: VecDeque<Head>,
    /// Connections with something to send: about their state, and data.
    queues: [VecDeque<u32>; 2],
    next_time: Option<u64>,
}

impl Endpoint {
    /// The endpoint at `me`. `nonce`: 16 random bytes, others each time that a program starts.
    ///
    /// # Panics
    /// If the settings contradict each other.
    pub fn new(me: Address, key: Key, nonce: &[u8; 16], settings: &Settings) -> Endpoint {
        settings.check();
        let shared = Shared {
            me,
            key,
            settings: *settings,
            pace: Pace::new(settings.initial_burst, settings.pace_frames_max),
            events: VecDeque::new(),
            counters: Counters::default(),
        };
        Endpoint {
            shared,
            nonce: SipHasher24::new_with_key(nonce),
            drawn: 0,
            is_old: false,
            communicators: BTreeSet::new(),
            names: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            held: VecDeque::new(),
            replies: VecDeque::new(),
            queues: [VecDeque::new(), VecDeque::new()],
            next_time: None,
        }
    }

    /// Where it is.
    pub fn address(&self) -> Address {
        self.shared.me
    }

    /// What was seen since the start.
    pub fn counters(&self) -> Counters {
        self.shared.counters
    }

    /// Connections that there are, with those that were not released.
    pub fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// From here on connections of this communicator are taken, and those that have waited for it.
    pub fn open(&mut self, communicator: Communicator, now: u64) {
        self.communicators.insert(communicator);
        let (here, still) = std::mem::take(&mut self.held)
            .into_iter()
            .partition::<VecDeque<_>, _>(|held| held.name.1 == communicator);
        self.held = still;
        for held in here.into_iter().filter(|held| held.until > now) {
            self.hear_syn(held.name, &held.head, now);
        }
    }

    /// The connection to a peer, which may be on its way here already.
    ///
    /// # Errors
    /// There are too many.
    pub fn connect(&mut self, to: Address, communicator: Communicator, now: u64) -> Result<Handle, TooMany> {
        let name = (to, communicator);
        let live = self.names.get(&name).and_then(|named| named.live);
        if let Some(over) = live.filter(|slot| self.at(*slot).is_over()) {
            self.forget(over);
        }
        // One that the peer has begun, and perhaps does not know to be there yet.
        if let Some(named) = self.names.get_mut(&name)
            && let Some(slot) = named.live.or_else(|| named.candidate.take())
        {
            named.live = Some(slot);
            let connection = self.at(slot);
            connection.is_known = true;
            return Ok(connection.handle);
        }
        let slot = self.add(name, None, now).ok_or(TooMany(self.shared.settings.connections_max))?;
        self.names.entry(name).or_default().live = Some(slot);
        self.settle(slot, now);
        Ok(self.at(slot).handle)
    }

    fn add(&mut self, name: Name, peer_session: Option<u32>, now: u64) -> Option<u32> {
        if self.connections() >= self.shared.settings.connections_max {
            return None;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free { generation: if self.is_old { u32::MAX - 1 } else { 0 } });
            self.slots.len() as u32 - 1
        });
        let Slot::Free { generation } = self.slots[slot as usize] else { panic!("a free slot is free") };
        let handle = Handle { slot, generation };
        let session = self.draw();
        let connection = Connection::new((handle, session), name, peer_session, now, &self.shared.settings);
        self.slots[slot as usize] = Slot::Used(Box::new(connection));
        Some(slot)
    }

    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        let drawn = self.nonce.hash(&self.drawn.to_le_bytes()) as u32;
        if self.is_old { u32::MAX - drawn % 16 } else { drawn.max(1) }
    }

    /// The numbers of connections that are made from now on begin just before they wrap around, and so do those of the uses of their
    /// places. For tests.
    #[doc(hidden)]
    pub fn grow_old(&mut self) {
        self.is_old = true;
    }

    fn at(&mut self, slot: u32) -> &mut Connection {
        match &mut self.slots[slot as usize] {
            Slot::Used(connection) => connection,
            Slot::Free { .. } => panic!("only connections that exist have names"),
        }
    }

    fn find(&mut self, handle: Handle) -> Option<(&mut Connection, &mut Shared)> {
        match self.slots.get_mut(handle.slot as usize) {
            Some(Slot::Used(connection)) if connection.handle == handle => {
                Some((connection, &mut self.shared))
            }
            _ => None,
        }
    }

    /// A connection has no name any more: frames for it are answered as unknown.
    fn forget(&mut self, slot: u32) {
        let (name, handle, is_known) = {
            let connection = self.at(slot);
            ((connection.peer, connection.communicator), connection.handle, connection.is_known)
        };
        if let Some(named) = self.names.get_mut(&name) {
            named.live = named.live.filter(|live| *live != slot);
            named.candidate = named.candidate.filter(|candidate| *candidate != slot);
            if named.live.is_none() && named.candidate.is_none() {
                self.names.remove(&name);
            }
        }
        let connection = self.at(slot);
        if connection.is_released || !is_known {
            self.slots[slot as usize] = Slot::Free { generation: handle.generation.wrapping_add(1) };
            self.free.push(slot);
        }
    }

    /// Takes as many bytes as there is room for. Where all are taken, the peer is told that a write ended here; where not,
    /// [`What::Room`](crate::What::Room) follows.
    ///
    /// # Errors
    /// The connection is over, or this side has closed it.
    pub fn write(&mut self, connection: Handle, bytes: &[u8], now: u64) -> Result<usize, Ended> {
        let (found, shared) = self.find(connection).ok_or(Ended)?;
        if found.is_over() || found.sending.is_closing() {
            return Err(Ended);
        }
        let taken = found.write([bytes, &[]], now, &shared.settings);
        self.settle(connection.slot, now);
        Ok(taken)
    }

    /// The same for all bytes or none.
    ///
    /// # Errors
    /// The connection is over, or this side has closed it.
    pub fn write_whole(&mut self, connection: Handle, parts: [&[u8]; 2], now: u64) -> Result<bool, Ended> {
        let (found, shared) = self.find(connection).ok_or(Ended)?;
        if found.is_over() || found.sending.is_closing() {
            return Err(Ended);
        }
        if found.sending.free_bytes(&shared.settings) < parts[0].len() + parts[1].len() {
            found.sending.tell_room();
            return Ok(false);
        }
        found.write(parts, now, &shared.settings);
        self.settle(connection.slot, now);
        Ok(true)
    }

    /// What has come and was not read, in two parts.
    pub fn peek(&mut self, connection: Handle) -> [&[u8]; 2] {
        self.find(connection).map_or([&[]; 2], |(found, _)| found.receiving.peek())
    }

    /// So many of these bytes were read.
    ///
    /// # Panics
    /// If there were fewer.
    pub fn consume(&mut self, connection: Handle, bytes: usize, now: u64) {
        if let Some((found, shared)) = self.find(connection) {
            found.consume(bytes, now, shared);
            self.settle(connection.slot, now);
        }
    }

    /// Nothing more is written. The connection ends when the peer has everything, and has closed, too.
    pub fn close(&mut self, connection: Handle, now: u64) {
        if let Some((found, shared)) = self.find(connection) {
            found.close(now, &shared.settings);
            self.settle(connection.slot, now);
        }
    }

    /// After [`Endpoint::close`]: whether the peer has everything, or never will have.
    pub fn has_sent_all(&self, connection: Handle) -> bool {
        match self.slots.get(connection.slot as usize) {
            Some(Slot::Used(found)) if found.handle == connection => {
                found.is_over() || found.sending.is_done()
            }
            _ => true,
        }
    }

    /// Ends a connection at once, and releases it; the peer is told if that gets through, and finds out else.
    pub fn abort(&mut self, connection: Handle, now: u64) {
        let Some((found, shared)) = self.find(connection) else { return };
        if !found.is_over() {
            let head = Head {
                to: found.peer,
                from: shared.me,
                communicator: found.communicator,
                flags: Flags::RST | Flags::ACK,
                to_session: found.peer_session,
                from_session: found.session,
                ..Head::default()
            };
            found.is_known = false;
            found.fail(Why::Reset, shared);
            self.reply(head);
        }
        self.release(connection, now);
    }

    /// The caller needs the connection no more, nor what it has not read of it. One that is not over is aborted.
    pub fn release(&mut self, connection: Handle, now: u64) {
        let Some((found, _)) = self.find(connection) else { return };
        found.is_released = true;
        match found.state {
            State::Closed { .. } => {}
            State::Down => self.forget(connection.slot),
            _ => self.abort(connection, now),
        }
    }

    /// What there is to tell, in the order in which it happened.
    pub fn event(&mut self) -> Option<Event> {
        let event = self.shared.events.pop_front()?;
        if event.what == What::Readable
            && let Some((found, _)) = self.find(event.connection)
        {
            found.has_told_readable = false;
        }
        Some(event)
    }

    fn reply(&mut self, head: Head) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push_back(head);
        }
    }

    /// Takes a frame.
    pub fn receive(&mut self, bytes: &[u8], now: u64) {
        let counters = &mut self.shared.counters;
        if frame::port_of(bytes).is_some_and(|port| port != self.shared.me.port) {
            counters.not_mine += 1;
            return;
        }
        let (head, payload) = match frame::read(bytes, &self.shared.key) {
            Ok(frame) => frame,
            Err(garbled) => {
                match garbled {
                    Garbled::Tag => counters.forged += 1,
                    _ => counters.garbled += 1,
                }
                return;
            }
        };
        if head.to != self.shared.me || head.from == self.shared.me {
            counters.not_mine += 1;
            return;
        }
        counters.frames += 1;
        let name = (head.from, head.communicator);
        let named = self.names.get(&name);
        let slots = named.map_or([None; 2], |named| [named.live, named.candidate]);
        for slot in slots.into_iter().flatten() {
            let connection = self.at(slot);
            let is_its =
                connection.session == head.to_session && connection.peer_session == head.from_session;
            // Whoever has no session has no connection.
            if is_its && head.from_session != 0 {
                self.hear(slot, &head, payload, now);
                return;
            }
        }
        if head.flags == Flags::SYN {
            return self.hear_syn(name, &head, now);
        }
        let live = slots[0].filter(|live| {
            let connection = self.at(*live);
            // One that has sent its session, and is answered by who was not known before.
            connection.session == head.to_session && connection.is_opening() && connection.is_known
        });
        match live {
            Some(slot) => self.hear_first(slot, &head, payload, now),
            None => self.hear_unknown(&head),
        }
    }

    fn hear(&mut self, slot: u32, head: &Head, payload: &[u8], now: u64) {
        let Slot::Used(connection) = &mut self.slots[slot as usize] else { return };
        let was_opening = connection.is_opening();
        let name = (connection.peer, connection.communicator);
        let is_candidate = self.names.get(&name).is_some_and(|named| named.candidate == Some(slot));
        if is_candidate && was_opening && !head.flags.has(Flags::RST) && !head.flags.has(Flags::SYN) {
            // The peer has proved to be there: whatever was before is over.
            let before = self.names.get_mut(&name).and_then(|named| {
                named.candidate = None;
                named.live.replace(slot)
            });
            if let Some(before) = before {
                self.end_of_former(before);
            }
        }
        let Slot::Used(connection) = &mut self.slots[slot as usize] else { return };
        if was_opening && head.flags == Flags::SYN | Flags::ACK && !connection.is_known {
            // Who has not asked is not answered.
            self.shared.counters.stale += 1;
            return;
        }
        connection.hear(head, payload, now, &mut self.shared);
        self.settle(slot, now);
    }

    fn end_of_former(&mut self, slot: u32) {
        let Slot::Used(connection) = &mut self.slots[slot as usize] else { return };
        connection.fail(Why::Restarted, &mut self.shared);
        self.forget(slot);
    }

    /// The first word of who was asked.
    fn hear_first(&mut self, slot: u32, head: &Head, payload: &[u8], now: u64) {
        let Slot::Used(connection) = &mut self.slots[slot as usize] else { return };
        if head.flags.has(Flags::RST) {
            connection.fail(Why::Refused, &mut self.shared);
        } else if head.from_session == 0 {
            connection.is_held(now);
        } else {
            if !head.flags.has(Flags::SYN) {
                connection.establish(head.from_session, &mut self.shared);
            }
            connection.hear(head, payload, now, &mut self.shared);
        }
        self.settle(slot, now);
    }

    /// A frame of a connection that is not there: whoever sent it learns that.
    fn hear_unknown(&mut self, head: &Head) {
        self.shared.counters.stale += 1;
        if !head.flags.has(Flags::RST) && head.from_session != 0 && head.to_session != 0 {
            self.reply(Head {
                to: head.from,
                from: head.to,
                communicator: head.communicator,
                flags: Flags::RST | Flags::ACK,
                to_session: head.from_session,
                from_session: head.to_session,
                ..Head::default()
            });
        }
    }

    /// Somebody wants to connect.
    fn hear_syn(&mut self, name: Name, head: &Head, now: u64) {
        if head.from_session == 0 || head.to_session != 0 {
            self.shared.counters.stale += 1;
            return;
        }
        let (peer_session, credit) = (head.from_session, head.edge);
        let named = self.names.get(&name).map_or([None; 2], |named| [named.live, named.candidate]);
        if let Some(live) = named[0] {
            let settings = self.shared.settings;
            let connection = self.at(live);
            let is_same = connection.peer_session == peer_session;
            if connection.is_opening() && (connection.is_known || is_same) {
                // Both want it, or once more.
                connection.meet(peer_session, credit, now, &settings);
                return self.settle(live, now);
            }
            if is_same {
                // It came late.
                self.shared.counters.repeated += 1;
                return;
            }
        }
        if !self.communicators.contains(&name.1) {
            return self.hold(name, head, now);
        }
        self.admit(name, named, (peer_session, credit), now);
    }

    /// What may become a connection, beside one that there may be.
    fn admit(&mut self, name: Name, named: [Option<u32>; 2], (peer_session, credit): (u32, u32), now: u64) {
        let settings = self.shared.settings;
        if let Some(candidate) = named[1] {
            let connection = self.at(candidate);
            if connection.peer_session == peer_session {
                connection.meet(peer_session, credit, now, &settings);
                return self.settle(candidate, now);
            }
            self.forget(candidate);
        }
        let Some(slot) = self.add(name, Some(peer_session), now) else {
            let (to, communicator) = name;
            let from = self.shared.me;
            let flags = Flags::RST | Flags::ACK;
            return self.reply(Head {
                to,
                from,
                communicator,
                flags,
                to_session: peer_session,
                ..Head::default()
            });
        };
        let entry = self.names.entry(name).or_default();
        match entry.live {
            None => entry.live = Some(slot),
            Some(_) => entry.candidate = Some(slot),
        }
        self.at(slot).meet(peer_session, credit, now, &settings);
        self.settle(slot, now);
    }

    /// Keeps a wish until its communicator is there, and says so.
    fn hold(&mut self, name: Name, head: &Head, now: u64) {
        let until = now + self.shared.settings.handshake_ns;
        self.held.retain(|held| held.name != name && held.until > now);
        if self.held.len() >= self.shared.settings.held_max {
            self.held.pop_front();
        }
        self.held.push_back(Held { name, head: *head, until });
        let (to, communicator) = name;
        let to_session = head.from_session;
        self.reply(Head {
            to,
            from: self.shared.me,
            communicator,
            flags: Flags::ACK,
            to_session,
            ..Head::default()
        });
    }

    /// After a connection was touched: when it is due, whether it has something to send, whether it is over.
    fn settle(&mut self, slot: u32, now: u64) {
        let Slot::Used(connection) = &mut self.slots[slot as usize] else { return };
        if connection.state == State::Down {
            return self.forget(slot);
        }
        if let Some(due) = connection.due(&self.shared.settings) {
            self.next_time = Some(self.next_time.map_or(due, |next| next.min(due)));
        }
        let wants = [connection.has_state(now), connection.has_data(&self.shared.settings)];
        for ((queue, wants), is_queued) in self.queues.iter_mut().zip(wants).zip(&mut connection.is_queued) {
            if wants && !std::mem::replace(is_queued, true) {
                queue.push_back(slot);
            }
        }
    }

    /// Writes the next frame that is to go out, if there is one; says how long it is.
    ///
    /// # Panics
    /// If `out` is shorter than [`Settings::frame_bytes_max`].
    pub fn transmit(&mut self, out: &mut [u8], now: u64) -> Option<usize> {
        if let Some(head) = self.replies.pop_front() {
            self.shared.counters.sent += 1;
            return Some(frame::write(out, &self.shared.key, &head, [&[]; 2]));
        }
        for which in 0..2 {
            while let Some(slot) = self.queues[which].pop_front() {
                // It may have gone since, and another be in its place.
                let Slot::Used(connection) = &mut self.slots[slot as usize] else { continue };
                connection.is_queued[which] = false;
                let length = connection.transmit(out, now, &mut self.shared);
                self.settle(slot, now);
                if length.is_some() {
                    return length;
                }
            }
        }
        None
    }

    /// Whether [`Endpoint::transmit`] may have something.
    pub fn has_frames(&self) -> bool {
        !self.replies.is_empty() || self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// When [`Endpoint::tick`] is to be called, if nothing happens before.
    pub fn next_time(&self) -> Option<u64> {
        self.next_time
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64) {
        if self.next_time.is_none_or(|next| next > now) {
            return;
        }
        self.next_time = None;
        for slot in 0..self.slots.len() as u32 {
            let Slot::Used(connection) = &mut self.slots[slot as usize] else { continue };
            if connection.due(&self.shared.settings).is_some_and(|due| due <= now) {
                connection.tick(now, &mut self.shared);
                if matches!(connection.state, State::Closed { until } if until <= now) {
                    self.end_of_linger(slot);
                    continue;
                }
            }
            self.settle(slot, now);
        }
    }

    /// The peer has had time enough to ask again.
    fn end_of_linger(&mut self, slot: u32) {
        let connection = self.at(slot);
        connection.state = State::Down;
        self.forget(slot);
    }

    /// Nobody has looked at this endpoint for so long, because its process did not run: peers were not silent for it.
    pub fn was_away(&mut self, for_ns: u64) {
        for slot in &mut self.slots {
            if let Slot::Used(connection) = slot {
                connection.was_away(for_ns);
            }
        }
    }
}
