//! What `castell learned` prints and draws.

use super::Known;
use castell_base::counted;
use castell_interference::learn::{Basis, Factor, Hour, Learner, Program, Told};
use castell_trace::Look;
use castell_trace::svg::{Axis, Chart, Point, Series, write_chart};
use serde_json::{Value, json};
use std::path::Path;

/// Hours that are listed and drawn.
const LAST: usize = 24;

/// Programs, pairs and errors.
pub(super) fn all(known: &Known, as_json: bool) {
    let learner = &known.learner;
    let pairs: Vec<(&str, &str)> = learner
        .programs()
        .iter()
        .flat_map(|(id, program)| program.neighbours().into_iter().map(|other| (id.as_str(), other)))
        .collect();
    if as_json {
        let programs: Vec<Value> =
            learner.programs().iter().map(|(id, program)| of_program(learner, id, program)).collect();
        let pairs: Vec<Value> = pairs.iter().map(|(own, other)| of_pair(known, own, other)).collect();
        let hours: Vec<Value> = learner.hours().iter().map(of_hour).collect();
        println!(
            "{:#}",
            json!({
                "file": known.file.display().to_string(),
                "machine": known.machine,
                "comparisons": learner.observed(),
                "noise": learner.noise(),
                "probes": of_factor(learner.probes()),
                "programs": programs,
                "pairs": pairs,
                "hours": hours,
            })
        );
        return;
    }
    println!("{}: {} of {}", known.file.display(), counted(learner.observed(), "comparison"), known.machine);
    let width = learner.programs().keys().map(|id| known.name(id).chars().count()).max().unwrap_or(0).max(8);
    if !learner.programs().is_empty() {
        println!("programs that were seen");
    }
    for id in learner.programs().keys() {
        let class = learner.class(id).map_or("-".to_owned(), |class| class.to_string());
        println!("  {:<width$}  class {class}  {}", known.name(id), id.get(..12).unwrap_or(id));
    }
    probed(known, width);
    if !pairs.is_empty() {
        println!("how much slower one is beside another");
    }
    for (own, other) in pairs {
        let said = learner.predict(own, other);
        println!("  {:<width$}  beside {:<width$}  {said}", known.name(own), known.name(other));
    }
    let hours: Vec<&Hour> = learner.hours().iter().rev().take(LAST).collect();
    if !hours.is_empty() {
        println!(
            "how far off predictions were, each made before it was seen   learned  median    1.05  can't tell"
        );
    }
    for hour in hours.into_iter().rev() {
        let [ours, median, no_contention] =
            [hour.ours(), hour.median(), hour.no_contention()].map(|error| format!("{:.1} %", 100.0 * error));
        println!(
            "  {}  {:<38} {ours:>7} {median:>7} {no_contention:>7} {:>11}",
            clock(hour.hour),
            counted(hour.observed, "comparison"),
            hour.untold
        );
    }
}

/// What programs and a probe have done to each other.
fn probed(known: &Known, width: usize) {
    let learner = &known.learner;
    if learner.programs().values().all(|program| program.probed().is_none()) && learner.probes().is_none() {
        return;
    }
    println!("what they and a probe do to each other, as factors of time");
    if let Some(both) = learner.probes() {
        println!("  {:<width$}  a probe beside another one {}", "", factor(Some(both)));
    }
    for (id, program) in learner.programs() {
        let Some(probed) = program.probed() else { continue };
        println!(
            "  {:<width$}  a probe beside it {}, it beside a probe {}; {}, stood still for {:.2} s",
            known.name(id),
            factor(probed.presses()),
            factor(probed.feels()),
            counted(probed.meetings(), "meeting"),
            probed.still_s()
        );
    }
}

fn factor(factor: Option<Factor>) -> String {
    factor.map_or("-".to_owned(), |Factor { slowdown, low, high }| {
        format!("{slowdown:.2} ({low:.2} to {high:.2})")
    })
}

/// An hour since 1970, as `2026-11-26 07 h` in universal time (days to dates: Hinnant, "chrono-compatible low-level date algorithms").
fn clock(hour: u64) -> String {
    let days = (hour / 24) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02} h UTC", hour % 24)
}

/// Each of some programs among the others, and beside each of them.
pub(super) fn predictions(known: &Known, ids: &[String], as_json: bool) {
    let mut all = Vec::new();
    for (at, own) in ids.iter().enumerate() {
        let others: Vec<&str> =
            ids.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, id)| id.as_str()).collect();
        let among = known.learner.among(own, others.iter().copied());
        if as_json {
            let pairs: Vec<Value> = others.iter().map(|other| of_pair(known, own, other)).collect();
            all.push(
                json!({"program": own, "name": known.name(own), "among": of_told(&among), "pairs": pairs}),
            );
            continue;
        }
        let names: Vec<&str> = others.iter().map(|other| known.name(other)).collect();
        println!("{} beside {}: {among}", known.name(own), names.join(", "));
        if others.len() > 1 {
            for other in others {
                println!("  beside {}: {}", known.name(other), known.learner.predict(own, other));
            }
        }
    }
    if as_json {
        println!("{:#}", json!({"predictions": all}));
    }
}

