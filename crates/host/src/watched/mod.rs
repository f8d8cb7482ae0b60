//! Memory whose users are judged: each access of a thread that is being watched is shown to a function that says whether it may.
//!
//! Pages are closed to watched threads by protection keys where the processor has them, and otherwise by taking all rights away.
//! A closed page faults; the fault's handler asks the judge. If the judge names a region that the thread may use, the pages
//! that lie wholly inside it are opened to this thread until [`watch`] is called again; otherwise the page is opened for one
//! instruction, which is run in single steps. So every byte is judged, at the price of two signals for each access to a page
//! that is not wholly the thread's. Without protection keys an open page is open to all threads: then only a single thread is
//! watched exactly.
//!
//! System calls that are given closed memory fail with `EFAULT`, since the kernel asks nobody.

use crate::HostError;
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

mod fault;
mod rights;

use rights::{key_for_thread, shared_key};

/// Mappings at a time.
const MAPPINGS_MAX: usize = 256;
/// Regions that a thread has open at a time; further ones are run in single steps.
const OPEN_MAX: usize = 64;
/// Pages that one instruction touches, at most; gathering ones fault again.
const STEPPED_MAX: usize = 8;

/// What the judge says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The access goes on, and nothing more is known.
    Once,
    /// The thread may read, and if `writes` write, all bytes from `start` up to `end`.
    Region {
        /// The first byte.
        start: usize,
        /// Behind the last byte.
        end: usize,
        /// Whether it may write them.
        writes: bool,
    },
}

/// Says what a watched thread may do at an address; called in a signal handler of that thread.
pub type Judge = fn(address: usize, writes: bool) -> Verdict;

/// Memory that is judged. Filled with zeros; whole pages.
#[derive(Debug)]
pub struct Watched {
    start: NonNull<u8>,
    bytes: usize,
    slot: usize,
}

// SAFETY: memory like any other.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

/// A mapping, for the fault's handler.
struct Slot {
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// For each page, the number of the thread to which it is open; 0: none.
    owners: AtomicPtr<AtomicU8>,
}

static SLOTS: [Slot; MAPPINGS_MAX] = [const {
    Slot {
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        owners: AtomicPtr::new(std::ptr::null_mut()),
    }
}; MAPPINGS_MAX];
static CHANGING: Mutex<()> = Mutex::new(());
static EXISTS: AtomicBool = AtomicBool::new(false);
static JUDGE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// What the handler knows of a thread.
struct Thread {
    watched: Cell<bool>,
    /// From 1; 0: none was free, so nothing is opened to it for longer than an instruction.
    number: Cell<u8>,
    open: [Cell<(usize, usize)>; OPEN_MAX],
    open_count: Cell<usize>,
    /// Rights to keys before it was watched.
    rights_before: Cell<u32>,
    /// It runs a single step; without keys, these pages are open for it.
    stepping: Cell<bool>,
    stepped: [Cell<usize>; STEPPED_MAX],
    stepped_count: Cell<usize>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            watched: Cell::new(false),
            number: Cell::new(0),
            open: [const { Cell::new((0, 0)) }; OPEN_MAX],
            open_count: Cell::new(0),
            rights_before: Cell::new(0),
            stepping: Cell::new(false),
            stepped: [const { Cell::new(0) }; STEPPED_MAX],
            stepped_count: Cell::new(0),
        }
    };
}

impl Watched {
    /// So many bytes, rounded up to pages.
    ///
    /// # Errors
    /// The system has no memory, there are too many such mappings, or this processor cannot run single steps.
    pub fn new(bytes: usize) -> Result<Watched, HostError> {
        let failed = |source| HostError::System { what: "map memory that is watched".to_owned(), source };
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(failed(io::Error::from(io::ErrorKind::Unsupported)));
        }
        install();
        let bytes = bytes.max(1).next_multiple_of(page_bytes());
        let _held = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = SLOTS.iter().position(|slot| slot.bytes.load(Ordering::Acquire) == 0) else {
            return Err(failed(io::Error::from(io::ErrorKind::QuotaExceeded)));
        };
        let (none, private) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, none, private, -1, 0) };
        let start = NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED);
        let Some(start) = start else { return Err(failed(io::Error::last_os_error())) };
        let owners: Vec<AtomicU8> = (0..bytes / page_bytes()).map(|_| AtomicU8::new(0)).collect();
        let place = &SLOTS[slot];
        place.owners.store(Box::leak(owners.into_boxed_slice()).as_mut_ptr(), Ordering::Relaxed);
        place.start.store(start.as_ptr() as usize, Ordering::Relaxed);
        place.bytes.store(bytes, Ordering::Release);
        rights::close(start.as_ptr() as usize, bytes);
        EXISTS.store(true, Ordering::Release);
        Ok(Watched { start, bytes, slot })
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _held = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &SLOTS[self.slot];
        slot.bytes.store(0, Ordering::Release);
        let owners = slot.owners.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: leaked from a boxed slice of this length in `new`; nobody uses the memory any more, so no fault looks at it.
        unsafe {
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(owners, self.bytes / page_bytes())));
            libc::munmap(self.start.as_ptr().cast(), self.bytes);
        }
    }
}

