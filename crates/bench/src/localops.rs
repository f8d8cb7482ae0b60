//! `castell bench localops`: adding doubles, `b[i] = a[i] + b[i]`, against the plain loop in C and in Rust.

use crate::plain::{Program, find_program};
use crate::report::{Params, Sample};
use crate::workload::{Subject, Workload};
use castell_goal::arithmetic;
use castell_goal::op::{Arithmetic, ElementType, Operator};
use std::hint::black_box;
use std::time::Instant;

const SOURCE: &str = include_str!("../../../benches/c/localops.c");
/// A sample is the mean over at least this much.
const BATCH_BYTES: u64 = 4 << 20;

/// The workload.
pub struct LocalOps;

impl Workload for LocalOps {
    fn name(&self) -> &'static str {
        "localops"
    }

    fn cases(&self, bytes: Option<&[u64]>) -> Vec<Params> {
        let bytes = bytes.unwrap_or(&[64, 4096, 65_536, 1 << 20]);
        bytes.iter().map(|bytes| Params::new().with("bytes", *bytes)).collect()
    }

    fn samples(&self) -> u32 {
        100
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        let mut subjects: Vec<Box<dyn Subject>> = vec![
            Box::new(Loop { name: "castell", prepare: prepare_castell }),
            Box::new(Loop { name: "plain loop, Rust", prepare: prepare_plain }),
        ];
        match find_program("cc") {
            None => castell_host::say("no C compiler found: install gcc for the comparison with C"),
            Some(compiler) => {
                for (name, flags) in
                    [("plain loop, C -O3", &[][..]), ("plain loop, C -O3 native", &["-march=native"])]
                {
                    let program = Program::compile(&compiler, flags, SOURCE, Vec::new())?;
                    subjects.push(Box::new(CLoop { name, program }));
                }
            }
        }
        Ok(subjects)
    }

    fn peer_ranks(&self) -> Option<u32> {
        Some(1)
    }
}

/// Adds once; owns its operands.
type Addition = Box<dyn FnMut()>;

/// A loop in this process.
struct Loop {
    name: &'static str,
    /// Makes the addition of so many elements.
    prepare: fn(usize) -> Addition,
}

impl Subject for Loop {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        let Some(bytes) = case.number("bytes") else { return Ok(None) };
        let mut add = (self.prepare)((bytes / 8) as usize);
        let rounds = (BATCH_BYTES / bytes.max(1)).max(1) as u32;
        let mut batch = || {
            let start = Instant::now();
            for _ in 0..rounds {
                add();
            }
            start.elapsed().as_nanos() as f64 / f64::from(rounds)
        };
        for _ in 0..=samples / 10 {
            batch(); // warm up
        }
        Ok(Some(Sample::of((0..samples).map(|_| batch()).collect())))
    }
}

fn operands(elements: usize) -> (Vec<f64>, Vec<f64>) {
    ((0..elements).map(|i| 1e-9 * i as f64).collect(), vec![1.0; elements])
}

fn prepare_castell(elements: usize) -> Addition {
    let sum = Arithmetic::new(Operator::Add, ElementType::F64).expect("floats can be added");
    let bytes = |values: Vec<f64>| values.into_iter().flat_map(f64::to_ne_bytes).collect::<Vec<u8>>();
    let (a, b) = operands(elements);
    let (a, mut b) = (bytes(a), bytes(b));
    Box::new(move || arithmetic::apply_onto_second(sum, black_box(&a), black_box(&mut b)))
}

fn prepare_plain(elements: usize) -> Addition {
    let (a, mut b) = operands(elements);
    Box::new(move || add_plainly(black_box(&a), black_box(&mut b)))
}

fn add_plainly(a: &[f64], b: &mut [f64]) {
    for (b, a) in b.iter_mut().zip(a) {
        *b += *a;
    }
}

/// The C program.
struct CLoop {
    name: &'static str,
    program: Program,
}

impl Subject for CLoop {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        self.program.measure(case, samples).map(Some)
    }
}
