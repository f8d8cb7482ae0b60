//! Where records come from and go: the slab allocator of the paper (chapter 5), and a way back for what is too much.
//!
//! ```text
//! worker    for each size a stack of free chunks, the links in the chunks; and at most one full batch more
//! NUMA node batches that workers had too much of; a slab from which new batches are cut
//! system    slabs, 8 MiB at a time
//! ```
//!
//! A worker takes and gives chunks without a lock or an atomic operation. A batch is what 128 KiB hold: when a worker
//! has two of a size, one goes to its NUMA node, where another worker finds it. So with one creator and many finishers
//! each worker holds two batches of a size at most, and memory is used again instead of growing. Before a node asks the
//! system for a slab it looks for what the other nodes have too much of.

mod pool;
mod stack;

use crate::workers::WorkerId;
use pool::Pool;
pub(crate) use stack::Stacks;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// The alignment of every chunk, in bytes, and what sizes are rounded up to: a cache line.
pub const CHUNK_ALIGN: usize = 64;
/// Larger chunks come from the system, one by one. In bytes.
pub const CHUNK_MAX: usize = 4096;

/// How much memory moves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// What a worker gets when its stack of a size is empty, in bytes (paper: 128 KiB).
    pub refill_bytes: usize,
    /// What a NUMA node gets when its pool is empty, in bytes (paper: 8 MiB).
    pub slab_bytes: usize,
    /// Records above this come from the system, one by one, in bytes; more than [`CHUNK_MAX`] is that. 0 switches the slab
    /// allocator off: to compare.
    pub chunk_max: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions { refill_bytes: 128 << 10, slab_bytes: 8 << 20, chunk_max: CHUNK_MAX }
    }
}

/// Gives chunks of memory and takes them back. Dropping it gives all slabs back to the system.
pub struct Memory {
    /// By worker.
    local: Box<[Local]>,
    /// For threads that are no workers.
    foreign: Mutex<Stacks>,
    /// By NUMA node.
    pools: Box<[Pool]>,
    /// What is larger comes from the system.
    chunk_max: usize,
}

/// A worker's own, on cache lines of its own.
#[repr(align(128))]
struct Local {
    stacks: UnsafeCell<Stacks>,
    numa: usize,
}

// SAFETY: a worker's stacks are touched by the thread that is that worker only (the contract of `allocate` and `free`);
// the rest is behind locks.
unsafe impl Sync for Memory {}
// SAFETY: it owns its slabs, which any thread may give back.
unsafe impl Send for Memory {}

impl Memory {
    /// For workers on these NUMA nodes, one entry a worker, the nodes counted from 0.
    pub fn new(options: MemoryOptions, numa_of: &[usize]) -> Self {
        let nodes = numa_of.iter().max().map_or(1, |&last| last + 1);
        let local = |&numa| Local { stacks: UnsafeCell::new(Stacks::new(options)), numa };
        Memory {
            local: numa_of.iter().map(local).collect(),
            foreign: Mutex::new(Stacks::new(options)),
            pools: (0..nodes).map(|_| Pool::new(options)).collect(),
            chunk_max: options.chunk_max.min(CHUNK_MAX),
        }
    }

    /// The free chunks of `worker`, which its thread may use between calls of [`Memory::allocate`] and [`Memory::free`]; null if all
    /// comes from the system.
    pub(crate) fn stacks(&self, worker: WorkerId) -> *mut Stacks {
        if self.chunk_max < CHUNK_MAX {
            return std::ptr::null_mut();
        }
        self.local[worker.0 as usize].stacks.get()
    }

    /// `bytes` bytes, aligned to [`CHUNK_ALIGN`]. `None`: a thread that is no worker.
    ///
    /// # Safety
    /// The calling thread is that worker: no other thread allocates or frees as it at the same time.
    #[inline]
    pub unsafe fn allocate(&self, worker: Option<WorkerId>, bytes: usize) -> NonNull<u8> {
        if bytes > self.chunk_max {
            return allocate_large(bytes);
        }
        let Some(worker) = worker else {
            let mut stacks = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
            return stacks.allocate(bytes, &self.pools, 0);
        };
        let local = &self.local[worker.0 as usize];
        // SAFETY: this thread alone is that worker.
        unsafe { &mut *local.stacks.get() }.allocate(bytes, &self.pools, local.numa)
    }

