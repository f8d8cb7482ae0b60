//! Put and get: operations on the scratchpad of a peer's run of the same number.

use super::core::Core;
use super::execute::Sent;
use super::failure::Cause;
use super::message::{Belongs, Kind, OPEN_CONTEXT, control};
use super::peer::{Answer, Pending};
use super::run::RunRef;
use crate::queue::Header;
use castell_base::Rank;
use castell_goal::op::{Buffer, Memory, Op, Place};
use castell_goal::schedule::OpId;
use std::collections::VecDeque;

/// A get whose answer is under way.
pub(super) struct Awaited {
    run: RunRef,
    op: OpId,
    source: Rank,
    token: u64,
    left: u64,
}

impl Core {
    pub(super) fn put(
        &mut self,
        run: RunRef,
        op: OpId,
        local: Place,
        bytes: u64,
        dest: Rank,
        remote: Place,
    ) -> Result<bool, Cause> {
        if dest == self.me {
            return self.put_to_self(run, local, bytes, remote).map(|()| true);
        }
        self.one_sided(run, op, dest, |core| core.transmit_put(run, op, local, bytes, dest, remote))
    }

    pub(super) fn get(
        &mut self,
        run: RunRef,
        op: OpId,
        bytes: u64,
        source: Rank,
        remote: Place,
    ) -> Result<bool, Cause> {
        if source == self.me {
            let Op::Get { local, .. } = self.schedule(run).op(op) else { unreachable!("a get") };
            return self.copy_within(run, remote, local, bytes).map(|()| true);
        }
        self.one_sided(run, op, source, |core| core.transmit_get(run, op, bytes, source, remote))
    }

    fn one_sided(
        &mut self,
        run: RunRef,
        op: OpId,
        peer: Rank,
        transmit: impl FnOnce(&mut Core) -> Sent,
    ) -> Result<bool, Cause> {
        self.check_peer(peer)?;
        if self.context_of(run) == OPEN_CONTEXT {
            return Err(Cause::BadTarget { peer });
        }
        if self.peer(peer).kept.is_some() {
            self.keep(run, op, peer);
            return Ok(false);
        }
        if self.peer(peer).pending.is_empty() {
            match transmit(self) {
                Sent::Whole => return Ok(true),
                Sent::Announced => return Ok(false),
                Sent::Refused => {}
            }
        }
        self.peer(peer).pending.push_back(Pending::Op { run, op });
        self.block(peer);
        Ok(false)
    }

    fn put_to_self(&mut self, run: RunRef, local: Place, bytes: u64, remote: Place) -> Result<(), Cause> {
        self.copy_within(run, local, remote, bytes)
    }

    fn copy_within(&mut self, run: RunRef, from: Place, to: Place, bytes: u64) -> Result<(), Cause> {
        let (me, space) = (self.me, self.space(run));
        let limit = self.run(run).expect("a live run").scratchpad_bytes();
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

    /// The bytes of a put, in messages of eager size; the operation's progress is the sequence of refusals, so a
    /// put is only begun when the first piece fits and then goes out piece by piece.
    pub(super) fn transmit_put(
        &mut self,
        run: RunRef,
        op: OpId,
        local: Place,
        bytes: u64,
        dest: Rank,
        remote: Place,
    ) -> Sent {
        let number = self.run(run).expect("a live run").number_with(dest);
        let space = self.space(run);
        let piece = self.job.eager_bytes() as u64;
        let mut offset = self.put_progress.remove(&(run.serial, op.0)).unwrap_or(0);
        loop {
            let length = piece.min(bytes - offset);
            let mut header = control(Kind::Put, number, 0, memory_code(remote), remote.offset + offset);
            header.source = self.me.0;
            // SAFETY: who ran the schedule answers for user memory; scratchpad bounds were checked at compile time.
            let payload = unsafe {
                std::slice::from_raw_parts(space.place(local).wrapping_add(offset as usize), length as usize)
            };
            let peer = self.peers[dest.index()].as_deref_mut().expect("a peer that was looked at");
            if !peer.push(&mut header, payload) {
                if offset > 0 {
                    self.put_progress.insert((run.serial, op.0), offset);
                }
                return Sent::Refused;
            }
            self.touch(dest);
            offset += length;
            if offset >= bytes {
                break;
            }
        }
        self.counters.messages += 1;
        self.counters.bytes += bytes;
        Sent::Whole
    }

    pub(super) fn transmit_get(
        &mut self,
        run: RunRef,
        op: OpId,
        bytes: u64,
        source: Rank,
        remote: Place,
    ) -> Sent {
        let number = self.run(run).expect("a live run").number_with(source);
        self.next_token += 1;
        let token = self.next_token;
        let mut header = control(Kind::Get, number, 0, memory_code(remote), remote.offset);
        header.source = self.me.0;
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&bytes.to_ne_bytes());
        payload[8..].copy_from_slice(&token.to_ne_bytes());
        let peer = self.peers[source.index()].as_deref_mut().expect("a peer that was looked at");
        if !peer.push(&mut header, &payload) {
            return Sent::Refused;
        }
        self.touch(source);
        self.awaited.push(Awaited { run, op, source, token, left: bytes });
        self.counters.messages += 1;
        Sent::Announced
    }

    /// Bytes for a run's scratchpad.
    pub(super) fn take_put(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        match self.belongs(source, header.run) {
            Belongs::Early(number) => self.keep_early(source, number, header, payload),
            Belongs::Nowhere => self.counters.orphans += 1,
            Belongs::To(_, None) => {}
            Belongs::To(_, Some(run)) => match self.window(run, header, payload.len() as u64) {
                Some(place) => {
                    // SAFETY: the window lies in the run's scratchpad.
                    unsafe { self.space(run).scatter(Buffer::Plain(place), payload) };
                }
                None if header.flags == 0 => {}
                None => self.fail(run, None, Cause::BadTarget { peer: source }),
            },
        }
    }

