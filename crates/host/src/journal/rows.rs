//! Rows of words that many threads append to and nobody takes away: a number for each by one addition, then its words, the first
//! one last.

use super::Row;
use castell_base::sync::{AtomicU64, Ordering};

/// Words of a row: a cache line.
pub const ROW_WORDS: usize = 8;

/// How many were begun, in a cache line of its own, and the rows.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    begun: &'a AtomicU64,
    words: &'a [AtomicU64],
}

impl<'a> Rows<'a> {
    /// How many words so many rows need.
    pub(super) fn words(rows: usize) -> usize {
        (rows + 1) * ROW_WORDS
    }

    pub(super) fn new(words: &'a [AtomicU64]) -> Rows<'a> {
        Rows { begun: &words[0], words: &words[ROW_WORDS..] }
    }

    #[inline]
    pub(super) fn append(&self, row: Row) {
        let at = self.begun.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(words) = at.checked_mul(ROW_WORDS).and_then(|at| self.words.get(at..at + ROW_WORDS)) else {
            return;
        };
        for (word, number) in words.iter().zip(row).skip(1) {
            word.store(number, Ordering::Relaxed);
        }
        // Release: who sees it sees the others.
        words[0].store(row[0], Ordering::Release);
    }

    /// The rows that are whole, and how many found no room.
    pub(super) fn read(&self) -> (Vec<Row>, u64) {
        let begun = self.begun.load(Ordering::Relaxed) as usize;
        let places = self.words.len() / ROW_WORDS;
        let rows = self.words.chunks_exact(ROW_WORDS).take(begun).filter_map(|words| {
            let first = words[0].load(Ordering::Acquire);
            let word = |at: usize| if at == 0 { first } else { words[at].load(Ordering::Relaxed) };
            (first != 0).then(|| std::array::from_fn(word))
        });
        (rows.collect(), begun.saturating_sub(places) as u64)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Two threads append while a third reads: what is read is whole, nothing is written over, and what found no room is counted.
    #[test]
    fn rows_are_whole_or_not_there() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let memory: Arc<Vec<AtomicU64>> =
                Arc::new((0..Rows::words(1)).map(|_| AtomicU64::new(0)).collect());
            let append = |number| {
                let memory = memory.clone();
                thread::spawn(move || Rows::new(&memory).append([number; ROW_WORDS]))
            };
            let threads = [append(1), append(2)];
            let (rows, _) = Rows::new(&memory).read();
            assert!(rows.iter().all(|row| row.iter().all(|word| *word == row[0])), "{rows:?}");
            for thread in threads {
                thread.join().expect("it ends");
            }
            let (rows, dropped) = Rows::new(&memory).read();
            assert_eq!((rows.len(), dropped), (1, 1));
        });
    }
}
