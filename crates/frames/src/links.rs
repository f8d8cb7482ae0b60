//! A rank's connections: which is whose, by which card, what of their streams is a message, what has ended.

use crate::address::{CardAt, Reach};
use crate::card::Card;
use castell_base::Rank;
use castell_esp::datagram::DATAGRAM_BYTES;
use castell_esp::{Address, Communicator, Counters, Handle, Mac, Search, Told, Way, What, Why};
use castell_host::clock::Clock;
use castell_transport::{Down, HEADER_BYTES, Header, Refused};
use std::collections::{BTreeMap, VecDeque};

/// A rank of which somebody says that it is gone: what it sent before has come by then.
const GRACE_NS: u64 = 50_000_000;
/// A rank that has not looked for so long can't call others silent for it.
const AWAY_NS: u64 = 500_000_000;
/// A rank that has not answered for so long is given up.
pub(crate) const PATIENCE_NS: u64 = 10_000_000_000;

/// What was dropped or lost since the start, beside what the protocol counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// What the protocol has counted.
    pub protocol: Counters,
    /// Frames that the interface had no room for, or did not take.
    pub unsent: u64,
    /// Streams that were no messages.
    pub garbled: u64,
    /// Of searches, that were none of this job's.
    pub datagrams: u64,
}

/// What became of the way to a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Messages go by this of one's own cards, in the order of their names, to that of the rank, if its cards are known.
    By(usize, Option<usize>),
    /// There is none; the sentence goes on behind the rank and its host.
    Nowhere(String),
}

/// A connection: of which card, and which there.
type Link = (usize, Handle);

/// What is known of another rank.
#[derive(Default)]
struct Peer {
    reach: Option<Reach>,
    link: Option<Link>,
    /// Which card of the rank that leads to.
    card: Option<Mac>,
    is_connected: bool,
    /// A message was refused until there is a way.
    is_awaited: bool,
    /// Messages that have come.
    delivered: u32,
    /// How the path ends, once all that has come is handed over.
    ending: Option<Down>,
    is_over: bool,
    /// Somebody who knows says how it has ended; true from this time on.
    gone: Option<(Down, u64)>,
    is_queued: bool,
}

/// What there is to tell next.
pub(crate) enum Next {
    /// A message; its payload is in the buffer.
    Message(Header),
    Down(Rank, u32, Down),
    Room(Rank),
}

pub(crate) struct Links {
    pub(crate) me: Rank,
    pub(crate) ranks: u32,
    pub(crate) clock: Clock,
    communicator: Communicator,
    /// By name.
    pub(crate) cards: Box<[Card]>,
    search: Search,
    message_bytes_max: usize,
    peers: BTreeMap<Rank, Peer>,
    by_link: BTreeMap<Link, Rank>,
    reports: VecDeque<(Rank, Report)>,
    /// Ranks of which there may be something to hand over.
    queue: VecDeque<Rank>,
    rooms: VecDeque<Rank>,
    looked_at: u64,
    /// When somebody who sleeps is woken.
    due: u64,
    is_leaving: bool,
    is_closed: bool,
    garbled: u64,
}

impl Links {
    pub(crate) fn new(
        (me, ranks): (Rank, u32),
        communicator: Communicator,
        (cards, search): (Box<[Card]>, Search),
        message_bytes_max: usize,
        clock: Clock,
    ) -> Links {
        let mut links = Links {
            me,
            ranks,
            looked_at: clock.now(),
            due: 0,
            clock,
            communicator,
            cards,
            search,
            message_bytes_max,
            peers: BTreeMap::new(),
            by_link: BTreeMap::new(),
            reports: VecDeque::new(),
            queue: VecDeque::new(),
            rooms: VecDeque::new(),
            is_leaving: false,
            is_closed: false,
            garbled: 0,
        };
        let now = links.clock.now();
        links.cards.iter_mut().for_each(|card| card.open(communicator, now));
        links
    }

    /// As after so many messages of that rank.
    pub(crate) fn grow_old(&mut self, rank: Rank, delivered: u32) {
        self.peers.entry(rank).or_default().delivered = delivered;
    }

    pub(crate) fn dropped(&self) -> Dropped {
        let mut protocol = Counters::default();
        self.cards.iter().for_each(|card| protocol += card.endpoint.counters());
        let unsent = self.cards.iter().map(|card| card.unsent).sum();
        Dropped { protocol, unsent, garbled: self.garbled, datagrams: self.search.dropped() }
    }

    /// The ways that may lead to where a rank is, the best first: one segment has one MTU.
    pub(crate) fn ways_to(&self, reach: &Reach) -> Vec<Way> {
        let from = |(card, here): (usize, &Card)| {
            let mtu_bytes = here.at.mtu_bytes;
            let fit = reach.cards.iter().filter(move |there| there.mtu_bytes == mtu_bytes);
            fit.map(move |there| Way { card, to: there.mac })
        };
        self.cards.iter().enumerate().flat_map(from).collect()
    }

