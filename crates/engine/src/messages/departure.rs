//! What is left of operations that will not be carried out: their owner failed, or the peer is gone.
//!
//! Operations of a channel are dropped with it: the peers close theirs when they hear of it. What meets outside of channels, by source and
//! tag in the order of posting, must not drop out of that order: each operation is matched all the same, and its counterpart
//! fails. In place of a message goes a *tombstone*, which fails the receive that it meets; in place of a receive from a given
//! source stands one that drops the message, and refuses it to its sender where that one still has it. Receives from any source
//! are withdrawn instead: who would have sent is not known, and what others send may be wanted later.

use super::Messages;
use super::peer::{Body, Gone, Pending, Unexpected};
use super::token::{Event, OPEN_CONTEXT, Posted, Token, Wait};
use super::wire::{Kind, control};
use crate::board::Record;
use crate::failure::Cause;
use castell_base::{Rank, Tag};
use castell_matching::{Key, Pattern};
use castell_transport::Header;

fn tombstone(tag: Tag, culprit: Rank) -> Header {
    control(Kind::Tombstone, 0, tag.0, 0, u64::from(culprit.0))
}

impl Messages {
    /// What operations wait for. Looks at all of them.
    pub(crate) fn waits(&self) -> Vec<(Token, Wait)> {
        let posted = self.matcher.posted().filter(|(_, posted)| !posted.is_tombstone());
        let mut waits: Vec<_> =
            posted.map(|(pattern, posted)| (posted.token, Wait::Message(pattern.source))).collect();
        waits.extend(self.transfers.waits());
        waits.extend(self.flow.requested().map(|(token, dest)| (token, Wait::Leave(dest))));
        for (rank, peer) in (0..).map(Rank).zip(&self.peers) {
            let pending = peer.iter().flat_map(|peer| &peer.pending);
            waits.extend(pending.filter_map(Pending::token).map(|token| (token, Wait::Room(rank))));
        }
        waits
    }

    /// A peer is gone, and all that it sent has been taken in: fails what waits for it.
    pub(crate) fn note_gone(&mut self, rank: Rank, gone: Gone) -> bool {
        if self.peer(rank).gone.is_some() {
            return false;
        }
        self.peer(rank).gone = Some(gone);
        self.matcher.take_posted(|pattern, posted| posted.is_tombstone() && pattern.source == Some(rank));
        let Err(cause) = self.check_peer(rank) else { unreachable!("it is gone") };
        let from_it = self.matcher.take_posted(|pattern, _| pattern.source == Some(rank));
        let mut hit: Vec<Token> = from_it.into_iter().map(|posted| posted.token).collect();
        hit.extend(self.transfers_in_vain(rank));
        let pending = std::mem::take(&mut self.peer(rank).pending);
        self.blocked.retain(|blocked| *blocked != rank);
        hit.extend(pending.iter().filter_map(Pending::token));
        let requested = self.flow.take(|requested| requested.dest == rank);
        hit.extend(requested.into_iter().map(|(_, requested)| requested.message.token));
        for token in hit {
            self.fail(token, cause.clone());
        }
        self.outcomes.progressed = true;
        true
    }

    /// Receives that wait for a message from anybody.
    pub(crate) fn waits_for_anybody(&self) -> Vec<Token> {
        let posted = self.matcher.posted().filter(|(pattern, _)| pattern.source.is_none());
        posted.map(|(_, posted)| posted.token).collect()
    }

    /// An error if a receive from anybody has nobody left to wait for, or somebody died. `or_itself`: whether this rank may still
    /// send to itself what is received.
    pub(crate) fn check_anybody(&self, or_itself: impl FnOnce() -> bool) -> Result<(), Cause> {
        let gone = |rank: &Rank| self.peers[rank.index()].as_deref().and_then(|peer| peer.gone);
        let others = || (0..self.job.ranks()).map(Rank).filter(|rank| *rank != self.me);
        if let Some(dead) = others().find(|rank| matches!(gone(rank), Some(Gone::Died(_)))) {
            return self.check_peer(dead);
        }
        match others().next() {
            Some(first) if others().all(|rank| gone(&rank).is_some()) && !or_itself() => {
                self.check_peer(first)
            }
            _ => Ok(()),
        }
    }

    /// Whether the peer is gone.
    pub(crate) fn is_gone(&self, rank: Rank) -> bool {
        self.peers[rank.index()].as_ref().is_some_and(|peer| peer.gone.is_some())
    }

    /// Forgets the operations of an owner that failed; those outside of channels first, see [`Messages::entomb`].
    pub(crate) fn cancel(&mut self, owner: u32, context: u64) {
        for peer in self.peers.iter_mut().flatten() {
            peer.pending.retain(|item| item.token().is_none_or(|token| token.owner != owner));
        }
        self.flow.take(|requested| requested.message.token.owner == owner);
        self.drop_transfers(owner);
        self.matcher.take_posted(|_, posted| posted.token.owner == owner);
        if context != OPEN_CONTEXT {
            for message in self.matcher.take_unexpected(|key, _| key.context == context) {
                self.forget(message);
            }
        }
        if let Some(senders) = &mut self.senders {
            senders.forget(owner);
        }
        self.outcomes.done.retain(|token| token.owner != owner);
        self.outcomes.events.retain(|event| match event {
            Event::Failed(token, _) => token.owner != owner,
            Event::Aborted { channel, .. } => channel.owner != owner,
            Event::Called { .. } => true,
        });
    }

