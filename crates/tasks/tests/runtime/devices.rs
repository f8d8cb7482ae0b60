//! Tasks for devices run on the device's worker and nowhere else, between tasks on the processors.

use castell_tasks::data::Data;
use castell_tasks::workers::WorkerId;
use castell_tasks::{Context, LeafKind, Runtime, TaskError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SCHEDULERS: [&str; 5] = ["tree", "tree:fifo,pull=off", "tree:priority", "central", "delegation"];
const NEAR: LeafKind = LeafKind(1);
const FAR: LeafKind = LeafKind(7);

/// Stands for a device: counts what was run with it.
#[derive(Default)]
struct Counter(AtomicU64);

fn runtime(scheduler: &str) -> Runtime {
    let builder = Runtime::builder().workers(2).scheduler(scheduler);
    let builder = builder.device(NEAR, Counter::default()).device(FAR, Counter::default());
    builder.device(NEAR, Counter::default()).build().expect("threads start")
}

fn count(context: &Context<'_>) -> u64 {
    context.device::<Counter>().expect("on a device's worker").0.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn devices_and_processors_take_turns() {
    for scheduler in SCHEDULERS {
        let runtime = runtime(scheduler);
        let values = runtime.run(|context| {
            let mut values = Data::from(vec![0_u64; 8]);
            for step in 0..30_u64 {
                for block in 0..8 {
                    let kind = [LeafKind::CPU, NEAR, FAR][(step as usize + block) % 3];
                    let task = context.task().on(kind);
                    task.submit(values.part(block..block + 1).write(), move |context, mut value| {
                        assert_eq!(context.device::<Counter>().is_some(), kind != LeafKind::CPU);
                        if kind != LeafKind::CPU {
                            count(context);
                        }
                        value[0] = value[0] * 3 + step;
                    });
                }
            }
            values.get(context).expect("nothing fails").to_vec()
        });
        let expected = (0..30).fold(0_u64, |value, step| value * 3 + step);
        assert_eq!(values.expect("nothing fails"), [expected; 8], "{scheduler}");
        let kinds: Vec<u8> = runtime.workers().iter().map(|status| status.kind.0).collect();
        assert_eq!(kinds, [0, 0, 1, 7, 1]);
    }
}

#[test]
fn children_waits_loops_and_pauses_keep_to_their_kind() {
    for scheduler in SCHEDULERS {
        let runtime = runtime(scheduler);
        let run = runtime.run(|context| {
            let ran: &'static AtomicU64 = Box::leak(Box::default());
            for _ in 0..4 {
                context.task().on(FAR).submit((), move |context, ()| {
                    count(context);
                    for kind in [LeafKind::CPU, NEAR, FAR] {
                        let child = context.task().on(kind);
                        child.submit((), move |context, ()| {
                            assert_eq!(context.device::<Counter>().is_some(), kind != LeafKind::CPU);
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                    // In place where that can be, and waited for where it cannot.
                    for kind in [LeafKind::CPU, FAR] {
                        context.task().on(kind).deferred_if(false).submit((), move |context, ()| {
                            assert_eq!(context.device::<Counter>().is_some(), kind != LeafKind::CPU);
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                    context.taskwait().expect("nothing fails");
                    context.block_for(Duration::from_millis(1));
                    count(context);
                    ran.fetch_add(1, Ordering::Relaxed);
                });
            }
            context.task().on(NEAR).submit_for(0..100, 7, (), move |context, range, ()| {
                count(context);
                ran.fetch_add(range.len() as u64, Ordering::Relaxed);
            });
            context.taskwait().expect("nothing fails");
            ran.load(Ordering::Relaxed)
        });
        assert_eq!(run.expect("nothing fails"), 4 * 6 + 100, "{scheduler}");
    }
}

#[test]
fn a_task_that_nobody_can_run_fails() {
    let runtime =
        Runtime::builder().workers(1).device(NEAR, Counter::default()).build().expect("threads start");
    let error = runtime.run(|context| {
        context.task().label("lost").on(FAR).submit((), |_, ()| panic!("nobody runs it"));
        context.taskwait().expect_err("no such device").to_string()
    });
    let error = error.expect("seen");
    assert!(error.contains("`lost` was not created") && error.contains("kind 7"), "{error}");
    for kind in [LeafKind::CPU, LeafKind(8)] {
        let refused = Runtime::builder().workers(1).device(kind, Counter::default()).build();
        let Err(error) = refused else { panic!("{kind:?} is no device's") };
        assert!(error.to_string().contains("from 1 to 7"), "{error}");
    }
}

#[test]
fn a_device_can_be_taken_away_unless_it_is_the_last_of_its_kind() {
    let runtime = runtime("tree");
    let workers = runtime.workers();
    assert_eq!(workers.len(), 5);
    assert!(matches!(runtime.disable_worker(WorkerId(3)), Err(TaskError::LastWorker { worker: 3 })));
    runtime.disable_worker(WorkerId(2)).expect("there is another one");
    let sum = runtime.run(|context| {
        let handles: Vec<_> = (0..50_u64)
            .map(|number| {
                context.task().on(NEAR).spawn((), move |context, ()| {
                    count(context);
                    number
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.wait(context).expect("nothing fails")).sum::<u64>()
    });
    assert_eq!(sum.expect("nothing fails"), 49 * 50 / 2);
    runtime.enable_worker(WorkerId(2)).expect("a thread");
    runtime.disable_worker(WorkerId(4)).expect("there is another one");
}
