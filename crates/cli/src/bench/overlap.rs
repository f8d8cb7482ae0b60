//! `castell bench overlap`: a non-blocking allreduce beside a matrix multiplication (ESPGOAL, section 6.6), with and without
//! polling, castell beside the MPI implementations of this machine.

use super::collectives::candidate;
use super::collectives::ours::{barrier, in_group};
use super::peers::{self, Peer};
use super::report::{Measurement, print_json};
use super::{Params, Sample, load_tuning};
use anyhow::{Context as _, anyhow};
use castell_base::Rank;
use castell_collectives::decision::{Operation, Question};
use castell_comm::Comm;
use castell_comm::measure::Repeated;
use castell_comm::tuning::Tuning;
use castell_host::clock::now_ns;
use castell_host::shm::Segment;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Edge of a block, in elements.
const BLOCK: usize = 32;
/// What is measured, in the order of the columns.
const PHASES: [&str; 6] = ["multiply alone", "collective alone", "start", "multiply", "wait", "makespan"];
/// Where the phases of both together begin.
const TOGETHER: usize = 2;
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

/// One setting.
#[derive(Clone, Copy)]
struct Case {
    ranks: u32,
    bytes: u64,
    matrix: u32,
}

impl Case {
    fn params(self, polling: bool) -> Params {
        let params = Params::new().with("ranks", self.ranks).with("bytes", self.bytes);
        params.with("matrix", self.matrix.next_multiple_of(BLOCK as u32)).with("polling", polling)
    }
}

/// A subject's times for a case, with or without polling: a sample a phase.
struct Row {
    subject: String,
    polling: bool,
    phases: Vec<Sample>,
}

/// Carries the command out.
pub fn run(
    args: &OverlapArgs,
    bytes: Option<&[u64]>,
    ranks: Option<&[u32]>,
    with_peers: bool,
    json: bool,
    rounds: u32,
    samples: u32,
) -> anyhow::Result<ExitCode> {
    let tuning = load_tuning();
    let mut peers = peers::wanted(with_peers)?;
    let mut cases = Vec::new();
    for &ranks in ranks.unwrap_or(&[2]) {
        for &bytes in bytes.unwrap_or(&[1 << 20]) {
            cases.extend(args.matrix.iter().map(|&matrix| Case { ranks, bytes, matrix }));
        }
    }
    let progress = indicatif::ProgressBar::new((cases.len() * rounds as usize * (1 + peers.len())) as u64);
    let mut all = Vec::new();
    for case in cases {
        // Subject by subject, without and with polling, phase by phase: the rounds' samples.
        let mut taken = vec![vec![vec![Vec::new(); PHASES.len()]; 2]; 1 + peers.len()];
        for _ in 0..rounds {
            let ours = ours(case, &tuning, samples)?;
            keep(&mut taken[0], ours);
            progress.inc(1);
            for (peer, taken) in peers.iter_mut().zip(&mut taken[1..]) {
                keep(taken, theirs(peer, case, samples)?);
                progress.inc(1);
            }
        }
        let names = std::iter::once("castell").chain(peers.iter().map(Peer::name));
        for (subject, taken) in names.zip(&taken) {
            for (polling, phases) in [false, true].into_iter().zip(taken) {
                let phases = phases.iter().filter_map(|rounds| Sample::over_rounds(rounds)).collect();
                all.push((case, Row { subject: subject.to_owned(), polling, phases }));
            }
        }
    }
    progress.finish_and_clear();
    if json {
        print_rows_json(&all)?
    } else {
        print_table(&all)
    }
    Ok(ExitCode::SUCCESS)
}

/// Samples of a round: without and with polling, phase by phase.
type Taken = [Vec<Sample>; 2];

fn keep(all: &mut [Vec<Vec<Sample>>], taken: Taken) {
    for (all, taken) in all.iter_mut().zip(taken) {
        all.iter_mut().zip(taken).for_each(|(all, sample)| all.push(sample));
    }
}

fn theirs(peer: &mut Peer, case: Case, samples: u32) -> anyhow::Result<Taken> {
    let arguments = Params::new().with("bytes", case.bytes).with("matrix", case.matrix);
    let lines = peer.measure_lines("overlap", case.ranks, &arguments, samples)?;
    let of = |polling: bool| {
        let sample = |phase: &&str| {
            let params = case.params(polling).with("phase", *phase);
            let line = lines.iter().find(|(found, _)| *found == params);
            line.map(|(_, sample)| sample.clone())
                .with_context(|| format!("{} says nothing of {params}", peer.name()))
        };
        PHASES.iter().map(sample).collect::<anyhow::Result<Vec<Sample>>>()
    };
    Ok([of(false)?, of(true)?])
}

