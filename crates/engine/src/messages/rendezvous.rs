//! Large messages: announced by the sender, then moved through a pipe, by a copy between processes, or as fragments
//! (`rendezvous.rs` of the segment has the states).

use super::awaited::AwaitedMessages;
use super::peer::{Announced, Outbound};
use super::token::{Handler, Posted, Sent, Token, Wait};
use super::wire::{GRANTED, Granted, Kind};
use super::{Memory, Messages};
use crate::failure::Cause;
use castell_base::Rank;
use castell_host::memory::{self, CopyError, Region};
use castell_host::process::Pid;
use castell_shm::cma_probe;
use castell_shm::rendezvous::{
    CHUNK_BYTES, Carrier, DESCRIPTORS, Descriptor, PIPE_BYTES, PIPES, State, pipe_chunk_bytes,
};
use castell_transport::Header;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Pieces of memory that one system call is given.
const REGIONS: usize = 64;

/// A large message that this rank sends.
struct Outgoing {
    message: Outbound,
    dest: Rank,
    descriptor: u32,
    generation: u32,
    pipe: Option<usize>,
    /// Pieces of memory, gathered once, where there is no pipe.
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
    posted: Posted,
    source: Rank,
    /// Descriptor and generation.
    handle: u64,
    taken: u64,
    way: Way,
    /// It is reduced as it comes, instead of a copy.
    is_reduced: bool,
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
    /// As messages, since the kernel forbids copies.
    Fragments,
}

impl Incoming {
    fn descriptor(&self) -> (u32, u32) {
        (self.handle as u32, (self.handle >> 32) as u32)
    }

    fn bytes(&self) -> u64 {
        self.posted.memory.bytes()
    }

    /// Takes the next piece in.
    ///
    /// # Safety
    /// The piece is readable, and nobody writes to it meanwhile.
    unsafe fn take(&mut self, from: *mut u8, bytes: u64, handler: &mut impl Handler) {
        if self.is_reduced {
            // SAFETY: the caller's promise; pieces are whole elements where messages are reduced.
            unsafe { handler.reduce(self.posted.token, from, self.taken, bytes) };
        } else {
            // SAFETY: the caller's promise; who posted the receive answers for its memory.
            unsafe {
                self.posted.memory.scatter(self.taken, std::slice::from_raw_parts(from, bytes as usize))
            };
        }
        self.taken += bytes;
    }
}

#[derive(Default)]
pub(super) struct Transfers {
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    awaited: AwaitedMessages,
    pipes_taken: [bool; PIPES],
    /// Whose memory can be read, of those that were tried: the kernel forbids it between containers, or finds another process there.
    readable: BTreeMap<Rank, bool>,
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
    fn is_any(&self) -> bool {
        !self.outgoing.is_empty() || !self.incoming.is_empty() || !self.awaited.is_empty()
    }

    /// Whether nobody waits for this rank: what comes has left its sender, and what it sends lies in pipes.
    pub(super) fn can_wait(&self) -> bool {
        let has_left =
            |incoming: &Incoming| matches!(incoming.way, Way::Pipe(_)) && incoming.bytes() <= PIPE_BYTES;
        self.awaited.is_empty()
            && self.incoming.iter().all(has_left)
            && self.outgoing.iter().all(|outgoing| outgoing.lies_ready)
    }

    /// Whether there is copying to do that nobody rings for.
    pub(super) fn needs_turning(&self) -> bool {
        self.incoming.iter().any(|incoming| matches!(incoming.way, Way::Copy | Way::Load))
    }

