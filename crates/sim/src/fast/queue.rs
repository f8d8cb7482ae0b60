//! A monotone queue of events in the order (time, number), the number telling the order of creation.
//!
//! Time is read as digits of six bits. An event lies in a bucket by the highest digit in which its time differs from
//! the queue's, and by that digit (a radix heap with 64 buckets a level); buckets are first in, first out. Opening a
//! bucket whose events all have one time costs nothing, which is what collectives in lockstep have; a bucket of few
//! events is sorted; one of many is dealt out to the level below. Events that are put back with an old number, or
//! that lie in the past, are what the order of insertion cannot tell: the former mark their bucket, which is sorted
//! when it is opened, and the latter wait in a heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Something to happen. What the words mean is the engine's business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// When, in ps.
    pub time: u64,
    /// Which of those at the same time first.
    pub number: u32,
    pub rank: u32,
    pub what: u32,
    pub from: u32,
}

impl Event {
    fn order(&self) -> (u64, u32) {
        (self.time, self.number)
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

const DIGIT: u32 = 6;
const BUCKETS: usize = 1 << DIGIT;
const LEVELS: usize = 11;
/// Events in a chunk.
const CHUNK: usize = 128;
const NONE: u32 = u32::MAX;
/// So many events with different times are sorted; more are dealt out.
const SORTED_MAX: usize = 32;

/// A list of chunks; all but the last are full.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    head: u32,
    tail: u32,
    events: usize,
    /// Time of the earliest event.
    time: u64,
    /// All events have that time.
    uniform: bool,
    /// Numbers don't rise.
    disordered: bool,
    /// The last one's.
    last: u32,
}

const EMPTY: Bucket =
    Bucket { head: NONE, tail: NONE, events: 0, time: 0, uniform: true, disordered: false, last: 0 };

pub(super) struct Queue {
    levels: Box<[[Bucket; BUCKETS]; LEVELS]>,
    occupied: [u64; LEVELS],
    /// No event in a bucket is earlier.
    now: u64,
    /// Number of the next new event.
    next: u32,
    arena: Vec<Event>,
    /// Which chunk follows a chunk.
    follows: Vec<u32>,
    free: Vec<u32>,
    /// The bucket that was opened, if its order is that of insertion.
    run: Bucket,
    taken: usize,
    /// The bucket that was opened, if it had to be sorted; the next event last.
    sorted: Vec<Event>,
    sorted_anew: bool,
    /// Events before this go to the heap.
    run_end: u64,
    late: BinaryHeap<Reverse<Event>>,
    /// By rank: events that wait for another one.
    parked: HashMap<u32, Parked>,
}

/// Events of a rank that want the same and get it one by one, in the order of their numbers: only the first is queued.
struct Parked {
    /// Its number.
    first: u32,
    others: BinaryHeap<Reverse<ByNumber>>,
}

#[derive(PartialEq, Eq)]
struct ByNumber(Event);

impl PartialOrd for ByNumber {
    fn partial_cmp(&self, other: &ByNumber) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByNumber {
    fn cmp(&self, other: &ByNumber) -> std::cmp::Ordering {
        self.0.number.cmp(&other.0.number)
    }
}

impl Queue {
    /// An empty queue at time 0 whose next new event has this number.
    pub fn new(next: u32) -> Queue {
        Queue {
            levels: Box::new([[EMPTY; BUCKETS]; LEVELS]),
            occupied: [0; LEVELS],
            now: 0,
            next,
            arena: Vec::new(),
            follows: Vec::new(),
            free: Vec::new(),
            run: EMPTY,
            taken: 0,
            sorted: Vec::new(),
            sorted_anew: false,
            run_end: 0,
            late: BinaryHeap::new(),
            parked: HashMap::new(),
        }
    }

