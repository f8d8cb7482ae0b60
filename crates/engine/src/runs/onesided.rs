//! Put and get: operations on the scratchpad of a peer's run of the same number.

use super::Runs;
use super::reference::{RunRef, Scope, token};
use crate::failure::Cause;
use crate::messages::{Kind, Memory as Message, Messages, Outbound, Token, control, word_at};
use castell_base::{Rank, Tag};
use castell_goal::op::{Buffer, Memory, Op, Place};
use castell_goal::schedule::OpId;
use castell_transport::Header;

#[derive(Default)]
pub(super) struct OneSided {
    /// Gets of this rank whose answers are under way.
    awaited: Vec<Awaited>,
    next_number: u32,
    /// Gets of others that are answered when the messages that came with them have been taken in.
    wanted: Vec<Wanted>,
    /// Runs that a put came to which does not fit, or whose get was refused.
    failed: Vec<(RunRef, Option<OpId>, Rank)>,
    /// Bytes that came as answers.
    pub(super) got_bytes: u64,
}

/// A get whose answer is under way.
struct Awaited {
    run: RunRef,
    op: OpId,
    source: Rank,
    number: u32,
    left: u64,
}

/// A get of a peer.
struct Wanted {
    source: Rank,
    number: u32,
    /// Whose memory, where, and how much; none: it gets nothing.
    from: Option<(RunRef, Place, u64)>,
}

impl OneSided {
    #[inline]
    pub(super) fn is_answered(&self) -> bool {
        self.wanted.is_empty() && self.failed.is_empty()
    }

    /// As after so many gets.
    pub(super) fn grow_old(&mut self, gets: u32) {
        self.next_number = gets;
    }

    /// Whether no get is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Gets from a rank.
    pub(super) fn awaited_from(&self, rank: Rank) -> Vec<(RunRef, OpId)> {
        let from = self.awaited.iter().filter(|awaited| awaited.source == rank);
        from.map(|awaited| (awaited.run, awaited.op)).collect()
    }

    pub(super) fn drop_run(&mut self, run: RunRef) {
        self.awaited.retain(|awaited| awaited.run != run);
    }
}

impl Runs {
    pub(super) fn put(
        &mut self,
        messages: &mut Messages,
        run: RunRef,
        op: OpId,
        (local, bytes): (Place, u64),
        dest: Rank,
        remote: Place,
    ) -> Result<bool, Cause> {
        if dest == self.me {
            return self.copy_within(run, local, remote, bytes).map(|()| true);
        }
        self.one_sided(messages, run, op, dest, Kind::Put, 0, (local, bytes), remote)
    }

    pub(super) fn get(
        &mut self,
        messages: &mut Messages,
        run: RunRef,
        op: OpId,
        (local, bytes): (Place, u64),
        source: Rank,
        remote: Place,
    ) -> Result<bool, Cause> {
        if source == self.me {
            return self.copy_within(run, remote, local, bytes).map(|()| true);
        }
        self.one_sided.next_number = self.one_sided.next_number.wrapping_add(1);
        let number = self.one_sided.next_number;
        self.one_sided(messages, run, op, source, Kind::Get, number, (local, bytes), remote)?;
        self.one_sided.awaited.push(Awaited { run, op, source, number, left: bytes });
        Ok(false)
    }

    #[expect(clippy::too_many_arguments, reason = "both ends of a copy")]
    fn one_sided(
        &mut self,
        messages: &mut Messages,
        run: RunRef,
        op: OpId,
        peer: Rank,
        kind: Kind,
        number: u32,
        (local, bytes): (Place, u64),
        remote: Place,
    ) -> Result<bool, Cause> {
        messages.check_peer(peer)?;
        let memory = Message::plain(self.space(run).place(local), bytes);
        let found = self.table.expect(run);
        if found.scope == Scope::Open {
            return Err(Cause::BadTarget { peer });
        }
        let message = Outbound::tagged(token(run, op), found.number_with(peer), Tag(number), memory);
        let message = message.of_kind(kind, memory_code(remote), remote.offset);
        // SAFETY: who ran the schedule answers for user memory; scratchpad bounds were checked at compile time. The run goes only
        // when its operations have ended or were cancelled.
        unsafe { messages.send(peer, message) }
    }

