//! A rank's paths: who is there, which frames are whose, what has ended; and the port that carries them all.

use crate::address::{self, Place};
use crate::frame::{FRAME_BYTES, Frame, Kind};
use crate::hello::{Nonce, Pair, Secret};
use crate::onesided::Exports;
use crate::outbox::{FRAMES_MAX, Outbox};
use crate::peer::{Peer, Stage};
use crate::port::{Contexts, Done, Memory, Port};
use castell_base::Rank;
use castell_host::clock::Clock;
use castell_transport::{AccessError, Down, Header, Refused, Token};
use std::collections::VecDeque;

/// Frames that can be on their way into a rank without waiting in the provider, whoever sends them.
pub(crate) const RECEIVES: usize = 64;
/// A rank of which somebody says that it is gone: what it sent before has come by then.
const GRACE_NS: u64 = 50_000_000;
/// A rank that has not looked for so long can't call others silent for it.
const AWAY_NS: u64 = 500_000_000;

/// Sizes and times.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest payload of a message, bytes.
    pub message_bytes_max: usize,
    /// What was sent to a peer and not taken yet, bytes at most.
    pub window_bytes: usize,
    /// Between two hellos to who does not answer.
    pub hello_ns: u64,
    /// Who has not answered in this time is not reached.
    pub reach_ns: u64,
    /// After this time a peer is told what was taken.
    pub acknowledge_ns: u64,
    /// A path on which nothing was sent for so long gets a note.
    pub note_ns: u64,
    /// A path on which nothing came for so long is lost, and so is one on which nothing that was sent was taken for twice as long.
    pub silence_ns: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            message_bytes_max: 16 * 1024 - 128,
            window_bytes: 1 << 20,
            hello_ns: 200_000_000,
            reach_ns: 10_000_000_000,
            acknowledge_ns: 20_000_000,
            note_ns: 1_000_000_000,
            silence_ns: 5_000_000_000,
        }
    }
}

/// What has happened, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Peers that were met.
    pub met: u64,
    /// Frames of whoever has not proved to know the job's secret, or whose tags or checksums are wrong: dropped.
    pub strangers: u64,
    /// Frames that contradict themselves although their tags are right, and those that came twice.
    pub garbled: u64,
    /// Operations of the provider's that ended with an error.
    pub failed: u64,
    /// Times that the provider had no room.
    pub refused: u64,
}

/// What is to be told.
pub(crate) enum News {
    Room(Rank),
    Completed(Token, Result<u64, AccessError>),
    Notified(Rank, u32),
    Down(Rank, u32, Down),
}

/// What there is next.
pub(crate) enum Next {
    News(News),
    Message(Header, Body),
}

/// Where the payload of a message is.
pub(crate) enum Body {
    /// In memory of this index, until it is given back.
    Slot(usize, *const u8, usize),
    Kept(Box<[u8]>),
}

pub(crate) struct Links {
    // First: the provider lets go of all memory when it is closed.
    pub(crate) port: Port,
    receives: Memory,
    slot_bytes: usize,
    contexts: Contexts,
    pub(crate) me: Rank,
    pub(crate) nonce: Nonce,
    pub(crate) secret: Secret,
    pub(crate) place: Place,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) peers: Vec<Option<Box<Peer>>>,
    pub(crate) exports: Exports,
    /// Whether the provider writes to memory of others, and how much at a time.
    pub(crate) writes_to_peers: bool,
    pub(crate) write_bytes_max: usize,
    /// Frames that came before their turn, of all peers.
    kept: usize,
    done: Vec<Done>,
    /// Memory that frames have come in, and their lengths.
    arrived: VecDeque<(usize, usize)>,
    /// Memory that the provider had no room for.
    unposted: Vec<usize>,
    pub(crate) news: VecDeque<News>,
    endings: VecDeque<Rank>,
    /// Ranks for which there is something to do.
    queue: VecDeque<Rank>,
    looked_at: u64,
    /// When somebody who sleeps is woken.
    pub(crate) due: u64,
    pub(crate) next_time: u64,
    pub(crate) busy_at: u64,
    is_leaving: bool,
    pub(crate) counters: Counters,
    pub(crate) trouble: Option<String>,
}

