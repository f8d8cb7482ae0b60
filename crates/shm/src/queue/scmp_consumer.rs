//! The receiver's end of SCMP: reads in place, flips when a half is used up, walks around what is late.

use std::cell::Cell;

use castell_base::Rank;
use castell_base::sync::Ordering;

use super::area::Area;
use super::geometry::Geometry;
use super::header::{Header, PADDING, bytes_of, kind_of, slots_for, spare_of};
use super::intent::Intents;
use super::scmp::{GENERATIONS, OFFSET_BITS, RESERVE, mark, slot_word, split};

/// Late reservations of a half that the consumer walks around at a time.
const HOLES_MAX: usize = 16;
/// Messages in one poll after which the consumer looks whether producers are being refused already.
const BACKLOG: usize = if cfg!(loom) { 1 } else { 32 };
/// Polls without progress after which the consumer looks whether a reservation is late.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 64 };
/// Polls without progress between two such looks, at most: each takes R away from the producers.
const PATIENCE_MAX: u32 = if cfg!(loom) { 1 } else { 4096 };
/// Slots that a poll empties when it has nothing else to do.
const CLEAR_IDLE: u32 = 8;
/// Looks in vain at one late reservation after which it no longer keeps the consumer from sleeping.
const LOOKS_MAX: u32 = 64;

/// A reservation that was not finished when the consumer came by.
#[derive(Clone, Copy)]
struct Hole {
    offset: u32,
    slots: u32,
}

/// The consumer's view of a half.
struct Half {
    generation: u32,
    /// Everything before this offset is delivered or a hole.
    position: u32,
    /// Everything before this offset is empty again.
    cleared: u32,
    /// No message lies at or behind this offset. (Nor behind an end mark before it.)
    end: u32,
    /// The end is reached.
    used_up: bool,
    holes: Vec<Hole>,
}

impl Half {
    fn open(&mut self, generation: u32, slots: u32) {
        debug_assert!(self.holes.is_empty());
        (self.generation, self.end, self.used_up) = (generation, slots, false);
        (self.position, self.cleared) = (0, 0);
    }

    /// All that was reserved in this half, when it was active, is delivered.
    fn is_free(&self) -> bool {
        self.used_up && self.holes.is_empty()
    }
}

/// Ranks that died, and the point in the queue behind which nothing is theirs.
struct Inquest {
    dead: Vec<u32>,
    generation: u32,
    offset: u32,
}

/// A receiver's end of its own queue.
pub struct Consumer {
    area: Area,
    slots: u32,
    intents: Intents,
    me: Rank,
    /// The half that takes reservations, as R says; only the consumer changes it.
    active: usize,
    halves: [Half; 2],
    /// Polls without progress, and at how many of them the next look at what is late is due.
    idle: u32,
    patience: u32,
    /// Looks at a late reservation since something was delivered.
    looks: u32,
    /// A look before sleeping saw a reservation that is late.
    late: Cell<bool>,
    /// Polls that went on with the active half before the old one was through.
    overtakes: u64,
    inquest: Option<Inquest>,
}

/// Why a walk over a half ended.
#[derive(PartialEq, Eq)]
enum Stop {
    /// At a slot that holds nothing (yet).
    Empty,
    /// At the half's end.
    UsedUp,
    /// At the caller's limit.
    Limit,
}

impl Consumer {
    /// The end by which rank `me` empties its queue, whose memory is at `area`.
    ///
    /// # Safety
    /// As for [`Producer::attach`](super::Producer::attach); there is one consumer a rank in a job's life.
    pub unsafe fn attach(area: *mut u8, geometry: &Geometry, intents: Intents, me: Rank) -> Consumer {
        geometry.assert_sane();
        // SAFETY: the caller's promise.
        let area = unsafe { Area::new(area) };
        let half = |generation, used_up| Half {
            generation,
            position: 0,
            cleared: 0,
            end: geometry.slots,
            used_up,
            holes: Vec::with_capacity(HOLES_MAX),
        };
        // Zeroed memory says 0.
        let (generation, _) = split(area.word(RESERVE).load(Ordering::Relaxed));
        let active = generation as usize & 1;
        let mut halves = [half(generation, false), half(generation ^ u32::MAX, true)];
        halves.rotate_right(active);
        Consumer {
            area,
            slots: geometry.slots,
            intents,
            me,
            active,
            halves,
            idle: 0,
            patience: PATIENCE,
            looks: 0,
            late: Cell::new(false),
            overtakes: 0,
            inquest: None,
        }
    }

