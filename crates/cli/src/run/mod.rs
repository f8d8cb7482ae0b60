//! `castell run`: a GOAL program, executed by real processes.

mod results;
mod stages;
mod timeline;

use crate::afford;
use crate::source;
use crate::timeline::TimelineArgs;
use anyhow::{Context as _, bail};
use castell_base::Rank;
use castell_comm::job::{JobOptions, Progress};
use castell_comm::launch::{Binding, Launch};
use castell_comm::{Comm, Job};
use castell_goal::schedule::Schedule;
use castell_trace::Timeline;
use results::{Results, Summary};
use serde_json::json;
use stages::Stages;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Execute a GOAL program with real processes
///
/// One process a rank; each executes its graph over shared memory, and reports when it was through.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  castell run examples/goal/wavefront.goal
  castell run trace.goal --calc-scale 0.001 --timeline drawing.svg
  castell run trace.goal --timeline for_perfetto.json
  castell run trace.bin --eager 64000 --json
  castell run examples/goal/pingpong.goal --stages    # where messages' time went")]
pub struct Args {
    /// The program: GOAL text, LogGOPSim's binary format, or compiled schedules; `-` is standard input
    file: PathBuf,
    /// Number of processes; the program's own number of ranks if not given
    #[arg(short = 'n', long = "ranks", value_name = "N")]
    ranks: Option<u32>,
    /// How messages travel
    #[arg(long, value_enum, default_value_t = Transport::Shm)]
    transport: Transport,
    /// 64-byte slots a half of a rank's receive queue, a power of two
    #[arg(long, default_value_t = 2048, value_name = "SLOTS")]
    queue_slots: u32,
    /// Messages up to this size are sent eagerly, larger ones by rendezvous
    #[arg(long, default_value_t = 8192, value_name = "BYTES")]
    eager: u32,
    /// Who carries a run on whose process computes or sleeps: its own thread, the peers, or auto (peers where there are
    /// more ranks than processors)
    #[arg(long, default_value = "auto", value_name = "auto|thread|peers")]
    progress: Progress,
    /// Factor on all computing and sleeping times
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = scale)]
    calc_scale: f64,
    /// Bind ranks to processors: none, core, or a list such as 0,2,4-7
    #[arg(long, default_value = "none")]
    bind: Binding,
    /// After this long without progress, print who waits for whom (10s, 500ms; 0: never)
    #[arg(long, default_value = "10s", value_parser = crate::launch::parse_duration)]
    stall: Duration,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// Print where the time of messages went: call, queue, wake, wire, match, completion
    #[arg(long)]
    stages: bool,
    /// Do not check the program first (sends without receives then wait for ever)
    #[arg(long)]
    no_check: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Transport {
    /// Shared memory
    Shm,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale.is_finite() && scale >= 0.0 => Ok(scale),
        _ => Err("a number from 0 on, such as 0.001".into()),
    }
}

/// From how many ranks on it is said what is about to happen.
const MANY_RANKS: u32 = 2048;

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Transport::Shm = args.transport;
    args.timeline.check()?;
    let schedules = compile(&args)?;
    insist_on_memory(&schedules).with_context(|| args.file.display().to_string())?;
    let ranks = schedules.len() as u32;
    let operations: Vec<usize> = schedules.iter().map(|schedule| schedule.len()).collect();
    let draws = args.timeline.timeline.is_some();
    let results = Results::create(&operations, draws || args.stages)?;
    let launch = Launch {
        job: JobOptions {
            queue_slots: args.queue_slots,
            eager_bytes: args.eager,
            progress: args.progress,
            stall_ms: u32::try_from(args.stall.as_millis()).unwrap_or(u32::MAX),
            ..JobOptions::new(ranks)
        },
        binding: args.bind.clone(),
        ..Launch::new(ranks)
    };
    tell_if_many(ranks, &args);
    let body = |rank: Rank, job: Job| execute(&schedules[rank.index()], rank, job, &results, args.calc_scale);
    let outcome = launch.fork(&body)?;
    if let Some(signal) = outcome.signal {
        let name = castell_host::signal::name(signal);
        if args.json {
            println!("{}", json!({"error": format!("interrupted by {name}")}));
        }
        castell_host::say(&format!("interrupted by {name}"));
        return Ok(ExitCode::from(128 + signal as u8));
    }
    let summary = results.summary(&outcome.endings);
    let stages = args.stages.then(|| Stages::collect(&schedules, &results));
    report(&args, &summary, &operations, stages.as_ref());
    if draws {
        let timeline = timeline::collect(&args.file, &schedules, &results, &summary);
        if let (Some(line), false) = (args.timeline.write(&timeline)?, args.json) {
            println!("{line}");
        }
    }
    let code = if summary.failures.is_empty() { 0 } else { 1 };
    Ok(ExitCode::from(code))
}

