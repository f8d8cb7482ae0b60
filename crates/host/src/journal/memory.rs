//! The memory behind journals: who makes it, who finds it.

use super::rows::Rows;
use super::{ROW_WORDS, Row};
use crate::HostError;
use crate::shm::Segment;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The variable that has the number of the descriptor.
pub const DESCRIPTOR_VARIABLE: &str = "CASTELL_TIMELINE_FD";
/// The variable that says whose part it is.
const PART_VARIABLE: &str = "CASTELL_RANK";

const MAGIC: u64 = u64::from_le_bytes(*b"castell1");
/// In front of the parts: what it is, how many parts, how many rows in each.
const HEAD_WORDS: usize = 8;
/// At the beginning of a part: how many bytes of names there are; then the names.
const NAMES_WORDS: usize = 1 << 13;

/// The memory, of the process that made it.
pub struct Journals(Shared);

struct Shared {
    segment: Segment,
    parts: usize,
    rows: usize,
}

/// What a process noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// The rows, in the order in which they were begun.
    pub rows: Vec<Row>,
    /// By the number that [`Journal::name`] gave.
    pub names: HashMap<u32, String>,
    /// Rows that found no room.
    pub dropped: u64,
}

impl Shared {
    fn part_words(rows: usize) -> usize {
        NAMES_WORDS + Rows::words(rows)
    }

    fn part(&self, part: usize) -> (&[AtomicU64], Rows<'_>) {
        let words = Shared::part_words(self.rows);
        let part = &self.segment.words()[HEAD_WORDS + part * words..][..words];
        let (names, rows) = part.split_at(NAMES_WORDS);
        (names, Rows::new(rows_of(rows)))
    }
}

#[cfg(not(loom))]
fn rows_of(words: &[AtomicU64]) -> &[AtomicU64] {
    words
}

/// Loom's atomics lie in memory of its own: its tests are those of `rows`.
#[cfg(loom)]
fn rows_of(_words: &[AtomicU64]) -> &[castell_base::sync::AtomicU64] {
    &[]
}

impl Journals {
    /// Memory for so many processes, so many rows each. Pages cost memory once they are written to.
    ///
    /// # Errors
    /// There is not so much.
    pub fn create(parts: usize, rows: usize) -> Result<Journals, HostError> {
        let words = HEAD_WORDS + parts * Shared::part_words(rows);
        let segment = Segment::create("castell-timeline", words * 8)?;
        for (word, number) in segment.words().iter().zip([MAGIC, parts as u64, rows as u64]) {
            word.store(number, Ordering::Relaxed);
        }
        Ok(Journals(Shared { segment, parts, rows }))
    }

    /// What the processes inherit.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.segment.fd()
    }

    /// What a process noted so far.
    pub fn read(&self, part: usize) -> Noted {
        assert!(part < self.0.parts, "part {part} of {}", self.0.parts);
        let (names, rows) = self.0.part(part);
        let (rows, dropped) = rows.read();
        Noted { rows, names: read_names(names), dropped }
    }
}

/// Names lie behind each other, each behind its length in bytes; a name's number is where it begins.
fn read_names(words: &[AtomicU64]) -> HashMap<u32, String> {
    let word = |at: usize| words[at].load(Ordering::Acquire);
    let end = (word(0) as usize).min(words.len());
    let (mut names, mut at) = (HashMap::new(), 1);
    while at < end {
        let bytes = word(at) as usize;
        let count = bytes.div_ceil(8);
        if count > end - at - 1 {
            break;
        }
        let text: Vec<u8> = (at + 1..at + 1 + count).flat_map(|at| word(at).to_ne_bytes()).collect();
        names.insert(at as u32, String::from_utf8_lossy(&text[..bytes]).into_owned());
        at += 1 + count;
    }
    names
}

/// A process's part.
pub struct Journal {
    shared: Shared,
    part: usize,
    names: Mutex<HashMap<Box<str>, u32>>,
}

