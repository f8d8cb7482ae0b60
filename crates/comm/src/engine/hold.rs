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

/// Bytes of unexpected messages that a rank keeps before it asks senders to hold, unless it is told otherwise.
pub const UNEXPECTED_BUDGET_BYTES: u64 = 64 << 20;

/// What this rank asked a peer to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    No,
    Asked,
    Held,
}

/// A send that stays here, with its place in the order of all of them.
#[derive(Clone, Copy)]
struct KeptSend {
    order: u64,
    run: RunRef,
    op: OpId,
}

/// Sends that stay with their sender, and what was asked for in vain. Finding one costs the same however many there
/// are.
#[derive(Default)]
pub(super) struct Kept {
    /// By run number.
    runs: HashMap<u32, KeptRun>,
    /// Fetches that found nothing, by number and tag (none: any), with their place in the order of all of them.
    wanted: HashMap<(u32, Option<Tag>), VecDeque<u64>>,
    next: u64,
}

/// The kept sends of one run number.
#[derive(Default)]
struct KeptRun {
    /// In order; none where one was fetched.
    sends: VecDeque<Option<KeptSend>>,
    /// How many were taken off the front of `sends`.
    taken: u64,
    /// Each tag's sends, as numbers of the sends of this run.
    tags: HashMap<Tag, VecDeque<u64>>,
}

impl KeptRun {
    fn push(&mut self, tag: Tag, send: KeptSend) {
        self.tags.entry(tag).or_default().push_back(self.taken + self.sends.len() as u64);
        self.sends.push_back(Some(send));
    }

    /// The first send with that tag.
    fn take_tag(&mut self, tag: Tag) -> Option<KeptSend> {
        let numbers = self.tags.get_mut(&tag)?;
        let number = numbers.pop_front().expect("empty lists are removed");
        if numbers.is_empty() {
            self.tags.remove(&tag);
        }
        let send = self.sends[(number - self.taken) as usize].take();
        while let Some(None) = self.sends.front() {
            self.sends.pop_front();
            self.taken += 1;
        }
        send
    }

    fn drop_run(&mut self, run: RunRef) {
        if !self.sends.iter().flatten().any(|send| send.run == run) {
            return;
        }
        let (mut old, taken) = (std::mem::take(&mut self.sends), self.taken);
        let mut tags: Vec<(u64, Tag)> = Vec::with_capacity(old.len());
        for (tag, numbers) in self.tags.drain() {
            tags.extend(numbers.into_iter().map(|number| (number, tag)));
        }
        tags.sort_unstable_by_key(|(number, _)| *number);
        for (number, tag) in tags {
            if let Some(send) = old[(number - taken) as usize].take_if(|send| send.run != run) {
                self.push(tag, send);
            }
        }
    }

    /// The first send, whose tag `tag_of` tells.
    fn take_any(&mut self, tag_of: impl FnOnce(&KeptSend) -> Tag) -> Option<KeptSend> {
        // The front is never an empty place.
        let tag = tag_of(self.sends.front()?.as_ref()?);
        self.take_tag(tag)
    }
}

impl Kept {
    fn all(self) -> impl Iterator<Item = KeptSend> {
        self.runs.into_values().flat_map(|run| run.sends).flatten()
    }

    /// Every operation that is kept.
    pub(super) fn into_operations(self) -> impl Iterator<Item = (RunRef, OpId)> {
        self.all().map(|send| (send.run, send.op))
    }

    /// Forgets a run that failed.
    pub(super) fn drop_run(&mut self, run: RunRef) {
        for kept in self.runs.values_mut() {
            kept.drop_run(run);
        }
    }

    /// Whether a fetch waits for such a send; it waits no longer then.
    fn take_wish(&mut self, number: u32, tag: Tag) -> bool {
        let keys = [(number, Some(tag)), (number, None)];
        let first =
            |key: &(u32, Option<Tag>)| self.wanted.get(key).and_then(|places| places.front().copied());
        let Some(key) = keys.into_iter().filter(|key| first(key).is_some()).min_by_key(first) else {
            return false;
        };
        let places = self.wanted.get_mut(&key).expect("it was found above");
        places.pop_front();
        if places.is_empty() {
            self.wanted.remove(&key);
        }
        true
    }
}

pub(super) struct Budget {
    pub(super) limit_bytes: u64,
    held_bytes: u64,
    /// Peers that were asked to hold.
    holding: Vec<Rank>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { limit_bytes: UNEXPECTED_BUDGET_BYTES, held_bytes: 0, holding: Vec::new() }
    }
}

impl Core {
    /// An unexpected message was kept.
    pub(super) fn charge(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        self.budget.held_bytes += cost(header, payload);
        self.counters.unexpected_bytes_max = self.counters.unexpected_bytes_max.max(self.budget.held_bytes);
        if self.budget.held_bytes > self.budget.limit_bytes && self.peer(source).holding == Holding::No {
            self.peer(source).holding = Holding::Asked;
            self.budget.holding.push(source);
            self.send_control(source, control(Kind::Hold, 0, 0, 0, 0), &[]);
        }
    }

    /// An unexpected message found its receive.
    #[inline]
    pub(super) fn release_budget(&mut self, bytes: u64) {
        self.budget.held_bytes -= bytes;
        if !self.budget.holding.is_empty() && self.budget.held_bytes <= self.budget.limit_bytes / 2 {
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
        if kept.take_wish(number, tag) {
            self.peer(dest).pending.push_back(Pending::Op { run, op });
            return self.block(dest);
        }
        let order = kept.next;
        kept.next += 1;
        kept.runs.entry(number).or_default().push(tag, KeptSend { order, run, op });
    }

    /// Sender: sends the first kept message that fits, or notes the wish.
    pub(super) fn serve_fetch(&mut self, dest: Rank, header: &Header) {
        let number = header.run;
        let tag = (header.flags & 1 == 0).then_some(Tag(header.tag));
        let Some(mut kept) = self.peer(dest).kept.take() else { return };
        let found = kept.runs.get_mut(&number).and_then(|sends| match tag {
            Some(tag) => sends.take_tag(tag),
            None => sends.take_any(|send| match self.schedule(send.run).op(send.op) {
                Op::Send { tag, .. } => tag,
                _ => unreachable!("only sends are kept"),
            }),
        });
        if found.is_none() {
            let place = kept.next;
            kept.next += 1;
            kept.wanted.entry((number, tag)).or_default().push_back(place);
        }
        self.peer(dest).kept = Some(kept);
        let Some(KeptSend { run, op, .. }) = found else { return };
        self.peer(dest).pending.push_back(Pending::Op { run, op });
        self.block(dest);
        self.progressed = true;
    }

    /// Sender: everything that was kept goes out, in order.
    pub(super) fn stop_keeping(&mut self, dest: Rank) {
        let Some(kept) = self.peer(dest).kept.take() else { return };
        let mut sends: Vec<KeptSend> = kept.all().collect();
        sends.sort_unstable_by_key(|send| send.order);
        let sends = sends.into_iter().map(|KeptSend { run, op, .. }| Pending::Op { run, op });
        self.peer(dest).pending.extend(sends);
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