    /// Hands up to `limit` messages to `deliver`, each in place, and frees it afterwards; says how many. Never blocks.
    #[inline]
    pub fn poll(&mut self, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        let mut count = 0;
        let old = self.active ^ 1;
        if self.halves[old].is_free() && self.halves[self.active].holes.is_empty()
            || self.poll_late(limit, &mut count, deliver)
        {
            self.poll_active(limit, &mut count, deliver);
        }
        if count > 0 {
            (self.idle, self.patience, self.looks) = (0, PATIENCE, 0);
            self.clear(old, 4 * count as u32);
        } else {
            self.idle_poll();
        }
        self.late.set(false);
        count
    }

    /// Nothing came: time to look for what is late, and to empty what was read. (Slots are not emptied as they are read:
    /// a message is answered sooner if the emptying waits until the answer is under way.)
    #[inline]
    fn idle_poll(&mut self) {
        self.idle = self.idle.wrapping_add(1);
        if self.idle >= self.patience || self.late.get() {
            self.patience = (2 * self.patience).min(self.idle.saturating_add(PATIENCE_MAX));
            self.walk_around(self.active, |_| false);
        }
        let old = self.active ^ 1;
        self.clear(old, CLEAR_IDLE);
        self.clear(self.active, CLEAR_IDLE);
    }

    /// Empties up to `budget` slots of those that were read; not beyond a hole, which is emptied by itself.
    #[inline]
    fn clear(&mut self, half: usize, budget: u32) {
        let Half { position, cleared, ref holes, .. } = self.halves[half];
        if cleared < position {
            let stop = holes.iter().map(|hole| hole.offset).min().unwrap_or(position);
            let to = cleared.saturating_add(budget).min(stop);
            if to > cleared {
                self.area.clear_slots(self.slot_word(half, cleared), (to - cleared) as usize);
                self.halves[half].cleared = to;
            }
        }
    }

    #[inline]
    fn poll_active(&mut self, limit: usize, count: &mut usize, deliver: &mut impl FnMut(&Header, &[u8])) {
        loop {
            let half = self.active;
            match self.walk(half, limit, count, deliver) {
                Stop::Limit => return,
                Stop::Empty => {
                    // Up to date, and the half is more than half full: the other one has more room for what comes.
                    if half == self.active && self.halves[half].position > self.slots / 2 {
                        self.flip();
                    }
                    return;
                }
                // The half became the old one during the walk: now the new one.
                Stop::UsedUp if half != self.active => {}
                Stop::UsedUp if self.flip() => {}
                Stop::UsedUp => return,
            }
        }
    }

    /// Delivers what an old half still holds and what was late. True: the active half may be read now.
    #[cold]
    fn poll_late(
        &mut self,
        limit: usize,
        count: &mut usize,
        deliver: &mut impl FnMut(&Header, &[u8]),
    ) -> bool {
        self.poll_holes(limit, count, deliver);
        let old = self.active ^ 1;
        if self.halves[old].used_up {
            return *count < limit;
        }
        match self.walk(old, limit, count, deliver) {
            Stop::UsedUp => true,
            Stop::Limit => false,
            // A producer of the old half is late, and what lies behind its reservation comes before the active half's
            // messages: some patience, then around it, and if that cannot be, on with the active half.
            Stop::Empty => {
                // With this poll, which `idle_poll` counts if nothing comes.
                let idle = self.idle.wrapping_add(1);
                if idle.is_multiple_of(PATIENCE) || self.late.get() {
                    self.walk_around(old, |_| false);
                }
                let overtakes = idle > 4 * PATIENCE;
                self.overtakes += u64::from(overtakes);
                overtakes
            }
        }
    }

    /// How many polls delivered messages before others that had been inserted earlier, possibly by the same sender:
    /// only while a producer is late whose reservation's length cannot be found out.
    pub fn overtakes(&self) -> u64 {
        self.overtakes
    }

    /// Delivers a half's messages from its position on.
    #[inline]
    fn walk(
        &mut self,
        half: usize,
        limit: usize,
        count: &mut usize,
        deliver: &mut impl FnMut(&Header, &[u8]),
    ) -> Stop {
        loop {
            let position = self.halves[half].position;
            if self.halves[half].used_up || position == self.halves[half].end {
                self.halves[half].used_up = true;
                return Stop::UsedUp;
            }
            if *count >= limit {
                return Stop::Limit;
            }
            let word = self.slot_word(half, position);
            let first = self.area.word(word).load(Ordering::Acquire);
            if first == 0 {
                return Stop::Empty;
            }
            if !(self.halves[0].holes.is_empty() && self.halves[1].holes.is_empty()) {
                // What a sender finished in a hole comes before what it sent next, which may be this message.
                self.poll_holes(limit, count, deliver);
                if *count >= limit {
                    return Stop::Limit;
                }
            }
            match self.take(word, position, first, count, deliver) {
                Some(slots) => self.halves[half].position = position + slots,
                None => {
                    self.area.clear_slots(word, 1);
                    self.halves[half].used_up = true;
                }
            }
            if count.is_multiple_of(BACKLOG) && half == self.active && self.refuses() {
                self.flip();
            }
        }
    }