    /// The operations that wait for large messages, and for whom.
    pub(super) fn waits(&self) -> impl Iterator<Item = (Token, Wait)> + '_ {
        let outgoing = self.outgoing.iter().filter(|outgoing| !outgoing.piped);
        let outgoing = outgoing.map(|outgoing| (outgoing.message.token, Wait::Transfer(outgoing.dest)));
        let incoming = self.incoming.iter().map(|incoming| (incoming.posted.token, incoming.source));
        let incoming = incoming.chain(self.awaited.waits());
        outgoing.chain(incoming.map(|(token, source)| (token, Wait::Transfer(source))))
    }

    /// Takes out a receive whose message was granted and will not come.
    pub(super) fn take_awaited(&mut self, source: Rank, request: u64) -> Option<Token> {
        self.awaited.remove(source, request)
    }
}

fn handle_of(descriptor: u32, generation: u32) -> u64 {
    u64::from(descriptor) | u64::from(generation) << 32
}

impl Messages {
    fn descriptor(&self, owner: Rank, descriptor: u32) -> &Descriptor {
        &self.job.descriptors(owner)[descriptor as usize % DESCRIPTORS]
    }

    /// Whether large messages are under way.
    #[inline]
    pub(crate) fn has_transfers(&self) -> bool {
        self.transfers.is_any()
    }

    /// Whether some large message can move, because the other side has done its part or nobody has begun.
    pub(crate) fn has_transfer_news(&self) -> bool {
        let has_come = |incoming: &Incoming| {
            let (descriptor, generation) = incoming.descriptor();
            let shared = self.descriptor(incoming.source, descriptor);
            match incoming.way {
                Way::Pipe(_) => {
                    shared.state(generation) != Some(State::Open)
                        || shared.filled.load(Ordering::Acquire) != incoming.taken
                }
                Way::Copy | Way::Load => true,
                Way::Fragments => shared.state(generation) != Some(State::Stream),
            }
        };
        let can_go = |outgoing: &Outgoing| {
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
        };
        self.transfers.incoming.iter().any(has_come) || self.transfers.outgoing.iter().any(can_go)
    }

    /// Sender: announces a message, or asks for leave if all descriptors are in use.
    pub(super) fn announce(&mut self, dest: Rank, message: &Outbound) -> Sent {
        let (memory, bytes) = (message.memory, message.memory.bytes());
        let pooled = memory.start().and_then(|start| self.job.in_pool(self.me, start, bytes as usize));
        let free = self.transfers.pipes_taken.iter().position(|taken| !taken);
        let pipe = free.filter(|_| self.job.has_pipes() && pooled.is_none());
        let mut gathered = None;
        let (carrier, address) = match (pooled, pipe, memory.start()) {
            (Some(offset), ..) => (Carrier::Pool, offset),
            (None, Some(pipe), _) => (Carrier::Pipe(pipe), 0),
            (None, None, Some(start)) => (Carrier::Memory, start as u64),
            (None, None, None) => {
                let all = gathered.insert(Vec::with_capacity(bytes as usize));
                // SAFETY: who sends answers for the memory.
                unsafe { memory.gather(all) };
                (Carrier::Memory, all.as_ptr() as u64)
            }
        };
        let first = self.transfers.next_descriptor;
        let free = (0..DESCRIPTORS).map(|step| (first + step) % DESCRIPTORS).find_map(|at| {
            let generation = self.job.descriptors(self.me)[at].announce(address, bytes, carrier)?;
            Some((at as u32, generation))
        });
        let Some((descriptor, generation)) = free else { return self.request(dest, message) };
        let mut header = super::control(Kind::Announce, message.number, message.tag.0, 0, 0);
        (header.source, header.extra) = (self.me.0, handle_of(descriptor, generation));
        if !self.peer(dest).way.try_send(&mut header, &bytes.to_ne_bytes()) {
            self.descriptor(self.me, descriptor).free(generation);
            return Sent::Refused;
        }
        if pooled.is_none() && (pipe.is_none() || bytes > PIPE_BYTES) {
            self.bells.press(dest);
        } else {
            self.bells.touch(dest);
        }
        self.ring();
        self.transfers.next_descriptor = descriptor as usize + 1;
        if let Some(pipe) = pipe {
            self.transfers.pipes_taken[pipe] = true;
        }
        self.count(bytes);
        let message = match &gathered {
            Some(all) => Outbound { memory: Memory::plain(all.as_ptr().cast_mut(), bytes), ..*message },
            None => *message,
        };
        self.transfers.outgoing.push(Outgoing {
            message,
            dest,
            descriptor,
            generation,
            pipe,
            _gathered: gathered,
            streaming: false,
            piped: false,
            lies_ready: pooled.is_some(),
            is_refused: false,
        });
        Sent::Announced
    }