/// Whether open pages are open to one thread only.
pub fn has_keys() -> bool {
    install();
    shared_key() >= 0
}

/// Whether there is, or was, memory that is watched.
#[inline]
pub fn exists() -> bool {
    EXISTS.load(Ordering::Relaxed)
}

/// Says who judges: once a process.
pub fn set_judge(judge: Judge) {
    JUDGE.store(judge as *mut (), Ordering::Release);
}

/// From now on the calling thread's accesses are judged, or are not any more; what was open to it is closed. Returns whether they
/// were before.
pub fn watch(watched: bool) -> bool {
    THREAD.with(|thread| {
        thread.close_all();
        let before = thread.watched.replace(watched);
        if watched && !before {
            thread.begin();
        } else if before && !watched {
            rights::restore(thread.rights_before.get());
        }
        before
    })
}

impl Thread {
    fn begin(&self) {
        if self.number.get() == 0 {
            self.number.set(key_for_thread());
        }
        self.rights_before.set(rights::current());
        rights::take_away(self.number.get());
    }

    /// Closes what is open to this thread.
    fn close_all(&self) {
        for open in &self.open[..self.open_count.replace(0)] {
            let (start, end) = open.get();
            self.close(start, end);
        }
    }

    fn close(&self, start: usize, end: usize) {
        rights::close(start, end - start);
        if let Some((slot, _)) = slot_of(start) {
            for page in (start..end).step_by(page_bytes()) {
                slot.owner(page).store(0, Ordering::Release);
            }
        }
    }

    /// Opens the pages of the mapping around `address` that lie wholly inside the region and are nobody's; false if that of
    /// `address` is not among them.
    fn open(&self, slot: &Slot, address: usize, start: usize, end: usize, writes: bool) -> bool {
        let (number, count) = (self.number.get(), self.open_count.get());
        let mapping = slot.start.load(Ordering::Relaxed);
        let mapping_end = mapping + slot.bytes.load(Ordering::Relaxed);
        let first = start.max(mapping).next_multiple_of(page_bytes());
        let last = end.min(mapping_end) / page_bytes() * page_bytes();
        let page = page_of(address);
        if number == 0 || count == OPEN_MAX || page < first || page >= last || !slot.claim(page, number) {
            return false;
        }
        let (mut from, mut to) = (page, page + page_bytes());
        while from > first && slot.claim(from - page_bytes(), number) {
            from -= page_bytes();
        }
        while to < last && slot.claim(to, number) {
            to += page_bytes();
        }
        rights::open(from, to - from, number, writes);
        self.open[count].set((from, to));
        self.open_count.set(count + 1);
        true
    }

    /// Closes the region that is open to this thread around a page, if there is one.
    fn close_around(&self, page: usize) {
        let count = self.open_count.get();
        let found = self.open[..count].iter().position(|open| {
            let (start, end) = open.get();
            start <= page && page < end
        });
        let Some(index) = found else { return };
        let (start, end) = self.open[index].get();
        self.open[index].set(self.open[count - 1].get());
        self.open_count.set(count - 1);
        self.close(start, end);
    }
}

impl Slot {
    fn owner(&self, page: usize) -> &AtomicU8 {
        let index = (page - self.start.load(Ordering::Relaxed)) / page_bytes();
        // SAFETY: as many as the mapping has pages, for as long as it lives.
        unsafe { &*self.owners.load(Ordering::Acquire).add(index) }
    }

    fn claim(&self, page: usize, number: u8) -> bool {
        self.owner(page).compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// The mapping in which an address lies, and the address of its page.
fn slot_of(address: usize) -> Option<(&'static Slot, usize)> {
    let slot = SLOTS.iter().find(|slot| {
        let bytes = slot.bytes.load(Ordering::Acquire);
        let start = slot.start.load(Ordering::Relaxed);
        start <= address && address - start < bytes
    })?;
    Some((slot, page_of(address)))
}

fn page_of(address: usize) -> usize {
    address / page_bytes() * page_bytes()
}

fn page_bytes() -> usize {
    4096
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        rights::find_keys();
        fault::install();
    });
}