/// Something is gone.
pub(super) fn forgotten(id: &str, name: &str, as_json: bool) {
    match as_json {
        true => println!("{:#}", json!({"forgotten": {"program": id, "name": name}})),
        false => println!("forgotten: {name} ({})", id.get(..12).unwrap_or(id)),
    }
}

/// The error of the last hours.
pub(super) fn draw(known: &Known, look: &Look, path: &Path) -> anyhow::Result<()> {
    let hours = known.learner.hours();
    let last = hours.back().map_or(0, |hour| hour.hour);
    let first = last.saturating_sub(LAST as u64 - 1);
    let line = |name: &str, error: fn(&Hour) -> f64| {
        let point = |hour: u64| {
            let found = hours.iter().find(|of| of.hour == hour);
            Point::new((hour - first) as f64, found.map(|found| 100.0 * error(found)))
        };
        Series { name: name.to_owned(), points: (first..=last).map(point).collect(), ..Series::default() }
    };
    let series = vec![
        line("learned", Hour::ours),
        line("always the median", Hour::median),
        line("always 1.05", Hour::no_contention),
    ];
    let axis = |label: &str, unit: &str, base| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        base,
        ..Axis::default()
    };
    let chart = Chart {
        title: "How far off predictions of slowdowns are".to_owned(),
        subtitle: format!("{}; hours since {}", known.machine, clock(first)),
        x: axis("", "h", None),
        y: axis("mean error", "%", Some(0.0)),
        series,
        ..Chart::default()
    };
    let mut drawing = Vec::new();
    write_chart(&chart, look, &mut drawing)?;
    crate::picture::write(path, drawing)
}

fn of_program(learner: &Learner, id: &str, program: &Program) -> Value {
    let readings = program.readings();
    json!({
        "program": id,
        "name": program.name,
        "class": learner.class(id).map(|class| class.to_string()),
        "seen_s": program.seen_s,
        "memory_llc_bytes_s": readings.map(|of| of.into_llc()),
        "llc_l2_bytes_s": readings.map(|of| of.into_l2()),
        "l2_l1_bytes_s": readings.map(|of| of.into_l1()),
        "probed": program.probed().map(|probed| json!({
            "presses": of_factor(probed.presses()),
            "feels": of_factor(probed.feels()),
            "meetings": probed.meetings(),
            "still_s": probed.still_s(),
        })),
    })
}

fn of_factor(factor: Option<Factor>) -> Value {
    factor.map_or(
        Value::Null,
        |factor| json!({"slowdown": factor.slowdown, "low": factor.low, "high": factor.high}),
    )
}

fn of_pair(known: &Known, own: &str, other: &str) -> Value {
    let program = known.learner.programs().get(own);
    let observed: Vec<f64> = program.map(|program| program.beside(other).collect()).unwrap_or_default();
    json!({
        "program": own,
        "name": known.name(own),
        "beside": other,
        "beside_name": known.name(other),
        "observed": observed,
        "said": of_told(&known.learner.predict(own, other)),
    })
}

fn of_told(told: &Told) -> Value {
    let basis = told.basis().map(|basis| match basis {
        Basis::Probe => "probe",
        Basis::Profiles => "profiles",
        Basis::Others => "others",
        Basis::Classes => "classes",
        Basis::Median => "median",
    });
    json!({
        "slowdown": told.slowdown,
        "low": told.low,
        "high": told.high,
        "comparisons": told.seen,
        "basis": basis,
        "foretold": told.is_foretold(),
        "cannot_tell": told.cannot_tell(),
        "is_no_effect": told.is_no_effect(),
        "because": told.to_string(),
    })
}

fn of_hour(hour: &Hour) -> Value {
    let [below_5, below_30] = hour.below();
    json!({
        "hour": hour.hour,
        "comparisons": hour.observed,
        "cannot_tell": hour.untold,
        "mean_error": hour.ours(),
        "median_error": hour.median(),
        "no_contention_error": hour.no_contention(),
        "below_5_percent": below_5,
        "below_30_percent": below_30,
    })
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn hours_are_dates() {
        assert_eq!(clock(0), "1970-01-01 00 h UTC");
        // 2000-02-29 23:00:00 is 951865200 s.
        assert_eq!(clock(951_865_200 / 3_600), "2000-02-29 23 h UTC");
        assert_eq!(clock(951_865_200 / 3_600 + 1), "2000-03-01 00 h UTC");
    }
}