impl Links {
    pub(crate) fn new(
        mut port: Port,
        (me, ranks): (Rank, u32),
        secret: &[u8; 32],
        place: Place,
        write_bytes_max: usize,
        (settings, clock): (Settings, Clock),
    ) -> Result<Links, String> {
        let slot_bytes = FRAME_BYTES + settings.message_bytes_max.max(crate::onesided::ASK_BYTES_MAX);
        let explain = |port: &Port, error| format!("no memory to receive into: {}", port.explain(error));
        let receives = port.memory(RECEIVES * slot_bytes).map_err(|error| explain(&port, error))?;
        let now = clock.now();
        let mut links = Links {
            receives,
            slot_bytes,
            contexts: Contexts::new((0..RECEIVES as u64).map(|slot| 1 << 56 | slot)),
            port,
            me,
            nonce: place.nonce,
            secret: Secret::of(secret),
            place,
            settings,
            clock,
            peers: (0..ranks).map(|_| None).collect(),
            exports: Exports::new(),
            writes_to_peers: write_bytes_max > 0,
            write_bytes_max,
            kept: 0,
            done: Vec::with_capacity(4 * FRAMES_MAX),
            arrived: VecDeque::with_capacity(RECEIVES),
            unposted: (0..RECEIVES).rev().collect(),
            news: VecDeque::new(),
            endings: VecDeque::new(),
            queue: VecDeque::new(),
            looked_at: now,
            due: 0,
            next_time: u64::MAX,
            busy_at: now,
            is_leaving: false,
            counters: Counters::default(),
            trouble: None,
        };
        links.post_receives();
        if links.unposted.len() == RECEIVES {
            return Err("the provider takes no memory to receive into".into());
        }
        Ok(links)
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.peers.len() as u32
    }

    pub(crate) fn peer(&mut self, rank: Rank) -> &mut Peer {
        self.peers[rank.index()].get_or_insert_with(|| Box::new(Peer::new()))
    }

    /// Where a rank is found. One that has introduced itself is known already.
    pub(crate) fn introduce(&mut self, rank: Rank, place: Place) {
        let peer = self.peer(rank);
        if peer.place.is_none() {
            peer.place = Some(place);
        }
    }

    fn post_receives(&mut self) {
        while let Some(slot) = self.unposted.pop() {
            let at = slot * self.slot_bytes;
            if self.port.receive(&self.receives, at, self.slot_bytes, self.contexts.at(slot)).is_err() {
                self.counters.refused += 1;
                return self.unposted.push(slot);
            }
        }
    }

    /// What a message lay in may be used again.
    pub(crate) fn give_back(&mut self, slot: usize) {
        self.unposted.push(slot);
        self.post_receives();
    }

    /// Takes a message. It goes out with the next [`Links::transmit`].
    pub(crate) fn try_send(&mut self, to: Rank, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        assert!(payload.len() <= self.settings.message_bytes_max, "no message is longer than the limit");
        assert!(header.kind != 0 && header.kind != 255, "the kind of a message is 1 to 254");
        let header = Header { source: self.me.0, spare: 0, ..*header };
        if self.is_leaving || self.peer(to).is_down() {
            return Err(Refused::Down);
        }
        if !self.peer(to).is_open() {
            self.ask(to);
        } else if self.push(to, Kind::Message, header, [payload, &[]]) {
            return Ok(());
        }
        self.peer(to).wants_room = true;
        Err(Refused::Full)
    }

    /// Puts a numbered frame into the outbox of an open path; false: there is no room.
    pub(crate) fn push(&mut self, to: Rank, kind: Kind, header: Header, payload: [&[u8]; 2]) -> bool {
        let header = Header { source: self.me.0, ..header };
        let now = self.clock.now();
        let peer = self.peer(to);
        let (Some(outbox), Some((key, ..))) = (&mut peer.outbox, &peer.keys) else { return false };
        if !outbox.is_awaited() {
            peer.moved_at = now;
        }
        if !outbox.push(kind, header, payload, peer.expected, key) {
            return false;
        }
        (peer.told, peer.untold_bytes, peer.tell_at, peer.owes_note) = (peer.expected, 0, u64::MAX, false);
        peer.said_at = now;
        self.enqueue(to);
        true
    }

    pub(crate) fn enqueue(&mut self, rank: Rank) {
        if !std::mem::replace(&mut self.peer(rank).is_queued, true) {
            self.queue.push_back(rank);
        }
    }

    /// Begins to find out whether a rank is there.
    pub(crate) fn ask(&mut self, rank: Rank) {
        let now = self.clock.now();
        let until = now + self.settings.reach_ns;
        let peer = self.peer(rank);
        if peer.stage == Stage::Apart && peer.place.is_some() {
            peer.stage = Stage::Asking { next: now, until };
            self.next_time = 0;
        }
    }

