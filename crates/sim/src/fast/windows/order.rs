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

/// Not in order yet.
const UNSETTLED: u32 = u32::MAX;

/// Creators of a window among some ranks.
#[derive(Default)]
pub(super) struct Log {
    creators: Vec<Creator>,
    /// When (counted from the window's begin) and which, in the order of creation.
    in_order: Vec<u64>,
    /// Each creator's position in that.
    positions: Vec<u32>,
    scratch: Vec<u64>,
    /// Creators of one time, with what tells their order.
    together: Vec<(u64, u32)>,
    /// The creator that is at work: its next event's number, if it has one already.
    next: Option<u64>,
}

impl Log {
    pub fn clear(&mut self) {
        self.creators.clear();
        self.in_order.clear();
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

    /// Puts the creators in order. That needs nothing from other logs: what was created in this window has its creator in
    /// the same one.
    pub fn sort(&mut self, begin: u64, width: u64) {
        let keys = self.creators.iter().zip(0u64..).map(|(creator, at)| (creator.time - begin) << 32 | at);
        self.in_order.extend(keys);
        sort_by_high_half(&mut self.in_order, &mut self.scratch, width);
        self.positions.clear();
        self.positions.resize(self.creators.len(), UNSETTLED);
        let (mut first, creators) = (0, self.creators.len());
        while first < creators {
            let time = self.in_order[first] >> 32;
            let more = self.in_order[first + 1..].iter().take_while(|&word| word >> 32 == time).count();
            match more {
                0 => self.positions[self.in_order[first] as u32 as usize] = first as u32,
                _ => self.settle(first, first + 1 + more),
            }
            first += 1 + more;
        }
    }

    /// Puts the creators of one time in order, generation by generation: those that have numbers or whose creators have
    /// positions, then those that these have created, and so on.
    fn settle(&mut self, mut first: usize, end: usize) {
        let mut together = std::mem::take(&mut self.together);
        let time = self.in_order[first] & !u64::from(u32::MAX);
        while first < end {
            together.clear();
            // The others stay behind these, in the order in which they were.
            let mut kept = end;
            for place in (first..end).rev() {
                let word = self.in_order[place];
                match self.key(word as u32) {
                    Some(key) => together.push((key, word as u32)),
                    None => {
                        kept -= 1;
                        self.in_order[kept] = word;
                    }
                }
            }
            assert!(!together.is_empty(), "creators come before what they create");
            together.reverse();
            // Often there are long runs in order, which this sort finds.
            together.sort_by_key(|&(key, _)| key);
            for &(_, at) in &together {
                self.in_order[first] = time | u64::from(at);
                self.positions[at as usize] = first as u32;
                first += 1;
            }
        }
        self.together = together;
    }

    /// What tells a creator's order among those of its time, if that is known: its number, or its creator's position.
    #[inline(always)]
    fn key(&self, at: u32) -> Option<u64> {
        let number = self.creators[at as usize].number;
        if number & PROVISIONAL == 0 {
            return Some(number);
        }
        match self.positions[creator_of(number)] {
            UNSETTLED => None,
            position => Some(PROVISIONAL | u64::from(position) << CHILD_BITS | number & CHILD),
        }
    }
}

/// Where in the log the creator of an event of this window stands.
#[inline(always)]
fn creator_of(number: u64) -> usize {
    ((number ^ PROVISIONAL) >> CHILD_BITS) as usize
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
    /// By log, and by position in it. With one log a position is a place.
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

    /// The final number of an event that was created among the ranks of a log, the `log`-th.
    #[inline(always)]
    pub fn resolve(&self, logged: &Log, log: usize, number: u64) -> u64 {
        if number & PROVISIONAL == 0 {
            return number;
        }
        let position = logged.positions[creator_of(number)];
        let place = match self.first.get(log) {
            Some(first) => self.places[(first + position) as usize].load(Memory::Relaxed),
            None => position,
        };
        (self.before + u64::from(place)) << CHILD_BITS | number & CHILD
    }

    /// Finds the places of those of the `slice`-th part of the time, of several logs.
    pub fn find(&self, logs: &[&Log], cuts: &[u64], slice: usize) {
        let (begin, end) = (cuts[slice], cuts[slice + 1]);
        let mut place = 0;
        let mut all = Vec::new();
        for (log, &first) in logs.iter().zip(&self.first) {
            let from = log.in_order.partition_point(|&word| word >> 32 < begin);
            let to = log.in_order.partition_point(|&word| word >> 32 < end);
            place += from as u32;
            let words = log.in_order[from..to].iter().zip(first + from as u32..);
            all.extend(words.map(|(word, position)| word >> 32 << 32 | u64::from(position)));
        }
        // Runs in order, which this sort finds.
        all.sort();
        for same_time in all.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
            let log_of = |word: u64| self.log_of(word as u32);
            // Of one log they are in order.
            if log_of(same_time[0]) != log_of(same_time[same_time.len() - 1]) {
                same_time.sort_by(|&a, &b| self.compare(logs, a as u32, b as u32));
            }
            for word in same_time {
                self.places[*word as u32 as usize].store(place, Memory::Relaxed);
                place += 1;
            }
        }
    }