    /// Adds a new event. As many numbers as `span` says are for it and for those that follow it with [`Queue::retry`]; its
    /// own is the first. The span of an event that was put back is how many are left.
    #[inline(always)]
    pub fn push(&mut self, mut event: Event, span: impl Fn(&Event) -> u32 + Copy) {
        let count = span(&event);
        if self.next > u32::MAX - count {
            self.renumber(span);
        }
        event.number = self.next;
        self.next += count;
        if event.time >= self.run_end {
            self.file(event);
        } else if event.time == self.run.time && self.run.events > 0 {
            let mut run = self.run;
            self.append(&mut run, event);
            self.run = run;
        } else {
            self.late.push(Reverse(event));
        }
    }

    /// Puts an event back, at another time and with the number that it has; or adds one that follows another with the
    /// number that was kept for it.
    #[inline(always)]
    pub fn retry(&mut self, event: Event) {
        if event.time >= self.run_end {
            self.file(event);
        } else {
            self.late.push(Reverse(event));
        }
    }

    /// Puts an event back that has to wait for what others at its rank wait for, too: whoever has the lowest number gets it, and no
    /// other can go on at that time. Only that one is queued, so that many need not be put back again and again; when it
    /// goes on, [`Queue::unpark`] queues the next.
    pub fn park(&mut self, event: Event) {
        let parked = self.parked.entry(event.rank);
        let parked = parked.or_insert_with(|| Parked { first: event.number, others: BinaryHeap::new() });
        if event.number > parked.first {
            return parked.others.push(Reverse(ByNumber(event)));
        }
        // One that was the first until now is still queued; it will be parked when it has to wait again.
        parked.first = event.number;
        self.retry(event);
    }

    /// An event goes on that might have been parked; `free` is when the next at its rank can.
    pub fn unpark(&mut self, event: &Event, free: u64) {
        let Some(parked) = self.parked.get_mut(&event.rank).filter(|parked| parked.first == event.number)
        else {
            return;
        };
        match parked.others.pop() {
            Some(Reverse(ByNumber(next))) => {
                parked.first = next.number;
                self.retry(Event { time: free, ..next });
            }
            None => drop(self.parked.remove(&event.rank)),
        }
    }

    /// The events that come next in any case, if the last event that was taken is the first of several with different
    /// times: what they need can be brought into the cache together.
    #[inline(always)]
    pub fn batch(&self) -> &[Event] {
        &self.sorted
    }

    /// Whether the batch is a new one since this was asked last.
    #[inline(always)]
    pub fn has_new_batch(&mut self) -> bool {
        std::mem::take(&mut self.sorted_anew)
    }

    /// The earliest event.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Event> {
        if !self.late.is_empty() {
            return self.pop_late();
        }
        loop {
            if self.taken < self.run.events {
                return Some(self.take_from_run());
            }
            if let Some(event) = self.sorted.pop() {
                return Some(event);
            }
            if !self.open() {
                return None;
            }
        }
    }

    #[inline(always)]
    fn take_from_run(&mut self) -> Event {
        let place = self.taken % CHUNK;
        let head = self.run.head;
        let event = self.arena[head as usize * CHUNK + place];
        self.taken += 1;
        if place == CHUNK - 1 {
            self.leave_chunk();
        }
        event
    }

    /// The chunk that was read is free.
    fn leave_chunk(&mut self) {
        let head = self.run.head;
        self.run.head = self.follows[head as usize];
        self.free.push(head);
        if self.taken == self.run.events {
            (self.run.head, self.run.tail) = (NONE, NONE);
        }
    }

    fn pop_late(&mut self) -> Option<Event> {
        let late = self.late.peek().expect("asked only when it has events").0;
        let next = if self.taken < self.run.events {
            Some(self.arena[self.run.head as usize * CHUNK + self.taken % CHUNK])
        } else {
            self.sorted.last().copied()
        };
        match next {
            Some(next) if next < late => {
                if self.taken < self.run.events {
                    Some(self.take_from_run())
                } else {
                    self.sorted.pop()
                }
            }
            _ => self.late.pop().map(|event| event.0),
        }
    }