    /// What is needed to send to a rank whose place is known.
    fn meet(&mut self, rank: Rank) -> Result<(), String> {
        let (me, nonce) = (self.me, self.nonce);
        let window_bytes = self.settings.window_bytes;
        let peer = self.peers[rank.index()].as_deref_mut().expect("it was looked at");
        let place = peer.place.as_ref().expect("it was introduced");
        if peer.keys.is_none() {
            let there = (rank, place.nonce);
            let out = self.secret.key(Pair { from: (me, nonce), to: there });
            let back = self.secret.key(Pair { from: there, to: (me, nonce) });
            peer.keys = Some((out, back, place.nonce));
        }
        if peer.to == u64::MAX {
            // Longer than any name, so that a provider never reads behind it.
            let mut name = [0; 2 * address::NAME_BYTES_MAX];
            name[..place.name.len()].copy_from_slice(&place.name);
            peer.to = self.port.insert(&name).ok_or("the provider does not take its address")?;
        }
        if peer.outbox.is_none() {
            let made = Outbox::new(&mut self.port, rank, window_bytes);
            peer.outbox = Some(made.map_err(|error| self.port.explain(error))?);
        }
        Ok(())
    }

    /// Sends one; false: not yet.
    fn say_hello(&mut self, rank: Rank) -> bool {
        let peer = self.peers[rank.index()].as_deref_mut().expect("it was met");
        let (Some(outbox), Some(place)) = (&mut peer.outbox, &peer.place) else { return true };
        let pair = Pair { from: (self.me, self.nonce), to: (rank, place.nonce) };
        let said = self.secret.hello(pair, &address::to_bytes(&self.place));
        let header = Header { source: self.me.0, ..Header::default() };
        outbox.post_control(&mut self.port, peer.to, (Kind::Hello, header, &said), (0, None))
    }

    /// The other side is who it should be.
    fn opens(&mut self, rank: Rank, now: u64) {
        let peer = self.peer(rank);
        if matches!(peer.stage, Stage::Apart | Stage::Asking { .. }) {
            peer.stage = Stage::Open;
            (peer.heard_at, peer.said_at, peer.moved_at) = (now, now, now);
            self.counters.met += 1;
            self.makes_room(rank);
            self.next_time = 0;
        }
    }

    fn makes_room(&mut self, rank: Rank) {
        let peer = self.peer(rank);
        if peer.wants_room && peer.is_open() {
            peer.wants_room = false;
            self.news.push_back(News::Room(rank));
        }
    }

    /// Somebody says who it is.
    fn hear_hello(&mut self, bytes: &[u8], now: u64) {
        let said = Frame::read(bytes, None).ok();
        let known = said.and_then(|_| self.secret.check(&bytes[FRAME_BYTES..], (self.me, self.nonce)));
        let Some((rank, place)) = known.filter(|(rank, _)| *rank != self.me && rank.0 < self.ranks()) else {
            self.counters.strangers += 1;
            return;
        };
        let is_ours = place.provider == self.place.provider && place.format == self.place.format;
        let peer = self.peer(rank);
        if peer.is_down() {
            // A path that has ended stays so.
            return;
        }
        if !is_ours {
            self.counters.garbled += 1;
            return;
        }
        if peer.keys.as_ref().is_some_and(|(_, _, nonce)| *nonce != place.nonce) {
            // Another process is in its place.
            return self.ends(rank, Down::Died);
        }
        if peer.keys.is_none() {
            peer.place = Some(place);
        }
        if let Err(trouble) = self.meet(rank) {
            self.trouble = Some(trouble);
            return;
        }
        self.opens(rank, now);
        self.peer(rank).owes_note = true;
        self.enqueue(rank);
    }

    /// Sends what there is, as far as the provider takes it.
    pub(crate) fn transmit(&mut self, now: u64) {
        for _ in 0..self.queue.len() {
            let Some(rank) = self.queue.pop_front() else { break };
            self.peer(rank).is_queued = false;
            if !self.transmit_to(rank, now) {
                self.counters.refused += 1;
                self.enqueue(rank);
            }
        }
    }