    #[inline(always)]
    fn log_of(&self, position: u32) -> usize {
        self.first.partition_point(|&first| first <= position) - 1
    }

    /// Which of two creators comes first. Positions count from the first log's begin.
    fn compare(&self, logs: &[&Log], mut a: u32, mut b: u32) -> Ordering {
        let (log_a, log_b) = (self.log_of(a), self.log_of(b));
        if log_a == log_b {
            return a.cmp(&b);
        }
        let creator = |log: usize, position: u32| {
            let logged = logs[log];
            &logged.creators[logged.in_order[(position - self.first[log]) as usize] as u32 as usize]
        };
        loop {
            let (x, y) = (creator(log_a, a), creator(log_b, b));
            let known = x.time.cmp(&y.time).then((x.number & PROVISIONAL).cmp(&(y.number & PROVISIONAL)));
            if known != Ordering::Equal {
                return known;
            }
            if x.number & PROVISIONAL == 0 {
                return x.number.cmp(&y.number);
            }
            a = self.first[log_a] + logs[log_a].positions[creator_of(x.number)];
            b = self.first[log_b] + logs[log_b].positions[creator_of(y.number)];
        }
    }
}

/// Where to cut a window's time so that the parts have about as many creators each.
pub(super) fn cuts(logs: &[&Log], parts: usize) -> Vec<u64> {
    let longest = logs.iter().max_by_key(|log| log.len()).map_or(&[][..], |log| &log.in_order);
    let inner =
        (1..parts).map(|part| longest.get(longest.len() * part / parts).map_or(u64::MAX, |word| word >> 32));
    std::iter::once(0).chain(inner).chain([u64::MAX]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Whichever way is taken: of few words, of many, and of times with one digit or three.
    #[test]
    fn words_are_in_the_order_of_their_high_halves() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        for (words, end) in [
            (0, 1),
            (1, 1),
            (100, 1 << 20),
            (2047, 1000),
            (2048, 1),
            (2049, 2),
            (5000, 1000),
            (5000, 2048),
            (5000, 2049),
            (9000, 1 << 31),
        ] {
            let mut found: Vec<u64> = (0..words).map(|at| random.random_range(0..end) << 32 | at).collect();
            let mut expected = found.clone();
            expected.sort_by_key(|word| word >> 32);
            sort_by_high_half(&mut found, &mut Vec::new(), end);
            assert_eq!(found, expected, "{words} words below {end}");
        }
    }

    /// Time and number, and which of its log's creators has created it, as how manieth.
    type Made = (u64, u64, Option<(usize, u64)>);

    /// Random creators, beside one queue for all of them: by time; what has a number comes first, then what was created in this
    /// window, in the order of its creators, and of one creator in the order of creation.
    #[test]
    fn creators_come_in_the_order_in_which_one_queue_would_have_them() {
        for seed in 0..300 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (ranks_of, times) = (random.random_range(1..5), random.random_range(1..6));
            let mut logs: Vec<Log> = (0..ranks_of).map(|_| Log::default()).collect();
            // By log.
            let mut made: Vec<Vec<Made>> = vec![Vec::new(); logs.len()];
            for step in 0..random.random_range(1..60) {
                let log = random.random_range(0..logs.len());
                let so_far = made[log].len();
                let creator = (so_far > 0 && random.random_bool(0.6)).then(|| random.random_range(0..so_far));
                // The children of one creator come in any order.
                let child = |at| (at, (step * 7 + 3) % 61);
                let time = creator.map_or(0, |at| made[log][at].0);
                let time = random.random_range(time..time + times);
                let number = creator
                    .map_or((step * 37) % 61, |at| PROVISIONAL | (at as u64) << CHILD_BITS | child(at).1);
                made[log].push((time, number, creator.map(child)));
                logs[log].begin();
                assert!(logs[log].create(100 + time, number).is_some());
            }
            // One after the other, each time the first of those whose creators had their turn.
            let mut places: Vec<Vec<Option<u64>>> = made.iter().map(|log| vec![None; log.len()]).collect();
            for place in 0..made.iter().map(Vec::len).sum::<usize>() as u64 {
                let all = (0..made.len()).flat_map(|log| (0..made[log].len()).map(move |at| (log, at)));
                let next = all.filter(|&(log, at)| places[log][at].is_none()).filter_map(|(log, at)| {
                    let (time, number, creator) = made[log][at];
                    match creator {
                        None => Some(((time, false, number, 0), log, at)),
                        Some((creator, child)) => {
                            places[log][creator].map(|place| ((time, true, place, child), log, at))
                        }
                    }
                });
                let (_, log, at) = next.min().expect("creators come before what they create");
                places[log][at] = Some(place);
            }
            logs.iter_mut().for_each(|log| log.sort(100, 1000));
            let logs: Vec<&Log> = logs.iter().collect();
            for slices in 1..5 {
                let mut found = Places::new(0);
                if logs.len() > 1 {
                    found.open(&logs);
                    let cuts = cuts(&logs, slices);
                    (0..slices).for_each(|slice| found.find(&logs, &cuts, slice));
                }
                for (log, places) in places.iter().enumerate() {
                    for (at, &place) in places.iter().enumerate() {
                        let number = PROVISIONAL | (at as u64) << CHILD_BITS | 5;
                        let resolved = found.resolve(logs[log], log, number);
                        assert_eq!(Some(resolved >> CHILD_BITS), place, "seed {seed}, {slices}: {made:?}");
                        assert_eq!(resolved & CHILD, 5);
                    }
                }
            }
        }
    }

    /// Places are in the order of time, then of number; what was created in the window comes after what was there, in the
    /// order of its creators, however many logs and slices there are.
    #[test]
    fn creators_of_several_logs_get_their_places_in_order() {
        /// Where the window begins.
        const BEGIN: u64 = (1 << 31) - 3;
        // Of each creator: log, time, number. The provisional ones name their creator by its place in its log.
        let made_by = |creator: u64, child: u64| PROVISIONAL | creator << CHILD_BITS | child;
        let creators = [
            // In order: time 3 by number, then what these two have created at time 3.
            (0, 3, 7),
            (1, 3, 8),
            (0, 3, made_by(0, 0)),
            (0, 3, made_by(0, 1)),
            (1, 3, made_by(0, 0)),
            // Created by those.
            (0, 3, made_by(2, 0)),
            (1, 3, made_by(1, 0)),
            (1, 4, 2),
            (0, 9, 1),
        ];
        let mut logs = [Log::default(), Log::default()];
        for &(log, time, number) in &creators {
            let log: &mut Log = &mut logs[log];
            log.begin();
            let first = log.create(BEGIN + time, number);
            assert_eq!(first, Some(made_by(log.len() as u64 - 1, 0)));
            assert_eq!(log.create(BEGIN + time, number), Some(made_by(log.len() as u64 - 1, 1)));
        }
        logs.iter_mut().for_each(|log| log.sort(BEGIN, 50));
        for slices in 1..6 {
            let logs: Vec<&Log> = logs.iter().collect();
            let mut places = Places::new(1000);
            places.open(&logs);
            let cuts = cuts(&logs, slices);
            assert!(cuts.len() == slices + 1 && cuts.is_sorted(), "{cuts:?}");
            (0..slices).for_each(|slice| places.find(&logs, &cuts, slice));
            let mut seen = [0, 0];
            for (place, &(log, ..)) in (0..).zip(&creators) {
                let resolved = places.resolve(logs[log], log, made_by(seen[log], 5));
                assert_eq!(resolved, (1000 + place) << CHILD_BITS | 5, "creator {place}, {slices} slices");
                seen[log] += 1;
            }
            assert_eq!(places.resolve(logs[0], 0, 77), 77, "it has its number");
            places.close(9);
            assert_eq!(places.before, 1009);
        }
    }
}
