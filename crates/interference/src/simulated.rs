//! Programs on `cachesim`'s simulated chip, as a measurement would show them: profiles from runs alone and beside probes, and the true
//! slowdowns of pairs. Predictors get the profiles; the chip's inside stays there.

use crate::profile::{Behaviour, BesideProbe, Host, Pair, Profile};
use crate::{Readings, Thresholds, class};
use castell_cachesim::MissRatioCurve;
use castell_cachesim::machine::{Alone, BLOCK_BYTES, Chip, MachineError, Placed, alone, slowdowns};
use castell_cachesim::programs::{Program, probe::probe};

/// The seed's programs ran on four cores each; a simulated core stands for them.
const CORES: usize = 4;
/// Sizes of the probes, by the shared cache's.
const PROBE_SIZES: [f64; 4] = [0.25, 0.5, 0.75, 4.0];

/// Programs that were measured on a chip.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What predictors may know of the chip.
    pub host: Host,
    /// What they may know of the programs.
    pub profiles: Vec<Profile>,
    placed: Vec<Placed>,
    chip: Chip,
}

/// Measures each program: alone, and beside probes. `progress` is called for each one that is done.
///
/// # Errors
/// As the machine's.
pub fn measure(
    chip: &Chip,
    programs: &[Program],
    mut progress: impl FnMut(&str),
) -> Result<Measured, MachineError> {
    // As many requests under way as just fill the link.
    let window = (chip.llc_ps + chip.transfer_ps + chip.memory_ps).div_ceil(chip.transfer_ps) as usize;
    let mut probes = Vec::new();
    for size in PROBE_SIZES {
        let blocks = (chip.llc.blocks() as f64 * size) as usize;
        probes.push((blocks, alone(chip, &probe(blocks, 1, window), None)?));
    }
    let (mut profiles, mut placed) = (Vec::new(), Vec::new());
    for program in programs {
        let own = alone(chip, program, None)?;
        let mut beside = Vec::new();
        for (blocks, probe) in &probes {
            beside.push(BesideProbe {
                blocks: *blocks as f64,
                accesses_per_second: probe.alone().accesses / probe.alone().pass_seconds,
                slowdown: slowdowns(chip, &[&own, probe])?[0],
            });
        }
        profiles.push(profile(chip, program, own.alone(), beside));
        placed.push(own);
        progress(program.name());
    }
    Ok(Measured { host: host(chip), profiles, placed, chip: *chip })
}

impl Measured {
    /// The true slowdowns of all pairs, also of each program with itself. `progress` is called after each run.
    ///
    /// # Errors
    /// As the machine's.
    pub fn pairs(&self, mut progress: impl FnMut()) -> Result<Vec<Pair>, MachineError> {
        let mut pairs = Vec::new();
        for first in 0..self.placed.len() {
            for second in first..self.placed.len() {
                let both = self.together(&[first, second])?;
                pairs.push(Pair { program: first, neighbour: second, slowdown: both[0] });
                if first != second {
                    pairs.push(Pair { program: second, neighbour: first, slowdown: both[1] });
                }
                progress();
            }
        }
        pairs.sort_by_key(|pair| (pair.program, pair.neighbour));
        Ok(pairs)
    }

    /// The true slowdowns of some programs that run together.
    ///
    /// # Errors
    /// As the machine's.
    pub fn together(&self, programs: &[usize]) -> Result<Vec<f64>, MachineError> {
        let placed: Vec<&Placed> = programs.iter().map(|program| &self.placed[*program]).collect();
        slowdowns(&self.chip, &placed)
    }

    /// The same, each program with the ways of the shared cache that it is kept to; by its time alone with all of them.
    ///
    /// # Errors
    /// As the machine's.
    pub fn together_in_ways(&self, programs: &[(usize, Option<u64>)]) -> Result<Vec<f64>, MachineError> {
        let all = self.chip.llc.all_ways();
        let kept = |(program, ways): &(usize, Option<u64>)| {
            self.placed[*program].kept_to(&self.chip, ways.unwrap_or(all))
        };
        let placed: Vec<Placed> = programs.iter().map(kept).collect::<Result<_, _>>()?;
        slowdowns(&self.chip, &placed.iter().collect::<Vec<_>>())
    }
}

fn host(chip: &Chip) -> Host {
    Host {
        llc_blocks: chip.llc.blocks() as f64,
        block_bytes: BLOCK_BYTES as f64,
        llc_seconds: chip.llc_ps as f64 / 1e12,
        memory_seconds: (chip.llc_ps + chip.transfer_ps + chip.memory_ps) as f64 / 1e12,
        bytes_per_second_max: chip.bytes_per_second_max(),
    }
}

fn profile(chip: &Chip, program: &Program, alone: &Alone, beside: Vec<BesideProbe>) -> Profile {
    let readings = Readings::new(alone.into_l1, alone.into_l2, alone.into_llc).ok();
    let decided = readings.map(|readings| class::classify(&readings, &Thresholds::of_cores(CORES)));
    Profile {
        name: program.name().to_owned(),
        class: decided.map_or(class::Class::N, |decision| decision.class),
        readings,
        behaviour: Some(Behaviour {
            curve: MissRatioCurve::of(&program.distances()),
            accesses_per_second: alone.accesses / alone.pass_seconds,
            private_blocks: (chip.l2.blocks() * program.threads()) as f64,
            beside,
        }),
    }
}
