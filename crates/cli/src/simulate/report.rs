//! What a simulation prints.

use super::links::Loads;
use super::{Measures, Watched};
use castell_base::{Rank, Time, counted};
use castell_sim::statistics::Summary;
use castell_trace::path::{self, Part, Step};
use castell_trace::{Timeline, Travel};
use serde_json::{Value, json};
use std::fmt::Write;

/// So many ranks' end times, and steps of a critical path, are printed.
const LINES_MAX: usize = 16;

/// One run.
pub struct Report<'a> {
    pub name: &'a str,
    pub model: String,
    pub watched: &'a Watched<'a>,
    pub loads: Option<&'a Loads<'a>>,
    pub path: Option<Path<'a>>,
    pub network: Option<String>,
    pub seed: u64,
    pub wall_ns: u64,
    pub summary: bool,
}

impl Report<'_> {
    /// For programs.
    pub fn json(&self) -> Value {
        let Watched { outcome, measures, .. } = self.watched;
        let mut object = json!({
            "program": self.name,
            "model": self.model,
            "ranks": outcome.ranks,
            "events": outcome.events,
            "makespan_ps": outcome.makespan().0,
            "skew_ps": outcome.skew().0,
            "wall_ns": self.wall_ns,
        });
        if let Some(network) = &self.network {
            object["network"] = network.as_str().into();
        }
        if !self.summary {
            object["end_ps"] = outcome.end.iter().map(|end| end.0).collect();
        }
        if outcome.unreceived > 0 {
            object["unreceived"] = outcome.unreceived.into();
        }
        if let Some(measures) = measures {
            object["measures"] = self.measures_json(measures);
        }
        if let Some(loads) = self.loads {
            object["links"] = loads.json();
        }
        if let Some((makespan, skew)) = self.statistics() {
            object["repeat"] = self.watched.repeats.len().into();
            object["seed"] = self.seed.into();
            object["makespan"] = statistics_json(&makespan);
            object["skew"] = statistics_json(&skew);
        }
        if let Some(path) = &self.path {
            object["critical_path"] = path.steps.iter().map(|step| path.step_json(step)).collect();
            object["critical_path_parts"] = path.parts_json();
        }
        object
    }

    fn measures_json(&self, ((counts, bandwidth), (_, queues)): &Measures) -> Value {
        let mut object = json!({
            "messages": counts.messages(),
            "bytes": counts.bytes(),
            "bytes_per_second_mean": bandwidth.mean(),
            "bytes_under_way_max": bandwidth.under_way_max(),
            "posted_max": queues.posted_max.iter().max().copied().unwrap_or(0),
            "unexpected_max": queues.unexpected_max.iter().max().copied().unwrap_or(0),
            "waiting_mean_ps": self.waiting_mean().0,
        });
        if !self.summary {
            let ranks = (0..self.watched.outcome.ranks).map(Rank);
            object["waiting_ps"] = ranks.map(|rank| self.waiting(rank).0).collect();
        }
        object
    }

    fn waiting(&self, rank: Rank) -> Time {
        let end = self.watched.outcome.end[rank.index()];
        self.watched.measures.as_ref().map_or(Time::ZERO, |(_, (waits, _))| waits.waiting(rank, end))
    }

    fn waiting_mean(&self) -> Time {
        let ranks = self.watched.outcome.ranks;
        let sum: u128 = (0..ranks).map(|rank| u128::from(self.waiting(Rank(rank)).0)).sum();
        Time((sum / u128::from(ranks.max(1))) as u64)
    }

    /// For people.
    pub fn text(&self) -> String {
        let Watched { outcome, measures, .. } = self.watched;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "program   {}, {}, {} events",
            self.name,
            counted(outcome.ranks, "rank"),
            outcome.events
        );
        let _ = writeln!(text, "model     {}", self.model);
        if let Some(network) = &self.network {
            let _ = writeln!(text, "network   {network}");
        }
        let last = outcome.last_rank().map_or(String::new(), |rank| format!(" (rank {rank})"));
        let _ = writeln!(text, "makespan  {}{last}", outcome.makespan());
        let _ = writeln!(text, "skew      {}", outcome.skew());
        if !self.summary && outcome.end.len() <= LINES_MAX {
            for (rank, end) in outcome.end.iter().enumerate() {
                let _ = writeln!(text, "  rank {rank:<4} {end}");
            }
        }
        if let Some(((counts, bandwidth), (_, queues))) = measures {
            let _ = writeln!(text, "messages  {}, {} bytes", counts.messages(), counts.bytes());
            if let Some(mean) = bandwidth.mean() {
                let most = bandwidth.under_way_max();
                let _ = writeln!(
                    text,
                    "bandwidth {:.4} GB/s on average, at most {most} bytes under way",
                    mean / 1e9
                );
            }
            let _ = writeln!(text, "waiting   {} a rank on average", self.waiting_mean());
            let most = |lengths: &[usize]| lengths.iter().max().copied().unwrap_or(0);
            let (posted, unexpected) = (most(&queues.posted_max), most(&queues.unexpected_max));
            let _ = writeln!(
                text,
                "queues    at most {posted} posted receives and {unexpected} unexpected messages at a rank"
            );
        }
        if let Some(loads) = self.loads {
            loads.text(&mut text);
        }
        if let Some((makespan, skew)) = self.statistics() {
            let runs = self.watched.repeats.len();
            let _ = writeln!(text, "{runs} runs from seed {} (above: the first)", self.seed);
            for (name, summary) in [("makespan", makespan), ("skew", skew)] {
                statistics_text(name, &summary, &mut text);
            }
        }
        if let Some(path) = &self.path {
            path.text(&mut text);
        }
        text
    }

    /// Of makespans and skews, where there are several.
    fn statistics(&self) -> Option<(Summary, Summary)> {
        let repeats = &self.watched.repeats;
        let (makespans, skews): (Vec<Time>, Vec<Time>) = repeats.iter().copied().unzip();
        if repeats.len() < 2 { None } else { Some((Summary::of(&makespans)?, Summary::of(&skews)?)) }
    }
}

