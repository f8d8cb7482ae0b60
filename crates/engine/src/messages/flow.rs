//! Flow control: too many messages ahead of their receives.
//!
//! A receiver that holds more unexpected bytes than its budget asks the sender to *hold*; so does one that has so many messages of calls
//! to come that their numbers would soon be taken for those of calls that are over. From then on the sender asks before it
//! sends anything that carries bytes: a *request* takes the message's place in the order of messages and in the matcher, the
//! bytes stay with the sender. When a receive takes the request, the receiver *grants* it and the bytes come, in pieces, straight
//! to that receive. So each message that a rank has not received costs it a header at most; the bytes cost who sent them. A sender
//! that has no descriptor left for a large message asks in the same way.
//!
//! Puts and gets meet no receive but a channel: they are granted when that is open.
//!
//! ```text
//!   receiver:  takes ──(over budget: Hold)──▶ is asked first ──(under half of it: Resume)──▶ takes
//!   sender:    sends ──(Hold)──▶ Request … (Grant: sends; Dropped: nobody wants it) ──(Resume)──▶ sends
//! ```

use super::Messages;
use super::peer::{Body, Outbound, Pending, cost};
use super::token::{Sent, Token};
use super::wire::{Granted, Kind, UNMATCHED, control};
use crate::failure::Cause;
use crate::number::CALLS_AHEAD;
use castell_base::Rank;
use castell_transport::Header;
use std::collections::HashMap;

/// Bytes of unexpected messages that a rank keeps before it asks senders to hold, unless it is told otherwise.
pub const UNEXPECTED_BUDGET_BYTES: u64 = 64 << 20;

/// So many messages for channels that are not open are kept before senders hold: as many more may be under way by then.
const EARLY_MAX: usize = CALLS_AHEAD as usize / 2;

pub(super) struct Flow {
    pub(super) limit_bytes: u64,
    /// See [`EARLY_MAX`].
    limit_early: usize,
    held_bytes: u64,
    /// Peers that were asked to hold.
    holding: Vec<Rank>,
    /// Messages of this rank that wait for leave, by the number of the request.
    requested: HashMap<u64, Requested>,
    next: u64,
}

/// A message that waits for leave to be sent.
pub(super) struct Requested {
    pub(super) dest: Rank,
    pub(super) message: Outbound,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            limit_bytes: UNEXPECTED_BUDGET_BYTES,
            limit_early: EARLY_MAX,
            held_bytes: 0,
            holding: Vec::new(),
            requested: HashMap::new(),
            next: 0,
        }
    }
}

impl Flow {
    /// Nobody was asked to hold, and nobody asked.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.holding.is_empty() && self.requested.is_empty()
    }

    /// What waits for leave.
    pub(super) fn requested(&self) -> impl Iterator<Item = (Token, Rank)> + '_ {
        self.requested.values().map(|requested| (requested.message.token, requested.dest))
    }

    /// Takes out the requests that `choose` says yes to, in order.
    pub(super) fn take(&mut self, choose: impl Fn(&Requested) -> bool) -> Vec<(u64, Requested)> {
        let mut taken: Vec<_> = self.requested.extract_if(|_, requested| choose(requested)).collect();
        taken.sort_unstable_by_key(|(request, _)| *request);
        taken
    }
}

impl Messages {
    /// An unexpected message is kept.
    pub(super) fn charge(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        let flow = &mut self.flow;
        flow.held_bytes += cost(header, payload);
        self.counters.unexpected_bytes_max = self.counters.unexpected_bytes_max.max(flow.held_bytes);
        let is_over = flow.held_bytes > flow.limit_bytes || self.early > flow.limit_early;
        if is_over && !self.peer(source).is_held {
            self.peer(source).is_held = true;
            self.flow.holding.push(source);
            self.send_control(source, control(Kind::Hold, 0, 0, 0, 0), &[]);
        }
    }

    /// An unexpected message found its receive, or will never.
    #[inline]
    pub(super) fn release(&mut self, bytes: u64) {
        self.flow.held_bytes -= bytes;
        if !self.flow.holding.is_empty()
            && self.flow.held_bytes <= self.flow.limit_bytes / 2
            && self.early <= self.flow.limit_early / 2
        {
            for peer in std::mem::take(&mut self.flow.holding) {
                self.peer(peer).is_held = false;
                self.send_control(peer, control(Kind::Resume, 0, 0, 0, 0), &[]);
            }
        }
    }

    /// As if so few messages that are ahead could be told apart.
    #[cfg(test)]
    pub(crate) fn limit_early(&mut self, messages: usize) {
        self.flow.limit_early = messages;
    }

    /// Sender: asks for leave.
    pub(super) fn request(&mut self, dest: Rank, message: &Outbound) -> Sent {
        let flags = if message.kind == Kind::Eager { 0 } else { UNMATCHED };
        let number = self.flow.next + 1;
        let mut header = control(Kind::Request, message.number, message.tag.0, flags, number);
        header.source = self.me.0;
        if !self.peer(dest).way.try_send(&mut header, &message.memory.bytes().to_ne_bytes()) {
            return Sent::Refused;
        }
        self.bells.press(dest);
        self.flow.next = number;
        self.flow.requested.insert(number, Requested { dest, message: *message });
        Sent::Announced
    }

    /// Receiver: answers a request.
    pub(super) fn grant(&mut self, source: Rank, request: u64, how: Granted) {
        self.send_control(source, control(Kind::Grant, 0, 0, how as u8, request), &[]);
    }

    /// Sender: a request was answered.
    pub(super) fn serve_grant(&mut self, dest: Rank, header: &Header) {
        let request = header.extra;
        // Its owner may have failed meanwhile.
        let Some(Requested { message, .. }) = self.flow.requested.remove(&request) else { return };
        self.outcomes.progressed = true;
        let is_small = message.memory.bytes() <= self.eager_bytes_to(dest) as u64;
        match header.flags {
            0 => self.pend_fragments(dest, message, request, Some(request)),
            1 => {
                let message = Outbound { granted: Some(request), ..message };
                self.peer(dest).pending.push_back(Pending::Message { message, owned: None });
                self.block(dest);
            }
            // As if it had been sent, and dropped there.
            _ if is_small || message.kind != Kind::Eager => self.finish(message.token),
            _ => self.fail(message.token, Cause::PeerFailed { peer: dest, culprit: dest }),
        }
    }

    /// Receiver: a message will not come that leave was asked for.
    pub(super) fn take_withdrawal(&mut self, source: Rank, header: &Header) {
        let (request, culprit) = (header.extra, Rank(header.tag));
        if let Some(token) = self.transfers.take_awaited(source, request) {
            return self.fail(token, Cause::PeerFailed { peer: source, culprit });
        }
        for (_, message) in self.matcher.unexpected_mut() {
            if message.source == source
                && matches!(message.body, Body::Requested { request: found, .. } if found == request)
            {
                message.body = Body::Tombstone { culprit };
            }
        }
    }
}
