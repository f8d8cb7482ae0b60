//! Messages coming in: put in order, then handled by kind; those of sends meet receives.

use super::Messages;
use super::peer::{Announced, Body, Early, Open, Unexpected, cost};
use super::token::{Channel, Event, Handler, OPEN_CONTEXT, Posted};
use super::wire::{Granted, Kind, UNMATCHED, word_at};
use crate::board::Record;
use crate::failure::Cause;
use crate::number::{context_of, is_call_ahead, is_pairwise_ahead};
use castell_base::{Rank, Tag};
use castell_matching::Key;
use castell_transport::Header;
use std::sync::atomic::Ordering;

/// Where a message belongs.
enum Belongs {
    /// To the receives outside of channels.
    Open,
    To(Channel),
    /// To a channel that this rank has not opened.
    Early(u32),
    /// To a channel that was closed here.
    Nowhere,
}

impl Messages {
    /// Takes a message in, when all that its sender sent before it have been taken in.
    #[inline]
    pub(crate) fn receive(&mut self, header: &Header, payload: &[u8], handler: &mut impl Handler) {
        let ranks = self.peers.len();
        assert!((header.source as usize) < ranks, "a message from rank {} of {ranks}", header.source);
        let source = Rank(header.source);
        let peer = self.peer(source);
        if !peer.incoming.admit(header.sequence) {
            let is_early = peer.incoming.keep(header, payload);
            assert!(is_early, "message {} of rank {source} came twice", header.sequence);
            return;
        }
        peer.way.answered();
        self.handle(source, header, payload, handler);
        if self.peer(source).incoming.is_waiting() {
            self.receive_stashed(source, handler);
        }
    }

    /// Takes in a fragment that lies in its place ([`Messages::place`]).
    pub(crate) fn placed(&mut self, header: &Header, handler: &mut impl Handler) {
        let source = Rank(header.source);
        let peer = self.peer(source);
        let is_next = peer.incoming.admit(header.sequence);
        assert!(is_next, "only the next message of rank {source} has a place");
        peer.way.answered();
        self.take_placed(source, header);
        if self.peer(source).incoming.is_waiting() {
            self.receive_stashed(source, handler);
        }
    }

    /// Takes in what came too early and has its turn now.
    #[cold]
    fn receive_stashed(&mut self, source: Rank, handler: &mut impl Handler) {
        while let Some((header, payload)) = self.peer(source).incoming.take() {
            self.handle(source, &header, &payload, handler);
        }
    }

    #[inline(always)]
    fn handle(&mut self, source: Rank, header: &Header, payload: &[u8], handler: &mut impl Handler) {
        if header.kind == Kind::Eager as u8 {
            return self.arrive(source, header, payload, handler);
        }
        self.handle_rare(source, header, payload, handler);
    }

    #[inline(never)]
    fn handle_rare(&mut self, source: Rank, header: &Header, payload: &[u8], handler: &mut impl Handler) {
        match Kind::of(header) {
            Kind::Eager | Kind::Announce | Kind::Tombstone | Kind::Request | Kind::Put | Kind::Get => {
                self.arrive(source, header, payload, handler);
            }
            Kind::Fragment => self.take_fragment(source, header, payload),
            Kind::Abort => self.take_abort(source, header),
            Kind::Hold => self.peer(source).holds = true,
            Kind::Resume => self.peer(source).holds = false,
            Kind::Grant => self.serve_grant(source, header),
            Kind::Withdraw => self.take_withdrawal(source, header),
            Kind::GetReply => handler.message(source, None, header, payload),
            Kind::Called => {
                let record = Record::from_words(std::array::from_fn(|at| word_at(payload, 8 * at)));
                let (word, is_answer) = (header.tag, header.flags != 0);
                self.outcomes.events.push(Event::Called { peer: source, word, record, is_answer });
                self.outcomes.progressed = true;
            }
        }
    }

    #[inline(always)]
    fn belongs(&mut self, source: Rank, number: u32) -> Belongs {
        if number == 0 {
            return Belongs::Open;
        }
        let number = number.wrapping_sub(1);
        match self.peer(source).channel(number).map(|open| open.channel) {
            Some(channel) => Belongs::To(channel),
            None if self.is_ahead(source, number) => Belongs::Early(number),
            None => Belongs::Nowhere,
        }
    }

