//! Workers are taken away and given back, threads block and others take over, and an idle runtime uses no CPU.

use castell_tasks::task::Attributes;
use castell_tasks::workers::WorkerId;
use castell_tasks::{Context, Runtime, TaskError};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SCHEDULERS: [&str; 5] = ["tree", "tree:fifo,pull=off", "tree:priority", "central", "delegation"];

fn runtime(workers: usize, scheduler: &str) -> Runtime {
    Runtime::builder().workers(workers).scheduler(scheduler).build().expect("threads start")
}

fn spawn(context: &Context<'_>, body: impl FnOnce(&Context<'_>) + Send + 'static) {
    // SAFETY: it accesses nothing but atomics.
    unsafe { context.submit_raw(Attributes::NONE, &[], body) }
}

fn tree(context: &Context<'_>, depth: u32, run: &'static AtomicU64) {
    run.fetch_add(1, Ordering::Relaxed);
    if depth > 0 {
        for _ in 0..2 {
            spawn(context, move |context| tree(context, depth - 1, run));
        }
        if depth.is_multiple_of(4) {
            context.taskwait().expect("nothing fails");
        }
    }
}

/// Each creates the next one and ends, but for every thousandth: that one goes on until another has begun.
fn line(context: &Context<'_>, left: u64, begun: &'static AtomicU64) {
    begun.fetch_add(1, Ordering::Relaxed);
    if left > 0 {
        let before = begun.load(Ordering::Relaxed);
        spawn(context, move |context| line(context, left - 1, begun));
        if left.is_multiple_of(1000) {
            wait_until("what a body creates is run while it goes on", || {
                before < begun.load(Ordering::Relaxed)
            });
        }
    }
}

fn counter() -> &'static AtomicU64 {
    Box::leak(Box::new(AtomicU64::new(0)))
}

/// Waits until `holds`, for a minute at most.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_scheduler_runs_every_task() {
    for scheduler in SCHEDULERS {
        for workers in [1, 2, 5] {
            let run = counter();
            let runtime = runtime(workers, scheduler);
            runtime.run(|context| tree(context, 11, run)).expect("nothing fails");
            assert_eq!(run.load(Ordering::Relaxed), (1 << 12) - 1, "{scheduler} {workers}");
        }
    }
}

/// With more workers than processors, those that are idle sleep: who goes on for long after it has created a task is not to keep it. Under the
/// paper's rules (`pull=off`) it may.
#[test]
fn a_task_that_is_alone_does_not_wait_for_its_creator() {
    for scheduler in ["tree", "tree:fifo", "tree:priority", "central", "delegation"] {
        for workers in [2, 9] {
            let begun = counter();
            let runtime = runtime(workers, scheduler);
            runtime.run(|context| line(context, 50_500, begun)).expect("nothing fails");
            assert_eq!(begun.load(Ordering::Relaxed), 50_501, "{scheduler} {workers}");
        }
    }
}

#[test]
fn workers_come_and_go_while_tasks_run() {
    let seed = 5;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for scheduler in SCHEDULERS {
        let (run, over) = (counter(), &AtomicBool::new(false));
        let runtime = &runtime(4, scheduler);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..8 {
                    runtime.run(|context| tree(context, 10, run)).expect("nothing fails");
                }
                over.store(true, Ordering::Release);
            });
            while !over.load(Ordering::Acquire) {
                let worker = WorkerId(random.random_range(0..4));
                match random.random_range(0..2) {
                    0 => match runtime.disable_worker(worker) {
                        Ok(()) | Err(TaskError::LastWorker { .. }) => {}
                        Err(error) => panic!("seed {seed}: {error}"),
                    },
                    _ => runtime.enable_worker(worker).expect("a thread"),
                }
                std::thread::sleep(Duration::from_micros(random.random_range(0..300)));
            }
        });
        assert_eq!(run.load(Ordering::Relaxed), 8 * ((1 << 11) - 1), "{scheduler}, seed {seed}");
    }
}

