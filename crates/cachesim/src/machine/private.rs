//! What a core does in its own caches, and what is left for the shared one.

use super::{BLOCK_BYTES, Cache, Chip};
use crate::programs::{Access, Program, of_pass};

/// A thread's requests to the shared cache in one pass of its loop, once its own caches are as every later pass finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What the core does before each request, in picoseconds, and the block.
    pub(super) requests: Vec<(u64, u64)>,
    /// What it does behind the last one. Picoseconds.
    pub(super) rest_ps: u64,
    pub(super) window: usize,
    accesses: u64,
    l1_misses: u64,
}

impl Stream {
    /// Runs a thread of a program through a core's own caches: two passes fill them, a third is recorded. Caches that drop the least
    /// recently used block are in the same state after every pass but the first, so the record is every later pass.
    pub fn of(chip: &Chip, program: &Program, thread: usize) -> Stream {
        let (mut l1, mut l2) = (Cache::new(chip.l1), Cache::new(chip.l2));
        let (l1_ways, l2_ways) = (chip.l1.all_ways(), chip.l2.all_ways());
        let mut stream =
            Stream { requests: Vec::new(), rest_ps: 0, window: program.window(), accesses: 0, l1_misses: 0 };
        for pass in 0..3 {
            let mut gap_ps = 0;
            let mut last = None;
            let recorded = pass == 2;
            program.pass(thread, &mut |access: Access| {
                gap_ps += u64::from(access.compute_ps);
                stream.accesses += u64::from(recorded);
                let block = of_pass(access.block, pass);
                // The block touched just before is the newest of its set: nothing moves.
                if last.replace(block) == Some(block) || l1.access(block, l1_ways) {
                    return;
                }
                stream.l1_misses += u64::from(recorded);
                if l2.access(block, l2_ways) {
                    gap_ps += chip.l2_ps;
                } else {
                    if recorded {
                        stream.requests.push((gap_ps, access.block));
                    }
                    gap_ps = 0;
                }
            });
            stream.rest_ps = gap_ps;
        }
        stream
    }

    /// Accesses of the core in a pass.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Bytes into L1 in a pass.
    pub fn bytes_into_l1(&self) -> u64 {
        self.l1_misses * BLOCK_BYTES
    }

    /// Bytes into L2 in a pass.
    pub fn bytes_into_l2(&self) -> u64 {
        self.requests.len() as u64 * BLOCK_BYTES
    }

    /// What the core needs for a pass if every request were answered at once. Picoseconds.
    pub fn compute_ps(&self) -> u64 {
        self.requests.iter().map(|(gap_ps, _)| gap_ps).sum::<u64>() + self.rest_ps
    }
}
