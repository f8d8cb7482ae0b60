//! Every design under threads: no task lost, none twice, whoever adds and whoever sleeps.

use super::*;
use crate::scheduler::schedulable::tests::Item;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Instant;

const DESIGNS: [&str; 10] = [
    "tree",
    "tree:fifo",
    "tree:priority",
    "tree:lifo,pull=off",
    "tree:fifo,pull=off,slots=off",
    "tree:lifo,threshold=0,pull=off,rebalance=off",
    "central",
    "central:fifo,slots=off",
    "delegation:fifo",
    "delegation:priority",
];

fn scheduler(design: &str, topology: &str) -> Scheduler<Item> {
    let topology: Topology = topology.parse().expect("a topology");
    Scheduler::new(design.parse().expect("a scheduler"), &topology, 1)
}

struct Run {
    scheduler: Scheduler<Item>,
    items: Vec<Item>,
    seen: Vec<AtomicU64>,
    left: AtomicUsize,
}

impl Run {
    fn new(design: &str, topology: &str, count: usize, item: impl Fn(u64) -> Item) -> Run {
        Run {
            scheduler: scheduler(design, topology),
            items: (0..count as u64).map(item).collect(),
            seen: (0..count).map(|_| AtomicU64::new(0)).collect(),
            left: AtomicUsize::new(count),
        }
    }

    fn add(&self, number: usize, from: Option<WorkerId>) {
        // SAFETY: the items outlive the run, and each is added once.
        unsafe { self.scheduler.add(NonNull::from(&self.items[number]), from) };
    }

    fn saw(&self, item: NonNull<Item>) -> u64 {
        // SAFETY: an item of ours.
        let number = unsafe { item.as_ref() }.number;
        assert_eq!(self.seen[number as usize].fetch_add(1, Ordering::Relaxed), 0, "{number} comes twice");
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            (0..self.scheduler.desks.len() as u32).for_each(|worker| self.scheduler.call(WorkerId(worker)));
        }
        number
    }

    fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// A worker's loop: `body` is called for each item.
    fn work(&self, worker: u32, looks: u32, body: impl Fn(u64)) {
        let worker = WorkerId(worker);
        while !self.is_over() {
            let found = self
                .scheduler
                .get_own(worker)
                .or_else(|| self.scheduler.wait(worker, looks, None, || self.is_over()));
            if let Some(item) = found {
                body(self.saw(item));
            }
        }
        self.scheduler.leave(worker);
    }
}

#[test]
fn a_tree_of_items_comes_out_once() {
    const COUNT: usize = 1 << 13;
    for design in DESIGNS {
        for looks in [0, 300] {
            let run = Run::new(design, "numa:2 cpu:2", COUNT, Item::new);
            std::thread::scope(|scope| {
                for worker in 0..4 {
                    let run = &run;
                    scope.spawn(move || {
                        run.work(worker, looks, |number| {
                            for child in [2 * number + 1, 2 * number + 2] {
                                if child < COUNT as u64 {
                                    run.add(child as usize, Some(WorkerId(worker)));
                                }
                            }
                        });
                    });
                }
                run.add(0, None);
            });
            assert!(run.is_over() && run.scheduler.is_empty(), "{design}");
        }
    }
}

#[test]
fn one_creates_and_all_run() {
    const COUNT: usize = 20_000;
    for design in DESIGNS {
        let run = Run::new(design, "cpu:3", COUNT, Item::new);
        std::thread::scope(|scope| {
            let run = &run;
            for worker in 1..3 {
                scope.spawn(move || run.work(worker, 100, |_| ()));
            }
            scope.spawn(move || {
                (0..COUNT).for_each(|number| run.add(number, Some(WorkerId(0))));
                run.work(0, 100, |_| ());
            });
        });
    }
}

