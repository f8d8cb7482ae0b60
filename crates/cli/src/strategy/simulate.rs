//! `castell strategy simulate`.

use super::scenario::ScenarioArgs;
use super::source::Source;
use crate::look::LookArgs;
use castell_base::Time;
use castell_luau::Script;
use castell_luau::shipped;
use castell_strategy::Strategy as _;
use castell_strategy::simulate::{Outcome, Scenario, Summary, run as simulate};
use castell_trace::svg::{GanttBar, GanttPanel, GanttPlot, write_gantt};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell strategy simulate --apps vectors/strategy/kernel-times.csv                     all that come with castell
  castell strategy simulate banking constraint --apps vectors/strategy/kernel-times.csv --governor low
  castell strategy simulate banking:shared=false --apps vectors/strategy/kernel-times.csv --log
  castell strategy simulate mine.luau short-term --apps vectors/strategy/kernel-times.csv --svg plans.svg
  castell strategy simulate --recorded monday.jsonl        a day of a daemon (castell daemon --record), as others would have decided
  castell strategy simulate long-term --apps vectors/strategy/kernel-times.csv --governor high,low@60 --forbid low:gpu

A STRATEGY is the name of one that comes with castell (castell strategy list) or a file with a script (docs/src/strategies.md); values of
its parameters follow a colon. The same input gives the same bits on any machine; `fingerprint` in the JSON stands for all starts and ends.";

/// Run applications under strategies in virtual time, and compare
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Strategies; without any, all that come with castell
    strategy: Vec<String>,
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Draw who ran where and when, a panel a strategy
    #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// Print each arrival, decision, start and end, too
    #[arg(long, conflicts_with = "json")]
    log: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One strategy's results.
struct Row {
    asked: String,
    outcome: Outcome,
    summary: Summary,
}

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.svg {
        crate::output::check(path)?;
    }
    let scenario = args.scenario.scenario()?;
    let all = shipped::ALL.map(|shipped| shipped.name.to_owned());
    let asked = if args.strategy.is_empty() { &all[..] } else { &args.strategy };
    let mut rows = Vec::new();
    for asked in asked {
        let source = Source::find(asked)?;
        let outcome = run_script(source.script()?, &scenario)?;
        let summary = Summary::new(&scenario.machine, &outcome);
        rows.push(Row { asked: source.asked, outcome, summary });
    }
    if args.log {
        for row in &rows {
            println!("# {}", row.asked);
            row.outcome.events.iter().for_each(|event| println!("{}", row.outcome.line(&scenario, event)));
        }
    }
    if args.json {
        let strategies: Vec<_> = rows.iter().map(row_json).collect();
        let instances: u32 =
            scenario.applications.iter().map(|application| application.arrivals.count()).sum();
        println!("{:#}", json!({"instances": instances, "strategies": strategies}));
    } else {
        print!("{}", table(&scenario, &rows));
    }
    if let Some(path) = &args.svg {
        let mut drawing = Vec::new();
        write_gantt(&plot(&scenario, &rows), &args.look.look(), &mut drawing)?;
        crate::picture::write(path, drawing)?;
        castell_host::say(&format!("drawing: {} (open it in a browser)", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a scenario under a script; what the script printed goes to standard error.
pub(super) fn run_script(script: Script, scenario: &Scenario) -> anyhow::Result<Outcome> {
    let (printed, name) = (script.printed(), script.name().to_owned());
    let outcome = simulate(scenario, Box::new(script));
    for line in printed.take() {
        castell_host::say(&format!("{name}: {line}"));
    }
    Ok(outcome?)
}

fn table(scenario: &Scenario, rows: &[Row]) -> String {
    let wide = rows.iter().map(|row| row.asked.len()).max().unwrap_or(0).max(16);
    let has_energy = rows.iter().any(|row| row.summary.energy_j.is_some());
    let mut text = format!("{:wide$}   makespan       wait   response  execution  moves", "strategy");
    for resource in &scenario.machine.resources {
        text += &format!("  {:>16}", resource.name);
    }
    text += if has_energy { "      energy\n" } else { "\n" };
    for Row { asked, summary, .. } in rows {
        text += &format!(
            "{asked:wide$} {:>10} {:>10} {:>10} {:>10} {:>6}",
            seconds(summary.makespan.0 as f64 / 1e12),
            seconds(summary.wait_s),
            seconds(summary.response_s),
            seconds(summary.execution_median.0 as f64 / 1e12),
            summary.moves
        );
        for busy in &summary.busy {
            let share = share(busy.time, summary.makespan);
            text += &format!("  {:>16}", format!("{} in {:.0} %", busy.steps, share * 100.0));
        }
        if let Some(energy) = summary.energy_j {
            text += &format!(" {energy:>9.0} J");
        }
        text += "\n";
    }
    text += "wait, response: means; execution: median of what one instance ran; of each resource: steps, and how much of the makespan it was busy\n";
    text
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.2}s")
}

fn share(part: Time, whole: Time) -> f64 {
    part.0 as f64 / whole.0.max(1) as f64
}

fn row_json(row: &Row) -> serde_json::Value {
    let summary = &row.summary;
    let s = |time: Time| time.0 as f64 / 1e12;
    let resources: Vec<_> = summary
        .busy
        .iter()
        .map(|busy| json!({"resource": busy.resource, "steps": busy.steps, "busy_s": s(busy.time)}))
        .collect();
    json!({
        "strategy": row.asked, "makespan_s": s(summary.makespan), "wait_s": summary.wait_s, "response_s": summary.response_s,
        "execution_median_s": s(summary.execution_median), "moves": summary.moves, "resources": resources,
        "energy_j": summary.energy_j, "fingerprint": format!("{:016x}", summary.fingerprint),
    })
}

fn plot(scenario: &Scenario, rows: &[Row]) -> GanttPlot {
    let kinds: Vec<_> =
        scenario.applications.iter().map(|application| application.name.to_string()).collect();
    let counts: Vec<_> = scenario
        .applications
        .iter()
        .map(|application| format!("{} {}", application.arrivals.count(), application.name))
        .collect();
    let panels = rows.iter().map(|row| GanttPanel {
        label: format!("{}: {}", row.asked, seconds(row.summary.makespan.0 as f64 / 1e12)),
        rows: scenario.machine.resources.iter().map(|resource| resource.name.clone()).collect(),
        bars: row
            .outcome
            .stretches
            .iter()
            .map(|stretch| {
                let job = row.outcome.jobs[stretch.job];
                GanttBar {
                    row: stretch.resource.0,
                    from_s: stretch.from.0 as f64 / 1e12,
                    to_s: stretch.to.0 as f64 / 1e12,
                    kind: job.application,
                    name: format!("{}#{}", kinds[job.application], job.instance + 1),
                }
            })
            .collect(),
    });
    GanttPlot { title: "Who ran where".into(), subtitle: counts.join(", "), panels: panels.collect(), kinds }
}