    /// Tells a peer that the channel with that number was given up.
    pub(crate) fn abort(&mut self, peer: Rank, number: u32, culprit: Rank) {
        self.send_control(peer, control(Kind::Abort, number, culprit.0, 0, 0), &[]);
    }

    /// Tells a peer what was called here under the word of a call.
    pub(crate) fn tell_call(&mut self, peer: Rank, word: u32, record: &Record, is_answer: bool) {
        let words = record.words().map(u64::to_ne_bytes);
        self.send_control(peer, control(Kind::Called, 0, word, is_answer.into(), 0), words.as_flattened());
    }

    /// The operations outside of channels of an owner that failed become tombstones where they stand; [`Messages::cancel`] is next.
    /// The operation that failed leaves none. Those that had been begun are added to `begun`.
    #[cold]
    pub(crate) fn entomb(&mut self, owner: u32, failed: Option<u32>, culprit: Rank, begun: &mut Vec<u32>) {
        let mut note = |token: Token| {
            let is_its = token.owner == owner;
            if is_its {
                begun.push(token.part);
            }
            is_its
        };
        for (token, _) in self.transfers.waits() {
            note(token);
        }
        for token in &self.outcomes.done {
            note(*token);
        }
        for event in &self.outcomes.events {
            if let Event::Failed(token, _) = event {
                note(*token);
            }
        }
        let withdrawn = self.matcher.take_posted(|pattern, posted| {
            let is_buried = pattern.source.is_some() && failed != Some(posted.token.part);
            posted.token.owner == owner && !is_buried
        });
        for posted in withdrawn {
            note(posted.token);
        }
        for (_, posted) in self.matcher.posted_mut() {
            if note(posted.token) {
                *posted = Posted::tombstone();
            }
        }
        for item in self.peers.iter_mut().flatten().flat_map(|peer| &mut peer.pending) {
            if let Pending::Message { message, .. } = item
                && (message.kind == Kind::Eager || message.granted.is_some())
                && note(message.token)
            {
                let mut header = match message.granted {
                    None => tombstone(message.tag, culprit),
                    // It has met its receive already, which waits for the rest.
                    Some(request) => control(Kind::Withdraw, 0, culprit.0, 0, request),
                };
                header.source = self.me.0;
                *item = Pending::Control { header, payload: Box::default() };
            }
        }
        for (_, message) in self.matcher.unexpected_mut() {
            if let Body::Own { token, .. } = message.body
                && note(token)
            {
                message.body = Body::Tombstone { culprit };
            }
        }
        for (request, requested) in self.flow.take(|requested| requested.message.token.owner == owner) {
            note(requested.message.token);
            self.send_control(requested.dest, control(Kind::Withdraw, 0, culprit.0, 0, request), &[]);
        }
    }

    /// A tombstone in place of a message.
    pub(crate) fn bury_send(&mut self, owner: u32, dest: Rank, tag: Tag, culprit: Rank) {
        if dest != self.me {
            return self.send_control(dest, tombstone(tag, culprit), &[]);
        }
        let me = self.me;
        let key = Key { context: OPEN_CONTEXT, source: me, tag };
        let met =
            self.matcher.arrive(key, || Unexpected { source: me, tag, body: Body::Tombstone { culprit } });
        if let Some(posted) = met.filter(|posted| !posted.is_tombstone() && posted.token.owner != owner) {
            self.fail(posted.token, Cause::PeerFailed { peer: me, culprit });
        }
    }

    /// A tombstone in place of a receive.
    pub(crate) fn bury_receive(&mut self, owner: u32, source: Rank, tag: Option<Tag>, culprit: Rank) {
        if source != self.me && self.is_gone(source) {
            // What it had sent has been taken in; what of that nobody takes goes when this rank does.
            return;
        }
        let pattern = Pattern { context: OPEN_CONTEXT, source: Some(source), tag };
        let Some(message) = self.matcher.post(pattern, Posted::tombstone()) else { return };
        if source != self.me {
            self.release(message.held_bytes());
        }
        match message.body {
            Body::Own { token, .. } if token.owner == owner => self.counters.orphans += 1,
            _ => self.bury(message, culprit),
        }
    }

    /// Drops what is left of a message that goes in fragments.
    pub(super) fn drop_fragments(&mut self, dest: Rank, handle: u64) {
        let is_its = |item: &Pending| {
            matches!(item, Pending::Message { message, .. }
                if message.kind == Kind::Fragment && message.granted.is_none() && message.extra == handle)
        };
        self.peer(dest).pending.retain(|item| !is_its(item));
    }
}
