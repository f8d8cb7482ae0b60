//! Reports of simulated runs, number by number, as this simulator made them: a snapshot of our own output. It says that nothing has
//! changed, not that it was right; what must be so whatever the costs are is in `simulate.rs` and `properties.rs`. Where a change is
//! meant, the test prints the new file.

use castell_sched::program::{Cholesky, Multiaxpy, Program, Sweeps};
use castell_sched::simulate;
use castell_sched::simulate::{Costs, Report};
use std::fmt::Write as _;

const REPORTS: &str = include_str!("reports.txt");

/// Costs of which no two sums are equal by chance.
const COSTS: Costs = Costs {
    create: 101,
    memory: 23,
    memory_lock: 7,
    dependence: 103,
    finish: 53,
    leaf: 11,
    node: 41,
    moved: 3,
    transfer: 107,
    contention: 13,
    poll: 109,
    patience: 2003,
    asks: 3,
    wake_call: 1501,
    wake: 5003,
    remote_kib: 59,
};

fn line(program: &impl Program, topology: &str, scheduler: &str) -> String {
    let (machine, options) = (topology.parse().expect("a machine"), scheduler.parse().expect("a scheduler"));
    let Report {
        time_ns,
        tasks,
        work_ns,
        tasks_of,
        lock_wait_ns,
        memory_lock_wait_ns,
        spent,
        wakes,
        remote_bytes,
        stuck,
    } = simulate(program, &machine, options, &COSTS, 7);
    let spent =
        [spent.records_ns, spent.memory_ns, spent.dependences_ns, spent.queues_ns, spent.wake_calls_ns];
    format!(
        "{topology}, {scheduler}: {time_ns} {tasks} {work_ns:?} {tasks_of:?} {lock_wait_ns} {memory_lock_wait_ns} {spent:?} {wakes} {remote_bytes} {stuck}"
    )
}

#[test]
fn reports_are_what_they_were() {
    let axpy = |dependences| Multiaxpy {
        elements: 1 << 12,
        block: 1 << 8,
        iterations: 2,
        element_ps: 900,
        dependences,
    };
    let mut said = String::new();
    for machine in ["cpu:1", "cpu:3", "numa:2 cpu:2", "numa:2 cpu:5"] {
        for scheduler in [
            "tree",
            "tree:fifo,threshold=4",
            "tree:lifo,rebalance=off",
            "central",
            "central:lifo,slots=off",
            "delegation:fifo",
        ] {
            for line in [
                line(&axpy(false), machine, scheduler),
                line(&axpy(true), machine, scheduler),
                line(&Cholesky::new(4, [3000, 4000, 4000, 7000]), machine, scheduler),
                line(
                    &Sweeps { blocks: 16, block_bytes: 4096, iterations: 3, block_ns: 700 },
                    machine,
                    scheduler,
                ),
            ] {
                writeln!(said, "{line}").expect("memory");
            }
        }
    }
    assert!(said == REPORTS, "the file would be\n{said}");
}
