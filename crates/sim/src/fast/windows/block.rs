//! What a block of neighbouring ranks keeps.

use super::event::Waiting;
use crate::fast::flat::{Flat, JOINS, Kind, LAST, NONE, Shape, TARGET};
use crate::fast::slot::{Channels, Slot};
use castell_matching::Matcher;
use std::collections::HashMap;

/// When a processor, and an interface in both directions, are free.
#[derive(Clone, Copy, Default)]
pub(super) struct Clock {
    pub cpu: u64,
    pub send: u64,
    pub receive: u64,
}

/// A rank of a block.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub shape: u32,
    /// Its first counter; the next is `stride` further.
    slot: u32,
    channel: u32,
    /// Ranks of this shape in the block.
    stride: u32,
}

impl Place {
    #[inline(always)]
    pub fn slot(&self, slot: u32) -> usize {
        (self.slot + slot * self.stride) as usize
    }

    #[inline(always)]
    pub fn channel(&self, channel: u32) -> usize {
        (self.channel + channel * self.stride) as usize
    }
}

/// A send that waits for its receive at a rank that matches by search: sender and operation.
pub(super) type Sent = (u32, u32);

pub(super) struct Block<S> {
    /// Its first rank.
    pub first: u32,
    pub places: Vec<Place>,
    /// Each rank's processors and interfaces.
    pub clocks: Vec<Clock>,
    pub slots: Vec<S>,
    pub channels: Channels,
    pub matchers: HashMap<u32, Matcher<u32, Sent>>,
    pub waiting: Waiting,
    pub lines: Lines,
    /// Number of the first operation that waits for nothing.
    pub first_root: u64,
    /// When each rank's last operation has ended, and its messages so far; under the rule of ranks.
    pub ends: Vec<u64>,
    pub sent: Vec<u32>,
}

impl<S: Slot> Block<S> {
    /// `known` has room for each shape, and keeps in it what blocks before have left there.
    pub fn new(
        flat: &Flat,
        first: u32,
        ranks: u32,
        first_root: u64,
        by_rank: bool,
        known: &mut [(u32, u32)],
    ) -> Block<S> {
        let members = &flat.members[first as usize..][..ranks as usize];
        let mut places: Vec<Place> = Vec::with_capacity(members.len());
        for (member, at) in members.iter().zip(0..) {
            // The first of the shape's ranks in this block counts them.
            let seen = &mut known[member.shape as usize];
            if seen.0 != first {
                *seen = (first, at);
            }
            let one = seen.1;
            places.push(Place { shape: member.shape, slot: 0, channel: 0, stride: 0 });
            let index = places[one as usize].stride;
            places[one as usize].stride += 1;
            places[at as usize].slot = index;
        }
        let (mut slots, mut channels) = (Vec::new(), 0);
        for at in 0..places.len() {
            let Place { shape, slot: index, .. } = places[at];
            let one = places[known[shape as usize].1 as usize];
            let kind = &flat.shapes[shape as usize];
            if index > 0 {
                let (slot, channel) = (one.slot + index, one.channel + index);
                places[at] = Place { shape, slot, channel, stride: one.stride };
                continue;
            }
            (places[at].slot, places[at].channel) = (slots.len() as u32, channels);
            channels += kind.channels * one.stride;
            begin(&mut slots, flat, kind, one.stride as usize);
        }
        let of_ranks = if by_rank { members.len() } else { 0 };
        Block {
            first,
            places,
            clocks: vec![Clock::default(); members.len() * flat.lanes as usize],
            slots,
            channels: Channels::new(channels as usize),
            matchers: HashMap::new(),
            waiting: Waiting::new(),
            lines: Lines::default(),
            first_root,
            ends: vec![0; of_ranks],
            sent: vec![0; of_ranks],
        }
    }

