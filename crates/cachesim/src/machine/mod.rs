//! A chip whose cores share a last-level cache and a memory link, in virtual time, exactly.
//!
//! A core has an L1 and an L2 of its own; all cores share the last-level cache and the link behind it. Caches drop the least recently
//! used block, of a set or of all. A core issues its requests to the last-level cache in order, each when its instructions have come
//! so far and the request `window` places before has been answered: a window of 1 waits for each, a wide one stands for
//! out-of-order cores and prefetching. The link carries one block after the other. What a core does in its own caches depends on no
//! neighbour (caches are not inclusive), so that is done once a program ([`Stream`]), and only what leaves L2 is run together
//! ([`run`]). Blocks that are written back do not count, as in the seed: watched is what flows towards the core.
//!
//! Nothing here is a formula for a slowdown: slowdowns are times divided, for predictors to be tested against.

mod cache;
mod private;
mod shared;
mod together;

pub use cache::{Cache, Shape};
pub use private::Stream;
pub use shared::{Core, Measured, run};
pub use together::{Alone, Placed, alone, slowdowns};

/// Sizes and times of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// A core's first cache.
    pub l1: Shape,
    /// A core's second cache.
    pub l2: Shape,
    /// The cache that all cores share.
    pub llc: Shape,
    /// What an access costs its core when L2 has the block, beyond one to L1. Picoseconds.
    pub l2_ps: u64,
    /// From a request until the shared cache answers. Picoseconds.
    pub llc_ps: u64,
    /// From the end of a transfer over the link until the block is there. Picoseconds.
    pub memory_ps: u64,
    /// How long the link is taken by a block. Picoseconds.
    pub transfer_ps: u64,
}

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 64;

impl Chip {
    /// The seed's Xeon E5-4620 (COSH 2016, paper 1, table 1): 32 KiB, 256 KiB and a shared cache of 16 MiB with 8, 8 and 16 ways,
    /// all of them divided by `scale`. Times are ours: a link of 14 GB/s (the seed's fastest program takes 11.6 of it), 12 ns to the
    /// shared cache, 70 ns more to memory.
    ///
    /// # Panics
    /// The scale leaves less than a set of a cache: it is at most 64.
    pub fn xeon_e5_4620(scale: usize) -> Chip {
        assert!((1..=64).contains(&scale), "a scale of {scale}: 1 to 64");
        let shape = |bytes: usize, ways| Shape::sets(bytes / 64 / scale, ways);
        Chip {
            l1: shape(32 << 10, 8),
            l2: shape(256 << 10, 8),
            llc: shape(16 << 20, 16),
            l2_ps: 2_000,
            llc_ps: 12_000,
            memory_ps: 70_000,
            transfer_ps: BLOCK_BYTES * 1000 / 14,
        }
    }

    /// So many Xeon E5-2670 (20 MB shared each) taken as one, with caches divided by `scale`; the links' 40 GB/s each and the latencies
    /// are ours (COSH 2016, paper 3).
    ///
    /// # Panics
    /// The scale leaves less than a set of a cache: it is at most 64.
    pub fn xeon_e5_2670(scale: usize, sockets: usize) -> Chip {
        assert!((1..=64).contains(&scale), "a scale of {scale}: 1 to 64");
        let shape = |bytes: usize, ways| Shape::sets(bytes / 64 / scale, ways);
        Chip {
            llc: shape((20 << 20) * sockets, 20),
            transfer_ps: BLOCK_BYTES * 1000 / (40 * sockets as u64),
            ..Chip::xeon_e5_4620(scale)
        }
    }

    /// Bytes a second that the link carries at most.
    pub fn bytes_per_second_max(&self) -> f64 {
        BLOCK_BYTES as f64 * 1e12 / self.transfer_ps as f64
    }
}

/// What a machine refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// A mask that allows no way, or ways that are not there.
    #[error("a mask of {mask:#b} for a cache of {ways} ways: name at least one of its ways")]
    Mask {
        /// What was given.
        mask: u64,
        /// What there is.
        ways: usize,
    },
    /// A mask for a cache without ways.
    #[error("a cache without sets has no ways that a mask could name")]
    NoWays,
}
