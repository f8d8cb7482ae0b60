//! What each rank has called, in shared memory: who waits for a call that never ends looks at what the others called in
//! its place.
//!
//! A rank's board has room for its last [`ENTRIES`] calls. Only the rank itself writes to it: it clears the entry's word,
//! writes the rest, then the word. Who reads takes the word before and after the rest; if it is the wanted one both times,
//! what is between belongs to it.

use castell_base::sync::{AtomicU64, Ordering, fence};
use std::fmt;

/// Calls that a board remembers.
pub const ENTRIES: usize = 256;
const NAME_BYTES: usize = 24;

/// One call: a cache line.
pub type Entry = Slot<7>;

/// A word and what belongs to it, read without a lock while it may be written again.
#[repr(C, align(64))]
pub struct Slot<const LENGTH: usize> {
    /// The call's word in messages; 0: nothing, or being written.
    word: AtomicU64,
    content: [AtomicU64; LENGTH],
}

/// What a rank called, as far as all ranks of the communicator must agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record([u64; 7]);

/// A call in parts.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Which operation: a name, known to the reader by its number.
    pub operation: u8,
    /// Which operator, by number; 0: none.
    pub operator: u8,
    /// Which type of elements, by number; 0: bytes.
    pub element: u8,
    /// The root, of operations that have one.
    pub root: Option<u32>,
    /// Elements of a vector or of each block, where all ranks must agree on it.
    pub count: u64,
    /// Size of an element.
    pub element_bytes: u64,
    /// Whether the caller goes on meanwhile.
    pub is_started: bool,
    /// The algorithm.
    pub algorithm: &'a str,
}

impl Record {
    /// Notes a call.
    pub fn new(parts: &Parts<'_>) -> Record {
        let mut name = [0; NAME_BYTES];
        // The operation is there already.
        let algorithm = parts.algorithm.split_once(':').map_or(parts.algorithm, |(_, algorithm)| algorithm);
        let kept = algorithm.len().min(NAME_BYTES);
        name[..kept].copy_from_slice(&algorithm.as_bytes()[..kept]);
        let [a, b, c] =
            [0, 8, 16].map(|at| u64::from_le_bytes(name[at..at + 8].try_into().expect("8 bytes")));
        let kind = u64::from(parts.operation)
            | u64::from(parts.operator) << 8
            | u64::from(parts.element) << 16
            | u64::from(parts.is_started) << 24
            | u64::from(parts.root.map_or(0, |root| root.wrapping_add(1))) << 32;
        let mut signature = 0xcbf2_9ce4_8422_2325;
        for word in [kind, parts.count, parts.element_bytes] {
            signature = mix(signature, word);
        }
        for byte in parts.algorithm.bytes() {
            signature = mix(signature, u64::from(byte));
        }
        Record([kind, parts.count, parts.element_bytes, a, b, c, signature])
    }

    /// A number that differs where calls differ.
    pub fn signature(&self) -> u64 {
        self.0[6]
    }

    /// The tag of the call's first message between two ranks: half of the tags are left for the messages behind it.
    #[cfg(not(loom))]
    pub(crate) fn first_tag(&self) -> castell_base::Tag {
        castell_base::Tag((self.signature() >> 33) as u32)
    }

    /// As it is written in a log of calls.
    #[cfg(not(loom))]
    pub(crate) fn words(&self) -> &[u64; 7] {
        &self.0
    }

    /// What a log of calls holds.
    #[cfg(not(loom))]
    pub(crate) fn from_words(words: [u64; 7]) -> Record {
        Record(words)
    }

    /// Whether both are the same call.
    pub fn is_like(&self, other: &Record) -> bool {
        self.signature() == other.signature()
    }

    fn name(&self) -> String {
        let bytes: Vec<u8> = self.0[3..6].iter().flat_map(|word| word.to_le_bytes()).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, count, element_bytes, ..] = self.0;
        let operation = super::Operation::ALL.get(kind as u8 as usize).map_or("?", |found| found.name());
        let started = if kind >> 24 & 1 == 1 { "non-blocking " } else { "" };
        write!(f, "{started}{operation}")?;
        if count > 0 {
            let element = super::element_name((kind >> 16) as u8);
            match element {
                Some(name) => write!(f, " of {count} {name}")?,
                None => write!(f, " of {} bytes", count * element_bytes)?,
            }
        }
        if let Some(operator) = super::operator_name((kind >> 8) as u8) {
            write!(f, " by {operator}")?;
        }
        if kind >> 32 > 0 {
            write!(f, ", root {}", (kind >> 32) - 1)?;
        }
        match self.name() {
            name if name.is_empty() => Ok(()),
            name => write!(f, " ({name})"),
        }
    }
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

/// A rank's board, to look at.
#[cfg(not(loom))]
pub struct Board<'a>(&'a [Entry; ENTRIES]);

#[cfg(not(loom))]
impl<'a> Board<'a> {
    /// The board of `rank`.
    pub fn of(job: &'a crate::job::Job, rank: castell_base::Rank) -> Board<'a> {
        Board(job.board(rank))
    }

    /// What the rank called under this word, if it did and has not made too many calls since.
    pub fn find(&self, word: u32) -> Option<Record> {
        self.0.iter().find_map(|entry| entry.read(word)).map(Record)
    }
}

/// A rank's own board.
#[cfg(not(loom))]
pub(crate) struct BoardWriter {
    entries: *const [Entry; ENTRIES],
    written: u32,
}

#[cfg(not(loom))]
impl BoardWriter {
    /// The board of `me`; the job stays mapped while it is used.
    pub(crate) fn new(job: &crate::job::Job, me: castell_base::Rank) -> BoardWriter {
        BoardWriter { entries: job.board(me), written: 0 }
    }

    /// Notes the next call.
    #[inline]
    pub(crate) fn write(&mut self, word: u32, record: &Record) {
        // SAFETY: the board lies in the job's segment, which the engine keeps mapped for as long as it has its writer.
        let entries = unsafe { &*self.entries };
        entries[self.written as usize % ENTRIES].write(word, &record.0);
        self.written = self.written.wrapping_add(1);
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
