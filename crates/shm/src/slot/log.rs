//! What a rank has called with slots, for whoever waits in vain: ranges of calls that were alike.
//!
//! Only the rank itself writes. A new range's first number is cleared, the rest is written, then the number; who reads takes
//! it before and after the rest. A range grows by one store.

use crate::queue::area::Area;
use castell_base::sync::{Ordering, fence};

const FIRST: usize = 0;
const UNTIL: usize = 1;
const CONTENT: usize = 2;
/// Words that tell of a call.
pub const CONTENT_WORDS: usize = if cfg!(loom) { 2 } else { 7 };
const ENTRY_WORDS: usize = 16;
/// Bytes of an entry: two cache lines.
pub const ENTRY_BYTES: usize = 8 * ENTRY_WORDS;
const ENTRIES: usize = if cfg!(loom) { 1 } else { super::geometry::LOG_ENTRIES };

/// A rank's log, to look at.
#[derive(Clone, Copy)]
pub struct Log(Area);

impl Log {
    /// The log that lies at this address.
    ///
    /// # Safety
    /// It lies in slots that stay mapped.
    pub unsafe fn new(at: *mut u8) -> Log {
        // SAFETY: handed on from the caller.
        Log(unsafe { Area::new(at) })
    }

    /// What the rank called under a number of which only the low bits in `mask` are known, if it did and has not called too
    /// many other things since.
    pub fn find(self, low: u64, mask: u64) -> Option<[u64; CONTENT_WORDS]> {
        (0..ENTRIES).find_map(|entry| self.read(entry * ENTRY_WORDS, low, mask))
    }

    fn read(self, at: usize, low: u64, mask: u64) -> Option<[u64; CONTENT_WORDS]> {
        let first = self.0.word(at + FIRST).load(Ordering::Acquire);
        let until = self.0.word(at + UNTIL).load(Ordering::Acquire);
        let content = std::array::from_fn(|word| self.0.word(at + CONTENT + word).load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_whole = first != 0 && self.0.word(at + FIRST).load(Ordering::Relaxed) == first;
        // The last number of the range with such low bits.
        let number = until.wrapping_sub(until.wrapping_sub(low) & mask);
        (is_whole && (first..=until).contains(&number)).then_some(content)
    }
}

/// A rank's own log.
pub struct LogWriter {
    log: Log,
    entry: usize,
    until: u64,
    /// The last word of what was noted last.
    signature: u64,
}

impl LogWriter {
    /// To write this log, which nobody has written to.
    pub fn new(log: Log) -> LogWriter {
        LogWriter { log, entry: 0, until: 0, signature: 0 }
    }

    /// Notes a call. Calls are alike if the last words of what tells of them are.
    #[inline(always)]
    pub fn write(&mut self, number: u64, content: &[u64; CONTENT_WORDS]) {
        if self.until != 0 && self.until + 1 == number && self.signature == content[CONTENT_WORDS - 1] {
            self.log.0.word(self.entry * ENTRY_WORDS + UNTIL).store(number, Ordering::Release);
        } else {
            self.begin(number, content);
        }
        self.until = number;
    }

