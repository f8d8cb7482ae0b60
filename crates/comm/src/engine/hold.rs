//! Too many messages ahead of their receives: the budget, and how a send stays with its sender.
//!
//! A receiver that holds more unexpected bytes than its budget asks the sender to hold. From its answer on, the
//! sender keeps every new send for that receiver where it is (its buffer is untouched) and matching moves to it:
//! each receive that finds nothing asks for the first kept message that fits it. When the receiver has room
//! again it says so, and everything that was kept goes out in order. A message is never in two places, and
//! per (source, tag) the order stays, because all that was sent before the answer has arrived before it.
//!
//! ```text
//!   receiver:  No ──Hold──▶ Asked ──(Held arrives)──▶ Held ──Fetch*, Resume──▶ No
//!   sender:    sends ──(Hold arrives)──▶ Held, keeps ──(Fetch: sends one; Resume: sends all)──▶ sends
//! ```

use super::core::Core;
use super::message::{Kind, OPEN_CONTEXT, control};
use super::peer::{ENTRY_BYTES, Pending};
use super::run::RunRef;
use crate::queue::Header;
use castell_base::{Rank, Tag};
use castell_goal::op::Op;
use castell_goal::schedule::OpId;
use std::collections::{HashMap, VecDeque};

/// Bytes of unexpected messages that a rank keeps before it asks senders to hold.
pub const UNEXPECTED_BUDGET_BYTES: u64 = 64 << 20;

/// What this rank asked a peer to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    No,
    Asked,
    Held,
}

/// A send that stays here, with its place in the order of all of them.
type KeptSend = (u64, RunRef, OpId);

/// Sends that stay with their sender, by run number and tag.
#[derive(Default)]
pub(super) struct Kept {
    sends: HashMap<(u32, Tag), VecDeque<KeptSend>>,
    /// Fetches that found nothing: number and tag.
    wanted: Vec<(u32, Option<Tag>)>,
    next: u64,
}

impl Kept {
    /// Every operation that is kept.
    pub(super) fn into_operations(self) -> impl Iterator<Item = (RunRef, OpId)> {
        self.sends.into_values().flatten().map(|(_, run, op)| (run, op))
    }

    /// Forgets a run that failed.
    pub(super) fn drop_run(&mut self, run: RunRef) {
        for sends in self.sends.values_mut() {
            sends.retain(|(_, of, _)| *of != run);
        }
        self.sends.retain(|_, sends| !sends.is_empty());
    }
}

#[derive(Default)]
pub(super) struct Budget {
    held_bytes: u64,
    /// Peers that were asked to hold.
    holding: Vec<Rank>,
}

impl Core {
    /// An unexpected message was kept.
    pub(super) fn charge(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        self.budget.held_bytes += cost(header, payload);
        if self.budget.held_bytes > UNEXPECTED_BUDGET_BYTES && self.peer(source).holding == Holding::No {
            self.peer(source).holding = Holding::Asked;
            self.budget.holding.push(source);
            self.send_control(source, control(Kind::Hold, 0, 0, 0, 0), &[]);
        }
    }

    /// An unexpected message found its receive.
    #[inline]
    pub(super) fn release_budget(&mut self, bytes: u64) {
        self.budget.held_bytes -= bytes;
        if !self.budget.holding.is_empty() && self.budget.held_bytes < UNEXPECTED_BUDGET_BYTES / 2 {
            self.resume_senders();
        }
    }

    fn resume_senders(&mut self) {
        for peer in std::mem::take(&mut self.budget.holding) {
            if self.peer(peer).holding == Holding::Held {
                self.peer(peer).holding = Holding::No;
                self.send_control(peer, control(Kind::Resume, 0, 0, 0, 0), &[]);
            } else {
                self.budget.holding.push(peer);
            }
        }
    }

    /// Receiver: the peer keeps its messages from here on; asks for those that receives wait for.
    pub(super) fn note_held(&mut self, source: Rank) {
        self.peer(source).holding = Holding::Held;
        let fits =
            self.matcher.posted().filter(|(pattern, _)| pattern.source.is_none_or(|rank| rank == source));
        let wanted: Vec<_> = fits.map(|(pattern, posted)| (posted.run, pattern.tag)).collect();
        for (run, tag) in wanted {
            self.fetch_from(source, run, tag);
        }
        self.release_budget(0);
    }