    /// Whether nothing is left.
    fn transmit_to(&mut self, rank: Rank, now: u64) -> bool {
        if self.peer(rank).is_open() {
            self.work_for(rank);
            if self.peer(rank).must_leave {
                let has_gone = self.push(rank, Kind::Leave, Header::default(), [&[], &[]]);
                self.peer(rank).must_leave = !has_gone;
            }
            self.peer(rank).is_queued = false;
        }
        if self.peer(rank).owes_hello {
            let is_asking = matches!(self.peer(rank).stage, Stage::Asking { .. });
            self.peer(rank).owes_hello = is_asking && !self.say_hello(rank);
        }
        let peer = self.peers[rank.index()].as_deref_mut().expect("it was looked at");
        let is_open = peer.is_open();
        let (Some(outbox), Some((key, ..))) = (&mut peer.outbox, &peer.keys) else { return true };
        if is_open && let Err(crate::port::NotBegun::Failed(error)) = outbox.post(&mut self.port, peer.to) {
            self.trouble = Some(self.port.explain(error));
            self.ends(rank, Down::PathLost);
            return true;
        }
        if peer.owes_note {
            let header = Header { source: self.me.0, ..Header::default() };
            let (note, taken) = ((Kind::Note, header, &[][..]), (peer.expected, Some(key)));
            if outbox.post_control(&mut self.port, peer.to, note, taken) {
                (peer.told, peer.untold_bytes, peer.tell_at, peer.owes_note) =
                    (peer.expected, 0, u64::MAX, false);
                peer.said_at = now;
            }
        }
        let is_left = outbox.is_unposted() || !peer.works.is_empty() || peer.must_leave;
        !(peer.owes_hello || peer.owes_note || is_open && is_left)
    }

    /// Takes in what the provider tells, and does what is due.
    pub(crate) fn listen(&mut self, now: u64) {
        let away = now.saturating_sub(self.looked_at.max(self.due));
        (self.looked_at, self.due) = (now, 0);
        if away > AWAY_NS {
            for peer in self.peers.iter_mut().flatten() {
                peer.heard_at += away;
                peer.moved_at += away;
            }
        }
        self.look();
        if now >= self.next_time {
            self.tick(now);
        }
    }

    /// Takes in what the provider tells.
    pub(crate) fn look(&mut self) {
        self.post_receives();
        let mut done = std::mem::take(&mut self.done);
        self.port.look(&mut done, 4 * FRAMES_MAX);
        for one in done.drain(..) {
            self.busy_at = self.looked_at;
            let Some(id) = one.id else {
                self.counters.failed += 1;
                continue;
            };
            let (rank, index) = (Rank((id >> 16) as u32), id & 0xFFFF);
            self.port.under_way -= usize::from(id >> 56 != 1);
            let error = one.outcome.err();
            self.counters.failed += u64::from(error.is_some());
            match (id >> 56, one.outcome) {
                (1, Ok(bytes)) => self.arrived.push_back((index as usize, bytes.min(self.slot_bytes))),
                (1, Err(_)) => self.unposted.push(index as usize),
                (kind @ 2..=3, _) => {
                    let outbox = self.peer(rank).outbox.as_mut().expect("something was sent");
                    if kind == 2 {
                        outbox.is_done(index)
                    } else {
                        outbox.control_is_done()
                    }
                    self.makes_room_if_half_empty(rank);
                }
                (_, _) => self.write_has_ended(index as usize, error.is_none()),
            }
            if let Some(error) = error.filter(|_| id >> 56 == 2) {
                self.trouble = Some(self.port.explain(error));
                self.ends(rank, Down::PathLost);
            }
        }
        self.done = done;
    }

    fn makes_room_if_half_empty(&mut self, rank: Rank) {
        let peer = self.peer(rank);
        if peer.wants_room && peer.outbox.as_ref().is_some_and(Outbox::is_half_empty) {
            self.makes_room(rank);
        }
    }

    /// What has to be done by now, and when the next thing is.
    fn tick(&mut self, now: u64) {
        let mut next = u64::MAX;
        for rank in (0..self.ranks()).map(Rank) {
            if self.peers[rank.index()].is_some() {
                next = next.min(self.tick_of(rank, now));
            }
        }
        self.next_time = next;
    }

