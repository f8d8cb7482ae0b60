//! The command's arguments, and who carries them out.

use crate::peers::{self, PeerSubject};
use crate::report::{Measurement, Report};
use crate::workload::{Effort, Workload, measure};
use crate::{
    collectives, joined, localops, messages, mpi, net, omp, overlap, parse, pingpong, progress, queues, sim,
    sockets, startup, tasks,
};
use anyhow::Context as _;
use castell_host::conditions::{Conditions, Setup};
use std::process::ExitCode;

/// Measure this machine, side by side with peers
#[derive(clap::Args)]
#[command(after_help = "Examples:
  castell bench pingpong                  # beside the MPIs found here
  castell bench collectives --ops allreduce,barrier --ranks 2,4 --bytes 8,4096
  castell bench collectives --no-peers --algorithm all --ops bcast --bytes 65536
  castell bench collectives --ops allreduce --ranks 4 --svg allreduce.svg   # a line a subject over sizes, also .png, .pdf
  castell bench overlap --matrix 192      # a collective beside a computation
  castell bench mpi --mpi ompi=mpicc.openmpi:mpirun.openmpi --ranks 2   # that MPI with castell mpi and without
  castell lab 4 -- castell bench net --json   # over TCP, on the hosts of a lab, beside the MPIs found here
  castell bench net --hosts a,b --net tcp,esp=eth0   # on these, by ssh
  castell bench tasks chain fib --json    # beside libgomp, oneTBB, rayon, …
  castell bench metg --workers 2          # how small tasks may be (Task Bench)
  castell bench omp fib wave --json       # an OpenMP program, its tasks on castell and on libgomp
  castell launch -n 4 --isolate 4 -- castell bench pingpong --json   # between ranks of that job; messages, too
  castell bench omp --only-programs --bots ~/bots --program './app 100'   # whole programs

On a machine that is busy with something else, compare only what one run says.")]
pub struct Args {
    /// What to measure
    #[arg(value_parser = names())]
    workload: String,
    /// For tasks and omp: which programs, with their sizes, as chain or axpy:block=1024 (default: all)
    #[arg(value_name = "PROGRAM")]
    programs: Vec<tasks::Case>,
    /// Print JSON: one object a case and subject
    #[arg(long)]
    json: bool,
    /// Measure the peers on this machine too: MPI implementations, task runtimes (the default)
    #[arg(long, overrides_with = "no_peers")]
    peers: bool,
    /// Leave the peers out
    #[arg(long)]
    no_peers: bool,
    /// Samples a round, case and subject (default: the workload's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
    /// Rounds in which the subjects take turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Sizes to measure, as 8,4096 (default: the workload's)
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    bytes: Option<Vec<u64>>,
    #[command(flatten)]
    collectives: collectives::CollectivesArgs,
    #[command(flatten)]
    mpi: mpi::MpiArgs,
    #[command(flatten)]
    net: net::NetArgs,
    #[command(flatten)]
    overlap: overlap::OverlapArgs,
    #[command(flatten)]
    sim: sim::SimArgs,
    #[command(flatten)]
    tasks: tasks::TaskArgs,
    #[command(flatten)]
    omp: omp::OmpArgs,
}

/// The workloads that castell can measure.
const WORKLOADS: [&dyn Workload; 8] = [
    &pingpong::PingPong,
    &messages::Messages,
    &localops::LocalOps,
    &queues::Queues,
    &startup::StartUp,
    &progress::ProgressWays,
    &parse::Parse,
    &sockets::Sockets,
];

/// The workloads' names, and those that go their own ways.
fn names() -> Vec<&'static str> {
    WORKLOADS
        .iter()
        .map(|workload| workload.name())
        .chain(["collectives", "mpi", "net", "overlap", "sim", "tasks", "metg", "omp"])
        .collect()
}

