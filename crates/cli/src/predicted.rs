//! `--model`: what a model says of the program that was run, and where the difference lies.

use castell_model::Model;
use castell_sim::instruments::Recorder;
use castell_sim::{Machine, Schedules, Simulation};
use castell_trace::Timeline;
use castell_trace::path::{critical_path, message_parts, parts};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The program under the model.
pub struct Predicted {
    /// What each rank would do.
    pub timeline: Timeline,
    end_ps: u64,
    measured_ps: u64,
    /// What the critical path's time went into: measured and predicted, picoseconds, the greatest difference first.
    parts: Vec<(&'static str, u64, u64)>,
    /// What the model's messages on it took, picoseconds; of the real ones nobody knows.
    message_parts: Vec<(&'static str, u64)>,
}

impl Predicted {
    /// Simulates what was measured.
    pub fn new(schedules: &Schedules<'_>, model: &Model, measured: &Timeline) -> anyhow::Result<Predicted> {
        let mut recorder = Recorder::default();
        let machine = Machine::new(model.clone());
        Simulation::new(schedules, &machine).run_with(&mut recorder)?;
        let timeline = recorder.timeline(schedules);
        let timeline = Timeline {
            title: format!("{}, predicted", measured.title),
            subtitle: model.to_string(),
            only: measured.only.clone(),
            ..timeline
        };
        let (end_ps, measured_ps) = (timeline.end_ps(), measured.end_ps());
        let parts = differences(measured, &timeline);
        let message_parts = message_parts(&timeline, &critical_path(&timeline));
        Ok(Predicted { timeline, end_ps, measured_ps, parts, message_parts })
    }

    /// For people, in lines.
    pub fn lines(&self) -> Vec<String> {
        let ms = |ps: u64| ps as f64 * 1e-9;
        let (predicted, measured) = (ms(self.end_ps), ms(self.measured_ps));
        let times = self.measured_ps as f64 / self.end_ps.max(1) as f64;
        let mut lines = vec![
            format!("predicted {predicted:.3} ms, measured {measured:.3} ms: {times:.2} times as long"),
            format!("  {:<16} {:>12} {:>12} {:>12}", "critical path", "predicted", "measured", "difference"),
        ];
        for (whole, measured, predicted) in &self.parts {
            let (measured, predicted) = (ms(*measured), ms(*predicted));
            let difference = measured - predicted;
            lines.push(format!("  {whole:<16} {predicted:>9.3} ms {measured:>9.3} ms {difference:>+9.3} ms"));
            for (name, ps) in self.message_parts.iter().filter(|_| *whole == "message") {
                lines.push(format!("    {name:<14} {:>9.3} ms", ms(*ps)));
            }
        }
        lines
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let part = |(name, measured, predicted): &(&'static str, u64, u64)| json!({"name": name, "measured_ps": measured, "predicted_ps": predicted});
        let within = |(name, ps): &(&'static str, u64)| json!({"name": name, "predicted_ps": ps});
        json!({
            "predicted_ps": self.end_ps,
            "measured_ps": self.measured_ps,
            "critical_path": self.parts.iter().map(part).collect::<Value>(),
            "message_parts": self.message_parts.iter().map(within).collect::<Value>(),
        })
    }
}

fn differences(measured: &Timeline, predicted: &Timeline) -> Vec<(&'static str, u64, u64)> {
    let mut found: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for (name, ps) in parts(measured, &critical_path(measured)) {
        found.entry(name).or_default().0 = ps;
    }
    for (name, ps) in parts(predicted, &critical_path(predicted)) {
        found.entry(name).or_default().1 = ps;
    }
    let mut parts: Vec<_> = found.into_iter().map(|(name, (one, other))| (name, one, other)).collect();
    parts
        .sort_by_key(|(name, measured, predicted)| (std::cmp::Reverse(measured.abs_diff(*predicted)), *name));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Rank;
    use castell_trace::{Activity, Span};

    #[test]
    fn the_greatest_difference_comes_first() {
        let timeline = |compute: u64, send: u64| {
            let span = |activity, start_ps, end_ps| Span {
                rank: Rank(0),
                name: String::new(),
                activity,
                start_ps,
                end_ps,
            };
            let spans =
                vec![span(Activity::Compute, 0, compute), span(Activity::Send, compute, compute + send)];
            Timeline { ranks: 1, spans, ..Timeline::default() }
        };
        let found = differences(&timeline(100, 90), &timeline(95, 10));
        assert_eq!(found, [("sending", 90, 10), ("computing", 100, 95)]);
    }
}
