//! What a record's memory costs: the workers' stacks beside the system's allocator and jemalloc.
//!
//! `cargo run --release -p castell-tasks --example allocators`: nanoseconds for one allocation and its release, medians
//! of interleaved rounds; first on one thread in bursts, then created on one thread and freed on another.

use castell_tasks::memory::{CHUNK_ALIGN, Memory, MemoryOptions};
use castell_tasks::workers::WorkerId;
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

const ROUNDS: usize = 15;
const BURSTS: usize = 2_000;
const BURST: usize = 100;
const BYTES: usize = 192;

/// Allocates and frees as a worker.
trait Allocator: Sync {
    fn allocate(&self, worker: u32) -> NonNull<u8>;
    /// A chunk of ours, once.
    fn free(&self, worker: u32, chunk: NonNull<u8>);
}

impl Allocator for Memory {
    fn allocate(&self, worker: u32) -> NonNull<u8> {
        // SAFETY: each thread of this program is one worker.
        unsafe { Memory::allocate(self, Some(WorkerId(worker)), BYTES) }
    }

    fn free(&self, worker: u32, chunk: NonNull<u8>) {
        // SAFETY: as above, and each chunk is freed once.
        unsafe { Memory::free(self, Some(WorkerId(worker)), chunk, BYTES) };
    }
}

struct Global<A>(A);

fn layout() -> Layout {
    Layout::from_size_align(BYTES, CHUNK_ALIGN).expect("a layout")
}

impl<A: GlobalAlloc + Sync> Allocator for Global<A> {
    fn allocate(&self, _worker: u32) -> NonNull<u8> {
        // SAFETY: not empty.
        NonNull::new(unsafe { self.0.alloc(layout()) }).expect("memory")
    }

    fn free(&self, _worker: u32, chunk: NonNull<u8>) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { self.0.dealloc(chunk.as_ptr(), layout()) };
    }
}

/// Nanoseconds for one allocation, a write to it, and its release, on one thread.
fn alone(allocator: &dyn Allocator) -> f64 {
    let mut held = Vec::with_capacity(BURST);
    let start = Instant::now();
    for _ in 0..BURSTS {
        for number in 0..BURST {
            let chunk = allocator.allocate(0);
            // SAFETY: ours, and longer than a byte.
            unsafe { chunk.write(number as u8) };
            held.push(chunk);
        }
        held.drain(..).for_each(|chunk| allocator.free(0, black_box(chunk)));
    }
    start.elapsed().as_nanos() as f64 / (BURSTS * BURST) as f64
}

/// The same, freed by another thread.
fn across(allocator: &dyn Allocator) -> f64 {
    let (sender, receiver) = sync_channel::<Vec<usize>>(64);
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for chunk in receiver.into_iter().flatten() {
                allocator.free(1, NonNull::new(chunk as *mut u8).expect("a chunk"));
            }
        });
        for _ in 0..BURSTS {
            let fill = |number| {
                let chunk = allocator.allocate(0);
                // SAFETY: ours, and longer than a byte.
                unsafe { chunk.write(number as u8) };
                chunk.as_ptr() as usize
            };
            sender.send((0..BURST).map(fill).collect()).expect("the other thread");
        }
        drop(sender);
    });
    start.elapsed().as_nanos() as f64 / (BURSTS * BURST) as f64
}

fn main() {
    let ours = Memory::new(MemoryOptions::default(), &[0, 0]);
    let (system, jemalloc) = (Global(System), Global(tikv_jemallocator::Jemalloc));
    let subjects: [(&str, &dyn Allocator); 3] =
        [("castell", &ours), ("system", &system), ("jemalloc", &jemalloc)];
    let mut samples = vec![[Vec::new(), Vec::new()]; subjects.len()];
    for _ in 0..ROUNDS {
        for ((_, allocator), samples) in subjects.iter().zip(&mut samples) {
            samples[0].push(alone(*allocator));
            samples[1].push(across(*allocator));
        }
    }
    println!("{BYTES} bytes aligned to {CHUNK_ALIGN}, ns an allocation and release, median of {ROUNDS}");
    println!("{:10} {:>12} {:>22}", "", "one thread", "freed by another");
    for ((name, _), samples) in subjects.iter().zip(&mut samples) {
        let [alone, across] = samples.each_mut().map(|samples| {
            samples.sort_by(f64::total_cmp);
            samples[ROUNDS / 2]
        });
        println!("{name:10} {alone:12.1} {across:22.1}");
    }
    println!("slabs: {} KiB", ours.reserved_bytes() >> 10);
}
