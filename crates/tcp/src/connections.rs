//! A rank's connections, from the first byte to the last: who is let in, which link each belongs to, what is read and written.

use crate::frame::Garbled;
use crate::handshake::{self, CHALLENGE_BYTES, HELLO_BYTES, Secret, Stranger, Verdict, WELCOME_BYTES};
use crate::link::{Begun, Link, News, Settings};
use crate::socket;
use crate::tls::Keys;
use crate::wire::Wire;
use castell_base::Rank;
use castell_host::clock::Clock;
use castell_host::epoll;
use castell_host::process;
use castell_host::random::random_bytes;
use castell_transport::Header;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Who has been let in but not proved anything; of more the oldest goes.
const UNPROVED_MAX: usize = 256;
/// Connections that are accepted in one go.
const ACCEPTS_AT_A_TIME: usize = 64;
/// How long nobody is let in after files have run out.
const FILES_PAUSE_NS: u64 = 100_000_000;
/// A rank that has not looked at its connections for so long can't call others silent for it.
const AWAY_NS: u64 = 500_000_000;

pub(crate) const TIMER: u64 = u64::MAX;
const LISTENERS: u64 = u64::MAX - 64;

/// What has happened on the network, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that were made.
    pub connections: u64,
    /// Connections that broke while both ranks lived, as far as was known.
    pub breaks: u64,
    /// Connections given up because of bytes that are no frame.
    pub garbled: u64,
    /// Connections of strangers: no proof, a wrong one, none in time, or too many at once.
    pub strangers: u64,
}

enum Stage {
    /// Was asked, and has to prove who it is.
    Accepted { challenge: [u8; CHALLENGE_BYTES] },
    /// Being made.
    Connecting { rank: Rank },
    /// Waits for the question.
    Asked { rank: Rank },
    /// Has answered.
    Proved { rank: Rank, challenge: [u8; CHALLENGE_BYTES], hello: [u8; HELLO_BYTES] },
    /// Carries frames.
    Open { rank: Rank },
}

struct Connection {
    wire: Wire,
    stage: Stage,
    stamp: u32,
    /// While it is not open.
    until: u64,
    heard: [u8; HELLO_BYTES],
    filled: usize,
    /// Whether it is watched until it can be written to.
    awaits_room: bool,
    /// Nothing can be written any more; what came before may still be read.
    is_mute: bool,
}

/// What is known of another rank.
pub(crate) struct Peer {
    pub(crate) link: Link,
    addresses: Box<[SocketAddr]>,
    /// Which of them is tried next.
    next_address: usize,
    connection: Option<usize>,
    /// What the last attempt to reach it ended with.
    trouble: Option<Trouble>,
    /// Something waits until the system takes it.
    is_behind: bool,
}

/// Why a peer could not be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    System(SocketAddr, Errno),
    Stranger(SocketAddr, Stranger),
    Silent(SocketAddr),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::System(at, error) => write!(out, "{at}: {}", std::io::Error::from(*error)),
            Trouble::Stranger(at, stranger) => write!(out, "{at}: {stranger}"),
            Trouble::Silent(at) => write!(out, "{at}: no answer; is a firewall in between?"),
        }
    }
}

pub(crate) struct Connections {
    pub(crate) me: Rank,
    instance: u64,
    pub(crate) settings: Settings,
    secret: Secret,
    /// Where connections are encrypted once both sides have proved who they are.
    keys: Option<Keys>,
    /// Encrypted bytes, while they are read; empty where there are none.
    encrypted: Box<[u8]>,
    pub(crate) clock: Clock,
    epoll: Arc<OwnedFd>,
    listeners: Vec<OwnedFd>,
    /// Addresses to connect from; none: any.
    from: Box<[IpAddr]>,
    /// No file was left, and the limit can't be raised further.
    has_hit_limit: bool,
    /// Nobody is let in before.
    deaf_until: Option<u64>,
    /// By rank.
    peers: Box<[Option<Box<Peer>>]>,
    open: Vec<Option<Connection>>,
    next_stamp: u32,
    unproved: usize,
    /// How many peers something waits for until the system takes it.
    behind: usize,
    /// Nothing is due before.
    next_time: u64,
    looked_at: u64,
    /// Somebody sleeps on the epoll since.
    pub(crate) is_armed: bool,
    is_closed: bool,
    /// What the links have to tell.
    pub(crate) news: VecDeque<(Rank, News)>,
    pub(crate) counters: Counters,
}

