//! What came out: as text, JSON, a drawing and a table.

use super::measured::{Final, Measured, Stop};
use super::{Args, Search};
use castell_knobs::{Boxes, Effect, Effects, Goal, Quartiles, Setting, Space};
use castell_trace::svg::{BoxPanel, BoxPlot, write_box_plot};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Boxes of a knob.
const BOXES: u64 = 10;

pub struct Outcome<'a> {
    pub space: &'a Space,
    pub goal: Goal,
    pub seed: u64,
    pub search: Search,
    pub measured: &'a Measured<'a>,
    pub finals: &'a Result<Vec<Final>, Stop>,
}

/// Prints it, and writes the files that were asked for.
pub fn write(args: &Args, outcome: &Outcome<'_>) -> anyhow::Result<()> {
    if let Some(path) = &args.csv {
        crate::output::write(path, table(outcome))?;
    }
    if let Some(path) = &args.svg {
        let mut drawing = Vec::new();
        write_box_plot(&plot(args, outcome), &args.look.look(), &mut drawing)?;
        crate::picture::write(path, drawing)?;
    }
    if args.json {
        println!("{}", object(args, outcome));
    } else {
        print!("{}", text(args, outcome));
    }
    Ok(())
}

fn text(args: &Args, outcome: &Outcome<'_>) -> String {
    let Outcome { space, measured, .. } = outcome;
    let mut text = String::new();
    let failed = measured.all().filter(|(_, value)| value.is_none()).count();
    let _ = writeln!(
        text,
        "{} random settings, {} by {} search; seed {}{}",
        measured.samples.len(),
        measured.searched.len(),
        outcome.search.name(),
        outcome.seed,
        if failed == 0 {
            String::new()
        } else {
            format!("; {failed} could not be measured: {}", measured.failure.as_deref().unwrap_or_default())
        }
    );
    let effects = Effects::of(space, &measured.samples);
    if let Some(r_squared) = effects.adjusted_r_squared {
        let wide =
            space.knobs().iter().map(|knob| knob.name().len()).max().unwrap_or(0).max("constant".len());
        let _ = writeln!(
            text,
            "\na linear model of the random settings (adjusted R² {r_squared:.3})\n{:wide$}  {:>14}  {:>14}  {:>8}",
            "", "for 1 more", "standard error", "t"
        );
        let names = ["constant"].into_iter().chain(space.knobs().iter().map(castell_knobs::Knob::name));
        for (name, effect) in names.zip([effects.constant].into_iter().chain(effects.knobs.iter().copied())) {
            let _ = match effect {
                Some(effect) => writeln!(
                    text,
                    "{name:wide$}  {:>14.6}  {:>14.6}  {:>8.2}{}",
                    effect.coefficient,
                    effect.standard_error,
                    effect.t(),
                    if effects.is_significant(effect) { " *" } else { "" }
                ),
                None => writeln!(text, "{name:wide$}  {:>14}", "?"),
            };
        }
        let _ = writeln!(text, "*: not by chance (p < 0.001)");
    }
    match outcome.finals {
        Ok(finals) => text += &last(args, outcome, finals),
        Err(Stop::Signal(signal)) => {
            _ = writeln!(
                text,
                "\ninterrupted ({}) before the best settings were measured again",
                castell_host::signal::name(*signal)
            )
        }
        Err(Stop::Nothing(_)) => {}
    }
    text
}

fn last(args: &Args, outcome: &Outcome<'_>, finals: &[Final]) -> String {
    let named = |one: &Final| {
        one.setting.as_ref().map_or("as it was".to_owned(), |setting| words(outcome.space, setting))
    };
    let wide = finals.iter().map(|one| named(one).chars().count()).max().unwrap_or(0);
    let mut text = format!(
        "\nmeasured again in turns, {} rounds\n{:wide$}  {:>14}  {:>14}  {:>14}\n",
        args.rounds, "", "median", "least", "most"
    );
    for one in finals {
        let _ = match Quartiles::of(&one.values) {
            Some(found) => writeln!(
                text,
                "{:wide$}  {:>14.6}  {:>14.6}  {:>14.6}",
                named(one),
                found.median,
                found.least,
                found.most
            ),
            None => writeln!(text, "{:wide$}  {:>14}", named(one), "failed"),
        };
    }
    if let (Some(best), Some(before)) = (best(finals), before(finals)) {
        let _ = writeln!(text, "the best setting comes to {:.3} of what it was", best / before);
    }
    if let (true, Some(why)) = (finals.iter().any(|one| one.values.is_empty()), &outcome.measured.failure) {
        let _ = writeln!(text, "what failed: {why}");
    }
    text
}

