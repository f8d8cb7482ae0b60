//! Carrying operations out.

use super::call::call;
use super::core::{Core, Posted};
use super::failure::Cause;
use super::message::{Kind, OPEN_CONTEXT};
use super::peer::{Body, Gone, Pending, Unexpected};
use super::run::{RunRef, Scope};
use crate::queue::Header;
use castell_base::{Rank, Tag};
use castell_goal::matching::{Key, Pattern};
use castell_goal::op::{Buffer, Op};
use castell_goal::schedule::{OpId, Schedule};

/// Who sleeps is woken before more than this is computed. Bytes.
const LOCAL_BYTES_BEFORE_RINGING: u64 = 1024;

/// How a message to a peer went.
pub(super) enum Sent {
    /// Handed over whole: the buffer is free again.
    Whole,
    /// Announced: the buffer is free when the receiver has it.
    Announced,
    /// No room now.
    Refused,
}

impl Core {
    /// Starts an operation. Says whether it is finished already.
    #[inline]
    pub(super) fn execute(
        &mut self,
        run: RunRef,
        schedule: &'static Schedule,
        op: OpId,
    ) -> Result<bool, Cause> {
        match schedule.op(op) {
            Op::Send { buffer, bytes, dest, tag } => self.send(run, op, buffer, bytes, dest, tag),
            Op::Recv { buffer, bytes, source, tag } => self.post(run, op, buffer, bytes, source, tag),
            Op::Proxy => Ok(true),
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let bytes = count * arithmetic.element().bytes();
                if bytes > LOCAL_BYTES_BEFORE_RINGING {
                    self.ring();
                    if self.was_folded(run, op) {
                        return Ok(true);
                    }
                }
                // SAFETY: who ran the schedule answers for user memory; scratchpad bounds were checked at compile
                // time; dependences order the operations that share buffers.
                unsafe { self.space(run).local(arithmetic, b1, b2, b3, bytes) };
                Ok(true)
            }
            Op::Wtime { b3 } => {
                let now = castell_host::clock::now_seconds().to_ne_bytes();
                // SAFETY: as above; `now` is our own.
                unsafe { self.space(run).scatter(Buffer::Plain(b3), &now) };
                Ok(true)
            }
            Op::Call { function, context } => {
                self.ring();
                // SAFETY: who ran the schedule promised that this is the address of such a function.
                let is_over = unsafe { call(function, context, &self.home, run, op) };
                if !is_over {
                    // Whoever ends it needs the engine, which is in hand here: not before this is noted.
                    self.deferred.push((run, op));
                }
                Ok(is_over)
            }
            Op::Calc { ns } => Ok(self.calculations.calc(run, op, ns, schedule.traits(op).concurrent)),
            Op::Sleep { ns } => Ok(self.calculations.sleep(run, op, ns)),
            Op::Put { local, bytes, dest, remote } => self.put(run, op, local, bytes, dest, remote),
            Op::Get { bytes, source, remote, .. } => self.get(run, op, bytes, source, remote),
        }
    }

    #[inline]
    fn send(
        &mut self,
        run: RunRef,
        op: OpId,
        buffer: Buffer<'_>,
        bytes: u64,
        dest: Rank,
        tag: Tag,
    ) -> Result<bool, Cause> {
        if dest == self.me {
            return self.send_to_self(run, op, buffer, bytes, tag);
        }
        self.check_peer(dest)?;
        let peer = self.peer(dest);
        if peer.kept.is_some() {
            self.keep(run, op, dest);
            return Ok(false);
        }
        if peer.pending.is_empty() {
            match self.transmit(run, op, buffer, bytes, dest, tag) {
                Sent::Whole => return Ok(true),
                Sent::Announced => return Ok(false),
                Sent::Refused => {}
            }
        }
        self.pend(run, op, dest);
        Ok(false)
    }

    fn pend(&mut self, run: RunRef, op: OpId, dest: Rank) {
        self.peer(dest).pending.push_back(Pending::Op { run, op });
        self.block(dest);
    }

    /// Tries again what is pending, in order, peer by peer.
    pub(super) fn retry_pending(&mut self) {
        let mut at = 0;
        while at < self.blocked.len() {
            let dest = self.blocked[at];
            while let Some(next) = self.peer(dest).pending.pop_front() {
                if let Some(refused) = self.retry(dest, next) {
                    self.peer(dest).pending.push_front(refused);
                    break;
                }
                self.progressed = true;
            }
            if self.peer(dest).pending.is_empty() {
                self.blocked.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// One pending item; gives it back if there is still no room.
    fn retry(&mut self, dest: Rank, item: Pending) -> Option<Pending> {
        match item {
            Pending::Op { run, op } => match self.try_op(run, op, dest) {
                Sent::Whole => self.finish(run, op),
                Sent::Announced => {}
                Sent::Refused => return Some(Pending::Op { run, op }),
            },
            Pending::Control { mut header, payload } => {
                if self.peer(dest).gone.is_none() {
                    if !self.peer(dest).push(&mut header, &payload) {
                        return Some(Pending::Control { header, payload });
                    }
                    self.touch(dest);
                }
            }
            Pending::Fragments { descriptor, generation, offset } => {
                return self.send_fragments(dest, descriptor, generation, offset);
            }
            Pending::Answer(answer) => {
                if self.peer(dest).gone.is_none() {
                    let rest = self.send_answer(dest, answer);
                    self.answers -= usize::from(rest.is_none());
                    return rest;
                }
                self.answers -= 1;
            }
        }
        None
    }

    /// The message of a send, put or get whose run may have failed meanwhile.
    pub(super) fn try_op(&mut self, run: RunRef, op: OpId, dest: Rank) -> Sent {
        if self.run(run).is_none() {
            return Sent::Announced;
        }
        match self.schedule(run).op(op) {
            Op::Send { buffer, bytes, tag, .. } => self.transmit(run, op, buffer, bytes, dest, tag),
            Op::Put { local, bytes, remote, .. } => self.transmit_put(run, op, local, bytes, dest, remote),
            Op::Get { bytes, remote, .. } => self.transmit_get(run, op, bytes, dest, remote),
            _ => Sent::Announced,
        }
    }

    /// An error if the peer is no longer there.
    #[inline(always)]
    pub(super) fn check_peer(&mut self, rank: Rank) -> Result<(), Cause> {
        match self.peer(rank).gone {
            None => Ok(()),
            Some(Gone::Died(death)) => Err(Cause::PeerDied { peer: rank, death }),
            Some(Gone::Left) => Err(Cause::PeerLeft { peer: rank }),
        }
    }

    /// Tries to hand a send's message over, whole or as an announcement.
    #[inline(always)]
    fn transmit(
        &mut self,
        run: RunRef,
        op: OpId,
        buffer: Buffer<'_>,
        bytes: u64,
        dest: Rank,
        tag: Tag,
    ) -> Sent {
        let number = self.runs[run.slot as usize].as_deref().expect("a live run").number_with(dest);
        let mut header = Header {
            kind: Kind::Eager as u8,
            flags: 0,
            spare: 0,
            bytes: 0,
            source: self.me.0,
            sequence: 0,
            tag: tag.0,
            run: number,
            extra: 0,
        };
        if bytes > self.job.eager_bytes() as u64 {
            return if self.announce(run, op, buffer, bytes, dest, header) {
                Sent::Announced
            } else {
                Sent::Refused
            };
        }
        let space = self.space(run);
        // SAFETY: who ran the schedule answers for user memory; nothing writes to a buffer that is being sent.
        let payload = unsafe { space.gather(buffer, bytes, &mut self.gathered) };
        let peer = self.peers[dest.index()].as_deref_mut().expect("a peer that was looked at");
        if !peer.push(&mut header, payload) {
            return Sent::Refused;
        }
        self.touch(dest);
        self.counters.messages += 1;
        self.counters.bytes += bytes;
        Sent::Whole
    }

    /// A message from this rank to itself: copied at once if it is small or expected, else left where it is.
    fn send_to_self(
        &mut self,
        run: RunRef,
        op: OpId,
        buffer: Buffer<'_>,
        bytes: u64,
        tag: Tag,
    ) -> Result<bool, Cause> {
        self.counters.messages += 1;
        self.counters.bytes += bytes;
        let context = self.context_of(run);
        let key = Key { context, source: self.me, tag };
        let mut copied = false;
        let eager = bytes <= self.job.eager_bytes() as u64;
        let space = self.space(run);
        let mut gathered = std::mem::take(&mut self.gathered);
        // SAFETY: as in `transmit`.
        let payload = unsafe { space.gather(buffer, bytes, &mut gathered) };
        let me = self.me;
        let taken = self.matcher.arrive(key, || {
            copied = eager;
            if eager {
                Unexpected::copy_of(me, payload)
            } else {
                Unexpected { source: me, body: Body::Own { run, op } }
            }
        });
        let mut outcome = Ok(copied);
        match taken {
            Some(posted) if posted.is_sink() => {
                self.counters.orphans += 1;
                outcome = if eager { Ok(true) } else { Err(Cause::PeerFailed { peer: me, culprit: me }) };
            }
            // Whoever carries this send out has to hear of the end of its own run.
            Some(posted) if posted.run == run && self.receive_bytes(posted) != bytes => {
                let expected = self.receive_bytes(posted);
                // The receive is over, too.
                self.finish(run, posted.op);
                outcome = Err(Cause::SizeMismatch { peer: me, sent: bytes, expected });
            }
            Some(posted) => {
                self.deliver(posted, me, payload);
                outcome = Ok(true);
            }
            None => {
                self.counters.unexpected += 1;
                self.note_unexpected((context != OPEN_CONTEXT).then_some(run));
            }
        }
        self.gathered = gathered;
        outcome
    }

    fn receive_bytes(&self, posted: Posted) -> u64 {
        let Op::Recv { bytes, .. } = self.schedule(posted.run).op(posted.op) else {
            unreachable!("only receives are posted");
        };
        bytes
    }

    /// What messages of the run to this rank itself are matched under.
    #[inline]
    pub(super) fn context_of(&self, run: RunRef) -> u64 {
        let found = self.runs[run.slot as usize].as_deref().expect("a live run");
        if found.scope == Scope::Open { OPEN_CONTEXT } else { run.serial }
    }

    #[inline]
    fn post(
        &mut self,
        run: RunRef,
        op: OpId,
        buffer: Buffer<'_>,
        bytes: u64,
        source: Option<Rank>,
        tag: Option<Tag>,
    ) -> Result<bool, Cause> {
        let context = self.context_of(run);
        let posted = Posted { run, op };
        let Some(found) = self.matcher.post(Pattern { context, source, tag }, posted) else {
            return self.expect(run, op, source, tag);
        };
        if context != OPEN_CONTEXT {
            self.runs[run.slot as usize].as_deref_mut().expect("a live run").unexpected -= 1;
        }
        let from = found.source;
        if from != self.me {
            self.release_budget(found.held_bytes());
        }
        match found.body {
            Body::Small(length, ref text) => self.accept(run, buffer, bytes, from, &text[..length as usize]),
            Body::Eager(ref payload) => self.accept(run, buffer, bytes, from, payload),
            Body::Announced { descriptor, generation, bytes: sent } => {
                return self.open(run, op, buffer, bytes, from, descriptor, generation, sent);
            }
            Body::Own { run: sender, op: send } => self.accept_own(run, buffer, bytes, sender, send),
            Body::Poison { culprit } => Err(Cause::PeerFailed { peer: from, culprit }),
        }
        .map(|()| true)
    }

    /// A posted receive has nothing yet: fails it if nothing can come, asks a sender that keeps messages.
    fn expect(
        &mut self,
        run: RunRef,
        op: OpId,
        source: Option<Rank>,
        tag: Option<Tag>,
    ) -> Result<bool, Cause> {
        let fate = match source {
            Some(source) if source != self.me => self.check_peer(source),
            Some(_) => Ok(()),
            None => self.check_any(run),
        };
        if let Err(cause) = fate {
            self.matcher.take_posted(|_, posted| posted.run == run && posted.op == op);
            return Err(cause);
        }
        if !self.budget.is_calm() {
            self.fetch(run, source, tag);
        }
        Ok(false)
    }

    /// Copies a message into its receive's buffer.
    #[inline(always)]
    fn accept(
        &mut self,
        run: RunRef,
        buffer: Buffer<'_>,
        bytes: u64,
        source: Rank,
        payload: &[u8],
    ) -> Result<(), Cause> {
        if payload.len() as u64 != bytes {
            return Err(Cause::SizeMismatch { peer: source, sent: payload.len() as u64, expected: bytes });
        }
        // SAFETY: who ran the schedule answers for user memory; the buffer belongs to this receive alone now.
        unsafe { self.space(run).scatter(buffer, payload) };
        Ok(())
    }

    /// Copies a message that this rank sent to itself, and finishes the send.
    fn accept_own(
        &mut self,
        run: RunRef,
        buffer: Buffer<'_>,
        bytes: u64,
        sender: RunRef,
        send: OpId,
    ) -> Result<(), Cause> {
        let me = self.me;
        if self.run(sender).is_none() {
            return Err(Cause::PeerFailed { peer: me, culprit: me });
        }
        let Op::Send { buffer: from, bytes: sent, .. } = self.schedule(sender).op(send) else {
            unreachable!("only sends wait for their own rank");
        };
        let mut gathered = std::mem::take(&mut self.gathered);
        // SAFETY: as in `transmit`.
        let payload = unsafe { self.space(sender).gather(from, sent, &mut gathered) };
        let accepted = self.accept(run, buffer, bytes, me, payload);
        self.gathered = gathered;
        self.finish(sender, send);
        accepted
    }

    /// A message for a posted receive.
    #[inline]
    pub(super) fn deliver(&mut self, posted: Posted, source: Rank, payload: &[u8]) {
        if posted.is_sink() {
            self.counters.orphans += 1;
            return;
        }
        let Posted { run, op } = posted;
        let Op::Recv { buffer, bytes, .. } = self.schedule(run).op(op) else {
            unreachable!("only receives are posted");
        };
        match self.accept(run, buffer, bytes, source, payload) {
            Ok(()) => self.finish(run, op),
            Err(cause) => self.fail(run, Some(op), cause),
        }
    }
}