    /// Where a rank is found.
    pub(crate) fn introduce(&mut self, rank: Rank, reach: Reach) {
        let peer = self.peers.entry(rank).or_default();
        peer.reach.get_or_insert(reach);
        if peer.is_connected {
            // By its name, which was not known before.
            self.report_way(rank);
        }
    }

    /// The connection to a rank, which is begun if need be; none: it is being looked for by which card.
    fn link_to(&mut self, rank: Rank, now: u64) -> Option<Link> {
        let peer = self.peers.entry(rank).or_default();
        if peer.link.is_some() {
            return peer.link;
        }
        let reach = peer.reach.as_ref()?.clone();
        peer.is_awaited = true;
        match self.ways_to(&reach)[..] {
            // Nothing is to be found out: the connection itself asks.
            [only] => self.connect(rank, reach.port, only, now),
            ref ways => {
                self.search.seek(reach.port, ways, now);
                None
            }
        }
    }

    fn connect(&mut self, rank: Rank, port: u16, way: Way, now: u64) -> Option<Link> {
        let address = Address { mac: way.to, port };
        let made = self.cards[way.card].endpoint.connect(address, self.communicator, now).ok()?;
        let link = (way.card, made);
        self.by_link.insert(link, rank);
        self.has_link(rank, link, way.to);
        Some(link)
    }

    /// From here on messages go this way.
    fn has_link(&mut self, rank: Rank, link: Link, to: Mac) {
        self.search.settle(rank.0 as u16);
        let peer = self.peers.entry(rank).or_default();
        peer.link = Some(link);
        if std::mem::take(&mut peer.is_awaited) {
            self.rooms.push_back(rank);
        }
        peer.card = Some(to);
    }

    /// Both sides have heard each other.
    fn report_way(&mut self, rank: Rank) {
        let peer = self.peers.entry(rank).or_default();
        peer.is_connected = true;
        let Some((own, _)) = peer.link else { return };
        let is_there = |card: &CardAt| Some(card.mac) == peer.card;
        let there = peer.reach.as_ref().and_then(|reach| reach.cards.iter().position(is_there));
        self.reports.push_back((rank, Report::By(own, there)));
    }

