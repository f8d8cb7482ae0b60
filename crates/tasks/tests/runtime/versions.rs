//! Tasks with several bodies: exactly one runs, on a worker of its kind, whatever else happens to the task.

use castell_tasks::data::Data;
use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::replay::TaskGraph;
use castell_tasks::task::Attributes;
use castell_tasks::versions::Versions;
use castell_tasks::workers::WorkerId;
use castell_tasks::{Context, LeafKind, Runtime, TaskError};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SCHEDULERS: [&str; 5] = ["tree", "tree:fifo,pull=off", "tree:priority", "central", "delegation"];
const CPU: LeafKind = LeafKind::CPU;
const NEAR: LeafKind = LeafKind(1);
const FAR: LeafKind = LeafKind(7);
const NOWHERE: LeafKind = LeafKind(3);

/// Stands for a device.
struct Device(LeafKind);

fn runtime(scheduler: &str) -> Runtime {
    let builder = Runtime::builder().daemon(None).workers(2).scheduler(scheduler);
    builder.device(NEAR, Device(NEAR)).device(FAR, Device(FAR)).build().expect("threads start")
}

/// The kind of the worker that runs this, as its device says.
fn place(context: &Context<'_>) -> LeafKind {
    let kind = context.device::<Device>().map_or(CPU, |device| device.0);
    assert_eq!(kind, context.kind());
    kind
}

/// Counts how often it is dropped.
struct Dropped(Arc<AtomicU64>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn one_runs_where_it_is_for_and_the_others_are_dropped() {
    for scheduler in SCHEDULERS {
        let runtime = runtime(scheduler);
        let (ran, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counted = ran.clone();
        let (given, sum) = (dropped.clone(), 500 * 499 / 2);
        let value = runtime.run(move |context| {
            let mut value = Data::new(0_u64);
            for number in 0..500 {
                let [one, two, three] = [(); 3].map(|()| (Dropped(given.clone()), counted.clone()));
                let task = context.task().label("add").versions(value.write());
                task.version(CPU, move |context, mut value| {
                    assert_eq!(place(context), CPU);
                    *value += number;
                    one.1.fetch_add(1, Ordering::Relaxed);
                })
                .version(NOWHERE, |_, _| panic!("there is no such worker"))
                .version(FAR, move |context, mut value| {
                    assert_eq!(place(context), FAR);
                    *value += number;
                    two.1.fetch_add(1, Ordering::Relaxed);
                })
                .version(NEAR, move |context, mut value| {
                    assert_eq!(place(context), NEAR);
                    *value += number;
                    three.1.fetch_add(1, Ordering::Relaxed);
                })
                .submit();
            }
            *value.get(context).expect("nothing fails")
        });
        assert_eq!(value.expect("nothing fails"), sum, "{scheduler}");
        assert_eq!(
            (ran.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed)),
            (500, 1500),
            "{scheduler}"
        );
        let measured = runtime.measured();
        let kinds: Vec<LeafKind> = measured.iter().map(|measured| measured.kind).collect();
        assert_eq!(kinds, [CPU, NEAR, FAR], "each was tried: {measured:?}");
        assert_eq!(measured.iter().map(|measured| measured.runs).sum::<u64>(), 500);
        assert!(measured.iter().all(|measured| measured.label == "add"));
    }
}

/// Eight tasks of which none ends before all have been created: where they ran.
fn eight(runtime: &Runtime, ranked: bool) -> Vec<LeafKind> {
    let open: &'static AtomicBool = Box::leak(Box::default());
    let body = move |context: &Context<'_>| {
        while !open.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_micros(100));
        }
        place(context)
    };
    let kinds = runtime.run(|context| {
        let mut handles = Vec::new();
        for _ in 0..8 {
            let task = context.task().label("given").versions(());
            let task = task.version(NEAR, move |context, ()| body(context)).taking(Duration::from_secs(1));
            let task = task.version(FAR, move |context, ()| body(context)).taking(Duration::from_secs(2));
            let task = task.version(CPU, move |context, ()| body(context)).taking(Duration::from_secs(9));
            handles.push(if ranked { task.ranked().spawn() } else { task.spawn() });
        }
        open.store(true, Ordering::Release);
        handles.into_iter().map(|handle| handle.wait(context).expect("nothing fails")).collect()
    });
    kinds.expect("nothing fails")
}

