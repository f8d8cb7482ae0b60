//! Stacks of free chunks, one a size: what one thread has for itself.

use super::pool::{self, Batch, Pool};
use super::{CHUNK_ALIGN, CHUNK_MAX, MemoryOptions};
use std::ptr::{NonNull, null_mut};

/// How many sizes there are: the multiples of a cache line.
pub(super) const SIZES: usize = CHUNK_MAX / CHUNK_ALIGN;

/// What lies in a free chunk.
#[repr(C)]
pub(super) struct Free {
    /// The chunk below it in its stack.
    pub(super) next: *mut Free,
    /// In the top chunk of a batch that lies in a pool: the next batch.
    pub(super) next_batch: *mut Free,
    /// In the same: how many chunks the batch has.
    pub(super) count: u32,
}

/// A thread's free chunks.
pub(crate) struct Stacks {
    options: MemoryOptions,
    sizes: [Stack; SIZES],
}

/// The free chunks of one size.
#[derive(Clone, Copy)]
struct Stack {
    top: *mut Free,
    count: u32,
    /// Chunks of a full batch; 0 until the first chunk is asked for or freed.
    full: u32,
    /// A full batch more, or null.
    spare: *mut Free,
    /// So many are cut next, if none are to be had: few at first, for who needs few would touch all the memory of a full batch.
    cut: u32,
}

/// What is cut first.
const FIRST_BYTES: usize = 4096;

// SAFETY: free chunks belong to whoever holds the stack, on any thread.
unsafe impl Send for Stacks {}

impl Stacks {
    pub(super) fn new(options: MemoryOptions) -> Self {
        let empty = Stack { top: null_mut(), count: 0, full: 0, spare: null_mut(), cut: 0 };
        Stacks { options, sizes: [empty; SIZES] }
    }

    /// A chunk of `bytes`, if there is one at hand.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let stack = self.sizes.get_mut(size_of_bytes(bytes))?;
        let top = NonNull::new(stack.top)?;
        // SAFETY: a chunk in the stack is free, and its link valid.
        stack.top = unsafe { top.as_ref() }.next;
        stack.count -= 1;
        // The next one was perhaps freed by another worker: have its line come while this one is filled.
        prefetch(stack.top);
        Some(top.cast())
    }

    /// Takes a chunk back, if there is room at hand.
    ///
    /// # Safety
    /// As for [`Stacks::free`].
    #[inline]
    pub(crate) unsafe fn put(&mut self, chunk: NonNull<u8>, bytes: usize) -> bool {
        let Some(stack) = self.sizes.get_mut(size_of_bytes(bytes)) else { return false };
        if stack.count + 1 >= stack.full {
            return false;
        }
        let free = chunk.cast::<Free>();
        // SAFETY: the chunk is ours now, large and aligned enough.
        unsafe { (*free.as_ptr()).next = stack.top };
        stack.top = free.as_ptr();
        stack.count += 1;
        true
    }

    /// A chunk of `bytes` (at most [`CHUNK_MAX`]).
    #[inline]
    pub(super) fn allocate(&mut self, bytes: usize, pools: &[Pool], numa: usize) -> NonNull<u8> {
        let size = size_of_bytes(bytes);
        let stack = &mut self.sizes[size];
        let Some(top) = NonNull::new(stack.top) else { return self.refill(size, pools, numa) };
        // SAFETY: a chunk in the stack is free, and its link valid.
        stack.top = unsafe { top.as_ref() }.next;
        stack.count -= 1;
        // The next one was perhaps freed by another worker: have its line come while this one is filled.
        prefetch(stack.top);
        top.cast()
    }

    /// Takes a chunk back.
    ///
    /// # Safety
    /// It is a chunk of `bytes` from the same memory that nobody uses.
    #[inline]
    pub(super) unsafe fn free(&mut self, chunk: NonNull<u8>, bytes: usize, pools: &[Pool], numa: usize) {
        let size = size_of_bytes(bytes);
        let stack = &mut self.sizes[size];
        let free = chunk.cast::<Free>();
        // SAFETY: the chunk is ours now, large and aligned enough.
        unsafe { (*free.as_ptr()).next = stack.top };
        stack.top = free.as_ptr();
        stack.count += 1;
        if stack.count >= stack.full {
            self.store_batch(size, &pools[numa]);
        }
    }

    /// The stack is a full batch: it becomes the spare one, and the spare one that there was goes to the pool.
    #[cold]
    fn store_batch(&mut self, size: usize, pool: &Pool) {
        let full = self.batch_of(size);
        let stack = &mut self.sizes[size];
        stack.full = full;
        if stack.count < full {
            return; // the first chunk of this size only wanted to know the limit
        }
        if let Some(top) = NonNull::new(stack.spare) {
            pool.put(size, Batch { top, count: full });
        }
        stack.spare = std::mem::replace(&mut stack.top, null_mut());
        stack.count = 0;
    }

    #[cold]
    fn refill(&mut self, size: usize, pools: &[Pool], numa: usize) -> NonNull<u8> {
        let full = self.batch_of(size);
        let stack = &mut self.sizes[size];
        stack.full = full;
        let batch = match NonNull::new(std::mem::replace(&mut stack.spare, null_mut())) {
            Some(top) => Batch { top, count: full },
            None => {
                let few = (FIRST_BYTES / bytes_of(size)).max(1) as u32;
                let cut = stack.cut.max(few).min(full);
                stack.cut = 2 * cut;
                pool::take(pools, numa, size, cut)
            }
        };
        // SAFETY: a batch's chunks are free and ours now.
        stack.top = unsafe { batch.top.as_ref() }.next;
        stack.count = batch.count - 1;
        batch.top.cast()
    }

    /// How many chunks of a size are a batch.
    fn batch_of(&self, size: usize) -> u32 {
        (self.options.refill_bytes / bytes_of(size)).max(1) as u32
    }
}

/// The size that chunks of `bytes` have.
#[inline]
fn size_of_bytes(bytes: usize) -> usize {
    bytes.wrapping_sub(1) / CHUNK_ALIGN
}

/// How many bytes a chunk of a size has.
pub(super) fn bytes_of(size: usize) -> usize {
    (size + 1) * CHUNK_ALIGN
}

#[inline]
fn prefetch(chunk: *const Free) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program could see, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(chunk.cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = chunk;
}