#[test]
fn threads_outside_wake_sleepers() {
    const COUNT: usize = 400;
    for design in DESIGNS {
        let run = Run::new(design, "cpu:2", COUNT, Item::new);
        std::thread::scope(|scope| {
            let run = &run;
            (0..2).for_each(|worker| drop(scope.spawn(move || run.work(worker, 0, |_| ()))));
            for number in 0..COUNT {
                run.add(number, None);
                if number.is_multiple_of(16) {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
    }
}

#[test]
fn each_kind_runs_where_it_can() {
    const COUNT: usize = 4000;
    let kind = |number: u64| if number.is_multiple_of(3) { Kind::ACCELERATOR } else { Kind::CPU };
    for design in DESIGNS {
        let item =
            |number| Item { kind: kind(number), place: Some((number % 2) as u16), ..Item::new(number) };
        let run = Run::new(design, "numa:2 cpu:1 accelerator:1", COUNT, item);
        std::thread::scope(|scope| {
            let run = &run;
            for worker in 0..4 {
                scope.spawn(move || {
                    if worker == 0 {
                        (0..COUNT).for_each(|number| run.add(number, Some(WorkerId(0))));
                    }
                    let own = if worker % 2 == 1 { Kind::ACCELERATOR } else { Kind::CPU };
                    run.work(worker, 50, |number| assert_eq!(kind(number), own, "{number} on {worker}"));
                });
            }
        });
    }
}

#[test]
fn a_worker_in_a_long_task_is_relieved_of_its_queue() {
    for design in ["tree", "central", "delegation"] {
        let run = Run::new(design, "cpu:2", 100, Item::new);
        let others_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (run, others_done) = (&run, &others_done);
            scope.spawn(move || {
                // Its queue is full, and it does not come back before all is done.
                (0..100).for_each(|number| run.add(number, Some(WorkerId(0))));
                let deadline = Instant::now() + Duration::from_secs(60);
                while !others_done.load(Ordering::Acquire) {
                    assert!(Instant::now() < deadline, "{design}: {} left", run.left.load(Ordering::Relaxed));
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            scope.spawn(move || {
                run.work(1, 100, |_| ());
                others_done.store(true, Ordering::Release);
            });
        });
    }
}

#[test]
fn descendants_only() {
    let scheduler = scheduler("tree", "cpu:1");
    let worker = WorkerId(0);
    let ancestor = Item::new(7);
    let (child, other) = (Item { parent: Some(7), ..Item::new(8) }, Item::new(9));
    // SAFETY: the items outlive the scheduler's use of them; this thread is the worker.
    unsafe {
        scheduler.add(NonNull::from(&other), Some(worker));
        scheduler.add(NonNull::from(&child), Some(worker));
    }
    let found = scheduler.get_descendant(worker, &ancestor, Mark::NONE).expect("the child is the youngest");
    assert_eq!(found, NonNull::from(&child));
    assert!(scheduler.get_descendant(worker, &ancestor, Mark::NONE).is_none());
    scheduler.leave(worker);
    assert_eq!(scheduler.get_own(worker), Some(NonNull::from(&other)));
}

#[test]
fn a_descendant_is_found_below_others() {
    for design in ["tree", "tree:fifo", "tree:priority", "central"] {
        let scheduler = scheduler(design, "cpu:1");
        let worker = WorkerId(0);
        let ancestor = Item::new(7);
        let items: Vec<Item> =
            (0..6).map(|number| Item { parent: (number == 2).then_some(7), ..Item::new(number) }).collect();
        // SAFETY: the items outlive the scheduler's use of them; this thread is the worker.
        items.iter().for_each(|item| unsafe { scheduler.add(NonNull::from(item), Some(worker)) });
        let found = scheduler.get_descendant(worker, &ancestor, Mark::NONE);
        assert_eq!(found, Some(NonNull::from(&items[2])), "{design}");
        assert!(scheduler.get_descendant(worker, &ancestor, Mark::NONE).is_none(), "{design}");
        scheduler.leave(worker);
        let mut left = Vec::new();
        while let Some(task) = scheduler.get_own(worker) {
            // SAFETY: as above.
            left.push(unsafe { task.as_ref() }.number);
        }
        left.sort_unstable();
        assert_eq!(left, [0, 1, 3, 4, 5], "{design}");
    }
}

#[test]
fn what_is_created_behind_a_mark_descends() {
    for (design, known) in [("tree", true), ("tree:fifo", true), ("tree:priority", false)] {
        let scheduler = scheduler(design, "cpu:1");
        let worker = WorkerId(0);
        let items: Vec<Item> = (0..4).map(Item::new).collect();
        let ancestor = Item::new(7);
        let get = |mark| scheduler.get_descendant(worker, &ancestor, mark).is_some();
        // SAFETY: the items outlive the scheduler's use of them; this thread is the worker.
        let add = |number: usize, created: bool| unsafe {
            let item = NonNull::from(&items[number]);
            if created {
                scheduler.add_created(item, Some(worker), scheduler.leaf(worker).as_ref())
            } else {
                scheduler.add(item, Some(worker))
            }
        };
        add(0, true);
        // SAFETY: the leaf lives as long as the scheduler.
        let mark = unsafe { scheduler.leaf(worker).as_ref() }.map_or(Mark::NONE, Leaf::mark);
        assert!(!get(mark), "{design}: it was there before");
        scheduler.leave(worker);
        add(1, true);
        assert_eq!(get(mark), known, "{design}");
        if known {
            add(2, false);
            assert!(!get(mark), "{design}: a successor may be anybody's");
            scheduler.leave(worker);
            add(3, true);
            assert!(get(mark), "{design}: created again");
            assert!(!get(mark), "{design}");
        }
        scheduler.leave(worker);
    }
}

#[test]
fn a_worker_taken_out_leaves_nothing_behind() {
    let scheduler = scheduler("tree", "numa:2 cpu:1");
    let items: Vec<Item> = (0..10).map(Item::new).collect();
    for item in &items {
        // SAFETY: the items outlive the scheduler's use of them; this thread is both workers.
        unsafe { scheduler.add(NonNull::from(item), Some(WorkerId(0))) };
    }
    scheduler.set_enabled(WorkerId(0), false);
    scheduler.clear(WorkerId(0));
    let got = std::iter::from_fn(|| scheduler.get_own(WorkerId(1))).count();
    assert_eq!(got, 10);
}

#[test]
fn successors_run_at_once_as_often_as_said() {
    for (design, least, most) in
        [("tree", 100, 100), ("tree:successor=off", 0, 0), ("tree:successor=0.5", 20, 80)]
    {
        let scheduler = scheduler(design, "cpu:1");
        let items: Vec<Item> = (0..200).map(Item::new).collect();
        let mut at_once = 0;
        for pair in items.chunks(2) {
            let mut ready = ReadyList::new();
            // SAFETY: as above.
            unsafe {
                pair.iter().for_each(|item| ready.push(NonNull::from(item)));
                at_once += usize::from(scheduler.add_ready(ready, Some(WorkerId(0))).is_some());
            }
        }
        assert!((least..=most).contains(&at_once), "{design}: {at_once}");
        assert_eq!(scheduler.len(), 200 - at_once);
    }
}

/// Who goes on with successors for ever still sees that somebody has become idle.
#[test]
fn what_lies_behind_successors_goes_to_who_is_idle() {
    for design in ["tree", "tree:fifo", "tree:priority"] {
        let scheduler = scheduler(design, "cpu:2");
        let (busy, idle) = (WorkerId(0), WorkerId(1));
        let items: Vec<Item> = (0..3).map(Item::new).collect();
        // SAFETY: the items outlive the scheduler's use of them; this thread is both workers.
        unsafe { scheduler.add(NonNull::from(&items[0]), Some(busy)) };
        scheduler.register(idle);
        let mut ready = ReadyList::new();
        // SAFETY: as above.
        let next = unsafe {
            ready.push(NonNull::from(&items[1]));
            scheduler.add_ready(ready, Some(busy))
        };
        assert_eq!(next, Some(NonNull::from(&items[1])), "{design}: the successor stays");
        assert_eq!(scheduler.take_handed(idle), Some(Some(NonNull::from(&items[0]))), "{design}");
    }
}
