//! A rank's connections: which is whose, what of their streams is a message, what has ended. And the socket that carries them all.

use castell_base::Rank;
use castell_esp::{Address, Communicator, Counters, Endpoint, Handle, What, Why};
use castell_host::clock::Clock;
use castell_host::packet::PacketSocket;
use castell_transport::{Down, HEADER_BYTES, Header, Refused};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;

/// Frames that are taken from the socket before anything else is done.
const FRAMES_AT_A_TIME: usize = 256;
/// A rank of which somebody says that it is gone: what it sent before has come by then.
const GRACE_NS: u64 = 50_000_000;
/// A rank that has not looked for so long can't call others silent for it.
const AWAY_NS: u64 = 500_000_000;

/// What was dropped or lost since the start, beside what the protocol counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// What the protocol has counted.
    pub protocol: Counters,
    /// Frames that the interface had no room for, or did not take.
    pub unsent: u64,
    /// Streams that were no messages.
    pub garbled: u64,
}

/// What is known of another rank.
#[derive(Default)]
struct Peer {
    address: Option<Address>,
    handle: Option<Handle>,
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
    pub(crate) mtu_bytes: u16,
    pub(crate) clock: Clock,
    communicator: Communicator,
    endpoint: Endpoint,
    socket: PacketSocket,
    message_bytes_max: usize,
    peers: BTreeMap<Rank, Peer>,
    by_handle: BTreeMap<Handle, Rank>,
    /// Ranks of which there may be something to hand over.
    queue: VecDeque<Rank>,
    rooms: VecDeque<Rank>,
    input: Box<[u8]>,
    output: Box<[u8]>,
    /// So many bytes of `output` are a frame that the socket has not taken.
    waiting: usize,
    looked_at: u64,
    /// When somebody who sleeps is woken.
    due: u64,
    is_leaving: bool,
    is_closed: bool,
    unsent: u64,
    garbled: u64,
}

impl Links {
    pub(crate) fn new(
        (me, ranks): (Rank, u32),
        (endpoint, communicator): (Endpoint, Communicator),
        (socket, mtu_bytes): (PacketSocket, u16),
        message_bytes_max: usize,
        clock: Clock,
    ) -> Links {
        let frame_bytes = castell_esp::frame::ETHERNET_BYTES + usize::from(mtu_bytes);
        let mut links = Links {
            me,
            ranks,
            mtu_bytes,
            looked_at: clock.now(),
            due: 0,
            clock,
            communicator,
            endpoint,
            socket,
            message_bytes_max,
            peers: BTreeMap::new(),
            by_handle: BTreeMap::new(),
            queue: VecDeque::new(),
            rooms: VecDeque::new(),
            // One byte more shows frames that are too long.
            input: vec![0; frame_bytes + 1].into(),
            output: vec![0; frame_bytes].into(),
            waiting: 0,
            is_leaving: false,
            is_closed: false,
            unsent: 0,
            garbled: 0,
        };
        let now = links.clock.now();
        links.endpoint.open(communicator, now);
        links
    }

    /// As after so many messages of that rank.
    pub(crate) fn grow_old(&mut self, rank: Rank, delivered: u32) {
        self.peers.entry(rank).or_default().delivered = delivered;
    }

    pub(crate) fn dropped(&self) -> Dropped {
        Dropped { protocol: self.endpoint.counters(), unsent: self.unsent, garbled: self.garbled }
    }

