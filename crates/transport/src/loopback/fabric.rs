//! What the ranks of a loopback share: streams between them, exported memory, who is gone.

use super::stream::Stream;
use crate::{AccessError, Down, Header, RemoteKey, Token};
use castell_base::{Lent, Rank};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// The kind of an entry that is no message but the notice of a put.
const NOTICE: u8 = 0;

/// One rank's part.
pub(super) struct Station {
    /// By peer: what comes from there.
    pub(super) paths: Vec<Path>,
    pub(super) exported: Vec<Export>,
    /// One-sided operations of this rank that are put off to its next poll.
    pub(super) deferred: VecDeque<(Token, Operation)>,
}

/// What comes from one peer, and what is known of the path there.
pub(super) struct Path {
    /// Made when the peer connects.
    pub(super) stream: Option<Stream>,
    /// Messages that were handed over.
    pub(super) delivered: u32,
    /// The peer was refused a message of so many bytes.
    pub(super) refused_bytes: Option<usize>,
    /// There is room again at the peer.
    pub(super) has_room: bool,
    pub(super) down: Option<Down>,
    pub(super) is_told: bool,
}

impl Path {
    pub(super) fn has_news(&self) -> bool {
        let has_come = self.stream.as_ref().is_some_and(|stream| !stream.is_empty());
        !self.is_told && (self.down.is_some() || self.has_room || has_come)
    }
}

pub(super) struct Export {
    generation: u64,
    memory: Option<Lent>,
}

/// A one-sided operation of a rank.
#[derive(Clone, Copy)]
pub(super) enum Operation {
    Get { from: RemoteKey, at: u64, into: Lent },
    Put { from: Lent, to: RemoteKey, at: u64, notice: Option<u32> },
    FetchAdd { word: RemoteKey, at: u64, value: u64 },
    Swap { word: RemoteKey, at: u64, value: u64 },
}

impl Operation {
    pub(super) fn peer(&self) -> Rank {
        match self {
            Operation::Get { from: key, .. }
            | Operation::Put { to: key, .. }
            | Operation::FetchAdd { word: key, .. }
            | Operation::Swap { word: key, .. } => key.owner,
        }
    }
}

/// What a rank finds next in what a peer sent.
pub(super) enum Found {
    Message(Header),
    Notice(u32),
}

pub(super) struct Fabric {
    pub(super) stations: Vec<Station>,
}

impl Fabric {
    pub(super) fn new(ranks: u32, outstanding_max: usize) -> Fabric {
        let path = || Path {
            stream: None,
            delivered: 0,
            refused_bytes: None,
            has_room: false,
            down: None,
            is_told: false,
        };
        let station = |_| Station {
            paths: (0..ranks).map(|_| path()).collect(),
            exported: Vec::new(),
            deferred: VecDeque::with_capacity(outstanding_max),
        };
        Fabric { stations: (0..ranks).map(station).collect() }
    }

    pub(super) fn path(&mut self, at: Rank, peer: Rank) -> &mut Path {
        &mut self.stations[at.index()].paths[peer.index()]
    }

    /// Ends all paths of a rank, for the others.
    pub(super) fn end(&mut self, rank: Rank, why: Down) {
        for (other, station) in self.stations.iter_mut().enumerate() {
            if other != rank.index() {
                station.paths[rank.index()].down.get_or_insert(why);
            }
        }
    }

    /// Cuts the path between two ranks; what is under way is lost.
    pub(super) fn sever(&mut self, one: Rank, other: Rank) {
        for (at, peer) in [(one, other), (other, one)] {
            let path = self.path(at, peer);
            path.down.get_or_insert(Down::PathLost);
            if let Some(stream) = &mut path.stream {
                stream.clear();
            }
        }
    }

