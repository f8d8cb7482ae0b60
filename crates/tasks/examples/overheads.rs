//! What a task costs, in nanoseconds (wall time over tasks), under each scheduler: medians of interleaved rounds.
//!
//! `cargo run --release -p castell-tasks --example overheads -- [WORKERS [SCHEDULER...]]`
//!
//! | workload | tasks |
//! |---|---|
//! | queue | none: 64 items added to a scheduler and got again by one worker, a pair of calls counted as one task |
//! | empty | 200,000 empty tasks, one creator |
//! | axpy | a binary tree with 2^18 leaves, no waits but the last |
//! | fib | Fibonacci number 22, a taskwait in each task |
//! | chain | 50,000 tasks, each writes what the one before wrote |

use castell_base::sync::AtomicPtr;
use castell_sched::Topology;
use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::schedulable::Schedulable;
use castell_tasks::scheduler::Scheduler;
use castell_tasks::task::Attributes;
use castell_tasks::workers::WorkerId;
use castell_tasks::{Context, Runtime};
use std::ptr::NonNull;
use std::time::Instant;

const ROUNDS: usize = 7;

fn spawn(context: &Context<'_>, declared: &[Declaration], body: impl FnOnce(&Context<'_>) + Send + 'static) {
    // SAFETY: the bodies here touch nothing that is shared.
    unsafe { context.submit_raw(Attributes::NONE, declared, body) }
}

/// Something to queue.
struct Item {
    link: AtomicPtr<Item>,
}

// SAFETY: the link is the field of that name.
unsafe impl Schedulable for Item {
    fn link(&self) -> &AtomicPtr<Item> {
        &self.link
    }

    fn priority(&self) -> i32 {
        0
    }

    fn place(&self) -> Option<u16> {
        None
    }

    fn descends_from(&self, _ancestor: &Item) -> bool {
        false
    }
}

fn queue(scheduler: &str) -> f64 {
    let topology: Topology = "cpu:2".parse().expect("a topology");
    let scheduler = Scheduler::<Item>::new(scheduler.parse().expect("a scheduler"), &topology, 1);
    let items: Vec<Item> = (0..64).map(|_| Item { link: AtomicPtr::new(std::ptr::null_mut()) }).collect();
    let start = Instant::now();
    const REPEATS: usize = 5_000;
    for _ in 0..REPEATS {
        for item in &items {
            // SAFETY: the items outlive the scheduler's use of them, and this thread is the worker.
            unsafe { scheduler.add(NonNull::from(item), Some(WorkerId(0))) };
        }
        // SAFETY: as above.
        while unsafe { scheduler.get(WorkerId(0)) }.is_some() {}
    }
    start.elapsed().as_nanos() as f64 / (REPEATS * items.len()) as f64
}

fn empty(context: &Context<'_>) -> usize {
    const TASKS: usize = 200_000;
    (0..TASKS).for_each(|_| spawn(context, &[], |_| ()));
    context.taskwait().expect("nothing fails");
    TASKS
}

fn axpy(context: &Context<'_>) -> usize {
    const LEAVES: usize = 1 << 18;
    fn split(context: &Context<'_>, leaves: usize) {
        if leaves > 1 {
            spawn(context, &[], move |context| split(context, leaves / 2));
            spawn(context, &[], move |context| split(context, leaves / 2));
        }
    }
    split(context, LEAVES);
    context.taskwait().expect("nothing fails");
    2 * LEAVES - 2
}

fn fib(context: &Context<'_>) -> usize {
    fn number(context: &Context<'_>, n: u32, result: usize) {
        let mut parts = [0_u64; 2];
        let value = if n < 2 {
            u64::from(n)
        } else {
            for (part, before) in parts.iter_mut().zip([n - 1, n - 2]) {
                let place = std::ptr::from_mut(part) as usize;
                spawn(context, &[], move |context| number(context, before, place));
            }
            context.taskwait().expect("nothing fails");
            // SAFETY: written by the children, which are done.
            unsafe { std::ptr::read_volatile(&parts[0]) + std::ptr::read_volatile(&parts[1]) }
        };
        // SAFETY: the parent's place, which it reads after its taskwait.
        unsafe { (result as *mut u64).write(value) };
    }
    let mut result = 0_u64;
    number(context, 22, std::ptr::from_mut(&mut result) as usize);
    // SAFETY: written above.
    assert_eq!(unsafe { std::ptr::read_volatile(&result) }, 17_711);
    57_313 - 1
}

fn chain(context: &Context<'_>) -> usize {
    const TASKS: usize = 50_000;
    let place = 0_u64;
    let start = std::ptr::from_ref(&place) as usize;
    let declared = [Declaration { start, length: 8, kind: Kind::InOut, weak: false, reduction: 0 }];
    (0..TASKS).for_each(|_| spawn(context, &declared, |_| ()));
    context.taskwait().expect("nothing fails");
    TASKS
}

type Workload = fn(&Context<'_>) -> usize;

fn main() {
    let mut words = std::env::args().skip(1);
    let workers = words.next().map_or(2, |count| count.parse().expect("WORKERS is a number"));
    let mut schedulers: Vec<String> = words.collect();
    if schedulers.is_empty() {
        schedulers = ["tree", "tree:fifo,pull=off", "central", "delegation"].map(str::to_owned).into();
    }
    let workloads: [(&str, Workload); 4] = [("empty", empty), ("axpy", axpy), ("fib", fib), ("chain", chain)];
    let mut samples = vec![vec![Vec::new(); workloads.len() + 1]; schedulers.len()];
    for _ in 0..ROUNDS {
        for (scheduler, samples) in schedulers.iter().zip(&mut samples) {
            samples[0].push(queue(scheduler));
            let builder = Runtime::builder().workers(workers).scheduler(scheduler);
            let runtime = builder.build().expect("a runtime");
            for ((_, workload), samples) in workloads.iter().zip(&mut samples[1..]) {
                let time = |context: &Context<'_>| {
                    let start = Instant::now();
                    let tasks = workload(context);
                    start.elapsed().as_nanos() as f64 / tasks as f64
                };
                samples.push(runtime.run(time).expect("nothing fails"));
            }
        }
    }
    println!("{workers} workers, ns a task, median of {ROUNDS} (least)");
    print!("{:24} {:>16}", "", "queue");
    workloads.iter().for_each(|(name, _)| print!(" {name:>16}"));
    println!();
    for (scheduler, samples) in schedulers.iter().zip(&mut samples) {
        print!("{scheduler:24}");
        for samples in samples {
            samples.sort_by(f64::total_cmp);
            print!(" {:>16}", format!("{:.1} ({:.1})", samples[ROUNDS / 2], samples[0]));
        }
        println!();
    }
}
