//! Figures 3.1, 3.3, 4.2 to 4.6, 4.8, 5.2 to 5.5, 6.1, 6.3, 6.5 and 6.6 of M. Marí's thesis on the Nanos6 scheduler, measured on
//! this machine, as CSV: the least of interleaved rounds.
//!
//! `cargo run --release -p castell-tasks --example measured_figures -- [ROUNDS [BENCHMARK]] > experiments/task-scheduler-4/measured.csv`
//!
//! `-- --profile 4.7 5` runs for 5 seconds what that figure profiles, again and again: for a profiler.
//!
//! Same curves as in virtual time (`castell-sched`, example `virtual_figures`). cholesky needs OpenBLAS.

#[path = "../../sched/examples/curves/mod.rs"]
mod curves;

use castell_tasks::memory::MemoryOptions;
use castell_tasks::workloads::{Prepared, Workload, axpy_leaves};
use castell_tasks::{Context, Runtime};
use curves::{CURVES, Curve, PROFILES};
use std::error::Error;
use std::time::{Duration, Instant};

const ELEMENTS: u64 = 1 << 26;
const ORDER: u64 = 2048;

/// What runs at a point of a figure.
#[derive(Clone, Copy)]
enum Program {
    Workload(Workload),
    /// multiaxpy-recursive: the tree of multiaxpy-noop, whose leaves compute.
    Axpy {
        elements: u64,
        block: u64,
    },
}

/// The same with its memory.
enum Ready {
    Workload(Prepared),
    Axpy(Vectors),
}

fn cases() -> Vec<(&'static str, u64, Program)> {
    let mut cases = Vec::new();
    for shift in 10..=20 {
        let block = 1 << shift;
        let noop = Workload::Axpy { elements: ELEMENTS, block };
        cases.push(("multiaxpy-noop", block, Program::Workload(noop)));
        cases.push(("multiaxpy-recursive", block, Program::Axpy { elements: ELEMENTS >> 2, block }));
        let sweeps = Workload::Sweeps { elements: ELEMENTS >> 4, block, iterations: 10 };
        cases.push(("multiaxpy-10it", block, Program::Workload(sweeps)));
    }
    for tile in [32, 64, 128, 256, 512] {
        cases.push(("cholesky", tile, Program::Workload(Workload::Potrf { order: ORDER, tile })));
    }
    cases
}

impl Program {
    fn tasks(self) -> u64 {
        match self {
            Program::Workload(workload) => workload.tasks(),
            Program::Axpy { elements, block } => 2 * axpy_leaves(elements, block) - 1,
        }
    }

    fn prepare(self) -> Result<Ready, String> {
        Ok(match self {
            Program::Workload(workload) => Ready::Workload(workload.prepare()?),
            Program::Axpy { elements, block } => {
                let (x, y) = (vec![2.0; elements as usize], vec![0.0; elements as usize]);
                Ready::Axpy(Vectors { x, y, block: block as usize, runs: 0 })
            }
        })
    }
}

impl Ready {
    /// Once, in a runtime of its own: as many workers as there are processors, and none of an earlier run beside them.
    fn time(&mut self, (_, scheduler, slabs): Curve) -> Result<Duration, Box<dyn Error>> {
        let memory = MemoryOptions::default();
        let memory = if slabs { memory } else { MemoryOptions { chunk_max: 0, ..memory } };
        let runtime = Runtime::builder().scheduler(scheduler).memory(memory).build()?;
        if let Ready::Workload(prepared) = self {
            prepared.reset();
        }
        let time = runtime.run(|context| {
            let start = Instant::now();
            match self {
                Ready::Workload(prepared) => prepared.run(context),
                Ready::Axpy(vectors) => vectors.run(context),
            }
            .map(|()| start.elapsed())
        })??;
        match self {
            Ready::Workload(prepared) => prepared.check()?,
            Ready::Axpy(vectors) => vectors.check()?,
        }
        Ok(time)
    }
}

