//! Figures 3.1, 3.3, 4.2 to 4.6, 4.8, 5.2 to 5.5, 6.1, 6.3, 6.5 and 6.6 of M. Marí's thesis on the Nanos6 scheduler, in virtual
//! time on 48 described processors, as CSV.
//!
//! `cargo run --release -p castell-sched --example virtual_figures > experiments/task-scheduler-4/virtual.csv`
//!
//! With `-- --profiles` figures 3.2, 3.4, 4.7, 4.9, 6.2 and 6.4: where the processors' time goes, at the smallest block.

mod curves;

use castell_sched::program::{Cholesky, Multiaxpy, Program};
use castell_sched::simulate::{Costs, Report, Spent};
use castell_sched::{Topology, simulate};
use curves::{CURVES, Curve, PROFILES};

/// Something that runs: a benchmark with a block size.
trait Benchmark {
    fn run(&self, curve: Curve, memory_lock: u64) -> Report;
}

impl<P: Program> Benchmark for P {
    fn run(&self, (_, scheduler, allocator): Curve, memory_lock: u64) -> Report {
        let topology: Topology = "numa:2 cpu:24".parse().expect("a topology");
        let options = scheduler.parse().expect("a scheduler");
        let (memory, memory_lock) = if allocator { (10, 0) } else { (100, memory_lock) };
        let costs = Costs { memory, memory_lock, ..Costs::default() };
        simulate(self, &topology, options, &costs, 1)
    }
}

struct Case {
    name: &'static str,
    block: u64,
    tasks: u64,
    /// For how long the system's allocator keeps a lock of all: it has an arena a thread, and where one thread creates, all
    /// others free into its arena. A round number, like the other costs.
    memory_lock: u64,
    benchmark: Box<dyn Benchmark>,
}

impl Case {
    fn axpy(name: &'static str, axpy: Multiaxpy) -> Case {
        let (block, tasks) = (axpy.block, axpy.tasks());
        Case { name, block, tasks, memory_lock: 0, benchmark: Box::new(axpy) }
    }

    fn run(&self, curve: Curve) -> Report {
        let report = self.benchmark.run(curve, self.memory_lock);
        assert_eq!((report.tasks, report.stuck), (self.tasks, 0), "{}, {}", self.name, curve.0);
        report
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shift in 10..=20 {
        let axpy = |iterations, element_ps, dependences| Multiaxpy {
            elements: 1 << 26,
            block: 1 << shift,
            iterations,
            element_ps,
            dependences,
        };
        cases.push(Case::axpy("multiaxpy-noop", axpy(2, 500, false)));
        // Two loads and a store of eight bytes, of 200 GB/s that 48 share.
        cases.push(Case::axpy("multiaxpy-recursive", axpy(1, 5_760, false)));
        cases.push(Case::axpy("multiaxpy-10it", axpy(10, 500, true)));
    }
    const ELEMENTS: u64 = 4096;
    for block in [64, 128, 256, 512, 1024] {
        // 30 billion additions and multiplications a second.
        let gemm = 2 * block * block * block / 30;
        let cholesky = Cholesky::new(ELEMENTS / block, [gemm / 6, gemm / 2, gemm / 2, gemm]);
        let tasks = cholesky.tasks();
        cases.push(Case { name: "cholesky", block, tasks, memory_lock: 20, benchmark: Box::new(cholesky) });
    }
    cases
}

fn profiles() {
    println!("figure,machine,part,percent");
    for (figure, benchmark, curve) in PROFILES {
        let case = cases().into_iter().find(|case| case.name == benchmark).expect("a benchmark");
        let curve = CURVES.into_iter().find(|(name, ..)| *name == curve).expect("profiles are of curves");
        let report = case.run(curve);
        let Spent { records_ns, memory_ns, dependences_ns, queues_ns, wake_calls_ns } = report.spent;
        let parts = [
            ("tasks' work", report.work_ns.iter().sum()),
            ("waiting for the scheduler's locks", report.lock_wait_ns - report.memory_lock_wait_ns),
            ("queues", queues_ns),
            ("waiting for the allocator's lock", report.memory_lock_wait_ns),
            ("memory of records", memory_ns),
            ("records", records_ns),
            ("dependences", dependences_ns),
            ("waking others", wake_calls_ns),
        ];
        let all = 48 * report.time_ns;
        let idle = all.saturating_sub(parts.iter().map(|(_, ns)| ns).sum::<u64>());
        for (part, ns) in parts.into_iter().chain([("nothing to do", idle)]) {
            println!("{figure},48 in virtual time,{part},{:.2}", ns as f64 / all as f64 * 100.0);
        }
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--profiles") {
        return profiles();
    }
    println!("benchmark,curve,block,tasks,ms");
    for case in cases() {
        for curve in CURVES {
            let ms = case.run(curve).time_ns as f64 / 1e6;
            println!("{},{:?},{},{},{ms:.4}", case.name, curve.0, case.block, case.tasks);
        }
    }
}
