//! Which of one's own cards reaches which card of a peer, where there are several: found by asking, without I/O.
//!
//! Of two ports the lower one chooses, so that both never choose differently. The higher one asks, too, when it wants to be connected;
//! that has the lower one ask back.

use crate::datagram::{self, Datagram, Kind};
use crate::frame::{Address, Communicator, Key, Mac};
use siphasher::sip::SipHasher24;
use std::collections::{BTreeMap, VecDeque};

/// Answers that wait to go out; of more the newest are not given, and are asked for again.
const WAITING_MAX: usize = 256;
/// Ways that are tried to one peer.
const WAYS_MAX: usize = 64;
/// Between two times that all ways are tried: at first, and at most.
const PAUSE_FIRST_NS: u64 = 10_000_000;
const PAUSE_MAX_NS: u64 = 320_000_000;

/// What may lead to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// Which of one's own cards, from 0.
    pub card: usize,
    /// Which of the peer's.
    pub to: Mac,
}

/// What a search tells of a port, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// This way leads there and back. Only who chooses is told.
    Found(u16, Way),
    /// Nobody has answered by any way.
    NoAnswer(u16),
    /// The peer has answered that it is to be connected no more.
    PortUnreachable(u16),
}

/// A port of which something is known.
enum Peer {
    Sought(Sought),
    /// There is a connection, or is to be one.
    Settled,
    /// None is wanted any more.
    Over,
}

struct Sought {
    ways: Vec<Way>,
    number: u64,
    pause_ns: u64,
    next: u64,
    until: u64,
    /// Whether somebody here waits for it; else the peer does.
    is_wanted: bool,
}

/// The searches of one port that has several cards.
pub struct Search {
    port: u16,
    cards: Box<[Mac]>,
    communicator: Communicator,
    key: Key,
    nonce: SipHasher24,
    drawn: u64,
    patience_ns: u64,
    peers: BTreeMap<u16, Peer>,
    waiting: VecDeque<(usize, Datagram)>,
    told: VecDeque<Told>,
    next_time: Option<u64>,
    dropped: u64,
}

impl Search {
    /// For a port behind these cards. Numbers come from the nonce: 16 random bytes, others each time that a program starts. Who does not
    /// answer for `patience_ns` is given up.
    pub fn new(
        port: u16,
        cards: &[Mac],
        communicator: Communicator,
        (key, nonce): (Key, &[u8; 16]),
        patience_ns: u64,
    ) -> Search {
        Search {
            port,
            cards: cards.into(),
            communicator,
            key,
            nonce: SipHasher24::new_with_key(nonce),
            drawn: 0,
            patience_ns,
            peers: BTreeMap::new(),
            waiting: VecDeque::new(),
            told: VecDeque::new(),
            next_time: None,
            dropped: 0,
        }
    }

    /// What came and was dropped: no datagram of this communicator to this port.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Somebody wants to be connected with a port, to which these ways may lead, the best first.
    pub fn seek(&mut self, port: u16, ways: &[Way], now: u64) {
        let until = now + self.patience_ns;
        match self.peers.get_mut(&port) {
            Some(Peer::Settled | Peer::Over) => {}
            // Whoever asks again is not told sooner, nor later that there is no answer.
            Some(Peer::Sought(Sought { is_wanted: true, .. })) => {}
            Some(Peer::Sought(sought)) => {
                // The peer was first, by some of them.
                let more: Vec<Way> = ways.iter().filter(|way| !sought.ways.contains(way)).copied().collect();
                sought.ways.extend(more);
                sought.ways.truncate(WAYS_MAX);
                (sought.is_wanted, sought.until) = (true, until);
                self.probe(port, now);
            }
            None => {
                let number = self.draw();
                let ways = ways[..ways.len().min(WAYS_MAX)].to_vec();
                let pause_ns = PAUSE_FIRST_NS;
                let sought = Sought { ways, number, pause_ns, next: now, until, is_wanted: true };
                self.peers.insert(port, Peer::Sought(sought));
                self.probe(port, now);
            }
        }
    }

    /// There is a connection with this port, however that came about.
    pub fn settle(&mut self, port: u16) {
        if !matches!(self.peers.get(&port), Some(Peer::Over)) {
            self.peers.insert(port, Peer::Settled);
        }
    }

    /// There is to be no connection with this port any more; who asks is told so.
    pub fn refuse(&mut self, port: u16) {
        self.peers.insert(port, Peer::Over);
    }

    /// Whether some port is sought, and nothing has been found yet.
    pub fn is_seeking(&self, port: u16) -> bool {
        matches!(self.peers.get(&port), Some(Peer::Sought(_)))
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.nonce.hash(&self.drawn.to_le_bytes())
    }

    fn chooses(&self, port: u16) -> bool {
        self.port < port
    }

    fn say(&mut self, card: usize, kind: Kind, to: Address, number: u64) {
        if self.waiting.len() < WAITING_MAX {
            let from = Address { mac: self.cards[card], port: self.port };
            let communicator = self.communicator;
            self.waiting.push_back((card, Datagram { kind, to, from, communicator, number }));
        }
    }

