//! `castell run`: a GOAL program, executed by real processes.

mod carrier;
mod execute;
mod noted;
mod over_hosts;
mod progressed;
mod repeats;
mod results;
mod stages;
mod timeline;

pub use over_hosts::{RankArgs, live};

use crate::afford;
use crate::clocks;
use crate::doubts;
use crate::hosts::{Hosts, HostsArgs};
use crate::loaded::{self, PatternArgs};
use crate::predicted::Predicted;
use crate::source;
use crate::timeline::TimelineArgs;
use crate::xdp::joined::word;
use anyhow::{Context as _, bail};
use carrier::{Carrier, InProcess};
use castell_base::Rank;
use castell_comm::hosts::Recorded;
use castell_comm::job::{JobOptions, Net, Progress};
use castell_comm::launch::{Binding, Launch, Outcome};
use castell_comm::{Comm, Job};
use castell_goal::schedule::Schedule;
use castell_host::conditions::{Conditions, Doubt, Setup};
use castell_model::Model;
use castell_sim::{Schedules, Source};
use castell_trace::Timeline;
use castell_xdp::Mode;
use execute::{Rounds, execute};
use progressed::Progressed;
use repeats::Repeats;
use results::{Results, Summary};
use serde_json::json;
use stages::Stages;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Execute a GOAL program with real processes
///
/// One process a rank; each executes its graph over shared memory or TCP, and reports when it was through.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  castell run examples/goal/wavefront.goal
  castell run trace.goal --calc-scale 0.001 --timeline drawing.svg
  castell run trace.goal --timeline for_perfetto.json
  castell run trace.bin --eager 64000 --json
  castell run examples/goal/halo.goal --net tcp
  castell lab 4 -- castell run barrier:dissemination -n 4 --net xdp=eth0 --repeat 100    # in the kernels of four hosts
  castell run examples/goal/pingpong.goal --stages    # where messages' time went
  castell run examples/goal/pingpong.goal --model loggp:L=1us,o=300ns,g=400ns,G=0.1ns --timeline both.svg    # predicted beneath measured
  castell run examples/goal/pingpong.goal --repeat 50 --bind core    # how long it takes, and how much that varies
  castell run examples/goal/halo.goal --hosts a:4,b:4 --timeline drawing.svg    # on two hosts, by ssh; their clocks are compared
  castell lab 2 -- castell run examples/goal/halo.goal    # on two hosts made of namespaces
  castell lab 2 -- castell run allreduce:two-level -n 8 --bytes 64000 --repeat 20    # a pattern, as castell simulate has it