    /// Opens the earliest bucket; false: there is none.
    fn open(&mut self) -> bool {
        self.close_run();
        loop {
            let Some(level) = self.occupied.iter().position(|&occupied| occupied != 0) else {
                self.run_end = self.now;
                return false;
            };
            let digit = self.occupied[level].trailing_zeros() as usize;
            let bucket = std::mem::replace(&mut self.levels[level][digit], EMPTY);
            self.occupied[level] &= !(1 << digit);
            if bucket.uniform && !bucket.disordered {
                self.now = bucket.time;
                self.run_end = bucket.time + 1;
                (self.run, self.taken) = (bucket, 0);
                return true;
            }
            let width = DIGIT * level as u32;
            self.now = bucket.time;
            if bucket.uniform || bucket.events <= SORTED_MAX {
                self.run_end =
                    if bucket.uniform { bucket.time + 1 } else { ((bucket.time >> width) + 1) << width };
                self.sort(bucket);
                return true;
            }
            self.deal(bucket);
        }
    }

    fn close_run(&mut self) {
        if self.run.tail != NONE {
            self.free.push(self.run.tail);
        }
        (self.run, self.taken) = (EMPTY, 0);
    }

    fn sort(&mut self, bucket: Bucket) {
        let mut sorted = std::mem::take(&mut self.sorted);
        self.drain(bucket, |_, event| sorted.push(event));
        if bucket.uniform {
            // Mostly long runs in order, which this sort finds.
            sorted.reverse();
            sorted.sort_by_key(|event| Reverse(event.number));
        } else {
            sorted.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.sorted = sorted;
        self.sorted_anew = !bucket.uniform;
    }

    fn deal(&mut self, bucket: Bucket) {
        self.drain(bucket, |queue, event| queue.file(event));
    }

    /// Takes a bucket's events out one by one, and gives its chunks back.
    fn drain(&mut self, bucket: Bucket, mut each: impl FnMut(&mut Queue, Event)) {
        let (mut chunk, mut left) = (bucket.head, bucket.events);
        while left > 0 {
            let count = left.min(CHUNK);
            for place in 0..count {
                let event = self.arena[chunk as usize * CHUNK + place];
                each(self, event);
            }
            left -= count;
            let next = self.follows[chunk as usize];
            self.free.push(chunk);
            chunk = next;
        }
    }

    /// Puts an event into its bucket.
    #[inline(always)]
    fn file(&mut self, event: Event) {
        let differs = (event.time ^ self.now) | 1;
        let level = ((63 - differs.leading_zeros()) / DIGIT) as usize;
        let digit = (event.time >> (DIGIT * level as u32)) as usize % BUCKETS;
        let mut bucket = self.levels[level][digit];
        if bucket.events == 0 {
            bucket.time = event.time;
            self.occupied[level] |= 1 << digit;
        }
        bucket.uniform &= event.time == bucket.time;
        bucket.time = bucket.time.min(event.time);
        bucket.disordered |= event.number < bucket.last;
        bucket.last = event.number;
        self.append(&mut bucket, event);
        self.levels[level][digit] = bucket;
    }

    #[inline(always)]
    fn append(&mut self, bucket: &mut Bucket, event: Event) {
        let place = bucket.events % CHUNK;
        if place == 0 {
            self.extend(bucket);
        }
        self.arena[bucket.tail as usize * CHUNK + place] = event;
        bucket.events += 1;
    }

    #[inline(never)]
    fn extend(&mut self, bucket: &mut Bucket) {
        let chunk = self.free.pop().unwrap_or_else(|| {
            self.arena.resize(self.arena.len() + CHUNK, Event::default());
            self.follows.push(NONE);
            self.follows.len() as u32 - 1
        });
        match bucket.tail {
            NONE => bucket.head = chunk,
            tail => self.follows[tail as usize] = chunk,
        }
        bucket.tail = chunk;
    }

    /// Gives the waiting events the lowest numbers, in the same order, once numbers have run out.
    #[cold]
    fn renumber(&mut self, span: impl Fn(&Event) -> u32 + Copy) {
        let mut waiting: Vec<Event> = std::iter::from_fn(|| self.pop()).collect();
        // They are put back once more, and parked again.
        let parked = self.parked.drain().flat_map(|(_, parked)| parked.others);
        waiting.extend(parked.map(|Reverse(ByNumber(event))| event));
        waiting.sort_unstable_by_key(|event| event.number);
        *self = Queue::new(0);
        for event in waiting {
            self.push(event, span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// A heap with 64-bit numbers beside the queue; `next` is the queue's first number.
    fn compare(seed: u64, next: u32, steps: usize) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut queue, mut heap) = (Queue::new(next), BinaryHeap::new());
        let (mut number, mut now) = (0u64, 0);
        let spread = [3, 100, 10_000, 1 << 40][random.random_range(0..4)];
        let mut waiting_max = [1, 5, 2000][random.random_range(0..3)];
        for step in 0..steps {
            if step > steps / 2 {
                waiting_max = 0;
            }
            if heap.len() < waiting_max && random.random_bool(0.6) || heap.is_empty() {
                let past = random.random_bool(0.01);
                let time = if past { now / 2 } else { now + random.random_range(0..spread) };
                // The rank identifies the event.
                let rank = number as u32;
                queue.push(Event { time, rank, ..Event::default() }, |_| 1);
                heap.push(Reverse((time, number, rank)));
                number += 1;
                continue;
            }
            let (time, old, rank) = heap.pop().expect("there is one").0;
            let mut event = queue.pop().expect("as many as in the heap");
            assert_eq!((event.time, event.rank), (time, rank), "seed {seed}, step {step}");
            now = now.max(time);
            if random.random_bool(0.2) {
                event.time = now + 1 + random.random_range(0..spread);
                heap.push(Reverse((event.time, old, rank)));
                queue.retry(event);
            }
        }
    }

    #[test]
    fn events_come_in_order_of_time_and_creation() {
        for seed in 0..60 {
            compare(seed, 0, 20_000);
        }
    }

    /// Also at time 0, where a list that is empty has the same time.
    #[test]
    fn new_events_come_behind_those_that_were_put_back_to_the_same_time() {
        for time in [0, 1, 64] {
            let mut queue = Queue::new(10);
            let event = |number, rank| Event { time, number, rank, ..Event::default() };
            // Not in the order of their numbers, so that they are sorted.
            queue.retry(event(5, 1));
            queue.retry(event(3, 0));
            queue.retry(event(7, 2));
            assert_eq!(queue.pop().map(|event| event.rank), Some(0), "at {time}");
            queue.push(event(0, 3), |_| 1);
            queue.push(event(0, 4), |_| 1);
            // One that is put back now comes where its number says.
            queue.retry(event(6, 5));
            let rest: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|event| event.rank).collect();
            assert_eq!(rest, [1, 5, 2, 3, 4], "at {time}");
        }
    }

    /// Whether each time has one event or several, in order or not.
    #[test]
    fn memory_is_used_again() {
        let mut queue = Queue::new(1);
        let mut events = 0;
        for time in 0..5000 {
            (0..=time % 3).for_each(|_| queue.push(Event { time, ..Event::default() }, |_| 1));
            queue.push(Event { time: time + 1000 + time % 7, ..Event::default() }, |_| 1);
            while queue.pop().is_some_and(|event| event.time < time) {
                events += 1;
            }
            events += 1;
        }
        assert!(events >= 5000, "{events}");
        assert!(queue.arena.len() < 1000 * CHUNK, "{} places", queue.arena.len());
    }

    /// All numbers that an event is to have are there, whether its own or others' have to be given anew for that.
    #[test]
    fn numbers_are_kept_for_those_that_follow() {
        for (next, expected) in [(10, [10, 15, 17]), (u32::MAX - 2, [0, 5, 7]), (u32::MAX - 6, [0, 5, 7])] {
            let mut queue = Queue::new(next);
            let spans = [5, 2, 1];
            (0..3).for_each(|rank| {
                queue.push(Event { rank, ..Event::default() }, |event| spans[event.rank as usize]);
            });
            let numbers: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|event| event.number).collect();
            assert_eq!(numbers, expected, "from {next} on");
        }
    }

    #[test]
    fn numbers_may_run_out() {
        for seed in 100..130 {
            compare(seed, u32::MAX - 1500, 5000);
        }
    }
}
