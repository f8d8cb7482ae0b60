//! `castell strategy diff`.

use super::scenario::ScenarioArgs;
use super::simulate::run_script;
use super::source::Source;
use castell_strategy::ResourceId;
use castell_strategy::difference::{Difference, Timed};
use castell_strategy::simulate::{Outcome, Scenario};
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell strategy diff short-term plan-ahead --apps vectors/strategy/kernel-times.csv
  castell strategy diff banking:shared=true banking:shared=false --apps vectors/strategy/kernel-times.csv --governor low";

/// Show where two strategies decide differently about the same applications
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// One strategy
    one: String,
    /// The other
    other: String,
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let scenario = args.scenario.scenario()?;
    let one = run_script(Source::find(&args.one)?.script()?, &scenario)?;
    let other = run_script(Source::find(&args.other)?.script()?, &scenario)?;
    let difference = Difference::between(&one, &other);
    if args.json {
        println!("{:#}", as_json(&scenario, [&one, &other], &difference));
    } else {
        print!("{}", described(args, &scenario, [&one, &other], &difference));
    }
    Ok(ExitCode::SUCCESS)
}

fn described(args: &Args, scenario: &Scenario, outcomes: [&Outcome; 2], difference: &Difference) -> String {
    let [one, other] = outcomes;
    let names = [&args.one, &args.other];
    let wide = names.map(|name| name.len()).into_iter().max().unwrap_or(0);
    let mut text = String::new();
    for (name, outcome) in names.into_iter().zip(outcomes) {
        text += &format!("{name:wide$}  makespan {:.2}s\n", outcome.makespan.0 as f64 / 1e12);
    }
    let Some((first, second)) = difference.first else {
        return text + &format!("all {} decisions are the same\n", difference.same);
    };
    text += &format!("the first {} decisions are the same; then\n", difference.same);
    for (name, (outcome, decided)) in names.into_iter().zip([(one, first), (other, second)]) {
        text += &format!("{name:wide$}  {}\n", decision(scenario, outcome, decided));
    }
    text += &format!("{} of {} ran elsewhere:\n", difference.elsewhere(), one.jobs.len());
    for places in difference.places.iter().filter(|places| places.one != places.other) {
        text += &format!(
            "{:>6} {}: {} instead of {}\n",
            places.collections,
            scenario.applications[places.application].name,
            on(scenario, &places.other),
            on(scenario, &places.one)
        );
    }
    text
}

fn decision(scenario: &Scenario, outcome: &Outcome, decided: Option<Timed>) -> String {
    let Some((at, decision)) = decided else { return "decides nothing more".into() };
    let on = &scenario.machine.resources[decision.resource.0].name;
    format!("after {at}: {} to {on}", outcome.name(scenario, decision.collection))
}

/// Resources one after another; many steps in the same place are one word.
fn on(scenario: &Scenario, resources: &[ResourceId]) -> String {
    let mut names: Vec<&str> =
        resources.iter().map(|resource| scenario.machine.resources[resource.0].name.as_str()).collect();
    names.dedup();
    names.join(", then ")
}

fn as_json(scenario: &Scenario, outcomes: [&Outcome; 2], difference: &Difference) -> serde_json::Value {
    let decision = |outcome: &Outcome, decided: Option<Timed>| {
        decided.map(|(at, decision)| {
            json!({
                "at_s": at.0 as f64 / 1e12, "collection": outcome.name(scenario, decision.collection),
                "resource": scenario.machine.resources[decision.resource.0].name,
            })
        })
    };
    let first =
        difference.first.map(|(one, other)| [decision(outcomes[0], one), decision(outcomes[1], other)]);
    let places: Vec<_> = difference
        .places
        .iter()
        .map(|places| {
            json!({
                "application": &*scenario.applications[places.application].name, "collections": places.collections,
                "places": [on(scenario, &places.one), on(scenario, &places.other)],
            })
        })
        .collect();
    json!({
        "makespan_s": outcomes.map(|outcome| outcome.makespan.0 as f64 / 1e12), "same_decisions": difference.same,
        "first": first, "elsewhere": difference.elsewhere(), "applications": places,
    })
}
