//! The link to one peer, whichever connections it lives through: what was sent and not taken, what came, who is to dial, and when it
//! is given up. Without I/O: bytes and times go in, bytes and the next time come out. README.md has the states.

use crate::frame::{FRAME_BYTES, Frame, Garbled, Kind};
use crate::handshake::{Hello, Verdict, Welcome};
use crate::outbox::Outbox;
use castell_base::Rank;
use castell_transport::{Down, HEADER_BYTES, Header, Refused};
use std::ops::Range;

/// Sizes and times of a link, which both sides need not have alike. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest payload of a message, bytes. The same on both sides.
    pub message_bytes_max: usize,
    /// Payloads from this length on are put where they are to lie as they come, if that is known: shorter ones are cheap to copy.
    pub placed_bytes_min: usize,
    /// What is kept for one peer until it was acknowledged, bytes; a power of two, and at least eight longest messages.
    pub window_bytes: usize,
    /// What was taken is acknowledged within this time, if nothing goes out that tells it sooner.
    pub acknowledge_ns: u64,
    /// A connection on which nothing is written for so long gets a note.
    pub heartbeat_ns: u64,
    /// A connection on which nothing comes for so long is given up, and another one tried: TCP itself looks ever more seldom whether a line that was
    /// cut has healed.
    pub doubt_ns: u64,
    /// A peer from which nothing comes for so long is given up, too.
    pub silence_ns: u64,
    /// A connection that breaks is made again within this time, or the peer is given up.
    pub resume_ns: u64,
    /// Between two attempts to connect.
    pub redial_ns: u64,
    /// An attempt to connect, proofs included, takes no longer.
    pub dial_ns: u64,
    /// Whether messages have checksums; not where encryption has better ones. The same on both sides.
    pub has_checksums: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        const MS: u64 = 1_000_000;
        Settings {
            message_bytes_max: 64 * 1024,
            placed_bytes_min: 4096,
            window_bytes: 1 << 20,
            acknowledge_ns: 20 * MS,
            heartbeat_ns: 1000 * MS,
            doubt_ns: 2200 * MS,
            silence_ns: 5000 * MS,
            resume_ns: 10_000 * MS,
            redial_ns: 50 * MS,
            dial_ns: 2000 * MS,
            has_checksums: true,
        }
    }
}

/// Connections in a row that break before anything new came through: more is no bad luck.
const FRUITLESS_MAX: u32 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No connection. `needed_since`: one is wanted, or one was lost.
    Apart { needed_since: Option<u64>, dial_at: u64 },
    /// This side dials.
    Dialing { needed_since: u64 },
    /// Connected.
    Together,
    /// Given up, or one of the two has left.
    Over,
}

/// Where the payload of a message lies.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// In the bytes that went in.
    There(Range<usize>),
    /// In what was kept of them before: a whole frame. To be given back ([`Link::reuse`]).
    Kept(Vec<u8>),
}

impl Body {
    /// The payload, by the bytes that went in.
    pub fn payload<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match self {
            Body::There(range) => &bytes[range.clone()],
            Body::Kept(frame) => &frame[FRAME_BYTES + HEADER_BYTES..],
        }
    }
}

/// What came of bytes that went in.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// They are used up.
    More,
    /// A message, to be handed over now.
    Message(Header, Body),
    /// A long message whose payload has not come whole: it follows what was used. If there is a place for it, [`Link::placed`] is told of each part that
    /// has come there ([`Link::begun`]), and no part goes through [`Link::input`]; else [`Link::keep_begun`].
    Begun(Header),
}

/// A long message that is coming to where it is to lie.
#[derive(Clone, Debug)]
pub struct Begun {
    frame: Frame,
    /// The message's own.
    pub header: Header,
    /// Bytes of the payload that have come.
    pub came: usize,
    checksum: crc32fast::Hasher,
}

impl Begun {
    /// Bytes of the payload that are still to come.
    pub fn left(&self) -> usize {
        self.header.bytes as usize - self.came
    }
}

