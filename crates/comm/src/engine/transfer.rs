//! Large messages: announced by the sender, pulled by the receiver, pushed by both where a core is to spare.

use super::core::{Core, Posted};
use super::failure::Cause;
use super::message::{Kind, control};
use super::peer::Pending;
use super::run::RunRef;
use crate::queue::Header;
use crate::rendezvous::{DESCRIPTORS, Descriptor, State};
use castell_base::Rank;
use castell_goal::op::{Buffer, Op};
use castell_goal::schedule::OpId;
use castell_host::memory::{self, CopyError, Region};
use castell_host::process::Pid;
use std::sync::atomic::Ordering;

/// A large message that this rank sends.
struct Outgoing {
    run: RunRef,
    op: OpId,
    dest: Rank,
    descriptor: u32,
    generation: u32,
    /// A vector buffer's bytes, gathered once.
    _gathered: Option<Vec<u8>>,
    /// Fragments are being sent: the receiver may not read our memory.
    streaming: bool,
}

/// A large message that this rank receives.
struct Incoming {
    run: RunRef,
    op: OpId,
    source: Rank,
    descriptor: u32,
    generation: u32,
    /// Where the bytes go.
    pieces: Vec<(u64, u64)>,
    bytes: u64,
    /// Bytes that came as fragments.
    streamed: Option<u64>,
}

#[derive(Default)]
pub(super) struct Transfers {
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    /// The kernel does not let processes of this job copy from each other.
    forbidden: bool,
    next_descriptor: usize,
}

impl Transfers {
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !self.outgoing.is_empty() || !self.incoming.is_empty()
    }

    /// Whether there is copying to do that no message announces.
    pub(super) fn needs_turning(&self) -> bool {
        self.incoming.iter().any(|incoming| incoming.streamed.is_none())
    }

    /// The transfers that wait for `run`'s peers: operation, peer, whether it is a send.
    pub(super) fn waits(&self) -> impl Iterator<Item = (RunRef, OpId, Rank)> + '_ {
        let outgoing = self.outgoing.iter().map(|outgoing| (outgoing.run, outgoing.op, outgoing.dest));
        outgoing.chain(self.incoming.iter().map(|incoming| (incoming.run, incoming.op, incoming.source)))
    }
}

fn handle_of(descriptor: u32, generation: u32) -> u64 {
    u64::from(descriptor) | u64::from(generation) << 32
}

impl Core {
    fn descriptor(&self, owner: Rank, descriptor: u32) -> &Descriptor {
        &self.job.descriptors(owner)[descriptor as usize % DESCRIPTORS]
    }

    /// Sender: announces a message; false if there is no room now.
    pub(super) fn announce(
        &mut self,
        run: RunRef,
        op: OpId,
        buffer: Buffer<'_>,
        bytes: u64,
        dest: Rank,
        mut header: Header,
    ) -> bool {
        let space = self.space(run);
        let mut gathered = None;
        let address = match buffer {
            Buffer::Plain(place) => space.place(place) as u64,
            Buffer::Vector(..) => {
                let mut all = Vec::with_capacity(bytes as usize);
                // SAFETY: who ran the schedule answers for user memory; nothing writes to a buffer being sent.
                unsafe { space.gather(buffer, bytes, &mut all) };
                gathered.insert(all).as_ptr() as u64
            }
        };
        let first = self.transfers.next_descriptor;
        let free = (0..DESCRIPTORS).map(|step| (first + step) % DESCRIPTORS).find_map(|at| {
            let generation = self.job.descriptors(self.me)[at].announce(address, bytes)?;
            Some((at as u32, generation))
        });
        let Some((descriptor, generation)) = free else { return false };
        header.kind = Kind::Announce as u8;
        header.extra = handle_of(descriptor, generation);
        let peer = self.peers[dest.index()].as_deref_mut().expect("a peer that was looked at");
        if !peer.push(&mut header, &bytes.to_ne_bytes()) {
            self.descriptor(self.me, descriptor).free(generation);
            return false;
        }
        self.job.control(dest).doorbell.ring();
        self.transfers.next_descriptor = descriptor as usize + 1;
        self.counters.messages += 1;
        self.counters.bytes += bytes;
        let outgoing =
            Outgoing { run, op, dest, descriptor, generation, _gathered: gathered, streaming: false };
        self.transfers.outgoing.push(outgoing);
        true
    }

