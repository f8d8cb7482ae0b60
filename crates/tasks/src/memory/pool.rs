//! What a NUMA node holds: batches that its workers had too much of, and the slab from which new ones are cut.

use super::stack::{Free, SIZES, bytes_of};
use super::{CHUNK_MAX, MemoryOptions};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PAGE: usize = 4096;

/// A NUMA node's memory. Its lock is taken once a batch.
pub(super) struct Pool {
    slab_bytes: usize,
    inside: Mutex<Inside>,
}

/// A batch of `count` chunks for node `numa`, or one that was put back, whatever it has: of the node itself, of another
/// node before the system is asked.
pub(super) fn take(pools: &[Pool], numa: usize, size: usize, count: u32) -> Batch {
    let own = &pools[numa];
    {
        let mut inside = own.lock();
        if let Some(batch) = own.take_back(&mut inside, size) {
            return batch;
        }
        if inside.rest_bytes >= bytes_of(size) {
            return own.cut(&mut inside, size, count);
        }
    }
    let mut others = pools.iter().filter(|pool| !std::ptr::eq(*pool, own));
    let found = others.find_map(|pool| pool.take_back(&mut pool.lock(), size));
    found.unwrap_or_else(|| own.cut(&mut own.lock(), size, count))
}

/// Free chunks of one size, linked.
pub(super) struct Batch {
    pub(super) top: NonNull<Free>,
    pub(super) count: u32,
}

struct Inside {
    /// By size: the batches, linked through their top chunks.
    batches: [*mut Free; SIZES],
    /// What is not cut yet of the newest slab.
    rest: *mut u8,
    rest_bytes: usize,
    slabs: Vec<NonNull<u8>>,
}

// SAFETY: slabs and what is cut from them belong to whoever holds the lock.
unsafe impl Send for Inside {}

impl Pool {
    pub(super) fn new(options: MemoryOptions) -> Self {
        // At least one chunk of the largest size, whatever was asked for.
        let slab_bytes = options.slab_bytes.max(CHUNK_MAX).next_multiple_of(PAGE);
        let inside =
            Inside { batches: [null_mut(); SIZES], rest: null_mut(), rest_bytes: 0, slabs: Vec::new() };
        Pool { slab_bytes, inside: Mutex::new(inside) }
    }

    /// Keeps a batch for whoever needs one.
    pub(super) fn put(&self, size: usize, batch: Batch) {
        let mut inside = self.lock();
        let top = batch.top.as_ptr();
        // SAFETY: the batch's chunks are free and ours.
        unsafe {
            (*top).next_batch = inside.batches[size];
            (*top).count = batch.count;
        }
        inside.batches[size] = top;
    }

    /// A batch that was put back.
    fn take_back(&self, inside: &mut Inside, size: usize) -> Option<Batch> {
        let top = NonNull::new(inside.batches[size])?;
        // SAFETY: in the list, so free and ours, with what `put` wrote.
        let (next, count) = unsafe { (top.as_ref().next_batch, top.as_ref().count) };
        inside.batches[size] = next;
        Some(Batch { top, count })
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.lock().slabs.len() * self.slab_bytes
    }

    /// Cuts up to `count` chunks, as many as the slab has left; what is too short for one is lost.
    fn cut(&self, inside: &mut Inside, size: usize, count: u32) -> Batch {
        let bytes = bytes_of(size);
        if inside.rest_bytes < bytes {
            let slab = self.slab();
            inside.slabs.push(slab);
            (inside.rest, inside.rest_bytes) = (slab.as_ptr(), self.slab_bytes);
        }
        let count = (count as usize).min(inside.rest_bytes / bytes);
        let mut top = null_mut();
        for number in (0..count).rev() {
            // SAFETY: within the rest of the slab, which nobody else has seen; each chunk is large enough for a link.
            unsafe {
                let chunk = inside.rest.add(number * bytes).cast::<Free>();
                (*chunk).next = top;
                top = chunk;
            }
        }
        // SAFETY: `count` chunks fit the rest.
        inside.rest = unsafe { inside.rest.add(count * bytes) };
        inside.rest_bytes -= count * bytes;
        Batch { top: NonNull::new(top).expect("at least one chunk fits"), count: count as u32 }
    }

    /// A slab. Its pages lie on the NUMA node of the worker that touches them first.
    fn slab(&self) -> NonNull<u8> {
        let layout = self.layout();
        // SAFETY: not empty.
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
    }

    fn layout(&self) -> Layout {
        Layout::from_size_align(self.slab_bytes, PAGE).expect("slabs are smaller than half the address space")
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let layout = self.layout();
        for slab in self.lock().slabs.drain(..) {
            // SAFETY: allocated with this layout, and the chunks cut from it are not used any more: their users borrow
            // or keep the memory that this belongs to.
            unsafe { dealloc(slab.as_ptr(), layout) };
        }
    }
}
