//! `castell bench overlap`: a non-blocking allreduce beside a matrix multiplication (ESPGOAL, section 6.6), with and without
//! polling, with and without a rank that comes late, castell beside the MPI implementations of this machine.

use crate::bar::bar;
use crate::collectives::ours::{Elements, barrier, in_group};
use crate::collectives::{CopyBounds, copy_bounds};
use crate::measure::Repeated;
use crate::peers::{self, Peer};
use crate::report::{Doubts, Measurement, Params, Sample, print_json};
use crate::workload::Effort;
use anyhow::{Context as _, anyhow};
use castell_base::Rank;
use castell_collectives::decision::Operation;
use castell_comm::collective::{Call, Reduction};
use castell_comm::{Comm, Communicator};
use castell_host::clock::now_ns;
use castell_host::shm::Segment;
use std::sync::atomic::Ordering;

/// Edge of a block, in elements.
const BLOCK: usize = 32;
/// Castell's subjects, and whether all ranks can read their buffers.
const OURS: [(&str, bool); 2] = [("castell", false), ("castell, shared buffers", true)];
/// What is measured, in the order of the columns.
const PHASES: [&str; 7] =
    ["multiply alone", "collective alone", "start", "multiply", "wait", "makespan", "lateness"];
/// Where the phases of both together begin.
const TOGETHER: usize = 2;
const MAKESPAN: usize = 5;
/// Rounds that nobody looks at.
const WARM_UP: usize = 2;

/// What of the command line is for this workload.
#[derive(clap::Args)]
#[command(next_help_heading = "For overlap")]
pub struct OverlapArgs {
    /// Edges of the matrices
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [192, 320], value_parser = clap::value_parser!(u32).range(1..=8192))]
    matrix: Vec<u32>,
}

/// How it is measured.
#[derive(Clone, Copy)]
struct Setting {
    /// Whether it is asked after each block if the collective is done.
    polling: bool,
    /// Whether the last rank multiplies half of its blocks before it starts the collective.
    late: bool,
}

const SETTINGS: [Setting; 4] = [
    Setting { polling: false, late: false },
    Setting { polling: true, late: false },
    Setting { polling: false, late: true },
    Setting { polling: true, late: true },
];

/// What is measured.
#[derive(Clone, Copy, PartialEq)]
struct Case {
    ranks: u32,
    bytes: u64,
    matrix: u32,
}

impl Case {
    fn params(self, setting: Setting) -> Params {
        let params = Params::new().with("ranks", self.ranks).with("bytes", self.bytes);
        let params = params.with("matrix", self.matrix.next_multiple_of(BLOCK as u32));
        params.with("polling", setting.polling).with("late", setting.late)
    }
}

/// A subject's times for a case in a setting: a sample a phase.
struct Row {
    subject: String,
    setting: Setting,
    phases: Vec<Sample>,
}

/// How many ranks are measured where nobody says it.
pub const RANKS: [u32; 1] = [2];

/// Carries the command out.
pub fn run(
    args: &OverlapArgs,
    bytes: Option<&[u64]>,
    ranks: Option<&[u32]>,
    effort: Effort,
) -> anyhow::Result<()> {
    let (rounds, samples) = (effort.rounds, effort.samples(20));
    let mut peers = peers::wanted(effort.peers)?;
    let mut cases = Vec::new();
    for &ranks in ranks.unwrap_or(&RANKS) {
        for &bytes in bytes.unwrap_or(&[1 << 20]) {
            cases.extend(args.matrix.iter().map(|&matrix| Case { ranks, bytes, matrix }));
        }
    }
    let progress = bar((cases.len() * rounds as usize * (1 + peers.len())) as u64);
    let (mut all, doubts) = (Vec::new(), Doubts::from_now());
    for case in cases {
        // Subject by subject, setting by setting, phase by phase: the rounds' samples.
        let mut taken = vec![vec![vec![Vec::new(); PHASES.len()]; SETTINGS.len()]; OURS.len() + peers.len()];
        let mut copies = Vec::new();
        for _ in 0..rounds {
            for (taken, (_, is_shared)) in taken.iter_mut().zip(OURS) {
                keep(taken, ours(case, is_shared, samples)?);
            }
            copies.extend(copy_bounds(Operation::Allreduce, case.bytes, case.ranks)?);
            progress.inc(1);
            for (peer, taken) in peers.iter_mut().zip(&mut taken[OURS.len()..]) {
                keep(taken, theirs(peer, case, samples)?);
                progress.inc(1);
            }
        }
        let names: Vec<&str> =
            OURS.map(|(name, _)| name).into_iter().chain(peers.iter().map(Peer::name)).collect();
        let mut rows = Vec::new();
        for (at, setting) in SETTINGS.into_iter().enumerate() {
            for (subject, taken) in names.iter().zip(&taken) {
                let phases = taken[at].iter().filter_map(|rounds| Sample::over_rounds(rounds)).collect();
                rows.push(Row { subject: (*subject).to_owned(), setting, phases });
            }
        }
        if effort.json {
            all.push((case, rows));
        } else {
            progress.suspend(|| print_table(case, &rows, &copies));
        }
    }
    progress.finish_and_clear();
    if effort.json { print_rows_json(&all, &doubts) } else { Ok(()) }
}

