//! Groups, cancellation, final and undeferred tasks, pauses, events, handles, limits.

use castell_tasks::data::Data;
use castell_tasks::{Context, Limits, Runtime, Stall, TaskError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("threads start")
}

#[test]
fn a_group_waits_for_what_was_created_in_it() {
    let done = Arc::new(AtomicU64::new(0));
    let (sender, events) = mpsc::channel();
    let inside = Arc::clone(&done);
    runtime(3)
        .run(move |context| {
            // Created before the group: the group must not wait for it.
            context.submit((), move |context, ()| sender.send(context.event()).expect("received"));
            let event = events.recv().expect("sent");
            context
                .group(|| {
                    for _ in 0..10 {
                        let done = Arc::clone(&inside);
                        context.submit((), move |context, ()| {
                            context.submit((), move |_, ()| {
                                done.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                })
                .expect("nothing fails");
            assert_eq!(inside.load(Ordering::Relaxed), 10);
            event.fulfill();
        })
        .expect("nothing fails");
}

#[test]
fn a_group_runs_only_its_own_on_the_stack_of_who_waits() {
    let (sender, receiver) = mpsc::channel();
    runtime(1)
        .run(move |context| {
            for _ in 0..3 {
                let sender = sender.clone();
                context.submit((), move |context, ()| {
                    sender.send(context.pausing()).expect("received");
                    context.block(); // until the one below goes on behind its group
                });
            }
            let outside = |context: &Context<'_>, ()| {
                let event = context.event();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    event.fulfill();
                });
            };
            context.group(|| context.submit((), outside)).expect("nothing fails");
            for _ in 0..3 {
                let waker = loop {
                    match receiver.try_recv() {
                        Ok(waker) => break waker,
                        Err(_) => context.block_for(Duration::from_millis(1)),
                    };
                };
                castell_tasks::Waker::unblock(&waker);
            }
        })
        .expect("nothing fails");
}

#[test]
fn cancelling_skips_what_has_not_begun() {
    let ran = Arc::new(AtomicU64::new(0));
    let inside = Arc::clone(&ran);
    let runtime = runtime(1);
    runtime
        .run(move |context| {
            context
                .group(|| {
                    for _ in 0..100 {
                        let ran = Arc::clone(&inside);
                        context.submit((), move |context, ()| {
                            ran.fetch_add(1, Ordering::Relaxed);
                            assert!(context.cancel());
                            assert!(context.is_cancelled());
                        });
                    }
                })
                .expect("cancelling is no failure");
            assert!(!context.is_cancelled());
            assert!(!context.cancel());
        })
        .expect("nothing fails");
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[test]
fn final_and_undeferred_tasks_run_in_place() {
    fn depth_first(context: &Context<'_>, depth: u64, order: &Arc<AtomicU64>) {
        assert!(context.is_final());
        let before = order.fetch_add(1, Ordering::Relaxed);
        if depth > 0 {
            for _ in 0..2 {
                let order = Arc::clone(order);
                context.submit((), move |context, ()| depth_first(context, depth - 1, &order));
            }
        }
        assert_eq!(
            order.load(Ordering::Relaxed) - before,
            (1 << (depth + 1)) - 1,
            "the whole subtree ran inside"
        );
    }
    runtime(2)
        .run(|context| {
            let order = Arc::new(AtomicU64::new(0));
            let inside = Arc::clone(&order);
            let task = context.task().final_if(true).deferred_if(false);
            task.submit((), move |context, ()| depth_first(context, 6, &inside));
            assert_eq!(order.load(Ordering::Relaxed), 127);
        })
        .expect("nothing fails");
}

#[test]
fn an_unblock_that_comes_first_is_kept() {
    runtime(1)
        .run(|context| {
            context.pausing().unblock();
            context.block();
            assert!(!context.block_for(Duration::from_millis(2)), "one unblock ends one pause");
        })
        .expect("nothing fails");
}

#[test]
fn tasks_pause_until_others_wake_them() {
    let woken = runtime(2).run(|context| {
        let (sender, receiver) = mpsc::channel();
        let sleeper = context.spawn((), move |context, ()| {
            sender.send(context.pausing()).expect("received");
            context.block();
            7
        });
        context.submit((), move |_, ()| receiver.recv().expect("sent").unblock());
        sleeper.wait(context)
    });
    assert_eq!(woken.expect("nothing fails").expect("nothing fails"), 7);
}

#[test]
fn handles_give_values_and_errors() {
    let runtime = runtime(2);
    let handle = runtime.spawn(|context| {
        let values: Vec<_> = (0..10_u64).map(|value| context.spawn((), move |_, ()| value)).collect();
        values.into_iter().map(|value| value.wait(context).expect("nothing fails")).sum::<u64>()
    });
    assert_eq!(handle.expect("no fork").join().expect("nothing fails"), 45);
    let failing = runtime.spawn(|context| context.fail("out of luck")).expect("no fork");
    let error = failing.join().expect_err("it says so");
    assert!(matches!(&error, TaskError::Failed { message, .. } if message == "out of luck"), "{error}");
    drop(runtime.spawn(|_| vec![1, 2, 3]).expect("no fork"));
}

#[test]
fn whoever_waits_is_told_whenever_the_body_ends() {
    // Waits that begin to sleep while the body returns: at some length of the body the two meet.
    let runtime = runtime(2);
    for number in 0..20_000_u64 {
        let spins = number % 4000;
        let body = move |_: &Context<'_>| (0..spins).for_each(|_| std::hint::spin_loop());
        runtime.spawn(body).expect("no fork").join().expect("nothing fails");
    }
}

#[test]
fn too_many_tasks_are_an_error_and_the_runtime_stays_usable() {
    let limits = Limits { high: 500, low: 100, hard: 1000 };
    let runtime = Runtime::builder().workers(2).limits(limits).build().expect("threads start");
    let (sender, receiver) = mpsc::channel();
    let error = runtime.run(|context| {
        for _ in 0..5000 {
            let sender = sender.clone();
            // Bodies that end at once, but whose tasks wait for an event.
            context.submit((), move |context, ()| sender.send(context.event()).expect("received"));
            if context.is_final() {
                break;
            }
        }
        let fulfil = std::thread::spawn(move || {
            while let Ok(event) = receiver.recv_timeout(Duration::from_millis(200)) {
                drop::<castell_tasks::Event>(event);
            }
        });
        let error = context.taskwait().expect_err("too many");
        fulfil.join().expect("ends");
        error
    });
    assert!(matches!(error, Ok(TaskError::TooManyTasks { limit: 1000, .. })), "{error:?}");
    assert_eq!(runtime.run(|_| 1).expect("still usable"), 1);
}

#[test]
fn many_tasks_from_one_creator_stay_few_at_a_time() {
    static LIVE_MAX: AtomicU64 = AtomicU64::new(0);
    static CREATED: AtomicU64 = AtomicU64::new(0);
    static RAN: AtomicU64 = AtomicU64::new(0);
    let limits = Limits { high: 1000, low: 500, hard: 1 << 20 };
    let runtime = Runtime::builder().workers(2).limits(limits).build().expect("threads start");
    runtime
        .run(|context| {
            for number in 0..50_000 {
                CREATED.store(number, Ordering::Relaxed);
                context.submit((), |_, ()| {
                    // Read first: between the two reads others may run, which makes this too small, never too large.
                    let created = CREATED.load(Ordering::Acquire);
                    let ran = RAN.fetch_add(1, Ordering::AcqRel);
                    LIVE_MAX.fetch_max(created.saturating_sub(ran), Ordering::Relaxed);
                });
            }
        })
        .expect("nothing fails");
    assert_eq!(RAN.load(Ordering::Relaxed), 50_000);
    // The limit is looked at once in 64 creations.
    assert!(LIVE_MAX.load(Ordering::Relaxed) <= 1000 + 2 * 64, "{LIVE_MAX:?}");
}

#[test]
fn the_watchdog_names_who_is_paused() {
    let (sender, reports) = mpsc::channel::<Stall>();
    let runtime = Runtime::builder()
        .workers(2)
        .watchdog(Duration::from_millis(20), move |stall| sender.send(stall.clone()).expect("received"))
        .build()
        .expect("threads start");
    let (tell, told) = mpsc::channel();
    let handle = runtime.spawn(move |context| {
        let (one, two) = (Data::new(0), Data::new(0));
        context.task().label("sleepy").submit((one.write(), two.write()), move |context, _| {
            tell.send(context.pausing()).expect("received");
            context.block();
        });
        context.task().label("behind").submit((one.read(), two.read()), |_, _| ());
        context.task().label("beside").submit(one.read(), |_, _| ());
        context.task().label("far behind").submit(two.write(), |_, _| ());
    });
    let stall = reports.recv_timeout(Duration::from_secs(30)).expect("it barks");
    assert_eq!(stall.waiting.len(), 1);
    assert_eq!(stall.waiting[0].label, "sleepy");
    assert!(stall.to_string().contains("task `sleepy` is paused"), "{stall}");
    let mut held_up = stall.waiting[0].held_up.clone();
    held_up.sort_unstable();
    assert_eq!(held_up, ["behind", "beside"]);
    assert!(stall.to_string().contains("s; for its data wait 2: `be"), "{stall}");
    told.recv().expect("told").unblock();
    handle.expect("no fork").join().expect("nothing fails");
}
