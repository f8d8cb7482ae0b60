//! The debug mode: who waited for whom, and what was not declared.

use castell_tasks::data::Data;
use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::task::Attributes;
use castell_tasks::{Runtime, TaskError};

#[test]
fn the_journal_says_for_whom_a_task_waited() {
    let runtime = Runtime::builder().workers(2).debug(true).build().expect("threads start");
    runtime
        .run(|context| {
            let numbers = Data::from(vec![0_u64; 8]);
            let (event, events) = std::sync::mpsc::channel();
            context.task().label("writer").submit(numbers.part(0..4).write(), move |context, _| {
                event.send(context.event()).expect("received");
            });
            context.task().label("other").submit(numbers.part(4..8).write(), |_, _| ());
            context.task().label("outer").submit(numbers.all().weak_read(), |context, numbers| {
                context.task().label("reader").submit(numbers.part(3..5).read(), |_, _| ());
            });
            let event = events.recv().expect("sent");
            // The root, the writer, outer, other and the reader.
            while runtime.tasks_created() < 5 {
                std::thread::yield_now();
            }
            event.fulfill();
        })
        .expect("nothing fails");
    let waits = runtime.waits();
    let reader = waits.iter().find(|wait| wait.task.1 == "reader").expect("it waited");
    assert!(reader.over);
    let reason = reader.reasons.iter().find(|reason| reason.task.1 == "writer").expect("for the writer");
    assert_eq!((reason.kinds, reason.length), ((Kind::InOut, Kind::In), 8));
    assert!(reader.to_string().contains("`writer`: inout there, in here, 8 bytes from 0x"), "{reader}");
    assert!(waits.iter().all(|wait| wait.task.1 != "writer"));
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