/// What a link has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// There is room again.
    Room,
    /// It is over; nothing follows.
    Down(Down),
}

/// The link of rank `me` to rank `peer`.
pub struct Link {
    me: Rank,
    peer: Rank,
    settings: Settings,
    state: State,
    outbox: Outbox,
    /// Numbered frames of the peer that were taken, and as how many it was told last.
    taken: u32,
    taken_told: u32,
    /// Bytes that were taken since.
    untold_bytes: usize,
    peer_window: usize,
    /// When a note has to go out.
    note_due: Option<u64>,
    /// One that is being written, and how much of it was.
    note: [u8; FRAME_BYTES],
    note_left: usize,
    /// The beginning of a frame.
    partial: Vec<u8>,
    /// Or of one whose payload has a place.
    begun: Option<Begun>,
    heard_at: u64,
    /// The connection was given up because nothing came: when the peer is, too, unless another one is made before.
    doubted_until: Option<u64>,
    wrote_at: u64,
    /// Of the peer's process, and of its last attempt to dial.
    peer_instance: Option<u64>,
    peer_attempt: u32,
    attempts: u32,
    /// The attempt that made the connection, if this side did.
    by_attempt: Option<u32>,
    /// No attempt since the connection was lost found anybody who listens.
    all_refused: bool,
    fruitless: u32,
    is_refused: bool,
    /// Whether this side can dial.
    knows_address: bool,
    /// Somebody who knows says that the peer is gone, and how.
    gone: Option<Down>,
    is_leaving: bool,
    messages: u32,
    news: [Option<News>; 2],
}

impl Link {
    /// A link over which nothing has gone yet.
    ///
    /// # Panics
    /// If the window is no power of two that holds eight longest messages.
    pub fn new(me: Rank, peer: Rank, settings: &Settings) -> Link {
        let longest = FRAME_BYTES + HEADER_BYTES + settings.message_bytes_max;
        assert!(settings.window_bytes >= 8 * longest, "a window holds at least eight longest messages");
        Link {
            me,
            peer,
            settings: *settings,
            state: State::Apart { needed_since: None, dial_at: 0 },
            outbox: Outbox::new(settings.window_bytes, settings.has_checksums),
            taken: 0,
            taken_told: 0,
            untold_bytes: 0,
            peer_window: settings.window_bytes,
            note_due: None,
            note: [0; FRAME_BYTES],
            note_left: 0,
            partial: Vec::new(),
            begun: None,
            heard_at: 0,
            doubted_until: None,
            wrote_at: 0,
            peer_instance: None,
            peer_attempt: 0,
            attempts: 0,
            by_attempt: None,
            all_refused: true,
            fruitless: 0,
            is_refused: false,
            knows_address: false,
            gone: None,
            is_leaving: false,
            messages: 0,
            news: [None; 2],
        }
    }

    /// As after so many frames each way, all of which were messages, for tests of counts that wrap. Both sides do it before anything else.
    pub fn start_at(&mut self, number: u32) {
        self.outbox.start_at(number);
        (self.taken, self.taken_told, self.messages) = (number, number, number);
    }

    /// The other side.
    pub fn peer(&self) -> Rank {
        self.peer
    }

    /// How many messages of the peer have come.
    pub fn delivered(&self) -> u32 {
        self.messages
    }

    /// Whether a connection is there.
    pub fn is_together(&self) -> bool {
        self.state == State::Together
    }