/// Carries the command out; what was measured comes back, as far as it is rows of this crate's reports.
///
/// # Errors
/// Whatever hinders it.
pub fn run(args: Args) -> anyhow::Result<(ExitCode, Vec<Measurement>)> {
    if !args.programs.is_empty() && !["tasks", "omp"].contains(&args.workload.as_str()) {
        anyhow::bail!("only `castell bench tasks` and `castell bench omp` take the names of programs");
    }
    let Args { json, rounds, samples, .. } = args;
    let effort = Effort { peers: !args.no_peers, json, rounds, samples };
    let (bytes, ranks) = (args.bytes.as_deref(), args.sim.ranks.as_deref());
    let conditions = Conditions::before(Setup { ranks: 1, is_bound: true });
    let none = |()| Vec::new();
    let rows = match args.workload.as_str() {
        "tasks" => tasks::run(&args.programs, &args.tasks, effort).map(none),
        "metg" => tasks::metg::run(&args.tasks, effort).map(none),
        "omp" => {
            omp::run(&args.omp, args.mpi.libraries.as_deref(), &args.programs, args.tasks.workers, effort)
                .map(none)
        }
        "sim" => sim::run(&args.sim, effort).map(none),
        "collectives" => collectives::run(&args.collectives, bytes, ranks, effort),
        "mpi" => mpi::run(&args.mpi, args.collectives.ops.as_deref(), bytes, ranks, effort).map(none),
        "net" => net::run(&args.net, &args.mpi.mpis, args.collectives.ops.as_deref(), bytes, effort),
        "overlap" => overlap::run(&args.overlap, bytes, ranks, effort).map(none),
        name => {
            let workload = WORKLOADS.iter().find(|workload| workload.name() == name);
            let workload = *workload.context("clap accepts only the names of workloads")?;
            if joined::is_rank() {
                return joined::run(workload, bytes, effort);
            }
            in_turns(workload, bytes, effort)
        }
    }?;
    // A child of this command has its parent say it.
    let mut doubts = if args.sim.is_child() { Vec::new() } else { conditions.after() };
    doubts.extend(match args.workload.as_str() {
        "sim" => None,
        "tasks" | "metg" | "omp" => conditions.crowd_of(args.tasks.workers, "worker", "threads"),
        "mpi" => conditions.crowd_of(most(ranks.unwrap_or(&mpi::RANKS)), "rank", "processes"),
        "overlap" => conditions.crowd_of(most(ranks.unwrap_or(&overlap::RANKS)), "rank", "processes"),
        _ => {
            let ranks = rows.iter().filter_map(|row| row.params.number("ranks")).max();
            conditions.crowd_of(ranks.unwrap_or(1) as u32, "rank", "processes")
        }
    });
    for doubt in doubts {
        castell_host::say(&format!("warning: {}", doubt.text));
    }
    Ok((ExitCode::SUCCESS, rows))
}

fn most(ranks: &[u32]) -> u32 {
    ranks.iter().copied().max().unwrap_or(1)
}

/// Castell, plain code and the MPI implementations take turns.
fn in_turns(
    workload: &dyn Workload,
    bytes: Option<&[u64]>,
    effort: Effort,
) -> anyhow::Result<Vec<Measurement>> {
    let mut subjects = workload.subjects()?;
    if let Some(ranks) = workload.peer_ranks().filter(|_| effort.peers) {
        let peers = peers::wanted(true)?;
        subjects.extend(peers.into_iter().map(|peer| PeerSubject::boxed(peer, workload.name(), ranks)));
    }
    let samples = effort.samples(workload.samples());
    let cases = workload.cases(bytes);
    let steps = cases.len() as u64 * u64::from(effort.rounds) * subjects.len() as u64;
    let mut report = Report::new(effort.json, steps);
    for case in &cases {
        let rows = measure(workload.name(), case, &mut subjects, effort.rounds, samples, &|| report.step())?;
        report.rows(rows);
    }
    report.end()
}
