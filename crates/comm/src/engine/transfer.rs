//! Large messages: announced by the sender, then moved through a pipe, by a copy between processes, or as fragments
//! (`rendezvous.rs` has the states).

use super::core::{Core, Posted};
use super::failure::Cause;
use super::fold::Fold;
use super::message::{Kind, control};
use super::peer::Pending;
use super::run::RunRef;
use crate::queue::Header;
use crate::rendezvous::{
    CHUNK_BYTES, Carrier, DESCRIPTORS, Descriptor, PIPE_BYTES, PIPES, State, pipe_chunk_bytes,
};
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
    bytes: u64,
    /// Where the bytes lie, for a pipe; it gathers by itself.
    pieces: Vec<(u64, u64)>,
    pipe: Option<usize>,
    /// A vector buffer's bytes, gathered once, where there is no pipe.
    _gathered: Option<Vec<u8>>,
    /// Fragments are being sent.
    streaming: bool,
    /// All bytes are in the pipe: the send is finished, the pipe is still in use.
    piped: bool,
    /// All bytes lie where the receiver finds them without this rank.
    lies_ready: bool,
    /// The receiver has given it up.
    is_refused: bool,
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
    taken: u64,
    way: Way,
    /// The operation that reduces it as it comes, instead of a copy.
    fold: Option<Fold>,
    /// The sender has given it up.
    is_lost: bool,
}

/// How the bytes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Pipe(usize),
    /// Out of the sender's pool.
    Load,
    Copy,
    Fragments,
}

impl Incoming {
    /// Takes the next piece in.
    ///
    /// # Safety
    /// The piece is readable, and nobody writes to it meanwhile.
    unsafe fn take(&mut self, mut from: *mut u8, bytes: u64) {
        if let Some(fold) = &self.fold {
            // SAFETY: the caller's promise; the operation's other buffers are its own, since it lacks nothing but this
            // message, and pieces are whole elements.
            unsafe { fold.apply(from, self.taken, bytes) };
        } else {
            for region in regions(&self.pieces, self.taken, bytes) {
                // SAFETY: the caller's promise; the region is part of the receive's own buffer.
                unsafe { std::ptr::copy_nonoverlapping(from, region.address as *mut u8, region.bytes) };
                from = from.wrapping_add(region.bytes);
            }
        }
        self.taken += bytes;
    }
}

#[derive(Default)]
pub(super) struct Transfers {
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    pipes_taken: [bool; PIPES],
    /// The kernel does not let processes of this job copy from each other.
    forbidden: bool,
    next_descriptor: usize,
}

/// What a step did for a transfer.
enum Step {
    Nothing,
    Moved,
    Complete,
    Failed(Cause),
}