    /// Whether the channel with `source` that has this number has not been opened here yet.
    fn is_ahead(&mut self, source: Rank, number: u32) -> bool {
        match context_of(number + 1) {
            Some(context) => {
                is_call_ahead(number + 1, self.calls[context as usize].load(Ordering::Relaxed) as u32)
            }
            None => is_pairwise_ahead(number, self.peer(source).channels),
        }
    }

    #[inline(always)]
    fn arrive(&mut self, source: Rank, header: &Header, payload: &[u8], handler: &mut impl Handler) {
        match self.belongs(source, header.run) {
            Belongs::Open => self.match_message(source, OPEN_CONTEXT, header, payload),
            Belongs::To(channel) if channel.is_unmatched || is_one_sided(header) => {
                self.hand_over(source, channel, header, payload, handler);
            }
            Belongs::To(channel) => self.match_message(source, channel.context, header, payload),
            Belongs::Early(number) => self.keep_early(source, number, header, payload),
            Belongs::Nowhere => self.refuse_orphan(source, header, payload, handler),
        }
    }

    /// A message that meets no receive.
    fn hand_over(
        &mut self,
        source: Rank,
        channel: Channel,
        header: &Header,
        payload: &[u8],
        handler: &mut impl Handler,
    ) {
        match Kind::of(header) {
            Kind::Request
                if word_at(payload, 0) <= self.eager_bytes_to(source) as u64 || is_one_sided(header) =>
            {
                return self.grant(source, header.extra, Granted::Plain);
            }
            // Too large for such a channel.
            Kind::Request => self.grant(source, header.extra, Granted::Dropped),
            Kind::Announce => self.refuse_transfer(source, header.extra as u32, (header.extra >> 32) as u32),
            _ => {}
        }
        handler.message(source, Some(channel), header, payload);
        self.outcomes.progressed = true;
    }

    #[inline(always)]
    fn match_message(&mut self, source: Rank, context: u64, header: &Header, payload: &[u8]) {
        let key = Key { context, source, tag: Tag(header.tag) };
        let unexpected = || message_of(source, header, payload);
        match self.matcher.arrive(key, unexpected) {
            None => {
                self.counters.unexpected += 1;
                self.note_unexpected(source, header.run);
                self.charge(source, header, payload);
            }
            Some(posted) => {
                if let Some(senders) = &mut self.senders {
                    senders.met(posted.token, source, Tag(header.tag));
                }
                match header.kind == Kind::Eager as u8 {
                    true => self.deliver(posted, source, payload),
                    false => self.meet_posted(posted, message_of(source, header, payload)),
                }
            }
        }
    }

    /// A message of a channel waits for a receive that may never come.
    #[inline]
    fn note_unexpected(&mut self, source: Rank, number: u32) {
        if number != 0
            && let Some(open) = self.peer(source).channel(number - 1)
        {
            open.unexpected += 1;
        }
    }

    /// A message for a posted receive.
    #[inline]
    pub(super) fn deliver(&mut self, posted: Posted, source: Rank, payload: &[u8]) {
        if posted.is_tombstone() {
            self.counters.orphans += 1;
            return;
        }
        match accept(&posted, source, payload) {
            Ok(()) => self.finish(posted.token),
            Err(cause) => self.fail(posted.token, cause),
        }
    }

    /// A message that is not eager met a receive that had been posted.
    #[cold]
    fn meet_posted(&mut self, posted: Posted, message: Unexpected) {
        if posted.is_tombstone() {
            return self.bury(message, self.me);
        }
        match self.take(posted, message) {
            Ok(true) => self.finish(posted.token),
            Ok(false) => {}
            Err(cause) => self.fail(posted.token, cause),
        }
    }

