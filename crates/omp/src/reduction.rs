//! Task reductions: a private copy for each thread, which the compiler's code combines when the group is over.
//!
//! The compiler makes one block for each set of reductions, of these words:
//!
//! | word | before | after registration |
//! |---|---|---|
//! | 0 | how many variables | |
//! | 1 | bytes of a thread's copies | |
//! | 2 | their alignment | where thread 0's copies lie; the next thread's follow |
//! | 3 | allocator | |
//! | 4 | the next block, or 0 | the next block of this group, or 0 |
//! | 5 | ours | our mark, plus the alignment, twice; plus 1 in the last block of a registration |
//! | 6 | ours | where the copies end |
//! | 7, 10, ... | a variable's address, where in a thread's copies it lies, ours | |
//!
//! libgomp registers those of parallel regions and of loops, and keeps an address in word 5.

use crate::below;
use crate::place::{OURS as MARK, Place};
use crate::serial;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::{c_ulong, c_void};
use std::sync::atomic::Ordering;

const HEAD: usize = 7;
/// No address looks like this.
const OURS: usize = 0xca57 << 48;
const ENTRY: usize = 3;

/// A block of reductions.
#[derive(Clone, Copy)]
struct Block(*mut usize);

impl Block {
    /// # Safety
    /// It is a compiler's block.
    unsafe fn word(self, index: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(index).read() }
    }

    /// # Safety
    /// As for [`Block::word`].
    unsafe fn set(self, index: usize, value: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(index).write(value) };
    }

    /// # Safety
    /// As for [`Block::word`].
    unsafe fn next(self) -> Option<Block> {
        // SAFETY: the caller's promise.
        let at = unsafe { self.word(4) };
        (at != 0).then(|| Block(std::ptr::with_exposed_provenance_mut(at)))
    }

    /// Makes the copies of `threads` threads, all zero.
    ///
    /// # Safety
    /// As for [`Block::word`], before registration.
    unsafe fn make_copies(self, threads: usize) {
        // SAFETY: the caller's promise; the layout has a size.
        unsafe {
            let align = self.word(2).max(1);
            let bytes = (self.word(1) * threads).max(1);
            let layout = Layout::from_size_align(bytes, align).expect("an alignment that a compiler chose");
            let copies = alloc_zeroed(layout);
            if copies.is_null() {
                handle_alloc_error(layout);
            }
            self.set(2, copies.expose_provenance());
            self.set(5, OURS | align << 1);
            self.set(6, copies.addr() + bytes);
        }
    }

    /// Where the copy of thread `number` lies of a variable that is at `address`, or one of whose copies is; and where the variable is.
    ///
    /// # Safety
    /// As for [`Block::word`], after registration.
    unsafe fn copy_of(self, address: usize, number: usize) -> Option<(usize, usize)> {
        // SAFETY: the caller's promise.
        unsafe {
            let (count, bytes, start, end) = (self.word(0), self.word(1), self.word(2), self.word(6));
            let entry = |index: usize| (self.word(HEAD + ENTRY * index), self.word(HEAD + ENTRY * index + 1));
            let mut entries = (0..count).map(entry);
            let (variable, offset) = if (start..end).contains(&address) {
                let offset = (address - start) % bytes;
                entries.find(|&(_, other)| other == offset)?
            } else {
                entries.find(|&(variable, _)| variable == address)?
            };
            Some((start + number * bytes + offset, variable))
        }
    }
}

/// The blocks from `first` on.
///
/// # Safety
/// They are a compiler's, or there is none.
unsafe fn blocks(first: *mut usize) -> impl Iterator<Item = Block> {
    let first = (!first.is_null()).then_some(Block(first));
    // SAFETY: the caller's promise.
    std::iter::successors(first, |block| unsafe { block.next() })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GOMP_taskgroup_reduction_register(data: *mut usize) {
    let place = Place::current();
    let threads = place.map_or(1, |place| place.team_size());
    // SAFETY: a compiler's block.
    let last = unsafe {
        let mut last = Block(data);
        for block in blocks(data) {
            block.make_copies(threads);
            last = block;
        }
        last.set(5, last.word(5) | 1);
        last
    };
    match place.and_then(|place| place.companion()) {
        // SAFETY: as above. Only the task that has opened the group registers.
        Some(companion) => unsafe {
            last.set(4, companion.load(Ordering::Acquire).expose_provenance());
            companion.store(data.cast(), Ordering::Release);
        },
        None => serial::register(data),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskgroup_reduction_unregister(data: *mut usize) {
    // SAFETY: a compiler's block.
    if unsafe { Block(data).word(5) } & OURS != OURS {
        // SAFETY: passed on.
        return unsafe { below::GOMP_taskgroup_reduction_unregister(data) };
    }
    serial::unregister(data);
    // SAFETY: a block that was registered.
    for block in unsafe { blocks(data) } {
        // SAFETY: as above; `make_copies` has allocated so.
        unsafe {
            let (start, end) = (block.word(2), block.word(6));
            let layout = Layout::from_size_align(end - start, (block.word(5) & !OURS) >> 1)
                .expect("as it was allocated");
            dealloc(std::ptr::with_exposed_provenance_mut(start), layout);
            if block.word(5) & 1 != 0 {
                return;
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_task_reduction_remap(
    count: c_ulong,
    with_original: c_ulong,
    addresses: *mut *mut c_void,
) {
    let (count, with_original) = (count as usize, with_original as usize);
    let place = Place::current();
    let number = place.map_or(0, |place| place.number());
    for index in 0..count {
        // SAFETY: so many addresses lie there, and behind them room for those of the variables.
        let at = unsafe { addresses.add(index) };
        // SAFETY: as above.
        let address = unsafe { at.read() };
        // SAFETY: what was registered with groups that are open.
        let look = |first: *mut usize| unsafe {
            blocks(first).find_map(|block| block.copy_of(address.addr(), number))
        };
        let found = match place {
            Some(place) => {
                let kept = place.companions().map(|companion| companion.load(Ordering::Acquire));
                kept.map(|kept| kept.map_addr(|address| address & !MARK).cast()).find_map(look)
            }
            None => serial::registered().find_map(look),
        };
        // SAFETY: as above.
        unsafe {
            let mut both = [address; 2];
            match found {
                Some((copy, variable)) => both = [copy, variable].map(std::ptr::with_exposed_provenance_mut),
                // Of a parallel region or a loop: libgomp knows.
                None => below::GOMP_task_reduction_remap(1, 1, both.as_mut_ptr()),
            }
            at.write(both[0]);
            if index < with_original {
                addresses.add(count + index).write(both[1]);
            }
        }
    }
}
