//! Which NUMA node wrote which bytes last: a table of samples that all workers write and read without waiting.
//!
//! It is beside the dependences, not in them: these forget what is done, and a program that waits after each sweep over its
//! data wants to know in the next one. A hint may be wrong: entries overwrite each other, and of a region only samples are
//! kept ([`castell_sched::places`]).

use crate::dependences::{Access, Kind};
use castell_base::sync::{AtomicU64, Ordering};
use castell_sched::places::{Vote, samples};

/// Entries: 128 KiB. A table of a few thousand regions at most is what a machine's caches can be about.
const SLOTS: usize = 1 << 14;

/// See the module.
pub(crate) struct Places {
    /// Each an address, shifted by 16 bits, and a NUMA node plus 1; 0: nothing.
    slots: Box<[AtomicU64]>,
}

impl Places {
    pub(crate) fn new() -> Places {
        Places { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A task with these accesses has run on a worker of `numa`.
    pub(crate) fn note(&self, accesses: &[Access], numa: usize) {
        let writes = |access: &&Access| !access.state().is_weak() && access.kind() != Kind::In;
        for access in accesses.iter().filter(writes) {
            let region = access.region();
            for address in samples(region.start(), region.length()) {
                // Relaxed: a hint, and nothing else is read because of it.
                self.slot(address).store(tag(address) | (numa as u64 + 1) & 0xffff, Ordering::Relaxed);
            }
        }
    }

    /// The NUMA node on which most of what these accesses name was written last, if anything is known.
    pub(crate) fn of(&self, accesses: &[Access]) -> Option<usize> {
        let mut vote = Vote::new();
        for access in accesses.iter().filter(|access| !access.state().is_weak()) {
            let region = access.region();
            let weight = (region.length() / 4).max(1) as u64;
            for address in samples(region.start(), region.length()) {
                let entry = self.slot(address).load(Ordering::Relaxed);
                if entry & !0xffff == tag(address) && entry & 0xffff != 0 {
                    vote.add((entry & 0xffff) as usize - 1, weight);
                }
            }
        }
        vote.winner()
    }

    fn slot(&self, address: usize) -> &AtomicU64 {
        let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.slots[(hash >> (64 - SLOTS.trailing_zeros())) as usize]
    }
}

fn tag(address: usize) -> u64 {
    (address as u64) << 16
}
