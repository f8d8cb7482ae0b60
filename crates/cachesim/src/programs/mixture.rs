//! A program that meets given flows: what it takes from memory, and how often each cache above is used again.

use super::{Access, FRESH, Program, random};
use crate::machine::{BLOCK_BYTES, Chip, Core, Stream, run};

/// What a program shows when it runs alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flows {
    /// From memory into the shared cache. Bytes a second.
    pub into_llc: f64,
    /// Reuse of the shared cache: into L2 by into it.
    pub llc_reuse: f64,
    /// Reuse of L2.
    pub l2_reuse: f64,
    /// Requests that it can have under way: what its loads allow. At least as many are taken as the flows need.
    pub window: usize,
    /// What it uses again in the shared cache, as a part of that cache.
    pub llc_part: f64,
}

/// Requests to the shared cache in a pass, for each of its blocks.
const REQUESTS_A_BLOCK: f64 = 1.5;

/// A program with these flows. It takes fresh blocks from memory, random blocks of a part of the shared cache, and blocks in turn of
/// half of L2, as often as the flows say, and computes between so that it takes what it should when alone.
pub fn mixture(name: &str, flows: &Flows, chip: &Chip) -> Program {
    // Caches that pass on less than they take are taken to pass on all.
    let (from_llc, from_l2) = (flows.llc_reuse.max(1.0), flows.l2_reuse.max(1.0));
    let requests = chip.llc.blocks() as f64 * REQUESTS_A_BLOCK;
    let fresh_a_second = flows.into_llc.max(1e5) / BLOCK_BYTES as f64;
    let waiting_ps = chip.llc_ps as f64 * from_llc + (chip.memory_ps + chip.transfer_ps) as f64;
    let under_way = fresh_a_second * waiting_ps / 1e12;
    let window = flows.window.max((under_way * 1.1).ceil() as usize);
    let mix = Mix {
        requests: requests as usize,
        fresh: 1.0 / from_llc,
        l2_hits: from_l2 - 1.0,
        llc_blocks: ((chip.llc.blocks() as f64 * flows.llc_part) as usize).max(64),
        l2_blocks: chip.l2.blocks() / 2,
    };
    // A pass takes as long as its fresh blocks should; by proportion to begin with, then corrected by what is seen.
    let wanted_ps = requests / from_llc / fresh_a_second * 1e12;
    let accesses = requests * from_l2;
    let mut compute_ps = wanted_ps / accesses;
    for _ in 0..6 {
        let program = mix.program(name, window, compute_ps as u32);
        let took_ps = alone_ps(chip, &program);
        compute_ps = (compute_ps + (wanted_ps - took_ps) / accesses).max(0.0);
    }
    mix.program(name, window, compute_ps as u32)
}

fn alone_ps(chip: &Chip, program: &Program) -> f64 {
    let stream = Stream::of(chip, program, 0);
    let core = Core { stream: &stream, program: 0, ways: chip.llc.all_ways() };
    run(chip, &[core], 1).map_or(0.0, |measured| measured[0].pass_ps)
}

#[derive(Clone, Copy)]
struct Mix {
    requests: usize,
    /// Of the requests to the shared cache, those to fresh blocks.
    fresh: f64,
    /// Accesses to L2's part for each request.
    l2_hits: f64,
    llc_blocks: usize,
    l2_blocks: usize,
}

impl Mix {
    fn program(self, name: &str, window: usize, compute_ps: u32) -> Program {
        Program::new(name, window, move |sink| {
            let (mut fresh_due, mut hits_due) = (0.0, 0.0);
            let (mut fresh, mut in_l2) = (0u64, 0);
            for request in 0..self.requests {
                fresh_due += self.fresh;
                hits_due += self.l2_hits;
                let block = if fresh_due >= 1.0 {
                    fresh_due -= 1.0;
                    fresh += 1;
                    FRESH | fresh
                } else {
                    1 << 40 | random(request, self.llc_blocks) as u64
                };
                sink(Access { block, compute_ps });
                while hits_due >= 1.0 {
                    hits_due -= 1.0;
                    in_l2 = (in_l2 + 1) % self.l2_blocks;
                    sink(Access { block: 2 << 40 | in_l2 as u64, compute_ps });
                }
            }
        })
    }
}