#[test]
fn the_last_worker_stays() {
    let runtime = runtime(2, "tree");
    runtime.disable_worker(WorkerId(1)).expect("another one stays");
    let error = runtime.disable_worker(WorkerId(0)).expect_err("the last").to_string();
    assert!(error.contains("worker 0 is the last"), "{error}");
    let error = runtime.disable_worker(WorkerId(7)).expect_err("no such worker").to_string();
    assert!(error.contains("no worker 7") && error.contains("has 2"), "{error}");
    wait_until("its thread gives it up", || !runtime.workers()[1].held);
    assert_eq!(runtime.run(|_| 7).expect("runs on the other"), 7);
    runtime.enable_worker(WorkerId(1)).expect("a thread");
    wait_until("a thread holds it", || runtime.workers()[1].held);
}

#[test]
fn a_waiting_task_moves_to_another_worker() {
    let runtime = &runtime(2, "tree");
    let (inside, finish) = (&AtomicBool::new(false), &*Box::leak(Box::new(AtomicBool::new(false))));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            runtime.run(|context| {
                spawn(context, |_| {
                    while !finish.load(Ordering::Acquire) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                inside.store(true, Ordering::Release);
                context.taskwait().expect("nothing fails");
            })
        });
        wait_until("the task begins", || inside.load(Ordering::Acquire));
        // Wherever the waiter is: each worker goes and comes back once.
        for worker in [WorkerId(0), WorkerId(1)] {
            runtime.disable_worker(worker).expect("the other one stays");
            std::thread::sleep(Duration::from_millis(5));
            runtime.enable_worker(worker).expect("a thread");
        }
        finish.store(true, Ordering::Release);
        waiter.join().expect("the thread ends").expect("nothing fails");
    });
}

#[test]
fn blocked_tasks_leave_their_workers_to_others() {
    // As many tasks block as there are workers; what wakes them is a task, too.
    let run = counter();
    runtime(2, "tree")
        .run(|context| {
            let wakers = std::sync::mpsc::channel();
            let sender = wakers.0;
            for _ in 0..4 {
                let sender = sender.clone();
                spawn(context, move |context| {
                    sender.send(context.pausing()).expect("somebody listens");
                    context.block();
                    run.fetch_add(1, Ordering::Relaxed);
                });
            }
            let receiver = wakers.1;
            spawn(context, move |_| {
                for waker in receiver.iter().take(4) {
                    waker.unblock();
                }
            });
            drop(sender);
        })
        .expect("nothing fails");
    assert_eq!(run.load(Ordering::Relaxed), 4);
}

/// A thread that gives up a worker just when it is taken away, and another that gets the same one back at once.
#[test]
fn workers_that_are_given_back_at_once_have_one_thread_each() {
    let (runtime, over) = (runtime(3, "tree"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for worker in 0..3 {
                    runtime.disable_worker(WorkerId(worker)).expect("not the last");
                    runtime.enable_worker(WorkerId(worker)).expect("it exists");
                }
            }
        });
        for _ in 0..100 {
            let pausing = |context: &Context<'_>| {
                for _ in 0..20 {
                    spawn(context, |context| _ = context.block_for(Duration::from_micros(1)));
                }
            };
            runtime.run(pausing).expect("nothing fails");
        }
        over.store(true, Ordering::Relaxed);
    });
    // A worker with two threads sleeps for ever: nobody finds it where idle workers wait.
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(runtime);
        ended.send(()).expect("received, or the test has failed");
    });
    end.recv_timeout(Duration::from_secs(60)).expect("every thread ends");
}

#[test]
fn several_runtimes_in_one_process() {
    let run = counter();
    let runtimes = [runtime(2, "tree"), runtime(2, "central"), runtime(1, "delegation")];
    std::thread::scope(|scope| {
        for runtime in &runtimes {
            scope.spawn(move || runtime.run(|context| tree(context, 9, run)).expect("nothing fails"));
        }
    });
    assert_eq!(run.load(Ordering::Relaxed), 3 * ((1 << 10) - 1));
}