    #[inline(never)]
    fn begin(&mut self, number: u64, content: &[u64; CONTENT_WORDS]) {
        self.entry = (self.entry + 1) % ENTRIES;
        self.signature = content[CONTENT_WORDS - 1];
        let (area, at) = (self.log.0, self.entry * ENTRY_WORDS);
        area.word(at + FIRST).store(0, Ordering::Relaxed);
        // Whoever sees part of what follows sees the zero, too.
        fence(Ordering::Release);
        for (word, value) in content.iter().enumerate() {
            area.word(at + CONTENT + word).store(*value, Ordering::Relaxed);
        }
        area.word(at + UNTIL).store(number, Ordering::Relaxed);
        area.word(at + FIRST).store(number, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use castell_host::shm::Segment;

    #[test]
    fn calls_are_found_by_their_low_bits() {
        let memory = Segment::create("castell-log", 4096).expect("shared memory");
        // SAFETY: zeroed, alive until the test's end.
        let log = unsafe { Log::new(memory.as_ptr()) };
        let mut writer = LogWriter::new(log);
        let mask = (1 << 21) - 1;
        let start = (1u64 << 21) - 3;
        assert_eq!(log.find(0, mask), None);
        for number in start..start + 6 {
            writer.write(number, &[5; CONTENT_WORDS]);
        }
        writer.write(start + 7, &[6; CONTENT_WORDS]);
        assert_eq!(log.find(start & mask, mask), Some([5; CONTENT_WORDS]));
        assert_eq!(log.find((start + 5) & mask, mask), Some([5; CONTENT_WORDS]));
        assert_eq!(log.find((start + 6) & mask, mask), None);
        assert_eq!(log.find((start + 7) & mask, mask), Some([6; CONTENT_WORDS]));
        assert_eq!(log.find((start - 1) & mask, mask), None);
        for number in 0..100 {
            writer.write(start + 10 + number, &[number; CONTENT_WORDS]);
        }
        assert_eq!(log.find((start + 109) & mask, mask), Some([99; CONTENT_WORDS]));
        assert_eq!(log.find(start & mask, mask), None);
    }

    /// Calls that follow one another and are alike in their last word are one range; it has what the first of them was.
    #[test]
    fn alike_calls_in_a_row_are_one_range() {
        let memory = Segment::create("castell-log", 4096).expect("shared memory");
        // SAFETY: zeroed, alive until the test's end.
        let log = unsafe { Log::new(memory.as_ptr()) };
        let content = |first: u64, last: u64| {
            std::array::from_fn(|word| if word == 6 { last } else { first + word as u64 })
        };
        let mut writer = LogWriter::new(log);
        let found = |number: u64| log.find(number, u64::MAX);
        assert_eq!((found(0), found(1), log.find(0, 0)), (None, None, None));
        for (number, first, last) in
            [(1, 100, 1), (2, 200, 1), (3, 300, 2), (5, 500, 2), (6, 600, 2), (7, 700, 1), (9, 900, 1)]
        {
            writer.write(number, &content(first, last));
        }
        let ranges =
            [(1, 100, 1), (2, 100, 1), (3, 300, 2), (5, 500, 2), (6, 500, 2), (7, 700, 1), (9, 900, 1)];
        for (number, first, last) in ranges {
            assert_eq!(found(number), Some(content(first, last)), "{number}");
        }
        assert_eq!([0, 4, 8, 10].map(found), [None; 4]);
        // Of low bits only: a range that has such a number, of which 8 would be one and was none.
        assert_eq!(
            [log.find(2, 3), log.find(0, 7), log.find(1, 1)],
            [Some(content(100, 1)), None, Some(content(100, 1))]
        );
        // As many ranges as there are entries are kept, the oldest makes room.
        for number in 0..super::super::geometry::LOG_ENTRIES as u64 - 1 {
            writer.write(20 + 2 * number, &content(number, number));
        }
        assert_eq!((found(7), found(9), found(20)), (None, Some(content(900, 1)), Some(content(0, 0))));
        for number in 0..super::super::geometry::LOG_ENTRIES as u64 - 1 {
            assert_eq!(found(20 + 2 * number), Some(content(number, number)), "{number}");
        }
        writer.write(1000, &content(7, 7));
        assert_eq!((found(9), found(1000)), (None, Some(content(7, 7))));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::queue::area::Word;
    use std::sync::Arc;

    #[test]
    fn a_range_is_read_whole_or_not_at_all() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(|| {
            let words: Arc<Vec<Word>> = Arc::new((0..ENTRY_WORDS).map(|_| Word::default()).collect());
            // SAFETY: the words outlive both ends.
            let log = unsafe { Log::new(words.as_ptr().cast_mut().cast()) };
            let kept = Arc::clone(&words);
            let thread = loom::thread::spawn(move || {
                let _kept = kept;
                let mut writer = LogWriter::new(log);
                writer.write(1, &[1; 2]);
                writer.write(2, &[1; 2]);
                writer.write(3, &[3; 2]);
            });
            for number in [2, 3] {
                if let Some(found) = log.find(number, u64::MAX) {
                    assert_eq!(found, [if number == 3 { 3 } else { 1 }; 2]);
                }
            }
            thread.join().unwrap();
        });
    }
}
