//! `castell bench mpi`: one C program of collective calls (`benches/mpi/collectives.c`), on each MPI that is named, as it is and
//! under `castell mpi`, in turns. What a user of that MPI gains is one column, what castell is beside the best of them the other.

use crate::bar::bar;
use crate::collectives::{Plan, Timing};
use crate::peers::Peer;
use crate::report::{Doubts, Sample};
use crate::workload::Effort;
use anyhow::{Context as _, bail};
use castell_collectives::decision::Operation;
use serde::Serialize;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What of the command line is for this workload.
#[derive(clap::Args)]
pub struct MpiArgs {
    /// An MPI, as mpich=mpicc.mpich:mpiexec.mpich (repeatable)
    #[arg(long = "mpi", value_name = "NAME=MPICC:MPIRUN", help_heading = "For mpi and net")]
    pub mpis: Vec<String>,
    /// Folder of libcastell_mpi_*.so or libcastell_omp.so, if it is not that of castell's other libraries
    #[arg(long, value_name = "DIR", help_heading = "For mpi and omp")]
    pub libraries: Option<PathBuf>,
    /// Also with everything through castell, wherever the MPI is faster
    #[arg(long, help_heading = "For mpi")]
    always: bool,
}

/// Blocking calls.
const BLOCKING: [&str; 8] =
    ["barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall"];
/// Started ones, which are waited for at once.
const STARTED: [&str; 1] = ["allreduce"];
/// Blocks of everybody for everybody, on eight ranks: 64 MiB in all.
const BYTES: [u64; 6] = [8, 64, 512, 4096, 65_536, 1 << 20];

/// A case on an MPI.
#[derive(Debug, Serialize)]
struct Row {
    operation: String,
    started: bool,
    ranks: u32,
    bytes: u64,
    mpi: String,
    /// Nanoseconds of the MPI alone, of the same program with castell, and of all calls through castell.
    mpi_ns: f64,
    castell_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    always_ns: Option<f64>,
    /// With castell, over the MPI alone.
    ratio: f64,
    /// With castell, over the best MPI alone.
    ratio_to_best: f64,
}

/// How many ranks are measured where nobody says it.
pub const RANKS: [u32; 3] = [2, 4, 8];

