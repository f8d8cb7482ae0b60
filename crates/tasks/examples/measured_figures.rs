//! Figures 3.1, 3.3, 4.2 to 4.6, 4.8, 5.2 to 5.5, 6.1, 6.3 and 6.6 of M. Marí's thesis on the Nanos6 scheduler, measured on
//! this machine, as CSV: the least of interleaved rounds.
//!
//! `cargo run --release -p castell-tasks --example measured_figures -- [ROUNDS] > experiments/task-scheduler-4/measured.csv`
//!
//! Same curves as in virtual time (`castell-sched`, example `virtual_figures`). cholesky needs OpenBLAS.

#[path = "../../sched/examples/curves/mod.rs"]
mod curves;

use castell_tasks::Runtime;
use castell_tasks::memory::MemoryOptions;
use castell_tasks::workloads::Workload;
use curves::CURVES;
use std::time::Instant;

fn cases() -> Vec<(&'static str, u64, Workload)> {
    const ELEMENTS: u64 = 1 << 26;
    const ORDER: u64 = 2048;
    let mut cases = Vec::new();
    for shift in 10..=20 {
        let block = 1 << shift;
        cases.push(("multiaxpy-noop", block, Workload::Axpy { elements: ELEMENTS, block }));
        let sweeps = Workload::Sweeps { elements: ELEMENTS >> 4, block, iterations: 10 };
        cases.push(("multiaxpy-10it", block, sweeps));
    }
    for tile in [32, 64, 128, 256, 512] {
        cases.push(("cholesky", tile, Workload::Potrf { order: ORDER, tile }));
    }
    cases
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(3), |rounds| rounds.parse())?;
    println!("benchmark,curve,block,tasks,ms");
    for (benchmark, block, workload) in cases() {
        let mut prepared = workload.prepare()?;
        let mut least = [f64::INFINITY; CURVES.len()];
        for _ in 0..rounds {
            for ((_, scheduler, slabs), least) in CURVES.iter().zip(&mut least) {
                let memory = MemoryOptions::default();
                let memory = if *slabs { memory } else { MemoryOptions { chunk_max: 0, ..memory } };
                // As many workers as there are processors, and none of an earlier runtime beside them.
                let runtime = Runtime::builder().scheduler(scheduler).memory(memory).build()?;
                prepared.reset();
                let ms = runtime.run(|context| {
                    let start = Instant::now();
                    prepared.run(context).map(|()| start.elapsed().as_secs_f64() * 1e3)
                })??;
                prepared.check()?;
                *least = least.min(ms);
            }
        }
        for ((curve, ..), ms) in CURVES.iter().zip(least) {
            println!("{benchmark},{curve:?},{block},{},{ms:.4}", workload.tasks());
        }
        eprintln!("{benchmark}, {block} elements a block: done");
    }
    Ok(())
}
