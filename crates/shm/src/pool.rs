//! Memory that all ranks of a job can read: each rank has a pool in the job's segment and gives buffers out of it.
//!
//! Large blocking collective calls read such buffers where they lie, by plain loads: each byte is copied once, where memory of a
//! process's own is copied into the segment first (docs/decisions/0015). To allocate is no collective call.

use crate::job::Job;
use castell_base::Rank;
use castell_host::{HostError, shm};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What a rank can have at most: addresses, of which only what is allocated takes memory. Bytes.
const POOL_BYTES: usize = 16 << 30;
/// What all ranks of a job can have together: each process maps it. Bytes.
const POOLS_BYTES: usize = 256 << 30;
/// Buffers are as many pages.
pub const PAGE: usize = 4096;

/// Bytes of each rank's pool. Jobs without slots, whose calls would not look at it, have none; nor where addresses, or the sizes of
/// files, are limited.
pub fn bytes_for(ranks: u32) -> usize {
    let is_there = ranks <= crate::slot::RANKS_MAX && shm::is_unlimited();
    if is_there { (POOLS_BYTES / ranks.max(1) as usize).min(POOL_BYTES) & !(PAGE - 1) } else { 0 }
}

/// Why there is no buffer.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// More than is left.
    #[error(
        "cannot allocate {bytes} bytes that all ranks can read: the largest free piece of this rank's pool has {left}"
    )]
    Full {
        /// What was wanted.
        bytes: usize,
        /// The most that there is in one piece.
        left: usize,
    },
    /// The job has no pools.
    #[error(
        "this job has no memory that all ranks can read: it has more than {} ranks, or `ulimit -v` or `ulimit -f` was set where it was \
         started; ordinary memory serves all calls as well, if less quickly",
        crate::slot::RANKS_MAX
    )]
    None,
    /// The system has no memory left.
    #[error(transparent)]
    Memory(#[from] HostError),
}

/// The free pieces of this rank's pool: how long each is, by where it starts in the segment.
#[derive(Debug)]
pub struct Pool(Mutex<BTreeMap<usize, usize>>);

impl Pool {
    /// All of these bytes of the segment are free.
    pub fn new(bytes: Range<usize>) -> Pool {
        Pool(Mutex::new((!bytes.is_empty()).then_some((bytes.start, bytes.len())).into_iter().collect()))
    }

    fn free(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The start of the first piece that is large enough.
    ///
    /// # Errors
    /// There is none: how large the largest one is.
    pub fn take(&self, bytes: usize) -> Result<usize, usize> {
        let mut free = self.free();
        let Some((&start, &length)) = free.iter().find(|(_, length)| **length >= bytes) else {
            return Err(free.values().copied().max().unwrap_or(0));
        };
        free.remove(&start);
        if length > bytes {
            free.insert(start + bytes, length - bytes);
        }
        Ok(start)
    }

    /// A piece is free again.
    pub fn give_back(&self, mut start: usize, mut bytes: usize) {
        let mut free = self.free();
        if let Some((&before, &length)) = free.range(..start).next_back()
            && before + length == start
        {
            free.remove(&before);
            (start, bytes) = (before, bytes + length);
        }
        if let Some(length) = free.remove(&(start + bytes)) {
            bytes += length;
        }
        free.insert(start, bytes);
    }
}

/// So many bytes as whole pages, of which there is one at least.
pub fn pages(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(PAGE)
}

impl Job {
    /// Where these bytes lie in the rank's pool; `None`: somewhere else.
    #[inline]
    pub fn in_pool(&self, rank: Rank, at: *const u8, bytes: usize) -> Option<u64> {
        let (segment, range) = self.pool(rank);
        let offset = (at as usize).wrapping_sub(segment.as_ptr() as usize + range.start);
        (offset < range.len() && bytes <= range.len() - offset).then_some(offset as u64)
    }

    /// Where bytes of the rank's pool lie here.
    ///
    /// # Panics
    /// They do not lie in it.
    #[inline]
    pub fn of_pool(&self, rank: Rank, offset: u64, bytes: usize) -> *mut u8 {
        let (segment, range) = self.pool(rank);
        let fits = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes));
        assert!(fits.is_some_and(|end| end <= range.len()), "a message within its sender's pool");
        segment.as_ptr().wrapping_add(range.start + offset as usize)
    }

    /// Whether something lies in anybody's pool.
    #[inline]
    pub fn is_in_pools(&self, at: *const u8) -> bool {
        let (segment, first) = self.pool(Rank(0));
        (at as usize).wrapping_sub(segment.as_ptr() as usize) >= first.start
            && (at as usize).wrapping_sub(segment.as_ptr() as usize) < segment.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn pieces_are_apart_and_come_back() {
        let seed = castell_host::clock::now_ns();
        println!("seed {seed}");
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let pool = Pool::new(PAGE..PAGE + (1 << 20));
        let mut held: Vec<(usize, usize)> = Vec::new();
        for _ in 0..20_000 {
            if random.random_bool(0.5) || held.is_empty() {
                let bytes = PAGE * random.random_range(1..40);
                let Ok(start) = pool.take(bytes) else { continue };
                assert!(start >= PAGE && start + bytes <= PAGE + (1 << 20));
                let apart =
                    |(other, length): &(usize, usize)| start + bytes <= *other || other + length <= start;
                assert!(held.iter().all(apart));
                held.push((start, bytes));
            } else {
                let (start, bytes) = held.swap_remove(random.random_range(0..held.len()));
                pool.give_back(start, bytes);
            }
        }
        held.drain(..).for_each(|(start, bytes)| pool.give_back(start, bytes));
        assert_eq!(pool.take(1 << 20), Ok(PAGE), "one piece again");
    }
}
