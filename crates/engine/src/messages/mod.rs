#![doc = include_str!("README.md")]

mod awaited;
mod carrier;
mod departure;
mod flow;
mod incoming;
mod memory;
mod network;
mod outgoing;
mod path;
mod peer;
mod rendezvous;
mod token;
mod wire;

pub use flow::UNEXPECTED_BUDGET_BYTES;
pub(super) use memory::Memory;
#[cfg(test)]
pub(super) use path::attach_to;
pub(super) use path::{Port, attach};
pub(super) use peer::{Gone, Outbound};
pub(super) use token::{Channel, Event, Handler, OPEN_CONTEXT, Token, Wait};
pub(super) use wire::{Kind, control, is_of_a_send, word_at};

use super::failure::Cause;
use castell_base::{Rank, Tag};
use castell_matching::{Matcher, Pattern};
use castell_shm::job::Job;
use flow::Flow;
use path::{Bells, Connections};
use peer::{Peer, Unexpected};
use rendezvous::Transfers;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use token::Posted;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Messages of sends that left this rank, or went to itself.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that arrived before their receive.
    pub unexpected: u64,
    /// Messages that no receive of a finished run took.
    pub orphans: u64,
    /// The most bytes that messages without a receive took up here at a time.
    pub unexpected_bytes_max: u64,
    /// Large messages that were reduced as they came, and written down nowhere.
    pub folded: u64,
    /// Sleeps that nothing but their end ended although there was work. Next to none: each costs a fifth of a second.
    pub overslept: u64,
}

/// The messages of a rank. One thread at a time; nothing here blocks.
pub(super) struct Messages {
    pub(super) me: Rank,
    pub(super) job: Arc<Job>,
    peers: Vec<Option<Box<Peer>>>,
    connections: Connections,
    /// The longest message over the network, if there is one.
    far_bytes: Option<usize>,
    bells: Bells,
    /// Ranks to which something is pending.
    blocked: Vec<Rank>,
    matcher: Matcher<Posted, Unexpected>,
    transfers: Transfers,
    flow: Flow,
    /// How many messages and aborts are kept for channels that are not open yet.
    early: usize,
    /// The sequence numbers of the next calls of each context.
    calls: Arc<[AtomicU64]>,
    gathered: Vec<u8>,
    outcomes: Outcomes,
    /// Where somebody records.
    pub(super) senders: Option<Senders>,
    pub(super) counters: Counters,
}

/// Whose message a receive got that takes one from anybody, or under any tag.
#[derive(Default)]
pub(super) struct Senders {
    /// By the receives that are wanted.
    of: HashMap<Token, Option<(Rank, Tag)>>,
}

impl Senders {
    /// This receive's sender is wanted.
    pub(super) fn want(&mut self, token: Token) {
        self.of.insert(token, None);
    }

    #[inline]
    fn met(&mut self, token: Token, source: Rank, tag: Tag) {
        if let Some(sender) = self.of.get_mut(&token) {
            *sender = Some((source, tag));
        }
    }

    /// The receive is over: who that was, if it was wanted and known.
    pub(super) fn take(&mut self, token: Token) -> Option<(Rank, Tag)> {
        self.of.remove(&token).flatten()
    }

    /// Nobody wants to know of this owner's any more.
    pub(super) fn forget(&mut self, owner: u32) {
        self.of.retain(|token, _| token.owner != owner);
    }
}

/// What has happened, until somebody takes it from here.
#[derive(Default)]
struct Outcomes {
    /// Operations that are done.
    done: Vec<Token>,
    /// What else there is to tell.
    events: Vec<Event>,
    /// Whether anything has moved.
    progressed: bool,
}

impl Messages {
    /// `calls`: the sequence numbers of the next calls of each context, by which channels with numbers of calls are known to be
    /// ahead.
    pub(super) fn new(
        job: Arc<Job>,
        me: Rank,
        connections: Connections,
        calls: Arc<[AtomicU64]>,
    ) -> Messages {
        Messages {
            me,
            far_bytes: connections.far_bytes(),
            peers: (0..job.ranks()).map(|_| None).collect(),
            connections,
            bells: Bells::new(job.ranks()),
            blocked: Vec::new(),
            matcher: Matcher::new(),
            transfers: Transfers::default(),
            flow: Flow::default(),
            early: 0,
            calls,
            gathered: Vec::new(),
            outcomes: Outcomes::default(),
            senders: None,
            counters: Counters::default(),
            job,
        }
    }

    /// The longest message to a rank that is sent at once, and the longest piece of a longer one. Over a network more is: to ask first
    /// takes longer there than to send what is not expected yet.
    #[inline(always)]
    fn eager_bytes_to(&self, rank: Rank) -> usize {
        let near = self.job.eager_bytes();
        match self.far_bytes {
            Some(far) if !self.job.share_memory(self.me, rank) => far.max(near),
            _ => near,
        }
    }

    /// The peer table's entry, made on first use.
    #[inline(always)]
    fn peer(&mut self, rank: Rank) -> &mut Peer {
        if self.peers[rank.index()].is_none() {
            self.meet(rank);
        }
        self.peers[rank.index()].as_deref_mut().expect("they have met")
    }

    #[cold]
    #[inline(never)]
    fn meet(&mut self, rank: Rank) {
        self.peers[rank.index()] = Some(Box::new(Peer::new(&mut self.connections, rank)));
    }

