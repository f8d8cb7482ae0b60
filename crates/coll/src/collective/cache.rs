//! Compiled calls, kept for the next one like them.

use super::call::Call;
use super::instance::{Instance, Key};
use std::sync::Arc;

/// Sets of instances: a key belongs to one of them.
const SETS: usize = 64;
/// Instances that a set keeps.
const WAYS: usize = 8;

/// How often calls found what they needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that were compiled before.
    pub hits: u64,
    /// Calls that had to be compiled.
    pub misses: u64,
    /// Compiled calls that are kept now.
    pub kept: u64,
    /// Of those that were compiled, how many have slots for their messages (see `slot`).
    pub programs: u64,
}

/// The compiled calls of a communicator.
pub(crate) struct Cache {
    sets: Box<[Vec<Kept>; SETS]>,
    /// Counts calls: says what was used last.
    now: u64,
    counts: Counts,
}

struct Kept {
    instance: Arc<Instance>,
    used: u64,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache { sets: Box::new([const { Vec::new() }; SETS]), now: 0, counts: Counts::default() }
    }
}

fn set_of(key: &Key) -> usize {
    let mut hash = key.operation as u64 | key.reduction << 8 | u64::from(key.root) << 32;
    for word in [key.count, key.input, key.output] {
        hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 32;
    }
    hash as usize % SETS
}

impl Cache {
    /// A compiled call like this one that nobody uses now. It is taken.
    #[inline]
    pub(crate) fn take(&mut self, key: &Key, call: &Call<'_>) -> Option<Arc<Instance>> {
        self.now += 1;
        let now = self.now;
        let found = self.sets[set_of(key)].iter_mut().find(|kept| {
            let instance = &kept.instance;
            instance.key == *key && instance.details.are_of(call) && instance.take()
        });
        match found {
            Some(kept) => {
                kept.used = now;
                self.counts.hits += 1;
                Some(Arc::clone(&kept.instance))
            }
            None => {
                self.counts.misses += 1;
                None
            }
        }
    }

    /// Keeps one that was just compiled, in the place of the one that was not used for longest.
    pub(crate) fn keep(&mut self, instance: &Arc<Instance>) {
        self.counts.programs += u64::from(instance.segments.is_some());
        let kept = Kept { instance: Arc::clone(instance), used: self.now };
        let set = &mut self.sets[set_of(&instance.key)];
        if set.len() < WAYS {
            set.push(kept);
            self.counts.kept += 1;
        } else if let Some(oldest) = set.iter_mut().min_by_key(|kept| kept.used) {
            // A run that still goes on keeps its instance.
            *oldest = kept;
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}