    /// A receive that is posted now found its message.
    pub(super) fn take_unexpected(
        &mut self,
        posted: Posted,
        context: u64,
        found: Unexpected,
    ) -> Result<bool, Cause> {
        if context != OPEN_CONTEXT {
            let open = &mut self.peer(found.source).open;
            let open = open.iter_mut().find(|open| open.channel.context == context);
            open.expect("a message of an open channel").unexpected -= 1;
        }
        if found.source != self.me {
            self.release(found.held_bytes());
        }
        if let Some(senders) = &mut self.senders {
            senders.met(posted.token, found.source, found.tag);
        }
        self.take(posted, found)
    }

    /// A receive gets its message, or begins to. Whether it is done.
    fn take(&mut self, posted: Posted, message: Unexpected) -> Result<bool, Cause> {
        let from = message.source;
        match message.body {
            Body::Small(length, ref text) => accept(&posted, from, &text[..length as usize]).map(|()| true),
            Body::Eager(ref payload) => accept(&posted, from, payload).map(|()| true),
            Body::Announced(announced) => self.open_transfer(posted, from, announced).map(|()| false),
            Body::Requested { request, bytes } => {
                self.await_granted(posted, from, request, bytes).map(|()| false)
            }
            Body::Own { token, memory } => {
                let mut gathered = std::mem::take(&mut self.gathered);
                // SAFETY: who sent it leaves it alone until it is told that this is done.
                let accepted = accept(&posted, from, unsafe { memory.gather(&mut gathered) });
                self.gathered = gathered;
                self.finish(token);
                accepted.map(|()| true)
            }
            Body::Tombstone { culprit } => Err(Cause::PeerFailed { peer: from, culprit }),
        }
    }

    /// Opens a channel with a peer; `number`: of the channel, or none for the pair's next one. What the messages carry is returned.
    #[inline]
    pub(crate) fn open(&mut self, rank: Rank, channel: Channel, number: Option<u32>) -> u32 {
        let peer = self.peer(rank);
        let number = match number {
            Some(number) => number - 1,
            None => peer.next_number(),
        };
        peer.open.push(Open { number, channel, unexpected: 0 });
        number.wrapping_add(1)
    }

    /// Closes a channel with a peer: what comes for it from now on is dropped.
    #[inline]
    pub(crate) fn close(&mut self, rank: Rank, context: u64) {
        let open = &mut self.peer(rank).open;
        let Some(at) = open.iter().position(|open| open.channel.context == context) else { return };
        let closed = open.swap_remove(at);
        if closed.unexpected > 0 {
            self.drop_unexpected(context, rank);
        }
    }

    /// No receive will take these messages.
    #[cold]
    fn drop_unexpected(&mut self, context: u64, source: Rank) {
        let messages = self.matcher.take_unexpected(|key, _| key.context == context && key.source == source);
        for message in messages {
            self.forget(message);
        }
    }

    /// Keeps a message until this rank opens its channel.
    #[cold]
    fn keep_early(&mut self, source: Rank, number: u32, header: &Header, payload: &[u8]) {
        self.counters.unexpected += 1;
        let early = Early { header: *header, payload: payload.into() };
        self.peer(source).early.entry(number).or_default().push(early);
        self.early += 1;
        self.charge(source, header, payload);
    }

    /// Channels were opened: what came for them before comes in now.
    #[inline]
    pub(crate) fn take_in_early(&mut self, channels: &[(Rank, u32)], handler: &mut impl Handler) {
        if self.early > 0 {
            for &(source, number) in channels {
                self.take_in_early_from(source, number.wrapping_sub(1), handler);
            }
        }
    }

    #[cold]
    fn take_in_early_from(&mut self, source: Rank, number: u32, handler: &mut impl Handler) {
        let now = self.peer(source).early.remove(&number).unwrap_or_default();
        self.early -= now.len();
        for Early { header, payload } in now {
            self.release(cost(&header, &payload));
            self.counters.unexpected -= 1;
            self.handle(source, &header, &payload, handler);
        }
        let peer = self.peer(source);
        if let Some(at) = peer.aborted.iter().position(|(aborted, _)| *aborted == number) {
            let (_, culprit) = peer.aborted.swap_remove(at);
            self.early -= 1;
            self.note_abort(source, number, culprit);
        }
    }