#[test]
fn the_one_that_is_over_first_runs_or_the_best_that_is_free() {
    for scheduler in SCHEDULERS {
        let runtime = runtime(scheduler);
        // Over after 1, 2 (where two are equal, what was added first), 2, 3, 4, 4, 5 and 6 s.
        assert_eq!(eight(&runtime, false), [NEAR, NEAR, FAR, NEAR, NEAR, FAR, NEAR, NEAR], "{scheduler}");
        assert_eq!(eight(&runtime, true), [NEAR, FAR, CPU, CPU, NEAR, FAR, CPU, CPU], "{scheduler}");
    }
}

#[test]
fn failures_reach_the_wait_and_a_version_that_failed_is_left_alone() {
    let runtime = runtime("tree");
    let dropped = Arc::new(AtomicU64::new(0));
    let given = dropped.clone();
    let run = runtime.run(|context| {
        let mut outcomes = Vec::new();
        for number in 0..6 {
            let value = Data::new(0);
            let [one, two] = [(); 2].map(|()| Dropped(given.clone()));
            let task = context.task().label("odd").versions(value.write());
            let task = task.version(CPU, move |_, mut value| {
                let _one = one;
                *value = 1;
            });
            task.version(NEAR, move |_, _| {
                let _two = two;
                panic!("no memory on the card")
            })
            .submit();
            let successor = Dropped(given.clone());
            context.task().label("successor").submit(value.read(), move |_, _| drop(successor));
            outcomes.push((number, context.taskwait().err().map(|error| error.to_string())));
        }
        outcomes
    });
    for (number, outcome) in run.expect("taken by the waits") {
        match (number, outcome) {
            (1, Some(error)) => assert!(error.contains("`odd` panicked: no memory on the card"), "{error}"),
            (_, outcome) => assert_eq!(outcome, None, "task {number}"),
        }
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 18);
    let measured = runtime.measured();
    assert_eq!(measured.len(), 1, "{measured:?}");
    assert_eq!((measured[0].kind, measured[0].runs), (CPU, 5));
}

#[test]
fn skipped_tasks_count_for_nothing() {
    let runtime = runtime("tree");
    let (dropped, ran) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (given, counted) = (dropped.clone(), ran.clone());
    let failed = runtime.run(move |context| {
        let submit = |context: &Context<'_>, value: &Data<u64>| {
            let [one, two] = [(); 2].map(|()| (Dropped(given.clone()), counted.clone()));
            let task = context.task().label("skipped").versions(value.write());
            let task = task.version(FAR, move |_, _| _ = one.1.fetch_add(1, Ordering::Relaxed));
            task.version(NEAR, move |_, _| _ = two.1.fetch_add(1, Ordering::Relaxed)).submit();
        };
        let cancelled = Data::new(0);
        let group = context.group(|| {
            context.cancel();
            (0..10).for_each(|_| submit(context, &cancelled));
        });
        group.expect("what is cancelled is no failure");
        let failing = Data::new(0);
        context.submit(failing.write(), |context, _| context.fail("so that the others are skipped"));
        (0..10).for_each(|_| submit(context, &failing));
        context.taskwait().expect_err("it failed").to_string()
    });
    assert!(failed.expect("taken by the wait").contains("so that the others"));
    assert_eq!((ran.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed)), (0, 40));
    assert_eq!(runtime.measured(), []);
    // And nothing is left in anybody's queue: the one that was added first is tried first.
    let kind = runtime.run(|context| {
        let task = context.task().label("skipped").versions(());
        let task = task.version(FAR, |context, ()| place(context));
        task.version(NEAR, |context, ()| place(context)).spawn().wait(context).expect("nothing fails")
    });
    assert_eq!(kind.expect("nothing fails"), FAR);
}

