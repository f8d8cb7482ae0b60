//! Accesses with given stack reuse distances: which blocks are touched in which order.
//!
//! A round goes once over all blocks, then over the first ones of them, the working set of the next smaller distance, as often as its
//! share of the accesses asks for, and so on. The first access to a block of a smaller working set comes from the larger one and has
//! the larger distance; the larger one's next access to it has the smaller distance: per round exactly as many accesses have a distance
//! as there are accesses in the sweeps over its working set.

use std::str::FromStr;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 64;
/// The most distances.
pub const DISTANCES_MAX: usize = 7;
/// Blocks that are touched without a look around.
pub const CHUNK_BLOCKS: usize = 4096;

/// A working set: its bytes, over all threads, and its part of the accesses, in relation to the others'.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Bytes.
    pub bytes: u64,
    /// In relation to the other distances'.
    pub share: f64,
}

/// In which order blocks are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// One behind the other.
    #[default]
    Stream,
    /// As if at random, the same way each time.
    Random,
}

/// Whether an access must wait for the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dependence {
    /// No: as many at a time as the processor can.
    #[default]
    Independent,
    /// Each block says where the next one is.
    List,
}

/// What a probe touches.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Descending.
    distances: Vec<Distance>,
    /// In which order.
    pub order: Order,
    /// Whether accesses wait.
    pub dependence: Dependence,
    /// Threads, each with its part of the bytes.
    pub threads: usize,
}

/// What cannot be a pattern.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PatternError {
    /// No size.
    #[error("`{0}` is no distance: write SIZE or SIZE:SHARE, as 16M or 256K:0.3")]
    Text(String),
    /// How many.
    #[error("{0} distances: give 1 to {DISTANCES_MAX}")]
    Count(usize),
    /// The same twice.
    #[error("the distance of {0} bytes is given twice")]
    Twice(u64),
    /// Less than a block a thread.
    #[error("{bytes} bytes for {threads} threads: each needs at least two blocks of {BLOCK_BYTES} bytes")]
    Small {
        /// Bytes.
        bytes: u64,
        /// Threads.
        threads: usize,
    },
    /// No thread.
    #[error("a probe needs at least one thread")]
    NoThread,
}

impl FromStr for Distance {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Distance, PatternError> {
        let wrong = || PatternError::Text(text.to_owned());
        let (size, share) = text.split_once(':').unwrap_or((text, "1"));
        let bytes = parse_size(size).ok_or_else(wrong)?;
        let share: f64 = share.parse().map_err(|_| wrong())?;
        if share > 0.0 && share <= 1e9 { Ok(Distance { bytes, share }) } else { Err(wrong()) }
    }
}

/// `16M` is 16,777,216.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
    let (number, power) = match text.char_indices().last()? {
        (at, letter) if letter.is_ascii_alphabetic() => {
            let power = "KMGT".find(letter.to_ascii_uppercase())?;
            (&text[..at], 10 * (power as u32 + 1))
        }
        _ => (text, 0),
    };
    let value = number.parse::<f64>().ok()? * f64::from(power).exp2();
    (value >= 1.0 && value <= (1u64 << 50) as f64).then_some(value as u64)
}

impl Pattern {
    /// Distances in any order.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn new(
        mut distances: Vec<Distance>,
        order: Order,
        dependence: Dependence,
        threads: usize,
    ) -> Result<Pattern, PatternError> {
        if threads == 0 {
            return Err(PatternError::NoThread);
        }
        if !(1..=DISTANCES_MAX).contains(&distances.len()) {
            return Err(PatternError::Count(distances.len()));
        }
        distances.sort_by_key(|distance| std::cmp::Reverse(distance.bytes));
        let blocks = |distance: &Distance| distance.bytes / BLOCK_BYTES / threads as u64;
        if let Some(twice) = distances.windows(2).find(|pair| blocks(&pair[0]) == blocks(&pair[1])) {
            return Err(PatternError::Twice(twice[1].bytes));
        }
        if let Some(small) = distances.iter().find(|distance| blocks(distance) < 2) {
            return Err(PatternError::Small { bytes: small.bytes, threads });
        }
        Ok(Pattern { distances, order, dependence, threads })
    }

    /// Blocks of each working set of a thread, the largest first.
    pub fn blocks(&self) -> Vec<usize> {
        let of = |distance: &Distance| (distance.bytes / BLOCK_BYTES) as usize / self.threads;
        self.distances.iter().map(of).collect()
    }

    /// The distances that each thread shows in the long run, in bytes over all threads, with their parts of its accesses.
    pub fn nominal(&self) -> Vec<Distance> {
        let sum: f64 = self.distances.iter().map(|distance| distance.share).sum();
        let blocks = self.blocks();
        let of = |(distance, blocks): (&Distance, usize)| Distance {
            bytes: (blocks * self.threads) as u64 * BLOCK_BYTES,
            share: distance.share / sum,
        };
        self.distances.iter().zip(blocks).map(of).collect()
    }

    /// Bytes of memory, over all threads.
    pub fn bytes(&self) -> u64 {
        (self.blocks()[0] * self.threads) as u64 * BLOCK_BYTES
    }

    /// Sweeps over each working set for one over the largest.
    fn sweeps(&self) -> Vec<f64> {
        let blocks = self.blocks();
        let largest = self.distances[0].share / blocks[0] as f64;
        let of = |(distance, blocks): (&Distance, &usize)| distance.share / *blocks as f64 / largest;
        self.distances.iter().zip(&blocks).map(of).collect()
    }
}

