//! The thesis' task counts (Marí, 2018, tables A.1 and A.2): as formulas for all rows, by running the smaller ones.

use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::task::Attributes;
use castell_tasks::{Context, Runtime};

const COUNTS: &str = include_str!("../../../../vectors/tasks/nanos6-task-counts.csv");

/// More tasks than this are only computed: unoptimized tests are slow.
const RUN_MAX: u64 = 200_000;

#[test]
fn benchmarks_create_as_many_tasks_as_the_thesis_says() {
    let mut run = 0;
    for row in COUNTS.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        let [benchmark, block, tasks] = fields[..] else { panic!("three fields in `{row}`") };
        let (block, tasks): (u64, u64) = (block.parse().unwrap(), tasks.parse().unwrap());
        let runtime = Runtime::builder().workers(2).build().expect("threads start");
        match benchmark {
            "multiaxpy_noop_1G_10it" => {
                let blocks = (1 << 30) / block;
                assert_eq!(1 + 10 * (2 * blocks - 1), tasks, "{row}");
                if tasks <= RUN_MAX {
                    runtime.run(|context| multiaxpy(context, 1 << 30, block)).expect("nothing fails");
                }
            }
            "cholesky_16384" => {
                let n = 16384 / block;
                assert_eq!(1 + n + n * (n - 1) + n * (n - 1) * n.saturating_sub(2) / 6, tasks, "{row}");
                if tasks <= RUN_MAX {
                    runtime.run(|context| cholesky(context, n as usize)).expect("nothing fails");
                }
            }
            _ => panic!("`{benchmark}` is not known here"),
        }
        if tasks <= RUN_MAX {
            assert_eq!(runtime.tasks_created(), tasks, "{row}");
            run += 1;
        }
    }
    assert_eq!(run, 7);
}

fn multiaxpy(context: &Context<'_>, length: u64, block: u64) {
    for _ in 0..10 {
        context.submit((), move |context, ()| halve(context, length, block));
        context.taskwait().expect("nothing fails");
    }
}

fn halve(context: &Context<'_>, length: u64, block: u64) {
    if length > block {
        for _ in 0..2 {
            context.submit((), move |context, ()| halve(context, length / 2, block));
        }
    }
}

/// The tile graph, with bodies that touch nothing.
fn cholesky(context: &Context<'_>, n: usize) {
    let tile = |row: usize, column: usize, kind| Declaration {
        start: (1 + row * n + column) * 64,
        length: 64,
        kind,
        weak: false,
        reduction: 0,
    };
    // SAFETY: no body touches any memory.
    let submit = |declared: &[Declaration]| unsafe { context.submit_raw(Attributes::NONE, declared, |_| ()) };
    for k in 0..n {
        submit(&[tile(k, k, Kind::InOut)]);
        for i in k + 1..n {
            submit(&[tile(k, k, Kind::In), tile(i, k, Kind::InOut)]);
        }
        for i in k + 1..n {
            for j in k + 1..i {
                submit(&[tile(i, k, Kind::In), tile(j, k, Kind::In), tile(i, j, Kind::InOut)]);
            }
            submit(&[tile(i, k, Kind::In), tile(i, i, Kind::InOut)]);
        }
    }
}