/// Carries the command out.
pub fn run(
    args: &MpiArgs,
    operations: Option<&[Operation]>,
    bytes: Option<&[u64]>,
    ranks: Option<&[u32]>,
    effort: Effort,
) -> anyhow::Result<()> {
    if args.mpis.is_empty() {
        bail!("which MPIs? Each as `--mpi NAME=MPICC:MPIRUN`, as --mpi mpich=mpicc.mpich:mpiexec.mpich");
    }
    let mut peers = args.mpis.iter().map(|text| Peer::named(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let ways = ways(args)?;
    let ranks = ranks.unwrap_or(&RANKS);
    let plans = plans(operations, bytes.unwrap_or(&BYTES), effort.samples(10))?;
    let steps = ranks.len() * plans.len() * effort.rounds as usize * peers.len() * ways.len();
    let (progress, doubts) = (bar(steps as u64), Doubts::from_now());
    let mut rows = Vec::new();
    for &ranks in ranks {
        for plan in &plans {
            let taken = take_turns(plan, ranks, &mut peers, &ways, effort.rounds, &|| progress.inc(1))?;
            let names: Vec<&str> = peers.iter().map(Peer::name).collect();
            let new = rows_of(plan, ranks, &names, &taken)?;
            if !effort.json {
                progress.suspend(|| print(&new));
            }
            rows.extend(new);
        }
    }
    progress.finish_and_clear();
    if effort.json {
        doubts.print_json(&rows, |row| Some(row.ranks.into()))?;
    }
    Ok(())
}

/// What stands before the launcher: nothing, `castell mpi`, and the same with everything through castell.
fn ways(args: &MpiArgs) -> anyhow::Result<Vec<Vec<String>>> {
    let castell = std::env::current_exe().context("castell does not find itself")?;
    let mut door = vec![castell.to_string_lossy().into_owned(), "mpi".to_owned()];
    if let Some(folder) = &args.libraries {
        door.extend(["--libraries".to_owned(), folder.to_string_lossy().into_owned()]);
    }
    let with = |options: &[&str]| {
        door.iter().cloned().chain(options.iter().map(|&word| word.to_owned())).collect::<Vec<String>>()
    };
    let mut ways = vec![Vec::new(), with(&["--"])];
    if args.always {
        ways.push(with(&["--always", "--"]));
    }
    Ok(ways)
}

fn plans(operations: Option<&[Operation]>, bytes: &[u64], samples: u32) -> anyhow::Result<Vec<Plan>> {
    let named = |names: &[&str]| {
        let known =
            names.iter().map(|name| Operation::with_choice(name).context("an operation of castell's"));
        known.collect::<anyhow::Result<Vec<_>>>()
    };
    let plan = |operations, started| Plan {
        operations,
        bytes: bytes.to_vec(),
        timing: Timing { samples, budget_us: 1000, limit_ms: 100, in_a_row: false, started },
    };
    let blocking = operations.map_or_else(|| named(&BLOCKING), |named| Ok(named.to_vec()))?;
    let mut started = named(&STARTED)?;
    started.retain(|operation| blocking.contains(operation));
    let plans = [plan(blocking, false), plan(started, true)];
    Ok(plans.into_iter().filter(|plan| !plan.operations.is_empty()).collect())
}

/// Of each MPI and way, the rounds' samples of each case.
fn take_turns(
    plan: &Plan,
    ranks: u32,
    peers: &mut [Peer],
    ways: &[Vec<String>],
    rounds: u32,
    step: &dyn Fn(),
) -> anyhow::Result<Vec<Vec<Vec<Vec<Sample>>>>> {
    let cases = plan.cases().len();
    let mut taken = vec![vec![vec![Vec::new(); cases]; ways.len()]; peers.len()];
    for round in 0..rounds {
        for (peer, taken) in peers.iter_mut().zip(&mut taken) {
            for (way, taken) in ways.iter().zip(taken) {
                if round == 0 && !way.is_empty() {
                    check(peer, way, ranks)?;
                }
                let samples = plan.measure_peer_under(way, peer, ranks)?;
                taken.iter_mut().zip(samples).for_each(|(taken, sample)| taken.push(sample));
                step();
            }
        }
    }
    Ok(taken)
}

/// An error if the program would run without castell.
fn check(peer: &mut Peer, way: &[String], ranks: u32) -> anyhow::Result<()> {
    let mut words = way.to_vec();
    words.insert(2, "--dry-run".to_owned());
    words.extend(peer.words("collectives", ranks)?);
    let output = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || said.contains("runs without castell") {
        bail!("{}: {}", peer.name(), said.trim());
    }
    Ok(())
}

fn rows_of(
    plan: &Plan,
    ranks: u32,
    names: &[&str],
    taken: &[Vec<Vec<Vec<Sample>>>],
) -> anyhow::Result<Vec<Row>> {
    let median = |rounds: &[Sample]| {
        Sample::over_rounds(rounds).map(|sample| sample.median_ns).context("there is at least one round")
    };
    let mut rows = Vec::new();
    for (case, (operation, bytes)) in plan.cases().into_iter().enumerate() {
        let alone = taken.iter().map(|ways| median(&ways[0][case])).collect::<anyhow::Result<Vec<f64>>>()?;
        let best = alone.iter().copied().fold(f64::INFINITY, f64::min);
        for ((name, ways), mpi_ns) in names.iter().zip(taken).zip(alone) {
            let castell_ns = median(&ways[1][case])?;
            rows.push(Row {
                operation: operation.name().to_owned(),
                started: plan.timing.started,
                ranks,
                bytes,
                mpi: (*name).to_owned(),
                mpi_ns,
                castell_ns,
                always_ns: ways.get(2).map(|always| median(&always[case])).transpose()?,
                ratio: castell_ns / mpi_ns,
                ratio_to_best: castell_ns / best,
            });
        }
    }
    Ok(rows)
}

/// A line a case and MPI.
fn print(rows: &[Row]) {
    let width = rows.iter().map(|row| row.mpi.len()).max().unwrap_or(0);
    for case in rows.chunk_by(|a, b| (&a.operation, a.bytes) == (&b.operation, b.bytes)) {
        let Row { operation, started, ranks, bytes, .. } = &case[0];
        let started = if *started { ", started and waited for" } else { "" };
        println!(
            "{operation}{started}, {ranks} ranks, {bytes} bytes: us alone, with castell, ratio, to the best MPI"
        );
        for row in case {
            let always = row.always_ns.map(|ns| format!("   always {:.3}", ns / 1e3)).unwrap_or_default();
            println!(
                "  {:width$}  {:>11.3}  {:>11.3}  {:>5.2}  {:>5.2}{always}",
                row.mpi,
                row.mpi_ns / 1e3,
                row.castell_ns / 1e3,
                row.ratio,
                row.ratio_to_best
            );
        }
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_same_mpi_and_to_the_best() {
        let plan = plans(Some(&[Operation::Barrier]), &[8], 1).expect("a plan").remove(0);
        // An MPI alone and with castell, one case, one round.
        let ways = |alone: f64, with: f64| [alone, with].map(|ns| vec![vec![Sample::of(vec![ns])]]).to_vec();
        let taken = [ways(100.0, 50.0), ways(80.0, 160.0)];
        let rows = rows_of(&plan, 2, &["a", "b"], &taken).expect("rows");
        let ratios: Vec<(f64, f64)> = rows.iter().map(|row| (row.ratio, row.ratio_to_best)).collect();
        assert_eq!(ratios, [(0.5, 0.625), (2.0, 2.0)]);
        assert!(Peer::named("mpich").is_err() && Peer::named("a=nothing:/nowhere").is_err());
    }
}