    /// Receiver: starts to take an announced message in.
    pub(super) fn open_transfer(
        &mut self,
        posted: Posted,
        source: Rank,
        Announced { descriptor, generation, bytes: sent }: Announced,
    ) -> Result<(), Cause> {
        let expected = posted.memory.bytes();
        if sent != expected {
            self.refuse_transfer(source, descriptor, generation);
            return Err(Cause::SizeMismatch { peer: source, sent, expected });
        }
        let shared = self.descriptor(source, descriptor);
        let way = match shared.carrier() {
            Carrier::Memory if !self.can_read(source) => Way::Fragments,
            Carrier::Memory => Way::Copy,
            Carrier::Pool => Way::Load,
            Carrier::Pipe(pipe) => Way::Pipe(pipe),
        };
        if !self.has_come(source, descriptor, way, sent) {
            self.check_peer(source)?;
        }
        let shared = self.descriptor(source, descriptor);
        let next = if way == Way::Fragments { State::Stream } else { State::Open };
        // If the sender has given it up, that is found when the first piece is taken.
        shared.advance(generation, State::Announced, next);
        if way == Way::Fragments {
            self.bells.touch(source);
        }
        self.begin(posted, source, handle_of(descriptor, generation), way);
        Ok(())
    }

    /// Receiver: whether the memory of a rank can be read. Its number alone does not tell: in another container another process may have it.
    fn can_read(&mut self, source: Rank) -> bool {
        let job = &self.job;
        *self.transfers.readable.entry(source).or_insert_with(|| cma_probe::can_be_read(job, source))
    }

    /// Receiver: as if the kernel let it read nothing of that rank.
    #[cfg(test)]
    pub(crate) fn forbid_reading(&mut self, source: Rank) {
        self.transfers.readable.insert(source, false);
    }

    /// Receiver: whether all bytes lie where the sender's death does not matter.
    fn has_come(&self, source: Rank, descriptor: u32, way: Way, bytes: u64) -> bool {
        match way {
            Way::Pipe(_) => self.descriptor(source, descriptor).filled.load(Ordering::Acquire) == bytes,
            Way::Load => true,
            Way::Copy | Way::Fragments => false,
        }
    }

    /// Receiver: a receive waits for a message whose sender has asked.
    pub(super) fn await_granted(
        &mut self,
        posted: Posted,
        source: Rank,
        request: u64,
        sent: u64,
    ) -> Result<(), Cause> {
        let expected = posted.memory.bytes();
        if sent != expected {
            self.grant(source, request, Granted::Dropped);
            return Err(Cause::SizeMismatch { peer: source, sent, expected });
        }
        self.check_peer(source)?;
        self.grant(source, request, Granted::ToReceive);
        self.transfers.awaited.add(source, request, posted);
        self.outcomes.progressed = true;
        Ok(())
    }

    fn begin(&mut self, posted: Posted, source: Rank, handle: u64, way: Way) {
        let incoming = Incoming { posted, source, handle, taken: 0, way, is_reduced: false, is_lost: false };
        self.transfers.incoming.push(incoming);
        self.outcomes.progressed = true;
    }

    /// Receiver: will not take an announced message.
    pub(super) fn refuse_transfer(&mut self, source: Rank, descriptor: u32, generation: u32) {
        let shared = self.descriptor(source, descriptor);
        let states = [State::Announced, State::Open, State::Stream];
        if states.into_iter().any(|state| shared.advance(generation, state, State::Refused)) {
            self.bells.touch(source);
        }
    }

