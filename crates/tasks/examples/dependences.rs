//! What finding dependences costs, without workers, queues or memory: prints nanoseconds an access to register and to complete.
//!
//! `cargo run --release -p castell-tasks --example dependences [tasks [part of a name]]`

use castell_base::sync::{AtomicU32, Ordering};
use castell_deps::{Kind, Region};
use castell_tasks::dependences::engine::{Access, Domain, complete};
use castell_tasks::dependences::{Dependent, Exclusive, Outcome};
use castell_tasks::memory::{Memory, MemoryOptions};
use castell_tasks::workers::WorkerId;
use std::ptr::NonNull;
use std::sync::LazyLock;
use std::time::Instant;

/// A task that is nothing but its accesses.
struct Node {
    blocking: AtomicU32,
    references: AtomicU32,
    accesses: Vec<Access<Node>>,
}

// SAFETY: plain counters; nodes outlive each measurement.
unsafe impl Dependent for Node {
    fn begin_blocking(&self, count: u32) {
        self.blocking.store(count, Ordering::Relaxed);
    }

    fn block(&self, count: u32) {
        self.blocking.fetch_add(count, Ordering::Relaxed);
    }

    fn unblock(&self, count: u32) -> u32 {
        if self.blocking.load(Ordering::Acquire) == count {
            return 0;
        }
        self.blocking.fetch_sub(count, Ordering::AcqRel) - count
    }

    fn poison(&self) {}

    fn begin_retaining(&self, accesses: u32) {
        self.references.store(accesses, Ordering::Relaxed);
    }

    fn retain(&self, accesses: u32) {
        self.references.fetch_add(accesses, Ordering::Relaxed);
    }

    fn descends_from(&self, _ancestor: &Self) -> bool {
        false
    }

    fn parent(&self) -> Option<&Self> {
        None
    }

    fn accesses(&self) -> &[Access<Self>] {
        &self.accesses
    }

    fn exclusive(&self) -> &Exclusive<Self> {
        unreachable!("no commutative accesses here")
    }
}

/// Counts what becomes ready.
struct Counted(usize);

impl Outcome<Node> for Counted {
    #[inline]
    fn ready(&mut self, _task: NonNull<Node>) {
        self.0 += 1;
    }

    #[inline]
    fn gone(&mut self, task: NonNull<Node>, accesses: u32) {
        // SAFETY: nodes outlive each measurement.
        let references = unsafe { &task.as_ref().references };
        if references.load(Ordering::Acquire) != accesses {
            references.fetch_sub(accesses, Ordering::AcqRel);
        }
    }

    fn combine(&mut self, _task: NonNull<Node>, _region: Region, _group_ends: bool) {}

    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        // SAFETY: this thread alone is worker 0.
        unsafe { memory().allocate(Some(WorkerId(0)), bytes) }
    }

    unsafe fn free(&mut self, chunk: NonNull<u8>, bytes: usize) {
        recycle(chunk, bytes);
    }
}

/// Where pieces lie: the memory of the runtime's tasks.
fn memory() -> &'static Memory {
    static MEMORY: LazyLock<Memory> = LazyLock::new(|| Memory::new(MemoryOptions::default(), &[0]));
    &MEMORY
}

fn recycle(chunk: NonNull<u8>, bytes: usize) {
    // SAFETY: as in `allocate`, from where the chunk came.
    unsafe { memory().free(Some(WorkerId(0)), chunk, bytes) };
}

fn access(kind: Kind, weak: bool, start: usize, length: usize) -> castell_deps::Access {
    let region = Region::new(start, length).expect("not empty");
    castell_deps::Access { weak, ..castell_deps::Access::strong(kind, region) }
}

fn nodes(count: usize, declared: &dyn Fn(usize) -> Vec<castell_deps::Access>) -> Vec<NonNull<Node>> {
    let make = |index| {
        let node = Node { blocking: AtomicU32::new(0), references: AtomicU32::new(0), accesses: Vec::new() };
        let mut node = NonNull::from(Box::leak(Box::new(node)));
        let accesses = declared(index).iter().map(|access| Access::new(node, access)).collect();
        // SAFETY: just made.
        unsafe { node.as_mut() }.accesses = accesses;
        node
    };
    (0..count).map(make).collect()
}

