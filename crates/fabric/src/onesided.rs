//! One-sided access: who wants something of exported memory asks its owner, who looks whether the key is good, and does it.
//!
//! A get names memory that the owner may write to, where the provider can do that: the owner writes all of it there and says so behind.
//! Where it can't, the owner sends pieces. So no key to exported memory ever opens it to the network, a wrong one harms no path, and what
//! a provider lacks costs time only. Puts, fetching adds and swaps are frames, and done by the owner when it looks.

use crate::frame::Kind;
use crate::links::{Links, News};
use crate::port::{Contexts, NotBegun, Registered};
use castell_base::{Lent, Rank};
use castell_transport::{AccessError, Down, Header, RemoteKey, Token};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Operations that a path has under way at most.
pub(crate) const OUTSTANDING_MAX: usize = 64;
/// Before what is put.
const ASK_BYTES: usize = RemoteKey::BYTES + 32;
/// Room for a question and a bit of what is put.
pub(crate) const ASK_BYTES_MAX: usize = 1024;
/// Writes to peers that are under way at most.
const WRITES_MAX: usize = 64;
/// The longest write.
const WRITE_BYTES_MAX: usize = 1 << 30;
/// Memory that is exported at a time at most.
const EXPORTS_MAX: usize = 1 << 20;
/// What is shorter comes in pieces: registering takes time, too.
pub(crate) const WRITTEN_FROM_BYTES: usize = 16 * 1024;

const GET: u32 = 1;
const PUT: u32 = 2;
const ADD: u32 = 3;
const SWAP: u32 = 4;

/// What this rank has asked a peer for.
pub(crate) struct Operation {
    pub(crate) token: Token,
    into: Option<Lent>,
    filled: usize,
    /// Open to the peer as long as the operation lasts.
    _open: Option<Registered>,
}

/// What a peer is to be given or sent.
pub(crate) enum Work {
    Give {
        operation: u64,
        export: u64,
        memory: Lent,
        sent: usize,
        remote: Option<(u64, u64)>,
    },
    Put {
        operation: u64,
        key: RemoteKey,
        at: u64,
        from: Lent,
        sent: usize,
        notice: Option<u32>,
        is_begun: bool,
    },
    Answer {
        operation: u64,
        outcome: Result<u64, AccessError>,
    },
}

struct Export {
    memory: Lent,
    secret: u64,
    registered: Option<Registered>,
}

/// A write to a peer.
struct Write {
    rank: Rank,
    export: u64,
}

/// The memory that this rank exports.
pub(crate) struct Exports {
    by_id: BTreeMap<u64, Export>,
    next: u64,
    next_operation: u64,
    writes: Vec<Option<Write>>,
    contexts: Contexts,
}

impl Exports {
    pub(crate) fn new() -> Exports {
        Exports {
            by_id: BTreeMap::new(),
            next: 1,
            next_operation: 0,
            writes: (0..WRITES_MAX).map(|_| None).collect(),
            contexts: Contexts::new((0..WRITES_MAX as u64).map(|index| 4 << 56 | index)),
        }
    }

    /// The memory that a key of this rank's names.
    fn find(&self, me: Rank, key: &RemoteKey) -> Option<(u64, Lent)> {
        let export = self.by_id.get(&key.cookie[0]).filter(|export| export.secret == key.cookie[1])?;
        let is_it = key.owner == me && key.bytes == export.memory.bytes() as u64;
        is_it.then_some((key.cookie[0], export.memory))
    }

    fn is_written_from(&self, id: u64) -> bool {
        self.writes.iter().flatten().any(|write| write.export == id)
    }
}

/// A question, as it travels.
struct Ask {
    key: RemoteKey,
    at: u64,
    bytes: u64,
    words: [u64; 2],
}

impl Ask {
    fn to_bytes(&self) -> [u8; ASK_BYTES] {
        let mut bytes = [0; ASK_BYTES];
        bytes[..RemoteKey::BYTES].copy_from_slice(&self.key.to_bytes());
        let words = [self.at, self.bytes, self.words[0], self.words[1]];
        for (to, word) in bytes[RemoteKey::BYTES..].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; ASK_BYTES]) -> Ask {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let key = RemoteKey::from_bytes(*bytes.first_chunk().expect("a key"));
        Ask { key, at: word(32), bytes: word(40), words: [word(48), word(56)] }
    }
}