impl Connections {
    pub(crate) fn new(
        (me, ranks): (Rank, u32),
        (secret, encrypted): (Secret, Option<Box<[u8]>>),
        settings: Settings,
        clock: Clock,
        (epoll, listeners, from): (Arc<OwnedFd>, Vec<OwnedFd>, &[IpAddr]),
    ) -> Result<Connections, std::io::Error> {
        for (token, listener) in (LISTENERS..).zip(&listeners) {
            epoll::watch(&epoll, listener, token, false)?;
        }
        Ok(Connections {
            me,
            instance: u64::from_le_bytes(random_bytes()?),
            settings,
            keys: encrypted.is_some().then(|| Keys::of(&secret)),
            encrypted: encrypted.unwrap_or_default(),
            secret,
            looked_at: clock.now(),
            is_armed: false,
            is_closed: false,
            clock,
            epoll,
            listeners,
            from: from.into(),
            has_hit_limit: false,
            deaf_until: None,
            peers: (0..ranks).map(|_| None).collect(),
            open: Vec::new(),
            // A little before it wraps around, as it does for everybody then.
            next_stamp: (u32::MAX >> 1) - 3,
            unproved: 0,
            behind: 0,
            next_time: u64::MAX,
            news: VecDeque::new(),
            counters: Counters::default(),
        })
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.peers.len() as u32
    }

    /// The rank's entry, made on first use.
    pub(crate) fn peer(&mut self, rank: Rank) -> &mut Peer {
        let (me, settings) = (self.me, &self.settings);
        self.peers[rank.index()].get_or_insert_with(|| {
            let link = Link::new(me, rank, settings);
            let (addresses, next_address, connection, trouble) = ([].into(), 0, None, None);
            Box::new(Peer { link, addresses, next_address, connection, trouble, is_behind: false })
        })
    }

    /// Where the rank is found.
    pub(crate) fn introduce(&mut self, rank: Rank, addresses: Vec<SocketAddr>) {
        let peer = self.peer(rank);
        peer.addresses = addresses.into();
        peer.link.may_dial();
    }

    pub(crate) fn why(&self, rank: Rank) -> Option<String> {
        Some(self.peers[rank.index()].as_ref()?.trouble?.to_string())
    }