    /// Bytes of a run's scratchpad are wanted.
    pub(super) fn serve_get(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        let word = |at: usize| u64::from_ne_bytes(payload[at..at + 8].try_into().expect("8 bytes"));
        let (bytes, token) = (word(0), word(8));
        let run = match self.belongs(source, header.run) {
            Belongs::Early(number) => return self.keep_early(source, number, header, payload),
            Belongs::To(_, run) => run,
            Belongs::Nowhere => None,
        };
        let place = match run {
            Some(_) if header.flags == 0 => Some(Place::VOID),
            Some(run) => self.window(run, header, bytes),
            None => None,
        };
        let (Some(run), Some(place)) = (run, place) else {
            return self.send_control(source, control(Kind::GetReply, 0, 0, 1, token), &[]);
        };
        self.arena.reserve(bytes);
        let answer = Answer { run, place, bytes, token, offset: 0 };
        let waits = !self.peer(source).pending.is_empty();
        let rest = if waits { Some(Pending::Answer(answer)) } else { self.send_answer(source, answer) };
        if let Some(rest) = rest {
            self.answers += 1;
            self.peer(source).pending.push_back(rest);
            self.block(source);
        }
    }

    /// As much of an answer as there is room for; gives back what is left.
    pub(super) fn send_answer(&mut self, dest: Rank, mut answer: Answer) -> Option<Pending> {
        loop {
            let (mut header, payload) = self.piece_of(&answer);
            header.source = self.me.0;
            if !self.peer(dest).push(&mut header, &payload) {
                return Some(Pending::Answer(answer));
            }
            self.touch(dest);
            self.progressed = true;
            answer.offset += payload.len() as u64 - 8;
            if answer.offset >= answer.bytes {
                return None;
            }
        }
    }

    /// The next message of an answer, whose run is there.
    fn piece_of(&mut self, answer: &Answer) -> (Header, Vec<u8>) {
        let piece = (self.job.eager_bytes() as u64 - 8).max(8);
        let length = piece.min(answer.bytes - answer.offset);
        let address = self.space(answer.run).place(answer.place).wrapping_add(answer.offset as usize);
        let mut payload = Vec::with_capacity(8 + length as usize);
        payload.extend_from_slice(&answer.offset.to_ne_bytes());
        // SAFETY: inside the run's scratchpad, or in the arena that was made large enough.
        payload.extend_from_slice(unsafe { std::slice::from_raw_parts(address, length as usize) });
        (control(Kind::GetReply, 0, 0, 0, answer.token), payload)
    }

    /// A run ends: what is left of its answers is copied, since its memory goes.
    #[cold]
    pub(super) fn copy_answers_of(&mut self, run: RunRef) {
        for rank in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[rank] else { continue };
            let is_of = |item: &Pending| matches!(item, Pending::Answer(answer) if answer.run == run);
            if !peer.pending.iter().any(is_of) {
                continue;
            }
            let mut pending = VecDeque::new();
            for item in std::mem::take(&mut peer.pending) {
                match item {
                    Pending::Answer(mut answer) if answer.run == run => {
                        self.answers -= 1;
                        loop {
                            let (mut header, payload) = self.piece_of(&answer);
                            header.source = self.me.0;
                            answer.offset += payload.len() as u64 - 8;
                            pending.push_back(Pending::Control { header, payload: payload.into() });
                            if answer.offset >= answer.bytes {
                                break;
                            }
                        }
                    }
                    other => pending.push_back(other),
                }
            }
            self.peers[rank].as_mut().expect("it was there above").pending = pending;
        }
    }

    pub(super) fn take_get_reply(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        let Some(at) = self.awaited.iter().position(|awaited| awaited.token == header.extra) else { return };
        let Awaited { run, op, .. } = self.awaited[at];
        if header.flags & 1 != 0 {
            self.awaited.swap_remove(at);
            return self.fail(run, Some(op), Cause::BadTarget { peer: source });
        }
        let (offset, bytes) = payload.split_at(8);
        let offset = u64::from_ne_bytes(offset.try_into().expect("8 bytes"));
        let Op::Get { local, .. } = self.schedule(run).op(op) else { unreachable!("only gets are awaited") };
        let place = Place { offset: local.offset + offset, ..local };
        // SAFETY: within the get's own buffer; who ran the schedule answers for user memory.
        unsafe { self.space(run).scatter(Buffer::Plain(place), bytes) };
        let awaited = &mut self.awaited[at];
        awaited.left -= bytes.len() as u64;
        self.counters.bytes += bytes.len() as u64;
        if awaited.left == 0 {
            self.awaited.swap_remove(at);
            self.finish(run, op);
        }
    }

    /// The place in the run's scratchpad that a message names, if it lies inside.
    fn window(&mut self, run: RunRef, header: &Header, bytes: u64) -> Option<Place> {
        let limit = self.run(run)?.scratchpad_bytes();
        let inside = header.extra.checked_add(bytes).is_some_and(|end| end <= limit);
        (header.flags == 1 && inside).then(|| Place::scratch(header.extra))
    }

    pub(super) fn awaited_gets(&self, rank: Rank) -> Vec<(RunRef, OpId)> {
        let from = self.awaited.iter().filter(|awaited| awaited.source == rank);
        from.map(|awaited| (awaited.run, awaited.op)).collect()
    }

    pub(super) fn drop_gets(&mut self, run: RunRef) {
        self.awaited.retain(|awaited| awaited.run != run);
        self.put_progress.retain(|(serial, _), _| *serial != run.serial);
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