    /// As after so many channels with each peer, and so many messages each way. Before the first ones.
    pub(super) fn grow_old(&mut self, channels: u32, messages: u32) {
        for rank in (0..self.job.ranks()).map(Rank) {
            self.peer(rank).grow_old(channels, messages);
        }
    }

    /// Whom this rank has exchanged messages with, or tried to.
    pub(super) fn met(&self) -> Vec<Rank> {
        (0..self.job.ranks()).map(Rank).filter(|rank| self.peers[rank.index()].is_some()).collect()
    }

    /// Much will be sent to the peer.
    pub(super) fn expect_traffic(&mut self, rank: Rank) {
        if rank != self.me {
            self.peer(rank).way.expect_traffic();
        }
    }

    /// Receives a message from `source` (none: any) with `tag` (none: any) into `memory`. Whether that is done; else the token comes
    /// back when it is, or with the event that it has failed.
    ///
    /// # Safety
    /// The memory is writable, and nobody else's until the operation has ended or was cancelled.
    #[inline]
    pub(super) unsafe fn post(
        &mut self,
        token: Token,
        context: u64,
        source: Option<Rank>,
        tag: Option<Tag>,
        memory: Memory,
    ) -> Result<bool, Cause> {
        let posted = Posted { token, memory };
        match self.matcher.post(Pattern { context, source, tag }, posted) {
            Some(found) => self.take_unexpected(posted, context, found),
            None => self.expect(token, source),
        }
    }

    /// A posted receive has nothing yet: fails it if nothing can come.
    #[inline]
    fn expect(&mut self, token: Token, source: Option<Rank>) -> Result<bool, Cause> {
        match source.and_then(|source| self.check_peer(source).err()) {
            None => Ok(false),
            Some(cause) => {
                self.withdraw(token);
                Err(cause)
            }
        }
    }

    /// Takes a receive back that waits.
    #[cold]
    pub(super) fn withdraw(&mut self, token: Token) {
        self.matcher.take_posted(|_, posted| posted.token == token);
    }

    /// An error if the peer is no longer there.
    #[inline]
    pub(super) fn check_peer(&self, rank: Rank) -> Result<(), Cause> {
        match self.peers[rank.index()].as_deref().and_then(|peer| peer.gone) {
            None => Ok(()),
            Some(Gone::Died(death)) => Err(Cause::PeerDied { peer: rank, death }),
            Some(Gone::Left) => Err(Cause::PeerLeft { peer: rank }),
        }
    }

    /// The operation is done.
    #[inline]
    fn finish(&mut self, token: Token) {
        self.outcomes.done.push(token);
        self.outcomes.progressed = true;
    }

    /// The operation will never be done.
    #[cold]
    fn fail(&mut self, token: Token, cause: Cause) {
        self.outcomes.events.push(Event::Failed(token, cause));
        self.outcomes.progressed = true;
    }

    /// Whether [`Messages::take_done`] has something.
    #[inline]
    pub(super) fn has_done(&self) -> bool {
        !self.outcomes.done.is_empty()
    }

    /// Whether something is kept for channels that are not open yet.
    #[inline]
    pub(super) fn has_early(&self) -> bool {
        self.early > 0
    }

    /// Takes out what is done.
    #[inline]
    pub(super) fn take_done(&mut self) -> Option<Vec<Token>> {
        (!self.outcomes.done.is_empty()).then(|| std::mem::take(&mut self.outcomes.done))
    }

    /// Gives the list of [`Messages::take_done`] back, for its room.
    #[inline]
    pub(super) fn give_back(&mut self, mut done: Vec<Token>) {
        if self.outcomes.done.is_empty() {
            done.clear();
            self.outcomes.done = done;
        }
    }

    /// The event that happened first. Operations that are done come before.
    #[inline]
    pub(super) fn next_event(&mut self) -> Option<Event> {
        (!self.outcomes.events.is_empty()).then(|| self.outcomes.events.remove(0))
    }

    /// Whether something has moved since this was asked last.
    #[inline]
    pub(super) fn take_progressed(&mut self) -> bool {
        std::mem::take(&mut self.outcomes.progressed)
    }

    /// Whether something waits for room.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Whether others need nothing more of this rank: what comes has left its sender, what it sends lies where its receiver finds
    /// it.
    pub(super) fn can_wait(&self) -> bool {
        self.blocked.is_empty() && self.flow.is_calm() && self.transfers.can_wait()
    }

    /// Whether there is copying to do that nobody rings for.
    pub(super) fn copies(&self) -> bool {
        self.transfers.needs_turning()
    }

    /// Whether somebody has to look after the messages even if none comes.
    pub(super) fn needs_turning(&self) -> bool {
        self.is_blocked() || self.copies()
    }

    /// How many bytes of messages without a receive are kept from now on before senders have to ask.
    pub(super) fn set_budget(&mut self, bytes: u64) {
        self.flow.limit_bytes = bytes;
    }

    /// Whether [`Messages::ring`] lets progress threads sleep for now: it will be called again soon.
    #[inline]
    pub(super) fn put_off_rings(&mut self, rings_later: bool) {
        self.bells.put_off(rings_later);
    }

    /// Wakes those who sleep and were sent something.
    #[inline]
    pub(super) fn ring(&mut self) {
        self.bells.ring(&mut self.peers);
    }

    /// The same where nobody calls [`Messages::ring`] soon: progress threads, too.
    #[inline]
    pub(super) fn ring_finally(&mut self) {
        self.bells.ring_finally(&mut self.peers);
    }
}