    /// Delivers one message and says how many slots it covers; `None`: it was the mark of a half's end.
    #[inline(always)]
    fn take(
        &self,
        word: usize,
        offset: u32,
        first: u64,
        count: &mut usize,
        deliver: &mut impl FnMut(&Header, &[u8]),
    ) -> Option<u32> {
        let slots = slots_for(bytes_of(first) as usize) as u32;
        assert!(
            spare_of(first) == mark(offset) && offset + slots <= self.slots,
            "the receive queue of rank {} is damaged at slot {offset} (word {first:#x}): somebody wrote where it must not",
            self.me
        );
        if kind_of(first) == PADDING {
            return None;
        }
        self.area.deliver(word, first, deliver);
        *count += 1;
        Some(slots)
    }

    /// Lets producers go on in the other half, if that is free. The active one becomes the old one.
    fn flip(&mut self) -> bool {
        let (old, other) = (self.active, self.active ^ 1);
        if !self.halves[other].is_free() {
            return false;
        }
        self.clear(other, u32::MAX);
        let generation = next(self.halves[old].generation);
        self.halves[other].open(generation, self.slots);
        // Release: the other half's slots are empty for whoever reserves them. Acquire: the announcements of all who
        // reserved in the old half are visible from here on.
        let reserve = self.area.word(RESERVE).swap(u64::from(generation) << OFFSET_BITS, Ordering::AcqRel);
        self.active = other;
        // Beyond the last slot lie only refused reservations; then the old half has an end mark, or is full.
        let old = &mut self.halves[old];
        old.end = split(reserve).1.min(u64::from(self.slots)) as u32;
        old.used_up |= old.position == old.end;
        true
    }

    /// Producers are being refused in the active half.
    fn refuses(&self) -> bool {
        split(self.area.word(RESERVE).load(Ordering::Relaxed)).1 > u64::from(self.slots)
    }

    /// Delivers the late messages that have been finished.
    fn poll_holes(&mut self, limit: usize, count: &mut usize, deliver: &mut impl FnMut(&Header, &[u8])) {
        for half in 0..2 {
            let mut i = 0;
            while *count < limit && i < self.halves[half].holes.len() {
                let hole = self.halves[half].holes[i];
                let word = self.slot_word(half, hole.offset);
                let first = self.area.word(word).load(Ordering::Acquire);
                if first == 0 {
                    i += 1;
                } else {
                    self.take(word, hole.offset, first, count, deliver);
                    self.area.clear_slots(word, hole.slots as usize);
                    self.halves[half].holes.remove(i);
                }
            }
        }
    }

    /// Whether a reservation at a half's position is made and not finished.
    fn is_stuck(&self, half: usize) -> bool {
        let Half { position, end, used_up, .. } = self.halves[half];
        let made = || {
            half != self.active
                || split(self.area.word(RESERVE).load(Ordering::Acquire)).1 > u64::from(position)
        };
        !used_up && position < end && made() && !self.is_filled(half, position)
    }

    /// If the reservation at a half's position is late, remembers it as a hole and goes on behind it. Needs to know its
    /// length: its owner's announcement says it, or all announcements that may be the owner's agree. Whether more of
    /// the dead's slots may lie behind.
    #[cold]
    fn walk_around(&mut self, half: usize, is_dead: impl Fn(Rank) -> bool) -> bool {
        if !self.is_stuck(half) || self.halves[half].holes.len() == HOLES_MAX {
            return false;
        }
        self.looks += 1;
        let Half { generation, position, end, .. } = self.halves[half];
        let mut lengths = Vec::new();
        let mut all_dead = true;
        for rank in 0..self.intents.ranks() {
            match self.intents.of(rank).read(self.me.0) {
                Ok(None) => {}
                Ok(Some(announced)) if announced.place == Some((generation, position)) => {
                    lengths = vec![announced.slots];
                    break;
                }
                Ok(Some(announced)) if announced.place.is_some() => {}
                Ok(Some(announced)) => {
                    all_dead &= is_dead(Rank(rank));
                    if !lengths.contains(&announced.slots) {
                        lengths.push(announced.slots);
                    }
                }
                Err(_) => return false,
            }
        }
        // The owner's announcement stands until its message is published: if it is not published even now, the owner
        // was among those read.
        if self.is_filled(half, position) {
            return false;
        }
        let length = match lengths[..] {
            [length] => length,
            // Several died while they reserved here, and have written nothing: slot by slot, up to what lies behind.
            [_, _, ..] if all_dead => 1,
            _ => return false,
        };
        let slots = length.min(end - position);
        let state = &mut self.halves[half];
        state.holes.push(Hole { offset: position, slots });
        state.position += slots;
        self.looks = 0;
        lengths.len() > 1
    }