    fn tick_of(&mut self, rank: Rank, now: u64) -> u64 {
        let settings = self.settings;
        let peer = self.peer(rank);
        if peer.is_down() {
            return u64::MAX;
        }
        if let Some((why, at)) = peer.gone {
            if at <= now {
                self.ends(rank, why);
                return u64::MAX;
            }
            return at;
        }
        match peer.stage {
            Stage::Apart | Stage::Over => u64::MAX,
            Stage::Asking { until, .. } if until <= now => {
                self.ends(rank, Down::PathLost);
                u64::MAX
            }
            Stage::Asking { next, until } => {
                if next > now {
                    return next;
                }
                if let Err(trouble) = self.meet(rank) {
                    self.trouble = Some(trouble);
                    self.ends(rank, Down::PathLost);
                    return u64::MAX;
                }
                let next = now + settings.hello_ns;
                let peer = self.peer(rank);
                (peer.owes_hello, peer.stage) = (true, Stage::Asking { next, until });
                self.enqueue(rank);
                next
            }
            Stage::Open => {
                let silent_at = peer.heard_at + settings.silence_ns;
                let awaits = peer.outbox.as_ref().is_some_and(Outbox::is_awaited);
                let stuck_at = if awaits { peer.moved_at + 2 * settings.silence_ns } else { u64::MAX };
                let dead_at = silent_at.min(stuck_at);
                if dead_at <= now {
                    self.ends(rank, Down::PathLost);
                    return u64::MAX;
                }
                let note_at = peer.tell_at.min(peer.said_at + settings.note_ns);
                if note_at > now {
                    return dead_at.min(note_at);
                }
                peer.owes_note = true;
                peer.said_at = now;
                self.enqueue(rank);
                dead_at.min(now + settings.note_ns)
            }
        }
    }

    /// The path to a rank ends, once all that has come of it is handed over.
    pub(crate) fn ends(&mut self, rank: Rank, why: Down) {
        let peer = self.peer(rank);
        if !peer.is_down() {
            peer.ending = Some(why);
            self.endings.push_back(rank);
        }
    }

    /// Somebody who knows says that a rank is gone.
    pub(crate) fn is_gone(&mut self, rank: Rank, why: Down) {
        let at = self.clock.now() + GRACE_NS;
        let peer = self.peer(rank);
        peer.gone.get_or_insert((why, at));
        match peer.stage {
            Stage::Open => self.next_time = 0,
            _ => self.ends(rank, why),
        }
    }