    /// Whether the system has taken all that was sent.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.behind == 0
    }

    /// Whether all that were met know that this rank leaves, or can't be told.
    pub(crate) fn have_all_left(&self) -> bool {
        self.peers.iter().flatten().all(|peer| peer.link.has_left())
    }

    /// Calls `change` for each rank that was met.
    pub(crate) fn for_each(&mut self, mut change: impl FnMut(&mut Link), now: u64) {
        for rank in (0..self.ranks()).map(Rank) {
            if let Some(peer) = &mut self.peers[rank.index()] {
                change(&mut peer.link);
                self.see_to(rank, now);
            }
        }
    }

    /// Before anything is read: whoever was away for long has heard nobody.
    pub(crate) fn begin_look(&mut self, now: u64) {
        // Who sleeps is woken when something is due, unless the process is stopped or gets no processor.
        let due = if std::mem::take(&mut self.is_armed) { self.next_time } else { 0 };
        let away = now.saturating_sub(self.looked_at.max(due));
        self.looked_at = now;
        if away > AWAY_NS {
            self.peers.iter_mut().flatten().for_each(|peer| peer.link.was_away(away));
        }
    }

    /// When something is due.
    pub(crate) fn next_time(&self) -> u64 {
        self.next_time
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: u64) {
        if now < self.next_time {
            return;
        }
        self.next_time = u64::MAX;
        if self.deaf_until.is_some_and(|until| until <= now) {
            self.deaf_until = None;
            self.listen(true);
        }
        for slot in 0..self.open.len() {
            let Some(connection) = &self.open[slot] else { continue };
            if matches!(connection.stage, Stage::Open { .. }) {
                continue;
            }
            if connection.until <= now {
                self.give_up(slot, None, now);
            } else {
                self.next_time = self.next_time.min(connection.until);
            }
        }
        self.next_time = self.next_time.min(self.deaf_until.unwrap_or(u64::MAX));
        for rank in (0..self.ranks()).map(Rank) {
            let Some(peer) = &mut self.peers[rank.index()] else { continue };
            if peer.link.doubts(now)
                && let Some(slot) = peer.connection
            {
                peer.link.doubt(now);
                self.counters.breaks += 1;
                self.close(slot);
            }
        }
        self.for_each(|link| link.tick(now), now);
    }

    /// Ends all connections, and listens no more, as when the process dies.
    pub(crate) fn close_all(&mut self) {
        self.listeners.clear();
        self.open.clear();
        self.is_closed = true;
    }

    /// Whatever a link has to have done now: dialing, writing, telling.
    pub(crate) fn see_to(&mut self, rank: Rank, now: u64) {
        if self.is_closed {
            return;
        }
        if self.peer(rank).link.wants_dial(now) {
            self.dial(rank, now);
        }
        self.write(rank, now);
        let peer = self.peers[rank.index()].as_deref_mut().expect("it was looked at");
        let connection = peer.connection.and_then(|slot| self.open[slot].as_ref());
        let waits = peer.link.unsent_bytes() > 0 || connection.is_some_and(|one| one.wire.is_behind());
        let was_behind = std::mem::replace(&mut peer.is_behind, waits);
        self.behind = self.behind + usize::from(peer.is_behind) - usize::from(was_behind);
        while let Some(news) = peer.link.take_news() {
            self.news.push_back((rank, news));
        }
        self.next_time = self.next_time.min(peer.link.next_time().unwrap_or(u64::MAX));
    }

    /// Writes what the link wants written, as far as there is room.
    fn write(&mut self, rank: Rank, now: u64) {
        let Some(peer) = &mut self.peers[rank.index()] else { return };
        let Some(slot) = peer.connection else { return };
        let connection = self.open[slot].as_mut().expect("a peer's connection exists");
        if !matches!(connection.stage, Stage::Open { .. }) {
            // A link that is over needs none.
            if peer.link.is_over() {
                self.close(slot);
            }
            return;
        }
        let mut awaits_room = false;
        while !connection.is_mute {
            let parts = peer.link.output(now);
            if parts.iter().all(|part| part.is_empty()) {
                break;
            }
            match connection.wire.send(parts) {
                // Both sides come to terms about their keys first.
                Ok(0) => break,
                Ok(bytes) => peer.link.wrote(bytes, now),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    awaits_room = true;
                    break;
                }
                // What the peer sent before is still read; reading finds out what has happened.
                Err(_) => connection.is_mute = true,
            }
        }
        if !connection.is_mute && !awaits_room {
            match connection.wire.flush() {
                Ok(()) => {}
                Err(Errno::AGAIN) => awaits_room = true,
                Err(_) => connection.is_mute = true,
            }
        }
        if awaits_room != connection.awaits_room {
            connection.awaits_room = awaits_room;
            let token = token(slot, connection.stamp);
            // An epoll that forgets a socket can't happen, and would show as a silent peer.
            let _ = epoll::watch_again(&self.epoll, &connection.wire.socket, token, true, awaits_room);
        }
        if peer.link.is_over() && !awaits_room {
            self.close(slot);
        }
    }

    fn dial(&mut self, rank: Rank, now: u64) {
        let instance = self.instance;
        let peer = self.peers[rank.index()].as_deref_mut().expect("it was looked at");
        peer.link.dial(instance, now);
        let at = peer.addresses[peer.next_address % peer.addresses.len()];
        let from = self.from.iter().copied().find(|ip| ip.is_ipv4() == at.is_ipv4());
        let dialed = match socket::dial(at, from) {
            Err(Errno::MFILE) if self.may_open_more_files() => socket::dial(at, from),
            dialed => dialed,
        };
        let peer = self.peers[rank.index()].as_deref_mut().expect("it was looked at");
        match dialed {
            Ok(socket) => {
                let until = now + self.settings.dial_ns;
                let slot = self.add(socket, Stage::Connecting { rank }, until, true);
                self.peer(rank).connection = slot;
                if slot.is_none() {
                    self.peer(rank).link.dial_failed(false, now);
                }
            }
            Err(error) => {
                peer.trouble = Some(Trouble::System(at, error));
                peer.next_address += 1;
                peer.link.dial_failed(error == Errno::CONNREFUSED, now);
            }
        }
    }

    fn add(&mut self, socket: OwnedFd, stage: Stage, until: u64, awaits_room: bool) -> Option<usize> {
        let slot = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.next_stamp = self.next_stamp.wrapping_add(1) & (u32::MAX >> 1);
        let stamp = self.next_stamp;
        epoll::watch(&self.epoll, &socket, token(slot, stamp), awaits_room).ok()?;
        let wire = Wire::new(socket);
        self.unproved += usize::from(matches!(stage, Stage::Accepted { .. }));
        self.next_time = self.next_time.min(until);
        let (heard, filled) = ([0; HELLO_BYTES], 0);
        self.open[slot] =
            Some(Connection { wire, stage, stamp, until, heard, filled, awaits_room, is_mute: false });
        Some(slot)
    }

    fn close(&mut self, slot: usize) {
        let Some(gone) = self.open[slot].take() else { return };
        match gone.stage {
            Stage::Accepted { .. } => self.unproved -= 1,
            Stage::Connecting { rank }
            | Stage::Asked { rank }
            | Stage::Proved { rank, .. }
            | Stage::Open { rank } => {
                let peer = self.peer(rank);
                if peer.connection == Some(slot) {
                    peer.connection = None;
                }
            }
        }
    }

    /// Ends a connection that is of no use any more, and says so to its link.
    fn give_up(&mut self, slot: usize, trouble: Option<Result<Errno, Stranger>>, now: u64) {
        let Some(connection) = &self.open[slot] else { return };
        match connection.stage {
            Stage::Accepted { .. } => {
                self.counters.strangers += 1;
                self.close(slot);
            }
            Stage::Open { rank } => {
                self.close(slot);
                let link = &mut self.peer(rank).link;
                let breaks = link.is_together();
                link.lost(now);
                self.counters.breaks += u64::from(breaks);
                self.see_to(rank, now);
            }
            Stage::Connecting { rank } | Stage::Asked { rank } | Stage::Proved { rank, .. } => {
                self.close(slot);
                let peer = self.peer(rank);
                let at = peer.addresses[peer.next_address % peer.addresses.len()];
                peer.next_address += 1;
                peer.trouble = Some(match trouble {
                    None => Trouble::Silent(at),
                    Some(Ok(error)) => Trouble::System(at, error),
                    Some(Err(stranger)) => Trouble::Stranger(at, stranger),
                });
                peer.link.dial_failed(matches!(trouble, Some(Ok(Errno::CONNREFUSED))), now);
                self.see_to(rank, now);
            }
        }
    }

    fn listen(&mut self, listens: bool) {
        for (token, listener) in (LISTENERS..).zip(&self.listeners) {
            let _ = epoll::watch_again(&self.epoll, listener, token, listens, false);
        }
    }

    /// Lets in who is at the door.
    fn accept(&mut self, listener: usize, now: u64) {
        for _ in 0..ACCEPTS_AT_A_TIME {
            match socket::accept(&self.listeners[listener]) {
                Ok(socket) => self.challenge(socket, now),
                Err(Errno::MFILE) if self.may_open_more_files() => {}
                Err(Errno::MFILE | Errno::NFILE) if self.unproved > 0 => self.drop_oldest(now),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.deaf_until = Some(now + FILES_PAUSE_NS);
                    self.next_time = self.next_time.min(now + FILES_PAUSE_NS);
                    return self.listen(false);
                }
                Err(Errno::AGAIN) => return,
                // Whoever it was has gone again.
                Err(_) => {}
            }
        }
    }

    /// No file is left: the limit is raised as far as this process may. Where that is not enough, it says so, once.
    #[cold]
    fn may_open_more_files(&mut self) -> bool {
        if std::mem::replace(&mut self.has_hit_limit, true) {
            return false;
        }
        let before = process::raise_open_files_limit();
        if before.can_be_raised() {
            self.has_hit_limit = false;
            return true;
        }
        castell_host::say(&format!(
            "rank {}: this process may have {} files open, and its connections need more: raise the hard limit (`ulimit -Hn`, \
             /etc/security/limits.conf, LimitNOFILE= of the service), or use fewer ranks; until then ranks wait that can't connect to it",
            self.me,
            before.count()
        ));
        false
    }

    fn challenge(&mut self, socket: OwnedFd, now: u64) {
        let Ok(nonce) = random_bytes() else { return };
        if self.unproved >= UNPROVED_MAX {
            self.drop_oldest(now);
        }
        let challenge = handshake::challenge(&nonce, self.keys.is_some());
        if socket::send(&socket, [&challenge, &[], &[]]) == Ok(CHALLENGE_BYTES) {
            self.add(socket, Stage::Accepted { challenge }, now + self.settings.dial_ns, false);
        }
    }

    fn drop_oldest(&mut self, now: u64) {
        let unproved = self.open.iter().enumerate().filter_map(|(slot, connection)| {
            let connection = connection.as_ref()?;
            matches!(connection.stage, Stage::Accepted { .. }).then_some((connection.until, slot))
        });
        if let Some((_, slot)) = unproved.min() {
            self.give_up(slot, None, now);
        }
    }

    /// The connection that a token means, if it was not closed since.
    fn connection(&self, token: u64) -> Option<(usize, &Connection)> {
        let slot = (token & u64::from(u32::MAX)) as usize;
        let connection = self.open.get(slot)?.as_ref()?;
        (u64::from(connection.stamp) == token >> 32).then_some((slot, connection))
    }

    /// What of a message is coming to its place over the connection, if it comes as it is.
    pub(crate) fn begun(&self, token: u64) -> Option<&Begun> {
        let (slot, connection) = self.connection(token)?;
        let Stage::Open { rank } = connection.stage else { return None };
        let peer = self.peers[rank.index()].as_ref()?;
        let is_its = peer.connection == Some(slot) && !connection.wire.is_encrypted();
        peer.link.begun().filter(|_| is_its)
    }

    /// Something is ready. Bytes of an open connection are read into `into`: whose, and how many.
    pub(crate) fn handle(&mut self, token: u64, into: [&mut [u8]; 2], now: u64) -> Option<(Rank, usize)> {
        if (LISTENERS..TIMER).contains(&token) {
            self.accept((token - LISTENERS) as usize, now);
            return None;
        }
        let (slot, connection) = self.connection(token)?;
        match connection.stage {
            Stage::Open { rank } => self.read(slot, rank, into, now).map(|bytes| (rank, bytes)),
            Stage::Connecting { rank } => {
                self.has_connected(slot, rank, now);
                None
            }
            _ => {
                self.shake_hands(slot, now);
                None
            }
        }
    }

    fn read(&mut self, slot: usize, rank: Rank, into: [&mut [u8]; 2], now: u64) -> Option<usize> {
        let connection = self.open[slot].as_ref().expect("it was looked at");
        if connection.awaits_room {
            self.write(rank, now);
        }
        let connection = self.open[slot].as_mut()?;
        let was_ready = connection.wire.is_ready();
        let came = connection.wire.receive(into, &mut self.encrypted);
        if connection.wire.is_behind() || connection.wire.is_ready() != was_ready {
            self.write(rank, now);
        }
        match came {
            Ok(bytes) if bytes > 0 => return Some(bytes),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::BADMSG) => self.garbled(rank, now),
            Ok(_) | Err(_) => self.give_up(slot, None, now),
        }
        None
    }

    fn has_connected(&mut self, slot: usize, rank: Rank, now: u64) {
        let connection = self.open[slot].as_mut().expect("it was looked at");
        match socket::connected(&connection.wire.socket) {
            Ok(()) => {
                connection.stage = Stage::Asked { rank };
                connection.awaits_room = false;
                let token = token(slot, connection.stamp);
                let _ = epoll::watch_again(&self.epoll, &connection.wire.socket, token, true, false);
            }
            Err(error) => self.give_up(slot, Some(Ok(error)), now),
        }
    }

    /// Reads exactly what the other side has to say next, and answers.
    fn shake_hands(&mut self, slot: usize, now: u64) {
        let connection = self.open[slot].as_mut().expect("it was looked at");
        let wanted = match connection.stage {
            Stage::Accepted { .. } => HELLO_BYTES,
            Stage::Asked { .. } => CHALLENGE_BYTES,
            _ => WELCOME_BYTES,
        };
        match socket::receive(&connection.wire.socket, &mut connection.heard[connection.filled..wanted]) {
            Ok(bytes) if bytes > 0 => connection.filled += bytes,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(_) => return self.give_up(slot, Some(Ok(Errno::CONNRESET)), now),
            Err(error) => return self.give_up(slot, Some(Ok(error)), now),
        }
        if connection.filled < wanted {
            return;
        }
        connection.filled = 0;
        let done = match connection.stage {
            Stage::Accepted { challenge } => self.admit(slot, &challenge, now),
            Stage::Asked { rank } => self.prove(slot, rank),
            Stage::Proved { rank, challenge, hello } => self.begin(slot, rank, &challenge, &hello, now),
            Stage::Connecting { .. } | Stage::Open { .. } => Ok(()),
        };
        if let Err(stranger) = done {
            self.give_up(slot, Some(Err(stranger)), now);
        }
    }

    /// Listener: somebody says who it is.
    fn admit(&mut self, slot: usize, challenge: &[u8; CHALLENGE_BYTES], now: u64) -> Result<(), Stranger> {
        let connection = self.open[slot].as_ref().expect("it was looked at");
        let said = connection.heard;
        let hello = handshake::check_hello(&self.secret, challenge, &said)?;
        let (me, instance) = (self.me, self.instance);
        if hello.to != me || hello.from == me || hello.from.0 >= self.ranks() {
            return Err(Stranger::NotMeant);
        }
        let rank = hello.from;
        let welcome = self.peer(rank).link.meet(&hello, instance, now);
        let answer = handshake::welcome(&self.secret, challenge, &said, &welcome);
        let connection = self.open[slot].as_ref().expect("it was looked at");
        // If it does not go out, the other side dials again.
        let has_answered = socket::send(&connection.wire.socket, [&answer, &[], &[]]) == Ok(WELCOME_BYTES);
        if welcome.verdict == Verdict::Welcome {
            self.unproved -= 1;
            self.replace(rank, slot);
            if !has_answered {
                self.give_up(slot, None, now);
            }
        } else {
            self.close(slot);
        }
        self.see_to(rank, now);
        Ok(())
    }

    /// Dialer: answers the question.
    fn prove(&mut self, slot: usize, rank: Rank) -> Result<(), Stranger> {
        let instance = self.instance;
        let said = self.peer(rank).link.hello(instance);
        let connection = self.open[slot].as_mut().expect("it was looked at");
        let challenge = *connection.heard.first_chunk::<CHALLENGE_BYTES>().expect("it was read");
        let Ok(nonce) = random_bytes() else { return Err(Stranger::Foreign) };
        let hello = handshake::hello(&self.secret, &challenge, &nonce, &said, self.keys.is_some())?;
        if socket::send(&connection.wire.socket, [&hello, &[], &[]]) != Ok(HELLO_BYTES) {
            return Err(Stranger::Foreign);
        }
        connection.stage = Stage::Proved { rank, challenge, hello };
        Ok(())
    }

    /// Dialer: the answer has come.
    fn begin(
        &mut self,
        slot: usize,
        rank: Rank,
        challenge: &[u8; CHALLENGE_BYTES],
        hello: &[u8; HELLO_BYTES],
        now: u64,
    ) -> Result<(), Stranger> {
        let connection = self.open[slot].as_ref().expect("it was looked at");
        let answer = connection.heard.first_chunk::<WELCOME_BYTES>().expect("it was read");
        let welcome = handshake::check_welcome(&self.secret, challenge, hello, answer)?;
        if welcome.from != rank {
            return Err(Stranger::NotMeant);
        }
        let link = &mut self.peer(rank).link;
        link.welcomed(&welcome, now);
        match link.is_together() {
            true => self.replace(rank, slot),
            false => self.close(slot),
        }
        self.see_to(rank, now);
        Ok(())
    }

    /// This is the rank's connection from now on.
    fn replace(&mut self, rank: Rank, slot: usize) {
        if let Some(before) = self.peer(rank).connection.filter(|before| *before != slot) {
            self.close(before);
        }
        let peer = self.peer(rank);
        (peer.connection, peer.trouble) = (Some(slot), None);
        let connection = self.open[slot].as_mut().expect("it was looked at");
        let is_dialer = !matches!(connection.stage, Stage::Accepted { .. });
        connection.stage = Stage::Open { rank };
        if let Some(keys) = &self.keys {
            connection.wire.encrypt(keys, is_dialer);
        }
        self.counters.connections += 1;
    }

    /// A part of a message has come to its place: see [`Link::placed`]. Who sends what makes no sense is cut off.
    pub(crate) fn placed(&mut self, rank: Rank, part: &[u8], now: u64) -> Result<Option<Header>, Garbled> {
        let placed = self.peer(rank).link.placed(part, now);
        if placed.is_err() {
            self.garbled(rank, now);
        }
        placed
    }

    /// What came from the rank is no frame.
    pub(crate) fn garbled(&mut self, rank: Rank, now: u64) {
        self.counters.garbled += 1;
        if let Some(slot) = self.peer(rank).connection {
            self.give_up(slot, None, now);
        }
    }
}

fn token(slot: usize, stamp: u32) -> u64 {
    u64::from(stamp) << 32 | slot as u64
}