    /// The channel with this number will never be opened here: forgets what came for it.
    pub(crate) fn drop_early(&mut self, source: Rank, number: u32, handler: &mut impl Handler) {
        let number = number - 1;
        let Some(peer) = self.peers[source.index()].as_deref_mut() else { return };
        let before = peer.aborted.len();
        peer.aborted.retain(|(aborted, _)| *aborted != number);
        self.early -= before - peer.aborted.len();
        let early = peer.early.remove(&number).unwrap_or_default();
        self.early -= early.len();
        for Early { header, payload } in early {
            self.release(cost(&header, &payload));
            self.refuse_orphan(source, &header, &payload, handler);
        }
    }

    /// A message that nobody will ever take: its channel was closed here.
    #[cold]
    fn refuse_orphan(&mut self, source: Rank, header: &Header, payload: &[u8], handler: &mut impl Handler) {
        match Kind::of(header) {
            // It is answered.
            Kind::Get => return handler.message(source, None, header, payload),
            Kind::Announce => self.refuse_transfer(source, header.extra as u32, (header.extra >> 32) as u32),
            Kind::Request => self.grant(source, header.extra, Granted::Dropped),
            _ => {}
        }
        self.counters.orphans += 1;
    }

    /// The peer gave a channel up: so does this rank, now or when it opens it.
    fn take_abort(&mut self, source: Rank, header: &Header) {
        let (number, culprit) = (header.run.wrapping_sub(1), Rank(header.tag));
        if self.peer(source).channel(number).is_none() && self.is_ahead(source, number) {
            self.peer(source).aborted.push((number, culprit));
            self.early += 1;
            return;
        }
        self.note_abort(source, number, culprit);
    }

    fn note_abort(&mut self, peer: Rank, number: u32, culprit: Rank) {
        if let Some(open) = self.peer(peer).channel(number) {
            let channel = open.channel;
            self.outcomes.events.push(Event::Aborted { channel, peer, culprit });
            self.outcomes.progressed = true;
        }
    }

    /// A message for a receive of somebody who failed.
    pub(super) fn bury(&mut self, message: Unexpected, culprit: Rank) {
        self.counters.orphans += 1;
        match message.body {
            Body::Announced(Announced { descriptor, generation, .. }) => {
                self.refuse_transfer(message.source, descriptor, generation);
            }
            Body::Requested { request, .. } => self.grant(message.source, request, Granted::Dropped),
            Body::Own { token, .. } => self.fail(token, Cause::PeerFailed { peer: self.me, culprit }),
            Body::Small(..) | Body::Eager(_) | Body::Tombstone { .. } => {}
        }
    }

    /// A message that was kept and that nobody will take any more.
    pub(super) fn forget(&mut self, message: Unexpected) {
        if message.source == self.me {
            self.counters.orphans += 1;
            return;
        }
        self.release(message.held_bytes());
        self.bury(message, self.me);
    }
}

/// Whether a message, or what is asked for, meets no receive.
fn is_one_sided(header: &Header) -> bool {
    header.kind >= Kind::Put as u8 || header.kind == Kind::Request as u8 && header.flags & UNMATCHED != 0
}

/// Copies a message into its receive's memory.
#[inline(always)]
fn accept(posted: &Posted, peer: Rank, payload: &[u8]) -> Result<(), Cause> {
    let (sent, expected) = (payload.len() as u64, posted.memory.bytes());
    if sent != expected {
        return Err(Cause::SizeMismatch { peer, sent, expected });
    }
    // SAFETY: who posted the receive answers for its memory, which belongs to it alone now.
    unsafe { posted.memory.scatter(0, payload) };
    Ok(())
}

/// A message as the matcher keeps it.
fn message_of(source: Rank, header: &Header, payload: &[u8]) -> Unexpected {
    let body = match Kind::of(header) {
        Kind::Tombstone => Body::Tombstone { culprit: Rank(header.extra as u32) },
        Kind::Request => Body::Requested { request: header.extra, bytes: word_at(payload, 0) },
        Kind::Announce => Body::Announced(Announced {
            descriptor: header.extra as u32,
            generation: (header.extra >> 32) as u32,
            bytes: word_at(payload, 0),
        }),
        _ => return Unexpected::copy_of(source, Tag(header.tag), payload),
    };
    Unexpected { source, tag: Tag(header.tag), body }
}