/// Bytes of memory that is lent for this.
fn bytes_of(memory: &Lent, at: usize, bytes: usize) -> &[u8] {
    let part = memory.part(at as u64, bytes as u64).expect("inside the memory");
    // SAFETY: lent for reading; who writes to it meanwhile gets what it asks for, as with any one-sided access.
    if bytes == 0 { &[] } else { unsafe { std::slice::from_raw_parts(part.address(), bytes) } }
}

fn copy_into(memory: Lent, at: usize, from: &[u8]) {
    let part = memory.part(at as u64, from.len() as u64).expect("inside the memory");
    // SAFETY: so many bytes inside memory that is lent for being written to.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), part.address(), from.len()) };
}

impl Links {
    pub(crate) fn export(&mut self, memory: Lent) -> Result<RemoteKey, AccessError> {
        if self.exports.by_id.len() >= EXPORTS_MAX {
            return Err(AccessError::Full);
        }
        let secret = castell_host::random::random_bytes().map_err(|_| AccessError::Full)?;
        let registered = match self.writes_to_peers && memory.bytes() > 0 {
            true => self.port.lend(memory.address(), memory.bytes()).map_err(|_| AccessError::Full)?,
            false => None,
        };
        let id = self.exports.next;
        self.exports.next += 1;
        let export = Export { memory, secret: u64::from_le_bytes(secret), registered };
        let key = RemoteKey { owner: self.me, bytes: memory.bytes() as u64, cookie: [id, export.secret] };
        self.exports.by_id.insert(id, export);
        Ok(key)
    }

    /// Ends a key; false: a write from the memory is under way, look again.
    pub(crate) fn withdraw(&mut self, key: &RemoteKey) -> bool {
        let Some((id, _)) = self.exports.find(self.me, key) else { return true };
        for peer in self.peers.iter_mut().flatten() {
            for work in &mut peer.works {
                if let Work::Give { operation, export, .. } = *work
                    && export == id
                {
                    *work = Work::Answer { operation, outcome: Err(AccessError::Stale) };
                }
            }
        }
        if self.exports.is_written_from(id) {
            return false;
        }
        self.exports.by_id.remove(&id);
        true
    }

    /// Where an operation can begin: its number.
    fn begin(&mut self, to: Rank) -> Result<u64, AccessError> {
        if self.peer(to).is_down() {
            return Err(AccessError::Down);
        }
        if !self.peer(to).is_open() {
            self.ask(to);
            return Err(AccessError::Full);
        }
        let peer = self.peer(to);
        let has_room = peer.outbox.as_ref().is_some_and(|outbox| outbox.has_room(ASK_BYTES));
        if peer.operations.len() >= OUTSTANDING_MAX || !has_room {
            return Err(AccessError::Full);
        }
        self.exports.next_operation += 1;
        Ok(self.exports.next_operation)
    }

    fn put_question(&mut self, to: Rank, (what, flags): (u32, u8), operation: u64, ask: &Ask) {
        let header = Header { tag: what, flags, extra: operation, ..Header::default() };
        let has_gone = self.push(to, Kind::Ask, header, [&ask.to_bytes(), &[]]);
        debug_assert!(has_gone, "there was room");
    }

    pub(crate) fn get(
        &mut self,
        to: Rank,
        from: &RemoteKey,
        at: u64,
        into: Lent,
        token: Token,
    ) -> Result<(), AccessError> {
        let operation = self.begin(to)?;
        let is_large = self.writes_to_peers && into.bytes() >= WRITTEN_FROM_BYTES;
        let opened = is_large.then(|| self.port.open_to_peers(into.address(), into.bytes()).ok()).flatten();
        let words = opened.as_ref().map_or([0; 2], |open| [open.remote_address(), open.key()]);
        let ask = Ask { key: *from, at, bytes: into.bytes() as u64, words };
        self.put_question(to, (GET, u8::from(opened.is_some())), operation, &ask);
        let made = Operation { token, into: Some(into), filled: 0, _open: opened };
        self.peer(to).operations.insert(operation, made);
        Ok(())
    }

    pub(crate) fn put(
        &mut self,
        to: Rank,
        from: Lent,
        (key, at): (&RemoteKey, u64),
        notice: Option<u32>,
        token: Token,
    ) -> Result<(), AccessError> {
        let operation = self.begin(to)?;
        let work = Work::Put { operation, key: *key, at, from, sent: 0, notice, is_begun: false };
        let peer = self.peer(to);
        peer.operations.insert(operation, Operation { token, into: None, filled: 0, _open: None });
        peer.works.push_back(work);
        self.enqueue(to);
        Ok(())
    }

