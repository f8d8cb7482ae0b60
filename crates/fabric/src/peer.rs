//! What a rank knows of another one.

use crate::address::Place;
use crate::frame::Key;
use crate::hello::Nonce;
use crate::onesided::{Operation, Work};
use crate::outbox::{FIRST, Outbox};
use castell_transport::Down;
use std::collections::{BTreeMap, VecDeque};

/// Where the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing was sent yet.
    Apart,
    /// A hello was, or will be at this time; it is answered by then.
    Asking { next: u64, until: u64 },
    /// Both know who the other is.
    Open,
    /// For good.
    Over,
}

pub(crate) struct Peer {
    pub(crate) stage: Stage,
    pub(crate) place: Option<Place>,
    /// What the provider calls it.
    pub(crate) to: u64,
    /// Of what goes there, and of what comes from there, by its process's nonce.
    pub(crate) keys: Option<(Key, Key, Nonce)>,
    pub(crate) outbox: Option<Outbox>,
    /// The number of the next frame in order.
    pub(crate) expected: u32,
    /// Those that came before their turn.
    pub(crate) kept: BTreeMap<u32, Box<[u8]>>,
    /// How many it knows to be taken, and bytes that were since.
    pub(crate) told: u32,
    pub(crate) untold_bytes: usize,
    /// It is to be told by then.
    pub(crate) tell_at: u64,
    /// It is to be told now, or answered.
    pub(crate) owes_note: bool,
    pub(crate) owes_hello: bool,
    pub(crate) heard_at: u64,
    pub(crate) said_at: u64,
    /// When it took something last, or everything was taken.
    pub(crate) moved_at: u64,
    /// Messages that have come.
    pub(crate) delivered: u32,
    pub(crate) wants_room: bool,
    /// How the path ends, once all that has come is handed over.
    pub(crate) ending: Option<Down>,
    /// Somebody who knows says how; true from this time on.
    pub(crate) gone: Option<(Down, u64)>,
    /// The last frame is to be sent.
    pub(crate) must_leave: bool,
    /// There is something to do for it.
    pub(crate) is_queued: bool,
    pub(crate) operations: BTreeMap<u64, Operation>,
    pub(crate) works: VecDeque<Work>,
}

impl Peer {
    pub(crate) fn new() -> Peer {
        Peer {
            stage: Stage::Apart,
            place: None,
            to: u64::MAX,
            keys: None,
            outbox: None,
            expected: FIRST,
            kept: BTreeMap::new(),
            told: FIRST,
            untold_bytes: 0,
            tell_at: u64::MAX,
            owes_note: false,
            owes_hello: false,
            heard_at: 0,
            said_at: 0,
            moved_at: 0,
            delivered: 0,
            wants_room: false,
            ending: None,
            gone: None,
            must_leave: false,
            is_queued: false,
            operations: BTreeMap::new(),
            works: VecDeque::new(),
        }
    }

    /// Whether the path has ended, or is about to be told so.
    pub(crate) fn is_down(&self) -> bool {
        self.stage == Stage::Over || self.ending.is_some()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stage == Stage::Open && self.ending.is_none()
    }
}