impl Journal {
    /// Opens a part of what another process made, from a descriptor that was inherited.
    ///
    /// # Safety
    /// As for [`Segment::from_inherited_fd`].
    unsafe fn open(descriptor: RawFd, part: usize) -> Result<Journal, HostError> {
        // SAFETY: the caller's promise.
        let segment = unsafe { Segment::from_inherited_fd(descriptor)? };
        let refuse = |found: &str| HostError::NotASegment { descriptor, found: found.to_owned() };
        let head = segment.words().get(..HEAD_WORDS).ok_or_else(|| refuse("it is too short"))?;
        let [magic, parts, rows] = [0, 1, 2].map(|at: usize| head[at].load(Ordering::Relaxed));
        let (parts, rows) = (parts as usize, rows as usize);
        let words = rows
            .checked_mul(ROW_WORDS)
            .and_then(|_| Shared::part_words(rows).checked_mul(parts))
            .and_then(|words| words.checked_add(HEAD_WORDS));
        if magic != MAGIC || words != Some(segment.words().len()) || part >= parts {
            return Err(refuse("it is no memory for timelines"));
        }
        Ok(Journal { shared: Shared { segment, parts, rows }, part, names: Mutex::default() })
    }

    /// Notes a row, or counts that it found no room. Any thread may.
    #[inline]
    pub fn note(&self, row: Row) {
        self.shared.part(self.part).1.append(row);
    }

    /// The number of a name; 0 where there is no room for it.
    pub fn name(&self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let mut known = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = known.get(name) {
            return number;
        }
        let (words, _) = self.shared.part(self.part);
        let ordering = Ordering::Relaxed;
        let at = (words[0].load(ordering) as usize).max(1);
        let count = name.len().div_ceil(8);
        if at + 1 + count > words.len() {
            return 0;
        }
        words[at].store(name.len() as u64, ordering);
        for (word, bytes) in words[at + 1..].iter().zip(name.as_bytes().chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(padded), ordering);
        }
        // Release: who sees the new end sees the name.
        words[0].store((at + 1 + count) as u64, Ordering::Release);
        known.insert(name.into(), at as u32);
        at as u32
    }
}

/// Where this process is to note what it does, if whoever started it wants to know.
pub fn of_this_process() -> Option<&'static Arc<Journal>> {
    static JOURNAL: OnceLock<Option<Arc<Journal>>> = OnceLock::new();
    let open = || {
        let number = |name| std::env::var(name).ok()?.parse().ok();
        let (descriptor, part): (u32, u32) = (number(DESCRIPTOR_VARIABLE)?, number(PART_VARIABLE)?);
        // SAFETY: the variable says that the descriptor was opened for this. In a process further down it may be another one's, which is
        // no sealed memory that begins as this one does.
        unsafe { Journal::open(descriptor as RawFd, part as usize) }.ok().map(Arc::new)
    };
    JOURNAL.get_or_init(open).as_ref()
}

impl Journals {
    /// The number that [`DESCRIPTOR_VARIABLE`] has in the processes that inherit it.
    pub fn descriptor(&self) -> RawFd {
        self.fd().as_raw_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    fn open(journals: &Journals, part: usize) -> Result<Journal, HostError> {
        let copy = journals.fd().try_clone_to_owned().expect("a copy").into_raw_fd();
        // SAFETY: the copy is nobody else's.
        unsafe { Journal::open(copy, part) }
    }

    #[test]
    fn what_processes_note_is_read() {
        let journals = Journals::create(3, 4).expect("memory");
        let one = open(&journals, 1).expect("a part");
        let (first, again, second) = (one.name("forces"), one.name("forces"), one.name("Ü, not ASCII"));
        assert_eq!((first, one.name("")), (again, 0));
        for number in 1..=6 {
            one.note([number; ROW_WORDS]);
        }
        let noted = journals.read(1);
        assert_eq!(noted.rows, [1, 2, 3, 4].map(|number| [number; ROW_WORDS]));
        assert_eq!(noted.dropped, 2);
        assert_eq!((&*noted.names[&first], &*noted.names[&second]), ("forces", "Ü, not ASCII"));
        assert_eq!(journals.read(0), Noted::default());
        assert!(open(&journals, 3).is_err(), "there are three");
    }

    #[test]
    fn names_are_bounded() {
        let journals = Journals::create(1, 1).expect("memory");
        let one = open(&journals, 0).expect("a part");
        let numbers: Vec<u32> = (0..2000).map(|at| one.name(&format!("{at:0100}"))).collect();
        let kept = numbers.iter().filter(|number| **number != 0).count();
        assert_eq!(kept, journals.read(0).names.len());
        assert!((1..2000).contains(&kept), "{kept}");
    }

    #[test]
    fn other_memory_is_refused() {
        let segment = Segment::create("other", 4096).expect("memory");
        let copy = segment.fd().try_clone_to_owned().expect("a copy").into_raw_fd();
        // SAFETY: the copy is nobody else's.
        assert!(unsafe { Journal::open(copy, 0) }.is_err());
    }
}
