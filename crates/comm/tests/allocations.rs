//! What messages and calls allocate once everything is set up: blocking calls nothing, runs their handle, messages of any size nothing.
//!
//! One test, since all threads of a process share the count.

mod group;

use castell_base::{Rank, Tag};
use castell_comm::collective::{Call, Reduction};
use castell_comm::job::{JobOptions, Progress};
use castell_comm::{Comm, Communicator};
use castell_goal::graph::Graph;
use castell_goal::schedule::Schedule;
use group::{group_with, place};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The usual allocator, which counts while it is told to.
struct Counting;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn note() {
    if IS_COUNTING.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Rounds until tables have the size that they need, and rounds that are counted.
const ROUNDS: [u32; 2] = [100, 50];

/// Makes rounds of something on all ranks; how often anything was allocated in those behind the first ones.
fn allocations(world: &Communicator, mut round: impl FnMut()) -> u64 {
    (0..ROUNDS[0]).for_each(|_| round());
    world.barrier().expect("a barrier");
    world.barrier().expect("the first one may find its neighbours in the round before");
    if world.rank() == Rank(0) {
        ALLOCATIONS.store(0, Ordering::Relaxed);
        IS_COUNTING.store(true, Ordering::Relaxed);
    }
    world.barrier().expect("a barrier");
    (0..ROUNDS[1]).for_each(|_| round());
    world.barrier().expect("a barrier");
    IS_COUNTING.store(false, Ordering::Relaxed);
    world.barrier().expect("a barrier");
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// One message there and one back.
fn exchange(comm: &Comm, buffer: &mut [u8]) -> Arc<Schedule> {
    let mut graph = Graph::new();
    let (bytes, other) = (buffer.len() as u64, Rank(1 - comm.rank().0));
    let at = place(buffer);
    let send = graph.send(at, bytes, other, Tag(0)).expect("a send");
    let receive = graph.recv(at, bytes, Some(other), Some(Tag(0))).expect("a receive");
    let (before, after) = if comm.rank() == Rank(0) { (send, receive) } else { (receive, send) };
    graph.requires(before, after).expect("an order");
    Arc::new(graph.compile().expect("compiles"))
}

fn messages(comm: &Comm, world: &Communicator, bytes: usize) -> u64 {
    let mut buffer = vec![comm.rank().0 as u8; bytes];
    let schedule = exchange(comm, &mut buffer);
    // SAFETY: the buffer is there until all runs have been waited for.
    allocations(world, || unsafe { comm.run(&schedule) }.expect("starts").wait().expect("ends well"))
}

fn blocking(world: &Communicator, count: usize) -> u64 {
    let (send, mut recv) = (vec![1u64; count], vec![0u64; count]);
    allocations(world, || {
        world.allreduce(&send, &mut recv, Reduction::Sum).expect("a sum");
        world.broadcast(&mut recv, Rank(1)).expect("a broadcast");
    })
}

fn started(world: &Communicator, count: usize) -> u64 {
    let (send, mut recv) = (vec![1u64; count], vec![0u64; count]);
    allocations(world, || {
        world.scope(|scope| {
            let request = scope.start(Call::allreduce(&send, &mut recv, Reduction::Sum)).expect("starts");
            request.wait().expect("a sum");
        });
    })
}

/// Sizes of messages: by ring, by queue, and announced. Bytes.
const SIZES: [usize; 4] = [8, 4 << 10, 64 << 10, 1 << 20];

/// What a run, or a started call, may still allocate, on both ranks together, whatever the size of its messages: its handle, a call's
/// request, and three for a message that comes before its run.
const OF_RUNS: u64 = 10;

#[test]
fn blocking_calls_allocate_nothing_once_set_up() {
    for progress in [Progress::Thread, Progress::Peers] {
        let job = JobOptions { progress, ..JobOptions::new(2) };
        group_with(&job, |comm| {
            let world = comm.world();
            for bytes in SIZES {
                let most = OF_RUNS * u64::from(ROUNDS[1]);
                let (of_messages, of_started) = (messages(comm, &world, bytes), started(&world, bytes / 8));
                assert!(of_messages <= most, "{progress:?}: {of_messages} by messages of {bytes} bytes");
                assert!(of_started <= most, "{progress:?}: {of_started} by started calls of {bytes} bytes");
                let of_blocking = blocking(&world, bytes / 8);
                // Who falls asleep over a large one, on a busy machine, may set something up for the first time.
                let most = if bytes > 4 << 10 { u64::from(ROUNDS[1]) / 4 } else { 0 };
                assert!(
                    of_blocking <= most,
                    "{progress:?}: {of_blocking} by blocking calls of {bytes} bytes"
                );
            }
        });
    }
}