    /// Receiver: a receive was posted and found nothing; asks whoever keeps messages.
    #[inline]
    pub(super) fn fetch(&mut self, run: RunRef, source: Option<Rank>, tag: Option<Tag>) {
        if self.budget.holding.is_empty() {
            return;
        }
        for peer in self.budget.holding.clone() {
            if source.is_none_or(|rank| rank == peer) && self.peer(peer).holding == Holding::Held {
                self.fetch_from(peer, run, tag);
            }
        }
    }

    fn fetch_from(&mut self, peer: Rank, run: RunRef, tag: Option<Tag>) {
        if self.run(run).is_none() {
            return;
        }
        let number = match self.context_of(run) {
            OPEN_CONTEXT => 0,
            _ => self.run(run).map_or(0, |found| found.number_with(peer)),
        };
        let (any, tag) = tag.map_or((1, 0), |tag| (0, tag.0));
        self.send_control(peer, control(Kind::Fetch, number, tag, any, 0), &[]);
    }

    /// Sender: from here on, sends to `dest` stay here.
    pub(super) fn start_keeping(&mut self, dest: Rank) {
        let peer = self.peer(dest);
        peer.kept.get_or_insert_default();
        let pending = std::mem::take(&mut peer.pending);
        self.send_control(dest, control(Kind::Held, 0, 0, 0, 0), &[]);
        for item in pending {
            match item {
                Pending::Op { run, op } => self.keep(run, op, dest),
                other => self.peer(dest).pending.push_back(other),
            }
        }
        if !self.peer(dest).pending.is_empty() {
            self.block(dest);
        }
    }

    /// Sender: keeps one send, unless a receive waits for it already.
    pub(super) fn keep(&mut self, run: RunRef, op: OpId, dest: Rank) {
        if self.run(run).is_none() {
            return;
        }
        let Op::Send { tag, .. } = self.schedule(run).op(op) else {
            // One-sided operations need no receive: they go out as ever.
            self.peer(dest).pending.push_back(Pending::Op { run, op });
            return self.block(dest);
        };
        let number = self.run(run).map_or(0, |found| found.number_with(dest));
        let kept = self.peer(dest).kept.get_or_insert_default();
        let fits =
            |wanted: &(u32, Option<Tag>)| wanted.0 == number && wanted.1.is_none_or(|wanted| wanted == tag);
        if let Some(at) = kept.wanted.iter().position(fits) {
            kept.wanted.remove(at);
            self.peer(dest).pending.push_back(Pending::Op { run, op });
            return self.block(dest);
        }
        kept.sends.entry((number, tag)).or_default().push_back((kept.next, run, op));
        kept.next += 1;
    }

    /// Sender: sends the first kept message that fits, or notes the wish.
    pub(super) fn serve_fetch(&mut self, dest: Rank, header: &Header) {
        let number = header.run;
        let tag = (header.flags & 1 == 0).then_some(Tag(header.tag));
        let Some(kept) = self.peer(dest).kept.as_deref_mut() else { return };
        let key = match tag {
            Some(tag) => Some((number, tag)).filter(|key| kept.sends.contains_key(key)),
            None => {
                let of_run = kept.sends.iter().filter(|((kept_number, _), _)| *kept_number == number);
                of_run.min_by_key(|(_, sends)| sends.front().map(|(order, ..)| *order)).map(|(key, _)| *key)
            }
        };
        let Some(key) = key else {
            kept.wanted.push((number, tag));
            return;
        };
        let sends = kept.sends.get_mut(&key).expect("it was found above");
        let (_, run, op) = sends.pop_front().expect("empty lists are removed");
        if sends.is_empty() {
            kept.sends.remove(&key);
        }
        self.peer(dest).pending.push_back(Pending::Op { run, op });
        self.block(dest);
        self.progressed = true;
    }

    /// Sender: everything that was kept goes out, in order.
    pub(super) fn stop_keeping(&mut self, dest: Rank) {
        let Some(kept) = self.peer(dest).kept.take() else { return };
        let mut sends: Vec<_> = kept.sends.into_values().flatten().collect();
        sends.sort_unstable_by_key(|(order, ..)| *order);
        self.peer(dest).pending.extend(sends.into_iter().map(|(_, run, op)| Pending::Op { run, op }));
        if !self.peer(dest).pending.is_empty() {
            self.block(dest);
        }
        self.progressed = true;
    }
}

/// What a message costs that is kept, as [`super::peer::Unexpected::held_bytes`] counts it.
pub(super) fn cost(header: &Header, payload: &[u8]) -> u64 {
    if header.kind != Kind::Announce as u8 && payload.len() > 32 {
        return ENTRY_BYTES + payload.len() as u64;
    }
    ENTRY_BYTES
}
