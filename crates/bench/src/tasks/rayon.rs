//! rayon, as a subject: the programs whose tasks depend on nothing but their parents.

use super::{Case, Params, Sample, Subject};
use anyhow::ensure;
use castell::tasks::workloads::{Workload, fibonacci, spin};
use std::time::Instant;

/// A pool is built a round, so that nobody's idle workers disturb the next subject.
pub struct Rayon;

impl Subject for Rayon {
    fn name(&self) -> String {
        "rayon".to_owned()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        let (Some(case), Some(workers)) = (Case::of(case), case.number("workers")) else { return Ok(None) };
        let workload = case.workload();
        if !matches!(workload, Workload::Empty { .. } | Workload::Axpy { .. } | Workload::Fib { .. }) {
            return Ok(None);
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers as usize).build()?;
        run(&pool, workload)?; // warm up
        let mut taken = Vec::new();
        for _ in 0..samples {
            taken.push(run(&pool, workload)? / workload.tasks() as f64);
        }
        Ok(Some(Sample::of(taken)))
    }
}

/// One run, in nanoseconds.
fn run(pool: &rayon::ThreadPool, workload: Workload) -> anyhow::Result<f64> {
    let (ns, is_right) = pool.install(|| {
        let start = Instant::now();
        let is_right = match workload {
            Workload::Empty { tasks } => {
                rayon::scope(|scope| (0..tasks).for_each(|_| scope.spawn(|_| ())));
                true
            }
            Workload::Axpy { elements, block } => {
                halve(elements, block);
                true
            }
            Workload::Fib { number } => fib(number) == fibonacci(number),
            _ => false,
        };
        (start.elapsed().as_nanos() as f64, is_right)
    });
    ensure!(is_right, "rayon's tasks came to a wrong result");
    Ok(ns)
}

fn halve(elements: u64, block: u64) {
    if elements <= block {
        spin(elements);
    } else {
        let half = elements / 2;
        rayon::join(|| halve(half, block), || halve(elements - half, block));
    }
}

fn fib(number: u64) -> u64 {
    if number < 2 {
        return number;
    }
    let (one, other) = rayon::join(|| fib(number - 1), || fib(number - 2));
    one + other
}
