//! Memory whose users are judged: what a body touches there without having declared it fails its task, to the byte.

use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::task::Attributes;
use castell_tasks::{Context, Runtime, TaskError, WatchedMemory};
use std::process::Command;

/// Some of the memory, on its way to a body.
#[derive(Clone, Copy)]
struct At(usize);

impl At {
    fn read(self) -> u64 {
        // SAFETY: the memory outlives the runs; who may read it is what is tested.
        unsafe { std::ptr::read_volatile(self.0 as *const u64) }
    }

    fn look(self) {
        self.read();
    }

    fn write(self, value: u64) {
        // SAFETY: as above.
        unsafe { std::ptr::write_volatile(self.0 as *mut u64, value) };
    }

    fn plus(self, bytes: usize) -> At {
        At(self.0 + bytes)
    }

    fn declared(self, length: usize, kind: Kind) -> Declaration {
        Declaration { start: self.0, length, kind, weak: false, reduction: 0 }
    }
}

fn submit(
    context: &Context<'_>,
    label: &'static str,
    declared: &[Declaration],
    body: impl FnOnce(&Context<'_>) + Send + 'static,
) {
    // SAFETY: the memory outlives the runs; a body that touches what it did not declare does so while nobody else runs.
    unsafe { context.submit_raw(Attributes { label, ..Attributes::NONE }, declared, body) };
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).debug(true).build().expect("threads start")
}

/// What the wait for one task with these declarations says.
fn touches(declared: &[Declaration], body: impl FnOnce() + Send + 'static) -> Result<(), TaskError> {
    let result = runtime(1).run(|context| {
        submit(context, "toucher", declared, move |_| body());
        context.taskwait()
    });
    result.expect("taken by the wait")
}

fn found(result: Result<(), TaskError>, at: At, expected: bool) {
    match result {
        Err(TaskError::Touched { label, writes, address, .. }) => {
            assert_eq!((label.as_str(), writes, address), ("toucher", expected, at.0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_not_declared_is_found_to_the_byte() {
    let memory = WatchedMemory::new(3 * 4096).expect("mapped");
    let start = At(memory.start().as_ptr() as usize);
    start.write(7);
    let page = start.declared(4096, Kind::InOut);
    touches(&[page], move || start.plus(64).write(start.read())).expect("declared");
    assert_eq!(start.plus(64).read(), 7);
    found(touches(&[page], move || start.plus(4096).write(1)), start.plus(4096), true);
    assert_eq!(start.plus(4096).read(), 1, "the body goes on");
    // Parts of a page.
    let part = start.plus(128).declared(64, Kind::Out);
    touches(&[part], move || start.plus(184).write(2)).expect("declared");
    found(touches(&[part], move || start.plus(192).write(2)), start.plus(192), true);
    found(touches(&[part], move || start.plus(120).look()), start.plus(120), false);
    // Reading only.
    let read = start.declared(2 * 4096, Kind::In);
    touches(&[read], move || start.plus(4096).look()).expect("declared");
    let reads_then_writes = move || {
        start.plus(8).read();
        start.plus(4104).write(3);
        start.plus(16).read();
    };
    found(touches(&[read], reads_then_writes), start.plus(4104), true);
    // Weak accesses are for children.
    let weak = Declaration { weak: true, ..page };
    let error = touches(&[weak], move || start.look()).expect_err("weak");
    let said = error.to_string();
    assert!(said.contains("`toucher` read 0x") && said.contains("weak inout [0x"), "{said}");
    found(touches(&[], move || start.write(1)), start, true);
}

#[test]
fn tasks_that_declare_what_they_touch_are_left_alone() {
    const TASKS: usize = 40;
    let memory = WatchedMemory::new(TASKS * 6000).expect("mapped");
    let start = At(memory.start().as_ptr() as usize);
    let workers = if castell_host::watched::has_keys() { 3 } else { 1 };
    runtime(workers)
        .run(|context| {
            for round in 0..3_u64 {
                for task in 0..TASKS {
                    // Neighbours share pages.
                    let own = start.plus(task * 6000);
                    submit(context, "writer", &[own.declared(6000, Kind::InOut)], move |context| {
                        own.write(own.read() + 1);
                        let last = own.plus(5992);
                        submit(context, "child", &[last.declared(8, Kind::InOut)], move |_| {
                            last.write(last.read() + 2);
                        });
                        context.taskwait().expect("declared");
                        assert_eq!(last.read(), 2 * (round + 1));
                    });
                }
                let all = start.declared(TASKS * 6000, Kind::In);
                for _ in 0..3 {
                    submit(context, "reader", &[all], move |context| {
                        let body = |_: &Context<'_>, part: std::ops::Range<usize>| {
                            for task in part {
                                assert_eq!(start.plus(task * 6000).read(), round + 1);
                            }
                        };
                        context.share_loop(0..TASKS, 10, &body);
                    });
                }
            }
        })
        .expect("all was declared");
    assert_eq!((0..TASKS).map(|task| start.plus(task * 6000).read()).sum::<u64>(), 3 * TASKS as u64);
}

/// The same without the processor's protection keys.
#[test]
fn pages_serve_where_there_are_no_keys() {
    const NO_KEYS: &str = "CASTELL_NO_PROTECTION_KEYS";
    if std::env::var_os(NO_KEYS).is_some() {
        assert!(!castell_host::watched::has_keys());
        return;
    }
    let again =
        Command::new(std::env::current_exe().expect("known")).env(NO_KEYS, "1").output().expect("runs");
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && said.contains("3 passed"), "{said}");
}
