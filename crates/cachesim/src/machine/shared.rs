//! Cores that run together: the shared cache and the link behind it.

use super::{Cache, Chip, MachineError, Stream};
use crate::programs::of_pass;
use std::collections::VecDeque;

/// A core: what runs on it, and the ways of the shared cache into which its blocks go.
#[derive(Clone, Copy, Debug)]
pub struct Core<'a> {
    /// Its thread's requests.
    pub stream: &'a Stream,
    /// Cores of one program share its memory.
    pub program: usize,
    /// Ways that it may fill; [`super::Shape::all_ways`] is all.
    pub ways: u64,
}

/// What was measured of a core, over whole passes, while all others ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// A pass, on average. Picoseconds.
    pub pass_ps: f64,
    /// Blocks that came over the link for it in a pass, on average.
    pub misses: f64,
}

/// Runs the cores together. Each goes through its pass again and again. When all have done `warm` passes, each is measured from its next
/// pass on, over whole passes, for as long as the slowest needs for one: so each meets all phases of every other. Others run on until the last is measured.
///
/// # Errors
/// A mask that the shared cache does not have.
pub fn run(chip: &Chip, cores: &[Core], warm: u64) -> Result<Vec<Measured>, MachineError> {
    for core in cores {
        chip.llc.allows(core.ways)?;
    }
    let mut shared = Shared { chip, llc: Cache::new(chip.llc), link_free_ps: 0 };
    let mut running: Vec<Running> = cores.iter().map(Running::new).collect();
    // Whoever asks for nothing is not disturbed.
    let longest_ps = |running: &[Running]| running.iter().map(|core| core.pass_ps_last).max().unwrap_or(0);
    let mut phase = Phase::Warming;
    loop {
        let next = (0..running.len()).filter(|at| running[*at].asks()).min_by_key(|at| running[*at].issue_ps);
        let Some(next) = next else { break };
        let core = &mut running[next];
        let ended_pass = core.step(&mut shared);
        if !ended_pass {
            continue;
        }
        match phase {
            Phase::Warming if running.iter().all(|core| !core.asks() || core.passes >= warm.max(1)) => {
                phase = Phase::Measuring { least_ps: longest_ps(&running) };
                running[next].start();
            }
            Phase::Warming => {}
            Phase::Measuring { least_ps } => {
                running[next].note(least_ps);
                if running.iter().all(|core| !core.asks() || core.measured.is_some()) {
                    break;
                }
            }
        }
    }
    let alone = |core: &Running| Measured { pass_ps: core.stream.rest_ps as f64, misses: 0.0 };
    Ok(running.iter().map(|core| core.measured.unwrap_or_else(|| alone(core))).collect())
}

#[derive(Clone, Copy)]
enum Phase {
    Warming,
    Measuring { least_ps: u64 },
}

struct Shared<'a> {
    chip: &'a Chip,
    llc: Cache,
    link_free_ps: u64,
}

impl Shared<'_> {
    /// A request issued now: when it is answered, and whether the link was needed. Requests come in the order of their times.
    fn request(&mut self, now_ps: u64, block: u64, ways: u64) -> (u64, bool) {
        let looked_up_ps = now_ps + self.chip.llc_ps;
        if self.llc.access(block, ways) {
            return (looked_up_ps, false);
        }
        let started_ps = looked_up_ps.max(self.link_free_ps);
        self.link_free_ps = started_ps + self.chip.transfer_ps;
        (self.link_free_ps + self.chip.memory_ps, true)
    }
}

/// Blocks of different programs differ in the bits from here on.
const PROGRAM_SHIFT: u32 = 48;

struct Running<'a> {
    stream: &'a Stream,
    program: u64,
    ways: u64,
    /// The next request, and when it is issued.
    at: usize,
    issue_ps: u64,
    /// When requests under way will be answered, in order; one is answered only when all before it are.
    answers_ps: VecDeque<u64>,
    /// Passes ended, the start of the one that runs, and how long the last one took.
    passes: u64,
    pass_start_ps: u64,
    pass_ps_last: u64,
    misses: u64,
    /// Time, passes and misses when the measurement began.
    began: Option<(u64, u64, u64)>,
    measured: Option<Measured>,
}

impl<'a> Running<'a> {
    fn new(core: &Core<'a>) -> Running<'a> {
        Running {
            stream: core.stream,
            program: core.program as u64,
            ways: core.ways,
            at: 0,
            issue_ps: core.stream.requests.first().map_or(0, |(gap_ps, _)| *gap_ps),
            answers_ps: VecDeque::with_capacity(core.stream.window),
            passes: 0,
            pass_start_ps: 0,
            pass_ps_last: 0,
            misses: 0,
            began: None,
            measured: None,
        }
    }

    fn asks(&self) -> bool {
        !self.stream.requests.is_empty()
    }

    /// Issues the next request; says whether that ended a pass.
    fn step(&mut self, shared: &mut Shared) -> bool {
        let stream = self.stream;
        let (_, block) = stream.requests[self.at];
        let block = of_pass(block, self.passes + 2) | (self.program + 1) << PROGRAM_SHIFT;
        let (answered_ps, missed) = shared.request(self.issue_ps, block, self.ways);
        self.misses += u64::from(missed);
        let in_order_ps = self.answers_ps.back().map_or(answered_ps, |last| answered_ps.max(*last));
        self.answers_ps.push_back(in_order_ps);
        self.at += 1;
        let ended = self.at == stream.requests.len();
        if ended {
            self.at = 0;
            self.passes += 1;
            self.pass_ps_last = self.issue_ps - self.pass_start_ps;
            self.pass_start_ps = self.issue_ps;
        }
        let rest_ps = if ended { stream.rest_ps } else { 0 };
        let mut next_ps = self.issue_ps + rest_ps + stream.requests[self.at].0;
        if self.answers_ps.len() >= stream.window {
            next_ps = next_ps.max(self.answers_ps.pop_front().unwrap_or(0));
        }
        self.issue_ps = next_ps;
        ended
    }

    fn start(&mut self) {
        self.began = Some((self.pass_start_ps, self.passes, self.misses));
    }

    /// At the end of a pass: begins the measurement, or ends it if it has gone on for so long.
    fn note(&mut self, least_ps: u64) {
        let Some((began_ps, passes, misses)) = self.began else { return self.start() };
        let took_ps = self.pass_start_ps - began_ps;
        if self.measured.is_some() || took_ps < least_ps {
            return;
        }
        let count = (self.passes - passes) as f64;
        self.measured =
            Some(Measured { pass_ps: took_ps as f64 / count, misses: (self.misses - misses) as f64 / count });
    }
}