/// Samples of a round: setting by setting, phase by phase.
type Taken = Vec<Vec<Sample>>;

fn keep(all: &mut [Vec<Vec<Sample>>], taken: Taken) {
    for (all, taken) in all.iter_mut().zip(taken) {
        all.iter_mut().zip(taken).for_each(|(all, sample)| all.push(sample));
    }
}

fn theirs(peer: &mut Peer, case: Case, samples: u32) -> anyhow::Result<Taken> {
    let arguments = Params::new().with("bytes", case.bytes).with("matrix", case.matrix);
    let lines = peer.measure_lines("overlap", case.ranks, &arguments, samples)?;
    let of = |setting: Setting| {
        let sample = |phase: &&str| {
            let params = case.params(setting).with("phase", *phase);
            let line = lines.iter().find(|(found, _)| *found == params);
            line.map(|(_, sample)| sample.clone())
                .with_context(|| format!("{} says nothing of {params}", peer.name()))
        };
        PHASES.iter().map(sample).collect::<anyhow::Result<Vec<Sample>>>()
    };
    SETTINGS.into_iter().map(of).collect()
}

fn ours(case: Case, is_shared: bool, samples: u32) -> anyhow::Result<Taken> {
    let samples = samples as usize;
    let per_rank = SETTINGS.len() * PHASES.len() * samples;
    let table = Segment::create("castell-overlap", 8 * case.ranks as usize * per_rank)?;
    let entry = |rank: Rank, setting: usize, phase: usize, sample: usize| {
        &table.words()[rank.index() * per_rank + (setting * PHASES.len() + phase) * samples + sample]
    };
    in_group(case.ranks, &|comm: &Comm| {
        let (barrier, vectors) = (barrier(comm)?, Vectors::new(comm, is_shared, case.bytes)?);
        let matrices = Matrices::new(case.matrix as usize);
        let mut rank = One { comm, barrier, world: comm.world(), vectors, matrices };
        for (at, setting) in SETTINGS.into_iter().enumerate() {
            for round in 0..WARM_UP + samples {
                let phases = rank.phases(setting)?;
                let Some(sample) = round.checked_sub(WARM_UP) else { continue };
                for (phase, ns) in phases.into_iter().enumerate() {
                    entry(comm.rank(), at, phase, sample).store(ns.to_bits(), Ordering::Release);
                }
            }
        }
        rank.synchronize()
    })?;
    let longest = |setting, phase, sample| {
        let ns = |rank| f64::from_bits(entry(Rank(rank), setting, phase, sample).load(Ordering::Acquire));
        (0..case.ranks).map(ns).fold(0.0, f64::max)
    };
    let of = |setting: usize| {
        let phase = |phase: usize| Sample::of((0..samples).map(|at| longest(setting, phase, at)).collect());
        (0..PHASES.len()).map(phase).collect()
    };
    Ok((0..SETTINGS.len()).map(of).collect())
}

/// A rank of castell's group.
struct One<'a> {
    comm: &'a Comm,
    barrier: Repeated,
    /// What was compiled for its calls is kept with it.
    world: Communicator,
    vectors: Vectors,
    matrices: Matrices,
}

/// What the ranks add: doubles, or bytes where the vectors are not made of doubles.
enum Vectors {
    Doubles([Elements<f64>; 2]),
    Bytes([Elements<u8>; 2]),
}

impl Vectors {
    fn new(comm: &Comm, is_shared: bool, bytes: u64) -> anyhow::Result<Vectors> {
        let bytes = bytes as usize;
        Ok(if bytes.is_multiple_of(8) {
            let vector = |value| Elements::new(comm, is_shared, bytes / 8, value);
            Vectors::Doubles([vector(1.0)?, vector(0.0)?])
        } else {
            let vector = |value| Elements::new(comm, is_shared, bytes, value);
            Vectors::Bytes([vector(1)?, vector(0)?])
        })
    }