    /// Takes a chunk back; any worker may free what any other allocated.
    ///
    /// # Safety
    /// It came from [`Memory::allocate`] of this object with the same `bytes`, nobody uses it any more, and the calling
    /// thread is that worker.
    #[inline]
    pub unsafe fn free(&self, worker: Option<WorkerId>, chunk: NonNull<u8>, bytes: usize) {
        if bytes > self.chunk_max {
            // SAFETY: the caller's promise.
            return unsafe { dealloc(chunk.as_ptr(), large(bytes)) };
        }
        let Some(worker) = worker else {
            let mut stacks = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller's promise.
            return unsafe { stacks.free(chunk, bytes, &self.pools, 0) };
        };
        let local = &self.local[worker.0 as usize];
        // SAFETY: this thread alone is that worker; the rest is the caller's promise.
        unsafe { (*local.stacks.get()).free(chunk, bytes, &self.pools, local.numa) };
    }

    /// How much memory the slabs take, in bytes; what comes from the system one by one is not counted.
    pub fn reserved_bytes(&self) -> usize {
        self.pools.iter().map(Pool::reserved_bytes).sum()
    }
}

fn large(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, CHUNK_ALIGN).expect("records are smaller than half the address space")
}

#[cold]
fn allocate_large(bytes: usize) -> NonNull<u8> {
    let layout = large(bytes);
    // SAFETY: more than CHUNK_MAX bytes.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn small() -> MemoryOptions {
        MemoryOptions { refill_bytes: 1 << 10, slab_bytes: 8 << 10, ..MemoryOptions::default() }
    }

    #[test]
    fn chunks_are_aligned_and_do_not_overlap() {
        let memory = Memory::new(small(), &[0]);
        let worker = Some(WorkerId(0));
        let mut held = Vec::new();
        for bytes in [1, 64, 65, 200, 4096, 5000, 64, 700].repeat(20) {
            // SAFETY: one thread; each chunk is written within its length and freed once.
            let chunk = unsafe { memory.allocate(worker, bytes) };
            assert_eq!(chunk.as_ptr() as usize % CHUNK_ALIGN, 0);
            let mark = held.len() as u8;
            // SAFETY: as above.
            unsafe { chunk.as_ptr().write_bytes(mark, bytes) };
            held.push((chunk, bytes, mark));
        }
        for (chunk, bytes, mark) in held {
            // SAFETY: as above.
            unsafe {
                let content = std::slice::from_raw_parts(chunk.as_ptr(), bytes);
                assert!(content.iter().all(|&byte| byte == mark));
                memory.free(worker, chunk, bytes);
            }
        }
    }

    #[test]
    fn without_slabs_everything_comes_from_the_system() {
        let memory = Memory::new(MemoryOptions { chunk_max: 0, ..small() }, &[0]);
        // SAFETY: one thread, freed once.
        unsafe {
            let chunk = memory.allocate(Some(WorkerId(0)), 192);
            assert_eq!(chunk.as_ptr() as usize % CHUNK_ALIGN, 0);
            memory.free(Some(WorkerId(0)), chunk, 192);
        }
        assert_eq!(memory.reserved_bytes(), 0);
    }

    #[test]
    fn what_is_freed_is_used_again() {
        let memory = Memory::new(small(), &[0]);
        for _ in 0..10_000 {
            // SAFETY: one thread, freed once.
            unsafe {
                let chunk = memory.allocate(Some(WorkerId(0)), 192);
                memory.free(Some(WorkerId(0)), chunk, 192);
            }
        }
        assert_eq!(memory.reserved_bytes(), small().slab_bytes);
    }

    #[test]
    fn one_creator_and_many_finishers_do_not_leak() {
        const EACH: usize = 20_000;
        let memory = &Memory::new(small(), &[0, 0, 1]);
        std::thread::scope(|scope| {
            let mut senders = Vec::new();
            for finisher in [Some(WorkerId(1)), Some(WorkerId(2)), None] {
                let (sender, receiver) = mpsc::sync_channel::<usize>(16);
                senders.push(sender);
                scope.spawn(move || {
                    for address in receiver {
                        let chunk = NonNull::new(address as *mut u8).expect("a chunk");
                        // SAFETY: this thread is that worker; each address comes once.
                        unsafe { memory.free(finisher, chunk, 256) };
                    }
                });
            }
            for number in 0..EACH {
                // SAFETY: this thread alone is worker 0.
                let chunk = unsafe { memory.allocate(Some(WorkerId(0)), 256) };
                senders[number % 3].send(chunk.as_ptr() as usize).expect("a finisher");
            }
        });
        // In flight at most 3 x 17 + 1 chunks; four threads hold less than two batches of 4 chunks each. A slab has 32.
        assert!(memory.reserved_bytes() <= 4 * small().slab_bytes, "{} bytes", memory.reserved_bytes());
    }
}