    /// Whether nothing goes over it any more.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Takes a message. What is written is up to [`Link::output`].
    ///
    /// # Errors
    /// No room ([`News::Room`] follows), or the link is over.
    ///
    /// # Panics
    /// If the payload is longer than the settings allow, or the header is none of a message.
    pub fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        assert!(payload.len() <= self.settings.message_bytes_max, "no message is longer than the limit");
        assert!(header.kind != 0 && header.kind != 255, "the kind of a message is 1 to 254");
        if self.is_over() || self.is_leaving {
            return Err(Refused::Down);
        }
        // What is left then is for the word that this rank leaves.
        if self.outbox.free_bytes() < 2 * FRAME_BYTES + HEADER_BYTES + payload.len() {
            self.is_refused = true;
            return Err(Refused::Full);
        }
        let header = Header { source: self.me.0, spare: 0, bytes: payload.len() as u32, ..*header };
        self.outbox.push(Kind::Message, Some(&header), payload, self.taken);
        self.has_told();
        Ok(())
    }

    /// Says that nothing follows, behind all that was sent.
    pub fn leave(&mut self) {
        if self.is_over() || std::mem::replace(&mut self.is_leaving, true) {
            return;
        }
        let has_met = self.peer_instance.is_some() || !self.outbox.is_empty();
        match has_met {
            true => self.outbox.push(Kind::Leave, None, &[], self.taken),
            // Nobody has to be told.
            false => self.state = State::Over,
        }
    }

    /// After [`Link::leave`]: whether the peer knows, or there is nobody who could.
    pub fn has_left(&self) -> bool {
        self.is_over() || self.outbox.is_empty()
    }

    /// Bytes that are not written yet.
    pub fn unsent_bytes(&self) -> usize {
        self.outbox.unsent_bytes()
    }

    fn has_told(&mut self) {
        (self.taken_told, self.untold_bytes, self.note_due) = (self.taken, 0, None);
    }

    /// What is to be written to the connection now, in this order; then [`Link::wrote`], and again until there is nothing.
    pub fn output(&mut self, now: u64) -> [&[u8]; 3] {
        let is_note_due = self.note_due.is_some_and(|due| due <= now);
        if self.state != State::Together && self.note_left == 0 {
            return [&[]; 3];
        }
        if self.note_left == 0 && is_note_due && self.outbox.is_between_frames() {
            let (number, taken) = (self.outbox.next_sent(), self.taken);
            self.note = Frame { kind: Kind::Note, bytes: 0, number, taken, checksum: 0 }.to_bytes();
            self.note_left = FRAME_BYTES;
            self.has_told();
        }
        if self.state != State::Together {
            return [&self.note[FRAME_BYTES - self.note_left..], &[], &[]];
        }
        let [one, two] =
            self.outbox.unsent(self.note_left == 0 && is_note_due && !self.outbox.is_between_frames());
        [&self.note[FRAME_BYTES - self.note_left..], one, two]
    }

    /// So many bytes of that went out.
    pub fn wrote(&mut self, bytes: usize, now: u64) {
        let of_note = bytes.min(self.note_left);
        self.note_left -= of_note;
        self.outbox.wrote(bytes - of_note);
        self.wrote_at = now;
    }

    /// Takes in what the connection brought, up to the next message; says how much of it.
    ///
    /// # Errors
    /// What came is no frame, or none that can come now: the connection is to be given up ([`Link::lost`]).
    ///
    /// # Panics
    /// If a message is [`Link::begun`].
    pub fn input(&mut self, bytes: &[u8], now: u64) -> Result<(usize, Step), Garbled> {
        assert!(self.begun.is_none(), "what follows has its place");
        let mut used = 0;
        while used < bytes.len() && self.state != State::Over {
            let rest = &bytes[used..];
            if self.partial.is_empty()
                && let Some(head) = rest.first_chunk::<FRAME_BYTES>()
            {
                let frame = Frame::from_bytes(head, self.settings.message_bytes_max)?;
                if let Some(body) = rest.get(FRAME_BYTES..frame.total_bytes()) {
                    let (from, to) = (used + FRAME_BYTES + HEADER_BYTES, used + frame.total_bytes());
                    used = to;
                    if let Some(header) = self.take(&frame, body, now)? {
                        return Ok((used, Step::Message(header, Body::There(from..to))));
                    }
                    continue;
                }
                if let Some(header) = self.begin(&frame, rest)? {
                    return Ok((used + FRAME_BYTES + HEADER_BYTES, Step::Begun(header)));
                }
            }
            used += self.keep(rest)?;
            if let Some((frame, kept)) = self.take_kept()? {
                let taken = self.take(&frame, &kept[FRAME_BYTES..], now);
                if let Some(header) = taken? {
                    return Ok((used, Step::Message(header, Body::Kept(kept))));
                }
                self.reuse(Body::Kept(kept));
            }
        }
        self.heard_at = now;
        Ok((bytes.len(), Step::More))
    }

    /// Begins a long message of which only the beginning is there.
    fn begin(&mut self, frame: &Frame, bytes: &[u8]) -> Result<Option<Header>, Garbled> {
        let is_long = frame.total_bytes() >= FRAME_BYTES + HEADER_BYTES + self.settings.placed_bytes_min;
        // One that has come before goes the usual way.
        let is_next = frame.kind == Kind::Message && frame.number == self.taken;
        let Some(words) = bytes.get(FRAME_BYTES..FRAME_BYTES + HEADER_BYTES) else { return Ok(None) };
        if !is_long || !is_next {
            return Ok(None);
        }
        let header = self.header_of(words, frame.bytes as usize - HEADER_BYTES)?;
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(words);
        self.begun = Some(Begun { frame: *frame, header, came: 0, checksum });
        Ok(Some(header))
    }

    /// The message that is coming to its place.
    pub fn begun(&self) -> Option<&Begun> {
        self.begun.as_ref()
    }

    /// There is no place for the message that has just begun, the payload of which is kept until it is whole.
    ///
    /// # Panics
    /// If none has, or some of it has come to a place.
    pub fn keep_begun(&mut self) {
        let Some(Begun { frame, header, came: 0, .. }) = self.begun.take() else {
            panic!("only what has just begun is kept")
        };
        self.partial.extend_from_slice(&frame.to_bytes());
        header.to_words(0).iter().for_each(|word| self.partial.extend_from_slice(&word.to_le_bytes()));
    }

    /// A part of its payload lies where it is to lie, or was dropped. The message's header, if that was the last.
    ///
    /// # Errors
    /// As [`Link::input`].
    ///
    /// # Panics
    /// If none has begun, or that is more than the rest of it.
    pub fn placed(&mut self, part: &[u8], now: u64) -> Result<Option<Header>, Garbled> {
        let begun = self.begun.as_mut().expect("a message has begun");
        assert!(part.len() <= begun.left(), "no more than the rest of the message");
        begun.came += part.len();
        if self.settings.has_checksums {
            begun.checksum.update(part);
        }
        self.heard_at = now;
        if begun.left() > 0 {
            return Ok(None);
        }
        let Some(Begun { frame, header, checksum, .. }) = self.begun.take() else { unreachable!() };
        if frame.checksum != if self.settings.has_checksums { checksum.finalize() } else { 0 } {
            return Err(Garbled::Checksum);
        }
        if self.outbox.acknowledge(frame.taken)? {
            self.was_acknowledged();
        }
        self.count_message(&frame, now);
        Ok(Some(header))
    }

    /// Keeps bytes of a frame that has not come whole; says how many.
    fn keep(&mut self, bytes: &[u8]) -> Result<usize, Garbled> {
        let mut used = 0;
        for _ in 0..2 {
            let wanted = match self.partial.first_chunk::<FRAME_BYTES>() {
                None => FRAME_BYTES,
                Some(head) => Frame::from_bytes(head, self.settings.message_bytes_max)?.total_bytes(),
            };
            let step = (wanted - self.partial.len()).min(bytes.len() - used);
            self.partial.extend_from_slice(&bytes[used..used + step]);
            used += step;
        }
        Ok(used)
    }

    /// The frame that was kept, if it is whole.
    fn take_kept(&mut self) -> Result<Option<(Frame, Vec<u8>)>, Garbled> {
        let Some(head) = self.partial.first_chunk::<FRAME_BYTES>() else { return Ok(None) };
        let frame = Frame::from_bytes(head, self.settings.message_bytes_max)?;
        let is_whole = self.partial.len() == frame.total_bytes();
        Ok(is_whole.then(|| (frame, std::mem::take(&mut self.partial))))
    }

    /// Gives back what a message lay in.
    pub fn reuse(&mut self, body: Body) {
        if let Body::Kept(mut frame) = body
            && self.partial.is_empty()
        {
            frame.clear();
            self.partial = frame;
        }
    }

    /// A whole frame; its header, if it is a message that has not come before.
    fn take(&mut self, frame: &Frame, body: &[u8], now: u64) -> Result<Option<Header>, Garbled> {
        if frame.checksum != if self.settings.has_checksums { crc32fast::hash(body) } else { 0 } {
            return Err(Garbled::Checksum);
        }
        if self.outbox.acknowledge(frame.taken)? {
            self.was_acknowledged();
        }
        self.heard_at = now;
        let ahead = frame.number.wrapping_sub(self.taken);
        let is_behind = ahead > u32::MAX / 2;
        match frame.kind {
            Kind::Note if ahead == 0 => Ok(None),
            _ if frame.kind.is_numbered() && is_behind => Ok(None),
            _ if ahead != 0 => Err(Garbled::OutOfTurn),
            Kind::Note => Ok(None),
            Kind::Leave => {
                self.count_taken(FRAME_BYTES, now);
                self.note_due = Some(now);
                // The note is the last that goes out.
                if self.outbox.is_between_frames() && self.note_left == 0 {
                    let _ = self.output(now);
                }
                self.end(Down::Left);
                Ok(None)
            }
            Kind::Message => {
                let (words, payload) = body.split_at(HEADER_BYTES);
                let header = self.header_of(words, payload.len())?;
                self.count_message(frame, now);
                Ok(Some(header))
            }
        }
    }

    /// The header of a message of the peer whose payload is so long.
    fn header_of(&self, words: &[u8], payload_bytes: usize) -> Result<Header, Garbled> {
        let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().expect("eight bytes"));
        let header = Header::from_words([word(0), word(8), word(16), word(24)]);
        let is_true = header.source == self.peer.0
            && header.bytes as usize == payload_bytes
            && header.spare == 0
            && !matches!(header.kind, 0 | 255);
        if is_true { Ok(header) } else { Err(Garbled::Header) }
    }

    fn count_message(&mut self, frame: &Frame, now: u64) {
        self.count_taken(frame.total_bytes(), now);
        self.messages = self.messages.wrapping_add(1);
    }

    /// The peer has told that it has taken more.
    fn was_acknowledged(&mut self) {
        self.fruitless = 0;
        let free = self.outbox.free_bytes();
        if self.is_refused && free >= self.settings.window_bytes / 2 {
            self.is_refused = false;
            self.news[0] = Some(News::Room);
        }
    }

    fn count_taken(&mut self, bytes: usize, now: u64) {
        self.taken = self.taken.wrapping_add(1);
        self.fruitless = 0;
        self.untold_bytes += bytes;
        // Early enough that the peer never waits for it.
        let is_much = self.untold_bytes >= self.peer_window / 4;
        let due = if is_much { now } else { now + self.settings.acknowledge_ns };
        self.note_due = Some(self.note_due.map_or(due, |before| before.min(due)));
    }

    /// From now on this side can dial.
    pub fn may_dial(&mut self) {
        self.knows_address = true;
    }

    /// Whether this side is to dial now.
    pub fn wants_dial(&self, now: u64) -> bool {
        match self.state {
            State::Apart { needed_since, dial_at } => {
                self.knows_address && dial_at <= now && (needed_since.is_some() || !self.outbox.is_empty())
            }
            _ => false,
        }
    }

    /// This side dials: what it says when it is asked.
    ///
    /// # Panics
    /// If it does not want to.
    pub fn dial(&mut self, instance: u64, now: u64) -> Hello {
        let State::Apart { needed_since, .. } = self.state else { panic!("only who is apart dials") };
        self.state = State::Dialing { needed_since: needed_since.unwrap_or(now) };
        self.attempts += 1;
        self.hello(instance)
    }

    /// The same, as it is when the question comes.
    pub fn hello(&self, instance: u64) -> Hello {
        let window = self.settings.window_bytes as u32;
        let (attempt, welcomed) = (self.attempts, self.peer_attempt);
        Hello { from: self.me, to: self.peer, instance, attempt, welcomed, taken: self.taken, window }
    }

    /// Nothing came of it; `is_refused`: since nobody listens there.
    pub fn dial_failed(&mut self, is_refused: bool, now: u64) {
        if let State::Dialing { needed_since } = self.state {
            self.all_refused &= is_refused;
            let dial_at = now + self.settings.redial_ns;
            self.state = State::Apart { needed_since: Some(needed_since), dial_at };
            self.tick(now);
        }
    }

    /// The peer answered.
    pub fn welcomed(&mut self, welcome: &Welcome, now: u64) {
        match welcome.verdict {
            Verdict::Busy => self.dial_failed(false, now),
            Verdict::Gone => self.end(Down::PathLost),
            Verdict::Welcome if !self.is_same(welcome.instance) => self.end(Down::Died),
            Verdict::Welcome => match self.attach(welcome.taken, welcome.window, now) {
                Ok(()) => self.by_attempt = Some(self.attempts),
                Err(_) => self.dial_failed(false, now),
            },
        }
    }

    /// The peer dials: what it is told. If it is welcome, its connection replaces whatever there was.
    pub fn meet(&mut self, hello: &Hello, instance: u64, now: u64) -> Welcome {
        let verdict = self.judge(hello, now);
        let window = self.settings.window_bytes as u32;
        Welcome { verdict, from: self.me, instance, taken: self.taken, window }
    }

    fn judge(&mut self, hello: &Hello, now: u64) -> Verdict {
        if !self.is_over() && !self.is_same(hello.instance) {
            self.end(Down::Died);
        }
        if self.is_over() {
            return Verdict::Gone;
        }
        if hello.attempt <= self.peer_attempt {
            return Verdict::Busy;
        }
        // Of two that dial each other the lower rank's connection is the one.
        let crosses = matches!(self.state, State::Dialing { .. }) && self.me < self.peer;
        // The peer said that before it welcomed the connection that is there: what said it is given up.
        let is_older = self.by_attempt.is_some_and(|attempt| hello.welcomed < attempt);
        if crosses || is_older {
            return Verdict::Busy;
        }
        self.peer_attempt = hello.attempt;
        match self.attach(hello.taken, hello.window, now) {
            Ok(()) => Verdict::Welcome,
            // It said so before it took what came by another connection since; that attempt is given up there.
            Err(_) => Verdict::Busy,
        }
    }

    /// Whether the peer's process is the one that was met before, if any was.
    fn is_same(&mut self, instance: u64) -> bool {
        *self.peer_instance.get_or_insert(instance) == instance
    }

    fn attach(&mut self, taken: u32, window: u32, now: u64) -> Result<(), Garbled> {
        if self.outbox.rewind(taken)? {
            self.was_acknowledged();
        }
        self.state = State::Together;
        self.by_attempt = None;
        self.peer_window = window as usize;
        self.partial.clear();
        self.begun = None;
        self.note_left = 0;
        (self.heard_at, self.wrote_at, self.all_refused) = (now, now, true);
        self.doubted_until = None;
        self.has_told();
        Ok(())
    }

    /// The connection is gone.
    pub fn lost(&mut self, now: u64) {
        self.note_left = 0;
        if self.state != State::Together {
            return;
        }
        self.fruitless += 1;
        if self.gone.is_some() || self.fruitless > FRUITLESS_MAX {
            return self.end(self.gone.unwrap_or(Down::PathLost));
        }
        // The lower rank's attempt comes first, so that they seldom cross.
        let wait = if self.me < self.peer { 0 } else { self.settings.redial_ns };
        self.state = State::Apart { needed_since: Some(now), dial_at: now + wait };
    }

    /// Somebody who knows says that the peer has died or left. What it sent before is still taken, if a connection brings it.
    pub fn is_gone(&mut self, why: Down) {
        self.gone = Some(why);
        if matches!(self.state, State::Apart { .. } | State::Dialing { .. }) {
            self.end(why);
        }
    }

    fn end(&mut self, why: Down) {
        if self.state != State::Over {
            self.state = State::Over;
            self.outbox.clear();
            self.partial = Vec::new();
            self.begun = None;
            self.news = [None, Some(News::Down(why))];
        }
    }

    /// Whether nothing has come over the connection for so long that another one is to be tried.
    pub fn doubts(&self, now: u64) -> bool {
        let Settings { doubt_ns, silence_ns, .. } = self.settings;
        self.state == State::Together && now >= self.heard_at + doubt_ns && now < self.heard_at + silence_ns
    }

    /// The connection is given up since nothing comes: if the peer is silent on another one, too, it is given up.
    pub fn doubt(&mut self, now: u64) {
        let until = self.heard_at + self.settings.silence_ns;
        self.lost(now);
        self.doubted_until = Some(until).filter(|_| !self.is_over());
    }

    /// Nobody has looked at the connection for so long: that is not the peer's silence.
    pub fn was_away(&mut self, for_ns: u64) {
        self.heard_at += for_ns;
        self.doubted_until = self.doubted_until.map(|until| until + for_ns);
    }

    /// When [`Link::tick`] has something to do, if nothing happens before.
    pub fn next_time(&self) -> Option<u64> {
        let Settings { heartbeat_ns, doubt_ns, silence_ns, resume_ns, .. } = self.settings;
        let next = match self.state {
            State::Together => {
                let due = (self.wrote_at + heartbeat_ns).min(self.heard_at + silence_ns.min(doubt_ns));
                Some(self.note_due.map_or(due, |note| note.min(due)))
            }
            State::Apart { needed_since: Some(since), dial_at } if self.knows_address => {
                Some(dial_at.min(since + resume_ns))
            }
            State::Apart { needed_since: Some(since), .. } => Some(since + resume_ns),
            State::Apart { needed_since: None, dial_at } => {
                (self.knows_address && !self.outbox.is_empty()).then_some(dial_at)
            }
            State::Dialing { needed_since } => Some(needed_since + resume_ns),
            State::Over => return None,
        };
        match self.doubted_until {
            Some(until) => Some(next.map_or(until, |next| next.min(until))),
            None => next,
        }
    }

    /// Time has passed: gives up who is silent for too long, and sees to it that this side is not.
    pub fn tick(&mut self, now: u64) {
        if self.doubted_until.is_some_and(|until| until <= now) {
            return self.end(self.gone.unwrap_or(Down::PathLost));
        }
        match self.state {
            State::Together if now >= self.heard_at + self.settings.silence_ns => {
                self.end(self.gone.unwrap_or(Down::PathLost));
            }
            State::Together if now >= self.wrote_at + self.settings.heartbeat_ns => {
                // If nothing can be written, that is not for want of trying again at once.
                self.wrote_at = now;
                self.note_due = Some(now);
            }
            State::Apart { needed_since: Some(since), .. } | State::Dialing { needed_since: since }
                if now >= since + self.settings.resume_ns =>
            {
                let nobody_listens = self.all_refused && self.attempts > 0;
                self.end(if nobody_listens { Down::Died } else { Down::PathLost });
            }
            _ => {}
        }
    }

    /// What is to be told, one at a time.
    pub fn take_news(&mut self) -> Option<News> {
        self.news[0].take().or_else(|| self.news[1].take())
    }
}
