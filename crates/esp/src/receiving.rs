//! What comes in: frames put in order, what is missing asked for, and how much more may come.
//!
//! From a transfer's first frame to its last this side has the timer: nothing comes for a while, so it asks. It decides the pace: nobody
//! sends beyond the edge that it grants, and while nobody reads it grants nothing and asks for nothing.

use crate::Settings;
use crate::frame::{Flags, RANGE_BYTES, Range};
use crate::pace::Pace;
use crate::round_trip::RoundTrip;
use crate::sequence::{ahead, later};
use std::collections::VecDeque;

/// Ranges of one request.
const RANGES_MAX: usize = 32;

/// A number that has not had its turn.
enum Slot {
    /// It may still come by itself.
    Missing,
    /// It counts as lost, and is to be asked for.
    Wanted,
    /// It was asked for then.
    Asked(u64),
    There(Flags, Box<[u8]>),
}

/// What came of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    Again,
    /// Nobody allowed it.
    Beyond,
}

pub(crate) struct Receiving {
    /// All before this number have come.
    pub(crate) next: u32,
    /// What may be sent, and what of that the sender was told.
    edge: u32,
    edge_told: u32,
    /// Some frame before this number has come, or the sender says that it has sent them.
    seen: u32,
    /// From `next` on.
    slots: VecDeque<Slot>,
    ready: VecDeque<u8>,
    /// Something whole has come, or much, since somebody was told.
    is_fresh: bool,
    much_bytes: usize,
    in_transfer: bool,
    pub(crate) is_finished: bool,
    /// Numbers acknowledged without having been told.
    untold: u32,
    /// When an acknowledgement goes out at the latest.
    pub(crate) tell_due: Option<u64>,
    /// When it is asked for what is missing, and how often in a row that was in vain.
    ask_due: Option<u64>,
    fruitless: u32,
    asks_tail: bool,
    asks_now: bool,
}

impl Receiving {
    /// `first`: the number that comes first; the sender knows that it may send so many at once.
    pub(crate) fn new(first: u32, settings: &Settings) -> Receiving {
        let edge = first.wrapping_add(settings.initial_burst);
        Receiving {
            next: first,
            edge,
            edge_told: edge,
            seen: first,
            slots: VecDeque::new(),
            ready: VecDeque::new(),
            is_fresh: false,
            much_bytes: settings.receive_bytes / 2,
            in_transfer: false,
            is_finished: false,
            untold: 0,
            tell_due: None,
            ask_due: None,
            fruitless: 0,
            asks_tail: false,
            asks_now: false,
        }
    }

    /// Whether somebody should read: a write has come whole, or there is much. Once for each.
    pub(crate) fn take_fresh(&mut self) -> bool {
        std::mem::take(&mut self.is_fresh)
    }

    pub(crate) fn peek(&self) -> [&[u8]; 2] {
        self.ready.as_slices().into()
    }

    /// So many bytes were read.
    pub(crate) fn consume(
        &mut self,
        bytes: usize,
        now: u64,
        (settings, trip): (&Settings, &RoundTrip),
        pace: &Pace,
    ) {
        self.ready.drain(..bytes);
        self.grant(settings, pace);
        // Who was stopped goes on by itself.
        let was_stopped = ahead(self.edge_told, self.next) <= 0;
        if was_stopped && self.edge != self.edge_told && !self.is_finished {
            self.tell_due = Some(now);
            self.arm(now, settings, trip);
        }
    }

    /// What is left is of no use.
    pub(crate) fn stop(&mut self, pace: &mut Pace) {
        if std::mem::take(&mut self.in_transfer) {
            pace.ends();
        }
        (self.ask_due, self.tell_due, self.slots) = (None, None, VecDeque::new());
        (self.asks_now, self.asks_tail) = (false, false);
    }