    /// Whether [`Links::next`] has something.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty() || !self.arrived.is_empty() || !self.endings.is_empty()
    }

    /// What there is next.
    pub(crate) fn next(&mut self, now: u64) -> Option<Next> {
        loop {
            if let Some(news) = self.news.pop_front() {
                let is_void = matches!(news, News::Room(rank) if self.peer(rank).is_down());
                if is_void {
                    continue;
                }
                return Some(Next::News(news));
            }
            if self.kept > 0
                && let Some(message) = self.next_kept(now)
            {
                return Some(message);
            }
            let Some((slot, bytes)) = self.arrived.pop_front() else {
                let rank = self.endings.pop_front()?;
                self.tell_end(rank);
                continue;
            };
            // SAFETY: the slot is this rank's until it is given back, and lies in memory that lives as long as the port.
            let frame = unsafe {
                std::slice::from_raw_parts(
                    self.receives.address().wrapping_add(slot * self.slot_bytes),
                    bytes,
                )
            };
            match self.hear(frame, now) {
                Some(header) => {
                    let payload = &frame[FRAME_BYTES..];
                    return Some(Next::Message(header, Body::Slot(slot, payload.as_ptr(), payload.len())));
                }
                None => self.give_back(slot),
            }
        }
    }

    /// The path is over, and so is what was under way on it.
    fn tell_end(&mut self, rank: Rank) {
        let peer = self.peer(rank);
        let Some(why) = peer.ending.take() else { return };
        peer.stage = Stage::Over;
        peer.works.clear();
        let kept = std::mem::take(&mut peer.kept).len();
        let (delivered, ended) = (peer.delivered, std::mem::take(&mut peer.operations));
        for operation in ended.into_values() {
            self.news.push_back(News::Completed(operation.token, Err(AccessError::Down)));
        }
        self.kept -= kept;
        self.news.push_back(News::Down(rank, delivered, why));
    }

    /// Looks at a frame that has come; what it says is done, if it is no message.
    fn hear(&mut self, bytes: &[u8], now: u64) -> Option<Header> {
        let Some((source, is_hello)) = Frame::sender(bytes) else {
            self.counters.strangers += 1;
            return None;
        };
        if is_hello {
            self.hear_hello(bytes, now);
            return None;
        }
        let rank = Rank(source);
        let peer = self.peers.get_mut(rank.index()).and_then(Option::as_deref_mut);
        let key = peer.as_ref().and_then(|peer| peer.keys.as_ref()).map(|(_, back, _)| back);
        let Some(frame) = key.and_then(|key| Frame::read(bytes, Some(key)).ok()) else {
            self.counters.strangers += 1;
            return None;
        };
        let peer = peer.expect("it has a key");
        if peer.is_down() {
            return None;
        }
        peer.heard_at = now;
        if peer.outbox.as_mut().is_some_and(|outbox| outbox.was_taken(frame.taken).is_some()) {
            peer.moved_at = now;
        }
        self.opens(rank, now);
        self.makes_room_if_half_empty(rank);
        if !frame.kind.is_numbered() {
            return None;
        }
        let peer = self.peer(rank);
        let ahead = frame.number.wrapping_sub(peer.expected);
        if ahead != 0 {
            // It has overtaken others, or came already.
            match (ahead as usize) < FRAMES_MAX && !peer.kept.contains_key(&frame.number) {
                true => {
                    peer.kept.insert(frame.number, bytes.into());
                    self.kept += 1;
                }
                false => self.counters.garbled += 1,
            }
            return None;
        }
        self.take(rank, &frame, &bytes[FRAME_BYTES..], now)
    }

    /// The next in order.
    fn take(&mut self, rank: Rank, frame: &Frame, payload: &[u8], now: u64) -> Option<Header> {
        let (acknowledge_ns, window_bytes) = (self.settings.acknowledge_ns, self.settings.window_bytes);
        let peer = self.peer(rank);
        peer.expected = peer.expected.wrapping_add(1);
        peer.untold_bytes += FRAME_BYTES + payload.len();
        let untold = peer.expected.wrapping_sub(peer.told) as usize;
        if untold >= FRAMES_MAX / 4 || peer.untold_bytes >= window_bytes / 4 {
            peer.owes_note = true;
            self.enqueue(rank);
        } else if peer.tell_at == u64::MAX {
            peer.tell_at = now + acknowledge_ns;
            self.next_time = self.next_time.min(now + acknowledge_ns);
        }
        match frame.kind {
            Kind::Message if !matches!(frame.header.kind, 0 | 255) => {
                let peer = self.peer(rank);
                peer.delivered = peer.delivered.wrapping_add(1);
                return Some(frame.header);
            }
            Kind::Leave => {
                self.peer(rank).owes_note = true;
                self.enqueue(rank);
                self.ends(rank, Down::Left);
            }
            Kind::Ask => self.is_asked(rank, &frame.header, payload),
            Kind::Piece => self.takes_piece(rank, &frame.header, payload),
            Kind::Done => self.has_ended(rank, &frame.header, payload),
            Kind::Hello | Kind::Note | Kind::Message => {
                self.counters.garbled += 1;
                self.ends(rank, Down::PathLost);
            }
        }
        None
    }

    /// A message that came before its turn, which is now.
    fn next_kept(&mut self, now: u64) -> Option<Next> {
        let waits = |peer: &Peer| !peer.is_down() && peer.kept.contains_key(&peer.expected);
        loop {
            let rank = self.peers.iter().position(|peer| peer.as_deref().is_some_and(waits))?;
            let rank = Rank(rank as u32);
            let peer = self.peer(rank);
            let bytes = peer.kept.remove(&peer.expected).expect("it is there");
            self.kept -= 1;
            let peer = self.peer(rank);
            let key = peer.keys.as_ref().map(|(_, back, _)| back);
            let frame = Frame::read(&bytes, key).expect("it was read before");
            if let Some(header) = self.take(rank, &frame, &bytes[FRAME_BYTES..], now) {
                return Some(Next::Message(header, Body::Kept(bytes)));
            }
        }
    }

    /// Says to all that were met that nothing follows.
    pub(crate) fn leave(&mut self, now: u64) {
        self.is_leaving = true;
        for rank in (0..self.ranks()).map(Rank) {
            if self.peers[rank.index()].as_ref().is_some_and(|peer| peer.is_open()) {
                self.peer(rank).must_leave = true;
                self.enqueue(rank);
            }
        }
        self.transmit(now);
    }

    /// Whether all that were met have taken everything, or can't any more.
    pub(crate) fn has_left(&self) -> bool {
        self.peers.iter().flatten().all(|peer| {
            let has_taken = peer.outbox.as_ref().is_none_or(Outbox::is_empty) && !peer.must_leave;
            (peer.is_down() && !peer.owes_note) || !peer.is_down() && has_taken
        })
    }

    /// Whether the provider has something of this rank's under way.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.queue.is_empty() || self.port.under_way > 0
    }
}
