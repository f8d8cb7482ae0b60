//! Whole programs on a chip: what each shows alone, and how much slower each is beside others.

use super::{Chip, Core, MachineError, Stream, run};
use crate::programs::Program;

/// Passes before anything is measured.
const WARM_PASSES: u64 = 2;

/// A program that was put on cores of a chip.
#[derive(Clone, Debug)]
pub struct Placed {
    streams: Vec<Stream>,
    ways: u64,
    alone: Alone,
}

/// What a program shows when nothing else runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// A pass; of several threads, the mean. Seconds.
    pub pass_seconds: f64,
    /// Accesses of all threads in a pass.
    pub accesses: f64,
    /// From L2 into L1. Bytes a second, of all cores.
    pub into_l1: f64,
    /// From the shared cache into L2. Bytes a second, of all cores.
    pub into_l2: f64,
    /// From memory into the shared cache. Bytes a second.
    pub into_llc: f64,
}

impl Placed {
    /// What it shows alone.
    pub fn alone(&self) -> &Alone {
        &self.alone
    }

    /// The same program, kept to these ways of the shared cache from now on. Slowdowns still count from what it was alone before.
    ///
    /// # Errors
    /// A mask that the shared cache does not have.
    pub fn kept_to(&self, chip: &Chip, ways: u64) -> Result<Placed, MachineError> {
        chip.llc.allows(ways)?;
        Ok(Placed { ways, ..self.clone() })
    }
}

/// Puts a program on cores of its own and runs it alone. `ways`: those of the shared cache that it may fill, also later;
/// `None` for all.
///
/// # Errors
/// A mask that the shared cache does not have.
pub fn alone(chip: &Chip, program: &Program, ways: Option<u64>) -> Result<Placed, MachineError> {
    let streams: Vec<Stream> =
        (0..program.threads()).map(|thread| Stream::of(chip, program, thread)).collect();
    let ways = ways.unwrap_or_else(|| chip.llc.all_ways());
    let cores: Vec<Core> = streams.iter().map(|stream| Core { stream, program: 0, ways }).collect();
    let measured = run(chip, &cores, WARM_PASSES)?;
    let count = measured.len() as f64;
    let mut alone = Alone {
        pass_seconds: measured.iter().map(|core| core.pass_ps).sum::<f64>() / count / 1e12,
        accesses: 0.0,
        into_l1: 0.0,
        into_l2: 0.0,
        into_llc: 0.0,
    };
    for (stream, core) in streams.iter().zip(&measured) {
        let seconds = core.pass_ps / 1e12;
        alone.accesses += stream.accesses() as f64;
        alone.into_l1 += stream.bytes_into_l1() as f64 / seconds;
        alone.into_l2 += stream.bytes_into_l2() as f64 / seconds;
        alone.into_llc += core.misses * super::BLOCK_BYTES as f64 / seconds;
    }
    Ok(Placed { streams, ways, alone })
}

/// Runs programs together: by what factor a pass of each takes longer than alone.
///
/// # Errors
/// A mask that the shared cache does not have.
pub fn slowdowns(chip: &Chip, programs: &[&Placed]) -> Result<Vec<f64>, MachineError> {
    let mut cores = Vec::new();
    for (program, placed) in programs.iter().enumerate() {
        cores.extend(placed.streams.iter().map(|stream| Core { stream, program, ways: placed.ways }));
    }
    let measured = run(chip, &cores, WARM_PASSES)?;
    let mut factors = Vec::new();
    let mut first = 0;
    for placed in programs {
        let own = &measured[first..first + placed.streams.len()];
        first += own.len();
        let seconds = own.iter().map(|core| core.pass_ps).sum::<f64>() / own.len() as f64 / 1e12;
        factors.push(seconds / placed.alone.pass_seconds);
    }
    Ok(factors)
}
