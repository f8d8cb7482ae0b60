//! Data handles: what declared accesses give, order and refuse.

use castell_tasks::data::{Data, Held, Max, Reduction, Sum};
use castell_tasks::{Runtime, TaskError};
use std::sync::mpsc;
use std::time::Duration;

fn runtime() -> Runtime {
    Runtime::builder().workers(3).build().expect("threads start")
}

#[test]
fn readers_see_what_writers_before_them_wrote() {
    let seen = runtime().run(|context| {
        let value = Data::new(0_u64);
        let mut readers = Vec::new();
        for round in 0..50_u64 {
            context.submit(value.write(), move |_, mut value| *value = round);
            for _ in 0..3 {
                readers.push((round, context.spawn(value.read(), |_, value| *value)));
            }
        }
        readers.into_iter().map(|(round, reader)| (round, reader.wait(context).unwrap())).collect::<Vec<_>>()
    });
    for (expected, seen) in seen.expect("nothing fails") {
        assert_eq!(expected, seen);
    }
}

#[test]
fn parts_are_lent_to_children_and_reclaimed() {
    let sum = runtime().run(|context| {
        let mut numbers = Data::from(vec![1_u64; 1000]);
        context.submit(numbers.write(), |context, mut all| {
            all[0] = 10;
            let lent = all.lend();
            for part in 0..10 {
                context.submit(lent.part(part * 100..(part + 1) * 100).write(), |_, mut part| {
                    part.iter_mut().for_each(|number| *number *= 2);
                });
            }
            let mut all = lent.reclaim(context).expect("nothing fails");
            assert_eq!(all[0], 20);
            all[0] += 1;
        });
        numbers.get(context).expect("nothing fails").iter().sum::<u64>()
    });
    assert_eq!(sum.expect("nothing fails"), 21 + 999 * 2);
}

#[test]
fn weak_accesses_pass_through_levels() {
    let sum = runtime().run(|context| {
        let mut numbers = Data::from(vec![0_u64; 64]);
        for _ in 0..4 {
            context.submit(numbers.all().weak_write(), |context, all| {
                for half in 0..2 {
                    context.submit(all.part(half * 32..(half + 1) * 32).weak_write(), |context, half| {
                        for one in 0..32 {
                            context.submit(half.part(one..one + 1).write(), |_, mut one| {
                                one[0] = one[0] * 2 + 1
                            });
                        }
                    });
                }
            });
        }
        numbers.get(context).expect("nothing fails").iter().sum::<u64>()
    });
    assert_eq!(sum.expect("nothing fails"), 64 * 15);
}

#[test]
fn data_of_an_unfinished_task_is_refused_to_others() {
    let error = runtime().run(|context| {
        let value = Data::new(1);
        context.submit(value.write(), |_, _| std::thread::sleep(Duration::from_millis(5)));
        // The handle moves into a child, but the value still is its creator's.
        let child = context.task().label("thief").spawn((), move |context, ()| {
            context.submit(value.write(), |_, mut value| *value = 7);
        });
        child.wait(context).expect_err("the child's child is refused")
    });
    let error = error.expect_err("the failure also reaches the end of the run");
    assert!(matches!(&error, TaskError::NotOwner { label } if label == "thief"), "{error}");
}

#[test]
fn a_task_cannot_ask_twice_for_the_same_bytes() {
    let error = runtime().run(|context| {
        let numbers = Data::from(vec![0; 10]);
        let both = (numbers.part(0..6).write(), numbers.part(5..10).read());
        context.task().label("greedy").submit(both, |_, _| panic!("must not run"));
        context.taskwait().expect_err("refused")
    });
    assert!(matches!(error, Ok(TaskError::Overlap { label, .. }) if label == "greedy"));
}

#[test]
fn data_in_flight_delays_the_successor_only() {
    let (sender, receiver) = mpsc::channel::<Held<u64>>();
    let transfer = std::thread::spawn(move || {
        let mut held = receiver.recv().expect("sent");
        std::thread::sleep(Duration::from_millis(10));
        *held = 42;
    });
    let got = runtime().run(|context| {
        let value = Data::new(0);
        context
            .submit(value.write(), move |context, value| sender.send(value.hold(context)).expect("received"));
        context.spawn(value.read(), |_, value| *value).wait(context)
    });
    assert_eq!(got.expect("nothing fails").expect("nothing fails"), 42);
    transfer.join().expect("the transfer ends");
}

#[test]
fn data_can_be_used_by_one_run_after_the_other() {
    let runtime = runtime();
    let mut value = Data::new(1);
    for _ in 0..3 {
        runtime
            .run(|context| context.submit(value.write(), |_, mut value| *value *= 2))
            .expect("nothing fails");
    }
    assert_eq!(*value.get_outside().expect("nobody uses it"), 8);
}

#[test]
fn reductions_combine_private_copies() {
    let (sum, largest, parts) = runtime()
        .run(|context| {
            let mut sum = Data::new(1000_u64);
            let mut largest = Data::new(f64::NEG_INFINITY);
            let mut parts = Data::from(vec![0_u64; 4]);
            for number in 0..100_u64 {
                let accesses = (sum.all().reduce(Sum), largest.all().reduce(Max), parts.all().reduce(Sum));
                context.submit(accesses, move |_, (mut sum, mut largest, mut parts)| {
                    assert_eq!((*sum, parts.len()), (0, 4));
                    *sum += number;
                    *largest = largest.max(number as f64);
                    parts[number as usize % 4] += 1;
                });
            }
            let (sum, largest) = (*sum.get(context).unwrap(), *largest.get(context).unwrap());
            (sum, largest, parts.get(context).unwrap().to_vec())
        })
        .expect("nothing fails");
    assert_eq!((sum, largest, parts), (1000 + 4950, 99.0, vec![25; 4]));
}

/// Not commutative: the order shows.
struct Append;

impl Reduction<String> for Append {
    fn identity(&self) -> String {
        String::new()
    }

    fn combine(&self, into: &mut String, from: &String) {
        into.push_str(from);
    }
}

#[test]
fn reductions_in_order_are_the_same_every_time() {
    let text = runtime()
        .run(|context| {
            let mut text = Data::new(String::from("0"));
            for number in 1..10 {
                context.submit(text.all().reduce(Append).in_order(), move |_, mut text| {
                    std::thread::sleep(Duration::from_millis(10 - number));
                    *text += &number.to_string();
                });
            }
            text.get(context).unwrap().clone()
        })
        .expect("nothing fails");
    assert_eq!(text, "0123456789");
}

#[test]
fn a_cancelled_task_leaves_no_gap_in_the_order() {
    let runtime = Runtime::builder().workers(1).build().expect("threads start");
    let text = runtime
        .run(|context| {
            let mut text = Data::new(String::new());
            let add = |letter: &'static str, cancel: bool| {
                context.submit(text.all().reduce(Append).in_order(), move |context, mut text| {
                    *text += letter;
                    if cancel {
                        context.cancel();
                    }
                });
            };
            add("a", false);
            context.group(|| (0..5).for_each(|_| add("b", true))).expect("no failure");
            add("c", false);
            text.get(context).unwrap().clone()
        })
        .expect("nothing fails");
    assert_eq!(text, "abc");
}