    pub(crate) fn atomic(
        &mut self,
        to: Rank,
        is_swap: bool,
        (word, at): (&RemoteKey, u64),
        value: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        let operation = self.begin(to)?;
        let ask = Ask { key: *word, at, bytes: 8, words: [value, 0] };
        self.put_question(to, (if is_swap { SWAP } else { ADD }, 0), operation, &ask);
        self.peer(to).operations.insert(operation, Operation { token, into: None, filled: 0, _open: None });
        Ok(())
    }

    /// A peer asks for something.
    pub(crate) fn is_asked(&mut self, rank: Rank, header: &Header, payload: &[u8]) {
        let too_many = self.peer(rank).works.len() > 2 * OUTSTANDING_MAX;
        let Some((ask, data)) = payload.split_first_chunk::<ASK_BYTES>().filter(|_| !too_many) else {
            self.counters.garbled += 1;
            return self.ends(rank, Down::PathLost);
        };
        let (ask, operation) = (Ask::from_bytes(ask), header.extra);
        let found = self.exports.find(self.me, &ask.key).ok_or(AccessError::Stale);
        let found = found.and_then(|(export, memory)| {
            memory.part(ask.at, ask.bytes).map(|part| (export, part)).ok_or(AccessError::OutOfBounds)
        });
        let work = match (header.tag, found) {
            (GET, Ok((export, memory))) => {
                let remote =
                    (header.flags & 1 != 0 && self.writes_to_peers).then_some((ask.words[0], ask.words[1]));
                Work::Give { operation, export, memory, sent: 0, remote }
            }
            (PUT, found) => {
                let (offset, is_first) = (ask.words[0], ask.words[0] == 0);
                let is_last = offset.checked_add(data.len() as u64).is_none_or(|end| end >= ask.bytes);
                let found = found.and_then(|(_, memory)| {
                    memory.part(offset, data.len() as u64).ok_or(AccessError::OutOfBounds)
                });
                match found {
                    Ok(part) => copy_into(part, 0, data),
                    Err(error) if is_first => {
                        return self.answer(rank, Work::Answer { operation, outcome: Err(error) });
                    }
                    Err(_) => return,
                }
                if !is_last {
                    return;
                }
                if header.flags & 1 != 0 {
                    self.news.push_back(News::Notified(rank, ask.words[1] as u32));
                }
                Work::Answer { operation, outcome: Ok(0) }
            }
            (ADD | SWAP, Ok((_, memory))) => {
                let outcome = match memory.word(0) {
                    None => Err(AccessError::Misaligned),
                    Some(word) if header.tag == ADD => Ok(word.fetch_add(ask.words[0], Ordering::AcqRel)),
                    Some(word) => Ok(word.swap(ask.words[0], Ordering::AcqRel)),
                };
                Work::Answer { operation, outcome }
            }
            (_, Err(error)) => Work::Answer { operation, outcome: Err(error) },
            (_, Ok(_)) => Work::Answer { operation, outcome: Err(AccessError::Unsupported) },
        };
        self.answer(rank, work);
    }

    fn answer(&mut self, rank: Rank, work: Work) {
        self.peer(rank).works.push_back(work);
        self.enqueue(rank);
    }

    /// A piece of what was asked for.
    pub(crate) fn takes_piece(&mut self, rank: Rank, header: &Header, payload: &[u8]) {
        let Some(operation) = self.peer(rank).operations.get_mut(&header.extra) else { return };
        let filled = operation.filled;
        match operation.into.filter(|into| into.part(filled as u64, payload.len() as u64).is_some()) {
            Some(into) => {
                copy_into(into, filled, payload);
                operation.filled += payload.len();
            }
            None => {
                self.counters.garbled += 1;
                self.ends(rank, Down::PathLost);
            }
        }
    }

    /// What was asked for is done.
    pub(crate) fn has_ended(&mut self, rank: Rank, header: &Header, payload: &[u8]) {
        let value = payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let outcome = match header.flags {
            0 => Ok(value),
            1 => Err(AccessError::OutOfBounds),
            2 => Err(AccessError::Misaligned),
            3 => Err(AccessError::Stale),
            _ => Err(AccessError::Unsupported),
        };
        // Dropped before it is told: nobody writes to the memory any more.
        let Some(token) = self.peer(rank).operations.remove(&header.extra).map(|operation| operation.token)
        else {
            return;
        };
        self.peer(rank)
            .works
            .retain(|work| !matches!(work, Work::Put { operation, .. } if *operation == header.extra));
        self.news.push_back(News::Completed(token, outcome));
    }

