//! What a waiting task runs on its stack never keeps it from going on: tasks that pause until their creator has gone on are
//! run elsewhere, whatever it waits for.

use castell_tasks::data::Data;
use castell_tasks::{Context, Event, Limits, Runtime, Waker};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// One worker: whatever is run on a stack by mistake has nobody else to run it.
fn run(body: impl Fn(&Context<'_>) + Send + Sync) {
    for scheduler in ["tree", "tree:lifo", "central", "delegation"] {
        println!("{scheduler}");
        let limits = Limits { high: 200, low: 100, hard: 1 << 20 };
        let builder = Runtime::builder().workers(1).scheduler(scheduler).limits(limits);
        builder.build().expect("threads start").run(&body).expect("nothing fails");
    }
}

/// A body that pauses until its creator goes on.
fn pause(sender: &Sender<Waker>) -> impl FnOnce(&Context<'_>, ()) + Send + 'static {
    let sender = sender.clone();
    move |context, ()| {
        sender.send(context.pausing()).expect("received");
        context.block();
    }
}

/// Pauses until something comes.
fn receive<T>(context: &Context<'_>, receiver: &Receiver<T>) -> T {
    loop {
        match receiver.try_recv() {
            Ok(value) => return value,
            Err(_) => drop(context.block_for(Duration::from_millis(1))),
        }
    }
}

/// Lets a task's event happen in a moment, from outside.
fn later(context: &Context<'_>) {
    let event = context.event();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        event.fulfill();
    });
}

#[test]
fn who_waits_for_a_handle_runs_that_task_and_no_other() {
    run(|context| {
        let (sender, receiver) = mpsc::channel();
        let awaited = context.spawn((), |context, ()| {
            context.submit((), |_, ()| ());
            later(context);
            7
        });
        (0..3).for_each(|_| context.submit((), pause(&sender)));
        assert_eq!(awaited.wait(context).expect("nothing fails"), 7);
        (0..3).for_each(|_| receive(context, &receiver).unblock());
    });
}

#[test]
fn who_waits_for_data_runs_nothing_that_waits_for_it() {
    run(|context| {
        let (sender, receiver) = mpsc::channel();
        let mut number = Data::new(0);
        context.submit(number.write(), |context, mut number| {
            *number = 8;
            later(context);
        });
        (0..3).for_each(|_| context.submit((), pause(&sender)));
        assert_eq!(*number.get(context).expect("nothing fails"), 8);
        (0..3).for_each(|_| receive(context, &receiver).unblock());
    });
}

#[test]
fn a_released_part_lets_go_who_waits_for_it_although_the_task_goes_on() {
    run(|context| {
        let (sender, receiver) = mpsc::channel();
        let mut number = Data::new(0);
        // From the first pause on, nothing that might pause is run on the stack of who waits for data.
        context.block_for(Duration::from_micros(1));
        context.submit(number.write(), move |context, mut number| {
            *number = 9;
            number.release(context);
            pause(&sender)(context, ());
        });
        assert_eq!(*number.get(context).expect("nothing fails"), 9);
        receive(context, &receiver).unblock();
    });
}

/// Two tasks that take turns; the first has to wait for something that happens in the body of the second, and so gets its
/// turn from that one, on the same thread.
fn turns(context: &Context<'_>, second: impl FnOnce(&Data<u64>, Event)) {
    let (sender, receiver) = mpsc::channel();
    let (events, event) = mpsc::channel();
    let (mut turn, mut held) = (Data::new(0_u64), Data::new(0_u64));
    context.submit(held.write(), move |context, _| events.send(context.event()).expect("received"));
    let first = pause(&sender);
    context.submit((turn.all().commutative(), held.read()), move |context, _| first(context, ()));
    second(&turn, receive(context, &event));
    receive(context, &receiver).unblock();
    context.taskwait().expect("nothing fails");
    assert_eq!((*turn.get(context).expect("free"), *held.get(context).expect("free")), (0, 0));
}

#[test]
fn what_an_undeferred_task_lets_go_is_not_run_in_its_place() {
    run(|context| {
        turns(context, |turn, event| {
            let task = context.task().deferred_if(false);
            task.submit(turn.all().commutative(), move |_, _| event.fulfill());
        });
    });
}

#[test]
fn what_a_group_lets_go_is_not_run_in_the_group() {
    run(|context| {
        turns(context, |turn, event| {
            let submit = || context.submit(turn.all().commutative(), move |_, _| event.fulfill());
            context.group(submit).expect("nothing fails");
        });
    });
}

#[test]
fn who_created_too_many_lets_others_run_them_once_tasks_pause() {
    run(|context| {
        let (sender, receiver) = mpsc::channel();
        context.block_for(Duration::from_micros(1));
        (0..1000).for_each(|number| match number % 8 {
            0 => context.submit((), pause(&sender)),
            _ => context.submit((), |_, ()| ()),
        });
        (0..125).for_each(|_| receive(context, &receiver).unblock());
    });
}
