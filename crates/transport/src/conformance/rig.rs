//! A group under test: who may send to whom, what has come, and the rules that hold at every event.

use crate::seam::{Armed, Connector, Down, Endpoint, Events, Refused, Sleeper, Transport, Urgency};
use crate::{AccessError, Header, Limits, Token};
use castell_base::random::Philox;
use castell_base::sync::Ordering;
use castell_base::{Lent, Rank};
use rand_core::RngCore;
use std::collections::BTreeMap;
use std::task::Poll;

/// Polls without anything new after which nothing more is expected, see [`Group::patience`].
const PATIENCE: usize = 3000;

/// Ranks that reach each other by the transport under test.
pub trait Group {
    /// The transport.
    type Transport: Transport;

    /// One rank's end.
    fn transport(&mut self, rank: Rank) -> &mut Self::Transport;

    /// Ends a rank (`Died`, `Left`), or the path between it and rank 0 (`PathLost`). False: this group can't play that.
    fn end(&mut self, rank: Rank, why: Down) -> bool {
        let _ = (rank, why);
        false
    }

    /// Polls without anything new after which nothing more is expected: more, while something is under way by a wire that takes
    /// its time.
    fn patience(&self) -> usize {
        PATIENCE
    }

    /// Memory of `rank` that it can export and use for transfers, aligned to 8 bytes.
    fn memory(&mut self, rank: Rank, bytes: usize) -> Lent {
        let _ = rank;
        Lent::leak(bytes)
    }
}

type EndpointOf<G> = <<G as Group>::Transport as Transport>::Endpoint;

pub(super) struct Rig<G: Group> {
    pub(super) group: G,
    pub(super) ranks: u32,
    pub(super) random: Philox,
    connectors: Vec<<G::Transport as Transport>::Connector>,
    endpoints: BTreeMap<(u32, u32), EndpointOf<G>>,
    /// By sender and receiver: how many messages were sent.
    pub(super) sent: BTreeMap<(u32, u32), u32>,
    pub(super) inboxes: Vec<Inbox>,
    next_token: u64,
}

/// What one rank was told.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) limits: Option<Limits>,
    /// By sender: sequence numbers in the order in which they came.
    pub(super) messages: BTreeMap<u32, Vec<u32>>,
    pub(super) rooms: BTreeMap<u32, u32>,
    pub(super) completed: BTreeMap<Token, Result<u64, AccessError>>,
    pub(super) notices: Vec<(u32, u32)>,
    pub(super) downs: BTreeMap<u32, (u32, Down)>,
    events: usize,
    broken: Option<String>,
}

impl Inbox {
    fn is_broken(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    fn check_not_down(&mut self, peer: u32, what: &str) {
        if self.downs.contains_key(&peer) {
            self.is_broken(format!("{what} of rank {peer} after its path went down"));
        }
    }

    pub(super) fn from(&self, peer: u32) -> &[u32] {
        self.messages.get(&peer).map_or(&[], Vec::as_slice)
    }
}

impl Events for Inbox {
    fn message(&mut self, header: &Header, payload: &[u8]) {
        self.events += 1;
        self.check_not_down(header.source, "a message");
        let expected = header_of(header.source, header.sequence, payload.len());
        if (Header { spare: 0, ..*header }) != expected {
            self.is_broken(format!("{header:?} came, {expected:?} was sent"));
        } else if payload != payload_of(header.source, header.sequence, payload.len()) {
            self.is_broken(format!("the payload of {header:?} is damaged"));
        }
        let delivery = self.limits.expect("set before the first poll").delivery;
        let before = self.messages.entry(header.source).or_default();
        let is_double = before.contains(&header.sequence);
        let overtook = before.last().is_some_and(|last| *last > header.sequence);
        before.push(header.sequence);
        if is_double && !delivery.duplicates {
            self.is_broken(format!("message {} of rank {} came twice", header.sequence, header.source));
        } else if overtook && !delivery.reorders && !is_double {
            self.is_broken(format!("message {} of rank {} was overtaken", header.sequence, header.source));
        }
    }

    fn room(&mut self, peer: Rank) {
        self.events += 1;
        self.check_not_down(peer.0, "room");
        *self.rooms.entry(peer.0).or_default() += 1;
    }

    fn completed(&mut self, token: Token, outcome: Result<u64, AccessError>) {
        self.events += 1;
        let peer = (token.0 >> 32) as u32;
        self.check_not_down(peer, "the end of an operation");
        if self.completed.insert(token, outcome).is_some() {
            self.is_broken(format!("{token:?} ended twice"));
        }
    }