#[test]
fn events_waits_pauses_children_and_undeferred_ones() {
    for scheduler in SCHEDULERS {
        let runtime = runtime(scheduler);
        let sum = runtime.run(|context| {
            let mut sum = Data::new(0_u64);
            let count: &'static AtomicU64 = Box::leak(Box::default());
            for _ in 0..5 {
                // What it starts is over only later.
                let task = context.task().label("event").versions(sum.write());
                let body = move |context: &Context<'_>| {
                    let event = context.event();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(2));
                        count.fetch_add(1, Ordering::Relaxed);
                        event.fulfill();
                    });
                };
                let task = task.version(CPU, move |context, _| body(context));
                task.version(NEAR, move |context, _| body(context)).submit();
                let task = context.task().label("after").versions(sum.write());
                let task = task.version(FAR, move |_, mut sum| *sum += count.load(Ordering::Relaxed));
                task.version(NEAR, move |_, mut sum| *sum += count.load(Ordering::Relaxed)).submit();
            }
            // 1 + 2 + 3 + 4 + 5.
            assert_eq!(*sum.get(context).expect("nothing fails"), 15, "{scheduler}");
            let body = move |context: &Context<'_>| {
                let kind = place(context);
                for kind in [CPU, NEAR, FAR] {
                    let task = context.task().label("child").final_if(kind == FAR).versions(());
                    let task = task.version(kind, move |context, ()| assert_eq!(place(context), kind));
                    task.version(NOWHERE, |_, ()| panic!("nobody is there")).submit();
                }
                context.block_for(Duration::from_millis(1));
                context.taskwait().expect("nothing fails");
                assert_eq!(place(context), kind, "after a wait it is one of the same kind");
                count.fetch_add(1, Ordering::Relaxed);
            };
            for number in 0..6_u64 {
                let before = count.load(Ordering::Relaxed);
                let task = context.task().label("in place").deferred_if(number % 2 == 0);
                let task = task.final_if(number % 3 == 0).versions(());
                let task = task.version(FAR, move |context, ()| body(context));
                task.version(CPU, move |context, ()| body(context)).submit();
                assert!(number % 2 == 0 || count.load(Ordering::Relaxed) > before, "its creator has waited");
            }
            context.taskwait().expect("nothing fails");
            count.load(Ordering::Relaxed)
        });
        assert_eq!(sum.expect("nothing fails"), 11, "{scheduler}");
        let runs = |label| -> u64 {
            let measured = runtime.measured();
            measured.iter().filter(|measured| measured.label == label).map(|measured| measured.runs).sum()
        };
        assert_eq!(["event", "after", "in place", "child"].map(runs), [5, 5, 6, 18], "{scheduler}");
    }
}

