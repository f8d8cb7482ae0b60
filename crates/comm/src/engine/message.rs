//! Messages coming in: sorted by sequence number, then handled by kind.

use super::core::Core;
use super::hold::cost;
use super::number::{context_of, is_call_ahead, is_pairwise_ahead};
use super::peer::{Body, Early, Unexpected};
use super::run::RunRef;
use crate::queue::Header;
use castell_base::{Rank, Tag};
use castell_goal::matching::Key;

/// The context that all open runs share.
pub(super) const OPEN_CONTEXT: u64 = 0;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A send's message, whole.
    Eager = 1,
    /// A send's message that lies in the sender's memory. extra: descriptor | generation << 32; payload: its size.
    Announce = 2,
    /// A piece of an announced message. extra: descriptor | generation << 32; payload: offset, bytes.
    Fragment = 3,
    /// The sender's run of this number failed. tag: whom its failure names.
    Abort = 4,
    /// The receiver has too much: keep what is not sent yet.
    Hold = 5,
    /// Answer to hold: from here on everything is kept.
    Held = 6,
    /// A receive for a kept message was posted. flags: 1 for any tag.
    Fetch = 7,
    /// Send everything again.
    Resume = 8,
    /// Bytes for the run's scratchpad. extra: offset there.
    Put = 9,
    /// Wanted: bytes of the run's scratchpad. extra: offset there; payload: size, token.
    Get = 10,
    /// Answer to get. extra: token; flags: 1 for a refusal; payload: offset, bytes.
    GetReply = 11,
    /// Stands for the message of a failed open run, see `poison.rs`. extra: whom its failure names.
    Poison = 12,
    /// To a sender that keeps messages: runs were started here. extra: how many with that sender so far; run: the one
    /// that takes all its messages at once, if flags is 1.
    Started = 13,
}

const KINDS: [Kind; 13] = [
    Kind::Eager,
    Kind::Announce,
    Kind::Fragment,
    Kind::Abort,
    Kind::Hold,
    Kind::Held,
    Kind::Fetch,
    Kind::Resume,
    Kind::Put,
    Kind::Get,
    Kind::GetReply,
    Kind::Poison,
    Kind::Started,
];

/// Where a message belongs.
pub(super) enum Belongs {
    To(u64, Option<RunRef>),
    /// To a run that this rank has not started.
    Early(u32),
    /// To a run that has ended here.
    Nowhere,
}

/// A message of the protocol's own without payload.
pub(super) fn control(kind: Kind, run: u32, tag: u32, flags: u8, extra: u64) -> Header {
    Header { kind: kind as u8, flags, spare: 0, bytes: 0, source: 0, sequence: 0, tag, run, extra }
}

impl Core {
    /// Takes a message in, when all that its sender sent before it have been taken in.
    #[inline]
    pub(super) fn receive(&mut self, header: &Header, payload: &[u8]) {
        assert!(header.source < self.size, "a message from rank {} of {}", header.source, self.size);
        let source = Rank(header.source);
        let peer = self.peer(source);
        if header.sequence != peer.next_receive {
            peer.stash.insert(header.sequence, (*header, payload.into()));
            return;
        }
        peer.advance_receive();
        self.handle(source, header, payload);
        if !self.peer(source).stash.is_empty() {
            self.receive_stashed(source);
        }
    }

    /// Takes in what came too early and has its turn now.
    #[cold]
    fn receive_stashed(&mut self, source: Rank) {
        loop {
            let peer = self.peer(source);
            let next = peer.next_receive;
            let Some((header, payload)) = peer.stash.remove(&next) else { return };
            peer.advance_receive();
            self.handle(source, &header, &payload);
        }
    }

    #[inline(always)]
    fn handle(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        if header.kind == Kind::Eager as u8 {
            return self.arrive(source, header, payload);
        }
        self.handle_rare(source, header, payload);
    }

    #[inline(never)]
    fn handle_rare(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        let kind = KINDS.get(usize::from(header.kind).wrapping_sub(1));
        match kind.unwrap_or_else(|| panic!("a message of kind {} from rank {source}", header.kind)) {
            Kind::Eager | Kind::Announce | Kind::Poison => self.arrive(source, header, payload),
            Kind::Fragment => self.take_fragment(source, header, payload),
            Kind::Abort => self.take_abort(source, header),
            Kind::Hold => self.start_keeping(source),
            Kind::Held => self.note_held(source),
            Kind::Fetch => self.serve_fetch(source, header),
            Kind::Resume => self.stop_keeping(source),
            Kind::Put => self.take_put(source, header, payload),
            Kind::Get => self.serve_get(source, header, payload),
            Kind::Started => self.serve_started(source, header),
            Kind::GetReply => self.take_get_reply(source, header, payload),
        }
    }

    /// Which run a message is for.
    #[inline(always)]
    pub(super) fn belongs(&mut self, source: Rank, number: u32) -> Belongs {
        if number == 0 {
            return Belongs::To(OPEN_CONTEXT, None);
        }
        let number = number.wrapping_sub(1);
        match self.peer(source).run_of(number) {
            Some(run) => Belongs::To(run.serial, Some(run)),
            None if self.is_ahead(source, number) => Belongs::Early(number),
            None => Belongs::Nowhere,
        }
    }