    fn notified(&mut self, peer: Rank, notice: u32) {
        self.events += 1;
        self.check_not_down(peer.0, "a notice");
        self.notices.push((peer.0, notice));
    }

    fn down(&mut self, peer: Rank, delivered: u32, why: Down) {
        self.events += 1;
        self.check_not_down(peer.0, "the end");
        self.downs.insert(peer.0, (delivered, why));
        let came = self.from(peer.0).len();
        if delivered as usize != came {
            self.is_broken(format!("{delivered} messages of rank {peer} delivered, it says; {came} came"));
        }
    }
}

impl<G: Group> Rig<G> {
    pub(super) fn new(mut group: G, ranks: u32, seed: u64) -> Rig<G> {
        let mut inboxes: Vec<Inbox> = (0..ranks).map(|_| Inbox::default()).collect();
        for (rank, inbox) in inboxes.iter_mut().enumerate() {
            inbox.limits = Some(*group.transport(Rank(rank as u32)).limits());
        }
        let connectors = (0..ranks).map(|rank| group.transport(Rank(rank)).connector()).collect();
        Rig {
            group,
            connectors,
            ranks,
            random: Philox::new(seed, Rank(0), 0, 0),
            endpoints: BTreeMap::new(),
            sent: BTreeMap::new(),
            inboxes,
            next_token: 0,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.inboxes[0].limits.expect("set at the start")
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.random.next_u64() % end as u64) as usize
    }

    pub(super) fn endpoint(&mut self, from: u32, to: u32) -> Result<&mut EndpointOf<G>, String> {
        if !self.endpoints.contains_key(&(from, to)) {
            let address = self.group.transport(Rank(to)).address();
            let connector = &mut self.connectors[from as usize];
            if connector.route(&address).is_none() {
                return Err(format!("no route from rank {from} to rank {to}"));
            }
            let mut made = connector.connect(Rank(to), &address).map_err(|error| error.to_string())?;
            // Which resources a path takes is its own affair.
            if self.below(2) == 0 {
                made.expect_traffic();
            }
            self.endpoints.insert((from, to), made);
        }
        Ok(self.endpoints.get_mut(&(from, to)).expect("it was made"))
    }

    /// Sends the next message of `from` to `to`.
    pub(super) fn send(&mut self, from: u32, to: u32, bytes: usize) -> Result<Result<(), Refused>, String> {
        let sequence = self.sent.get(&(from, to)).copied().unwrap_or(0);
        let header = header_of(from, sequence, bytes);
        let sent = self.endpoint(from, to)?.try_send(&header, &payload_of(from, sequence, bytes));
        if sent.is_ok() {
            *self.sent.entry((from, to)).or_default() += 1;
        }
        Ok(sent)
    }

    /// Sends it, polling both ends while there is no room.
    pub(super) fn send_surely(&mut self, from: u32, to: u32, bytes: usize) -> Result<(), String> {
        for _ in 0..self.group.patience() {
            match self.send(from, to, bytes)? {
                Ok(()) => return Ok(()),
                Err(Refused::Down) => return Err(format!("the path from {from} to {to} is down")),
                Err(Refused::Full) => {
                    self.flush(from, to)?;
                    self.poll(to, 16)?;
                    self.poll(from, 16)?;
                }
            }
        }
        Err(format!("rank {to} polls, and the path from rank {from} stays full"))
    }

    pub(super) fn flush(&mut self, from: u32, to: u32) -> Result<(), String> {
        for _ in 0..self.group.patience() {
            if self.endpoint(from, to)?.flush(Urgency::NOW) {
                return Ok(());
            }
            self.poll(from, 16)?;
        }
        Err(format!("what rank {from} sent to rank {to} cannot be flushed"))
    }

    /// Polls a rank once; says how much came.
    pub(super) fn poll(&mut self, rank: u32, budget: usize) -> Result<usize, String> {
        let inbox = &mut self.inboxes[rank as usize];
        let before = inbox.events;
        let told = self.group.transport(Rank(rank)).poll(budget, inbox);
        let came = inbox.events - before;
        self.no_rule_is_broken()?;
        if told != came || came > budget {
            return Err(format!("a poll for {budget} events says {told} and tells {came}"));
        }
        for peer in 0..self.ranks {
            if let Some(end) = self.endpoints.get_mut(&(rank, peer)).filter(|_| came > 0) {
                end.answered();
            }
        }
        Ok(came)
    }

