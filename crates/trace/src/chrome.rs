//! The trace event format that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.

use crate::{Activity, Span, Timeline};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes a timeline as a Chrome/Perfetto trace: a process a rank, a track an activity (and more where spans of one
/// activity overlap without nesting), an arrow a message. Times are microseconds there, with six decimals; Perfetto
/// shows whole nanoseconds of them.
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
    let subtitle = Value::from(timeline.subtitle.as_str());
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{title},\"subtitle\":{subtitle}}},")?;
    write!(out, "\"traceEvents\":[")?;
    let mut events = Events { out, first: true };
    for rank in 0..timeline.ranks {
        let name = json!({"name": "process_name", "ph": "M", "pid": rank, "args": {"name": format!("{} {rank}", timeline.rows.name())}});
        events.put(&name)?;
        let order =
            json!({"name": "process_sort_index", "ph": "M", "pid": rank, "args": {"sort_index": rank}});
        events.put(&order)?;
    }
    let mut tracks = Tracks::new(timeline.ranks);
    let mut spans: Vec<&Span> = timeline.spans.iter().collect();
    spans.sort_by_key(|span| (span.start_ps, u64::MAX - span.end_ps));
    for span in spans {
        let (track, is_new) = tracks.place(span);
        if is_new {
            let name = json!({"name": "thread_name", "ph": "M", "pid": span.rank.0, "tid": track,
                "args": {"name": span.activity.name()}});
            events.put(&name)?;
        }
        events.put(&json!({"name": span.name, "cat": span.activity.name(), "ph": "X", "pid": span.rank.0,
            "tid": track, "ts": micros(span.start_ps), "dur": micros(span.end_ps - span.start_ps)}))?;
    }
    for (id, message) in timeline.messages.iter().enumerate() {
        let (from, to) = (message.from.0, message.to.0);
        let (start, end) = (micros(message.sent_ps), micros(message.received_ps));
        events.put(&json!({"name": "message", "cat": "message", "ph": "s", "id": id, "pid": from,
            "tid": track_of(Activity::Send, 0), "ts": start, "args": {"bytes": message.bytes, "tag": message.tag.0}}))?;
        events
            .put(&json!({"name": "message", "cat": "message", "ph": "f", "bp": "e", "id": id, "pid": to,
            "tid": track_of(Activity::Recv, 0), "ts": end}))?;
    }
    for counter in &timeline.counters {
        for (ps, value) in &counter.samples {
            events.put(&json!({"name": counter.name, "ph": "C", "pid": 0, "ts": micros(*ps), "args": {"value": value}}))?;
        }
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

fn micros(ps: u64) -> f64 {
    ps as f64 / 1e6
}

/// Tracks of one activity have numbers of their own: 16 at most, then they share the last.
const TRACKS_AN_ACTIVITY: usize = 16;

fn track_of(activity: Activity, lane: usize) -> usize {
    activity as usize * TRACKS_AN_ACTIVITY + lane
}

/// Finds each span a track on which it overlaps no other.
struct Tracks {
    /// By rank and track: when it is free again; `None`: not used yet.
    free_ps: Vec<[Option<u64>; Activity::ALL.len() * TRACKS_AN_ACTIVITY]>,
}

impl Tracks {
    fn new(ranks: u32) -> Tracks {
        Tracks { free_ps: vec![[None; Activity::ALL.len() * TRACKS_AN_ACTIVITY]; ranks as usize] }
    }

    /// The track of a span, spans coming in order of their starts; and whether it is the track's first.
    fn place(&mut self, span: &Span) -> (usize, bool) {
        let free = &mut self.free_ps[span.rank.index()];
        let lanes = (0..TRACKS_AN_ACTIVITY).map(|lane| track_of(span.activity, lane));
        let fits = lanes.clone().find(|track| free[*track].is_none_or(|free_ps| free_ps <= span.start_ps));
        let track = fits.unwrap_or(track_of(span.activity, TRACKS_AN_ACTIVITY - 1));
        let is_new = free[track].is_none();
        free[track] = Some(free[track].unwrap_or(0).max(span.end_ps));
        (track, is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, Message};
    use castell_base::{Rank, Tag};

    fn span(rank: u32, activity: Activity, start_ps: u64, end_ps: u64) -> Span {
        Span { rank: Rank(rank), name: format!("\"{start_ps}\""), activity, start_ps, end_ps }
    }

    #[test]
    fn spans_that_overlap_lie_on_tracks_of_their_own() {
        let timeline = Timeline {
            title: "two \"ranks\"".into(),
            subtitle: "no <model>".into(),
            ranks: 2,
            spans: vec![
                span(0, Activity::Send, 0, 100_000),
                span(0, Activity::Send, 50_000, 60_000),
                span(0, Activity::Send, 100_000, 200_000),
                span(1, Activity::Recv, 10_000, 1_500_001),
            ],
            messages: vec![Message {
                from: Rank(0),
                to: Rank(1),
                tag: Tag(7),
                bytes: 64,
                sent_ps: 0,
                arrived_ps: 1_500_001,
                received_ps: 1_500_001,
            }],
            counters: vec![Counter { name: "ready".into(), samples: vec![(0, 3), (2_000_000, 1)] }],
            ..Timeline::default()
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
        let (depart, arrive) =
            (events.iter().find(|e| e["ph"] == "s"), events.iter().find(|e| e["ph"] == "f"));
        assert_eq!(depart.expect("an arrow")["args"], json!({"bytes": 64, "tag": 7}));
        assert_eq!(arrive.expect("an arrow")["ts"], json!(1.500001));
        assert_eq!(parsed["otherData"]["subtitle"], "no <model>");
        assert_eq!(parsed["otherData"]["title"], "two \"ranks\"");
        let counted: Vec<_> = events.iter().filter(|event| event["ph"] == "C").collect();
        assert_eq!(counted[1]["args"], json!({"value": 1}));
        assert_eq!(counted[1]["ts"], json!(2.0));
    }
}
