//! Too many messages ahead of their receives: the budget, and how a send stays with its sender.
//!
//! A receiver that holds more unexpected bytes than its budget asks the sender to hold. From its answer on, the
//! sender keeps every new send for that receiver where it is (its buffer is untouched) and matching moves to it:
//! each receive that finds nothing asks for the first kept message that fits it. When the receiver has room
//! again it says so, and everything that was kept goes out in order. A message is never in two places, and
//! per (source, tag) the order stays, because all that was sent before the answer has arrived before it.
//!
//! Puts and gets meet no receive but a run: they are kept until the receiver says that it has started theirs. So are
//! sends to a run in a block, which has a place for each of its messages and posts no receives.
//!
//! ```text
//!   receiver:  No ──Hold──▶ Asked ──(Held arrives)──▶ Held ──Fetch*, Started*, Resume──▶ No
//!   sender:    sends ──(Hold arrives)──▶ Held, keeps ──(Fetch: sends one; Started: what is for runs; Resume: all)──▶ sends
//! ```

use super::core::Core;
use super::message::{Kind, control};
use super::peer::{ENTRY_BYTES, Pending};
use super::poison;
use super::run::RunRef;
use crate::queue::Header;
use castell_base::{Rank, Tag};
use castell_goal::op::Op;
use castell_goal::schedule::OpId;
use std::collections::{HashMap, HashSet, VecDeque};

/// Bytes of unexpected messages that a rank keeps before it asks senders to hold, unless it is told otherwise.
pub const UNEXPECTED_BUDGET_BYTES: u64 = 64 << 20;

/// Runs that take all their messages, before those that have ended are sorted out.
const FREE_MAX: usize = 64;

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
    tag: Tag,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Operation {
        run: RunRef,
        op: OpId,
    },
    /// The send of an open run that failed.
    Poison {
        culprit: Rank,
    },
}

impl KeptSend {
    fn is_of(&self, wanted: RunRef) -> bool {
        matches!(self.what, What::Operation { run, .. } if run == wanted)
    }

    fn into_pending(self, me: Rank) -> Pending {
        match self.what {
            What::Operation { run, op } => Pending::Op { run, op },
            What::Poison { culprit } => poison::pending(self.tag, culprit, me),
        }
    }
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
    /// How many runs with this rank the receiver has started; none: it has not said so yet.
    started: Option<u32>,
    /// Numbers of runs that take all their messages at once.
    free: HashSet<u32>,
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
    /// Puts and gets.
    one_sided: Vec<KeptSend>,
}

impl KeptRun {
    fn push(&mut self, send: KeptSend) {
        self.tags.entry(send.tag).or_default().push_back(self.taken + self.sends.len() as u64);
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

    /// All of it, in order of the operations of each kind.
    fn into_all(self) -> impl Iterator<Item = KeptSend> {
        self.sends.into_iter().flatten().chain(self.one_sided)
    }

    fn drop_run(&mut self, run: RunRef) {
        self.one_sided.retain(|kept| !kept.is_of(run));
        if !self.sends.iter().flatten().any(|send| send.is_of(run)) {
            return;
        }
        self.tags.clear();
        for send in std::mem::take(&mut self.sends).into_iter().flatten().filter(|send| !send.is_of(run)) {
            self.push(send);
        }
    }

    /// The first send.
    fn take_any(&mut self) -> Option<KeptSend> {
        // The front is never an empty place.
        let tag = self.sends.front()?.as_ref()?.tag;
        self.take_tag(tag)
    }
}

impl Kept {
    fn all(self) -> impl Iterator<Item = KeptSend> {
        self.runs.into_values().flat_map(KeptRun::into_all)
    }

    /// Every operation that is kept.
    pub(super) fn into_operations(self) -> impl Iterator<Item = (RunRef, OpId)> {
        self.all().filter_map(|send| match send.what {
            What::Operation { run, op } => Some((run, op)),
            What::Poison { .. } => None,
        })
    }

