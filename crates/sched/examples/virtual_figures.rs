//! Figures 3.1, 3.3, 4.2 to 4.6, 4.8, 5.2 to 5.5, 6.1, 6.3 and 6.6 of M. Marí's thesis on the Nanos6 scheduler, in virtual time
//! on 48 described processors, as CSV.
//!
//! `cargo run --release -p castell-sched --example virtual_figures > experiments/task-scheduler-4/virtual.csv`

mod curves;

use castell_sched::program::{Cholesky, Multiaxpy, Program};
use castell_sched::simulate::Costs;
use castell_sched::{Topology, simulate};
use curves::CURVES;

fn line(benchmark: &str, block: u64, tasks: u64, program: &impl Program, topology: &Topology) {
    for (curve, scheduler, allocator) in CURVES {
        let options = scheduler.parse().expect("a scheduler");
        // Off: the system's allocator, which has an arena a thread: where one thread creates, all others free into its arena,
        // one lock for all. Round numbers, like the other costs.
        let arena = if benchmark == "cholesky" { 20 } else { 0 };
        let (memory, memory_lock) = if allocator { (10, 0) } else { (100, arena) };
        let costs = Costs { memory, memory_lock, ..Costs::default() };
        let report = simulate(program, topology, options, &costs, 1);
        assert_eq!((report.tasks, report.stuck), (tasks, 0), "{scheduler}");
        println!("{benchmark},{curve:?},{block},{tasks},{:.4}", report.time_ns as f64 / 1e6);
    }
}

fn main() {
    let topology: Topology = "numa:2 cpu:24".parse().expect("a topology");
    println!("benchmark,curve,block,tasks,ms");
    for shift in 10..=20 {
        let axpy = |iterations, dependences| Multiaxpy {
            elements: 1 << 26,
            block: 1 << shift,
            iterations,
            element_ps: 500,
            dependences,
        };
        for (benchmark, axpy) in [("multiaxpy-noop", axpy(2, false)), ("multiaxpy-10it", axpy(10, true))] {
            line(benchmark, axpy.block, axpy.tasks(), &axpy, &topology);
        }
    }
    const ELEMENTS: u64 = 4096;
    for block in [64, 128, 256, 512, 1024] {
        // 30 billion additions and multiplications a second.
        let gemm = 2 * block * block * block / 30;
        let cholesky = Cholesky::new(ELEMENTS / block, [gemm / 6, gemm / 2, gemm / 2, gemm]);
        line("cholesky", block, cholesky.tasks(), &cholesky, &topology);
    }
}
