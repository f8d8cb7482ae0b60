//! What the clauses of a task promise: release, wait, early release, waits for data, priority, labels, operators of reductions.

use castell_tasks::data::{And, Data, Max, Min, Or, Product, Sum, Xor};
use castell_tasks::{Context, Runtime, Waker};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Long enough that it ends only where something is wrong.
const NEVER: Duration = Duration::from_secs(60);

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("threads start")
}

#[test]
fn what_is_released_goes_on_before_the_body_ends() {
    runtime(2)
        .run(|context| {
            let numbers = Data::from(vec![0; 8]);
            let (sender, receiver) = mpsc::channel::<Waker>();
            context.submit(numbers.write(), move |context, numbers| {
                let (mut first, mut second) = numbers.split_at(4);
                (first[0], second[0]) = (1, 1);
                first.release(context);
                sender.send(context.pausing()).expect("received");
                assert!(context.block_for(NEVER), "the successor runs");
                second[0] = 2;
            });
            context.submit(numbers.part(0..4).read(), move |_, first| {
                assert_eq!(first[0], 1);
                receiver.recv().expect("sent").unblock();
            });
            context.submit(numbers.part(4..8).read(), |_, second| assert_eq!(second[0], 2));
        })
        .expect("nothing fails");
}

/// A task that passes half of its data on to a child, and who comes behind both.
fn parent_and_successors(context: &Context<'_>, waits: bool) {
    let (value, other) = (Data::new(0), Data::new(0));
    let parent = context.task().label("parent");
    let parent = if waits { parent.wait() } else { parent };
    parent.submit((value.write(), other.write()), |context, (mut value, other)| {
        *value = 1;
        let other = other.lend();
        context.submit(other.all().write(), |_, mut other| {
            std::thread::sleep(Duration::from_millis(20));
            *other = 1;
        });
    });
    context.submit(value.read(), |_, value| assert_eq!(*value, 1));
    context.submit(other.read(), |_, other| assert_eq!(*other, 1, "the child's data goes on with the child"));
}

#[test]
fn a_task_with_wait_keeps_everything_until_its_descendants_are_done() {
    runtime(2)
        .run(|context| {
            let done = Arc::new(AtomicBool::new(false));
            let value = Data::new(0);
            let by_child = Arc::clone(&done);
            context.task().wait().submit(value.write(), move |context, _| {
                context.submit((), move |_, ()| {
                    std::thread::sleep(Duration::from_millis(20));
                    by_child.store(true, Ordering::Release);
                });
            });
            context.submit(value.read(), move |_, _| assert!(done.load(Ordering::Acquire)));
            parent_and_successors(context, true);
        })
        .expect("nothing fails");
}

#[test]
fn without_it_what_no_child_uses_goes_on_when_the_body_ends() {
    runtime(2)
        .run(|context| {
            let value = Data::new(0);
            let (sender, receiver) = mpsc::channel::<Waker>();
            context.submit(value.write(), move |context, _| {
                context.submit((), move |context, ()| {
                    sender.send(context.pausing()).expect("received");
                    assert!(context.block_for(NEVER), "the parent's successor runs");
                });
            });
            context.submit(value.read(), move |_, _| receiver.recv().expect("sent").unblock());
            parent_and_successors(context, false);
        })
        .expect("nothing fails");
}

#[test]
fn a_wait_for_data_leaves_other_children_alone() {
    runtime(2)
        .run(|context| {
            let (mut wanted, other) = (Data::new(0), Data::new(0));
            let (sender, receiver) = mpsc::channel();
            context.submit(other.write(), move |context, _| sender.send(context.event()).expect("received"));
            context.submit(wanted.write(), |_, mut wanted| *wanted = 5);
            assert_eq!(*wanted.get(context).expect("nothing fails"), 5);
            receiver.recv_timeout(NEVER).expect("sent").fulfill();
        })
        .expect("nothing fails");
}

#[test]
fn larger_priorities_run_first_where_the_policy_looks_at_them() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let runtime = Runtime::builder().workers(1).scheduler("central").build().expect("threads start");
    let inside = Arc::clone(&order);
    runtime
        .run(move |context| {
            for priority in [1, 3, -1, 2] {
                let order = Arc::clone(&inside);
                context.task().priority(priority).label("ranked").cost(7).submit((), move |context, ()| {
                    assert_eq!(context.label(), "ranked");
                    order.lock().expect("no panic").push(priority);
                });
            }
        })
        .expect("nothing fails");
    assert_eq!(*order.lock().expect("no panic"), [3, 2, 1, -1]);
}

#[test]
fn every_operator_of_reductions() {
    fn reduced<T, O>(context: &Context<'_>, start: T, operation: fn() -> O, step: fn(&mut T, i32)) -> T
    where
        T: Copy + Send + Sync + 'static,
        O: castell_tasks::data::Reduction<T>,
    {
        let mut value = Data::new(start);
        for number in 1..=6 {
            context.submit(value.all().reduce(operation()), move |_, mut value| step(&mut value, number));
        }
        *value.get(context).expect("nothing fails")
    }
    runtime(2)
        .run(|context| {
            assert_eq!(reduced(context, 100, || Sum, |sum, number| *sum += number), 121);
            assert_eq!(reduced(context, 2, || Product, |product, number| *product *= number), 1440);
            assert_eq!(reduced(context, 4, || Min, |least, number| *least = number.min(*least)), 1);
            assert_eq!(reduced(context, 4, || Max, |most, number| *most = number.max(*most)), 6);
            assert_eq!(reduced(context, 0xff, || And, |bits, number| *bits &= !(1 << number)), 0x81);
            assert_eq!(reduced(context, 0, || Or, |bits, number| *bits |= 1 << number), 0x7e);
            assert_eq!(reduced(context, 1, || Xor, |bits, number| *bits ^= number), 1 ^ 7);
            assert_eq!(
                reduced(context, 0.5, || Sum, |sum: &mut f64, number| *sum += f64::from(number)),
                21.5
            );
            assert!(reduced(context, false, || Or, |any, number| *any |= number == 3));
        })
        .expect("nothing fails");
}