/// y += a x, in blocks.
struct Vectors {
    x: Vec<f64>,
    y: Vec<f64>,
    block: usize,
    runs: u32,
}

impl Vectors {
    fn run(&mut self, context: &Context<'_>) -> Result<(), castell_tasks::TaskError> {
        self.runs += 1;
        let [x, y] = [self.x.as_ptr(), self.y.as_mut_ptr().cast_const()].map(|start| start as usize);
        let (length, block) = (self.x.len(), self.block);
        context.submit((), move |context, ()| axpy(context, x, y, length, block));
        context.taskwait()
    }

    fn check(&self) -> Result<(), String> {
        let wanted = f64::from(self.runs);
        let wrong = self.y.iter().position(|&value| value != wanted);
        wrong.map_or(Ok(()), |at| Err(format!("element {at} is {}, not {wanted}", self.y[at])))
    }
}

/// For so many elements from the addresses `x` and `y` on.
fn axpy(context: &Context<'_>, x: usize, y: usize, length: usize, block: usize) {
    if length <= block {
        // SAFETY: elements of the two vectors, which outlive the wait in `Vectors::run`; no other task has them.
        let x = unsafe { std::slice::from_raw_parts(x as *const f64, length) };
        // SAFETY: as before.
        let y = unsafe { std::slice::from_raw_parts_mut(y as *mut f64, length) };
        for (y, x) in y.iter_mut().zip(x) {
            *y += 0.5 * x;
        }
        return;
    }
    let half = length / 2;
    let behind = half * size_of::<f64>();
    context.submit((), move |context, ()| axpy(context, x, y, half, block));
    context.submit((), move |context, ()| axpy(context, x + behind, y + behind, length - half, block));
}

fn measure(rounds: usize, only: Option<&str>) -> Result<(), Box<dyn Error>> {
    println!("benchmark,curve,block,tasks,ms");
    for (benchmark, block, program) in cases() {
        if only.is_some_and(|only| only != benchmark) {
            continue;
        }
        let mut ready = program.prepare()?;
        let mut least = [f64::INFINITY; CURVES.len()];
        for _ in 0..rounds {
            for (curve, least) in CURVES.iter().zip(&mut least) {
                *least = least.min(ready.time(*curve)?.as_secs_f64() * 1e3);
            }
        }
        for ((curve, ..), ms) in CURVES.iter().zip(least) {
            println!("{benchmark},{curve:?},{block},{},{ms:.4}", program.tasks());
        }
        eprintln!("{benchmark}, {block} elements a block: done");
    }
    Ok(())
}

/// The smallest block of what the figure profiles.
fn profile(figure: &str, seconds: u64) -> Result<(), Box<dyn Error>> {
    let figures = PROFILES.map(|(figure, ..)| figure).join(", ");
    let (_, benchmark, curve) = PROFILES
        .into_iter()
        .find(|(name, ..)| *name == figure)
        .ok_or(format!("--profile wants one of {figures}"))?;
    let curve = CURVES.into_iter().find(|(name, ..)| *name == curve).expect("profiles are of curves");
    let (.., program) = cases().into_iter().find(|(name, ..)| *name == benchmark).expect("a benchmark");
    let (mut ready, mut runs, mut inside) = (program.prepare()?, 0_u64, Duration::ZERO);
    let start = Instant::now();
    while start.elapsed().as_secs() < seconds {
        inside += ready.time(curve)?;
        runs += 1;
    }
    println!(
        "{figure},{benchmark},{:?},{runs},{},{:.4}",
        curve.0,
        program.tasks(),
        inside.as_secs_f64() * 1e3
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => measure(3, None),
        ["--profile", figure] => profile(figure, 5),
        ["--profile", figure, seconds] => profile(figure, seconds.parse()?),
        [rounds] => measure(rounds.parse()?, None),
        [rounds, benchmark] => measure(rounds.parse()?, Some(benchmark)),
        _ => Err("arguments: [ROUNDS [BENCHMARK]], or --profile FIGURE [SECONDS]".into()),
    }
}
