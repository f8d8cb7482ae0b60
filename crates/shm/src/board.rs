//! What each rank has called, in shared memory: who waits for a call that never ends looks at what the others called in
//! its place.
//!
//! A rank's board has room for its last [`ENTRIES`] calls. Only the rank itself writes to it: it clears the entry's word,
//! writes the rest, then the word. Who reads takes the word before and after the rest; if it is the wanted one both times,
//! what is between belongs to it.

use castell_base::sync::{AtomicU64, Ordering, fence};

/// Calls that a board remembers.
pub const ENTRIES: usize = 256;

/// One call: a cache line.
pub type Entry = Slot<7>;

/// A word and what belongs to it, read without a lock while it may be written again.
#[repr(C, align(64))]
pub struct Slot<const LENGTH: usize> {
    /// The call's word in messages; 0: nothing, or being written.
    word: AtomicU64,
    content: [AtomicU64; LENGTH],
}

impl<const LENGTH: usize> Slot<LENGTH> {
    /// Writes a word and what belongs to it. One thread at a time.
    #[inline]
    pub fn write(&self, word: u32, content: &[u64; LENGTH]) {
        self.word.store(0, Ordering::Relaxed);
        // Whoever sees part of what follows sees the zero, too.
        fence(Ordering::Release);
        for (place, value) in self.content.iter().zip(content) {
            place.store(*value, Ordering::Relaxed);
        }
        self.word.store(u64::from(word), Ordering::Release);
    }

    /// What belongs to the word, if it is this one.
    pub fn read(&self, word: u32) -> Option<[u64; LENGTH]> {
        if self.word.load(Ordering::Acquire) != u64::from(word) {
            return None;
        }
        let content = std::array::from_fn(|at| self.content[at].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.word.load(Ordering::Relaxed) == u64::from(word)).then_some(content)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    /// A reader that finds a word finds all that belongs to it, while the slot is written again. Two words of content are
    /// as good as seven here, and soon searched.
    #[test]
    fn a_call_is_read_whole_or_not_at_all() {
        loom::model(|| {
            let slot = Arc::new(Slot::<2> {
                word: AtomicU64::new(0),
                content: std::array::from_fn(|_| AtomicU64::new(0)),
            });
            let writer = Arc::clone(&slot);
            let thread = loom::thread::spawn(move || {
                writer.write(1, &[1; 2]);
                writer.write(2, &[2; 2]);
            });
            for word in [1, 2] {
                if let Some(found) = slot.read(word) {
                    assert_eq!(found, [u64::from(word); 2]);
                }
            }
            thread.join().unwrap();
        });
    }
}