/// A block of memory: its first word says where the next one of its segment is.
#[derive(Clone)]
#[repr(align(64))]
struct Block([u64; 8]);

/// One thread's memory, and where it is in it.
///
/// The blocks that a working set has more than the next smaller one are a segment. A sweep over a working set goes through the segments
/// from the smallest working set's to its own, through each in an order of its own that is always the same: so what was touched in the
/// last sweep over a smaller working set comes first.
pub(super) struct Walker {
    memory: Vec<Block>,
    /// Of the working sets.
    blocks: Vec<usize>,
    sweeps: Vec<f64>,
    /// Sweeps that are due, a working set each.
    due: Vec<f64>,
    order: Order,
    dependence: Dependence,
    /// The working set that is being swept, the segment, the next block in it, and how many are left of it.
    level: usize,
    segment: usize,
    next: usize,
    left: usize,
    /// Sweeps over the largest working set that have been completed.
    pub rounds: u64,
}

impl Walker {
    /// Memory for a thread of this pattern; none where there is not so much.
    pub fn new(pattern: &Pattern) -> Option<Walker> {
        let (blocks, sweeps) = (pattern.blocks(), pattern.sweeps());
        let mut memory: Vec<Block> = Vec::new();
        memory.try_reserve_exact(blocks[0]).ok()?;
        memory.resize(blocks[0], Block([0; 8]));
        let due = vec![0.0; blocks.len()];
        let (order, dependence) = (pattern.order, pattern.dependence);
        let mut walker = Walker {
            memory,
            blocks,
            sweeps,
            due,
            order,
            dependence,
            level: 0,
            segment: 0,
            next: 0,
            left: 0,
            rounds: 0,
        };
        for segment in 0..walker.blocks.len() {
            let range = walker.range(segment);
            link(&mut walker.memory[range], order);
        }
        walker.enter(walker.blocks.len() - 1);
        Some(walker)
    }

    /// The blocks of a segment.
    fn range(&self, segment: usize) -> std::ops::Range<usize> {
        self.blocks.get(segment + 1).copied().unwrap_or(0)..self.blocks[segment]
    }

    fn enter(&mut self, segment: usize) {
        (self.segment, self.next, self.left) = (segment, 0, self.range(segment).len());
    }

    /// Touches some blocks, at most [`CHUNK_BLOCKS`]; says how many. What was read goes into `sum`.
    pub fn step(&mut self, sum: &mut u64) -> usize {
        let count = self.left.min(CHUNK_BLOCKS);
        let blocks = &self.memory[self.range(self.segment)];
        self.next = match (self.dependence, self.order) {
            (Dependence::List, _) => follow(blocks, self.next, count),
            (Dependence::Independent, Order::Stream) => {
                let part = &blocks[self.next..self.next + count];
                *sum = sum.wrapping_add(part.iter().map(|block| block.0[0]).fold(0, u64::wrapping_add));
                self.next + count
            }
            (Dependence::Independent, Order::Random) => scatter(blocks, self.next, count, sum),
        };
        self.left -= count;
        if self.left == 0 {
            match self.segment > self.level {
                true => self.enter(self.segment - 1),
                false => self.begin_sweep(),
            }
        }
        count
    }

    fn begin_sweep(&mut self) {
        if self.level == 0 {
            self.rounds += 1;
            self.due.iter_mut().zip(&self.sweeps).for_each(|(due, sweeps)| *due += sweeps);
        }
        // Sums of fractions fall short of whole numbers by a little.
        let is_due = |level: &usize| self.due[*level] > 1.0 - 1e-9;
        self.level = (self.level.max(1)..self.blocks.len()).find(is_due).unwrap_or(0);
        self.due[self.level] -= 1.0;
        self.enter(self.blocks.len() - 1);
    }
}

/// Writes into each block where the next one is: round about, all blocks.
fn link(blocks: &mut [Block], order: Order) {
    let count = blocks.len();
    let mut at = 0;
    for _ in 0..count {
        let next = if order == Order::Stream { (at + 1) % count } else { following(at, count) };
        blocks[at].0[0] = next as u64;
        at = next;
    }
}

#[inline]
fn follow(blocks: &[Block], from: usize, count: usize) -> usize {
    (0..count).fold(from, |at, _| blocks[at].0[0] as usize)
}

/// Touches blocks whose places are computed, so that none waits for another.
#[inline]
fn scatter(blocks: &[Block], from: usize, count: usize, sum: &mut u64) -> usize {
    let (mut at, mut read) = (from, 0u64);
    for _ in 0..count {
        read = read.wrapping_add(blocks[at].0[0]);
        at = following(at, blocks.len());
    }
    *sum = sum.wrapping_add(read);
    at
}