A run that others disturb is said to be so: load, more ranks than processors, ranks that are not bound, processors whose
frequency changes, a hypervisor that takes time away.")]
pub struct Args {
    /// The program: GOAL text, LogGOPSim's binary format, or compiled schedules; `-` is standard input. Or a pattern by its name
    /// (castell simulate --list)
    file: PathBuf,
    #[command(flatten)]
    on: HostsArgs,
    /// What carries messages: shared memory, and TCP between hosts; TCP or libfabric, also between processes of one host; raw Ethernet frames
    /// between hosts; or the kernel of each host, which carries the whole program on where frames arrive, if it fits there (castell xdp)
    #[arg(
        long,
        default_value = "shm",
        value_name = "shm|tcp[+tls][=INTERFACE]|esp[=INTERFACE,...]|fabric[=PROVIDER]|xdp[=INTERFACE]"
    )]
    net: Carrier,
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
    /// Execute it so often in the same processes, all starting together each time, and tell the median, the spread and
    /// outliers; drawings and --stages show the last time
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// Executions before those that count (default: 1 with --repeat, else none)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    warmup: Option<u32>,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// Print where the time of messages went: call, queue, wake, wire, match, completion
    #[arg(long)]
    stages: bool,
    /// Simulate the program too, as this model has it, say where the difference lies, and draw that beneath what was measured (.svg, .png, .pdf)
    #[arg(long, value_name = "MODEL", value_parser = crate::model::constant, conflicts_with = "calc_scale")]
    model: Option<Model>,
    /// Do not check the program first (sends without receives then wait for ever)
    #[arg(long)]
    no_check: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    // Last: its heading would stand above all that follows.
    #[command(flatten)]
    pattern: PatternArgs,
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
    args.timeline.check()?;
    let (schedules, on) = compile(&args)?;
    insist_on_memory(&schedules).with_context(|| args.file.display().to_string())?;
    let ranks = schedules.len() as u32;
    let operations: Vec<usize> = schedules.iter().map(|schedule| schedule.len()).collect();
    let warmup = args.warmup.unwrap_or(u32::from(args.repeat > 1));
    let rounds = (warmup + args.repeat) as usize;
    let rounds = Rounds {
        calc_scale: args.calc_scale,
        count: rounds,
        records: args.timeline.timeline.is_some() || args.stages || args.model.is_some(),
    };
    let results = Results::create(&operations, rounds.count, rounds.records)?;
    let conditions = Conditions::before(Setup { ranks, is_bound: args.bind != Binding::None });
    let launch = Launch {
        job: JobOptions {
            queue_slots: args.queue_slots,
            eager_bytes: args.eager,
            progress: args.progress,
            net: args.net.net(),
            stall_ms: u32::try_from(args.stall.as_millis()).unwrap_or(u32::MAX),
            ..JobOptions::new(ranks)
        },
        binding: args.bind.clone(),
        ..Launch::new(ranks)
    };
    let kernel = args.net.kernel();
    if let Some(interface) = &kernel {
        carrier::insist_on_hosts(interface, on.as_ref().map(|on| &on.places[..]), rounds.records)?;
    }
    let (outcome, clocks) = match on {
        None => {
            tell_if_many(ranks, &args);
            (here(&launch, &schedules, rounds, &results)?, None)
        }
        Some(on) => {
            let program = over_hosts::Program { file: &args.file, pattern: &args.pattern, kernel };
            let (outcome, clocks) = over_hosts::start(on, launch, program, &operations, rounds, &results)?;
            (outcome, Some(clocks))
        }
    };
    let in_kernel = clocks.as_ref().and_then(noted::kernel_mode).filter(|_| kernel.is_some());
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
    let counted = results.rounds(warmup as usize);
    let repeats = (rounds.count > 1 && !counted.is_empty()).then(|| Repeats::new(warmup, counted));
    let doubts = conditions.after();
    let carried = clocks::carried(args.net.net(), clocks.as_ref());
    let recorded = (rounds.records)
        .then(|| timeline::collect(&args.file, &schedules, &results, &summary, args.eager, &carried));
    let predicted = match (&args.model, &recorded) {
        (Some(model), Some(measured)) if summary.failures.is_empty() => {
            let schedules: Vec<Schedule> =
                schedules.iter().map(|schedule| Schedule::clone(schedule)).collect();
            Some(Predicted::new(&Schedules::new(Source::Schedules(&schedules))?, model, measured)?)
        }
        _ => None,
    };
    let findings = Findings { stages, repeats, doubts, clocks, predicted, in_kernel };
    report(&args, &summary, &operations, &findings);
    let timelines = recorded.into_iter().chain(findings.predicted.map(|predicted| predicted.timeline));
    if let (Some(line), false) = (args.timeline.write_beside(timelines.collect())?, args.json) {
        println!("{line}");
    }
    let code = if summary.failures.is_empty() { 0 } else { 1 };
    Ok(ExitCode::from(code))
}

/// All ranks are children of this process.
fn here(
    launch: &Launch,
    schedules: &[Arc<Schedule>],
    rounds: Rounds,
    results: &Results,
) -> anyhow::Result<Outcome> {
    let body = |rank: Rank, job: Job| {
        let progress = Progressed::of(rank, rounds.count);
        let comm = match Comm::try_join(job, rank) {
            Ok(comm) => comm,
            Err(error) => {
                castell_host::say(&error.to_string());
                return 1;
            }
        };
        execute(&schedules[rank.index()], (&comm, &mut InProcess), rounds, results, &|comm, round| {
            progress.show(round);
            comm.job().gate(round as u32 + 1);
            Ok(())
        })
    };
    Ok(launch.fork(&body)?)
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
    let results = Results::create(&operations, 1, true)?;
    let launch = Launch { binding: Binding::Core, ..Launch::new(schedules.len() as u32) };
    let outcome = here(&launch, schedules, Rounds { calc_scale: 1.0, count: 1, records: true }, &results)?;
    let summary = results.summary(&outcome.endings);
    if let Some(failure) = summary.failures.first() {
        bail!("{title}: {failure}");
    }
    let (eager, carried) = (launch.job.eager_bytes, clocks::carried(Net::Shm, None));
    let timeline = timeline::collect(Path::new(title), schedules, &results, &summary, eager, &carried);
    Ok(Timeline { title: title.to_owned(), ..timeline })
}