fn ours(case: Case, tuning: &Tuning, samples: u32) -> anyhow::Result<Taken> {
    let samples = samples as usize;
    let per_rank = 2 * PHASES.len() * samples;
    let table = Segment::create("castell-overlap", 8 * case.ranks as usize * per_rank)?;
    let entry = |rank: Rank, polling: usize, phase: usize, sample: usize| {
        &table.words()[rank.index() * per_rank + (polling * PHASES.len() + phase) * samples + sample]
    };
    let chosen = candidate(&tuning.decisions, &Question::new(Operation::Allreduce, case.ranks, case.bytes));
    let collective = chosen.collective(case.ranks)?;
    in_group(case.ranks, &|comm: &Comm| {
        let barrier = barrier(comm)?;
        let wait = || barrier.batch(comm, 1).map_err(|error| anyhow!(error));
        let run = Repeated::new(comm, Operation::Allreduce, &collective).map_err(|error| anyhow!(error))?;
        let mut matrices = Matrices::new(case.matrix as usize);
        for polling in 0..2 {
            for round in 0..WARM_UP + samples {
                wait()?;
                let start = now_ns();
                matrices.multiply(|| {});
                let alone = (now_ns() - start) as f64;
                wait()?;
                let [started, _, waited] = run.beside(comm, |_| {}).map_err(|error| anyhow!(error))?;
                let collective = started + waited;
                wait()?;
                let compute = |done: &dyn Fn() -> bool| match polling {
                    0 => matrices.multiply(|| {}),
                    _ => matrices.multiply(|| {
                        std::hint::black_box(done());
                    }),
                };
                let [started, multiplied, waited] =
                    run.beside(comm, compute).map_err(|error| anyhow!(error))?;
                let phases = [alone, collective, started, multiplied, waited, started + multiplied + waited];
                let Some(sample) = round.checked_sub(WARM_UP) else { continue };
                for (phase, ns) in phases.into_iter().enumerate() {
                    entry(comm.rank(), polling, phase, sample).store(ns.to_bits(), Ordering::Release);
                }
            }
        }
        wait().map(|_| ())
    })?;
    let longest = |polling, phase, sample| {
        let ns = |rank| f64::from_bits(entry(Rank(rank), polling, phase, sample).load(Ordering::Acquire));
        (0..case.ranks).map(ns).fold(0.0, f64::max)
    };
    let of = |polling: usize| {
        let phase = |phase: usize| Sample::of((0..samples).map(|at| longest(polling, phase, at)).collect());
        (0..PHASES.len()).map(phase).collect()
    };
    Ok([of(0), of(1)])
}

type Block = [[f32; BLOCK]; BLOCK];

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
        let matrix = |value: f32| vec![[[value; BLOCK]; BLOCK]; blocks * blocks];
        Matrices { blocks, a: matrix(1e-3), b: matrix(1e-3), c: matrix(0.0) }
    }

    /// Multiplies, and calls `between` after each two blocks.
    fn multiply(&mut self, between: impl Fn()) {
        let Matrices { blocks, a, b, c } = self;
        for i in 0..*blocks {
            for j in 0..*blocks {
                for k in 0..*blocks {
                    multiply_blocks(&a[i * *blocks + k], &b[k * *blocks + j], &mut c[i * *blocks + j]);
                    between();
                }
            }
        }
    }
}

fn multiply_blocks(a: &Block, b: &Block, c: &mut Block) {
    for (a, c) in a.iter().zip(c) {
        for (factor, b) in a.iter().zip(b) {
            for (b, c) in b.iter().zip(c.iter_mut()) {
                *c += factor * b;
            }
        }
    }
}

fn print_rows_json(all: &[(Case, Row)]) -> anyhow::Result<()> {
    let rows = all.iter().flat_map(|(case, row)| {
        PHASES.iter().zip(&row.phases).map(|(phase, sample)| {
            let params = case.params(row.polling).with("phase", *phase);
            Measurement::new("overlap", row.subject.clone(), &params, sample.clone())
        })
    });
    print_json(&rows.collect::<Vec<_>>())
}

/// Times in microseconds. Inflation: the multiplication beside the collective over that alone. Hidden: how much of the
/// collective's time the makespan does not show.
fn print_table(all: &[(Case, Row)]) {
    let width = all.iter().map(|(_, row)| row.subject.len()).max().unwrap_or(0);
    let mut before = None;
    for (case, row) in all {
        let params = case.params(false);
        if before.replace((case.ranks, case.bytes, case.matrix))
            != Some((case.ranks, case.bytes, case.matrix))
        {
            let edge = params.number("matrix").unwrap_or(0);
            println!(
                "allreduce of {} bytes on {} ranks beside {edge} x {edge} floats; medians in us",
                case.bytes, case.ranks
            );
            println!(
                "  {:width$} {:>8} {:>10} {:>11} {:>8} {:>10} {:>10} {:>8} {:>10} {:>7}",
                "subject",
                "polling",
                "multiply",
                "collective",
                "start",
                "multiply",
                "inflation",
                "wait",
                "makespan",
                "hidden"
            );
        }
        let us = |phase: usize| row.phases[phase].median_ns / 1e3;
        let [alone, collective] = [0, 1].map(us);
        let [start, multiply, wait, makespan] = [0, 1, 2, 3].map(|phase| us(TOGETHER + phase));
        let hidden = 100.0 * (1.0 - (makespan - alone) / collective);
        println!(
            "  {:width$} {:>8} {alone:>10.1} {collective:>11.1} {start:>8.1} {multiply:>10.1} {:>10.3} {wait:>8.1} {makespan:>10.1} {hidden:>6.0}%",
            row.subject,
            if row.polling { "yes" } else { "no" },
            multiply / alone,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_make_a_product() {
        let mut matrices = Matrices::new(33);
        assert_eq!(matrices.blocks, 2);
        let calls = std::cell::Cell::new(0);
        matrices.multiply(|| calls.set(calls.get() + 1));
        assert_eq!(calls.get(), 8);
        let expected = 64.0 * 1e-6;
        assert!(matrices.c.iter().flatten().flatten().all(|c| (c - expected).abs() < 1e-9));
    }

    #[test]
    fn peers_report_every_phase() {
        let case = Case { ranks: 2, bytes: 4096, matrix: 32 };
        for mut peer in peers::peers().expect("launchers tell their versions") {
            let [without, with] = theirs(&mut peer, case, 2).expect("the program runs");
            assert_eq!((without.len(), with.len()), (PHASES.len(), PHASES.len()));
        }
    }
}
