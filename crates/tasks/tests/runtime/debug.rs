//! The debug mode: who waited for whom, and what was not declared.

use castell_tasks::data::{Data, Write};
use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::task::Attributes;
use castell_tasks::{Context, Limits, Runtime, TaskError};

#[test]
fn the_journal_says_for_whom_a_task_waited() {
    let runtime = Runtime::builder().workers(2).debug(true).build().expect("threads start");
    runtime
        .run(|context| {
            let numbers = Data::from(vec![0_u64; 8]);
            let (event, events) = std::sync::mpsc::channel();
            let (submitted, reader) = std::sync::mpsc::channel();
            context.task().label("writer").submit(numbers.part(0..4).write(), move |context, _| {
                event.send(context.event()).expect("received");
            });
            context.task().label("other").submit(numbers.part(4..8).write(), |_, _| ());
            context.task().label("outer").submit(numbers.all().weak_read(), move |context, numbers| {
                context.task().label("reader").submit(numbers.part(3..5).read(), |_, _| ());
                submitted.send(()).expect("received");
            });
            let event = events.recv().expect("sent");
            reader.recv().expect("the reader is there, and waits");
            event.fulfill();
        })
        .expect("nothing fails");
    let waits = runtime.waits();
    let reader = waits.iter().find(|wait| wait.task.1 == "reader").expect("it waited");
    assert!(reader.over);
    let reason = reader.reasons.iter().find(|reason| reason.task.1 == "writer").expect("for the writer");
    assert_eq!((reason.kinds, reason.length), ((Kind::InOut, Kind::In), 8));
    assert!(reader.to_string().contains("`writer`: inout there, in here, 8 bytes from 0x"), "{reader}");
    // At most for a worker.
    assert!(waits.iter().all(|wait| wait.task.1 != "writer" || wait.reasons.is_empty()));
}

#[test]
fn undeclared_accesses_are_found_where_they_can_be_seen() {
    let runtime = Runtime::builder().workers(1).debug(true).build().expect("threads start");
    let bytes = [0_u8; 64];
    let start = bytes.as_ptr() as usize;
    let access = move |from: usize, length, kind| Declaration {
        start: start + from,
        length,
        kind,
        weak: false,
        reduction: 0,
    };
    let error = runtime.run(move |context| {
        let label = |label| Attributes { label, ..Attributes::NONE };
        let declared = [access(0, 16, Kind::In), access(16, 16, Kind::InOut)];
        // SAFETY: no body touches the bytes.
        unsafe {
            context.submit_raw(label("parent"), &declared, move |context| {
                context.check_access(&access(8, 24, Kind::In)).expect("declared in two pieces");
                let error =
                    context.check_access(&access(8, 24, Kind::Out)).expect_err("the first half is read only");
                assert!(
                    matches!(error, TaskError::Undeclared { start: at, .. } if at == start + 8),
                    "{error}"
                );
                context
                    .submit_raw(label("child"), &[access(24, 16, Kind::InOut)], |_| panic!("must not run"));
            });
        }
        context.taskwait().expect_err("the parent passed on what it has not")
    });
    let error = error.expect("taken by the wait");
    assert!(matches!(&error, TaskError::Undeclared { label, length: 8, .. } if label == "parent"), "{error}");
}

#[test]
fn the_journal_knows_of_turns_workers_and_limits() {
    let limits = Limits { high: 200, low: 100, hard: 1 << 20 };
    let runtime = Runtime::builder().workers(2).debug(true).limits(limits).build().expect("threads start");
    runtime
        .run(|context| {
            let shared = Data::new(0_u64);
            let (waker, wakers) = std::sync::mpsc::channel();
            let pauses = move |context: &Context<'_>, _: Write<'_, u64>| {
                waker.send(context.pausing()).expect("received");
                context.block();
            };
            context.task().label("holder").submit(shared.all().commutative(), pauses);
            let waker = wakers.recv().expect("sent");
            context.task().label("turn").submit(shared.all().commutative(), |_, _| ());
            // All of them exist until the holder goes on.
            for _ in 0..300 {
                context.submit(shared.read(), |_, _| ());
            }
            waker.unblock();
            context.taskwait().expect("nothing fails");
        })
        .expect("nothing fails");
    let waits = runtime.waits();
    let named = |label| waits.iter().find(|wait| wait.task.1 == label);
    let turn = named("turn").expect("it waited");
    let reason = &turn.reasons[0];
    assert_eq!((reason.task.1.as_str(), reason.kinds), ("holder", (Kind::Commutative, Kind::Commutative)));
    assert!(turn.to_string().contains("`holder`, whose turn it was"), "{turn}");
    assert!(turn.for_worker <= turn.time);
    assert!(named("holder").is_none_or(|wait| wait.reasons.is_empty()));
    let creator = waits.iter().find(|wait| !wait.for_room.is_zero()).expect("the root was held up");
    assert_eq!(creator.task.0, 1);
    assert!(creator.to_string().contains("too many tasks existed"), "{creator}");
}