    /// Whether the run with `source` that has this number has not been started here yet.
    pub(super) fn is_ahead(&mut self, source: Rank, number: u32) -> bool {
        match context_of(number + 1) {
            Some(context) => is_call_ahead(number + 1, self.contexts.next(context) as u32),
            None => is_pairwise_ahead(number, self.peer(source).runs),
        }
    }

    /// A send's message.
    #[inline(always)]
    fn arrive(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        match self.belongs(source, header.run) {
            Belongs::To(context, run) => self.match_message(source, context, run, header, payload),
            Belongs::Early(number) => self.keep_early(source, number, header, payload),
            Belongs::Nowhere => self.refuse_orphan(source, header),
        }
    }

    #[inline(always)]
    fn match_message(
        &mut self,
        source: Rank,
        context: u64,
        run: Option<RunRef>,
        header: &Header,
        payload: &[u8],
    ) {
        if let Some(run) = run.filter(|run| self.block_of(*run).is_some()) {
            return self.deliver_from_queue(run, source, header, payload);
        }
        let key = Key { context, source, tag: Tag(header.tag) };
        let unexpected = || message_of(source, header, payload);
        let Some(posted) = self.matcher.arrive(key, unexpected) else {
            self.counters.unexpected += 1;
            self.note_unexpected(run);
            self.charge(source, header, payload);
            return;
        };
        if header.kind == Kind::Eager as u8 {
            return self.deliver(posted, source, payload);
        }
        self.meet_posted(posted, message_of(source, header, payload));
    }

    /// A message of a numbered run waits for a receive that may never come.
    #[inline]
    pub(super) fn note_unexpected(&mut self, run: Option<RunRef>) {
        if let Some(run) = run {
            self.runs[run.slot as usize].as_deref_mut().expect("a live run").unexpected += 1;
        }
    }

    /// A run has finished while messages for it wait: no receive will take them.
    #[cold]
    pub(super) fn drop_unexpected(&mut self, run: RunRef) {
        let messages = self.matcher.take_unexpected(|key, _| key.context == run.serial);
        self.counters.orphans += messages.len() as u64;
        self.forget(messages);
    }

    /// Keeps a message, or anything else of a run's, until this rank starts the run.
    pub(super) fn keep_early(&mut self, source: Rank, number: u32, header: &Header, payload: &[u8]) {
        self.counters.unexpected += 1;
        let early = Early { header: *header, payload: payload.into() };
        self.peer(source).early.entry(number).or_default().push(early);
        self.charge(source, header, payload);
    }

    /// A run was started: what came for it before comes in now.
    pub(super) fn take_in_early(&mut self, run: RunRef) {
        let Some(found) = self.run(run) else { return };
        let numbers = found.numbers.len();
        for at in 0..numbers {
            let Some(found) = self.run(run) else { return };
            let (source, number) = found.numbers[at];
            let Some(peer) = self.peers[source.index()].as_deref_mut() else { continue };
            if peer.early.is_empty() && peer.aborted.is_empty() {
                continue;
            }
            self.take_in_early_from(source, number.wrapping_sub(1));
            let peer = self.peer(source);
            if let Some(at) = peer.aborted.iter().position(|(aborted, _)| aborted.wrapping_add(1) == number) {
                let (_, culprit) = peer.aborted.swap_remove(at);
                self.fail_if_live(run, None, super::failure::Cause::PeerFailed { peer: source, culprit });
            }
        }
    }

    fn take_in_early_from(&mut self, source: Rank, number: u32) {
        let now = self.peer(source).early.remove(&number).unwrap_or_default();
        for Early { header, payload } in now {
            self.release_budget(cost(&header, &payload));
            self.counters.unexpected -= 1;
            self.handle(source, &header, &payload);
        }
    }

    /// Messages of a run that will never start here.
    pub(super) fn drop_early(&mut self, source: Rank, early: Vec<Early>) {
        for Early { header, payload } in early {
            self.release_budget(cost(&header, &payload));
            self.refuse_orphan(source, &header);
        }
    }

    /// A message that no receive will ever take: the run has ended here.
    fn refuse_orphan(&mut self, source: Rank, header: &Header) {
        self.counters.orphans += 1;
        if header.kind == Kind::Announce as u8 {
            self.refuse_transfer(source, header.extra as u32, (header.extra >> 32) as u32);
        }
    }
}

/// A message as the matcher keeps it.
pub(super) fn message_of(source: Rank, header: &Header, payload: &[u8]) -> Unexpected {
    if header.kind == Kind::Poison as u8 {
        return Unexpected { source, body: Body::Poison { culprit: Rank(header.extra as u32) } };
    }
    if header.kind != Kind::Announce as u8 {
        return Unexpected::copy_of(source, payload);
    }
    let bytes = u64::from_ne_bytes(payload.try_into().expect("an announcement carries the size"));
    let (descriptor, generation) = (header.extra as u32, (header.extra >> 32) as u32);
    Unexpected { source, body: Body::Announced { descriptor, generation, bytes } }
}