    /// Receiver: an announcement met a receive that had been posted.
    pub(super) fn open_posted(
        &mut self,
        posted: Posted,
        source: Rank,
        descriptor: u32,
        generation: u32,
        sent: u64,
    ) {
        let Posted { run, op } = posted;
        let Op::Recv { buffer, bytes, .. } = self.schedule(run).op(op) else {
            unreachable!("only receives are posted");
        };
        match self.open(run, op, buffer, bytes, source, descriptor, generation, sent) {
            Ok(_) => {}
            Err(cause) => self.fail(run, Some(op), cause),
        }
    }

    /// Receiver: starts to take an announced message in.
    #[expect(clippy::too_many_arguments, reason = "the receive's half and the announcement's half")]
    pub(super) fn open(
        &mut self,
        run: RunRef,
        op: OpId,
        buffer: Buffer<'_>,
        bytes: u64,
        source: Rank,
        descriptor: u32,
        generation: u32,
        sent: u64,
    ) -> Result<bool, Cause> {
        if sent != bytes {
            self.refuse_transfer(source, descriptor, generation);
            return Err(Cause::SizeMismatch { peer: source, sent, expected: bytes });
        }
        let pieces = self.space(run).pieces(buffer, bytes);
        let shared = self.descriptor(source, descriptor);
        if let [(address, _)] = pieces[..] {
            shared.target_address.store(address, Ordering::Relaxed);
        }
        let streams = self.transfers.forbidden;
        let next = if streams { State::Stream } else { State::Open };
        if !shared.advance(generation, State::Announced, next) {
            return Err(Cause::PeerFailed { peer: source, culprit: source });
        }
        if streams {
            self.job.control(source).doorbell.ring();
        }
        let streamed = streams.then_some(0);
        let incoming = Incoming { run, op, source, descriptor, generation, pieces, bytes, streamed };
        self.transfers.incoming.push(incoming);
        self.progressed = true;
        Ok(false)
    }

    /// Receiver: will not take an announced message.
    pub(super) fn refuse_transfer(&mut self, source: Rank, descriptor: u32, generation: u32) {
        let shared = self.descriptor(source, descriptor);
        for state in [State::Announced, State::Open, State::Stream] {
            if shared.advance(generation, state, State::Refused) {
                self.job.control(source).doorbell.ring();
            }
        }
    }

    /// One step of every large transfer.
    pub(super) fn move_transfers(&mut self) {
        let mut at = 0;
        while at < self.transfers.incoming.len() {
            if self.pull(at) {
                let done = self.transfers.incoming.swap_remove(at);
                self.finish(done.run, done.op);
            } else {
                at += 1;
            }
        }
        let mut at = 0;
        while at < self.transfers.outgoing.len() {
            at += usize::from(!self.attend(at));
        }
    }

    /// Receiver: copies a chunk. Says whether the message is complete.
    fn pull(&mut self, at: usize) -> bool {
        let incoming = &self.transfers.incoming[at];
        if incoming.streamed.is_some() {
            return false;
        }
        let (source, descriptor, generation) = (incoming.source, incoming.descriptor, incoming.generation);
        let (bytes, pid) = (incoming.bytes, Pid::from_raw(self.job.control(source).pid() as i32));
        let shared = self.descriptor(source, descriptor);
        let Some((offset, length)) = shared.claim() else {
            if shared.done.load(Ordering::Acquire) != bytes {
                return false;
            }
            let done = shared.advance(generation, State::Open, State::Done);
            self.job.control(source).doorbell.ring();
            return done;
        };
        let remote = Region {
            address: (shared.source_address.load(Ordering::Relaxed) + offset) as usize,
            bytes: length as usize,
        };
        let local = regions(&incoming.pieces, offset, length);
        let gone = CopyError::PeerGone { pid: Pid::current() };
        // SAFETY: the local regions are the receive's own buffer, which belongs to it alone until it is finished.
        let copied = pid.map_or(Err(gone), |pid| unsafe { memory::read_regions(pid, &[remote], &local) });
        match copied {
            Ok(()) => {
                shared.done.fetch_add(length, Ordering::AcqRel);
            }
            Err(CopyError::Forbidden { .. }) => self.fall_back(at),
            // The death will be announced; until then the transfer stands still.
            Err(CopyError::PeerGone { .. }) => return false,
            Err(CopyError::BadAddress { .. } | CopyError::Other { .. }) => {
                let (run, op) = (incoming.run, incoming.op);
                self.fail(run, Some(op), Cause::BadAddress { peer: source });
                return false;
            }
        }
        self.progressed = true;
        false
    }