/// The place behind `at` in an order of 0 to `count` - 1 that looks random and comes to each: a linear congruential generator over the
/// next power of two has them all in its period (Hull and Dobell 1962), and what is too large is left out.
#[inline]
fn following(at: usize, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let mut next = at;
    loop {
        next = next.wrapping_mul(0x0005_deec_e66d).wrapping_add(0x9e37_79b1) & mask;
        if next < count {
            return next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_cachesim::{Histogram, StackDistances};

    fn pattern(distances: &[(u64, f64)], order: Order, dependence: Dependence, threads: usize) -> Pattern {
        let of = |(bytes, share): &(u64, f64)| Distance { bytes: *bytes, share: *share };
        Pattern::new(distances.iter().map(of).collect(), order, dependence, threads).expect("a pattern")
    }

    /// Which blocks a walker touches, taken from where it stands before and after each single step.
    fn trace(pattern: &Pattern, rounds: u64) -> Vec<u64> {
        let mut walker = Walker::new(pattern).expect("memory");
        let mut trace = Vec::new();
        while walker.rounds < rounds {
            let (range, mut at, left) = (walker.range(walker.segment), walker.next, walker.left);
            let count = walker.step(&mut 0);
            assert_eq!(count, left.min(CHUNK_BLOCKS));
            for _ in 0..count {
                trace.push((range.start + at) as u64);
                at = match pattern.order {
                    Order::Stream => at + 1,
                    Order::Random => following(at, range.len()),
                };
            }
        }
        trace
    }

    #[test]
    fn each_distance_has_its_share_exactly() {
        for order in [Order::Stream, Order::Random] {
            for dependence in [Dependence::Independent, Dependence::List] {
                let pattern =
                    pattern(&[(64 * 100, 0.5), (64 * 10_000, 0.2), (64 * 1000, 0.3)], order, dependence, 1);
                let (mut distances, mut histogram) = (StackDistances::new(), Histogram::default());
                let trace = trace(&pattern, 41);
                // Without the first round, in which all is new.
                for (at, block) in trace.iter().enumerate() {
                    let distance = distances.access(*block);
                    if at >= 10_000 {
                        histogram.add(distance);
                    }
                }
                let part = |blocks: u64| {
                    let near =
                        histogram.buckets().filter(|bucket| (bucket.from..bucket.to).contains(&(blocks - 1)));
                    near.map(|bucket| bucket.accesses).sum::<f64>() / histogram.accesses()
                };
                for nominal in pattern.nominal() {
                    let seen = part(nominal.bytes / 64);
                    assert!(
                        (seen - nominal.share).abs() < 0.01,
                        "{order:?} {dependence:?} {nominal:?}: {seen}"
                    );
                }
                assert!((histogram.first_accesses()).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn every_order_comes_to_every_block_once_a_round() {
        for count in [2usize, 3, 5, 64, 65, 1000, 4097, 10_000] {
            let mut seen = vec![false; count];
            let mut at = 0;
            for _ in 0..count {
                assert!(!std::mem::replace(&mut seen[at], true), "{at} of {count} twice");
                at = following(at, count);
            }
            assert_eq!(at, 0, "{count}");
        }
        // A list is walked by what stands in the blocks.
        let pattern = pattern(&[(64 * 1000, 1.0)], Order::Random, Dependence::List, 1);
        let walker = Walker::new(&pattern).expect("memory");
        assert_eq!(follow(&walker.memory, 0, 1000), 0);
        assert_eq!(follow(&walker.memory, 0, 7), (0..7).fold(0, |at, _| following(at, 1000)));
    }

    #[test]
    fn sizes_are_sums_over_threads_and_odd_ones_are_refused() {
        let four = pattern(&[(1 << 20, 1.0)], Order::Stream, Dependence::Independent, 4);
        assert_eq!((four.blocks(), four.bytes()), (vec![4096], 1 << 20));
        let parse = |text: &str| text.parse::<Distance>();
        assert_eq!(parse("16M"), Ok(Distance { bytes: 16 << 20, share: 1.0 }));
        assert_eq!(parse("1.5KiB:0.25"), Ok(Distance { bytes: 1536, share: 0.25 }));
        for text in ["", "M", "-1", "1:0", "1:x", "1:-2", "9999999T", "5Q", "nan", "1:inf", "é"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let new = |sizes: &[u64], threads| {
            let distances = sizes.iter().map(|bytes| Distance { bytes: *bytes, share: 1.0 }).collect();
            Pattern::new(distances, Order::Stream, Dependence::Independent, threads)
        };
        assert_eq!(new(&[], 1), Err(PatternError::Count(0)));
        assert_eq!(new(&[128; 8], 1), Err(PatternError::Count(8)));
        assert_eq!(new(&[1 << 20, 1 << 20], 1), Err(PatternError::Twice(1 << 20)));
        assert_eq!(new(&[64], 1), Err(PatternError::Small { bytes: 64, threads: 1 }));
        assert_eq!(new(&[1024], 0), Err(PatternError::NoThread));
    }
}
