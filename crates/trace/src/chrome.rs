//! The trace event format that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.

use crate::{Activity, Span, Timeline};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes a timeline as a Chrome/Perfetto trace: a process a rank, a track an activity (and more where spans of one
/// activity overlap without nesting), an arrow a message. Times are microseconds there, with three decimals.
///
/// ```
/// use castell_trace::{Timeline, write_chrome};
/// let mut out = Vec::new();
/// write_chrome(&Timeline { title: "empty".into(), ..Timeline::default() }, &mut out)?;
/// assert!(serde_json::from_slice::<serde_json::Value>(&out)?["traceEvents"].is_array());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Whatever the writer says.
pub fn write_chrome(timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
    let title = Value::from(timeline.title.as_str());
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{title}}},\"traceEvents\":[")?;
    let mut events = Events { out, first: true };
    for rank in 0..timeline.ranks {
        let name =
            json!({"name": "process_name", "ph": "M", "pid": rank, "args": {"name": format!("rank {rank}")}});
        events.put(&name)?;
        let order =
            json!({"name": "process_sort_index", "ph": "M", "pid": rank, "args": {"sort_index": rank}});
        events.put(&order)?;
    }
    let mut tracks = Tracks::new(timeline.ranks);
    let mut spans: Vec<&Span> = timeline.spans.iter().collect();
    spans.sort_by_key(|span| (span.start_ns, u64::MAX - span.end_ns));
    for span in spans {
        let (track, is_new) = tracks.place(span);
        if is_new {
            let name = json!({"name": "thread_name", "ph": "M", "pid": span.rank.0, "tid": track,
                "args": {"name": span.activity.name()}});
            events.put(&name)?;
        }
        events.put(&json!({"name": span.name, "cat": span.activity.name(), "ph": "X", "pid": span.rank.0,
            "tid": track, "ts": micros(span.start_ns), "dur": micros(span.end_ns - span.start_ns)}))?;
    }
    for (id, message) in timeline.messages.iter().enumerate() {
        let (from, to) = (message.from.0, message.to.0);
        let (start, end) = (micros(message.sent_ns), micros(message.received_ns));
        events.put(&json!({"name": "message", "cat": "message", "ph": "s", "id": id, "pid": from,
            "tid": track_of(Activity::Send, 0), "ts": start}))?;
        events
            .put(&json!({"name": "message", "cat": "message", "ph": "f", "bp": "e", "id": id, "pid": to,
            "tid": track_of(Activity::Recv, 0), "ts": end}))?;
    }
    writeln!(out, "]}}")
}

struct Events<'a, W: Write> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> Events<'_, W> {
    fn put(&mut self, event: &Value) -> io::Result<()> {
        let comma = if self.first { "\n" } else { ",\n" };
        self.first = false;
        write!(self.out, "{comma}{event}")
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Tracks of one activity have numbers of their own: 16 at most, then they share the last.
const TRACKS_AN_ACTIVITY: usize = 16;

fn track_of(activity: Activity, lane: usize) -> usize {
    activity as usize * TRACKS_AN_ACTIVITY + lane
}

/// Finds each span a track on which it overlaps no other.
struct Tracks {
    /// By rank and track: when it is free again; `None`: not used yet.
    free_ns: Vec<[Option<u64>; 4 * TRACKS_AN_ACTIVITY]>,
}

impl Tracks {
    fn new(ranks: u32) -> Tracks {
        Tracks { free_ns: vec![[None; 4 * TRACKS_AN_ACTIVITY]; ranks as usize] }
    }

    /// The track of a span, spans coming in order of their starts; and whether it is the track's first.
    fn place(&mut self, span: &Span) -> (usize, bool) {
        let free = &mut self.free_ns[span.rank.index()];
        let lanes = (0..TRACKS_AN_ACTIVITY).map(|lane| track_of(span.activity, lane));
        let fits = lanes.clone().find(|track| free[*track].is_none_or(|free_ns| free_ns <= span.start_ns));
        let track = fits.unwrap_or(track_of(span.activity, TRACKS_AN_ACTIVITY - 1));
        let is_new = free[track].is_none();
        free[track] = Some(free[track].unwrap_or(0).max(span.end_ns));
        (track, is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use castell_base::Rank;

    fn span(rank: u32, activity: Activity, start_ns: u64, end_ns: u64) -> Span {
        Span { rank: Rank(rank), name: format!("\"{start_ns}\""), activity, start_ns, end_ns }
    }

    #[test]
    fn spans_that_overlap_lie_on_tracks_of_their_own() {
        let timeline = Timeline {
            title: "two \"ranks\"".into(),
            ranks: 2,
            spans: vec![
                span(0, Activity::Send, 0, 100),
                span(0, Activity::Send, 50, 60),
                span(0, Activity::Send, 100, 200),
                span(1, Activity::Recv, 10, 1500),
            ],
            messages: vec![Message { from: Rank(0), sent_ns: 0, to: Rank(1), received_ns: 1500 }],
        };
        let mut out = Vec::new();
        write_chrome(&timeline, &mut out).expect("memory takes everything");
        let parsed: Value = serde_json::from_slice(&out).expect("it is JSON");
        let events = parsed["traceEvents"].as_array().expect("a list");
        let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        let tracks: Vec<_> = spans.iter().filter(|span| span["pid"] == 0).map(|span| &span["tid"]).collect();
        assert_eq!(tracks, [&json!(0), &json!(1), &json!(0)]);
        assert_eq!(spans[3]["dur"], json!(0.1));
        assert_eq!(events.iter().filter(|event| event["ph"] == "s" || event["ph"] == "f").count(), 2);
        assert_eq!(parsed["otherData"]["title"], "two \"ranks\"");
    }
}
