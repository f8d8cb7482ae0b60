//! `--timeline`: what the preloaded library wrote for Perfetto, in the other formats.

use crate::timeline::TimelineArgs;
use anyhow::Context;
use castell_base::Rank;
use castell_trace::Timeline;
use castell_trace::calls::{CollectiveCall, timeline};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// Draws the calls that stand in the file, and removes it. Where there is none, the program ended before MPI_Finalize, and that is said.
pub fn draw(file: &Path, title: String, args: &TimelineArgs) -> anyhow::Result<()> {
    let Ok(text) = std::fs::read(file) else {
        castell_host::say(
            "no timeline: rank 0 writes it in MPI_Finalize, beside the file that was asked for (is that folder shared between the hosts?)",
        );
        return Ok(());
    };
    // It has done its part, whatever is in it.
    let _ = std::fs::remove_file(file);
    let trace: Value = serde_json::from_slice(&text).context("the ranks' timeline is not whole")?;
    let drawn = Timeline { title, subtitle: "collective calls".into(), ..of_trace(&trace) };
    if let Some(line) = args.write(drawn)? {
        castell_host::say(&line);
    }
    Ok(())
}

/// Blocking calls are slices, others begin and end as spans of their own.
fn of_trace(trace: &Value) -> Timeline {
    let events = trace["traceEvents"].as_array().map_or(&[][..], Vec::as_slice);
    let number = |event: &Value, key: &str| event[key].as_f64().unwrap_or(0.0);
    let ps = |us: f64| (us.max(0.0) * 1e6).round() as u64;
    let id = |event: &Value| (event["pid"].as_u64(), event["id"].as_str().map(str::to_owned));
    let of_phase = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    let ends: HashMap<_, f64> = of_phase("e").map(|event| (id(event), number(event, "ts"))).collect();
    let call = |event: &Value, end_us: f64, is_blocking| CollectiveCall {
        rank: Rank(event["pid"].as_u64().and_then(|rank| rank.try_into().ok()).unwrap_or(u32::MAX)),
        operation: event["name"].as_str().unwrap_or("call").to_owned(),
        details: format!(
            " of {} b{}",
            event["args"]["bytes"].as_u64().unwrap_or(0),
            if event["args"]["through"] == "castell" { "" } else { " (the MPI's own)" }
        ),
        ranks: event["args"]["ranks"].as_u64().and_then(|ranks| ranks.try_into().ok()).unwrap_or(0),
        is_blocking,
        start_ps: ps(number(event, "ts")),
        end_ps: ps(end_us.max(number(event, "ts"))),
    };
    let blocking = of_phase("X").map(|event| call(event, number(event, "ts") + number(event, "dur"), true));
    let started = of_phase("b").map(|event| call(event, ends.get(&id(event)).copied().unwrap_or(0.0), false));
    let calls = blocking.chain(started).collect();
    // Each rank has a name, also one that made no call.
    let ranks = of_phase("M").filter_map(|event| event["pid"].as_u64()).max().map_or(0, |last| last + 1);
    timeline(ranks.try_into().unwrap_or(0), calls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_are_read_and_nonsense_is_none() {
        let trace = json!({"traceEvents": [
            {"ph": "M", "pid": 1, "name": "process_name"},
            {"ph": "X", "pid": 0, "ts": 1.5, "dur": 2.0, "name": "bcast", "args": {"bytes": 8, "ranks": 2, "through": "castell"}},
            {"ph": "b", "pid": 1, "ts": 1.0, "id": "1.0", "name": "iallreduce", "args": {"bytes": 16, "ranks": 2, "through": "below"}},
            {"ph": "e", "pid": 1, "ts": 4.0, "id": "1.0"},
            {"ph": "X", "pid": 9, "ts": "soon"}, 7,
        ]});
        let timeline = of_trace(&trace);
        let spans: Vec<_> = timeline
            .spans
            .iter()
            .map(|span| (span.rank.0, &*span.name, span.start_ps, span.end_ps))
            .collect();
        assert!(spans.contains(&(0, "bcast of 8 b", 1_500_000, 3_500_000)), "{spans:?}");
        assert!(
            spans.contains(&(1, "iallreduce of 16 b (the MPI's own)", 1_000_000, 4_000_000)),
            "{spans:?}"
        );
        assert_eq!(timeline.ranks, 2);
        assert_eq!(of_trace(&json!(3)).ranks, 0);
    }
}
