//! Two programs on the cores of a simulated chip (Weidendorfer and Breitbart, COSH 2016, figure 1).

use anyhow::{Context as _, bail};
use castell_cachesim::machine::{Chip, Placed, alone, slowdowns};
use castell_cachesim::programs::{Program, solver};
use castell_policy::placement::Share;

/// Caches are divided by this; so are databases, and the sides of grids by its root.
const SCALE: usize = 4;
/// Requests that a core has under way.
const WINDOW: usize = 10;
/// Cores that are simulated, at most.
const CORES_MAX: u32 = 64;
/// The seed's machine.
pub const CORES: u32 = 16;
/// Points of a grid's side, at most.
const SIDE_MAX: usize = 4000;

/// A program that can be given any number of cores; its work stays the same.
enum Kind {
    /// Conjugate gradients on a grid of this side.
    Solver(usize),
    /// A search in sequences.
    Search,
}

impl Kind {
    fn parse(text: &str) -> anyhow::Result<Kind> {
        let side = text.strip_prefix("cg").map(|rest| rest.strip_prefix(':').unwrap_or("1000"));
        match side.map(str::parse::<usize>) {
            Some(Ok(side)) if (20..=SIDE_MAX).contains(&side) => Ok(Kind::Solver(side)),
            None if text == "search" => Ok(Kind::Search),
            _ => bail!(
                "{text:?} is no program to simulate: `search`, or `cg:SIDE` with a side of 20 to {SIDE_MAX}"
            ),
        }
    }

    fn program(&self, chip: &Chip, threads: usize) -> Program {
        match self {
            Kind::Solver(side) => solver::conjugate_gradients(side / 2, threads, WINDOW),
            Kind::Search => solver::sequence_search(chip.llc.blocks(), chip.l2.blocks(), threads),
        }
    }
}

/// All splits.
///
/// # Errors
/// A program that is none, or too many cores.
pub fn shares(programs: [&str; 2], cores: u32, mut progress: impl FnMut()) -> anyhow::Result<Vec<Share>> {
    anyhow::ensure!((2..=CORES_MAX).contains(&cores), "{cores} cores: 2 to {CORES_MAX} can be simulated");
    // The seed's node has two.
    let chip = Chip::xeon_e5_2670(SCALE, 2);
    let kinds = [Kind::parse(programs[0])?, Kind::parse(programs[1])?];
    let place = |kind: &Kind, threads: u32| -> anyhow::Result<Placed> {
        alone(&chip, &kind.program(&chip, threads as usize), None).context("on the simulated chip")
    };
    let mut best = [f64::INFINITY; 2];
    let mut placed: [Vec<Placed>; 2] = [Vec::new(), Vec::new()];
    for threads in 1..=cores {
        for (at, kind) in kinds.iter().enumerate() {
            let one = place(kind, threads)?;
            best[at] = best[at].min(one.alone().pass_seconds);
            placed[at].push(one);
            progress();
        }
    }
    let mut shares = Vec::new();
    for mine in 1..cores {
        let both = [&placed[0][mine as usize - 1], &placed[1][(cores - mine) as usize - 1]];
        let factors = slowdowns(&chip, &both)?;
        let seconds = [0, 1].map(|at: usize| both[at].alone().pass_seconds * factors[at]);
        shares.push(Share { cores: mine, seconds, efficiency: [best[0] / seconds[0], best[1] / seconds[1]] });
        progress();
    }
    Ok(shares)
}
