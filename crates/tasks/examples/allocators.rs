//! What a record's memory costs: the workers' stacks beside the system's allocator and jemalloc.
//!
//! `cargo run --release -p castell-tasks --example allocators`: nanoseconds for one allocation and its release, medians
//! of interleaved rounds; first on one thread in bursts, then created on one thread and freed on another. Each round of each is a
//! process of its own, because jemalloc (`apt install libjemalloc2`) takes the place of a process' allocator from its start.

use castell_tasks::memory::{CHUNK_ALIGN, Memory, MemoryOptions};
use castell_tasks::workers::WorkerId;
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::process::{Command, ExitCode, Stdio};
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

/// What the process has, which may have been preloaded.
struct Global;

fn layout() -> Layout {
    Layout::from_size_align(BYTES, CHUNK_ALIGN).expect("a layout")
}

impl Allocator for Global {
    fn allocate(&self, _worker: u32) -> NonNull<u8> {
        // SAFETY: not empty.
        NonNull::new(unsafe { System.alloc(layout()) }).expect("memory")
    }

    fn free(&self, _worker: u32, chunk: NonNull<u8>) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { System.dealloc(chunk.as_ptr(), layout()) };
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

const JEMALLOC: &str = "libjemalloc.so.2";
/// Name, and what is preloaded for it.
const SUBJECTS: [(&str, Option<&str>); 3] =
    [("castell", None), ("system", None), ("jemalloc", Some(JEMALLOC))];

/// One round of one subject, in this process: two numbers, and for ours the bytes that it has reserved.
fn round(subject: &str) {
    if subject == "castell" {
        let ours = Memory::new(MemoryOptions::default(), &[0, 0]);
        return println!("{} {} {}", alone(&ours), across(&ours), ours.reserved_bytes());
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if subject == "jemalloc" && !maps.contains(JEMALLOC) {
        return;
    }
    println!("{} {} 0", alone(&Global), across(&Global));
}

/// The numbers of a round in a process of its own; none if there is nothing to preload.
fn apart(subject: &str, preload: Option<&str>) -> std::io::Result<Vec<f64>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(subject).stderr(Stdio::null());
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    let text = command.output()?.stdout;
    Ok(String::from_utf8_lossy(&text).split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

fn main() -> ExitCode {
    if let Some(subject) = std::env::args().nth(1) {
        round(&subject);
        return ExitCode::SUCCESS;
    }
    let mut samples: Vec<Vec<Vec<f64>>> = vec![Vec::new(); SUBJECTS.len()];
    for _ in 0..ROUNDS {
        for ((name, preload), samples) in SUBJECTS.iter().zip(&mut samples) {
            match apart(name, *preload) {
                Ok(numbers) => samples.extend((numbers.len() == 3).then_some(numbers)),
                Err(error) => {
                    eprintln!("cannot run a round of {name} in a process of its own: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("{BYTES} bytes aligned to {CHUNK_ALIGN}, ns an allocation and release, median of {ROUNDS}");
    println!("{:10} {:>12} {:>22}", "", "one thread", "freed by another");
    let median = |samples: &[Vec<f64>], column: usize| {
        let mut column: Vec<f64> = samples.iter().map(|numbers| numbers[column]).collect();
        column.sort_by(f64::total_cmp);
        column[column.len() / 2]
    };
    for ((name, _), samples) in SUBJECTS.iter().zip(&samples) {
        if samples.is_empty() {
            println!("{name:10} is not here: apt install libjemalloc2");
            continue;
        }
        println!("{name:10} {:12.1} {:22.1}", median(samples, 0), median(samples, 1));
    }
    println!("slabs: {:.0} KiB", median(&samples[0], 2) / 1024.0);
    ExitCode::SUCCESS
}