    /// Tries all ways to a port now.
    fn probe(&mut self, port: u16, now: u64) {
        let Some(Peer::Sought(sought)) = self.peers.get_mut(&port) else { return };
        sought.next = now + sought.pause_ns;
        let due = sought.next.min(sought.until);
        self.next_time = Some(self.next_time.map_or(due, |next| next.min(due)));
        let number = sought.number;
        for way in sought.ways.clone() {
            self.say(way.card, Kind::Probe, Address { mac: way.to, port }, number);
        }
    }

    /// Takes what has come to a card, and is said to be a datagram ([`datagram::is_one`]).
    pub fn hear(&mut self, card: usize, bytes: &[u8], now: u64) {
        let me = Address { mac: self.cards[card], port: self.port };
        let heard = datagram::read(bytes, &self.key).ok().filter(|one| {
            one.to == me && one.communicator == self.communicator && one.from.port != self.port
        });
        let Some(Datagram { kind, from, number, .. }) = heard else {
            self.dropped += 1;
            return;
        };
        let way = Way { card, to: from.mac };
        match kind {
            Kind::Probe => self.hear_probe(way, from, number, now),
            Kind::Answer => {
                let answers = |sought: &Sought| sought.number == number && sought.ways.contains(&way);
                if self.chooses(from.port)
                    && matches!(self.peers.get(&from.port), Some(Peer::Sought(sought)) if answers(sought))
                {
                    self.peers.insert(from.port, Peer::Settled);
                    self.told.push_back(Told::Found(from.port, way));
                }
            }
            Kind::PortUnreachable => {
                if let Some(Peer::Sought(sought)) = self.peers.get(&from.port)
                    && sought.number == number
                {
                    if sought.is_wanted {
                        self.told.push_back(Told::PortUnreachable(from.port));
                    }
                    self.peers.insert(from.port, Peer::Over);
                }
            }
        }
    }

    fn hear_probe(&mut self, way: Way, from: Address, number: u64, now: u64) {
        let port = from.port;
        if matches!(self.peers.get(&port), Some(Peer::Over)) {
            return self.say(way.card, Kind::PortUnreachable, from, number);
        }
        self.say(way.card, Kind::Answer, from, number);
        if !self.chooses(port) {
            return;
        }
        match self.peers.get_mut(&port) {
            None => {
                let number = self.draw();
                let sought = Sought {
                    ways: vec![way],
                    number,
                    pause_ns: PAUSE_FIRST_NS,
                    next: now,
                    until: now + self.patience_ns,
                    is_wanted: false,
                };
                self.peers.insert(port, Peer::Sought(sought));
                self.probe(port, now);
            }
            Some(Peer::Sought(sought)) => {
                if !sought.ways.contains(&way) && sought.ways.len() < WAYS_MAX {
                    sought.ways.push(way);
                    let number = sought.number;
                    self.say(way.card, Kind::Probe, from, number);
                }
            }
            Some(Peer::Settled | Peer::Over) => {}
        }
    }

    /// Writes what is to go out next, if there is anything; says by which card, and how long it is.
    ///
    /// # Panics
    /// If `out` is shorter than [`datagram::DATAGRAM_BYTES`].
    pub fn transmit(&mut self, out: &mut [u8]) -> Option<(usize, usize)> {
        let (card, datagram) = self.waiting.pop_front()?;
        Some((card, datagram::write(out, &self.key, &datagram)))
    }

    /// What there is to tell.
    pub fn told(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    /// When [`Search::tick`] is to be called, if nothing happens before.
    pub fn next_time(&self) -> Option<u64> {
        self.next_time
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64) {
        if self.next_time.is_none_or(|next| next > now) {
            return;
        }
        self.next_time = None;
        let sought = self.peers.iter().filter_map(|(port, peer)| match peer {
            Peer::Sought(sought) => Some((*port, sought.next.min(sought.until))),
            Peer::Settled | Peer::Over => None,
        });
        for (port, due) in sought.collect::<Vec<_>>() {
            if due > now {
                self.next_time = Some(self.next_time.map_or(due, |next| next.min(due)));
                continue;
            }
            let Some(Peer::Sought(sought)) = self.peers.get_mut(&port) else { continue };
            if sought.until > now {
                sought.pause_ns = PAUSE_MAX_NS.min(2 * sought.pause_ns);
                self.probe(port, now);
            } else if sought.is_wanted {
                self.peers.insert(port, Peer::Over);
                self.told.push_back(Told::NoAnswer(port));
            } else {
                // Who wanted it may ask again.
                self.peers.remove(&port);
            }
        }
    }

    /// Nobody has looked at this for so long, because its process did not run: peers were not silent for it.
    pub fn was_away(&mut self, for_ns: u64) {
        for peer in self.peers.values_mut() {
            if let Peer::Sought(sought) = peer {
                sought.until += for_ns;
            }
        }
    }
}
