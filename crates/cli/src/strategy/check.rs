//! `castell strategy check`.

use super::source::Source;
use castell_base::Time;
use castell_strategy::check::{Finding, Report, check};
use castell_strategy::{Fault, Happened, Strategy};
use serde_json::json;
use std::process::ExitCode;
use std::time::SystemTime;

const EXAMPLES: &str = "\
Examples:
  castell strategy check mine.luau
  castell strategy check mine.luau:limit=9 --nodes 2000
  castell strategy check mine.luau --seed 42              the nodes of an earlier run, whose seed was printed

Exit code 0: nothing is wrong; 1: something is, and the first finding is printed with its file and line.";

/// Try a strategy out: its interface, and what it does on random nodes
///
/// Collections with and without times arrive, end and are withdrawn, the governor and a sensor change, ticks pass; two copies of the script
/// are told the same and have to decide the same.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The strategy: one that comes with castell, or a file with a script
    strategy: String,
    /// Random nodes
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    nodes: u64,
    /// Which nodes they are; without it, others every time
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let source = Source::find(&args.strategy)?;
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = args.seed.unwrap_or_else(|| u64::from(since_1970.subsec_nanos()));
    // Once with its parameters, whose errors are no faults of the script.
    let script = source.script()?;
    let tick = script.tick();
    let mut make = || -> Result<Box<dyn Strategy>, Fault> {
        let script = source.script().map_err(|error| match error.downcast::<Fault>() {
            Ok(fault) => fault,
            Err(other) => unreachable!("its parameters were right before: {other}"),
        })?;
        Ok(Box::new(script))
    };
    let report = check(&mut make, seed, args.nodes)?;
    let wrong = report.wrong.as_ref().map(|wrong| told(&wrong.what));
    if args.json {
        println!(
            "{:#}",
            json!({
                "strategy": args.strategy, "seed": seed, "nodes": report.nodes, "happened": report.happened,
                "decisions": report.decisions, "stalled": report.stalled, "wrong": wrong,
            })
        );
    } else {
        print!("{}", described(&args.strategy, tick, seed, &report, wrong.as_deref()));
    }
    Ok(ExitCode::from(u8::from(wrong.is_some())))
}

fn described(name: &str, tick: Option<Time>, seed: u64, report: &Report, wrong: Option<&str>) -> String {
    let ticks = tick.map_or("no ticks".into(), |tick| format!("a tick every {tick}"));
    let mut text = format!(
        "{name}: the interface is right ({ticks}); {} random nodes, seed {seed}: {} things happened, {} decisions\n",
        report.nodes, report.happened, report.decisions
    );
    if let (Some(wrong), Some(place)) = (wrong, &report.wrong) {
        text += &format!(
            "wrong on node {} after {} things: {wrong}\nagain: castell strategy check {name} --seed {seed} --nodes {}\n",
            place.node,
            place.step + 1,
            place.node + 1
        );
        return text;
    }
    text += "nothing is wrong\n";
    if report.decisions == 0 {
        text += "note: it never decides anything, so that nothing would ever run\n";
    } else if report.stalled > 0 {
        text += &format!(
            "note: on {} nodes collections waited at the end although nothing ran and the governor allowed it; right for a budget \
             that is used up, or for what waits for a tick or for another resource\n",
            report.stalled
        );
    }
    text
}

fn told(finding: &Finding) -> String {
    match finding {
        Finding::Fault(fault) => fault.to_string(),
        Finding::Differs { one, other } => {
            let word = |what: &Option<Happened>| match what {
                Some(Happened::Decided(to)) => {
                    format!("collection {} to resource {}", to.collection.0, to.resource.0 + 1)
                }
                Some(_) | None => "nothing".into(),
            };
            format!(
                "two copies that were told the same decided differently ({}, and {}): does it go through a table whose keys are \
                 tables or functions? Their order differs from run to run",
                word(one),
                word(other)
            )
        }
    }
}