impl Transfers {
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !self.outgoing.is_empty() || !self.incoming.is_empty()
    }

    /// Whether nobody waits for this rank: what comes has left its sender, and what it sends lies in pipes.
    pub(super) fn can_wait(&self) -> bool {
        let has_left =
            |incoming: &Incoming| matches!(incoming.way, Way::Pipe(_)) && incoming.bytes <= PIPE_BYTES;
        self.incoming.iter().all(has_left) && self.outgoing.iter().all(|outgoing| outgoing.lies_ready)
    }

    /// Whether there is copying to do that nobody rings for.
    pub(super) fn needs_turning(&self) -> bool {
        self.incoming.iter().any(|incoming| matches!(incoming.way, Way::Copy | Way::Load))
    }

    /// The operations that wait for large messages, and for whom.
    pub(super) fn waits(&self) -> impl Iterator<Item = (RunRef, OpId, Rank)> + '_ {
        let outgoing = self.outgoing.iter().filter(|outgoing| !outgoing.piped);
        let outgoing = outgoing.map(|outgoing| (outgoing.run, outgoing.op, outgoing.dest));
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

    /// Whether some large message can move, because the other side has done its part or nobody has begun.
    pub(super) fn has_transfer_news(&self) -> bool {
        self.transfers.incoming.iter().any(|incoming| {
            let shared = self.descriptor(incoming.source, incoming.descriptor);
            let state = shared.state(incoming.generation);
            match incoming.way {
                Way::Pipe(_) => {
                    state != Some(State::Open) || shared.filled.load(Ordering::Acquire) != incoming.taken
                }
                Way::Copy | Way::Load => true,
                Way::Fragments => state != Some(State::Stream),
            }
        }) || self.transfers.outgoing.iter().any(|outgoing| {
            let shared = self.descriptor(self.me, outgoing.descriptor);
            match shared.state(outgoing.generation) {
                Some(State::Done | State::Refused) => true,
                Some(State::Stream) => !outgoing.streaming,
                Some(State::Announced | State::Open) if outgoing.pipe.is_some() && !outgoing.piped => {
                    let under_way =
                        shared.filled.load(Ordering::Relaxed) - shared.taken.load(Ordering::Acquire);
                    under_way < PIPE_BYTES
                }
                _ => false,
            }
        })
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
        let free = self.transfers.pipes_taken.iter().position(|taken| !taken);
        let pooled = match buffer {
            Buffer::Plain(place) => self.job.in_pool(self.me, space.place(place), bytes as usize),
            Buffer::Vector(..) => None,
        };
        let pipe = free.filter(|_| self.job.has_pipes() && pooled.is_none());
        let (mut gathered, mut pieces, mut address) = (None, Vec::new(), pooled.unwrap_or(0));
        match (buffer, pipe) {
            _ if pooled.is_some() => {}
            (_, Some(_)) => pieces = space.pieces(buffer, bytes),
            (Buffer::Plain(place), None) => address = space.place(place) as u64,
            (Buffer::Vector(..), None) => {
                let mut all = Vec::with_capacity(bytes as usize);
                // SAFETY: who ran the schedule answers for user memory; nothing writes to a buffer being sent.
                unsafe { space.gather(buffer, bytes, &mut all) };
                address = gathered.insert(all).as_ptr() as u64;
            }
        }
        let carrier = match (pooled, pipe) {
            (Some(_), _) => Carrier::Pool,
            (None, Some(pipe)) => Carrier::Pipe(pipe),
            (None, None) => Carrier::Memory,
        };
        let first = self.transfers.next_descriptor;
        let free = (0..DESCRIPTORS).map(|step| (first + step) % DESCRIPTORS).find_map(|at| {
            let generation = self.job.descriptors(self.me)[at].announce(address, bytes, carrier)?;
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
        self.touch(dest);
        self.peer(dest).is_pressed |= pooled.is_none() && (pipe.is_none() || bytes > PIPE_BYTES);
        self.ring();
        self.transfers.next_descriptor = descriptor as usize + 1;
        if let Some(pipe) = pipe {
            self.transfers.pipes_taken[pipe] = true;
        }
        self.counters.messages += 1;
        self.counters.bytes += bytes;
        self.transfers.outgoing.push(Outgoing {
            run,
            op,
            dest,
            descriptor,
            generation,
            bytes,
            pieces,
            pipe,
            _gathered: gathered,
            streaming: false,
            piped: false,
            lies_ready: pooled.is_some(),
            is_refused: false,
        });
        if pooled.is_some() {
            self.has_sent_one(run);
        }
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
        let way = match shared.carrier() {
            Carrier::Memory if self.transfers.forbidden => Way::Fragments,
            Carrier::Memory => Way::Copy,
            Carrier::Pool => Way::Load,
            Carrier::Pipe(pipe) => Way::Pipe(pipe),
        };
        let next = if way == Way::Fragments { State::Stream } else { State::Open };
        // If the sender has given it up, that is found when the first piece is taken.
        shared.advance(generation, State::Announced, next);
        if way == Way::Fragments {
            self.touch(source);
        }
        let incoming = Incoming {
            run,
            op,
            source,
            descriptor,
            generation,
            pieces,
            bytes,
            taken: 0,
            way,
            fold: None,
            is_lost: false,
        };
        self.transfers.incoming.push(incoming);
        self.progressed = true;
        Ok(false)
    }

    /// Receiver: will not take an announced message.
    pub(super) fn refuse_transfer(&mut self, source: Rank, descriptor: u32, generation: u32) {
        let shared = self.descriptor(source, descriptor);
        let states = [State::Announced, State::Open, State::Stream];
        if states.into_iter().any(|state| shared.advance(generation, state, State::Refused)) {
            self.touch(source);
        }
    }

    /// One step of every large transfer.
    pub(super) fn move_transfers(&mut self) {
        let mut at = 0;
        while at < self.transfers.incoming.len() {
            let step = self.take_in(at);
            self.progressed |= !matches!(step, Step::Nothing);
            match step {
                Step::Complete => {
                    let done = self.transfers.incoming.swap_remove(at);
                    self.descriptor(done.source, done.descriptor).advance(
                        done.generation,
                        if done.way == Way::Fragments { State::Stream } else { State::Open },
                        State::Done,
                    );
                    self.touch(done.source);
                    if let Some(fold) = done.fold {
                        let found = self.runs[done.run.slot as usize].as_deref_mut().expect("a live run");
                        found.folded.push(fold.local);
                        self.counters.folded += 1;
                    }
                    self.finish(done.run, done.op);
                }
                Step::Failed(cause) => {
                    let Incoming { run, op, .. } = self.transfers.incoming[at];
                    self.fail(run, Some(op), cause);
                }
                Step::Nothing | Step::Moved => at += 1,
            }
        }
        let mut at = 0;
        while at < self.transfers.outgoing.len() {
            at += usize::from(!self.attend(at));
        }
    }

    /// Receiver: takes what has come.
    fn take_in(&mut self, at: usize) -> Step {
        match self.transfers.incoming[at].way {
            Way::Pipe(pipe) => self.empty_pipe(at, pipe),
            Way::Load => self.load_chunk(at),
            Way::Copy => self.copy_chunk(at),
            Way::Fragments => self.expect_fragments(at),
        }
    }

    /// Receiver: fragments come as messages, as long as the sender's run lives.
    fn expect_fragments(&mut self, at: usize) -> Step {
        let Incoming { source, descriptor, generation, .. } = self.transfers.incoming[at];
        match self.descriptor(source, descriptor).state(generation) {
            Some(State::Stream) => Step::Nothing,
            _ => self.lose(at),
        }
    }

    /// Receiver: the sender has given the message up. It has sent word why, which the next turn takes in, if it found room for it.
    fn lose(&mut self, at: usize) -> Step {
        let Incoming { source, ref mut is_lost, .. } = self.transfers.incoming[at];
        if std::mem::replace(is_lost, true) {
            return Step::Failed(Cause::PeerFailed { peer: source, culprit: source });
        }
        Step::Nothing
    }

    /// Receiver: empties the sender's pipe.
    fn empty_pipe(&mut self, at: usize, pipe: usize) -> Step {
        let Incoming { source, descriptor, generation, bytes, .. } = self.transfers.incoming[at];
        let (base, chunk) = (self.job.pipe(source, pipe), pipe_chunk_bytes(bytes));
        let mut moved = false;
        self.look_for_reader(at);
        loop {
            let shared = self.descriptor(source, descriptor);
            let filled = shared.filled.load(Ordering::Acquire);
            if shared.state(generation) != Some(State::Open) {
                return self.lose(at);
            }
            let incoming = &mut self.transfers.incoming[at];
            let taken = incoming.taken;
            if filled == taken {
                if !moved {
                    return Step::Nothing;
                }
                // The pipe may have been full and the sender asleep.
                self.touch(source);
                return Step::Moved;
            }
            let length = (filled - taken).min(chunk - taken % chunk);
            let from = base.wrapping_add((taken % PIPE_BYTES) as usize);
            // SAFETY: the sender does not touch these bytes of its pipe before `taken` says so.
            unsafe { incoming.take(from, length) };
            let shared = self.descriptor(source, descriptor);
            shared.taken.store(taken + length, Ordering::Release);
            moved = true;
            if taken + length == bytes {
                return Step::Complete;
            }
        }
    }

    /// Receiver: before the first piece, whether an operation reads the message as it comes.
    fn look_for_reader(&mut self, at: usize) {
        let Incoming { run, op, taken: 0, .. } = self.transfers.incoming[at] else { return };
        let found = self.runs[run.slot as usize].as_deref().expect("a live run");
        let Some(local) = found.folds.reader(op) else { return };
        let schedule = self.schedule(run);
        let is_ready = found.stepper.lacks_one(schedule, local);
        if let (true, Op::Recv { buffer, .. }) = (is_ready, schedule.op(op)) {
            self.transfers.incoming[at].fold = Fold::new(schedule, local, buffer, self.space(run));
        }
    }

    /// Whether the operation was carried out as its message came.
    pub(super) fn was_folded(&mut self, run: RunRef, op: OpId) -> bool {
        let folded = &mut self.runs[run.slot as usize].as_deref_mut().expect("a live run").folded;
        let at = folded.iter().position(|folded| *folded == op);
        at.map(|at| folded.swap_remove(at)).is_some()
    }

    /// Receiver: copies a chunk out of the sender's pool.
    fn load_chunk(&mut self, at: usize) -> Step {
        let Incoming { source, descriptor, generation, bytes, taken, .. } = self.transfers.incoming[at];
        let shared = self.descriptor(source, descriptor);
        let length = CHUNK_BYTES.min(bytes - taken);
        let offset = shared.source_address.load(Ordering::Relaxed) + taken;
        // Behind that look its words may be another message's.
        if shared.state(generation) != Some(State::Open) {
            return self.lose(at);
        }
        self.look_for_reader(at);
        let from = self.job.of_pool(source, offset, length as usize);
        // SAFETY: the sender leaves its buffer alone until the message is done.
        unsafe { self.transfers.incoming[at].take(from, length) };
        if taken + length == bytes { Step::Complete } else { Step::Moved }
    }

    /// Receiver: copies a chunk out of the sender's memory.
    fn copy_chunk(&mut self, at: usize) -> Step {
        let Incoming { source, descriptor, generation, bytes, taken, .. } = self.transfers.incoming[at];
        let shared = self.descriptor(source, descriptor);
        if shared.state(generation) != Some(State::Open) {
            return self.lose(at);
        }
        let length = CHUNK_BYTES.min(bytes - taken);
        let address = shared.source_address.load(Ordering::Relaxed) + taken;
        let remote = Region { address: address as usize, bytes: length as usize };
        let local = regions(&self.transfers.incoming[at].pieces, taken, length);
        // The death will be announced; until then the transfer stands still.
        let Some(pid) = Pid::from_raw(self.job.control(source).pid() as i32) else { return Step::Nothing };
        // SAFETY: the local regions are the receive's own buffer, which belongs to it alone until it is finished.
        match unsafe { memory::read_regions(pid, &[remote], &local) } {
            Ok(()) => {}
            Err(CopyError::PeerGone { .. }) => return Step::Nothing,
            Err(CopyError::Forbidden { .. }) => {
                self.transfers.forbidden = true;
                let incoming = &mut self.transfers.incoming[at];
                (incoming.way, incoming.taken) = (Way::Fragments, 0);
                self.descriptor(source, descriptor).advance(generation, State::Open, State::Stream);
                self.touch(source);
                return Step::Moved;
            }
            Err(CopyError::BadAddress { .. } | CopyError::Other { .. }) => {
                return Step::Failed(Cause::BadAddress { peer: source });
            }
        }
        self.transfers.incoming[at].taken += length;
        if taken + length == bytes { Step::Complete } else { Step::Moved }
    }

    /// Sender: looks after one outgoing message. Says whether it is off the list.
    fn attend(&mut self, at: usize) -> bool {
        let outgoing = &self.transfers.outgoing[at];
        let (run, op, dest) = (outgoing.run, outgoing.op, outgoing.dest);
        let (descriptor, generation, piped) = (outgoing.descriptor, outgoing.generation, outgoing.piped);
        let (streaming, has_pipe) = (outgoing.streaming, outgoing.pipe.is_some());
        match self.descriptor(self.me, descriptor).state(generation) {
            Some(State::Done) => {
                if !self.transfers.outgoing[at].lies_ready {
                    self.has_sent_one(run);
                }
                self.release(at);
                if !piped {
                    self.finish(run, op);
                }
                return true;
            }
            // The receiver has sent word why, which the next turn takes in, if it found room for it.
            Some(State::Refused) if !std::mem::replace(&mut self.transfers.outgoing[at].is_refused, true) => {
                self.progressed = true;
            }
            Some(State::Refused) => {
                self.release(at);
                if !piped {
                    self.fail(run, Some(op), Cause::PeerFailed { peer: dest, culprit: dest });
                }
                return true;
            }
            Some(State::Stream) if !streaming => {
                self.transfers.outgoing[at].streaming = true;
                self.peer(dest).pending.push_back(Pending::Fragments { descriptor, generation, offset: 0 });
                self.block(dest);
                self.progressed = true;
            }
            Some(State::Announced | State::Open) if has_pipe && !piped => self.fill_pipe(at),
            _ => {}
        }
        false
    }

    /// All bytes of a run's large message lie where the receiver finds them.
    fn has_sent_one(&mut self, run: RunRef) {
        self.runs[run.slot as usize].as_deref_mut().expect("a live run").has_sent_one();
    }

    /// Sender: an application waits, perhaps for a message to be taken.
    pub(super) fn press_receivers(&mut self) {
        for at in 0..self.transfers.outgoing.len() {
            let Outgoing { dest, piped: false, .. } = self.transfers.outgoing[at] else { continue };
            self.peer(dest).is_pressed = true;
            self.touch(dest);
        }
    }

    /// Sender: takes an outgoing message off the list and its descriptor and pipe out of use.
    fn release(&mut self, at: usize) {
        let outgoing = self.transfers.outgoing.swap_remove(at);
        self.descriptor(self.me, outgoing.descriptor).free(outgoing.generation);
        if let Some(pipe) = outgoing.pipe {
            self.transfers.pipes_taken[pipe] = false;
        }
        self.progressed = true;
    }

    /// Sender: fills its pipe as far as there is room. When all is in, the send is finished.
    fn fill_pipe(&mut self, at: usize) {
        let outgoing = &self.transfers.outgoing[at];
        let (run, op, dest, bytes) = (outgoing.run, outgoing.op, outgoing.dest, outgoing.bytes);
        let base = self.job.pipe(self.me, outgoing.pipe.expect("a transfer by pipe"));
        let chunk = pipe_chunk_bytes(bytes);
        let descriptor = outgoing.descriptor;
        loop {
            let shared = self.descriptor(self.me, descriptor);
            let filled = shared.filled.load(Ordering::Relaxed);
            let room = PIPE_BYTES - (filled - shared.taken.load(Ordering::Acquire));
            let length = room.min(bytes - filled).min(chunk - filled % chunk);
            if length == 0 {
                return self.touch(dest);
            }
            let mut to = base.wrapping_add((filled % PIPE_BYTES) as usize);
            for region in regions(&self.transfers.outgoing[at].pieces, filled, length) {
                // SAFETY: the receiver has taken what was there; the region is part of the send's own buffer.
                unsafe { std::ptr::copy_nonoverlapping(region.address as *const u8, to, region.bytes) };
                to = to.wrapping_add(region.bytes);
            }
            shared.filled.store(filled + length, Ordering::Release);
            self.progressed = true;
            if filled + length == bytes {
                let outgoing = &mut self.transfers.outgoing[at];
                (outgoing.piped, outgoing.lies_ready) = (true, true);
                self.has_sent_one(run);
                self.touch(dest);
                return self.finish(run, op);
            }
        }
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
            self.touch(dest);
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
        // Fragments come in order from 0.
        incoming.taken = offset + bytes.len() as u64;
        if incoming.taken == incoming.bytes {
            let done = self.transfers.incoming.swap_remove(at);
            self.descriptor(source, descriptor).advance(generation, State::Stream, State::Done);
            self.touch(source);
            self.finish(done.run, done.op);
        }
    }

    /// Gives up the transfers of a run that failed.
    pub(super) fn drop_transfers(&mut self, run: RunRef) {
        while let Some(at) = self.transfers.incoming.iter().position(|incoming| incoming.run == run) {
            let gone = self.transfers.incoming.swap_remove(at);
            self.refuse_transfer(gone.source, gone.descriptor, gone.generation);
        }
        let unfinished = |outgoing: &Outgoing| outgoing.run == run && !outgoing.piped;
        while let Some(at) = self.transfers.outgoing.iter().position(unfinished) {
            self.release(at);
        }
    }

    /// Forgets what a rank that is gone will not take any more, and says which operations wait for it in vain: not
    /// those whose bytes are all in the pipe.
    pub(super) fn transfers_in_vain(&mut self, rank: Rank) -> Vec<(RunRef, OpId)> {
        let piped = |outgoing: &Outgoing| outgoing.dest == rank && outgoing.piped;
        while let Some(at) = self.transfers.outgoing.iter().position(piped) {
            self.release(at);
        }
        let transfers = &self.transfers;
        let outgoing = transfers.outgoing.iter().filter(|outgoing| outgoing.dest == rank);
        let mut vain: Vec<_> = outgoing.map(|outgoing| (outgoing.run, outgoing.op)).collect();
        for incoming in transfers.incoming.iter().filter(|incoming| incoming.source == rank) {
            let filled = self.descriptor(rank, incoming.descriptor).filled.load(Ordering::Acquire);
            let arrives = matches!(incoming.way, Way::Pipe(_)) && filled == incoming.bytes;
            if !arrives {
                vain.push((incoming.run, incoming.op));
            }
        }
        vain
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