    /// The sends of an open run that failed become poison where they stand; adds them to `operations`.
    pub(super) fn poison_run(&mut self, failed: RunRef, culprit: Rank, operations: &mut Vec<OpId>) {
        for send in self.runs.values_mut().flat_map(|run| &mut run.sends).flatten() {
            if let What::Operation { run, op } = send.what
                && run == failed
            {
                operations.push(op);
                send.what = What::Poison { culprit };
            }
        }
    }

    /// Keeps a send, unless a fetch waits for it already: then it may go.
    fn keep(&mut self, number: u32, tag: Tag, what: What) -> Option<KeptSend> {
        let send = KeptSend { order: self.next, tag, what };
        if self.free.contains(&number) || self.take_wish(number, tag) {
            return Some(send);
        }
        self.next += 1;
        self.runs.entry(number).or_default().push(send);
        None
    }

    /// Keeps a put or get, unless its run was started.
    fn keep_one_sided(&mut self, number: u32, what: What) -> Option<KeptSend> {
        let kept = KeptSend { order: self.next, tag: Tag(0), what };
        if self.has_started(number) {
            return Some(kept);
        }
        self.next += 1;
        self.runs.entry(number).or_default().one_sided.push(kept);
        None
    }

    /// Whether the receiver has started its run that messages with `number` are for.
    fn has_started(&self, number: u32) -> bool {
        self.started.is_some_and(|started| (number.wrapping_sub(1).wrapping_sub(started) as i32) < 0)
    }

    /// What goes out because runs were started, in order: `free` is one that takes all its messages.
    fn take_started(&mut self, started: u32, free: Option<u32>) -> Vec<KeptSend> {
        self.started = Some(started);
        self.free.extend(free);
        let mut out: Vec<KeptSend> = Vec::new();
        if let Some(run) = free.and_then(|number| self.runs.remove(&number)) {
            out.extend(run.into_all());
        }
        let mut runs = std::mem::take(&mut self.runs);
        for (_, run) in runs.iter_mut().filter(|(number, _)| self.has_started(**number)) {
            out.append(&mut run.one_sided);
        }
        self.runs = runs;
        out.sort_unstable_by_key(|kept| kept.order);
        out
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

impl Budget {
    /// Nobody was asked to hold.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.holding.is_empty()
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
            // A sink stands for a receive of an open run.
            let number = self.run(run).map_or(0, |run| run.number_with(source));
            self.fetch_from(source, number, tag);
        }
        self.tell_keeper(source, RunRef::NONE, 0);
        let active: Vec<_> =
            self.peer(source).active.iter().map(|active| (active.run, active.number)).collect();
        for (run, number) in active {
            if self.run(run).is_some_and(|run| run.shared.is_some()) {
                self.tell_keeper(source, run, number.wrapping_add(1));
            }
        }
        self.release_budget(0);
    }

    /// Receiver: a receive was posted and found nothing; asks whoever keeps messages.
    #[cold]
    pub(super) fn fetch(&mut self, run: RunRef, source: Option<Rank>, tag: Option<Tag>) {
        for peer in self.budget.holding.clone() {
            if source.is_none_or(|rank| rank == peer) && self.peer(peer).holding == Holding::Held {
                let number = self.run(run).map_or(0, |run| run.number_with(peer));
                self.fetch_from(peer, number, tag);
            }
        }
    }

    fn fetch_from(&mut self, peer: Rank, number: u32, tag: Option<Tag>) {
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
        let number = self.run(run).map_or(0, |found| found.number_with(dest));
        let (what, operation) = (What::Operation { run, op }, self.schedule(run).op(op));
        let kept = self.peer(dest).kept.get_or_insert_default();
        let released = match operation {
            Op::Send { tag, .. } => kept.keep(number, tag, what),
            _ => kept.keep_one_sided(number, what),
        };
        self.pend_released(released, dest);
    }

