//! `castell tasks`: what was recorded of a program's tasks, run again on machines that are described.

mod timeline;

use crate::source;
use crate::timeline::TimelineArgs;
use anyhow::{Context as _, bail, ensure};
use castell_base::Rank;
use castell_bench::bar::bar;
use castell_goal::graph::Graph;
use castell_goal::op::Op;
use castell_sched::program::Pieces;
use castell_sched::simulate::Costs;
use castell_sched::simulate::{Worked, simulate_watched};
use castell_sched::{Options, Topology};
use clap::Subcommand;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Pieces that the bar goes on by: looking at the clock for each would take as long as simulating it.
const AT_A_TIME: usize = 1 << 12;

/// Recorded tasks in virtual time
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say how long a recorded graph takes on other machines under a scheduler
    #[command(after_help = "\
Examples:
  CASTELL_TASKS_RECORD=g.goal ./program         # records
  castell tasks simulate g.goal --machine cpu:2 --machine 'numa:2 cpu:24'
  castell tasks simulate g.goal --machine cpu:48 --scheduler central --json
  castell tasks simulate g.goal --machine cpu:8 --timeline g.svg     # which processor ran what, and what the end waited for")]
    Simulate(SimulateArgs),
}

#[derive(clap::Args)]
struct SimulateArgs {
    /// A graph of one rank: calcs, and what they wait for
    #[arg(value_name = "FILE")]
    graph: PathBuf,
    /// A machine, as "cpu:8" or "numa:2 cpu:24" (24 on each of 2 NUMA nodes); several times: each is tried
    #[arg(long, value_name = "MACHINE", default_values_t = ["cpu:1", "cpu:2", "cpu:4", "cpu:8", "numa:2 cpu:24"].map(str::to_owned))]
    machine: Vec<String>,
    /// The scheduler, as tree, tree:fifo,threshold=20, central or delegation; several times: each is tried
    #[arg(long, value_name = "NAME", default_values_t = ["tree".to_owned()])]
    scheduler: Vec<String>,
    /// What is left to chance depends on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Scheduling costs nothing: what the graph itself allows
    #[arg(long)]
    free: bool,
    /// Print JSON: one object a machine and scheduler
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    timeline: TimelineArgs,
}

/// A row of the result.
#[derive(Serialize)]
struct Row {
    machine: String,
    scheduler: String,
    time_ns: u64,
    /// All work over the time.
    busy_cpus: f64,
    work_ns: u64,
    /// The longest chain of calcs.
    longest_ns: u64,
    pieces: usize,
    wakes: u64,
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Simulate(args) => simulate_recorded(&args),
    }
}

fn simulate_recorded(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    args.timeline.check()?;
    let count = args.machine.len() * args.scheduler.len();
    if count > 1 && args.timeline.has_one() {
        bail!(
            "--timeline: a page or a trace has one machine and one scheduler: give --machine and --scheduler once (a drawing has all of them, beneath each other)"
        );
    }
    let (pieces, names) = pieces(&args.graph)?;
    let costs = if args.free { Costs::FREE } else { Costs::of_recorded() };
    let (work_ns, longest_ns) = (pieces.work_ns(), pieces.longest_ns());
    let (mut rows, mut timelines) = (Vec::new(), Vec::new());
    let bar = bar((count * pieces.len()) as u64).with_message("pieces");
    for machine in &args.machine {
        let topology: Topology = machine.parse().with_context(|| format!("--machine {machine}"))?;
        for scheduler in &args.scheduler {
            let options: Options = scheduler.parse().with_context(|| format!("--scheduler {scheduler}"))?;
            let mut ran = Vec::new();
            let mut watch = |worked: Worked<'_, Option<u64>>| {
                ran.extend(worked.task.map(|piece| (piece, worked.leaf, worked.start_ns, worked.end_ns)));
                if worked.task.is_some() && ran.len().is_multiple_of(AT_A_TIME) {
                    bar.inc(AT_A_TIME as u64);
                }
            };
            let report = simulate_watched(&pieces, &topology, options, &costs, args.seed, &mut watch);
            ensure!(report.stuck == 0, "{} pieces wait for each other", report.stuck);
            if args.timeline.timeline.is_some() {
                let title = args.graph.file_name().unwrap_or_default().to_string_lossy();
                let subtitle = format!("{machine}, scheduler {scheduler}: {} pieces of tasks", pieces.len());
                timelines.push(timeline::of(&pieces, &names, topology.leaves(), &ran, (&title, &subtitle)));
            }
            rows.push(Row {
                machine: machine.clone(),
                scheduler: scheduler.clone(),
                time_ns: report.time_ns,
                busy_cpus: work_ns as f64 / report.time_ns.max(1) as f64,
                work_ns,
                longest_ns,
                pieces: pieces.len(),
                wakes: report.wakes,
            });
        }
    }
    bar.finish_and_clear();
    if let Some(told) = args.timeline.write_beside(timelines)? {
        castell_host::say(&told);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(ExitCode::SUCCESS);
    }
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "{} pieces, {:.3} ms of work, the longest chain {:.3} ms",
        pieces.len(),
        ms(work_ns),
        ms(longest_ns)
    );
    println!("{:20} {:24} {:>12} {:>10}", "machine", "scheduler", "time", "busy cpus");
    for row in &rows {
        let time = format!("{:.3} ms", ms(row.time_ns));
        println!("{:20} {:24} {time:>12} {:>10.2}", row.machine, row.scheduler, row.busy_cpus);
    }
    Ok(ExitCode::SUCCESS)
}

/// The calcs of a file's only rank, in an order in which none waits for a later one, and how they are called.
fn pieces(file: &Path) -> anyhow::Result<(Pieces, Vec<String>)> {
    let program = source::program(file)?;
    let mut graphs = program.graphs();
    let first = graphs.next().with_context(|| format!("{}: no rank", file.display()))?;
    if first.0 != Rank(0) || graphs.next().is_some() {
        bail!("{}: recorded tasks are a graph of one rank", file.display());
    }
    let graph: &Graph = first.1;
    let count = graph.vertices().count();
    let mut before = vec![Vec::new(); count];
    let mut after = vec![Vec::new(); count];
    for edge in graph.edges() {
        before[edge.target.index()].push(edge.prerequisite.index());
        after[edge.prerequisite.index()].push(edge.target.index());
    }
    let mut missing: Vec<usize> = before.iter().map(Vec::len).collect();
    // Files name a body's end before its beginning here and there: sorted, lowest first, so that creation keeps its order.
    let mut ready: std::collections::BTreeSet<usize> =
        (0..count).filter(|&vertex| missing[vertex] == 0).collect();
    let vertices: Vec<_> = graph.vertices().collect();
    let mut numbers = vec![0_u64; count];
    let (mut pieces, mut names) = (Pieces::default(), Vec::with_capacity(count));
    while let Some(vertex) = ready.pop_first() {
        let Op::Calc { ns } = graph.op(vertices[vertex]) else {
            bail!("{}: recorded tasks are calcs, and vertex {vertex} is none", file.display());
        };
        let wait_for = before[vertex].iter().map(|&before| numbers[before]).collect();
        numbers[vertex] = pieces.add(ns, wait_for);
        let label = graph.label(vertices[vertex]).map(str::to_owned);
        names.push(label.unwrap_or_else(|| format!("piece {vertex}")));
        for &next in &after[vertex] {
            missing[next] -= 1;
            if missing[next] == 0 {
                ready.insert(next);
            }
        }
    }
    ensure!(pieces.len() == count, "{}: its vertices wait for each other", file.display());
    Ok((pieces, names))
}