/// What the ranks execute, and the hosts that they are on, if there are several.
fn compile(args: &Args) -> anyhow::Result<(Vec<Arc<Schedule>>, Option<Hosts>)> {
    let name = args.file.to_string_lossy();
    if loaded::is_pattern(&name) {
        let on = Hosts::of(&args.on, args.pattern.ranks)?;
        let pattern = loaded::pattern(&name, &args.pattern, on.as_ref().map(|on| &on.places[..]))?;
        let schedules = source::schedules(&pattern.program()?, &args.file)?;
        return Ok((schedules.into_iter().map(Arc::new).collect(), on));
    }
    let mut program = source::program(&args.file)?;
    if !args.no_check {
        source::insist(&program, &args.file)?;
    }
    if args.timeline.tells_lines() {
        source::name_lines(&mut program);
    }
    let schedules = source::schedules(&program, &args.file)?;
    let ranks = schedules.len() as u32;
    if ranks == 0 {
        bail!("{}: the program has no ranks", args.file.display());
    }
    if let Some(asked) = args.pattern.ranks.filter(|asked| *asked != ranks) {
        bail!("{} is a program of {ranks} ranks and cannot be run with {asked}", args.file.display());
    }
    let on = Hosts::of(&args.on, Some(ranks))?;
    Ok((schedules.into_iter().map(Arc::new).collect(), on))
}

/// What was found out besides who did what.
struct Findings {
    stages: Option<Stages>,
    repeats: Option<Repeats>,
    doubts: Vec<Doubt>,
    /// Where ranks were on several hosts.
    clocks: Option<Recorded>,
    predicted: Option<Predicted>,
    /// How the kernel's program was at the interfaces, if it carried the ranks' schedules.
    in_kernel: Option<Mode>,
}

fn report(args: &Args, summary: &Summary, operations: &[usize], findings: &Findings) {
    let Findings { stages, repeats, doubts, clocks, predicted, in_kernel } = findings;
    castell_host::say(&summary.failures.join("\n"));
    let (messages, bytes) = (summary.messages.iter().sum::<u64>(), summary.bytes.iter().sum::<u64>());
    if args.json {
        let mut object = json!({"ranks": summary.end_ns.len(), "wall_ns": summary.wall_ns, "end_ns": summary.end_ns,
            "messages": messages, "bytes": bytes, "doubts": doubts::json(doubts)});
        if let Some(repeats) = repeats {
            object["repeat"] = repeats.json();
        }
        if !summary.failures.is_empty() {
            object["error"] = json!(summary.failures[0]);
            object["failures"] = json!(summary.failures);
        }
        if let Some(mode) = in_kernel {
            object["xdp_mode"] = json!(word(*mode));
        }
        if let Some(stages) = stages {
            object["stages"] = stages.json();
        }
        if let Some(clocks) = clocks {
            object["clocks"] = clocks::json(clocks);
        }
        if let Some(predicted) = predicted {
            object["model"] = predicted.json();
        }
        println!("{object}");
        return;
    }
    // Nobody began: a table of zeros says nothing.
    if !summary.failures.is_empty() && summary.end_ns.iter().all(|end_ns| *end_ns == 0) {
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
    if let Some(mode) = in_kernel {
        println!("in the kernels of the hosts, XDP {}", word(*mode));
    }
    if let Some(repeats) = repeats {
        repeats.print();
    }
    if let Some(stages) = stages {
        stages.print();
    }
    if let Some(clocks) = clocks {
        clocks::say(clocks, false);
    }
    if let Some(predicted) = predicted {
        predicted.lines().iter().for_each(|line| println!("{line}"));
    }
    if summary.failures.is_empty() {
        tell_doubts(doubts, repeats.is_some());
    }
}

/// In full to who measures; who ran it once is told that once is not enough.
fn tell_doubts(doubts: &[Doubt], measures: bool) {
    let kinds: Vec<&str> = doubts.iter().map(|doubt| doubt.kind).collect();
    match (measures, kinds.is_empty()) {
        (true, _) => doubts::say(doubts),
        (false, false) => castell_host::say(&format!(
            "one time, and that may be far from the next ({}): --repeat 20 says how far",
            kinds.join(", ")
        )),
        (false, true) => {}
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}