    /// A numbered frame.
    pub(crate) fn take(
        &mut self,
        (sequence, flags, payload): (u32, Flags, &[u8]),
        now: u64,
        (settings, trip): (&Settings, &RoundTrip),
        pace: &mut Pace,
    ) -> Arrival {
        let offset = ahead(sequence, self.next);
        if offset < 0 || self.is_finished {
            self.tell_due = Some(now);
            return Arrival::Again;
        }
        if ahead(sequence, self.edge) >= 0 {
            self.tell_due = Some(now);
            return Arrival::Beyond;
        }
        let offset = offset as usize;
        self.saw(sequence.wrapping_add(1));
        if matches!(self.slots.get(offset), Some(Slot::There(..))) {
            self.tell_due = Some(now);
            return Arrival::Again;
        }
        pace.came();
        match offset {
            0 => {
                self.slots.pop_front();
                self.deliver(flags, payload, pace);
                while let Some(Slot::There(..)) = self.slots.front() {
                    let Some(Slot::There(flags, payload)) = self.slots.pop_front() else { break };
                    self.deliver(flags, &payload, pace);
                }
            }
            _ => self.slots[offset] = Slot::There(flags, payload.into()),
        }
        self.fruitless = 0;
        self.grant(settings, pace);
        self.look_for_holes(now, (settings, trip), pace);
        self.arm(now, settings, trip);
        self.tell_in_time(now, settings);
        Arrival::New
    }

    /// The sender has sent all before this number.
    fn saw(&mut self, end: u32) {
        self.seen = later(end, self.seen);
        let known = usize::try_from(ahead(self.seen, self.next)).unwrap_or(0);
        while self.slots.len() < known {
            self.slots.push_back(Slot::Missing);
        }
    }

    /// The sender wants to know where this side is.
    pub(crate) fn is_asked(&mut self, now: u64) {
        self.tell_due = Some(now);
        if self.is_in_control() {
            (self.asks_now, self.asks_tail) = (true, true);
        }
    }

    /// The sender says which number is its next.
    pub(crate) fn hears_of(&mut self, next: u32, now: u64, (settings, trip): (&Settings, &RoundTrip)) {
        // Nobody has sent what nobody allowed.
        if !self.is_finished && ahead(next, self.seen) > 0 && ahead(next, self.edge) <= 0 {
            self.saw(next);
            self.arm(now, settings, trip);
        }
    }

    /// The next in order.
    fn deliver(&mut self, flags: Flags, payload: &[u8], pace: &mut Pace) {
        self.next = self.next.wrapping_add(1);
        self.untold += 1;
        self.ready.extend(payload);
        self.is_fresh |= flags.has(Flags::TXR) || self.ready.len() >= self.much_bytes;
        let goes_on = !flags.has(Flags::TXF) && !flags.has(Flags::FIN);
        if goes_on && !self.in_transfer {
            pace.begins();
        } else if !goes_on && self.in_transfer {
            pace.ends();
        }
        self.in_transfer = goes_on;
        self.is_finished |= flags.has(Flags::FIN);
    }

    /// What may come: as much as there is room for, and no more than this sender's share.
    fn grant(&mut self, settings: &Settings, pace: &Pace) {
        let room =
            settings.receive_frames().saturating_sub(self.ready.len().div_ceil(settings.payload_bytes_max()));
        let share = if self.in_transfer { pace.share() } else { settings.initial_burst };
        self.edge = later(self.next.wrapping_add(share.min(room as u32)), self.edge);
    }

    /// Frames that others have overtaken count as lost, and are asked for at once.
    fn look_for_holes(&mut self, now: u64, (settings, trip): (&Settings, &RoundTrip), pace: &mut Pace) {
        if self.slots.is_empty() {
            return;
        }
        // Where few are under way, few can overtake.
        let overtaken_by = settings.reorder_frames.min((pace.share() / 2).max(1));
        let known = self.slots.len().saturating_sub(overtaken_by as usize);
        let overdue_ns = trip.timeout_ns(settings, self.fruitless);
        for slot in self.slots.iter_mut().take(known) {
            match slot {
                Slot::Missing => {
                    pace.lost(1);
                    *slot = Slot::Wanted;
                    self.asks_now = true;
                }
                Slot::Asked(asked_at) if *asked_at + overdue_ns <= now => self.asks_now = true,
                Slot::Wanted | Slot::Asked(_) | Slot::There(..) => {}
            }
        }
    }

