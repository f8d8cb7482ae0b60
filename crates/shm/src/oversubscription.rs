//! On which processor a rank runs and what it waits for, as hints for those that share the processor.

use castell_host::topology::current_cpu;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The processor that a rank ran on when it last looked. Written seldom, read by all that wait.
#[repr(transparent)]
pub struct RunsOn(AtomicU32);

impl RunsOn {
    const UNKNOWN: u32 = 0;

    /// Writes it where it has changed, and says which it is.
    pub fn look(&self) -> u32 {
        let processor = current_cpu().map_or(RunsOn::UNKNOWN, |cpu| cpu + 1);
        if self.0.load(Ordering::Relaxed) != processor {
            self.0.store(processor, Ordering::Relaxed);
        }
        processor
    }

    /// Whether it is this one, as far as is known.
    pub fn is(&self, processor: u32) -> bool {
        processor != RunsOn::UNKNOWN && self.0.load(Ordering::Relaxed) == processor
    }
}

/// What a rank waits for: that a word of the segment reaches a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Where the word lies. Bytes.
    pub offset: u64,
    /// What it becomes, or more.
    pub value: u64,
    /// In which turn of which context it waits.
    pub context: u32,
    /// See [`slot::turn_of`](crate::slot::turn_of).
    pub turn: u64,
}

impl Awaited {
    /// Whether it is there, in this word.
    pub fn has_come(&self, word: &AtomicU64) -> bool {
        word.load(Ordering::Relaxed) >= self.value
    }
}

/// Where a rank tells what it waits for. The words are not read at once: what is read may be of two waits.
#[repr(C)]
pub struct Awaits {
    /// Of the word; 0: it does not wait, or for nothing that others could see.
    offset: AtomicU64,
    value: AtomicU64,
    /// The turn, and the context in the lowest bits.
    turn: AtomicU64,
}

const CONTEXT_BITS: u32 = 8;

impl Awaits {
    /// It begins to wait.
    pub fn begin(&self, awaited: Awaited) {
        self.turn.store(awaited.turn << CONTEXT_BITS | u64::from(awaited.context), Ordering::Relaxed);
        self.value.store(awaited.value, Ordering::Relaxed);
        self.offset.store(awaited.offset, Ordering::Relaxed);
    }

    /// It waits no more.
    pub fn end(&self) {
        self.offset.store(0, Ordering::Relaxed);
    }

    /// What it waits for, if it does.
    pub fn get(&self) -> Option<Awaited> {
        let offset = self.offset.load(Ordering::Relaxed);
        let (value, word) = (self.value.load(Ordering::Relaxed), self.turn.load(Ordering::Relaxed));
        let (context, turn) = (word as u32 & ((1 << CONTEXT_BITS) - 1), word >> CONTEXT_BITS);
        (offset != 0).then_some(Awaited { offset, value, context, turn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_is_seen() {
        let awaits = Awaits { offset: AtomicU64::new(0), value: AtomicU64::new(0), turn: AtomicU64::new(0) };
        assert_eq!(awaits.get(), None);
        let word = AtomicU64::new(8);
        for context in [0, 3] {
            let awaited = Awaited { offset: 4096, value: 9, context, turn: 1 << 40 };
            awaits.begin(awaited);
            assert_eq!(awaits.get(), Some(awaited));
            assert!(!awaited.has_come(&word));
        }
        word.store(9, Ordering::Relaxed);
        assert!(awaits.get().is_some_and(|awaited| awaited.has_come(&word)));
        awaits.end();
        assert_eq!(awaits.get(), None);
    }
}
