//! Events of windows, and where they wait.

use super::{ARRIVAL, KIND_SHIFT};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Something to happen at a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// When, in ps.
    pub time: u64,
    /// Which of those at the same time at the same rank first.
    pub number: u64,
    pub rank: u32,
    /// Kind and operation, as in the sequential engine.
    pub what: u32,
    /// An arrival's send.
    pub from: u32,
    /// An arrival's sender. [`FINISH`]: an operation has finished. Where order is by time, an operation's place among those
    /// that its rank has released.
    pub source: u32,
}

/// In an operation's event's source: it has finished.
pub(super) const FINISH: u32 = u32::MAX;

impl Event {
    #[inline(always)]
    pub fn order(&self) -> (u64, u64, u32) {
        (self.time, self.number, self.source)
    }

    /// Whether it happens at the same time as another one at its rank and was created at the same time, elsewhere: where
    /// numbers are times of creation, nobody knows which comes first.
    #[inline(always)]
    pub fn clashes(&self, other: &Event) -> bool {
        (self.time, self.number) == (other.time, other.number)
            && (self.what >> KIND_SHIFT == ARRIVAL || other.what >> KIND_SHIFT == ARRIVAL)
    }
}

/// A window of time: that many widths after 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub number: u64,
    pub width: u64,
}

impl Window {
    pub fn begin(self) -> u64 {
        self.number * self.width
    }

    pub fn end(self) -> u64 {
        self.begin() + self.width
    }

    pub fn at(self, number: u64) -> Window {
        Window { number, ..self }
    }
}

/// Windows whose events lie in the ring.
const RING: u64 = 8;

/// Events of a block by the window in which they happen.
pub(super) struct Waiting {
    /// The next few windows'.
    ring: [Vec<Event>; RING as usize],
    /// By place in the ring.
    occupied: u32,
    later: BTreeMap<u64, Vec<Event>>,
}

impl Waiting {
    pub fn new() -> Waiting {
        Waiting { ring: [const { Vec::new() }; RING as usize], occupied: 0, later: BTreeMap::new() }
    }

    /// Files an event of a window after `now`.
    #[inline(always)]
    pub fn put(&mut self, now: Window, event: Event) {
        let mut behind = event.time - now.begin();
        let mut windows = 0;
        while behind >= now.width && windows < RING {
            behind -= now.width;
            windows += 1;
        }
        if windows == RING {
            return self.put_later(now, event);
        }
        let place = (now.number + windows) % RING;
        self.occupied |= 1 << place;
        self.ring[place as usize].push(event);
    }

    #[cold]
    fn put_later(&mut self, now: Window, event: Event) {
        self.later.entry(event.time / now.width).or_default().push(event);
    }

    /// Whether a window has events.
    pub fn has(&self, window: u64) -> bool {
        self.occupied & 1 << (window % RING) != 0
            || self.later.first_key_value().is_some_and(|(&first, _)| first == window)
    }

    /// Takes a window's events, in no order, in exchange for an empty list.
    pub fn take(&mut self, window: u64, into: &mut Vec<Event>) {
        let place = window % RING;
        self.occupied &= !(1 << place);
        std::mem::swap(into, &mut self.ring[place as usize]);
        if self.later.first_key_value().is_some_and(|(&first, _)| first == window)
            && let Some((_, mut events)) = self.later.pop_first()
        {
            into.append(&mut events);
        }
    }

    /// Gives an empty list back, for its memory.
    pub fn give_back(&mut self, window: u64, mut list: Vec<Event>) {
        list.clear();
        self.ring[(window % RING) as usize] = list;
    }

    /// The first window after `now` that has events.
    pub fn next(&self, now: u64) -> Option<u64> {
        let later = self.later.first_key_value().map(|(&first, _)| first);
        let soon = match self.occupied {
            0 => None,
            _ => (now + 1..now + RING).find(|window| self.occupied & 1 << (window % RING) != 0),
        };
        match (soon, later) {
            (Some(soon), Some(later)) => Some(soon.min(later)),
            (soon, later) => soon.or(later),
        }
    }
}

/// Messages that want a rank's processor and interface and get them one by one, in the order of their numbers: only the first is
/// an event, or each would be put back once for each that goes before it.
#[derive(Default)]
pub(super) struct Crowd {
    /// Number and sender of the one that is an event.
    first: Option<(u64, u32)>,
    /// The others, by number and sender; and when each came, and what it is.
    others: BinaryHeap<Reverse<(u64, u32, Message)>>,
}

/// What an arrival's event says besides its number and sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    rank: u32,
    what: u32,
    from: u32,
}

impl Crowd {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.first = None;
        self.others.clear();
    }

    /// A message has to wait. Whether it stays an event; `None`: another one was created at the same time, so that nobody knows
    /// which is first.
    pub fn wait(&mut self, event: &Event) -> Option<bool> {
        let key = (event.number, event.source);
        match self.first {
            Some(first) if first.0 == key.0 && first != key => None,
            Some(first) if first < key => {
                let Event { rank, what, from, .. } = *event;
                self.others.push(Reverse((key.0, key.1, Message { rank, what, from })));
                Some(false)
            }
            // One that was the first until now is an event still, and comes back here if it has to wait again.
            _ => {
                self.first = Some(key);
                Some(true)
            }
        }
    }

    /// Whether this message is the first of those that wait.
    #[inline(always)]
    pub fn is_first(&self, event: &Event) -> bool {
        self.first == Some((event.number, event.source))
    }

    /// The first one goes on: the next, to be an event at `time`, and whether it is certain that it is the next.
    pub fn next(&mut self, time: u64) -> Option<(Event, bool)> {
        let next = self.others.pop();
        self.first = next.map(|Reverse((number, source, _))| (number, source));
        let Reverse((number, source, Message { rank, what, from })) = next?;
        let certain = self.others.peek().is_none_or(|Reverse(other)| other.0 != number);
        Some((Event { time, number, rank, what, from, source }, certain))
    }
}

/// Events of one rank in this window, in order: those that were there when it began, and those since.
#[derive(Default)]
pub(super) struct Fresh {
    events: Vec<Event>,
    taken: usize,
}

impl Fresh {
    #[inline(always)]
    pub fn first(&self) -> Option<&Event> {
        self.events.get(self.taken)
    }

    #[inline(always)]
    pub fn pop(&mut self) {
        self.taken += 1;
        if self.taken == self.events.len() {
            self.events.clear();
            self.taken = 0;
        }
    }

    /// Adds an event; most come last. `false`: it clashes with another.
    #[inline(always)]
    pub fn add(&mut self, event: Event) -> bool {
        let mut at = self.events.len();
        self.events.push(event);
        while at > self.taken && self.events[at - 1].order() > event.order() {
            self.events[at] = self.events[at - 1];
            at -= 1;
        }
        self.events[at] = event;
        let before = at > self.taken && self.events[at - 1].clashes(&event);
        !before && !self.events.get(at + 1).is_some_and(|next| next.clashes(&event))
    }
}
