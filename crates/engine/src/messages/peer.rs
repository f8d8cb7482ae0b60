//! What a rank knows of one other rank: the way to it, the state of the stream of messages each way, and the channels that
//! the two have with each other.

use super::memory::Memory;
use super::path::{Connections, Way};
use super::token::{Channel, Token};
use super::wire::Kind;
use crate::number::after;
use castell_base::{Rank, Tag};
use castell_shm::job::Death;
use castell_transport::{Header, Reorder};
use std::collections::{BTreeMap, VecDeque};

/// How a peer went that is no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Died(Death),
    Left,
}

/// A message that waits to be matched.
pub(super) struct Unexpected {
    pub(super) source: Rank,
    pub(super) tag: Tag,
    pub(super) body: Body,
}

/// Where an unexpected message's bytes are.
pub(super) enum Body {
    /// Up to 32 bytes, in place.
    Small(u8, [u8; 32]),
    /// Longer ones, copied out of the queue.
    Eager(Box<[u8]>),
    /// Still in the sender's memory, and announced by a descriptor.
    Announced(Announced),
    /// Still with the sender, which waits for leave to send it.
    Requested { request: u64, bytes: u64 },
    /// Sent by this rank to itself, too large to copy twice.
    Own { token: Token, memory: Memory },
    /// Nowhere: who was to send it failed.
    Tombstone { culprit: Rank },
}

/// What an announcement says.
#[derive(Clone, Copy)]
pub(super) struct Announced {
    pub(super) descriptor: u32,
    pub(super) generation: u32,
    pub(super) bytes: u64,
}

/// What an entry in the list of unexpected messages costs besides its payload, roughly. Bytes.
const ENTRY_BYTES: u64 = 64;

impl Unexpected {
    pub(super) fn copy_of(source: Rank, tag: Tag, payload: &[u8]) -> Unexpected {
        let body = if payload.len() <= 32 {
            let mut bytes = [0; 32];
            bytes[..payload.len()].copy_from_slice(payload);
            Body::Small(payload.len() as u8, bytes)
        } else {
            Body::Eager(payload.into())
        };
        Unexpected { source, tag, body }
    }

    /// Bytes of this rank's memory that it holds.
    pub(super) fn held_bytes(&self) -> u64 {
        match &self.body {
            Body::Eager(payload) => ENTRY_BYTES + payload.len() as u64,
            _ => ENTRY_BYTES,
        }
    }
}

/// What a message costs that is kept, as [`Unexpected::held_bytes`] counts it.
pub(super) fn cost(header: &Header, payload: &[u8]) -> u64 {
    let is_copied = header.kind != Kind::Announce as u8 && payload.len() > 32;
    ENTRY_BYTES + if is_copied { payload.len() as u64 } else { 0 }
}

/// A message for a channel that this rank has not opened yet.
pub(super) struct Early {
    pub(super) header: Header,
    pub(super) payload: Box<[u8]>,
}

/// A message on its way out.
#[derive(Clone, Copy)]
pub(crate) struct Outbound {
    pub(super) kind: Kind,
    /// As in the header; so are the next three.
    pub(super) flags: u8,
    /// The channel's number with the receiver; 0: none.
    pub(super) number: u32,
    pub(super) tag: Tag,
    pub(super) extra: u64,
    pub(super) token: Token,
    pub(super) memory: Memory,
    /// How much of it has gone out, if it goes in several messages.
    pub(super) sent: u64,
    /// The request that was granted for it.
    pub(super) granted: Option<u64>,
}

impl Outbound {
    /// A message that meets a receive by its source and tag.
    #[inline]
    pub(crate) fn tagged(token: Token, number: u32, tag: Tag, memory: Memory) -> Outbound {
        Outbound { kind: Kind::Eager, flags: 0, number, tag, extra: 0, token, memory, sent: 0, granted: None }
    }

    /// The same as another kind of message, which meets no receive; `flags` and `extra` as the kind says.
    pub(crate) fn of_kind(self, kind: Kind, flags: u8, extra: u64) -> Outbound {
        Outbound { kind, flags, extra, ..self }
    }

    fn waits_for_room(&self) -> bool {
        match self.kind {
            Kind::Fragment => self.granted.is_some(),
            kind => kind != Kind::GetReply,
        }
    }
}

/// Something that could not be sent yet; later messages to the same peer queue up behind it.
pub(super) enum Pending {
    /// A message of somebody's, which is not finished. `owned`: its memory, if that is a copy.
    Message { message: Outbound, owned: Option<Box<[u8]>> },
    /// A message of the protocol's own.
    Control { header: Header, payload: Box<[u8]> },
}

impl Pending {
    /// The operation that is not finished before this has gone out. (Who has announced a message waits for more than that, and for
    /// the answer to a get waits somebody else.)
    pub(super) fn token(&self) -> Option<Token> {
        match self {
            Pending::Message { message, .. } if message.waits_for_room() => Some(message.token),
            _ => None,
        }
    }
}

/// A channel with one peer.
pub(super) struct Open {
    /// The number that its messages carry, less one.
    pub(super) number: u32,
    pub(super) channel: Channel,
    /// Messages that wait for a receive that may never come.
    pub(super) unexpected: u32,
}

pub(super) struct Peer {
    pub(super) way: Way,
    /// What comes from this peer, in the order in which it was sent.
    pub(super) incoming: Reorder,
    pub(super) pending: VecDeque<Pending>,
    /// The pairwise number of the next channel with this peer that is opened here.
    pub(super) channels: u32,
    pub(super) open: Vec<Open>,
    /// By the number of the channel that they are for, in order.
    pub(super) early: BTreeMap<u32, Vec<Early>>,
    /// Numbers of channels that the peer gave up before they were opened here, and who was to blame.
    pub(super) aborted: Vec<(u32, Rank)>,
    /// Set once all that it sent has been taken in.
    pub(super) gone: Option<Gone>,
    /// Whether this rank asked the peer to ask before it sends, see `flow.rs`.
    pub(super) is_held: bool,
    /// Whether the peer asked this rank for that.
    pub(super) holds: bool,
}

impl Peer {
    pub(super) fn new(connections: &mut Connections, rank: Rank) -> Peer {
        Peer {
            way: Way::new(connections, rank),
            incoming: Reorder::default(),
            pending: VecDeque::new(),
            channels: 0,
            open: Vec::new(),
            early: BTreeMap::new(),
            aborted: Vec::new(),
            gone: None,
            is_held: false,
            holds: false,
        }
    }

    /// As after so many channels with the peer, and so many messages each way. Before the first ones.
    pub(super) fn grow_old(&mut self, channels: u32, messages: u32) {
        (self.channels, self.incoming) = (channels, Reorder::starting_at(messages));
        self.way.grow_old(messages);
    }

    /// The pairwise number of a channel that is opened here.
    pub(super) fn next_number(&mut self) -> u32 {
        let number = self.channels;
        self.channels = after(number);
        number
    }

    /// The channel here that carries `number`.
    #[inline]
    pub(super) fn channel(&mut self, number: u32) -> Option<&mut Open> {
        self.open.iter_mut().find(|open| open.number == number)
    }
}
