//! The order of creation across ranks, found after each window.
//!
//! Under LogGOPSim's rule, events of one rank at one time happen in the order in which they were created, wherever that was.
//! While a window runs, ranks know that order only among their own events: what is created now comes behind everything
//! that was there before, and an event has for its number where in the [`Log`] its creator stands. Afterwards creators
//! are put in the order in which one engine for all ranks would have come to them: by time, then by their own
//! numbers, which, where they are from this window too, follow from their creators'. Creators get their places in that
//! order, and what they created gets its final number from those.

use castell_base::sync::{AtomicU32, Ordering as Memory};
use std::cmp::Ordering;

/// Set in numbers of this window: below it the creator's place in the log, then which of its events it is.
const PROVISIONAL: u64 = 1 << 63;
/// Bits for which of a creator's events it is.
const CHILD_BITS: u32 = 24;
const CHILD: u64 = (1 << CHILD_BITS) - 1;
/// Creators of one window, at most.
pub(super) const CREATORS_MAX: usize = u32::MAX as usize / 2;

/// An event that created others.
#[derive(Clone, Copy)]
struct Creator {
    /// When it happened.
    time: u64,
    number: u64,
}

/// Creators of a window among some ranks.
#[derive(Default)]
pub(super) struct Log {
    creators: Vec<Creator>,
    /// When (counted from the window's begin) and which, in order of time.
    by_time: Vec<u64>,
    scratch: Vec<u64>,
    /// The creator that is at work: its next event's number, if it has one already.
    next: Option<u64>,
}

impl Log {
    pub fn clear(&mut self) {
        self.creators.clear();
        self.by_time.clear();
        self.next = None;
    }

    pub fn len(&self) -> usize {
        self.creators.len()
    }

    /// Another event happens.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.next = None;
    }

    /// Number of a new event that is created by the one of this time and number. `None`: there are too many.
    #[inline(always)]
    pub fn create(&mut self, time: u64, number: u64) -> Option<u64> {
        let new = match self.next {
            Some(next) if next & CHILD == 0 => return None,
            Some(next) => next,
            None => {
                self.creators.push(Creator { time, number });
                PROVISIONAL | (self.creators.len() as u64 - 1) << CHILD_BITS
            }
        };
        self.next = Some(new + 1);
        Some(new)
    }

    /// Puts the creators in order of time.
    pub fn sort(&mut self, begin: u64, width: u64) {
        let keys = self.creators.iter().zip(0u64..).map(|(creator, at)| (creator.time - begin) << 32 | at);
        self.by_time.extend(keys);
        sort_by_high_half(&mut self.by_time, &mut self.scratch, width);
    }
}

/// Sorts words whose high halves are below `end`, stably by those.
fn sort_by_high_half(words: &mut Vec<u64>, scratch: &mut Vec<u64>, end: u64) {
    const DIGIT: u32 = 11;
    const FEW: usize = 2048;
    if words.len() < FEW {
        return words.sort_unstable();
    }
    scratch.clear();
    scratch.resize(words.len(), 0);
    for shift in (32..96 - (end - 1).leading_zeros().max(32)).step_by(DIGIT as usize) {
        let digit = |word: u64| (word >> shift) as usize % (1 << DIGIT);
        let mut places = [0u32; 1 << DIGIT];
        for &word in words.iter() {
            places[digit(word)] += 1;
        }
        let mut sum = 0;
        for place in &mut places {
            sum += std::mem::replace(place, sum);
        }
        for &word in words.iter() {
            let place = &mut places[digit(word)];
            scratch[*place as usize] = word;
            *place += 1;
        }
        std::mem::swap(words, scratch);
    }
}

/// The places of all creators of a window.
pub(super) struct Places {
    /// Where each log's creators begin.
    first: Vec<u32>,
    places: Vec<AtomicU32>,
    /// Creators of windows before.
    before: u64,
}

impl Places {
    /// None yet; numbers begin after `before`.
    pub fn new(before: u64) -> Places {
        Places { first: Vec::new(), places: Vec::new(), before }
    }

