//! One hot path of the runtime, over and over, on one worker: for counting its instructions (`cargo xtask instructions`).
//!
//! `hot_paths PATH REPEATS` prints how many tasks that were. What two runs differ in is the path's, not the program's start.
//!
//! | path | one repeat |
//! |---|---|
//! | queue | an item added to the tree and got again, 64 at a time |
//! | empty | an empty task: made, queued, run, disposed of |
//! | access | a task that writes a cell, 64 of them between two waits |
//! | chain | a task that waits for the one before: registered behind it, released by it |
//! | wave | a task that reads two cells and writes a third |
//! | stencil | a task that reads three cells of the row before and writes its own |
//! | windows | the same, but reads the three as one region: they are fragments of it |
//! | fib | a task that creates two and waits for them |

use castell_base::sync::AtomicPtr;
use castell_sched::Topology;
use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::schedulable::Schedulable;
use castell_tasks::scheduler::Scheduler;
use castell_tasks::task::Attributes;
use castell_tasks::workers::WorkerId;
use castell_tasks::workloads::Workload;
use castell_tasks::{Context, Runtime};
use std::ptr::NonNull;

const CELLS: usize = 64;

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

fn queue(repeats: u64) -> u64 {
    let topology: Topology = "cpu:2".parse().expect("a topology");
    let scheduler = Scheduler::<Item>::new("tree".parse().expect("a scheduler"), &topology, 1);
    let items: Vec<Item> = (0..CELLS).map(|_| Item { link: AtomicPtr::new(std::ptr::null_mut()) }).collect();
    for _ in 0..repeats / CELLS as u64 {
        for item in &items {
            // SAFETY: the items outlive the scheduler's use of them, and this thread is the worker.
            unsafe { scheduler.add(NonNull::from(item), Some(WorkerId(0))) };
        }
        // SAFETY: as above.
        while unsafe { scheduler.get(WorkerId(0)) }.is_some() {}
    }
    repeats
}

fn accesses(context: &Context<'_>, repeats: u64) {
    let cells = [0_u64; CELLS];
    for _ in 0..repeats / CELLS as u64 {
        for cell in &cells {
            let start = std::ptr::from_ref(cell) as usize;
            let declared = [Declaration { start, length: 8, kind: Kind::InOut, weak: false, reduction: 0 }];
            // SAFETY: the body touches nothing.
            unsafe { context.submit_raw(Attributes::NONE, &declared, |_| ()) };
        }
        context.taskwait().expect("nothing fails");
    }
}

/// Rows of cells in turns: a task reads three neighbours of the row before, as one region or apart, and writes its own cell.
fn stencil(context: &Context<'_>, repeats: u64, apart: bool) {
    const WIDTH: usize = 16;
    let rows = [[0_u64; WIDTH]; 2];
    let cells = |row: usize, column: usize, count: usize, kind| {
        let start = std::ptr::from_ref(&rows[row][column]) as usize;
        Declaration { start, length: count * size_of::<u64>(), kind, weak: false, reduction: 0 }
    };
    for task in 0..repeats as usize {
        let (to, column) = (task / WIDTH % 2, task % WIDTH);
        let own = cells(to, column, 1, Kind::InOut);
        let (first, end) = (column.saturating_sub(1), (column + 2).min(WIDTH));
        let mut declared = [own; 4];
        let count = if apart { end - first } else { 1 };
        for (read, index) in declared.iter_mut().zip(0..count) {
            *read = cells(1 - to, first + index, if apart { 1 } else { end - first }, Kind::In);
        }
        // SAFETY: the body touches nothing.
        unsafe { context.submit_raw(Attributes::NONE, &declared[..=count], |_| ()) };
    }
    context.taskwait().expect("nothing fails");
}

/// Runs a path as one task; how many tasks that made.
fn run(path: impl Fn(&Context<'_>) + Send) -> u64 {
    let runtime = Runtime::builder().workers(1).scheduler("tree").build().expect("a runtime");
    runtime.run(path).expect("nothing fails");
    runtime.tasks_created()
}

fn main() {
    let mut words = std::env::args().skip(1);
    let path = words.next().expect("hot_paths PATH REPEATS");
    let repeats: u64 = words.next().and_then(|word| word.parse().ok()).expect("REPEATS is a number");
    let workload = match path.as_str() {
        "queue" => return println!("{}", queue(repeats)),
        "stencil" => return println!("{}", run(|context| stencil(context, repeats, true))),
        "windows" => return println!("{}", run(|context| stencil(context, repeats, false))),
        "access" => return println!("{}", run(|context| accesses(context, repeats))),
        "empty" => Workload::Empty { tasks: repeats },
        "chain" => Workload::Chain { tasks: repeats },
        "wave" => Workload::Wave { side: repeats.isqrt() },
        "fib" => {
            let enough = |number: &u64| Workload::Fib { number: *number }.tasks() >= repeats;
            Workload::Fib { number: (1..40).find(enough).unwrap_or(40) }
        }
        _ => panic!("no path `{path}`"),
    };
    println!("{}", run(|context| workload.run(context).expect("nothing fails")));
}