    fn copy_within(&mut self, run: RunRef, from: Place, to: Place, bytes: u64) -> Result<(), Cause> {
        let (me, space) = (self.me, self.space(run));
        let limit = self.table.expect(run).schedule.scratchpad_bytes();
        for place in [from, to] {
            if place.memory == Memory::Scratch
                && place.offset.checked_add(bytes).is_none_or(|end| end > limit)
            {
                return Err(Cause::BadTarget { peer: me });
            }
        }
        // SAFETY: scratchpad bounds were checked; who ran the schedule answers for user memory. May overlap.
        unsafe { std::ptr::copy(space.place(from), space.place(to), bytes as usize) };
        Ok(())
    }

    /// Bytes for a run's scratchpad.
    pub(super) fn take_put(&mut self, source: Rank, run: RunRef, header: &Header, payload: &[u8]) {
        match self.window(run, header, payload.len() as u64) {
            Some(place) => {
                // SAFETY: the window lies in the run's scratchpad.
                unsafe { self.space(run).scatter(Buffer::Plain(place), payload) };
            }
            None if header.flags == 0 => {}
            None => self.one_sided.failed.push((run, None, source)),
        }
    }

    /// Bytes of a run's scratchpad are wanted.
    pub(super) fn note_get(&mut self, source: Rank, run: Option<RunRef>, header: &Header, payload: &[u8]) {
        let bytes = word_at(payload, 0);
        let from = run.and_then(|run| {
            let place = if header.flags == 0 { Some(Place::VOID) } else { self.window(run, header, bytes) };
            place.map(|place| (run, place, bytes))
        });
        self.one_sided.wanted.push(Wanted { source, number: header.tag, from });
    }

    /// Answers gets, and fails runs whose puts or gets do not fit.
    #[cold]
    pub(super) fn answer(&mut self, messages: &mut Messages) {
        for Wanted { source, number, from } in std::mem::take(&mut self.one_sided.wanted) {
            let Some((run, place, bytes)) = from.filter(|(run, ..)| self.table.get(*run).is_some()) else {
                messages.send_control(source, control(Kind::GetReply, 0, number, 1, 0), &[]);
                continue;
            };
            self.arena.reserve(bytes);
            let memory = Message::plain(self.space(run).place(place), bytes);
            let token = Token { owner: run.slot, part: 0 };
            let reply = Outbound::tagged(token, 0, Tag(number), memory).of_kind(Kind::GetReply, 0, 0);
            // SAFETY: inside the run's scratchpad, or in the arena that was made large enough; what is not sent when the run
            // ends is copied. An error: it has gone, and wants nothing any more.
            let _ = unsafe { messages.send(source, reply) };
        }
        for (run, op, peer) in std::mem::take(&mut self.one_sided.failed) {
            self.fail_if_live(messages, run, op, Cause::BadTarget { peer });
        }
    }

    /// Bytes that were wanted.
    pub(super) fn take_reply(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        let awaited = &mut self.one_sided.awaited;
        let is_it = |awaited: &Awaited| (awaited.source, awaited.number) == (source, header.tag);
        let Some(at) = awaited.iter().position(is_it) else { return };
        let Awaited { run, op, .. } = awaited[at];
        if header.flags & 1 != 0 {
            awaited.swap_remove(at);
            return self.one_sided.failed.push((run, Some(op), source));
        }
        awaited[at].left -= payload.len() as u64;
        let is_over = awaited[at].left == 0;
        let Op::Get { local, .. } = self.table.expect(run).schedule.op(op) else {
            unreachable!("only gets are awaited")
        };
        let place = Place { offset: local.offset + header.extra, ..local };
        // SAFETY: within the get's own buffer; who ran the schedule answers for user memory.
        unsafe { self.space(run).scatter(Buffer::Plain(place), payload) };
        self.one_sided.got_bytes += payload.len() as u64;
        if is_over {
            self.one_sided.awaited.swap_remove(at);
            self.finish(run, op);
        }
    }

    /// The place in the run's scratchpad that a message names, if it lies inside.
    fn window(&mut self, run: RunRef, header: &Header, bytes: u64) -> Option<Place> {
        let limit = self.table.get(run)?.schedule.scratchpad_bytes();
        let inside = header.extra.checked_add(bytes).is_some_and(|end| end <= limit);
        (header.flags == 1 && inside).then(|| Place::scratch(header.extra))
    }
}

/// 0: no memory, the bytes are dropped; 1: the scratchpad; 2: refused by the receiver.
fn memory_code(place: Place) -> u8 {
    match place.memory {
        Memory::Void => 0,
        Memory::Scratch => 1,
        Memory::User => 2,
    }
}