    /// Makes room for what these logs have.
    pub fn open(&mut self, logs: &[&Log]) {
        let mut sum = 0;
        self.first.clear();
        for log in logs {
            self.first.push(sum);
            sum += log.len() as u32;
        }
        if self.places.len() < sum as usize {
            self.places.resize_with(sum as usize, AtomicU32::default);
        }
    }

    /// Goes on to the next window.
    pub fn close(&mut self, creators: usize) {
        self.before += creators as u64;
    }

    /// The final number of an event that was created among the ranks of a log.
    #[inline(always)]
    pub fn resolve(&self, log: usize, number: u64) -> u64 {
        if number & PROVISIONAL == 0 {
            return number;
        }
        let at = (number ^ PROVISIONAL) >> CHILD_BITS;
        let place = self.places[self.first[log] as usize + at as usize].load(Memory::Relaxed);
        (self.before + u64::from(place)) << CHILD_BITS | number & CHILD
    }

    /// Finds the places of those of the `slice`-th part of the time.
    pub fn find(&self, logs: &[&Log], cuts: &[u64], slice: usize) {
        let (begin, end) = (cuts[slice], cuts[slice + 1]);
        let mut place = 0;
        let mut all = Vec::new();
        let mut only: &[u64] = &[];
        for (log, &first) in logs.iter().zip(&self.first) {
            let from = log.by_time.partition_point(|&word| word >> 32 < begin);
            let to = log.by_time.partition_point(|&word| word >> 32 < end);
            place += from as u32;
            if logs.len() == 1 {
                only = &log.by_time[from..to];
            } else {
                all.extend(log.by_time[from..to].iter().map(|word| word + u64::from(first)));
            }
        }
        if logs.len() > 1 {
            // Runs in order, which this sort finds.
            all.sort();
            only = &all;
        }
        let mut together = Vec::new();
        for same_time in only.chunk_by(|a, b| a >> 32 == b >> 32) {
            if let &[word] = same_time {
                self.places[word as u32 as usize].store(place, Memory::Relaxed);
                place += 1;
                continue;
            }
            together.clear();
            together.extend(same_time.iter().map(|&word| word as u32));
            together.sort_by(|&a, &b| self.compare(logs, a, b));
            for &at in &together {
                self.places[at as usize].store(place, Memory::Relaxed);
                place += 1;
            }
        }
    }

    /// Which of two creators comes first.
    fn compare(&self, logs: &[&Log], a: u32, b: u32) -> Ordering {
        let find = |at: u32| {
            let log = self.first.partition_point(|&first| first <= at) - 1;
            (log, (at - self.first[log]) as usize)
        };
        let ((log_a, mut a), (log_b, mut b)) = (find(a), find(b));
        loop {
            let (x, y) = (logs[log_a].creators[a], logs[log_b].creators[b]);
            let known = x.time.cmp(&y.time).then((x.number & PROVISIONAL).cmp(&(y.number & PROVISIONAL)));
            if known != Ordering::Equal {
                return known;
            }
            let (creator_a, creator_b) = (x.number & !CHILD, y.number & !CHILD);
            if x.number & PROVISIONAL == 0 || log_a == log_b && creator_a == creator_b {
                return x.number.cmp(&y.number);
            }
            a = ((creator_a ^ PROVISIONAL) >> CHILD_BITS) as usize;
            b = ((creator_b ^ PROVISIONAL) >> CHILD_BITS) as usize;
        }
    }
}

/// Where to cut a window's time so that the parts have about as many creators each.
pub(super) fn cuts(logs: &[&Log], parts: usize) -> Vec<u64> {
    let longest = logs.iter().max_by_key(|log| log.len()).map_or(&[][..], |log| &log.by_time);
    let inner =
        (1..parts).map(|part| longest.get(longest.len() * part / parts).map_or(u64::MAX, |word| word >> 32));
    std::iter::once(0).chain(inner).chain([u64::MAX]).collect()
}
