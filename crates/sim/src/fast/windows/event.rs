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

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const CALC: u32 = 2 << KIND_SHIFT | 7;
    const MESSAGE: u32 = ARRIVAL << KIND_SHIFT | 7;

    fn event(time: u64, number: u64, source: u32, what: u32) -> Event {
        Event { time, number, rank: 4, what, from: 9, source }
    }

    #[test]
    fn messages_clash_with_what_was_created_and_happens_at_the_same_time() {
        let message = event(5, 3, 1, MESSAGE);
        for (other, clash) in [
            (event(5, 3, 2, MESSAGE), true),
            (event(5, 3, 1, CALC), true),
            (event(5, 3, 1, 7), true),
            (event(5, 4, 1, CALC), false),
            (event(6, 3, 2, MESSAGE), false),
        ] {
            assert_eq!((message.clashes(&other), other.clashes(&message)), (clash, clash), "{other:?}");
        }
        // What a rank has created itself is in the order in which it did.
        assert!(!event(5, 3, 1, CALC).clashes(&event(5, 3, 2, 7)));
    }

    /// Beside a map of all events by window.
    #[test]
    fn windows_come_in_order_each_with_all_its_events() {
        for seed in 0..60 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let width = [1, 3, 1000][random.random_range(0..3)];
            let far = [2, RING, RING + 2, 50][random.random_range(0..4)];
            let (mut waiting, mut expected) = (Waiting::new(), BTreeMap::<u64, Vec<u64>>::new());
            let mut now = Window { number: 0, width };
            for step in 0..200 {
                for _ in 0..random.random_range(0..4) {
                    let number = now.number + random.random_range(1..=far);
                    let time = number * width + random.random_range(0..width);
                    waiting.put(now, event(time, 0, 0, CALC));
                    expected.entry(number).or_default().push(time);
                }
                let what = format!("seed {seed}, step {step}, window {}", now.number);
                let next = expected.keys().next().copied();
                assert_eq!(waiting.next(now.number), next, "{what}");
                // Others go on to windows in which this block has nothing to do.
                let number = match next {
                    Some(next) => random.random_range(now.number + 1..=next),
                    None => now.number + 1,
                };
                now = now.at(number);
                assert_eq!(waiting.has(number), next == Some(number), "{what}");
                let mut taken = Vec::new();
                if next == Some(number) {
                    waiting.take(number, &mut taken);
                }
                let mut times: Vec<u64> = taken.iter().map(|event| event.time).collect();
                let mut here = expected.remove(&number).unwrap_or_default();
                times.sort_unstable();
                here.sort_unstable();
                assert_eq!(times, here, "{what}");
                if next == Some(number) {
                    waiting.give_back(number, taken);
                }
            }
        }
    }

    #[test]
    fn messages_of_a_crowd_are_let_in_by_number() {
        let (mut crowd, message) = (Crowd::default(), |number, source| event(50, number, source, MESSAGE));
        assert!(!crowd.is_first(&message(5, 1)) && crowd.next(60).is_none());
        // The first one stays an event, however often it waits; those behind it do not.
        assert_eq!(crowd.wait(&message(5, 1)), Some(true));
        assert_eq!(crowd.wait(&message(7, 2)), Some(false));
        assert_eq!(crowd.wait(&message(6, 8)), Some(false));
        assert_eq!(crowd.wait(&message(5, 1)), Some(true));
        assert!(crowd.is_first(&message(5, 1)) && !crowd.is_first(&message(5, 2)));
        // Created when the first one was, elsewhere: nobody knows which of them is the first.
        assert_eq!(crowd.wait(&message(5, 2)), None);
        assert_eq!(crowd.wait(&message(5, 0)), None);
        // One that was created before all of them.
        assert_eq!(crowd.wait(&message(3, 9)), Some(true));
        assert!(crowd.is_first(&message(3, 9)));
        assert_eq!(crowd.wait(&message(7, 3)), Some(false));
        let let_in = |number, source| Event { time: 60, ..message(number, source) };
        assert_eq!(crowd.next(60), Some((let_in(6, 8), true)));
        assert!(crowd.is_first(&let_in(6, 8)));
        // Two of one number: which goes first is not certain.
        assert_eq!(crowd.next(60), Some((let_in(7, 2), false)));
        assert_eq!(crowd.next(60), Some((let_in(7, 3), true)));
        assert_eq!(crowd.next(60), None);
        assert!(!crowd.is_first(&let_in(7, 3)));
        assert_eq!((crowd.wait(&message(1, 1)), crowd.wait(&message(2, 1))), (Some(true), Some(false)));
        crowd.clear();
        assert!(!crowd.is_first(&message(1, 1)) && crowd.next(60).is_none());
    }

    /// Beside a list that is searched.
    #[test]
    fn fresh_events_come_in_order_and_clashes_are_told() {
        let mut clashes = 0;
        for seed in 0..200 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (mut fresh, mut list, mut now) = (Fresh::default(), Vec::<Event>::new(), 0);
            for source in 0..60 {
                if random.random_bool(0.4) {
                    list.sort_by_key(Event::order);
                    assert_eq!(fresh.first(), list.first(), "seed {seed}, {source}");
                    if !list.is_empty() {
                        now = list.remove(0).time;
                        fresh.pop();
                    }
                    continue;
                }
                let what = if random.random_bool(0.3) { MESSAGE } else { CALC };
                // Some come before others that were created before.
                let (time, source) = (now + random.random_range(0..4), source ^ random.random_range(0..4));
                let event = event(time, random.random_range(0..25), source, what);
                if list.iter().any(|other| other.order() == event.order()) {
                    continue;
                }
                let clash = list.iter().any(|other| other.clashes(&event));
                assert_eq!(fresh.add(event), !clash, "seed {seed}: {event:?} among {list:?}");
                list.push(event);
                if clash {
                    // It is given up then.
                    clashes += 1;
                    break;
                }
            }
        }
        assert!((20..180).contains(&clashes), "{clashes} clashes");
    }
}