    /// A write to a peer has ended.
    pub(crate) fn write_has_ended(&mut self, index: usize, is_fine: bool) {
        let Some(write) = self.exports.writes[index].take() else { return };
        if is_fine { self.enqueue(write.rank) } else { self.ends(write.rank, Down::PathLost) }
    }

    /// Does for a peer what there is room for.
    pub(crate) fn work_for(&mut self, rank: Rank) {
        while let Some(mut work) = self.peer(rank).works.pop_front() {
            let is_done = match &mut work {
                Work::Answer { operation, outcome } => self.say_done(rank, *operation, *outcome),
                Work::Give { operation, export, memory, sent, remote: Some(remote) } => {
                    self.write_to(rank, (*export, *memory), sent, *remote)
                        && self.say_done(rank, *operation, Ok(0))
                }
                Work::Give { operation, memory, sent, remote: None, .. } => {
                    self.send_pieces(rank, *operation, *memory, sent)
                        && self.say_done(rank, *operation, Ok(0))
                }
                Work::Put { operation, key, at, from, sent, notice, is_begun } => {
                    self.send_put(rank, *operation, (key, *at), (*from, *notice), (sent, is_begun))
                }
            };
            if !is_done {
                return self.peer(rank).works.push_front(work);
            }
        }
    }

    fn say_done(&mut self, rank: Rank, operation: u64, outcome: Result<u64, AccessError>) -> bool {
        let flags = match outcome {
            Ok(_) => 0,
            Err(AccessError::OutOfBounds) => 1,
            Err(AccessError::Misaligned) => 2,
            Err(AccessError::Stale) => 3,
            Err(_) => 4,
        };
        let header = Header { flags, extra: operation, ..Header::default() };
        self.push(rank, Kind::Done, header, [&outcome.unwrap_or(0).to_le_bytes(), &[]])
    }

    /// Writes the rest to a peer's memory; whether all of it has been handed over.
    fn write_to(
        &mut self,
        rank: Rank,
        (export, memory): (u64, Lent),
        sent: &mut usize,
        remote: (u64, u64),
    ) -> bool {
        let bytes_max = WRITE_BYTES_MAX.min(self.write_bytes_max);
        while *sent < memory.bytes() {
            let Some(index) = self.exports.writes.iter().position(Option::is_none) else { return false };
            let part = bytes_of(&memory, *sent, bytes_max.min(memory.bytes() - *sent));
            let to = self.peer(rank).to;
            let registered = self.exports.by_id.get(&export).and_then(|export| export.registered.as_ref());
            let context = self.exports.contexts.at(index);
            let (from, there) =
                ((part.as_ptr(), part.len(), registered), (remote.0 + *sent as u64, remote.1));
            // SAFETY: the memory is exported until no write from it is under way, and registered then if need be.
            match unsafe { self.port.write(to, from, there, context) } {
                Ok(()) => {
                    self.exports.writes[index] = Some(Write { rank, export });
                    *sent += part.len();
                }
                Err(NotBegun::Again) => return false,
                Err(NotBegun::Failed(error)) => {
                    self.trouble = Some(self.port.explain(error));
                    self.ends(rank, Down::PathLost);
                    return false;
                }
            }
        }
        true
    }

    fn send_pieces(&mut self, rank: Rank, operation: u64, memory: Lent, sent: &mut usize) -> bool {
        while *sent < memory.bytes() {
            let piece = bytes_of(&memory, *sent, self.settings.message_bytes_max.min(memory.bytes() - *sent));
            let header = Header { extra: operation, ..Header::default() };
            if !self.push(rank, Kind::Piece, header, [piece, &[]]) {
                return false;
            }
            *sent += piece.len();
        }
        true
    }

    fn send_put(
        &mut self,
        rank: Rank,
        operation: u64,
        (key, at): (&RemoteKey, u64),
        (from, notice): (Lent, Option<u32>),
        (sent, is_begun): (&mut usize, &mut bool),
    ) -> bool {
        let most = self.settings.message_bytes_max.max(ASK_BYTES_MAX) - ASK_BYTES;
        while *sent < from.bytes() || !*is_begun {
            let data = bytes_of(&from, *sent, most.min(from.bytes() - *sent));
            let words = [*sent as u64, u64::from(notice.unwrap_or(0))];
            let ask = Ask { key: *key, at, bytes: from.bytes() as u64, words };
            let header =
                Header { tag: PUT, flags: u8::from(notice.is_some()), extra: operation, ..Header::default() };
            if !self.push(rank, Kind::Ask, header, [&ask.to_bytes(), data]) {
                return false;
            }
            (*sent, *is_begun) = (*sent + data.len(), true);
        }
        true
    }
}