/// Nanoseconds a task to register all tasks and to complete them in order; or to do both with each in turn.
fn measure(tasks: &[NonNull<Node>], in_turn: bool) -> (f64, f64) {
    let mut domain = Domain::default();
    let mut outcome = Counted(0);
    let start = Instant::now();
    // SAFETY: nodes are alive, each is registered and completed once, on this thread; a predecessor completes first.
    unsafe {
        for node in tasks {
            if domain.register(&[], *node, &mut outcome) {
                outcome.0 += 1;
            }
            if in_turn {
                complete(&node.as_ref().accesses, false, &mut outcome);
            }
        }
    }
    let registered = start.elapsed();
    if !in_turn {
        for node in tasks {
            // SAFETY: as above.
            unsafe { complete(&node.as_ref().accesses, false, &mut outcome) };
        }
    }
    let all = start.elapsed();
    assert_eq!(outcome.0, tasks.len(), "all tasks became ready");
    // SAFETY: all tasks have completed.
    unsafe { domain.close(&[], false, &mut outcome) };
    let per_task = |time: std::time::Duration| time.as_nanos() as f64 / tasks.len() as f64;
    (per_task(registered), per_task(all - registered))
}

fn report(name: &str, count: usize, accesses: f64, declared: &dyn Fn(usize) -> Vec<castell_deps::Access>) {
    let chosen = std::env::args().nth(2).is_none_or(|part| name.contains(&part));
    for in_turn in [false, true].into_iter().filter(|_| chosen) {
        let mut samples: Vec<(f64, f64)> = Vec::new();
        for _ in 0..9 {
            let tasks = nodes(count, declared);
            samples.push(measure(&tasks, in_turn));
            for node in tasks {
                // SAFETY: made from a box, and the domain is closed.
                let node = unsafe { Box::from_raw(node.as_ptr()) };
                // SAFETY: all tasks have completed, and nobody looks at them any more.
                node.accesses.iter().for_each(|access| unsafe { access.dispose(&mut recycle) });
            }
        }
        samples.sort_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
        let (register, complete) = samples[samples.len() / 2];
        let (register, complete) = (register / accesses, complete / accesses);
        if in_turn {
            println!("{name:34} register and complete in turn {register:6.1} ns an access");
        } else {
            println!("{name:34} register {register:6.1}, complete {complete:6.1} ns an access");
        }
    }
}

fn main() {
    let count = std::env::args().nth(1).map_or(20_000, |count| count.parse().expect("a number of tasks"));
    let inout = |start: usize, length: usize| access(Kind::InOut, false, start, length);
    report("chain, inout", count, 1.0, &|_| vec![inout(64, 8)]);
    report("64 chains, inout", count, 1.0, &|index| vec![inout(64 * (1 + index % 64), 8)]);
    report("readers and a writer in ten", count, 1.0, &|index| {
        vec![access(if index % 10 == 0 { Kind::InOut } else { Kind::In }, false, 64, 8)]
    });
    report("new region each", count, 1.0, &|index| vec![inout(64 * (1 + index), 8)]);
    let side = (count as f64).sqrt() as usize;
    report("wave, in in inout", side * side, 3.0, &|index| {
        let cell = |row: usize, column: usize| 64 * (1 + row * (side + 1) + column);
        let (row, column) = (1 + index / side, 1 + index % side);
        let read = |start| access(Kind::In, false, start, 8);
        vec![read(cell(row - 1, column)), read(cell(row, column - 1)), inout(cell(row, column), 8)]
    });
    report("chain, weak inout", count, 1.0, &|index| vec![access(Kind::InOut, index % 2 == 1, 64, 8)]);
    report("two in turn, exact, as many a task", count, 4.0 / 3.0, &|index| match index % 3 {
        0 => vec![inout(64, 32), inout(96, 32)],
        1 => vec![inout(64, 32)],
        _ => vec![inout(96, 32)],
    });
    report("windows that overlap by half", count, 2.0, &|index| vec![inout(64 + index % 64 * 32, 64)]);
    report("the same windows as two, exact", count, 2.0, &|index| {
        let start = 64 + index % 64 * 32;
        vec![inout(start, 32), inout(start + 32, 32)]
    });
    report("whole, then two halves, fragments", count, 4.0 / 3.0, &|index| match index % 3 {
        0 => vec![inout(64, 64)],
        1 => vec![inout(64, 32)],
        _ => vec![inout(96, 32)],
    });
}