    fn call(&mut self) -> Call<'_> {
        match self {
            Vectors::Doubles([input, output]) => Call::allreduce(input, output, Reduction::Sum),
            Vectors::Bytes([input, output]) => Call::allreduce(input, output, Reduction::Sum),
        }
    }

    /// Starts the call, lets `compute` run, and waits: nanoseconds of the start, of the computation and of the wait.
    fn beside(
        &mut self,
        world: &Communicator,
        compute: impl FnOnce(&dyn Fn() -> bool),
    ) -> anyhow::Result<[f64; 3]> {
        let call = self.call();
        let start = now_ns();
        world.scope(|scope| {
            let request = scope.start(call)?;
            let started = now_ns();
            compute(&|| request.is_done());
            let computed = now_ns();
            request.wait()?;
            let waited = now_ns();
            Ok([started - start, computed - started, waited - computed].map(|ns| ns as f64))
        })
    }
}

impl One<'_> {
    /// Nanoseconds of each phase.
    fn phases(&mut self, setting: Setting) -> anyhow::Result<[f64; PHASES.len()]> {
        self.synchronize()?;
        let blocks = self.matrices.blocks;
        let start = now_ns();
        self.matrices.multiply(0..blocks, || {});
        let alone = (now_ns() - start) as f64;
        self.synchronize()?;
        let [started, _, waited] = self.vectors.beside(&self.world, |_| {})?;
        let collective = started + waited;
        self.synchronize()?;
        let One { comm, world, vectors, matrices, .. } = self;
        let is_late = setting.late && comm.rank().0 + 1 == comm.size();
        let before = if is_late { blocks / 2 } else { 0 };
        let start = now_ns();
        matrices.multiply(0..before, || {});
        let late = if before > 0 { (now_ns() - start) as f64 } else { 0.0 };
        let compute = |done: &dyn Fn() -> bool| match setting.polling {
            false => matrices.multiply(before..blocks, || {}),
            true => matrices.multiply(before..blocks, || {
                std::hint::black_box(done());
            }),
        };
        let [started, multiplied, waited] = vectors.beside(world, compute)?;
        let makespan = late + started + multiplied + waited;
        Ok([alone, collective, started, late + multiplied, waited, makespan, late])
    }

    fn synchronize(&self) -> anyhow::Result<()> {
        self.barrier.batch(self.comm, 1).map(|_| ()).map_err(|error| anyhow!(error))
    }
}

/// Aligned, since whether rows cross cache lines would change the time by a twentieth from run to run.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Block([[f32; BLOCK]; BLOCK]);

/// Two matrices in blocks and their product, to which every multiplication adds.
struct Matrices {
    blocks: usize,
    a: Vec<Block>,
    b: Vec<Block>,
    c: Vec<Block>,
}

impl Matrices {
    /// Matrices of at least `edge` x `edge` elements, in whole blocks.
    fn new(edge: usize) -> Matrices {
        let blocks = edge.div_ceil(BLOCK);
        let matrix = |value: f32| vec![Block([[value; BLOCK]; BLOCK]); blocks * blocks];
        Matrices { blocks, a: matrix(1e-3), b: matrix(1e-3), c: matrix(0.0) }
    }

    /// Multiplies for these rows of blocks of the product, and calls `between` after each two blocks.
    fn multiply(&mut self, rows: std::ops::Range<usize>, between: impl Fn()) {
        let Matrices { blocks, a, b, c } = self;
        for i in rows {
            for j in 0..*blocks {
                for k in 0..*blocks {
                    multiply_blocks(&a[i * *blocks + k], &b[k * *blocks + j], &mut c[i * *blocks + j]);
                    between();
                }
            }
        }
    }
}

/// Not inlined: as arguments the three are known not to overlap, without which the inner loop runs a number at a time. A row of
/// the product stays in registers, as it does in what C compilers make of the peers' loops: both sides compute at one speed.
#[inline(never)]
fn multiply_blocks(a: &Block, b: &Block, c: &mut Block) {
    for (a, c) in a.0.iter().zip(&mut c.0) {
        let mut row = *c;
        for (factor, b) in a.iter().zip(&b.0) {
            for at in 0..BLOCK {
                row[at] += factor * b[at];
            }
        }
        *c = row;
    }
}

