//! Tasks are created, wait for each other, are waited for, and fail.

use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::task::Attributes;
use castell_tasks::{Context, Runtime};
use std::sync::atomic::{AtomicU64, Ordering};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("threads start")
}

fn spawn(context: &Context<'_>, body: impl FnOnce(&Context<'_>) + Send + 'static) {
    // SAFETY: it accesses nothing but atomics.
    unsafe { context.submit_raw(Attributes::NONE, &[], body) }
}

#[test]
fn every_task_of_a_tree_runs_once() {
    static RUN: AtomicU64 = AtomicU64::new(0);
    fn tree(context: &Context<'_>, depth: u32) {
        RUN.fetch_add(1, Ordering::Relaxed);
        if depth > 0 {
            for _ in 0..2 {
                spawn(context, move |context| tree(context, depth - 1));
            }
            if depth.is_multiple_of(3) {
                context.taskwait().expect("nothing fails");
            }
        }
    }
    runtime(3).run(|context| tree(context, 12)).expect("nothing fails");
    assert_eq!(RUN.load(Ordering::Relaxed), (1 << 13) - 1);
}

#[test]
fn writers_of_one_place_run_in_order() {
    let mut place = 0_u64;
    let address = std::ptr::from_mut(&mut place) as usize;
    runtime(3)
        .run(|context| {
            for number in 0..1000_u64 {
                let declared =
                    [Declaration { start: address, length: 8, kind: Kind::InOut, weak: false, reduction: 0 }];
                let body = move |_: &Context<'_>| {
                    // SAFETY: declared, and the place outlives the run.
                    let place = unsafe { &mut *(address as *mut u64) };
                    assert_eq!(*place, number);
                    *place += 1;
                };
                // SAFETY: as declared.
                unsafe { context.submit_raw(Attributes::NONE, &declared, body) };
            }
        })
        .expect("in order");
    assert_eq!(place, 1000);
}

#[test]
fn a_panic_reaches_the_wait_and_skips_successors() {
    static RUN: AtomicU64 = AtomicU64::new(0);
    let address = std::ptr::from_ref(&RUN) as usize;
    let declared = [Declaration { start: address, length: 8, kind: Kind::InOut, weak: false, reduction: 0 }];
    let runtime = runtime(2);
    let error = runtime.run(|context| {
        let attributes = Attributes { label: "first", ..Attributes::NONE };
        // SAFETY: it accesses nothing but an atomic.
        unsafe {
            context.submit_raw(attributes, &declared, |_| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                panic!("it went wrong")
            });
            context.submit_raw(Attributes::NONE, &declared, |_| {
                RUN.fetch_add(1, Ordering::Relaxed);
            });
        }
        context.taskwait().expect_err("the first panics")
    });
    let error = error.expect("the wait took the failure");
    assert_eq!(error.to_string(), "task `first` panicked: it went wrong; its successors were skipped");
    assert_eq!(RUN.load(Ordering::Relaxed), 0);
    assert_eq!(runtime.run(|_| 7).expect("still usable"), 7);
}