    /// Takes what is next at rank `at` from `peer`; says whom room has to be told.
    pub(super) fn take(&mut self, at: Rank, peer: Rank, payload: &mut [u8]) -> Option<(Found, Option<Rank>)> {
        let path = self.path(at, peer);
        let stream = path.stream.as_mut()?;
        let header = stream.pop(payload)?;
        let is_message = header.kind != NOTICE;
        path.delivered = path.delivered.wrapping_add(u32::from(is_message));
        let has_room = path.refused_bytes.is_some_and(|bytes| stream.has_room(bytes));
        if has_room {
            path.refused_bytes = None;
            self.path(peer, at).has_room = true;
        }
        let found = if is_message { Found::Message(header) } else { Found::Notice(header.extra as u32) };
        Some((found, has_room.then_some(peer)))
    }

    pub(super) fn export(&mut self, owner: Rank, memory: Lent, exports_max: usize) -> Option<RemoteKey> {
        let exported = &mut self.stations[owner.index()].exported;
        let free = exported.iter().position(|export| export.memory.is_none());
        let index = match free {
            Some(index) => index,
            None if exported.len() < exports_max => {
                exported.push(Export { generation: 0, memory: None });
                exported.len() - 1
            }
            None => return None,
        };
        let export = &mut exported[index];
        export.generation += 1;
        export.memory = Some(memory);
        Some(RemoteKey { owner, bytes: memory.bytes() as u64, cookie: [index as u64, export.generation] })
    }

    pub(super) fn withdraw(&mut self, key: &RemoteKey) {
        if self.exported(key).is_ok() {
            self.stations[key.owner.index()].exported[key.cookie[0] as usize].memory = None;
        }
    }

    /// The memory that a key names.
    pub(super) fn exported(&self, key: &RemoteKey) -> Result<Lent, AccessError> {
        let station = self.stations.get(key.owner.index()).ok_or(AccessError::Stale)?;
        let export = station.exported.get(key.cookie[0] as usize).ok_or(AccessError::Stale)?;
        match export.memory {
            Some(memory) if export.generation == key.cookie[1] && memory.bytes() as u64 == key.bytes => {
                Ok(memory)
            }
            _ => Err(AccessError::Stale),
        }
    }

    /// Carries an operation of rank `me` out.
    pub(super) fn perform(&mut self, me: Rank, operation: &Operation) -> Result<u64, AccessError> {
        let peer = operation.peer();
        if peer.index() >= self.stations.len() {
            return Err(AccessError::Stale);
        }
        if self.path(me, peer).down.is_some() {
            return Err(AccessError::Down);
        }
        match *operation {
            Operation::Get { from, at, into } => {
                let part = self.exported(&from)?.part(at, into.bytes() as u64);
                into.copy_from(part.ok_or(AccessError::OutOfBounds)?);
                Ok(0)
            }
            Operation::Put { from, to, at, notice } => {
                let part =
                    self.exported(&to)?.part(at, from.bytes() as u64).ok_or(AccessError::OutOfBounds)?;
                if let Some(notice) = notice {
                    self.notify(me, peer, notice)?;
                }
                part.copy_from(from);
                Ok(0)
            }
            Operation::FetchAdd { word, at, value } => {
                self.with_word(&word, at, |word| word.fetch_add(value, Ordering::AcqRel))
            }
            Operation::Swap { word, at, value } => {
                self.with_word(&word, at, |word| word.swap(value, Ordering::AcqRel))
            }
        }
    }

    fn with_word(
        &self,
        key: &RemoteKey,
        at: u64,
        access: impl FnOnce(&std::sync::atomic::AtomicU64) -> u64,
    ) -> Result<u64, AccessError> {
        let memory = self.exported(key)?;
        memory.part(at, 8).ok_or(AccessError::OutOfBounds)?;
        memory.word(at).map(access).ok_or(AccessError::Misaligned)
    }

    fn notify(&mut self, me: Rank, peer: Rank, notice: u32) -> Result<(), AccessError> {
        let stream = self.path(peer, me).stream.as_mut().expect("who has an endpoint has a stream");
        if !stream.has_room(0) {
            return Err(AccessError::Full);
        }
        stream.push(&Header { kind: NOTICE, extra: u64::from(notice), ..Header::default() }, &[]);
        Ok(())
    }
}