    /// Sender: keeps what stands for the message of a failed open run.
    pub(super) fn keep_poison(&mut self, dest: Rank, tag: Tag, culprit: Rank) {
        let kept = self.peer(dest).kept.get_or_insert_default();
        let released = kept.keep(0, tag, What::Poison { culprit });
        self.pend_released(released, dest);
    }

    /// Sender: what is not kept any more goes out with the rest.
    fn pend_released(&mut self, released: impl IntoIterator<Item = KeptSend>, dest: Rank) {
        let me = self.me;
        let pending = &mut self.peer(dest).pending;
        pending.extend(released.into_iter().map(|kept| kept.into_pending(me)));
        if !pending.is_empty() {
            self.block(dest);
        }
    }

    /// Receiver: a numbered run was started; those who keep messages for it hear of it.
    #[cold]
    pub(super) fn tell_keepers(&mut self, run: RunRef) {
        for peer in self.budget.holding.clone() {
            let number = self.run(run).map_or(0, |run| run.number_with(peer));
            if number != 0 && self.peer(peer).holding == Holding::Held {
                self.tell_keeper(peer, run, number);
            }
        }
    }

    fn tell_keeper(&mut self, peer: Rank, run: RunRef, number: u32) {
        let started = u64::from(self.peer(peer).runs);
        let takes_all = self.run(run).is_some_and(|run| run.shared.is_some());
        self.send_control(peer, control(Kind::Started, number, 0, u8::from(takes_all), started), &[]);
    }

    /// Sender: what is for runs that the receiver has started goes out.
    pub(super) fn serve_started(&mut self, dest: Rank, header: &Header) {
        let free = (header.flags & 1 != 0).then_some(header.run);
        let peer = self.peer(dest);
        let Some(kept) = &mut peer.kept else { return };
        if kept.free.len() >= FREE_MAX {
            // Numbers of runs that ended here are not needed any more.
            let (active, next) = (&peer.active, peer.runs);
            kept.free.retain(|number| {
                let number = number.wrapping_sub(1);
                number.wrapping_sub(next) as i32 >= 0 || active.iter().any(|active| active.number == number)
            });
        }
        let released = kept.take_started(header.extra as u32, free);
        self.pend_released(released, dest);
        self.progressed = true;
    }

    /// Sender: sends the first kept message that fits, or notes the wish.
    pub(super) fn serve_fetch(&mut self, dest: Rank, header: &Header) {
        let number = header.run;
        let tag = (header.flags & 1 == 0).then_some(Tag(header.tag));
        let Some(mut kept) = self.peer(dest).kept.take() else { return };
        let found = kept.runs.get_mut(&number).and_then(|sends| match tag {
            Some(tag) => sends.take_tag(tag),
            None => sends.take_any(),
        });
        if found.is_none() {
            let place = kept.next;
            kept.next += 1;
            kept.wanted.entry((number, tag)).or_default().push_back(place);
        }
        self.peer(dest).kept = Some(kept);
        self.progressed |= found.is_some();
        self.pend_released(found, dest);
    }

    /// Sender: everything that was kept goes out, in order.
    pub(super) fn stop_keeping(&mut self, dest: Rank) {
        let Some(kept) = self.peer(dest).kept.take() else { return };
        let mut sends: Vec<KeptSend> = kept.all().collect();
        sends.sort_unstable_by_key(|send| send.order);
        self.pend_released(sends, dest);
        self.progressed = true;
    }

    /// Sender: this rank is about to leave. Nothing is kept but what stands for messages of failed runs.
    pub(super) fn stop_keeping_all(&mut self) {
        for dest in (0..self.size).map(Rank) {
            if self.peers[dest.index()].as_ref().is_some_and(|peer| peer.kept.is_some()) {
                self.stop_keeping(dest);
            }
        }
    }
}

/// What a message costs that is kept, as [`super::peer::Unexpected::held_bytes`] counts it.
pub(super) fn cost(header: &Header, payload: &[u8]) -> u64 {
    if header.kind != Kind::Announce as u8 && payload.len() > 32 {
        return ENTRY_BYTES + payload.len() as u64;
    }
    ENTRY_BYTES
}
