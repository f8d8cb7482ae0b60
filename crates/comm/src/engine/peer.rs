//! What a rank knows of one other rank: the ways to it, and the state of the stream of messages each way.

use super::hold::{Holding, Kept};
use super::number::after;
use super::run::RunRef;
use crate::job::{Death, Job};
use crate::lane::{LANE_PAYLOAD_MAX, LaneSender};
use crate::queue::{Header, Producer};
use castell_base::Rank;
use castell_goal::op::Place;
use castell_goal::schedule::OpId;
use std::collections::{BTreeMap, VecDeque};

/// How a peer went that is no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Died(Death),
    Left,
}

/// A message that waits to be matched.
pub(super) struct Unexpected {
    pub(super) source: Rank,
    pub(super) body: Body,
}

/// Where an unexpected message's bytes are.
pub(super) enum Body {
    /// Up to 32 bytes, in place.
    Small(u8, [u8; 32]),
    /// Longer ones, copied out of the queue.
    Eager(Box<[u8]>),
    /// Still in the sender's memory.
    Announced { descriptor: u32, generation: u32, bytes: u64 },
    /// Sent by this rank to itself, too large to copy twice.
    Own { run: RunRef, op: OpId },
    /// Nowhere: the run that was to send it failed.
    Poison { culprit: Rank },
}

/// What an entry in the list of unexpected messages costs besides its payload, roughly. Bytes.
pub(super) const ENTRY_BYTES: u64 = 64;

impl Unexpected {
    pub(super) fn copy_of(source: Rank, payload: &[u8]) -> Unexpected {
        let body = if payload.len() <= 32 {
            let mut bytes = [0; 32];
            bytes[..payload.len()].copy_from_slice(payload);
            Body::Small(payload.len() as u8, bytes)
        } else {
            Body::Eager(payload.into())
        };
        Unexpected { source, body }
    }

    /// Bytes of this rank's memory that it holds.
    pub(super) fn held_bytes(&self) -> u64 {
        match &self.body {
            Body::Eager(payload) => ENTRY_BYTES + payload.len() as u64,
            _ => ENTRY_BYTES,
        }
    }
}

/// A message of a run that this rank has not started yet.
pub(super) struct Early {
    pub(super) header: Header,
    pub(super) payload: Box<[u8]>,
}

/// Something that could not be sent yet; later messages to the same peer queue up behind it.
pub(super) enum Pending {
    /// A send, put or get whose operation is not finished.
    Op { run: RunRef, op: OpId },
    /// A message of the protocol's own.
    Control { header: Header, payload: Box<[u8]> },
    /// The rest of a large message, from `offset`, that the receiver may not pull.
    Fragments { descriptor: u32, generation: u32, offset: u64 },
    /// The rest of the answer to a get.
    Answer(Answer),
}

/// What a get is answered with: `bytes` at `place` in the memory of `run`, of which `offset` bytes are sent.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) run: RunRef,
    pub(super) place: Place,
    pub(super) bytes: u64,
    pub(super) token: u64,
    pub(super) offset: u64,
}

impl Pending {
    /// The operation that is not finished before this is sent, if it is one's.
    pub(super) fn operation(&self) -> Option<(RunRef, OpId)> {
        match self {
            Pending::Op { run, op } => Some((*run, *op)),
            Pending::Control { .. } | Pending::Fragments { .. } | Pending::Answer(_) => None,
        }
    }
}

/// A numbered run that is going on and has this peer.
pub(super) struct ActiveRun {
    /// The word that its messages carry, less one.
    pub(super) number: u32,
    pub(super) run: RunRef,
}

pub(super) struct Peer {
    producer: Producer,
    lane: Option<LaneSender>,
    lane_tried: bool,
    /// The lane was full: until the peer answers, everything goes through its queue, which takes more at a time.
    bursting: bool,
    /// Something was sent since the peer's doorbell was last looked at.
    pub(super) unrung: bool,
    /// This rank waits until the peer takes something of it.
    pub(super) is_pressed: bool,
    next_send: u32,
    /// Sequence number of the next message from this peer.
    pub(super) next_receive: u32,
    /// Messages that overtook others on another path.
    pub(super) stash: BTreeMap<u32, (Header, Box<[u8]>)>,
    pub(super) pending: VecDeque<Pending>,
    /// The pairwise number of the next run with this peer that is started here.
    pub(super) runs: u32,
    pub(super) active: Vec<ActiveRun>,
    /// By the number of the run that they are for, in order.
    pub(super) early: BTreeMap<u32, Vec<Early>>,
    /// Numbers of runs that the peer gave up before they were started here, and who was to blame.
    pub(super) aborted: Vec<(u32, Rank)>,
    /// Set once all that it sent has been taken in.
    pub(super) gone: Option<Gone>,
    /// Whether this rank asked the peer to keep its messages, see `hold.rs`.
    pub(super) holding: Holding,
    /// What this rank keeps because the peer asked for it.
    pub(super) kept: Option<Box<Kept>>,
}

impl Peer {
    pub(super) fn new(job: &Job, me: Rank, rank: Rank) -> Peer {
        // SAFETY: the area lies in the job's segment, which the engine keeps mapped for as long as it has peers; this
        // process is the only one that sends as `me`, and makes one producer a peer.
        let producer = unsafe { Producer::attach(job.queue(rank), job.geometry(), job.intents(), me, rank) };
        Peer {
            producer,
            lane: None,
            lane_tried: false,
            bursting: false,
            unrung: false,
            is_pressed: false,
            next_send: 0,
            next_receive: 0,
            stash: BTreeMap::new(),
            pending: VecDeque::new(),
            runs: 0,
            active: Vec::new(),
            early: BTreeMap::new(),
            aborted: Vec::new(),
            gone: None,
            holding: Holding::No,
            kept: None,
        }
    }

    /// Tries once to get a lane to the peer; without one, everything goes through its queue.
    pub(super) fn bind_lane(&mut self, job: &Job, me: Rank, rank: Rank) {
        if self.lane_tried {
            return;
        }
        self.lane_tried = true;
        // SAFETY: the lane pool lies in the job's segment, which outlives the peer table.
        self.lane = unsafe { LaneSender::claim(job.lane_pool(rank), me) };
    }

    /// Hands a message over; false if there is no room now. Nothing is reordered: the receiver sorts by sequence.
    #[inline]
    pub(super) fn push(&mut self, header: &mut Header, payload: &[u8]) -> bool {
        header.sequence = self.next_send;
        header.bytes = payload.len() as u32;
        let by_lane = payload.len() <= LANE_PAYLOAD_MAX
            && !self.bursting
            && self.lane.as_mut().is_some_and(|lane| lane.try_send(header, payload));
        self.bursting |= !by_lane;
        let sent = by_lane || self.producer.try_insert(header, payload).is_ok();
        self.next_send = self.next_send.wrapping_add(u32::from(sent));
        sent
    }

    /// The peer's next message in order has come.
    #[inline]
    pub(super) fn advance_receive(&mut self) {
        self.next_receive = self.next_receive.wrapping_add(1);
        self.bursting = false;
    }

    /// The pairwise number of a run that starts here.
    pub(super) fn next_number(&mut self) -> u32 {
        let number = self.runs;
        self.runs = after(number);
        number
    }

    /// The run here that carries `number`.
    #[inline]
    pub(super) fn run_of(&self, number: u32) -> Option<RunRef> {
        self.active.iter().find(|active| active.number == number).map(|active| active.run)
    }
}