    /// Flushes everything and polls all ranks until nothing has come for a while.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.settle_until(|_| false)
    }

    /// The same, but ends at once when it `is_done`.
    pub(super) fn settle_until(&mut self, is_done: impl Fn(&Rig<G>) -> bool) -> Result<(), String> {
        let pairs: Vec<_> = self.endpoints.keys().copied().collect();
        for (from, to) in pairs {
            self.flush(from, to)?;
        }
        let mut silent = 0;
        while silent < self.group.patience() && !is_done(self) {
            let rank = self.below(self.ranks as usize) as u32;
            let came = self.poll(rank, 16)?;
            silent = if came > 0 { 0 } else { silent + 1 };
        }
        Ok(())
    }

    /// Whether a transport arms something, and that tells of what `then` does.
    pub(super) fn is_woken_by(
        &mut self,
        rank: u32,
        then: impl FnOnce(&mut Rig<G>) -> Result<(), String>,
    ) -> Result<bool, String> {
        let before = self.watch(rank);
        then(self)?;
        let Some(before) = before else { return Ok(true) };
        // Whether the word has moved, or whoever asks now is told that there is something.
        Ok(self.watch(rank).is_none_or(|now| now != before))
    }

    /// What has to change for `rank` to wake up; `None`: it is told to stay awake.
    pub(super) fn watch(&mut self, rank: u32) -> Option<u32> {
        let transport = self.group.transport(Rank(rank));
        match transport.arm(Sleeper::Waiter) {
            Armed::Busy => None,
            Armed::Futex { word, expected } => {
                let now = word.load(Ordering::Acquire);
                (now == expected).then_some(now)
            }
            // Whether it is readable only the system could say.
            Armed::Fd(_) => Some(0),
        }
    }

    pub(super) fn token(&mut self, peer: u32) -> Token {
        self.next_token += 1;
        Token(u64::from(peer) << 32 | self.next_token)
    }

    /// Begins a one-sided operation of `from` at `to` and waits for its end.
    pub(super) fn access<R>(
        &mut self,
        from: u32,
        to: u32,
        begin: impl Fn(&mut EndpointOf<G>, Token) -> Result<Poll<R>, AccessError>,
        value: impl Fn(R) -> u64,
    ) -> Result<Result<u64, AccessError>, String> {
        for _ in 0..self.group.patience() {
            let token = self.token(to);
            match begin(self.endpoint(from, to)?, token) {
                Ok(Poll::Ready(found)) => return Ok(Ok(value(found))),
                Ok(Poll::Pending) => return self.end_of(from, token),
                Err(AccessError::Full) => {
                    self.poll(from, 16)?;
                    self.poll(to, 16)?;
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Err("a one-sided operation is refused as full for ever".to_owned())
    }

    /// Waits for the end of an operation.
    pub(super) fn end_of(&mut self, from: u32, token: Token) -> Result<Result<u64, AccessError>, String> {
        self.settle_until(|rig| rig.inboxes[from as usize].completed.contains_key(&token))?;
        let ended = self.inboxes[from as usize].completed.get(&token);
        ended.copied().ok_or_else(|| format!("{token:?} never ends"))
    }

    pub(super) fn memory(&mut self, rank: u32, bytes: usize) -> Lent {
        self.group.memory(Rank(rank), bytes)
    }

    pub(super) fn no_rule_is_broken(&self) -> Result<(), String> {
        match self.inboxes.iter().find_map(|inbox| inbox.broken.as_ref()) {
            Some(what) => Err(what.clone()),
            None => Ok(()),
        }
    }
}

/// The payload that belongs to a message: any mix-up of messages or bytes shows.
fn payload_of(source: u32, sequence: u32, bytes: usize) -> Vec<u8> {
    let seed = source.wrapping_mul(0x9E37_79B9) ^ sequence.wrapping_mul(0x85EB_CA6B);
    (0..bytes).map(|at| (seed.rotate_left(at as u32 % 32) as u8) ^ at as u8).collect()
}

fn header_of(source: u32, sequence: u32, bytes: usize) -> Header {
    Header {
        kind: 1 + (sequence % 254) as u8,
        flags: sequence as u8,
        spare: 0,
        bytes: bytes as u32,
        source,
        sequence,
        tag: !sequence,
        run: source ^ 7,
        extra: u64::from(sequence) << 32 | u64::from(source),
    }
}

/// Whether messages come exactly once, as far as these limits say.
pub(super) fn is_reliable(limits: &Limits) -> bool {
    !limits.delivery.loses && !limits.delivery.duplicates
}