    /// Where a rank is found.
    pub(crate) fn introduce(&mut self, rank: Rank, address: Address) {
        self.peers.entry(rank).or_default().address = Some(address);
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
        let handle = match (peer.handle, peer.address) {
            (Some(handle), _) => handle,
            (None, None) => return Err(Refused::Full),
            (None, Some(address)) => {
                let made =
                    self.endpoint.connect(address, self.communicator, now).map_err(|_| Refused::Full)?;
                peer.handle = Some(made);
                self.by_handle.insert(made, to);
                made
            }
        };
        let header = Header { source: self.me.0, bytes: payload.len() as u32, ..*header };
        let mut head = [0; HEADER_BYTES];
        for (to, word) in head.chunks_exact_mut(8).zip(header.to_words(0)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        match self.endpoint.write_whole(handle, [&head, payload], now) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refused::Full),
            Err(_) => Err(Refused::Down),
        }
    }

    /// Sends what there is, as far as the socket takes it; whether it took all.
    pub(crate) fn transmit(&mut self, now: u64) -> bool {
        loop {
            if self.waiting == 0 {
                match self.endpoint.transmit(&mut self.output, now) {
                    Some(length) => self.waiting = length,
                    None => return true,
                }
            }
            match self.socket.send(&self.output[..self.waiting]) {
                Ok(()) => self.waiting = 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Lost, as frames are: the protocol sees to it.
                Err(_) => (self.waiting, self.unsent) = (0, self.unsent + 1),
            }
        }
    }

    /// Takes in what has come, and does what is due.
    pub(crate) fn listen(&mut self, now: u64) {
        let away = now.saturating_sub(self.looked_at.max(self.due));
        (self.looked_at, self.due) = (now, 0);
        if away > AWAY_NS {
            self.endpoint.was_away(away);
        }
        for _ in 0..FRAMES_AT_A_TIME {
            match self.socket.receive(&mut self.input) {
                Ok(bytes) => self.endpoint.receive(&self.input[..bytes], now),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.endpoint.tick(now);
        self.look(now);
        let is_due = |(rank, peer): (&Rank, &Peer)| {
            peer.gone.and_then(|(why, at)| {
                (at <= now && peer.ending.is_none() && !peer.is_over).then_some((*rank, why))
            })
        };
        if let Some((rank, why)) = self.peers.iter().find_map(is_due) {
            self.ends(rank, why);
        }
    }

    /// What the endpoint tells.
    fn look(&mut self, now: u64) {
        while let Some(event) = self.endpoint.event() {
            if let What::Accepted { from, .. } = event.what {
                self.accept(event.connection, from, now);
                continue;
            }
            let Some(&rank) = self.by_handle.get(&event.connection) else { continue };
            match event.what {
                What::Accepted { .. } | What::Connected => {}
                What::Readable => self.enqueue(rank),
                What::Room => self.rooms.push_back(rank),
                What::Finished => self.ends(rank, Down::Left),
                What::Closed => {
                    self.ends(rank, Down::Left);
                    self.drop_if_over(rank, now);
                }
                What::Down(why) => {
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

    fn accept(&mut self, handle: Handle, from: Address, now: u64) {
        let rank = Rank(from.port.into());
        if rank == self.me || rank.0 >= self.ranks {
            return self.endpoint.abort(handle, now);
        }
        let peer = self.peers.entry(rank).or_default();
        if peer.is_over || peer.ending.is_some() {
            // A path that has ended stays so.
            return self.endpoint.abort(handle, now);
        }
        peer.handle = Some(handle);
        peer.address.get_or_insert(from);
        self.by_handle.insert(handle, rank);
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
            self.enqueue(rank);
        }
    }

    /// What the endpoint still knows of a path that is over.
    fn drop_if_over(&mut self, rank: Rank, now: u64) {
        let Some(peer) = self.peers.get_mut(&rank).filter(|peer| peer.is_over) else { return };
        if let Some(handle) = peer.handle.take() {
            self.by_handle.remove(&handle);
            self.endpoint.abort(handle, now);
        }
    }

    /// Somebody who knows says that a rank is gone.
    pub(crate) fn is_gone(&mut self, rank: Rank, why: Down) {
        let at = self.clock.now() + GRACE_NS;
        let peer = self.peers.entry(rank).or_default();
        peer.gone.get_or_insert((why, at));
        if peer.handle.is_none() {
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
        let handle = peer.handle.filter(|_| !peer.is_over)?;
        let [front, back] = self.endpoint.peek(handle);
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
        self.endpoint.consume(handle, HEADER_BYTES + bytes, now);
        Some(header)
    }

    /// When [`Links::listen`] has something to do, if nothing comes before. Whoever asks sleeps until then.
    pub(crate) fn sleeps_until(&mut self) -> u64 {
        let gone = self.peers.values().filter(|peer| !peer.is_over && peer.ending.is_none());
        let gone = gone.filter_map(|peer| peer.gone.map(|(_, at)| at)).min();
        let next = [gone, self.endpoint.next_time()].into_iter().flatten().min().unwrap_or(u64::MAX);
        self.due = next;
        next
    }

    /// Says to all that were met that nothing follows.
    pub(crate) fn leave(&mut self, now: u64) {
        self.is_leaving = true;
        for peer in self.peers.values().filter(|peer| !peer.is_over) {
            if let Some(handle) = peer.handle {
                self.endpoint.close(handle, now);
            }
        }
        self.transmit(now);
    }

    /// Whether all that were met have taken everything, or can't any more.
    pub(crate) fn has_left(&self) -> bool {
        self.peers.values().all(|peer| {
            let has_taken = |handle| self.endpoint.has_sent_all(handle);
            peer.is_over || peer.ending.is_some() || peer.handle.is_none_or(has_taken)
        })
    }

    /// Ends everything where it is.
    pub(crate) fn close(&mut self, now: u64) {
        for handle in std::mem::take(&mut self.by_handle).into_keys() {
            self.endpoint.abort(handle, now);
        }
        self.is_closed = true;
        self.transmit(now);
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    pub(crate) fn socket(&self) -> &PacketSocket {
        &self.socket
    }
}