    /// Whether it is this side that sees to it that the rest comes.
    fn is_in_control(&self) -> bool {
        let is_missing = self.in_transfer || !self.slots.is_empty();
        is_missing && !self.is_finished && ahead(self.edge, self.next) > 0
    }

    fn arm(&mut self, now: u64, settings: &Settings, trip: &RoundTrip) {
        let in_ns = trip.timeout_ns(settings, self.fruitless);
        self.ask_due = self.is_in_control().then_some(now + in_ns);
    }

    /// Acknowledges at once where the sender would have to wait for it, else soon.
    fn tell_in_time(&mut self, now: u64, settings: &Settings) {
        let (left, may) = (ahead(self.edge_told, self.next), ahead(self.edge, self.next));
        let is_waited_for = match self.in_transfer {
            true => self.edge != self.edge_told && 2 * left <= may,
            false => self.is_finished || self.untold >= settings.initial_burst.div_ceil(2),
        };
        let due = if is_waited_for { now } else { now + settings.acknowledge_ns };
        if self.untold > 0 {
            self.tell_due = Some(self.tell_due.map_or(due, |before| before.min(due)));
        }
    }

    /// When [`Receiving::tick`] has something to do.
    pub(crate) fn due(&self) -> Option<u64> {
        self.ask_due
    }

    /// Nothing came for too long.
    pub(crate) fn tick(&mut self, now: u64, (settings, trip): (&Settings, &RoundTrip), pace: &mut Pace) {
        if self.ask_due.is_none_or(|due| due > now) {
            return;
        }
        if !self.is_in_control() {
            self.ask_due = None;
            return;
        }
        pace.lost(1);
        self.fruitless = (self.fruitless + 1).min(16);
        (self.asks_now, self.asks_tail) = (true, true);
        self.grant(settings, pace);
        self.arm(now, settings, trip);
    }

    pub(crate) fn asks_now(&self) -> bool {
        self.asks_now
    }

    /// What is missing, as a request's payload; empty where it has come meanwhile.
    pub(crate) fn request(&mut self, now: u64, settings: &Settings, trip: &RoundTrip) -> Vec<u8> {
        let overdue_ns = trip.timeout_ns(settings, 0);
        let asks_all = std::mem::take(&mut self.asks_tail);
        self.asks_now = false;
        let ranges_max = RANGES_MAX.min(settings.payload_bytes_max() / RANGE_BYTES - 1);
        let mut ranges: Vec<Range> = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let is_due = match slot {
                Slot::There(..) => false,
                Slot::Missing => asks_all,
                Slot::Wanted => true,
                Slot::Asked(asked_at) => asks_all || *asked_at + overdue_ns <= now,
            };
            if !is_due {
                continue;
            }
            let sequence = self.next.wrapping_add(at as u32);
            let is_full = ranges.len() == ranges_max;
            match ranges.last_mut() {
                Some(range) if range.first.wrapping_add(range.count) == sequence => range.count += 1,
                _ if is_full => break,
                _ => ranges.push(Range { first: sequence, count: 1 }),
            }
            *slot = Slot::Asked(now);
        }
        // How far the sender has come nobody knows who has heard nothing.
        let tail = ahead(self.edge, self.seen);
        if asks_all && self.in_transfer && tail > 0 {
            ranges.push(Range { first: self.seen, count: tail as u32 });
        }
        ranges.into_iter().flat_map(Range::to_bytes).collect()
    }

    /// What goes out with every frame; and that it does.
    pub(crate) fn tell(&mut self) -> (u32, u32) {
        (self.untold, self.tell_due, self.edge_told) = (0, None, self.edge);
        (self.next, self.edge)
    }
}
