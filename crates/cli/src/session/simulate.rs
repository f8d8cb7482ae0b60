//! `castell session simulate`.

use super::chart;
use crate::timeline::TimelineArgs;
use anyhow::{Context as _, bail};
use castell_base::counted;
use castell_policy::placement::Slowdowns;
use castell_policy::session::simulate::{Coefficients, Djsb, Outcome, Speed, Summary, run as simulate};
use castell_policy::session::workload::{LeftOut, Workload, WorkloadError};
use castell_policy::session::{Cluster, Foreseen, Policy, Rules, Shape, Slowdown};
use indicatif::ProgressBar;
use serde_json::json;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  castell session simulate trace.swf.gz                              all policies on a trace, in one table
  castell session simulate lublin:jobs=100000,load=0.9               a generated workload (Lublin-Feitelson)
  castell session simulate djsb --nodes 4 --cores 40                 a long simulation, short analyses beside it
  castell session simulate djsb --nodes 4 --cores 40 --policy sidestep+spread --timeline gantt.svg
  castell session simulate mix.json --slowdowns slowdowns.csv --max-slowdown 1.2 --cores 8    who would slow others waits
  castell session simulate lublin --write trace.swf                  the workload itself

WORKLOAD is a file in the Standard Workload Format (Parallel Workloads Archive) or in JSON (docs/src/sessions.md), either of them
also as gzip leaves it, or a description, `djsb:key=value,...` or `lublin:key=value,...`:
  djsb     simulation=160x1x1000, analysis=32x1x50 (processes x threads x seconds alone), analyses=4, first=100, every=200 (seconds)
  lublin   jobs=10000, processors=256, seed=1, load=0.8, overestimate=3 (estimates are up to so many run times too long)

The same input gives the same bits on any machine; `fingerprint` in the JSON stands for all starts and ends.";

/// Simulate a workload of sessions under one policy, or compare all
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A file, or a description
    workload: String,
    /// Only this policy: wait, surpass, overbook, sidestep or give-way; overbook+spread, sidestep+spread. May be given several times
    #[arg(long, value_name = "POLICY")]
    policy: Vec<Rules>,
    /// Nodes (default: as many as the workload's machine has processors, or as its largest session needs)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Sockets of a node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    sockets: u32,
    /// Cores of a socket
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65536))]
    cores: u32,
    /// Hardware threads of a core
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Memory of a node in bytes; without it, memory is not counted
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    node_memory: Option<u64>,
    /// What sharing does to speed: `tight` (processes wait for each other: all are as slow as the slowest) or `loose`, and
    /// `,bandwidth=N` where N threads use up a node's memory
    #[arg(long, value_name = "MODEL", default_value_t = Speed::default())]
    model: Speed,
    /// How much programs slow each other, as `castell place --slowdowns` reads it; the sessions of a workload in JSON say which `program` they run
    #[arg(long, value_name = "FILE.csv")]
    slowdowns: Option<PathBuf>,
    /// Sessions wait where they, or one beside them, would be slowed down by more than this factor; a session's own `slowdown_max` goes before it
    #[arg(long, value_name = "FACTOR")]
    max_slowdown: Option<Slowdown>,
    /// Sessions of different users may share slots, where a policy has sessions share any; those of a workload in JSON say whose they are (`user`)
    #[arg(long)]
    share_users: bool,
    /// Forget what sessions say about how long they take
    #[arg(long)]
    no_estimates: bool,
    /// How many others may start before a session whose turn it is [default: 32; under give-way 256 once it is due]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    overtaken_max: Option<u32>,
    /// Surpass: how many others may run on the slots of a suspended session before it goes on [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    surpassed_max: Option<u32>,
    /// djsb: the slowdowns that are expected of the simulation and of analyses
    #[arg(long, value_name = "SIMULATION,ANALYSIS", value_parser = pair)]
    expected: Option<(f64, f64)>,
    /// djsb: the constant of the wait coefficient, in seconds (default: what an analysis takes alone)
    #[arg(long, value_name = "SECONDS")]
    wait_constant: Option<f64>,
    /// Write the workload in the Standard Workload Format, too
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Bytes of a workload that is packed: about twenty million sessions.
const WORKLOAD_BYTES_MAX: u64 = 4 << 30;