fn print_rows_json(all: &[(Case, Vec<Row>)], doubts: &Doubts) -> anyhow::Result<()> {
    let mut measurements = Vec::new();
    for (case, row) in all.iter().flat_map(|(case, rows)| rows.iter().map(move |row| (case, row))) {
        for (phase, sample) in PHASES.iter().zip(&row.phases) {
            let params = case.params(row.setting).with("phase", *phase);
            let measured = Measurement::new("overlap", row.subject.clone(), &params, sample.clone());
            measurements.push(measured.doubted(doubts.of(Some(case.ranks.into()))));
        }
    }
    print_json(&measurements)
}

/// Times in microseconds. Inflation: the multiplication beside the collective over that alone. Hidden: how much of the
/// collective's time, and of the time by which a rank is late, the makespan does not show.
fn print_table(case: Case, rows: &[Row], copies: &[CopyBounds]) {
    let width = rows.iter().map(|row| row.subject.len()).max().unwrap_or(0);
    let edge = case.matrix.next_multiple_of(BLOCK as u32);
    println!(
        "allreduce of {} bytes on {} ranks beside {edge} x {edge} floats; medians in us",
        case.bytes, case.ranks
    );
    println!(
        "  {:width$} {:>7} {:>8} {:>10} {:>10} {:>8} {:>10} {:>9} {:>8} {:>10} {:>7} {:>15}",
        "subject",
        "polling",
        "lateness",
        "multiply",
        "collective",
        "start",
        "multiply",
        "inflation",
        "wait",
        "makespan",
        "hidden",
        "lateness hidden"
    );
    // What a late rank costs, beside the same without one.
    let in_time = |row: &Row| {
        let same = |other: &&Row| {
            other.subject == row.subject
                && !other.setting.late
                && other.setting.polling == row.setting.polling
        };
        rows.iter().find(same).map(|other| other.phases[MAKESPAN].median_ns)
    };
    for row in rows {
        let us = |phase: usize| row.phases[phase].median_ns / 1e3;
        let [alone, collective] = [0, 1].map(us);
        let [start, multiply, wait, makespan, late] = [0, 1, 2, 3, 4].map(|phase| us(TOGETHER + phase));
        let hidden = 100.0 * (1.0 - (makespan - alone) / (collective + late));
        let more = in_time(row).map(|ns| makespan - ns / 1e3).filter(|_| row.setting.late);
        let lateness_hidden = more.map(|more| format!("{:.0}%", 100.0 * (1.0 - more / late)));
        println!(
            "  {:width$} {:>7} {late:>8.1} {alone:>10.1} {collective:>10.1} {start:>8.1} {multiply:>10.1} {:>9.3} {wait:>8.1} {makespan:>10.1} {hidden:>6.0}% {:>15}",
            row.subject,
            if row.setting.polling { "yes" } else { "no" },
            multiply / alone,
            lateness_hidden.unwrap_or_default(),
        );
    }
    let of = |which: fn(&CopyBounds) -> &Sample| {
        let rounds: Vec<Sample> = copies.iter().map(|bounds| which(bounds).clone()).collect();
        Sample::over_rounds(&rounds).map(|sample| sample.median_ns / 1e3)
    };
    let bounds = of(|bounds| &bounds.in_and_out).zip(of(|bounds| &bounds.once));
    if let (Some((in_and_out, once)), Some(first)) = (bounds, rows.first()) {
        let alone = first.phases[0].median_ns / 1e3;
        println!(
            "  the copies alone, in and out: {in_and_out:.1}; computation and copies: {:.1}",
            alone + in_and_out
        );
        println!(
            "  the copies alone, shared buffers: {once:.1}; computation and copies: {:.1}",
            alone + once
        );
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_make_a_product() {
        let mut matrices = Matrices::new(33);
        assert_eq!(matrices.blocks, 2);
        let calls = std::cell::Cell::new(0);
        matrices.multiply(0..1, || {});
        matrices.multiply(1..2, || calls.set(calls.get() + 1));
        assert_eq!(calls.get(), 4);
        let expected = 64.0 * 1e-6;
        let mut all = matrices.c.iter().flat_map(|block| block.0.as_flattened());
        assert!(all.all(|c| (c - expected).abs() < 1e-9));
    }

    #[test]
    fn peers_report_every_phase() {
        let case = Case { ranks: 2, bytes: 4096, matrix: 32 };
        for mut peer in peers::peers().expect("launchers tell their versions") {
            let taken = theirs(&mut peer, case, 2).expect("the program runs");
            assert_eq!(taken.len(), SETTINGS.len());
            assert!(taken.iter().all(|phases| phases.len() == PHASES.len()));
        }
    }
}
