//! Processes that have run for very long, for tests: every count that goes with messages stands just below where it begins
//! again, or leaves 32 bits.
//!
//! | count | bits | begins again |
//! |---|---|---|
//! | runs of this process (`RunRef::serial`, blocks, slots of blocks) | 64 | never; crosses 2^32 here |
//! | runs with a peer (`number.rs`) | 31 | yes |
//! | calls of a context, in words of messages | 21 | yes |
//! | calls of a context, turns of slots | 64, 52 | never; cross 2^32 here |
//! | messages to a peer (`Header::sequence`) | 32 | yes |
//! | schedules in blocks (`next_uid`) | 64 | never; cross 2^32 here |
//! | gets | 32 | yes |
//! | calls on a board | 32 | yes |
//! | uses of a descriptor of the rendezvous | 32 | yes |
//! | calls of a doorbell | 32 | yes; compared for equality only |
//! | queues: generations of SCMP, releases of `rlock`, announcements; rings: laps, messages | 24, 30, 28; 16, 32 | yes: tests of `shm` |
//! | queues: positions in rings | 64 | never; cross 2^32 in tests of `shm` |
//! | deaths and departures (`epoch`), tickets and operations of a run | 32 | never: one a rank, one an operation |

use super::Process;
use super::number::PAIRWISE;
use super::turn::Engine;
use std::sync::atomic::Ordering;

impl Process {
    /// Puts all counts `left` steps before their last value. All ranks do the same before their first run, and wait for each other.
    #[doc(hidden)]
    pub fn grow_old(&self, left: u32) {
        let (pairwise, count_32) = (PAIRWISE - 1 - left, u32::MAX - left);
        let far = u64::from(count_32);
        let mut engine = self.shared.enter();
        let Engine { messages, runs, .. } = &mut *engine;
        messages.job.control(messages.me).doorbell.grow_old(count_32);
        for descriptor in messages.job.descriptors(messages.me) {
            descriptor.grow_old(count_32);
        }
        for number in runs.contexts.numbers().iter() {
            number.store(far, Ordering::Relaxed);
        }
        runs.grow_old(far);
        messages.grow_old(pairwise, count_32);
        self.shared.leave(engine);
    }
}
