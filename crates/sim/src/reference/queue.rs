//! Events in the order in which they happen.

use castell_base::{Rank, Time};
use castell_goal::schedule::OpId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// An operation starts, if what it needs is free. With how many sends of its rank it became ready, itself counted.
    Operation(Rank, OpId, u32),
    /// A message is at its receiver.
    Arrival(u32),
    /// An operation has finished.
    Finish(Rank, OpId),
    /// The head of a message reaches the next link of its route.
    Hop(u32),
}

/// Where an event stands among those of the same time: two words, compared in order. No two events have the same.
pub(super) type Place = (u64, u64);

/// All that is to happen. Holds at most one event for each operation under way and for each message under way.
#[derive(Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(Time, Place, Event)>>,
}

impl Queue {
    pub fn push(&mut self, time: Time, place: Place, event: Event) {
        self.heap.push(Reverse((time, place, event)));
    }

    pub fn pop(&mut self) -> Option<(Time, Place, Event)> {
        self.heap.pop().map(|Reverse(event)| event)
    }
}

/// Who waits until a processor or an interface is free. Only the first of them is in the queue; another one comes there when that one has had
/// its turn, so that not all ask again each time.
#[derive(Default)]
pub(super) struct Waiting {
    /// When the first one has its turn, and its place.
    first: Option<(Time, Place)>,
    behind: BinaryHeap<Reverse<(Place, Event)>>,
}

impl Waiting {
    /// Whether this one has to be in the queue, for it is the first one now; others stand behind.
    pub fn comes(&mut self, free: Time, place: Place, event: Event) -> bool {
        if self.first.is_some_and(|(_, first)| first < place) {
            self.behind.push(Reverse((place, event)));
            return false;
        }
        self.first = Some((free, place));
        true
    }

    /// Whether this was the first one, which has its turn now.
    pub fn is_turn(&mut self, now: Time, place: Place) -> bool {
        self.first.take_if(|first| *first == (now, place)).is_some()
    }

    /// Who comes next, unless the first one waits again.
    pub fn next(&mut self, free: Time) -> Option<(Place, Event)> {
        if self.first.is_some() {
            return None;
        }
        let Reverse((place, event)) = self.behind.pop()?;
        self.first = Some((free, place));
        Some((place, event))
    }
}