    /// One step of every large transfer.
    pub(crate) fn move_transfers(&mut self, handler: &mut impl Handler) {
        let mut at = 0;
        while at < self.transfers.incoming.len() {
            let step = self.take_in(at, handler);
            self.outcomes.progressed |= !matches!(step, Step::Nothing);
            match step {
                Step::Complete => {
                    let done = self.transfers.incoming.swap_remove(at);
                    let (descriptor, generation) = done.descriptor();
                    self.descriptor(done.source, descriptor).advance(generation, State::Open, State::Done);
                    self.bells.touch(done.source);
                    self.counters.folded += u64::from(done.is_reduced);
                    self.finish(done.posted.token);
                }
                Step::Failed(cause) => {
                    let lost = self.transfers.incoming.swap_remove(at);
                    let (descriptor, generation) = lost.descriptor();
                    self.refuse_transfer(lost.source, descriptor, generation);
                    self.fail(lost.posted.token, cause);
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
    fn take_in(&mut self, at: usize, handler: &mut impl Handler) -> Step {
        match self.transfers.incoming[at].way {
            Way::Pipe(pipe) => self.empty_pipe(at, pipe, handler),
            Way::Load => self.load_chunk(at, handler),
            Way::Copy => self.copy_chunk(at),
            Way::Fragments => self.expect_fragments(at),
        }
    }

    /// Receiver: fragments come as messages, as long as the sender does not give the message up.
    fn expect_fragments(&mut self, at: usize) -> Step {
        let incoming = &self.transfers.incoming[at];
        let (descriptor, generation) = incoming.descriptor();
        match self.descriptor(incoming.source, descriptor).state(generation) {
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
    fn empty_pipe(&mut self, at: usize, pipe: usize, handler: &mut impl Handler) -> Step {
        let incoming = &self.transfers.incoming[at];
        let ((descriptor, generation), source, bytes) =
            (incoming.descriptor(), incoming.source, incoming.bytes());
        let (base, chunk) = (self.job.pipe(source, pipe), pipe_chunk_bytes(bytes));
        let mut moved = false;
        self.look_for_reader(at, handler);
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
                self.bells.touch(source);
                return Step::Moved;
            }
            let length = (filled - taken).min(chunk - taken % chunk);
            let from = base.wrapping_add((taken % PIPE_BYTES) as usize);
            // SAFETY: the sender does not touch these bytes of its pipe before `taken` says so.
            unsafe { incoming.take(from, length, handler) };
            let shared = self.descriptor(source, descriptor);
            shared.taken.store(taken + length, Ordering::Release);
            moved = true;
            if taken + length == bytes {
                return Step::Complete;
            }
        }
    }

    /// Receiver: before the first piece, whether an operation reads the message as it comes.
    fn look_for_reader(&mut self, at: usize, handler: &mut impl Handler) {
        let incoming = &mut self.transfers.incoming[at];
        if incoming.taken == 0 {
            incoming.is_reduced = handler.reduces(incoming.posted.token);
        }
    }

    /// Receiver: copies a chunk out of the sender's pool.
    fn load_chunk(&mut self, at: usize, handler: &mut impl Handler) -> Step {
        let incoming = &self.transfers.incoming[at];
        let ((descriptor, generation), source, taken) =
            (incoming.descriptor(), incoming.source, incoming.taken);
        let bytes = incoming.bytes();
        let shared = self.descriptor(source, descriptor);
        let length = CHUNK_BYTES.min(bytes - taken);
        let offset = shared.source_address.load(Ordering::Relaxed) + taken;
        // Behind that look its words may be another message's.
        if shared.state(generation) != Some(State::Open) {
            return self.lose(at);
        }
        self.look_for_reader(at, handler);
        let from = self.job.of_pool(source, offset, length as usize);
        // SAFETY: the sender leaves its buffer alone until the message is done.
        unsafe { self.transfers.incoming[at].take(from, length, handler) };
        if taken + length == bytes { Step::Complete } else { Step::Moved }
    }

    /// Receiver: copies a chunk out of the sender's memory.
    fn copy_chunk(&mut self, at: usize) -> Step {
        let incoming = &self.transfers.incoming[at];
        let ((descriptor, generation), source, taken) =
            (incoming.descriptor(), incoming.source, incoming.taken);
        let (memory, bytes) = (incoming.posted.memory, incoming.bytes());
        let shared = self.descriptor(source, descriptor);
        if shared.state(generation) != Some(State::Open) {
            return self.lose(at);
        }
        let address = shared.source_address.load(Ordering::Relaxed) + taken;
        let mut local = [Region { address: 0, bytes: 0 }; REGIONS];
        let (mut count, mut length) = (0, 0);
        for (region, piece) in local.iter_mut().zip(memory.cut(taken, CHUNK_BYTES.min(bytes - taken))) {
            *region = Region { address: piece.start as usize, bytes: piece.bytes };
            (count, length) = (count + 1, length + piece.bytes);
        }
        let remote = Region { address: address as usize, bytes: length };
        // The death will be announced; until then the transfer stands still.
        let Some(pid) = Pid::from_raw(self.job.control(source).pid() as i32) else { return Step::Nothing };
        // SAFETY: the local regions are the receive's own memory, which belongs to it alone until it is finished.
        match unsafe { memory::read_regions(pid, &[remote], &local[..count]) } {
            Ok(()) => {}
            Err(CopyError::PeerGone { .. }) => return Step::Nothing,
            Err(CopyError::Forbidden { .. }) => {
                self.transfers.readable.insert(source, false);
                let incoming = &mut self.transfers.incoming[at];
                (incoming.way, incoming.taken) = (Way::Fragments, 0);
                self.descriptor(source, descriptor).advance(generation, State::Open, State::Stream);
                self.bells.touch(source);
                return Step::Moved;
            }
            // The sender gave the message up, and its buffer, during the copy. If not, the buffer was none.
            Err(_) if self.descriptor(source, descriptor).state(generation) != Some(State::Open) => {
                return self.lose(at);
            }
            Err(CopyError::BadAddress { .. } | CopyError::Other { .. }) => {
                return Step::Failed(Cause::BadAddress { peer: source });
            }
        }
        let taken = taken + length as u64;
        self.transfers.incoming[at].taken = taken;
        if taken == bytes { Step::Complete } else { Step::Moved }
    }

    /// Sender: looks after one outgoing message. Says whether it is off the list.
    fn attend(&mut self, at: usize) -> bool {
        let Outgoing { message, dest, descriptor, generation, piped, streaming, pipe, .. } =
            self.transfers.outgoing[at];
        match self.descriptor(self.me, descriptor).state(generation) {
            Some(State::Done) => {
                self.conclude(at);
                return true;
            }
            // The receiver has sent word why, which the next turn takes in, if it found room for it.
            Some(State::Refused) if !std::mem::replace(&mut self.transfers.outgoing[at].is_refused, true) => {
                self.outcomes.progressed = true;
            }
            Some(State::Refused) => {
                self.let_go(at);
                if !piped {
                    self.fail(message.token, Cause::PeerFailed { peer: dest, culprit: dest });
                }
                return true;
            }
            Some(State::Stream) if !streaming => {
                self.transfers.outgoing[at].streaming = true;
                self.pend_fragments(dest, message, handle_of(descriptor, generation), None);
            }
            Some(State::Announced | State::Open) if pipe.is_some() && !piped => self.fill_pipe(at),
            _ => {}
        }
        false
    }

    /// Sender: an application waits, perhaps for a message to be taken.
    pub(crate) fn press_receivers(&mut self) {
        for outgoing in self.transfers.outgoing.iter().filter(|outgoing| !outgoing.piped) {
            self.bells.press(outgoing.dest);
        }
    }

    /// Sender: the receiver has all bytes, or finds them without this rank.
    fn conclude(&mut self, at: usize) {
        let Outgoing { message, piped, .. } = self.transfers.outgoing[at];
        self.let_go(at);
        if !piped {
            self.finish(message.token);
        }
    }

    /// Sender: takes an outgoing message off the list and its descriptor and pipe out of use.
    fn let_go(&mut self, at: usize) {
        let outgoing = self.transfers.outgoing.swap_remove(at);
        if outgoing.streaming {
            self.drop_fragments(outgoing.dest, handle_of(outgoing.descriptor, outgoing.generation));
        }
        self.descriptor(self.me, outgoing.descriptor).free(outgoing.generation);
        if let Some(pipe) = outgoing.pipe {
            self.transfers.pipes_taken[pipe] = false;
        }
        self.outcomes.progressed = true;
    }

    /// Sender: fills its pipe as far as there is room. When all is in, the send is finished.
    fn fill_pipe(&mut self, at: usize) {
        let Outgoing { message, dest, descriptor, pipe, .. } = self.transfers.outgoing[at];
        let (memory, bytes) = (message.memory, message.memory.bytes());
        let base = self.job.pipe(self.me, pipe.expect("a transfer by pipe"));
        let chunk = pipe_chunk_bytes(bytes);
        loop {
            let shared = self.descriptor(self.me, descriptor);
            let filled = shared.filled.load(Ordering::Relaxed);
            let room = PIPE_BYTES - (filled - shared.taken.load(Ordering::Acquire));
            let length = room.min(bytes - filled).min(chunk - filled % chunk);
            if length == 0 {
                return self.bells.touch(dest);
            }
            let mut to = base.wrapping_add((filled % PIPE_BYTES) as usize);
            for piece in memory.cut(filled, length) {
                // SAFETY: the receiver has taken what was there; the piece is part of the send's own memory.
                unsafe { std::ptr::copy_nonoverlapping(piece.start, to, piece.bytes) };
                to = to.wrapping_add(piece.bytes);
            }
            shared.filled.store(filled + length, Ordering::Release);
            self.outcomes.progressed = true;
            if filled + length == bytes {
                let outgoing = &mut self.transfers.outgoing[at];
                (outgoing.piped, outgoing.lies_ready) = (true, true);
                self.bells.touch(dest);
                return self.finish(message.token);
            }
        }
    }

    /// Receiver: the next fragment; they come in order.
    pub(super) fn take_fragment(&mut self, source: Rank, header: &Header, payload: &[u8]) {
        // The receive may have failed meanwhile.
        let Some((memory, taken)) = self.next_fragment(source, header) else { return };
        let is_within = taken + payload.len() as u64 <= memory.bytes();
        assert!(is_within, "no more than was announced comes from rank {source}");
        // SAFETY: who posted the receive answers for its memory.
        unsafe { memory.scatter(taken, payload) };
        self.take_placed(source, header);
    }

    /// Where the next fragment of a message lies, and how many bytes came before it.
    fn next_fragment(&self, source: Rank, header: &Header) -> Option<(&Memory, u64)> {
        if header.flags & GRANTED != 0 {
            return self.transfers.awaited.next(source, header.extra);
        }
        let Incoming { posted, taken, .. } = &self.transfers.incoming[self.fragmented(source, header)?];
        Some((&posted.memory, *taken))
    }

    /// Which transfer a fragment belongs to that nobody had to ask for.
    fn fragmented(&self, source: Rank, header: &Header) -> Option<usize> {
        self.transfers.incoming.iter().position(|incoming| {
            (incoming.source, incoming.handle, incoming.way) == (source, header.extra, Way::Fragments)
        })
    }

    /// Where the payload of the next fragment of a transfer is to lie, if that is one piece of memory.
    pub(crate) fn place(&mut self, header: &Header) -> Option<&mut [u8]> {
        let source = Rank(header.source);
        let is_next = self.peer(source).incoming.next() == header.sequence;
        if header.kind != Kind::Fragment as u8 || !is_next {
            return None;
        }
        let (memory, taken) = self.next_fragment(source, header)?;
        let (start, length) = (memory.writable()?, header.bytes as usize);
        if taken + length as u64 > memory.bytes() {
            return None;
        }
        // SAFETY: who posted the receive answers for its memory, which is this transfer's alone until that has ended; nobody looks at what is behind `taken`.
        Some(unsafe { std::slice::from_raw_parts_mut(start.wrapping_add(taken as usize), length) })
    }

    /// The next fragment of a transfer lies in its place.
    pub(super) fn take_placed(&mut self, source: Rank, header: &Header) {
        let bytes = u64::from(header.bytes);
        if header.flags & GRANTED != 0 {
            let done = self.transfers.awaited.count(source, header.extra, bytes);
            return done.into_iter().for_each(|token| self.finish(token));
        }
        // The receive may have failed meanwhile.
        let Some(at) = self.fragmented(source, header) else { return };
        let incoming = &mut self.transfers.incoming[at];
        incoming.taken += bytes;
        if incoming.taken == incoming.bytes() {
            let done = self.transfers.incoming.swap_remove(at);
            let (descriptor, generation) = done.descriptor();
            self.descriptor(source, descriptor).advance(generation, State::Stream, State::Done);
            self.bells.touch(source);
            self.finish(done.posted.token);
        }
    }

    /// Gives up the transfers of an owner that failed.
    pub(super) fn drop_transfers(&mut self, owner: u32) {
        let is_its = |incoming: &Incoming| incoming.posted.token.owner == owner;
        while let Some(at) = self.transfers.incoming.iter().position(is_its) {
            let gone = self.transfers.incoming.swap_remove(at);
            let (descriptor, generation) = gone.descriptor();
            self.refuse_transfer(gone.source, descriptor, generation);
        }
        self.transfers.awaited.drop_of(owner);
        let is_its = |outgoing: &Outgoing| outgoing.message.token.owner == owner && !outgoing.piped;
        while let Some(at) = self.transfers.outgoing.iter().position(is_its) {
            self.let_go(at);
        }
    }

    /// Forgets what a rank that is gone will not take any more, and says which operations wait for it in vain: not
    /// those whose bytes it took before it went, or are all in the pipe.
    pub(super) fn transfers_in_vain(&mut self, rank: Rank) -> Vec<Token> {
        // It changes no state any more, but may have done so since this rank looked the last time.
        let is_over = |messages: &Messages, outgoing: &Outgoing| {
            let shared = messages.descriptor(messages.me, outgoing.descriptor);
            outgoing.dest == rank
                && (outgoing.piped || shared.state(outgoing.generation) == Some(State::Done))
        };
        while let Some(at) = self.transfers.outgoing.iter().position(|outgoing| is_over(self, outgoing)) {
            self.conclude(at);
        }
        let outgoing = self.transfers.outgoing.iter().filter(|outgoing| outgoing.dest == rank);
        let mut vain: Vec<_> = outgoing.map(|outgoing| outgoing.message.token).collect();
        let incoming = self.transfers.incoming.iter().filter(|incoming| incoming.source == rank);
        let is_lost = |incoming: &&Incoming| {
            !self.has_come(rank, incoming.descriptor().0, incoming.way, incoming.bytes())
        };
        vain.extend(incoming.filter(is_lost).map(|incoming| incoming.posted.token));
        let awaited = self.transfers.awaited.waits().filter(|(_, source)| *source == rank);
        vain.extend(awaited.map(|(token, _)| token));
        vain
    }
}