/// Refuses what the ranks cannot hold: their scratchpads, and each one's largest message.
fn insist_on_memory(schedules: &[Arc<Schedule>]) -> anyhow::Result<()> {
    let bytes = |schedule: &Arc<Schedule>| {
        u128::from(schedule.scratchpad_bytes()) + u128::from(schedule.max_message_bytes())
    };
    let all: u128 = schedules.iter().map(bytes).sum();
    afford::insist("what the ranks keep and send", all)
}

/// Thousands of processes take long to start and to end, and most who run such a program want to know what it does.
fn tell_if_many(ranks: u32, args: &Args) {
    if ranks >= MANY_RANKS && !args.json {
        let processors = castell_host::topology::Processors::usable().count();
        castell_host::say(&format!(
            "starting {ranks} processes on {processors} processors; \
             `castell simulate {}` needs none of them",
            args.file.display()
        ));
    }
}

/// Executes schedules that name no addresses, one process a rank, and returns when what happened.
pub fn record(schedules: &[Arc<Schedule>], title: &str) -> anyhow::Result<Timeline> {
    let operations: Vec<usize> = schedules.iter().map(|schedule| schedule.len()).collect();
    let results = Results::create(&operations, true)?;
    let launch = Launch { binding: Binding::Core, ..Launch::new(schedules.len() as u32) };
    let body = |rank: Rank, job: Job| execute(&schedules[rank.index()], rank, job, &results, 1.0);
    let outcome = launch.fork(&body)?;
    let summary = results.summary(&outcome.endings);
    if let Some(failure) = summary.failures.first() {
        bail!("{title}: {failure}");
    }
    let timeline = timeline::collect(Path::new(title), schedules, &results, &summary);
    Ok(Timeline { title: title.to_owned(), ..timeline })
}

fn compile(args: &Args) -> anyhow::Result<Vec<Arc<Schedule>>> {
    let program = source::program(&args.file)?;
    if !args.no_check {
        source::insist(&program, &args.file)?;
    }
    let schedules = source::schedules(&program, &args.file)?;
    let ranks = schedules.len() as u32;
    if ranks == 0 {
        bail!("{}: the program has no ranks", args.file.display());
    }
    if let Some(asked) = args.ranks.filter(|asked| *asked != ranks) {
        bail!("{} is a program of {ranks} ranks and cannot be run with {asked}", args.file.display());
    }
    Ok(schedules.into_iter().map(Arc::new).collect())
}

/// One rank's process.
fn execute(schedule: &Arc<Schedule>, rank: Rank, job: Job, results: &Results, calc_scale: f64) -> i32 {
    let comm = Comm::join(job, rank);
    comm.set_calc_scale(calc_scale);
    if results.is_recording() {
        comm.record();
    }
    comm.job().gate(1);
    let start_ns = castell_host::clock::now_ns();
    let outcome = comm.execute_without_addresses(schedule);
    let end_ns = castell_host::clock::now_ns();
    let failure = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(failure.to_string()),
        Err(error) => Some(format!("rank {rank}: {error}")),
    };
    results.enter(rank, start_ns, end_ns, comm.counters(), failure.as_deref());
    results.enter_records(rank, &comm.take_record());
    results.enter_arrivals(rank, &comm.take_arrivals());
    comm.finalize();
    i32::from(failure.is_some())
}

fn report(args: &Args, summary: &Summary, operations: &[usize], stages: Option<&Stages>) {
    castell_host::say(&summary.failures.join("\n"));
    let (messages, bytes) = (summary.messages.iter().sum::<u64>(), summary.bytes.iter().sum::<u64>());
    if args.json {
        let mut object = json!({"ranks": summary.end_ns.len(), "wall_ns": summary.wall_ns, "end_ns": summary.end_ns,
            "messages": messages, "bytes": bytes});
        if !summary.failures.is_empty() {
            object["error"] = json!(summary.failures[0]);
            object["failures"] = json!(summary.failures);
        }
        if let Some(stages) = stages {
            object["stages"] = stages.json();
        }
        println!("{object}");
        return;
    }
    println!("{:>6} {:>12} {:>12} {:>16} {:>14}", "rank", "operations", "messages", "bytes", "end");
    for (rank, operations) in operations.iter().enumerate() {
        let end = milliseconds(summary.end_ns[rank]);
        println!(
            "{rank:>6} {operations:>12} {:>12} {:>16} {end:>14}",
            summary.messages[rank], summary.bytes[rank]
        );
    }
    let total: usize = operations.iter().sum();
    let wall = milliseconds(summary.wall_ns);
    println!("{:>6} {total:>12} {messages:>12} {bytes:>16} {wall:>14}", "all");
    if let Some(stages) = stages {
        stages.print();
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}