#[test]
fn what_cannot_be_is_said() {
    let runtime = runtime("tree");
    let errors = runtime.run(|context| {
        let error = || context.taskwait().expect_err("it cannot be").to_string();
        let task = || context.task().label("lost").versions::<_, ()>(());
        task()
            .version(NOWHERE, |_, ()| panic!("never"))
            .version(LeafKind(4), |_, ()| panic!("never"))
            .submit();
        let none = error();
        task().version(CPU, |_, ()| panic!("never")).version(CPU, |_, ()| panic!("never")).submit();
        let twice = error();
        task().version(LeafKind(8), |_, ()| panic!("never")).submit();
        let no_kind = error();
        task().submit();
        let nothing = error();
        context.task().on(LeafKind(8)).submit((), |_, ()| panic!("never"));
        [none, twice, no_kind, nothing, error()]
    });
    let [none, twice, no_kind, nothing, raw] = errors.expect("taken by the waits");
    assert!(none.contains("`lost`") && none.contains("devices of kind 3 and devices of kind 4"), "{none}");
    assert!(twice.contains("two versions for the processors"), "{twice}");
    assert!(no_kind.contains("from 1 to 7, not 8"), "{no_kind}");
    assert!(nothing.contains("no kind of workers"), "{nothing}");
    assert!(raw.contains("kind 8"), "{raw}");
    let error = runtime.run(|context| {
        let value = Data::new(0);
        let mut graph = TaskGraph::new();
        let versions = graph.add_versions(context, Attributes::NONE, value.write());
        let twice = versions.version(NEAR, |_, _, _| ()).version(NEAR, |_, _, _| ()).add();
        assert!(matches!(twice, Err(TaskError::VersionTwice { .. })), "{twice:?}");
        let versions = graph.add_versions(context, Attributes::NONE, value.write());
        versions.version(NOWHERE, |_, _, _| ()).add().expect("known only when it runs");
        graph.run(context, 3).expect_err("nobody is there").to_string()
    });
    assert!(error.expect("taken by the run").contains("devices of kind 3"));
}

#[test]
fn a_graph_chooses_in_each_iteration() {
    for scheduler in SCHEDULERS {
        let runtime = runtime(scheduler);
        let (values, kinds) = runtime
            .run(|context| {
                let mut values = Data::from(vec![1_u64; 4]);
                let kinds: &'static [AtomicU64; 8] = Box::leak(Box::default());
                let mut graph = TaskGraph::new();
                for place in 0..4 {
                    let attributes = Attributes { label: "triple", ..Attributes::NONE };
                    let part = values.part(place..place + 1);
                    let versions = graph.add_versions(context, attributes, part.write());
                    let versions = versions.version(CPU, |_, iteration, mut value| {
                        value[0] = value[0].wrapping_mul(3).wrapping_add(iteration)
                    });
                    let versions = versions.version(FAR, |context, iteration, mut value| {
                        kinds[context.kind().index()].fetch_add(1, Ordering::Relaxed);
                        value[0] = value[0].wrapping_mul(3).wrapping_add(iteration);
                    });
                    versions.ranked().add().expect("a task");
                    let next = values.part((place + 1) % 4..(place + 1) % 4 + 1).read();
                    graph
                        .add(context, (part.write(), next), |_, _, (mut value, next)| value[0] ^= next[0])
                        .unwrap_or_else(|error| panic!("{error}"));
                }
                graph.run(context, 100).expect("nothing fails");
                drop(graph);
                (
                    values.get(context).expect("nothing fails").to_vec(),
                    kinds.each_ref().map(|count| count.load(Ordering::Relaxed)),
                )
            })
            .expect("nothing fails");
        let mut expected = [1_u64; 4];
        for iteration in 0..100 {
            for place in 0..4 {
                expected[place] = expected[place].wrapping_mul(3).wrapping_add(iteration);
                expected[place] ^= expected[(place + 1) % 4];
            }
        }
        assert_eq!(values, expected, "{scheduler}");
        let runs: Vec<(LeafKind, u64)> = runtime.measured().iter().map(|one| (one.kind, one.runs)).collect();
        assert_eq!(runs.iter().map(|(_, runs)| runs).sum::<u64>(), 400, "{scheduler}");
        assert_eq!(kinds[7], runs.iter().find(|(kind, _)| *kind == FAR).map_or(0, |(_, runs)| *runs));
    }
}