/// Stretches of a chart that are kept.
const CHART_MAX: usize = 1_000_000;

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.timeline.check()?;
    if args.timeline.timeline.is_some() && args.policy.len() != 1 {
        bail!("a chart shows one policy: say which, as in --policy sidestep");
    }
    let mut workload = read(&args.workload)?;
    if let Some(path) = &args.slowdowns {
        workload.foreseen = foreseen(path)?;
    }
    if let Some(path) = &args.write {
        let mut text = String::new();
        workload.write_swf(&mut text)?;
        crate::output::write(path, text)?;
    }
    for job in &mut workload.jobs {
        if args.no_estimates {
            job.request.estimate = None;
        }
        if args.node_memory.is_none() {
            job.request.memory_bytes = 0;
        }
    }
    let cluster = cluster(&args, &workload)?;
    let mut policies = args.policy.clone();
    if policies.is_empty() {
        policies = Policy::ALL.map(Rules::new).into();
        policies.extend(
            ["overbook+spread", "sidestep+spread"].map(|name| name.parse::<Rules>().expect("a policy")),
        );
    }
    let coefficients = Coefficients {
        expected: args.expected.unwrap_or((1.0, 1.0)),
        wait_constant_ms: args.wait_constant.map(|seconds| seconds * 1e3),
    };
    let mut rows = Vec::new();
    for mut rules in policies {
        rules.overtaken_max = args.overtaken_max.unwrap_or(rules.overtaken_max);
        rules.surpassed_max = args.surpassed_max.unwrap_or(rules.surpassed_max);
        rules.slowdown_max = args.max_slowdown;
        rules.share_users = args.share_users;
        let started = Instant::now();
        let outcome = one(&args, &workload, &cluster, &rules);
        let summary = Summary::new(&workload, &cluster, &outcome, &coefficients);
        rows.push((rules, summary, started.elapsed()));
        if args.timeline.timeline.is_some() {
            let told = args.timeline.write(chart::timeline(&workload, &cluster, &rules, &outcome))?;
            told.iter().for_each(|line| castell_host::say(line));
            if outcome.chart_is_cut {
                castell_host::say(&format!("the chart ends after {CHART_MAX} stretches"));
            }
        }
        if let Some((job, refused)) = outcome.refused.first().filter(|_| rows.len() == 1) {
            let count = counted(outcome.refused.len(), "session");
            castell_host::say(&format!(
                "{count} can never run; the first is {}: {refused}",
                workload.jobs[*job].number
            ));
        }
    }
    if args.json {
        let policies: Vec<_> =
            rows.iter().map(|(rules, summary, wall)| row_json(rules, summary, wall.as_nanos())).collect();
        println!(
            "{:#}",
            json!({"workload": workload.name, "sessions": workload.jobs.len(), "left_out": workload.left_out.total(),
                "remarks": remarks(&workload),
                "nodes": cluster.num_nodes(), "slots": cluster.num_slots(), "model": args.model.to_string(), "policies": policies})
        );
    } else {
        print!(
            "{}",
            table(
                &workload,
                &cluster,
                &rows.into_iter().map(|(rules, summary, _)| (rules, summary)).collect::<Vec<_>>()
            )
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Simulates one policy, with a bar where it takes long.
fn one(args: &Args, workload: &Workload, cluster: &Cluster, rules: &Rules) -> Outcome {
    let bar = match workload.jobs.len() {
        0..20_000 => ProgressBar::hidden(),
        many => ProgressBar::new(many as u64),
    };
    bar.set_style(castell_bench::bar::style("{msg:16} {bar:40} {human_pos} of {human_len} sessions"));
    bar.set_message(rules.to_string());
    let chart_max = if args.timeline.timeline.is_some() { CHART_MAX } else { 0 };
    let outcome = simulate(workload, cluster, rules, &args.model, chart_max, &mut |ended| {
        bar.set_position(ended as u64)
    });
    bar.finish_and_clear();
    outcome
}

/// A description, or else a file.
fn read(text: &str) -> anyhow::Result<Workload> {
    if let Some(described) = Workload::describe(text) {
        return Ok(described?);
    }
    let bytes = fs::read(text).with_context(|| {
        format!(
            "cannot read `{text}`; a workload is a file, or `djsb` or `lublin` with `:key=value` behind it"
        )
    })?;
    let bytes = inflated(bytes).with_context(|| format!("{text}: it begins as gzip's files do, and"))?;
    Workload::read(&bytes, text).map_err(|error: WorkloadError| anyhow::anyhow!("{text}: {error}"))
}

/// How much programs slow each other, by a table.
fn foreseen(path: &Path) -> anyhow::Result<Foreseen> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let table = Slowdowns::parse(&text).with_context(|| path.display().to_string())?;
    Ok(Foreseen::from(&table))
}

/// What gzip has packed, or the bytes themselves.
fn inflated(bytes: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    let packed = flate2::read::MultiGzDecoder::new(&bytes[..]);
    packed
        .take(WORKLOAD_BYTES_MAX + 1)
        .read_to_end(&mut unpacked)
        .context("cannot be unpacked: it is damaged or cut off")?;
    if unpacked.len() as u64 > WORKLOAD_BYTES_MAX {
        bail!("has more than {} GiB in it, more than a workload may have", WORKLOAD_BYTES_MAX >> 30);
    }
    Ok(unpacked)
}

/// What the file says too little or too much about, a sentence each.
fn remarks(workload: &Workload) -> Vec<String> {
    let LeftOut { never_ran, without_processors, without_submission } = workload.left_out;
    let without_estimate = workload.jobs.iter().filter(|job| job.request.estimate.is_none()).count();
    let overrun =
        workload.jobs.iter().filter(|job| job.request.estimate.is_some_and(|most| most < job.run_ms));
    let remarks = [
        (never_ran, "left out: it never ran", "left out: they never ran"),
        (without_processors, "left out: it has no processors", "left out: they have no processors"),
        (without_submission, "left out: nobody knows when it came", "left out: nobody knows when they came"),
        (
            workload.out_of_order,
            "came before the one above it in the file",
            "came before the one above them in the file",
        ),
        (
            workload.long_lines,
            "has more than 18 fields: the rest is not read",
            "have more than 18 fields: the rest is not read",
        ),
        (without_estimate, "says no estimate", "say no estimate"),
        (overrun.count(), "ran longer than its estimate", "ran longer than their estimates"),
    ];
    let said = remarks.into_iter().filter(|(count, ..)| *count > 0);
    said.map(|(count, one, many)| {
        format!("{} {}", counted(count, "session"), if count == 1 { one } else { many })
    })
    .collect()
}

fn cluster(args: &Args, workload: &Workload) -> anyhow::Result<Cluster> {
    let shape = Shape {
        sockets: args.sockets,
        cores: args.cores,
        threads: args.threads,
        memory_bytes: args.node_memory.unwrap_or(u64::MAX),
    };
    let largest = workload
        .jobs
        .iter()
        .map(|job| u64::from(job.request.processes) * u64::from(job.request.threads))
        .max();
    let wanted = workload.processors.map_or(largest.unwrap_or(1), u64::from);
    let nodes = args.nodes.unwrap_or(wanted.div_ceil(shape.slots().max(1)).clamp(1, u32::MAX.into()) as u32);
    Ok(Cluster::uniform(nodes, shape)?)
}

fn table(workload: &Workload, cluster: &Cluster, rows: &[(Rules, Summary)]) -> String {
    let mut text = format!(
        "{}: {}, {} of {} slots together\n",
        workload.name,
        counted(workload.jobs.len(), "session"),
        counted(cluster.num_nodes(), "node"),
        cluster.num_slots(),
    );
    remarks(workload).iter().for_each(|remark| text += &format!("  {remark}\n"));
    let has_djsb = rows.iter().any(|(_, summary)| summary.djsb.is_some());
    text += "policy              wait  execution   response  slowdown  bounded    95 %     max  fairness  speeds  makespan   used  suspended";
    text += if has_djsb { "   E sim   E an.      W      D\n" } else { "\n" };
    for (rules, summary) in rows {
        text += &format!(
            "{rules:16} {:>7} {:>10} {:>10} {:>9.2} {:>8.2} {:>7.1} {:>7.0} {:>9.3} {:>7.3} {:>9} {:>5.1}% {:>10}",
            seconds(summary.wait_ms),
            seconds(summary.execution_ms),
            seconds(summary.response_ms),
            summary.slowdown,
            summary.bounded_slowdown,
            summary.bounded_slowdown_p95,
            summary.bounded_slowdown_max,
            summary.fairness,
            summary.fairness_of_speeds,
            seconds(summary.makespan_ms as f64),
            summary.utilisation * 100.0,
            summary.suspensions,
        );
        if let Some(Djsb { e_simulation, e_analysis, w, d }) = summary.djsb {
            text += &format!(" {e_simulation:>7.2} {e_analysis:>7.2} {w:>6.2} {d:>6.2}");
        }
        text += "\n";
    }
    text += "wait, execution, response: means; bounded: slowdown of sessions that take 10 s alone at least; fairness: Jain's index of it;\n\
             speeds: the same index of the shares of full speed that sessions got (1 / bounded)\n";
    text
}

/// Milliseconds as people read them.
fn seconds(ms: f64) -> String {
    match ms {
        ms if ms < 1e6 => format!("{:.1}s", ms / 1e3),
        ms if ms < 1e8 => format!("{:.0}s", ms / 1e3),
        ms => format!("{:.1}d", ms / 86.4e6),
    }
}

fn row_json(rules: &Rules, summary: &Summary, wall_ns: u128) -> serde_json::Value {
    json!({
        "policy": rules.to_string(), "sessions": summary.jobs, "refused": summary.refused, "wait_ms": summary.wait_ms,
        "execution_ms": summary.execution_ms, "response_ms": summary.response_ms, "slowdown": summary.slowdown,
        "bounded_slowdown": summary.bounded_slowdown, "bounded_slowdown_p95": summary.bounded_slowdown_p95,
        "bounded_slowdown_max": summary.bounded_slowdown_max, "fairness": summary.fairness,
        "fairness_of_speeds": summary.fairness_of_speeds,
        "makespan_ms": summary.makespan_ms, "utilisation": summary.utilisation, "suspensions": summary.suspensions,
        "e_simulation": summary.djsb.map(|djsb| djsb.e_simulation), "e_analysis": summary.djsb.map(|djsb| djsb.e_analysis),
        "w": summary.djsb.map(|djsb| djsb.w), "d": summary.djsb.map(|djsb| djsb.d),
        "fingerprint": format!("{:016x}", summary.fingerprint), "wall_ns": wall_ns as u64,
    })
}

fn pair(text: &str) -> Result<(f64, f64), String> {
    let numbers =
        text.split_once(',').and_then(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?)));
    numbers
        .filter(|(one, other): &(f64, f64)| *one > 0.0 && *other > 0.0)
        .ok_or_else(|| "write two numbers, as in 1.04,2.0".to_owned())
}