    /// Takes a message. It goes out with the next [`Links::transmit`].
    pub(crate) fn try_send(&mut self, to: Rank, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        assert!(payload.len() <= self.message_bytes_max, "no message is longer than the limit");
        assert!(header.kind != 0 && header.kind != 255, "the kind of a message is 1 to 254");
        let now = self.clock.now();
        let peer = self.peers.entry(to).or_default();
        if peer.is_over || peer.ending.is_some() || self.is_leaving || self.is_closed {
            return Err(Refused::Down);
        }
        let Some((card, handle)) = self.link_to(to, now) else { return Err(Refused::Full) };
        let header = Header { source: self.me.0, bytes: payload.len() as u32, ..*header };
        let mut head = [0; HEADER_BYTES];
        for (to, word) in head.chunks_exact_mut(8).zip(header.to_words(0)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        match self.cards[card].endpoint.write_whole(handle, [&head, payload], now) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refused::Full),
            Err(_) => Err(Refused::Down),
        }
    }

    /// Sends what there is, as far as the sockets take it.
    pub(crate) fn transmit(&mut self, now: u64) {
        let mut datagram = [0; DATAGRAM_BYTES];
        while let Some((card, bytes)) = self.search.transmit(&mut datagram) {
            self.cards[card].try_send(&datagram[..bytes]);
        }
        self.cards.iter_mut().for_each(|card| {
            card.transmit(now);
        });
    }

    /// Takes in what has come, and does what is due.
    pub(crate) fn listen(&mut self, now: u64) {
        let away = now.saturating_sub(self.looked_at.max(self.due));
        (self.looked_at, self.due) = (now, 0);
        if away > AWAY_NS {
            self.search.was_away(away);
            self.cards.iter_mut().for_each(|card| card.endpoint.was_away(away));
        }
        for (number, card) in self.cards.iter_mut().enumerate() {
            card.listen(now, |datagram| self.search.hear(number, datagram, now));
        }
        self.search.tick(now);
        self.look_at_search(now);
        for card in 0..self.cards.len() {
            self.look(card, now);
        }
        let is_due = |(rank, peer): (&Rank, &Peer)| {
            peer.gone.and_then(|(why, at)| {
                (at <= now && peer.ending.is_none() && !peer.is_over).then_some((*rank, why))
            })
        };
        if let Some((rank, why)) = self.peers.iter().find_map(is_due) {
            self.ends(rank, why);
        }
    }

    /// What searches tell.
    fn look_at_search(&mut self, now: u64) {
        while let Some(told) = self.search.told() {
            match told {
                Told::Found(port, way) => {
                    let rank = Rank(port.into());
                    if rank.0 >= self.ranks || self.connect(rank, port, way, now).is_none() {
                        self.search.refuse(port);
                    }
                }
                Told::NoAnswer(port) => {
                    let rank = Rank(port.into());
                    self.report_nowhere(rank);
                    self.ends(rank, Down::PathLost);
                }
                // Whoever says so has told why before, or somebody who knows will.
                Told::PortUnreachable(port) => self.ends(Rank(port.into()), Down::PathLost),
            }
        }
    }

    /// Nobody has answered at any of a rank's cards.
    fn report_nowhere(&mut self, rank: Rank) {
        let Some(reach) = self.peers.get(&rank).and_then(|peer| peer.reach.as_ref()) else { return };
        let (there, ways) = (reach.names(), self.ways_to(reach));
        let tried =
            self.cards.iter().enumerate().filter(|(card, _)| ways.iter().any(|way| way.card == *card));
        let tried = tried.map(|(_, card)| &*card.at.name).collect::<Vec<_>>();
        let over = if let [only] = tried[..] {
            format!("is not reached over {only}")
        } else {
            format!("is reached over none of {}", tried.join(", "))
        };
        let seconds = PATIENCE_NS / 1_000_000_000;
        let said = format!(
            "{over}: nobody has answered at its {there} for {seconds} s. The two hosts need a segment in common on which EtherType 0x88b5 \
             passes"
        );
        self.reports.push_back((rank, Report::Nowhere(said)));
    }

    /// What became of the way to a rank, if there is something new.
    pub(crate) fn report(&mut self) -> Option<(Rank, Report)> {
        self.reports.pop_front()
    }

    /// What an endpoint tells.
    fn look(&mut self, card: usize, now: u64) {
        while let Some(event) = self.cards[card].event() {
            let link = (card, event.connection);
            if let What::Accepted { from, .. } = event.what {
                self.accept(link, from, now);
                continue;
            }
            let Some(&rank) = self.by_link.get(&link) else { continue };
            match event.what {
                What::Accepted { .. } => {}
                What::Connected => self.report_way(rank),
                What::Readable => self.enqueue(rank),
                What::Room => self.rooms.push_back(rank),
                What::Finished => self.ends(rank, Down::Left),
                What::Closed => {
                    self.ends(rank, Down::Left);
                    self.drop_if_over(rank, now);
                }
                What::Down(why) => {
                    if why == Why::NoAnswer {
                        self.report_nowhere(rank);
                    }
                    let gone = self.peers.get(&rank).and_then(|peer| peer.gone);
                    self.ends(rank, gone.map_or_else(|| self.judge(why), |(why, _)| why));
                    self.drop_if_over(rank, now);
                }
            }
        }
    }

    fn judge(&self, why: Why) -> Down {
        match why {
            // Who leaves has told its last word, and may be forgotten by those who heard it.
            Why::Reset if self.is_leaving => Down::Left,
            Why::Reset | Why::Restarted => Down::Died,
            Why::Refused | Why::NoAnswer | Why::Silent => Down::PathLost,
        }
    }

    fn accept(&mut self, link: Link, from: Address, now: u64) {
        let rank = Rank(from.port.into());
        if rank == self.me || rank.0 >= self.ranks {
            return self.abort(link, now);
        }
        let peer = self.peers.entry(rank).or_default();
        let has_another = peer.link.is_some_and(|(card, _)| card != link.0);
        if peer.is_over || peer.ending.is_some() || has_another {
            // A path that has ended stays so, and there is one only.
            return self.abort(link, now);
        }
        self.by_link.insert(link, rank);
        self.has_link(rank, link, from.mac);
        self.report_way(rank);
    }

    fn abort(&mut self, (card, handle): Link, now: u64) {
        self.cards[card].endpoint.abort(handle, now);
    }

    fn enqueue(&mut self, rank: Rank) {
        let peer = self.peers.entry(rank).or_default();
        if !std::mem::replace(&mut peer.is_queued, true) {
            self.queue.push_back(rank);
        }
    }

    fn ends(&mut self, rank: Rank, why: Down) {
        let peer = self.peers.entry(rank).or_default();
        if !peer.is_over {
            peer.ending.get_or_insert(why);
            self.search.refuse(rank.0 as u16);
            self.enqueue(rank);
        }
    }

    /// What the endpoint still knows of a path that is over.
    fn drop_if_over(&mut self, rank: Rank, now: u64) {
        let Some(peer) = self.peers.get_mut(&rank).filter(|peer| peer.is_over) else { return };
        if let Some(link) = peer.link.take() {
            self.by_link.remove(&link);
            self.abort(link, now);
        }
    }

    /// Somebody who knows says that a rank is gone.
    pub(crate) fn is_gone(&mut self, rank: Rank, why: Down) {
        let at = self.clock.now() + GRACE_NS;
        let peer = self.peers.entry(rank).or_default();
        peer.gone.get_or_insert((why, at));
        if peer.link.is_none() {
            self.ends(rank, why);
        }
    }

    /// Whether [`Links::next`] has something.
    pub(crate) fn has_news(&self) -> bool {
        !self.queue.is_empty() || !self.rooms.is_empty()
    }

    /// What there is to tell next; a message's payload is copied into the buffer.
    pub(crate) fn next(&mut self, payload: &mut Vec<u8>, now: u64) -> Option<Next> {
        while let Some(&rank) = self.queue.front() {
            if let Some(header) = self.take_message(rank, payload, now) {
                return Some(Next::Message(header));
            }
            self.queue.pop_front();
            let peer = self.peers.get_mut(&rank).expect("it was met");
            peer.is_queued = false;
            if let Some(why) = peer.ending.take() {
                peer.is_over = true;
                let delivered = peer.delivered;
                if why != Down::Left {
                    self.drop_if_over(rank, now);
                }
                return Some(Next::Down(rank, delivered, why));
            }
        }
        while let Some(rank) = self.rooms.pop_front() {
            let peer = &self.peers[&rank];
            if !peer.is_over && peer.ending.is_none() {
                return Some(Next::Room(rank));
            }
        }
        None
    }

    fn take_message(&mut self, rank: Rank, payload: &mut Vec<u8>, now: u64) -> Option<Header> {
        let peer = self.peers.get_mut(&rank)?;
        let (card, handle) = peer.link.filter(|_| !peer.is_over)?;
        let endpoint = &mut self.cards[card].endpoint;
        let [front, back] = endpoint.peek(handle);
        if front.len() + back.len() < HEADER_BYTES {
            return None;
        }
        let mut head = [0; HEADER_BYTES];
        for (to, from) in head.iter_mut().zip(front.iter().chain(back)) {
            *to = *from;
        }
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let header = Header::from_words([word(0), word(8), word(16), word(24)]);
        let bytes = header.bytes as usize;
        let is_true = header.source == rank.0 && header.spare == 0 && !matches!(header.kind, 0 | 255);
        if !is_true || bytes > self.message_bytes_max {
            self.garbled += 1;
            peer.ending = Some(Down::PathLost);
            return None;
        }
        if front.len() + back.len() < HEADER_BYTES + bytes {
            return None;
        }
        payload.clear();
        let of_front = front.get(HEADER_BYTES..).unwrap_or_default();
        let of_back = back.get(HEADER_BYTES.saturating_sub(front.len())..).unwrap_or_default();
        payload.extend_from_slice(&of_front[..bytes.min(of_front.len())]);
        payload.extend_from_slice(&of_back[..bytes - payload.len()]);
        peer.delivered = peer.delivered.wrapping_add(1);
        endpoint.consume(handle, HEADER_BYTES + bytes, now);
        Some(header)
    }

    /// When [`Links::listen`] has something to do, if nothing comes before. Whoever asks sleeps until then.
    pub(crate) fn sleeps_until(&mut self) -> u64 {
        let gone = self.peers.values().filter(|peer| !peer.is_over && peer.ending.is_none());
        let gone = gone.filter_map(|peer| peer.gone.map(|(_, at)| at)).min();
        let cards = self.cards.iter().filter_map(|card| card.endpoint.next_time()).min();
        let next = [gone, cards, self.search.next_time()].into_iter().flatten().min().unwrap_or(u64::MAX);
        self.due = next;
        next
    }

    /// Says to all that were met that nothing follows.
    pub(crate) fn leave(&mut self, now: u64) {
        self.is_leaving = true;
        for peer in self.peers.values().filter(|peer| !peer.is_over) {
            if let Some((card, handle)) = peer.link {
                self.cards[card].endpoint.close(handle, now);
            }
        }
        self.transmit(now);
    }

    /// Whether all that were met have taken everything, or can't any more.
    pub(crate) fn has_left(&self) -> bool {
        self.peers.values().all(|peer| {
            let has_taken = |(card, handle): Link| self.cards[card].endpoint.has_sent_all(handle);
            peer.is_over || peer.ending.is_some() || peer.link.is_none_or(has_taken)
        })
    }

    /// Ends everything where it is.
    pub(crate) fn close(&mut self, now: u64) {
        for link in std::mem::take(&mut self.by_link).into_keys() {
            self.abort(link, now);
        }
        self.is_closed = true;
        self.transmit(now);
    }
}