#[test]
fn which_version_ran_is_in_recordings() {
    let builder = Runtime::builder().daemon(None).workers(1).device(NEAR, Device(NEAR)).record(true);
    let runtime = builder.build().expect("threads start");
    eight_on_both(&runtime);
    let recording = runtime.recording().expect("asked for");
    let mut ran = [0; 2];
    for task in recording.tasks.iter().filter(|task| task.label == "both") {
        ran[recording.kind_of(task).expect("it ran").index()] += 1;
    }
    assert!(ran[0] > 0 && ran[1] > 0 && ran[0] + ran[1] == 8, "{ran:?}");
    let summary = recording.summary();
    assert!(summary.contains(&format!("both: {} tasks", ran[0])), "{summary}");
    assert!(summary.contains(&format!("both on devices of kind 1: {} tasks", ran[1])), "{summary}");
    let mut goal = Vec::new();
    recording.write_goal(&mut goal).expect("memory");
    assert!(String::from_utf8(goal).expect("text").contains("on worker 1 (devices of kind 1)"));
}

fn eight_on_both(runtime: &Runtime) {
    let run = runtime.run(|context| {
        for _ in 0..8 {
            let task = context.task().label("both").versions(());
            task.version(CPU, |_, ()| ()).version(NEAR, |_, ()| ()).submit();
        }
    });
    run.expect("nothing fails");
}

#[test]
fn workers_come_and_go_meanwhile() {
    let builder =
        Runtime::builder().daemon(None).workers(2).device(NEAR, Device(NEAR)).device(NEAR, Device(NEAR));
    let runtime = builder.build().expect("threads start");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for worker in [WorkerId(1), WorkerId(2)] {
                    runtime.disable_worker(worker).expect("there is another one");
                    std::thread::sleep(Duration::from_micros(200));
                    runtime.enable_worker(worker).expect("a thread");
                }
            }
        });
        for _ in 0..200 {
            eight_on_both(&runtime);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(runtime.measured().iter().map(|one| one.runs).sum::<u64>(), 1600);
}

/// What a task does to cells, by numbers: the program in order, and the tasks, do the same.
fn mix(number: u64, cells: &mut [u64], reads: u64) {
    for (index, cell) in cells.iter_mut().enumerate() {
        *cell = (*cell ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ reads ^ index as u64;
    }
}

/// A task of a random program.
struct Random {
    writes: std::ops::Range<usize>,
    reads: usize,
    kinds: Vec<LeafKind>,
    is_ranked: bool,
    cost: u32,
    label: &'static str,
    /// Half of its cells are left to a child, which has versions, too.
    has_child: bool,
    is_undeferred: bool,
    pauses: bool,
}

const CELLS: usize = 24;

fn random_program(seed: u64) -> Vec<Random> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let task = |_| {
        let start = random.random_range(0..CELLS);
        let mut kinds: Vec<LeafKind> =
            [CPU, NEAR, FAR].into_iter().filter(|_| random.random_bool(0.6)).collect();
        if kinds.is_empty() {
            kinds.push(CPU);
        }
        if random.random_bool(0.5) {
            kinds.reverse();
        }
        Random {
            writes: start..random.random_range(start + 1..=CELLS),
            reads: random.random_range(0..CELLS),
            kinds,
            is_ranked: random.random_bool(0.2),
            cost: random.random_range(0..3),
            label: ["a", "b", "c", ""][random.random_range(0..4)],
            has_child: random.random_bool(0.2),
            is_undeferred: random.random_bool(0.05),
            pauses: random.random_bool(0.05),
        }
    };
    (0..150).map(task).collect()
}