fn median(one: &Final) -> Option<f64> {
    Quartiles::of(&one.values).map(|found| found.median)
}

fn best(finals: &[Final]) -> Option<f64> {
    finals.iter().find(|one| one.setting.is_some()).and_then(median)
}

fn before(finals: &[Final]) -> Option<f64> {
    finals.iter().find(|one| one.setting.is_none()).and_then(median)
}

fn words(space: &Space, setting: &Setting) -> String {
    let words = space.knobs().iter().zip(setting).map(|(knob, value)| format!("{}={value}", knob.name()));
    words.collect::<Vec<_>>().join(" ")
}

fn object(args: &Args, outcome: &Outcome<'_>) -> Value {
    let Outcome { space, measured, .. } = outcome;
    let effects = Effects::of(space, &measured.samples);
    let told = |effect: Option<Effect>| {
        effect.map(|effect| {
            json!({ "coefficient": effect.coefficient, "standard_error": effect.standard_error, "significant": effects.is_significant(effect) })
        })
    };
    let knobs = space.knobs().iter().zip(&effects.knobs).map(|(knob, effect)| {
        let (low, high) = knob.range();
        json!({ "knob": knob.name(), "low": low, "high": high, "effect": told(*effect) })
    });
    let knobs: Vec<Value> = knobs.collect();
    let setting = |setting: &Setting| -> Value {
        space
            .knobs()
            .iter()
            .zip(setting)
            .map(|(knob, value)| (knob.name().to_owned(), Value::from(*value)))
            .collect()
    };
    let finals = outcome.finals.as_ref().ok().map(|finals| {
        let of = |one: &Final| {
            let found = Quartiles::of(&one.values);
            json!({ "setting": one.setting.as_ref().map(setting), "median": found.map(|found| found.median), "least": found.map(|found| found.least), "most": found.map(|found| found.most), "count": one.values.len() })
        };
        finals.iter().map(of).collect::<Vec<_>>()
    });
    json!({
        "seed": outcome.seed,
        "search": outcome.search.name(),
        "goal": if outcome.goal == Goal::Least { "least" } else { "most" },
        "samples": measured.samples.len(),
        "searched": measured.searched.len(),
        "failed": measured.all().filter(|(_, value)| value.is_none()).count(),
        "failure": measured.failure,
        "adjusted_r_squared": effects.adjusted_r_squared,
        "constant": told(effects.constant),
        "knobs": knobs,
        "finals": finals,
        "svg": args.svg,
        "csv": args.csv,
    })
}

/// All measurements.
fn table(outcome: &Outcome<'_>) -> String {
    let names = outcome.space.knobs().iter().map(castell_knobs::Knob::name);
    let mut text = ["part"].into_iter().chain(names).chain(["measured"]).collect::<Vec<_>>().join(",") + "\n";
    for (part, rows) in [("samples", &outcome.measured.samples), ("search", &outcome.measured.searched)] {
        for (setting, value) in rows {
            let values = setting.iter().map(ToString::to_string);
            let measured = value.map(|value| value.to_string()).unwrap_or_default();
            text +=
                &[part.to_owned()].into_iter().chain(values).chain([measured]).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
    }
    text
}

/// Of the random settings: those of a search lie where it looked.
fn plot(args: &Args, outcome: &Outcome<'_>) -> BoxPlot {
    let panel = |(place, knob): (usize, &castell_knobs::Knob)| {
        let boxes = Boxes::of(knob, place, &outcome.measured.samples, BOXES).parts.into_iter().map(
            |(first, last, found)| {
                let name = if first == last { first.to_string() } else { format!("{first} to {last}") };
                (name, found.map(|found| [found.least, found.lower, found.median, found.upper, found.most]))
            },
        );
        BoxPanel { label: format!("measured, over {}", knob.name()), boxes: boxes.collect() }
    };
    BoxPlot {
        title: format!("{} random settings", outcome.measured.samples.len()),
        subtitle: args.measure.clone().unwrap_or_default(),
        panels: outcome.space.knobs().iter().enumerate().map(panel).collect(),
    }
}