    /// Whether polling is useless until a sender inserts something: the look before going to sleep.
    pub fn is_empty(&self) -> bool {
        for (half, state) in self.halves.iter().enumerate() {
            let next = (!state.used_up && state.position < state.end).then_some(state.position);
            let mut places = state.holes.iter().map(|hole| hole.offset).chain(next);
            if places.any(|offset| self.is_filled(half, offset)) {
                return false;
            }
        }
        // Nothing finished is in sight, but it may lie behind a reservation that is late: poll on, around it.
        let late = self.looks < LOOKS_MAX && (self.is_stuck(self.active) || self.is_stuck(self.active ^ 1));
        self.late.set(late);
        !late
    }

    /// Settles what dead ranks left unfinished here. True once nothing of theirs is left; until then call it again between
    /// polls. `is_dead` must say so only of ranks that will never run again.
    pub fn reclaim_dead(&mut self, is_dead: &dyn Fn(Rank) -> bool) -> bool {
        let names_me = |rank: u32| self.intents.of(rank).read(self.me.0) != Ok(None);
        let dead: Vec<u32> = (0..self.intents.ranks()).filter(|&r| is_dead(Rank(r)) && names_me(r)).collect();
        if dead.is_empty() {
            self.inquest = None;
            return true;
        }
        if self.inquest.as_ref().is_none_or(|inquest| inquest.dead != dead) {
            let (generation, offset) = split(self.area.word(RESERVE).load(Ordering::Acquire));
            let offset = offset.min(u64::from(self.slots)) as u32;
            self.inquest = Some(Inquest { dead, generation, offset });
        }
        for half in [self.active ^ 1, self.active] {
            while self.walk_around(half, is_dead) {
                self.close_holes(half, is_dead);
            }
            self.close_holes(half, is_dead);
        }
        if let Some(inquest) = self.inquest.take_if(|inquest| passed(&self.halves, inquest)) {
            inquest.dead.iter().for_each(|&rank| self.intents.of(rank).withdraw());
            return true;
        }
        false
    }

    /// Closes the holes of a half that no living rank can still fill.
    fn close_holes(&mut self, half: usize, is_dead: &dyn Fn(Rank) -> bool) {
        let generation = self.halves[half].generation;
        let holes = std::mem::take(&mut self.halves[half].holes);
        let (kept, closed): (Vec<Hole>, Vec<Hole>) = holes.into_iter().partition(|hole| {
            let place = (generation, hole.offset);
            let mut living = (0..self.intents.ranks()).filter(|&rank| !is_dead(Rank(rank)));
            let alive = living.any(|rank| match self.intents.of(rank).read(self.me.0) {
                Ok(announced) => announced.is_some_and(|it| it.place.is_none_or(|its| its == place)),
                Err(_) => true,
            });
            alive || self.is_filled(half, hole.offset)
        });
        for hole in closed {
            self.area.clear_slots(self.slot_word(half, hole.offset), hole.slots as usize);
        }
        self.halves[half].holes.extend(kept);
    }

    fn is_filled(&self, half: usize, offset: u32) -> bool {
        self.area.word(self.slot_word(half, offset)).load(Ordering::Acquire) != 0
    }

    #[inline(always)]
    fn slot_word(&self, half: usize, offset: u32) -> usize {
        slot_word(self.slots, half as u32, offset)
    }
}

/// The consumer has been through everything up to where the inquest looks.
fn passed(halves: &[Half; 2], inquest: &Inquest) -> bool {
    halves.iter().all(|half| {
        if half.generation == inquest.generation {
            half.holes.is_empty() && (half.used_up || half.position >= inquest.offset)
        } else {
            // The half before that one, or one that opened after it.
            half.is_free() || half.generation == next(inquest.generation)
        }
    })
}

/// The generation after this one.
fn next(generation: u32) -> u32 {
    (generation + 1) % GENERATIONS as u32
}