/// Creates it, with all its versions or, where there is one only, perhaps as an ordinary task.
fn submit(context: &Context<'_>, number: u64, task: &Random, cells: &'static Cells) {
    let Random { writes, reads, .. } = task;
    let (writes, reads) = (writes.clone(), *reads);
    let (has_child, pauses, label) = (task.has_child, task.pauses, task.label);
    let kinds = task.kinds.clone();
    let body = move |context: &Context<'_>, kind: LeafKind| {
        assert_eq!(place(context), kind);
        assert!(kinds.contains(&kind));
        if pauses {
            context.block_for(Duration::from_micros(200));
        }
        let read = cells.read(reads, &writes);
        let middle = writes.start + writes.len() / 2 * usize::from(has_child);
        if has_child && middle > writes.start {
            let part = writes.start..middle;
            let mut versions = Versions::default();
            kinds.iter().for_each(|&kind| assert!(versions.add(kind, 0)));
            let declared = [cells.declare(&part, false)];
            let attributes = Attributes { label, ..Attributes::NONE };
            // SAFETY: the parent declared it, and leaves it alone until the child is done.
            unsafe {
                context.submit_versions_raw(attributes, versions, &declared, move |context, kind| {
                    assert_eq!(place(context), kind);
                    mix(number, cells.all(part), read);
                });
            }
        }
        mix(number, cells.all(middle..writes.end), read);
    };
    let flags = if task.is_undeferred { castell_tasks::task::flag::UNDEFERRED } else { 0 };
    let mut attributes = Attributes { label, cost: task.cost, flags, ..Attributes::NONE };
    let mut declared = vec![cells.declare(&task.writes, false)];
    if !task.writes.contains(&task.reads) {
        declared.push(cells.declare(&(task.reads..task.reads + 1), true));
    }
    // SAFETY: the bodies touch what is declared, and the cells are leaked.
    unsafe {
        if let ([kind], 0) = (&task.kinds[..], number % 2) {
            attributes.kind = *kind;
            let kind = *kind;
            return context.submit_raw(attributes, &declared, move |context| body(context, kind));
        }
        let mut versions = Versions::default();
        versions.is_ranked = task.is_ranked;
        task.kinds.iter().for_each(|&kind| assert!(versions.add(kind, 0)));
        context.submit_versions_raw(attributes, versions, &declared, body);
    }
}

/// Cells that tasks touch as they declare.
struct Cells(Vec<std::cell::UnsafeCell<u64>>);

// SAFETY: what touches one is ordered by what tasks declare.
unsafe impl Sync for Cells {}

impl Cells {
    fn declare(&self, range: &std::ops::Range<usize>, reads: bool) -> Declaration {
        let kind = if reads { Kind::In } else { Kind::InOut };
        let start = self.0[range.start].get() as usize;
        Declaration { start, length: 8 * range.len(), kind, weak: false, reduction: 0 }
    }

    /// A cell as it was before; 0 where the task writes it itself.
    fn read(&self, cell: usize, writes: &std::ops::Range<usize>) -> u64 {
        // SAFETY: declared.
        if writes.contains(&cell) { 0 } else { unsafe { *self.0[cell].get() } }
    }

    #[allow(clippy::mut_from_ref)]
    fn all(&self, range: std::ops::Range<usize>) -> &mut [u64] {
        // SAFETY: declared, and nobody else's meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.0[range.start].get(), range.len()) }
    }
}

/// The same, in order.
fn oracle(program: &[Random]) -> Vec<u64> {
    let mut cells = vec![0; CELLS];
    for (number, task) in program.iter().enumerate() {
        let writes = &task.writes;
        let read = if writes.contains(&task.reads) { 0 } else { cells[task.reads] };
        let middle = writes.start + writes.len() / 2 * usize::from(task.has_child);
        mix(number as u64, &mut cells[writes.start..middle], read);
        mix(number as u64, &mut cells[middle..writes.end], read);
    }
    cells
}

#[test]
fn random_graphs_give_what_their_order_gives() {
    for seed in 0..60_u64 {
        let scheduler = SCHEDULERS[seed as usize % SCHEDULERS.len()];
        let program = random_program(seed);
        let runtime = runtime(scheduler);
        let cells: &'static Cells = Box::leak(Box::new(Cells((0..CELLS).map(|_| 0.into()).collect())));
        let run = runtime.run(|context| {
            for (number, task) in program.iter().enumerate() {
                submit(context, number as u64, task, cells);
            }
        });
        run.unwrap_or_else(|error| panic!("seed {seed}, {scheduler}: {error}"));
        assert_eq!(cells.all(0..CELLS), oracle(&program), "seed {seed}, {scheduler}");
    }
}