    /// A block that has one rank at a time; [`Block::become_rank`] says which.
    pub fn of_one(flat: &Flat) -> Block<S> {
        Block {
            first: 0,
            places: vec![Place { shape: 0, slot: 0, channel: 0, stride: 1 }],
            clocks: vec![Clock::default(); flat.lanes as usize],
            slots: Vec::new(),
            channels: Channels::new(0),
            matchers: HashMap::new(),
            waiting: Waiting::new(),
            lines: Lines::default(),
            first_root: 0,
            ends: vec![0],
            sent: vec![0],
        }
    }

    /// Begins with a rank. `slots` are its shape's counters before the run.
    pub fn become_rank(&mut self, flat: &Flat, rank: u32, slots: &[S]) {
        let shape = flat.members[rank as usize].shape;
        (self.first, self.places[0].shape) = (rank, shape);
        self.clocks.fill(Clock::default());
        self.slots.clear();
        self.slots.extend_from_slice(slots);
        self.channels = Channels::new(flat.shapes[shape as usize].channels as usize);
        (self.ends[0], self.sent[0]) = (0, 0);
    }

    /// Whether no receive waits that matches by search or in a channel, and no message for one; and nothing will. As many messages
    /// have come as there are receives.
    pub fn is_at_peace(&mut self) -> bool {
        let searched = self.matchers.values().all(|matcher| matcher.posted_len() == 0);
        self.matchers.clear();
        searched && self.channels.is_empty()
    }

    /// Whether nothing waits for a message, and no message waits.
    pub fn is_done(&self, flat: &Flat) -> bool {
        let searched = self.matchers.values().all(|m| m.posted_len() + m.unexpected_len() == 0);
        searched
            && self.channels.is_empty()
            && self.places.iter().all(|place| {
                let shape = &flat.shapes[place.shape as usize];
                let ops = &flat.ops[shape.first_op as usize..][..shape.ops as usize];
                let mut single = ops.iter().filter(|op| op.kind == Kind::Receive && op.partner == NONE);
                shape.wild || single.all(|op| self.slots[place.slot(op.slot)].is_received())
            })
    }

    /// When a rank is done.
    pub fn end(&self, rank: usize, lanes: usize) -> u64 {
        let processors = self.clocks[rank * lanes..][..lanes].iter().map(|clock| clock.cpu);
        processors.chain(self.ends.get(rank).copied()).max().unwrap_or(0)
    }
}

/// Sends that were released together: each becomes an event when the one before has got processor and interface, which it
/// would wait for in any case.
#[derive(Default)]
pub(super) struct Lines {
    entries: Vec<u32>,
    /// Lines whose end is not reached.
    open: usize,
}

impl Lines {
    /// Adds the followers of a send; where they begin, which is never 0.
    pub fn add(&mut self, followers: &[u32]) -> u32 {
        if self.open == 0 {
            self.entries.clear();
            self.entries.push(NONE);
        }
        self.open += 1;
        let from = self.entries.len() as u32;
        self.entries.extend_from_slice(followers);
        *self.entries.last_mut().expect("no line is empty") |= LAST;
        from
    }

    /// The first send of a line, and where those behind it begin; 0: there are none.
    #[inline(always)]
    pub fn next(&mut self, from: u32) -> (u32, u32) {
        let entry = self.entries[from as usize];
        if entry & LAST == 0 {
            return (entry & TARGET, from + 1);
        }
        self.open -= 1;
        (entry & TARGET, 0)
    }
}

/// Appends the counters of so many ranks of a shape, as they are before the run.
pub(super) fn begin<S: Slot>(slots: &mut Vec<S>, flat: &Flat, shape: &Shape, ranks: usize) {
    let first = slots.len();
    slots.resize(first + shape.slots as usize * ranks, S::of(0));
    let ops = &flat.ops[shape.first_op as usize..][..shape.ops as usize];
    let (from, to) = shape.successors(flat);
    let mut in_degrees = vec![0; ops.len()];
    for entry in &flat.successors[from..to] {
        in_degrees[(entry & TARGET) as usize] += 1;
    }
    for (op, &in_degree) in ops.iter().zip(&in_degrees) {
        if op.flags & JOINS != 0 {
            slots[first + op.slot as usize * ranks..][..ranks].fill(S::of(in_degree));
        }
    }
}