    /// Receiver: may not read the sender's memory; asks for fragments.
    fn fall_back(&mut self, at: usize) {
        self.transfers.forbidden = true;
        let incoming = &mut self.transfers.incoming[at];
        incoming.streamed = Some(0);
        let (source, descriptor, generation) = (incoming.source, incoming.descriptor, incoming.generation);
        let shared = self.descriptor(source, descriptor);
        shared.advance(generation, State::Open, State::Stream);
        self.job.control(source).doorbell.ring();
    }

    /// Sender: looks after one outgoing message. Says whether it is off the list.
    fn attend(&mut self, at: usize) -> bool {
        let outgoing = &self.transfers.outgoing[at];
        let (run, op, dest) = (outgoing.run, outgoing.op, outgoing.dest);
        let (descriptor, generation, streaming) =
            (outgoing.descriptor, outgoing.generation, outgoing.streaming);
        let shared = self.descriptor(self.me, descriptor);
        match shared.state(generation) {
            Some(State::Open) if self.cores_to_spare => self.push_chunk(at),
            Some(State::Stream) if !streaming => {
                self.transfers.outgoing[at].streaming = true;
                self.peer(dest).pending.push_back(Pending::Fragments { descriptor, generation, offset: 0 });
                self.block(dest);
                self.progressed = true;
            }
            Some(State::Done) => {
                shared.free(generation);
                self.transfers.outgoing.swap_remove(at);
                self.finish(run, op);
                return true;
            }
            Some(State::Refused) => {
                shared.free(generation);
                self.transfers.outgoing.swap_remove(at);
                self.fail(run, Some(op), Cause::PeerFailed { peer: dest, culprit: dest });
                return true;
            }
            _ => {}
        }
        false
    }

    /// Sender: writes a chunk into the receiver's buffer.
    fn push_chunk(&mut self, at: usize) {
        let outgoing = &self.transfers.outgoing[at];
        let (dest, generation) = (outgoing.dest, outgoing.generation);
        let shared = self.descriptor(self.me, outgoing.descriptor);
        let target = shared.target_address.load(Ordering::Acquire);
        let Some(pid) = Pid::from_raw(self.job.control(dest).pid() as i32) else { return };
        if target == 0 || self.transfers.forbidden {
            return;
        }
        // The receiver does not let go of its buffer while `pushing` is set: it is looked at after the state.
        shared.pushing.store(1, Ordering::SeqCst);
        if shared.state(generation) == Some(State::Open)
            && let Some((offset, length)) = shared.claim()
        {
            let source = shared.source_address.load(Ordering::Relaxed) + offset;
            let local = Region { address: source as usize, bytes: length as usize };
            let remote = Region { address: (target + offset) as usize, bytes: length as usize };
            // SAFETY: the receiver opened this transfer for that buffer and waits for exactly these bytes.
            match unsafe { memory::write_regions(pid, &[remote], &[local]) } {
                Ok(()) => {
                    shared.done.fetch_add(length, Ordering::AcqRel);
                    self.job.control(dest).doorbell.ring();
                }
                // The chunk is lost to the receiver's count: it has to take everything as fragments.
                Err(_) => {
                    shared.advance(generation, State::Open, State::Stream);
                    self.job.control(dest).doorbell.ring();
                }
            }
            self.progressed = true;
        }
        self.descriptor(self.me, self.transfers.outgoing[at].descriptor).pushing.store(0, Ordering::SeqCst);
    }