/// What the end had to wait for.
pub struct Path<'a> {
    timeline: &'a Timeline,
    steps: Vec<Step>,
}

impl Path<'_> {
    /// The critical path of what was recorded.
    pub fn of(timeline: &Timeline) -> Path<'_> {
        Path { timeline, steps: path::critical_path(timeline) }
    }

    fn text(&self, text: &mut String) {
        let all: u64 = self.steps.iter().map(|step| step.end_ps - step.start_ps).sum();
        let _ = writeln!(text, "critical path, {} steps:", self.steps.len());
        let line = |name: &str, ps: u64, text: &mut String| {
            let percent = ps as f64 * 100.0 / all.max(1) as f64;
            let _ = writeln!(text, "  {name:<18} {:>12} {percent:>5.1} %", Time(ps).to_string());
        };
        for (name, ps) in path::parts(self.timeline, &self.steps) {
            line(name, ps, text);
            if name == "message" {
                let within = path::message_parts(self.timeline, &self.steps);
                within.iter().for_each(|(name, ps)| line(&format!("  {name}"), *ps, text));
            }
        }
        let skipped = self.steps.len().saturating_sub(LINES_MAX);
        if skipped > 0 {
            let _ = writeln!(text, "  ... {skipped} steps before (--json has them all)");
        }
        for step in &self.steps[skipped..] {
            let [started, finished] = [step.start_ps, step.end_ps].map(|ps| Time(ps).to_string());
            let (rank, name) = (step.rank, step.name(self.timeline));
            let what = match step.part {
                Part::Span(span) => format!(", {}", self.timeline.spans[span].name),
                Part::Message(message) => {
                    let message = &self.timeline.messages[message];
                    format!(" from rank {}, {} bytes, tag {}", message.from, message.bytes, message.tag)
                }
                _ => String::new(),
            };
            let _ = writeln!(text, "  {started:>12} {finished:>12}  rank {rank}: {name}{what}");
        }
    }

    fn step_json(&self, step: &Step) -> Value {
        let mut object = json!({
            "rank": step.rank.0,
            "part": step.name(self.timeline),
            "started_ps": step.start_ps,
            "finished_ps": step.end_ps,
        });
        match step.part {
            Part::Span(span) => object["operation"] = self.timeline.spans[span].name.as_str().into(),
            Part::Message(message) => {
                let message = &self.timeline.messages[message];
                object["from"] = message.from.0.into();
                object["bytes"] = message.bytes.into();
                object["tag"] = message.tag.0.into();
            }
            _ => {}
        }
        if let Some(Travel { latency_ps, bandwidth_ps, receiving_ps }) = step.travel(self.timeline) {
            object["latency_ps"] = latency_ps.into();
            object["bandwidth_ps"] = bandwidth_ps.into();
            object["receiving_ps"] = receiving_ps.into();
        }
        object
    }

    fn parts_json(&self) -> Value {
        let parts = path::parts(self.timeline, &self.steps).into_iter().map(|(name, ps)| {
            let within = path::message_parts(self.timeline, &self.steps).into_iter();
            let within = within.map(|(name, ps)| json!({"name": name, "ps": ps})).collect::<Vec<_>>();
            match name {
                "message" => json!({"name": name, "ps": ps, "parts": within}),
                _ => json!({"name": name, "ps": ps}),
            }
        });
        parts.collect()
    }
}

fn statistics_json(summary: &Summary) -> Value {
    let pair = |pair: Option<(f64, f64)>| pair.map(|(low, high)| [low, high]);
    json!({
        "min_ps": summary.min.0,
        "median_ps": summary.median.0,
        "max_ps": summary.max.0,
        "mean_ps": summary.mean_ps,
        "standard_deviation_ps": summary.standard_deviation_ps,
        "mean_95_ps": pair(summary.mean_interval_ps),
        "median_95_ps": summary.median_interval.map(|(low, high)| [low.0, high.0]),
    })
}

fn statistics_text(name: &str, summary: &Summary, text: &mut String) {
    let time = |ps: f64| Time::from_ps_f64(ps);
    let _ = write!(text, "  {name:<8} median {}", summary.median);
    if let Some((low, high)) = summary.median_interval {
        let _ = write!(text, " (95 %: {low} to {high})");
    }
    let _ = write!(text, ", mean {}", time(summary.mean_ps));
    if let Some((low, high)) = summary.mean_interval_ps {
        let _ = write!(text, " (95 %: {} to {})", time(low), time(high));
    }
    let _ = writeln!(text, ", min {}, max {}", summary.min, summary.max);
}
