//! Random numbers that depend on nothing but their key: the same on every machine, in any order, on any thread.
//!
//! Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 4.3) is a
//! bijection of 128-bit counters that a 64-bit key selects. Here the key is the seed, and the counter names what the
//! number is for: which rank, which of its operations, which draw of that operation.

use crate::Rank;
use rand_core::{RngCore, impls};

/// One more than the largest number of an operation in a [`Key`].
pub const OPERATIONS_END: u64 = 1 << 48;

/// What a stream of random numbers is for. Two different keys give streams that have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Chosen by the user: the same seed repeats a run.
    pub seed: u64,
    /// The rank that draws.
    pub rank: Rank,
    /// The operation in that rank, below [`OPERATIONS_END`].
    pub operation: u64,
}

impl Key {
    /// The stream for one draw (for example, one parameter) of this operation.
    ///
    /// # Panics
    ///
    /// If the operation is not below [`OPERATIONS_END`].
    #[inline]
    pub fn stream(self, draw: u16) -> Philox {
        Philox::new(self.seed, self.rank, self.operation, draw)
    }

    /// Two streams for two draws, whose first eight bytes come out of one block: for pairs that are mostly drawn together.
    ///
    /// ```
    /// use castell_base::Rank;
    /// use castell_base::random::Key;
    /// use rand_core::RngCore;
    ///
    /// let key = Key { seed: 1, rank: Rank(0), operation: 7 };
    /// let (mut whole, [mut first, mut second]) = (key.stream(3), key.streams(3));
    /// assert_eq!([first.next_u64(), second.next_u64()], [whole.next_u64(), whole.next_u64()]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the operation is not below [`OPERATIONS_END`].
    #[inline]
    pub fn streams(self, pair: u16) -> [Philox; 2] {
        let mut first = self.stream(pair);
        first.block = philox4x32(first.counter, first.key);
        let mut second = first.clone();
        // The blocks that only one of them has.
        (first.counter[0], second.counter[0]) = (1, 1 << 31);
        first.block = [0, 0, first.block[0], first.block[1]];
        (first.used, second.used) = (2, 2);
        [first, second]
    }
}

/// A stream of 2^34 random bytes for one draw, as a generator that rand's traits know.
#[derive(Clone, Debug)]
pub struct Philox {
    key: [u32; 2],
    /// Block of the stream, rank, operation, draw.
    counter: [u32; 4],
    block: [u32; 4],
    /// Words of `block` that are given out.
    used: usize,
}

impl Philox {
    /// The stream for this key; see [`Key`].
    ///
    /// # Panics
    ///
    /// If `operation` is not below [`OPERATIONS_END`].
    #[inline]
    pub fn new(seed: u64, rank: Rank, operation: u64, draw: u16) -> Philox {
        assert!(operation < OPERATIONS_END, "operation {operation} of rank {rank} has more than 48 bits");
        let high = (operation >> 32) as u32 | u32::from(draw) << 16;
        Philox { key: words(seed), counter: [0, rank.0, operation as u32, high], block: [0; 4], used: 4 }
    }
}

impl Philox {
    #[inline(never)]
    fn next_words(&mut self) -> u64 {
        let low = u64::from(self.next_u32());
        low | u64::from(self.next_u32()) << 32
    }
}

impl RngCore for Philox {
    #[inline]
    fn next_u32(&mut self) -> u32 {
        if self.used == self.block.len() {
            self.block = philox4x32(self.counter, self.key);
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    #[inline]
    fn next_u64(&mut self) -> u64 {
        match self.used {
            // As one of two streams begins.
            2 => {
                self.used = self.block.len();
                u64::from(self.block[2]) | u64::from(self.block[3]) << 32
            }
            _ => self.next_words(),
        }
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        impls::fill_bytes_via_next(self, bytes);
    }
}

/// The seed of the `repetition`-th run of an experiment that was started with `seed`; the first run's is `seed` itself.
pub fn repetition_seed(seed: u64, repetition: u64) -> u64 {
    if repetition == 0 {
        return seed;
    }
    // A counter that no operation's draw has: there the first word counts blocks, and no draw needs all of them.
    let [low, high] = words(repetition);
    let [first, second, ..] = philox4x32([u32::MAX, u32::MAX, low, high], words(seed));
    u64::from(first) | u64::from(second) << 32
}

/// Ten rounds of Philox on a counter of four words (section 4.3 and table 2 of the paper).
#[inline]
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    const ROUNDS: u32 = 10;
    const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let first = words(MULTIPLIERS[0] * u64::from(counter[0]));
        let second = words(MULTIPLIERS[1] * u64::from(counter[2]));
        counter = [second[1] ^ counter[1] ^ key[0], second[0], first[1] ^ counter[3] ^ key[1], first[0]];
    }
    counter
}

/// Low word, high word.
#[inline]
fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The authors' known-answer vectors for philox4x32-10: zeros, ones, digits of pi.
        let ones = u32::MAX;
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([ones; 4], [ones; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32(counter, key), expected);
        }
    }

    #[test]
    fn a_stream_is_the_blocks_of_its_counter() {
        let mut stream = Key { seed: 7 << 32 | 3, rank: Rank(5), operation: 2 << 32 | 9 }.stream(4);
        let blocks = [0, 1].map(|block| philox4x32([block, 5, 9, 4 << 16 | 2], [3, 7]));
        let drawn: Vec<u32> = (0..8).map(|_| stream.next_u32()).collect();
        assert_eq!(drawn, blocks.concat());
    }

    #[test]
    fn different_keys_give_different_numbers() {
        let key = Key { seed: 1, rank: Rank(1), operation: 1 };
        let others = [
            key.stream(1),
            Key { seed: 2, ..key }.stream(0),
            Key { rank: Rank(2), ..key }.stream(0),
            Key { operation: 2, ..key }.stream(0),
            Key { operation: 1 + (1 << 32), ..key }.stream(0),
        ];
        let first = key.stream(0).next_u64();
        assert_eq!(first, key.stream(0).next_u64());
        assert!(others.into_iter().all(|mut other| other.next_u64() != first));
    }

    #[test]
    fn repetitions_have_seeds_of_their_own() {
        let seeds: std::collections::HashSet<u64> = (0..1000).map(|n| repetition_seed(42, n)).collect();
        assert_eq!(seeds.len(), 1000);
        assert!(seeds.contains(&42));
    }

    #[test]
    #[should_panic(expected = "more than 48 bits")]
    fn an_operation_has_at_most_48_bits() {
        Philox::new(0, Rank(0), OPERATIONS_END, 0);
    }
}