    /// Sender: as many fragments as there is room for; gives back what is left.
    pub(super) fn send_fragments(
        &mut self,
        dest: Rank,
        descriptor: u32,
        generation: u32,
        mut offset: u64,
    ) -> Option<Pending> {
        let shared = self.descriptor(self.me, descriptor);
        if shared.state(generation) != Some(State::Stream) {
            return None;
        }
        let bytes = shared.bytes.load(Ordering::Relaxed);
        let address = shared.source_address.load(Ordering::Relaxed);
        let piece = (self.job.eager_bytes() as u64).saturating_sub(8).max(8);
        let mut payload = Vec::with_capacity(8 + piece as usize);
        while offset < bytes {
            let length = piece.min(bytes - offset);
            payload.clear();
            payload.extend_from_slice(&offset.to_ne_bytes());
            // SAFETY: the send is not finished, so its buffer is still there and unchanged.
            let source =
                unsafe { std::slice::from_raw_parts((address + offset) as *const u8, length as usize) };
            payload.extend_from_slice(source);
            let mut header = control(Kind::Fragment, 0, 0, 0, handle_of(descriptor, generation));
            header.source = self.me.0;
            if !self.peer(dest).push(&mut header, &payload) {
                return Some(Pending::Fragments { descriptor, generation, offset });
            }
            self.job.control(dest).doorbell.ring();
            self.progressed = true;
            offset += length;
        }
        None
    }

    /// Receiver: a fragment.
    pub(super) fn take_fragment(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        let (descriptor, generation) = (header.extra as u32, (header.extra >> 32) as u32);
        let found = self.transfers.incoming.iter().position(|incoming| {
            (incoming.source, incoming.descriptor, incoming.generation) == (source, descriptor, generation)
        });
        // The run may have failed meanwhile.
        let Some(at) = found else { return };
        let (offset, bytes) = payload.split_at(8);
        let offset = u64::from_ne_bytes(offset.try_into().expect("8 bytes"));
        let incoming = &mut self.transfers.incoming[at];
        let mut rest = bytes;
        for region in regions(&incoming.pieces, offset, bytes.len() as u64) {
            let (piece, behind) = rest.split_at(region.bytes);
            // SAFETY: the region is part of the receive's own buffer.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), region.address as *mut u8, piece.len()) };
            rest = behind;
        }
        // Fragments come in order from 0; what was pulled or pushed before they began is written again.
        let streamed = offset + bytes.len() as u64;
        incoming.streamed = Some(streamed);
        if streamed == incoming.bytes {
            let done = self.transfers.incoming.swap_remove(at);
            self.descriptor(source, descriptor).advance(generation, State::Stream, State::Done);
            self.job.control(source).doorbell.ring();
            self.finish(done.run, done.op);
        }
    }

    /// Gives up the transfers of a run that failed. Nobody writes into its buffers afterwards.
    pub(super) fn drop_transfers(&mut self, run: RunRef) {
        while let Some(at) = self.transfers.incoming.iter().position(|incoming| incoming.run == run) {
            let gone = self.transfers.incoming.swap_remove(at);
            self.refuse_transfer(gone.source, gone.descriptor, gone.generation);
            let shared = self.descriptor(gone.source, gone.descriptor);
            while shared.pushing.load(Ordering::SeqCst) != 0 && self.liveness.is_alive(&self.job, gone.source)
            {
                std::thread::yield_now();
            }
        }
        while let Some(at) = self.transfers.outgoing.iter().position(|outgoing| outgoing.run == run) {
            let gone = self.transfers.outgoing.swap_remove(at);
            self.descriptor(self.me, gone.descriptor).free(gone.generation);
        }
    }
}

/// The parts of a buffer that hold bytes `offset … offset + length`.
fn regions(pieces: &[(u64, u64)], offset: u64, length: u64) -> Vec<Region> {
    let mut found = Vec::with_capacity(1);
    let (mut skip, mut left) = (offset, length);
    for &(address, bytes) in pieces {
        if left == 0 {
            break;
        }
        if skip >= bytes {
            skip -= bytes;
            continue;
        }
        let take = left.min(bytes - skip);
        found.push(Region { address: (address + skip) as usize, bytes: take as usize });
        left -= take;
        skip = 0;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_cut_across_pieces() {
        let pieces = [(100, 10), (200, 5), (300, 20)];
        let cut = |offset, length| {
            let found: Vec<_> =
                regions(&pieces, offset, length).iter().map(|r| (r.address, r.bytes)).collect();
            found
        };
        assert_eq!(cut(0, 35), [(100, 10), (200, 5), (300, 20)]);
        assert_eq!(cut(8, 4), [(108, 2), (200, 2)]);
        assert_eq!(cut(15, 1), [(300, 1)]);
        assert_eq!(cut(35, 0), []);
    }
}
