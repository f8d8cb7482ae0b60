//! Loops of tasks, worksharing loops, and polling services.

use castell_tasks::data::{Data, Sum};
use castell_tasks::{Context, Next, Runtime, Wake};
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn runtime() -> Runtime {
    Runtime::builder().workers(3).build().expect("threads start")
}

#[test]
fn a_taskloop_covers_its_range_once() {
    let (numbers, sum) = runtime()
        .run(|context| {
            let mut numbers = Data::from(vec![0_usize; 1000]);
            let mut sum = Data::new(0_usize);
            context.taskloop(
                0..1000,
                64,
                |part| (numbers.part(part).write(), sum.all().reduce(Sum)),
                |_, part, (mut numbers, mut sum)| {
                    for (index, number) in part.zip(numbers.iter_mut()) {
                        *number += index;
                        *sum += *number;
                    }
                },
            );
            (numbers.get(context).unwrap().to_vec(), *sum.get(context).unwrap())
        })
        .expect("nothing fails");
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    assert_eq!(sum, 499_500);
}

#[test]
fn a_worksharing_loop_is_one_task_to_its_successors() {
    let sum = runtime()
        .run(|context| {
            let numbers = Data::from((0..1000_u64).collect::<Vec<_>>());
            let total = Data::new(AtomicU64::new(0));
            context.task().submit_for_chunks(numbers.write(), 7, |_, start, part| {
                part.iter_mut().enumerate().for_each(|(at, number)| *number += (start + at) as u64);
            });
            let accesses = (numbers.read(), total.all().concurrent());
            context.task().submit_for(0..1000, 10, accesses, |_, part, (numbers, total)| {
                total.fetch_add(part.map(|at| numbers[at]).sum(), Ordering::Relaxed);
            });
            context.spawn(total.read(), |_, total| total.load(Ordering::Relaxed)).wait(context).unwrap()
        })
        .expect("nothing fails");
    assert_eq!(sum, 999_000);
}

#[test]
fn worksharing_loops_reduce() {
    let values: Vec<f32> = (0..10_000_u16).map(|number| 1.0 / f32::from(number + 1)).collect();
    let in_chunks: f32 = values.chunks(16).map(|chunk| chunk.iter().sum::<f32>()).sum();
    let expected: Vec<u64> = (0..4).map(|column| (0..1000).filter(|at| at % 4 == column).sum()).collect();
    let runtime = runtime();
    for _ in 0..20 {
        let values = values.clone();
        let (sum, sums) = runtime
            .run(|context| {
                let values = Data::from(values);
                let (mut sum, mut sums) = (Data::new(0_f32), Data::from(vec![0_u64; 4]));
                let reducing = sum.all().reduce(Sum).in_order();
                context.task().submit_for_reducing(
                    0..10_000,
                    16,
                    values.read(),
                    reducing,
                    |_, part, values, sum| *sum += values[part].iter().sum::<f32>(),
                );
                // Two loops and a task in one group of reductions.
                for half in [0..500, 500..1000] {
                    let reducing = sums.all().reduce(Sum);
                    let body = |_: &Context<'_>, part: Range<usize>, _: &(), sums: &mut [u64]| {
                        part.for_each(|at| sums[at % 4] += at as u64);
                    };
                    context.task().submit_for_reducing(half, 7, (), reducing, body);
                }
                context.submit(sums.all().reduce(Sum), |_, mut sums| sums[0] += 1_000_000);
                (*sum.get(context).unwrap(), sums.get(context).unwrap().to_vec())
            })
            .expect("nothing fails");
        assert_eq!(sum.to_bits(), in_chunks.to_bits(), "the order is that of the iterations");
        assert_eq!((sums[0] - 1_000_000, &sums[1..]), (expected[0], &expected[1..]));
    }
}

#[test]
fn a_failing_iteration_fails_the_loop() {
    let error = runtime().run(|context| {
        context
            .task()
            .label("loop")
            .submit_for(0..100, 1, (), |_, part, ()| assert_ne!(part.start, 50, "half way"));
        context.taskwait().expect_err("one iteration panics")
    });
    assert!(error.expect("taken by the wait").to_string().contains("half way"));
}

#[test]
fn services_are_called_when_their_descriptor_or_interval_says_so() {
    static CALLED: AtomicU64 = AtomicU64::new(0);
    let runtime = runtime();
    let (mut read, mut write) = std::io::pipe().expect("a pipe");
    let wake = Wake::Readable(read.try_clone().expect("a copy").into());
    let pending = std::sync::Arc::new(Mutex::new(None));
    let events = std::sync::Arc::clone(&pending);
    let by_descriptor = runtime
        .register_service(wake, move || {
            // Idle workers call it at any time: only take what has been announced.
            if let Some(event) = events.lock().unwrap().take() {
                read.read_exact(&mut [0]).expect("one byte");
                drop::<castell_tasks::Event>(event);
            }
            Next::Again
        })
        .expect("registered");
    let by_interval = runtime
        .register_service(Wake::Every(Duration::from_millis(2)), || {
            CALLED.fetch_add(1, Ordering::Relaxed);
            Next::Again
        })
        .expect("registered");
    runtime
        .run(|context| {
            let value = Data::new(0);
            context.submit(value.write(), move |context, mut value| {
                *value = 3;
                write.write_all(b"x").expect("written");
                *pending.lock().unwrap() = Some(context.event());
            });
            assert_eq!(context.spawn(value.read(), |_, value| *value).wait(context).unwrap(), 3);
        })
        .expect("nothing fails");
    while CALLED.load(Ordering::Relaxed) < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(by_interval);
    let called = CALLED.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(CALLED.load(Ordering::Relaxed), called);
    drop(by_descriptor);
}
